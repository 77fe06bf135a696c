"""Data that ships with the package; see NOTICE for where it comes from."""
