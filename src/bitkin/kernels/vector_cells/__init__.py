"""Kernels of cells around vectors: choosing them, and the rows in them."""
