"""What `bitkin stream` has beside the run itself: signals, stdin and stdout, and what it says."""
