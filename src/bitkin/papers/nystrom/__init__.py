"""NYSTROM: principal directions from a sample of rows and features, and ITQ."""
