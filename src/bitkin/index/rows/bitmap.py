"""One bit a row, in uint64 words, eight words a block of 512 rows; row r is bit r % 64 of word r //
64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Flags
from bitkin.kernels.blocks import BLOCK

Bitmap = npt.NDArray[np.uint64]


def n_blocks(n_rows: int) -> int:
    """Blocks that hold `n_rows` rows."""
    return -(-n_rows // BLOCK)


def pack(flags: Flags) -> Bitmap:
    """Turn one flag per row into a bitmap; rows of the last block beyond the flags get zeros."""
    padded = np.zeros(n_blocks(len(flags)) * BLOCK, dtype=bool)
    padded[: len(flags)] = flags
    # row i is bit i % 64 of word i // 64
    return np.packbits(padded, bitorder="little").view(np.uint64)


def unpack(bitmap: Bitmap | None, start: int, stop: int) -> Flags:
    """Return the flags of rows `start` … `stop`; no bitmap means that all are set."""
    if bitmap is None:
        return np.ones(stop - start, dtype=bool)
    first = start // 64
    words = bitmap[first : -(-stop // 64)]
    return np.unpackbits(words.view(np.uint8), bitorder="little").view(bool)[
        start - 64 * first : stop - 64 * first
    ]


def flags_at(bitmap: Bitmap | None, rows: npt.NDArray[np.int64]) -> Flags:
    """Return the flags of some rows."""
    if bitmap is None:
        return np.ones(len(rows), dtype=bool)
    flags: Flags = (bitmap[rows >> 6] >> (rows & 63).astype(np.uint64)) & np.uint64(1) != 0
    return flags


def without(bitmap: Bitmap | None, n_rows: int, rows: npt.NDArray[np.int64]) -> Bitmap:
    """Return a copy for `n_rows` rows with the bits of `rows` cleared."""
    words = pack(np.ones(n_rows, dtype=bool)) if bitmap is None else bitmap.copy()
    # .at, since several rows may be in one word
    np.bitwise_and.at(words, rows >> 6, ~(np.uint64(1) << (rows & 63).astype(np.uint64)))
    return words


def with_flags(bitmap: Bitmap | None, n_rows: int, flags: Flags) -> Bitmap:
    """Return a copy for `n_rows` rows and more, whose flags are given; only the end is unpacked."""
    if bitmap is None:
        bitmap = pack(np.ones(n_rows, dtype=bool))
    # whole words are copied; only the word that is begun is unpacked and packed again
    first = n_rows // 64
    words = np.zeros(8 * n_blocks(n_rows + len(flags)), dtype=np.uint64)
    words[:first] = bitmap[:first]
    tail = np.concatenate([unpack(bitmap, 64 * first, n_rows), flags])
    packed = np.zeros(-(-len(tail) // 64) * 64, dtype=bool)
    packed[: len(tail)] = tail
    new = np.packbits(packed, bitorder="little").view(np.uint64)
    words[first : first + len(new)] = new
    return words


def both(a: Bitmap | None, b: Bitmap | None) -> Bitmap | None:
    """Intersect two bitmaps of the same rows."""
    if a is None or b is None:
        return b if a is None else a
    return a & b
