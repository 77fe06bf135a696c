"""Documents in files of several formats: texts to compare, and the originals to keep."""
