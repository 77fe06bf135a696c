"""What `bitkin dedup` is made of: vectors, and the report of what was found."""
