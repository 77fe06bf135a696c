"""Kernels that make codes: of sets, texts, vectors and streams."""
