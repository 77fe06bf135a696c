"""Scoring sign codes with real-valued queries: a signed sum a row, by one table look-up for every byte of its code.

A table has 256 entries for every byte of a code: the sum of the eight numbers of the query at that place, each with the
sign that the bits of the entry give it. Bits beyond the code are zero in every row and have no number.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel

_BYTE = np.uint64(255)
_EIGHT = np.uint64(8)


@kernel
def _fill_tables(query, tables):
    """float32[C] -> float32[ceil(C / 8), 256], written to `tables`; number j is of bit 7 − j % 8 of byte j // 8."""
    n_bits = query.shape[0]
    for b in range(tables.shape[0]):
        table = tables[b]
        lowest = np.float32(0.0)
        for j in range(8 * b, min(8 * b + 8, n_bits)):
            lowest -= query[j]
        table[0] = lowest
        filled = 1
        for bit in range(8):
            j = 8 * b + 7 - bit
            twice = np.float32(2.0) * query[j] if j < n_bits else np.float32(0.0)
            for entry in range(filled):
                table[filled + entry] = table[entry] + twice
            filled *= 2


@kernel
def estimates_into(words, corrections, places, queries, terms, tables, out):
    """Estimate the distance of query i from row `places[i, k]`; written to `out`, infinity where the place is −1.

    uint64[N, W], float32[N, 2], int64[Q, M], float32[Q, C], float64[Q, 4], work float32[ceil(C / 8), 256]
    -> float64[Q, M]: constant + onto · a + root · √a + factor · f · ⟨signs, query⟩, where (a, f) are the corrections of
    the row and (constant, onto, root, factor) are the terms of the query.
    """
    n_bytes = tables.shape[0]
    for i in range(places.shape[0]):
        _fill_tables(queries[i], tables)
        constant, onto, root, factor = terms[i, 0], terms[i, 1], terms[i, 2], terms[i, 3]
        for k in range(places.shape[1]):
            row = places[i, k]
            if row < 0:
                out[i, k] = math.inf
                continue
            even = np.float32(0.0)
            odd = np.float32(0.0)
            b = 0
            w = 0
            while b + 8 <= n_bytes:
                word = words[row, w]
                even += tables[b, word & _BYTE]
                odd += tables[b + 1, (word >> np.uint64(8)) & _BYTE]
                even += tables[b + 2, (word >> np.uint64(16)) & _BYTE]
                odd += tables[b + 3, (word >> np.uint64(24)) & _BYTE]
                even += tables[b + 4, (word >> np.uint64(32)) & _BYTE]
                odd += tables[b + 5, (word >> np.uint64(40)) & _BYTE]
                even += tables[b + 6, (word >> np.uint64(48)) & _BYTE]
                odd += tables[b + 7, word >> np.uint64(56)]
                b += 8
                w += 1
            if b < n_bytes:
                word = words[row, w]
                while b < n_bytes:
                    even += tables[b, word & _BYTE]
                    word >>= _EIGHT
                    b += 1
            a = np.float64(corrections[row, 0])
            estimate = constant + onto * a
            if root != 0.0:
                estimate += root * math.sqrt(a)
            out[i, k] = estimate + factor * np.float64(corrections[row, 1]) * np.float64(even + odd)
