"""Signs of real numbers as packed bits."""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel

# Where bit j of a word lies so that its bytes are what `np.packbits` makes.
PLACES = np.array([1 << (8 * (j // 8) + 7 - j % 8) for j in range(64)], dtype=np.uint64)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_ZERO = np.uint64(0)


@kernel
def pack_signs_into(values, raw, offset, places, words):
    """float32[N, C] ≥ float32[C] -> uint64[N, ceil(C / 64)], written to `words`; returns whether all are finite.

    `raw` is `values` seen as uint32 and `places` is `PLACES`. Bits beyond C become zero.
    """
    n, n_bits = values.shape
    largest = np.uint32(0)
    for r in range(n):
        for w in range(n_bits // 64):  # whole words apart: a loop of exactly 64 is vectorized
            word = np.uint64(0)
            for j in range(64):
                word |= places[j] if values[r, 64 * w + j] >= offset[64 * w + j] else _ZERO
            words[r, w] = word
        if n_bits % 64 > 0:
            word = np.uint64(0)
            for j in range(n_bits - n_bits % 64, n_bits):
                word |= places[j % 64] if values[r, j] >= offset[j] else _ZERO
            words[r, n_bits // 64] = word
        for j in range(n_bits):
            largest = max(largest, raw[r, j] & _MAGNITUDE)
    return largest < _INFINITY
