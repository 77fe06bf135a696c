"""Rows in, rows out of blocks: 512 codes laid out word after word, so that a scan reads whole
vectors.

blocks[b, p, w, i] is word w of plane p of row 512·b + i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import popcount

_U0, _U1 = np.uint64(0), np.uint64(1)
BLOCK = 512  # part of the file format; kernels elsewhere have it compiled in


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view: Numba compiles apart for arrays that can be written, so input always
    comes like this.
    """
    if not array.flags.writeable and array.flags.c_contiguous:
        return array
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


@kernel
def pack_blocks_into(rows, blocks, first):
    """uint64[N, P, W] -> rows `first` … `first + N` of uint64[B, P, W, 512], written to
    `blocks`.
    """
    n, n_planes, n_words = rows.shape
    done = 0
    while done < n:
        b = (first + done) // BLOCK
        lane = (first + done) % BLOCK
        count = min(BLOCK - lane, n - done)
        block = blocks[b]
        # lane after lane of one word is contiguous in the
        # block, so the inner loop writes whole vectors
        for p in range(n_planes):
            for w in range(n_words):
                for i in range(count):
                    block[p, w, lane + i] = rows[done + i, p, w]
        done += count


@kernel
def unpack_rows_into(blocks, row_numbers, rows):
    """Rows `row_numbers` (int64[N]) of uint64[B, P, W, 512] -> uint64[N, P, W], written to
    `rows`.
    """
    _, n_planes, n_words = rows.shape
    for r in range(len(row_numbers)):
        b = row_numbers[r] // BLOCK
        i = row_numbers[r] % BLOCK
        for p in range(n_planes):
            for w in range(n_words):
                rows[r, p, w] = blocks[b, p, w, i]


@kernel
def move_rows_into(blocks, row_numbers, target, places):
    """Rows `row_numbers` (int64[N]) of one uint64[B, P, W, 512] -> rows `places` (int64[N]) of
    another, `target`.
    """
    _, n_planes, n_words, _ = blocks.shape
    for p in range(n_planes):
        for w in range(n_words):
            for r in range(len(row_numbers)):
                row, place = row_numbers[r], places[r]
                target[place // BLOCK, p, w, place % BLOCK] = blocks[
                    row // BLOCK, p, w, row % BLOCK
                ]


@kernel
def mark_rows_into(wanted, first, n, mask):
    """Set bit `w − first` of uint64[8·B] for every w of int64[N] for which that is one of `n`
    rows.
    """
    for i in range(len(wanted)):
        row = wanted[i] - first
        if 0 <= row < n:
            mask[row >> 6] |= _U1 << np.uint64(row & 63)


@kernel
def count_marked(mask):
    """Count the bits that are set in uint64[M]."""
    count = _U0
    for w in range(len(mask)):
        count += popcount(mask[w])
    return np.int64(count)


@kernel
def list_marked_into(mask, rows):
    """uint64[M] -> int64[as many as bits are set], ascending."""
    found = 0
    for w in range(len(mask)):
        bits = mask[w]
        while bits != _U0:
            lowest = popcount((bits & (~bits + _U1)) - _U1)
            rows[found] = 64 * w + np.int64(lowest)
            found += 1
            bits &= bits - _U1
