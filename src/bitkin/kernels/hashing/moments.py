"""Sums, squares and ranges of columns, of dense rows and of CSR rows, to the same last bit.

A sum is a pair of float64, high + low, which holds some 106 bits: the square of a column's mean may
be 10²⁰ times its variance. Every column is added up row after row, and a zero changes no sum, so
that neither the form of the rows, nor how they are cut into batches, nor threads change a bit.

`sums` is float64[6, D]: high and low of Σx, high and low of Σx², the smallest and the largest x
that is not zero. `nonzeros` is int64[D].
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel

_SPLIT = 2.0**27 + 1.0  # cuts the 53 bits of a float64 into two halves (Veltkamp)


@inlined_kernel
def _add_number_into(x, column, sums, nonzeros):
    # high + x, and exactly what rounding took away from it (Knuth's two-sum)
    high = sums[0, column]
    total = high + x
    part = total - high
    sums[1, column] += (high - (total - part)) + (x - part)
    sums[0, column] = total
    # x², and exactly what rounding took away from it (Dekker's product)
    square = x * x
    scaled = _SPLIT * x
    left = scaled - (scaled - x)
    right = x - left
    error = ((left * left - square) + 2.0 * left * right) + right * right
    high = sums[2, column]
    total = high + square
    part = total - high
    sums[3, column] += ((high - (total - part)) + (square - part)) + error
    sums[2, column] = total
    if x != 0:
        sums[4, column] = min(sums[4, column], x)
        sums[5, column] = max(sums[5, column], x)
        nonzeros[column] += 1


@kernel
def add_dense_moments_into(rows, first, stop, sums, nonzeros):
    """Add columns `first` to `stop` of rows float[N, D] to `sums` and `nonzeros`."""
    for r in range(rows.shape[0]):
        for column in range(first, stop):
            _add_number_into(np.float64(rows[r, column]), column, sums, nonzeros)


@kernel
def add_sparse_moments_into(numbers, columns, sums, nonzeros):
    """Add the stored numbers of CSR rows, in their order, to `sums` and `nonzeros`."""
    for i in range(len(numbers)):
        _add_number_into(np.float64(numbers[i]), columns[i], sums, nonzeros)
