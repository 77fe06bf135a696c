"""`bitkin collection`: a collection in a folder, from the shell."""
