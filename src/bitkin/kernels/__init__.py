"""Numba loops only: no checks, no allocation of results, no randomness of their own.

A kernel takes plain C-contiguous arrays, releases the GIL and writes into its arguments (its name
then ends in `_into`). The cache of compiled kernels watches the file a kernel stands in, `_shared`,
and the files whose kernels it imports. Helpers live in one of the first two.
"""

from bitkin.kernels._kernel import kernel

__all__ = ["kernel"]
