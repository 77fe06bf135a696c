"""Readers of vector files, one format each."""
