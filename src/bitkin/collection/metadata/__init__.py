"""Metadata of rows: what may be kept, conditions on it, and declared fields in memory."""
