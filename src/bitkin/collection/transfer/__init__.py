"""Rows of a collection to files and back: Parquet, NumPy, JSON lines, and codes from FAISS."""
