"""Tables of bands over the rows of a segment: sorted arrays of row numbers, and the codes row after
row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitkin import threads
from bitkin.arrays import Words
from bitkin.errors import InvalidInputError
from bitkin.index.bands.layout import BandLayout
from bitkin.index.rows import bitmap
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import read_only, unpack_rows_into
from bitkin.kernels.search.band_index import BandArrays, fill_band_into

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed
_ROWS_PER_PIECE = 1 << 16
_PLANES_WITH_SKETCHES = 8  # shorter rows are measured as fast as their sketches
_MOST_ROWS = 2**32 - 1  # row numbers have 32 bits, in tables and in the places of results


@dataclass(frozen=True, eq=False, slots=True)
class BandTables:
    """The bands of the first `n` rows of a segment; rows that were dead or empty then are left
    out.
    """

    n: int
    arrays: BandArrays
    shares_words: bool

    @property
    def nbytes(self) -> int:
        """Bytes held; codes that are the segment's own are not counted again."""
        a = self.arrays
        return (
            a.starts.nbytes
            + a.rows.nbytes
            + a.sketches.nbytes
            + (0 if self.shares_words else a.words.nbytes)
        )


def require_row_numbers(snapshot: Snapshot) -> None:
    """Refuse more rows than there are row numbers, before anything is built over them; segments may
    be merged later.
    """
    n = sum(segment.n for segment in snapshot.segments)
    if n > _MOST_ROWS:
        raise InvalidInputError(
            f"a BandIndex holds at most {_MOST_ROWS:,} rows, removed ones included, got {n:,}. Use "
            "several indexes."
        )


def band_tables(segment: Segment, layout: BandLayout) -> BandTables:
    """Put the rows of a segment into tables."""
    members = np.flatnonzero(bitmap.unpack(segment.searchable, 0, segment.n)).astype(np.uint32)
    key_bits = layout.key_bits
    # A slot a key where there are at most about two a row; else one or two slots a row.
    slot_bits = key_bits if key_bits <= segment.n.bit_length() else segment.n.bit_length() - 1 or 1
    bands, m = layout.bands, len(members)
    starts = np.empty((bands, (1 << slot_bits) + 1), dtype=np.uint32)
    rows = np.empty((bands, m), dtype=np.uint32)
    hashed = slot_bits < key_bits
    spread = (
        _FACTOR if hashed else np.uint64(1),
        np.uint64((1 << key_bits) - 1),
        np.uint64(key_bits - slot_bits),
    )
    words = _rows_in_order(segment)
    arrays = BandArrays(
        words, sketches_of(words), read_only(starts), read_only(rows), spread, hashed
    )
    members = read_only(members)

    def fill(band: int) -> None:
        slots = np.empty(m, dtype=np.uint32)
        fill_band_into(
            arrays.words, members, band, layout.r, spread, slots, starts[band], rows[band]
        )

    threads.run(fill, range(bands))
    return BandTables(segment.n, arrays, shares_words=segment.tiles.shape[1:3] == (1, 1))


def sketches_of(words: Words) -> Words:
    """Return the parity of every symbol, uint64 (n, 1, W), of codes of many planes; of others (0,
    1, W).
    """
    some = words if words.shape[1] >= _PLANES_WITH_SKETCHES else words[:0]
    return read_only(np.bitwise_xor.reduce(some, axis=1, keepdims=True))


def _rows_in_order(segment: Segment) -> Words:
    """Return the codes row after row; of one word each they are so in the tiles."""
    n_planes, n_words = segment.tiles.shape[1:3]
    if n_planes * n_words == 1:
        return read_only(segment.tiles).reshape(-1, 1, 1)[: segment.n]
    # A row begins where a cache line does wherever it can: fewer lines hold it.
    room = np.empty(segment.n * n_planes * n_words + 8, dtype=np.uint64)
    first_word = -room.ctypes.data % 64 // 8
    words = room[first_word : first_word + segment.n * n_planes * n_words].reshape(
        segment.n, n_planes, n_words
    )
    tiles = read_only(segment.tiles)

    def copy(first: int) -> None:
        numbers = np.arange(first, min(first + _ROWS_PER_PIECE, segment.n))
        unpack_rows_into(tiles, read_only(numbers), words[first : first + len(numbers)])

    threads.run(copy, range(0, segment.n, _ROWS_PER_PIECE))
    return read_only(words)
