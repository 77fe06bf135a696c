"""Rows in, rows out of tiles: L codes laid out word after word, so that a scan reads whole vectors.

tiles[t, p, w, i] is word w of plane p of row L·t + i, and 512 / L tiles are a block, the unit of
masks and of bookkeeping. Codes of up to four words have one tile a block: a query reads each word
as a stream of its own, and four streams are what every processor follows. Wider codes have tiles of
16 rows, which a query reads as one run of memory: streams 4 KB apart, one a word, would fall into
the same few sets of the first-level cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import NARROW, popcount

_U0, _U1 = np.uint64(0), np.uint64(1)
BLOCK = 512  # part of the file format, as are the tiles; kernels elsewhere have it compiled in
_STREAMS = 4  # words of a code, of all planes, that are still read as a stream each
_WIDE_TILE_WORDS = 2048  # 16 KB: half of the smallest first-level cache


@cache
def tile_rows(n_planes: int, n_words: int) -> int:
    """Return L, the rows of a tile of such codes."""
    return BLOCK if n_planes * n_words <= _STREAMS else NARROW


@cache
def wide_tile_rows(n_planes: int, n_words: int) -> int:
    """Return the rows of a tile in which many queries take wide codes: a power of two, at least 64
    and, where that is possible, so few that a tile and the queries' candidates stay in the
    first-level cache.
    """
    rows = BLOCK
    while rows > 64 and rows * n_planes * n_words > _WIDE_TILE_WORDS:
        rows //= 2
    return rows


def zero_tiles(n_blocks: int, n_planes: int, n_words: int) -> npt.NDArray[np.uint64]:
    """Return tiles of so many blocks, all words 0.

    Zeros, not leftovers: the system hands out zero pages without touching them, and files get no
    stray memory.
    """
    rows = tile_rows(n_planes, n_words)
    return np.zeros((n_blocks * (BLOCK // rows), n_planes, n_words, rows), dtype=np.uint64)


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
def pack_tiles_into(rows, tiles, first):
    """uint64[N, P, W] -> rows `first` … `first + N` of uint64[T, P, W, L], written to `tiles`."""
    n, n_planes, n_words = rows.shape
    n_lanes = tiles.shape[3]
    done = 0
    while done < n:
        t, lane = divmod(first + done, n_lanes)
        count = min(n_lanes - lane, n - done)
        tile = tiles[t]
        # lane after lane of one word is contiguous in the
        # tile, so the inner loop writes whole vectors
        for p in range(n_planes):
            for w in range(n_words):
                for i in range(count):
                    tile[p, w, lane + i] = rows[done + i, p, w]
        done += count


@kernel
def unpack_rows_into(tiles, row_numbers, rows):
    """Rows `row_numbers` (int64[N]) of uint64[T, P, W, L] -> uint64[N, P, W], written to `rows`."""
    _, n_planes, n_words = rows.shape
    n_lanes = tiles.shape[3]
    for r in range(len(row_numbers)):
        t, i = divmod(row_numbers[r], n_lanes)
        for p in range(n_planes):
            for w in range(n_words):
                rows[r, p, w] = tiles[t, p, w, i]


@kernel
def move_rows_into(tiles, row_numbers, target, places):
    """Rows `row_numbers` (int64[N]) of one uint64[T, P, W, L] -> rows `places` (int64[N]) of
    another, `target`.
    """
    _, n_planes, n_words, n_lanes = tiles.shape
    for r in range(len(row_numbers)):
        t, i = divmod(row_numbers[r], n_lanes)
        place, lane = divmod(places[r], n_lanes)
        for p in range(n_planes):
            for w in range(n_words):
                target[place, p, w, lane] = tiles[t, p, w, i]


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
