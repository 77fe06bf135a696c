"""What a search found, read from a file and measured against a truth."""
