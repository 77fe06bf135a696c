"""Givens rotations that make the diagonal of a symmetric matrix equal (the streaming paper's UnifDiag, algorithm 1)."""

from __future__ import annotations

import math

from bitkin.kernels._kernel import kernel


@kernel
def equalize_diagonal_into(matrix, excess, tolerance, columns, below, above):
    """Turn float64[C, C] until its diagonal is equal; return the number of rotations, at most C − 1.

    `excess`, float64[C], is the diagonal minus its mean. `columns`, float64[C, C], is turned along: row k of it is
    column k of the accumulated rotation. `below` and `above`, int64[2·C], are room for two queues. All are overwritten.

    An index whose entry has reached the mean is never looked at again, so its row and column are not kept up to date.
    """
    n = len(excess)
    n_below, n_above = 0, 0
    for k in range(n):
        if excess[k] < -tolerance:
            below[n_below] = k
            n_below += 1
        elif excess[k] > tolerance:
            above[n_above] = k
            n_above += 1
    first_below, first_above, done = 0, 0, 0
    while first_below < n_below and first_above < n_above and done < n - 1:
        j, i = below[first_below], above[first_above]
        first_below += 1
        first_above += 1
        done += 1
        # The smaller root of a' = mean, written so that nothing cancels; the square root is of a positive number.
        b = matrix[i, j]
        root = math.sqrt(b * b - excess[j] * excess[i])
        tangent = excess[j] / (b + root if b >= 0.0 else b - root)
        cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
        sine = tangent * cosine
        for k in range(n):
            matrix[i, k] = sine * matrix[j, k] + cosine * matrix[i, k]
        for k in range(n):
            matrix[k, i] = matrix[i, k]
        for k in range(n):
            finished = cosine * columns[j, k] - sine * columns[i, k]
            columns[i, k] = sine * columns[j, k] + cosine * columns[i, k]
            columns[j, k] = finished
        excess[i] += excess[j]
        excess[j] = 0.0
        if excess[i] < -tolerance:
            below[n_below] = i
            n_below += 1
        elif excess[i] > tolerance:
            above[n_above] = i
            n_above += 1
    return done
