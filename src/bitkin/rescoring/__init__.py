"""Distances of a shortlist: estimated from codes, or measured between vectors."""
