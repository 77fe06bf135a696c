"""A search of a collection: its stages, the fast lanes, cells, and rows of several epochs."""
