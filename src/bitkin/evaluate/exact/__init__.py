"""The parts of an exact search: rows, pairs of them, bounds that rule pairs out."""
