"""Rows of an index: segments that never change, snapshots of them, and how one becomes the next."""
