"""Numba loops only: no checks, no allocation of results, no randomness of their own.

A kernel takes plain C-contiguous arrays, releases the GIL and writes into its arguments (its name
then ends in `_into`). Numba's disk cache watches only the file a kernel stands in, so helpers live
beside their callers.
"""

from bitkin.kernels._kernel import kernel

__all__ = ["kernel"]
