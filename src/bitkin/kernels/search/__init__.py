"""Kernels that compare codes and vectors: scans, tables, candidates, rankings."""
