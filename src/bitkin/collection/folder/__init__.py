"""A collection in a folder: SQLite holds the truth, memory what is scanned."""
