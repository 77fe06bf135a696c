"""Vector files in, bitkin files in and out."""
