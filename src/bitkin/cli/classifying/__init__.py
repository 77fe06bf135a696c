"""What the commands of `bitkin classify` share."""
