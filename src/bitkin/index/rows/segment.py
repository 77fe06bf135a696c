"""Segments: runs of rows in ascending order of id, packed in tiles, which make blocks of 512.

A segment never changes. Its arrays may have room for more rows; the writer fills that room and
makes a new segment with a larger `n` over the same arrays, while searches continue over the old one
and never look beyond their own `n`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from bitkin import threads
from bitkin.arrays import Flags, Ids, Words
from bitkin.code_spec import CodeSpec
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap
from bitkin.io.reader import StoredFile
from bitkin.kernels.blocks import (
    BLOCK,
    move_rows_into,
    pack_tiles_into,
    read_only,
    unpack_rows_into,
    zero_tiles,
)

ROWS_PER_PIECE = 128 * BLOCK


class SegmentTables(Protocol):
    """What an index builds over the first rows of a segment; good as long as its rows are where
    they were.
    """

    @property
    def n(self) -> int:
        """Rows covered; those that were appended later are not."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """`n` rows with ascending ids, some of them perhaps dead (not `alive`) or empty (alive, not
    `searchable`).
    """

    tiles: Words
    """uint64 (tiles of at least n rows in whole blocks, planes, words, rows of a tile)."""
    ids: Ids
    """int64 (at least n)."""
    n: int
    n_alive: int
    alive: Bitmap | None = None
    searchable: Bitmap | None = None
    source: StoredFile | None = None
    """The file whose mapped bytes `tiles` and `ids` are."""
    tables: SegmentTables | None = None
    """Rows are appended and die, but never move or change: the tables of a segment are those of all
    that follow it.
    """

    @property
    def room(self) -> int:
        """Rows that can still be appended; none where the arrays are not ours to write."""
        return (
            min(len(self.tiles) * self.tiles.shape[3], len(self.ids)) - self.n
            if self.tiles.flags.writeable
            else 0
        )

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        bitmaps = sum(b.nbytes for b in (self.alive, self.searchable) if b is not None)
        return (
            self.tiles.nbytes
            + self.ids.nbytes
            + bitmaps
            + (0 if self.tables is None else self.tables.nbytes)
        )

    @property
    def words_per_row(self) -> int:
        """Words of a code, all planes together."""
        return int(self.tiles.shape[1] * self.tiles.shape[2])

    @property
    def consecutive(self) -> bool:
        """Whether the ids of the rows, dead ones included, are numbers without a gap."""
        return self.n > 0 and bool(self.ids[self.n - 1] - self.ids[0] == self.n - 1)

    @property
    def row_ids(self) -> Ids:
        """The ids of all rows, dead ones included."""
        return self.ids[: self.n]

    def live_ids(self) -> Ids:
        """Return the ids of the rows that are alive."""
        return (
            self.row_ids
            if self.alive is None
            else self.row_ids[bitmap.unpack(self.alive, 0, self.n)]
        )

    def find(self, ids: Ids) -> Ids:
        """Return the row of every id, −1 where it is not alive here."""
        if self.n == 0:
            return np.full(len(ids), -1, dtype=np.int64)
        first = self.ids[0]
        if self.consecutive:
            # No number is left out, so nothing has to be looked for.
            there = (ids >= first) & (ids <= self.ids[self.n - 1])
            rows = np.where(there, ids - first, 0)
        else:
            rows = np.searchsorted(self.row_ids, ids)
            # an id above all falls behind the end; the comparison below says that it is not here
            rows[rows == self.n] = 0
            there = self.row_ids[rows] == ids
        if self.alive is not None:
            there &= bitmap.flags_at(self.alive, rows)
        return np.where(there, rows, -1)

    def rows_of(self, ids: Ids) -> Ids:
        """Return the row of every id, all of which are here: nothing is checked."""
        if self.consecutive:
            rows: Ids = ids - self.ids[0]
            return rows
        return np.searchsorted(self.row_ids, ids)

    def find_present(self, ids: Ids) -> Ids:
        """Return the rows of those ids that are alive here, in the order of ids."""
        rows = self.find(ids)
        return rows[rows >= 0]

    def words(self, rows: Ids) -> Words:
        """Unpack some rows."""
        out = np.empty((len(rows), *self.tiles.shape[1:3]), dtype=np.uint64)
        unpack_rows_into(read_only(self.tiles), read_only(rows), out)
        return out

    def tiles_from(self, block: int) -> Words:
        """Return the tiles of all blocks from one on."""
        return self.tiles[_tiles_before(block, self.tiles) :]

    def gather(self, rows: Ids) -> Segment:
        """Return a copy of some rows, in ascending order."""
        tiles = zero_tiles(bitmap.n_blocks(len(rows)), *self.tiles.shape[1:3])
        move_rows_into(
            read_only(self.tiles), read_only(rows), tiles, read_only(np.arange(len(rows)))
        )
        return Segment(tiles, self.ids[rows], n=len(rows), n_alive=len(rows))

    def without(self, rows: Ids) -> Segment:
        """Return the segment with these live rows dead."""
        alive = bitmap.without(self.alive, self.n, rows)
        searchable = bitmap.without(self.searchable, self.n, rows)
        return replace(self, alive=alive, searchable=searchable, n_alive=self.n_alive - len(rows))

    def append(self, words: Words, ids: Ids, empty: Flags | None) -> Segment:
        """Fill the room with rows whose ids are above all ids here, and return the longer
        segment.
        """
        stop = self.n + len(ids)
        # Into the room behind row n, which no older segment over these arrays looks at.
        _pack_rows(words, self.tiles, self.n)
        self.ids[self.n : stop] = ids
        alive, searchable = self.alive, self.searchable
        if alive is not None or searchable is not None or empty is not None:
            there = np.ones(len(ids), dtype=bool)
            if alive is not None:
                alive = bitmap.with_flags(alive, self.n, there)
            if searchable is not None or empty is not None:
                flags = there if empty is None else ~empty
                searchable = bitmap.with_flags(searchable, self.n, flags)
        # by name and not by `replace`, which takes as long as all of the above for one row
        return Segment(
            tiles=self.tiles,
            ids=self.ids,
            n=stop,
            n_alive=self.n_alive + len(ids),
            alive=alive,
            searchable=searchable,
            source=self.source,
            tables=self.tables,
        )

    def without_room(self) -> Segment:
        """Return the same rows over arrays that can no longer be appended to."""
        tiles = self.tiles[: _tiles_before(bitmap.n_blocks(self.n), self.tiles)]
        tiles.flags.writeable = False
        return replace(self, tiles=tiles, ids=self.row_ids)


def new_segment(spec: CodeSpec, capacity: int) -> Segment:
    """Return a segment without rows, with room for at least `capacity`."""
    count = bitmap.n_blocks(capacity)
    tiles = zero_tiles(count, spec.bits_per_symbol, spec.plane_words)
    return Segment(tiles, np.zeros(count * BLOCK, dtype=np.int64), n=0, n_alive=0)


def in_ascending_order(segments: Sequence[Segment]) -> bool:
    """Whether ids ascend from segment to segment, so that the first of equals has the lowest id."""
    filled = [segment for segment in segments if segment.n]
    return all(a.ids[a.n - 1] < b.ids[0] for a, b in pairwise(filled))


def merged_ids(segments: Sequence[Segment]) -> Ids:
    """Return all live ids, ascending."""
    ids = (
        np.concatenate([segment.live_ids() for segment in segments])
        if segments
        else np.empty(0, dtype=np.int64)
    )
    if len(segments) > 1 and not (ids[1:] > ids[:-1]).all():
        ids.sort()
    return ids


def merged_tiles(
    segments: Sequence[Segment], ids: Ids, spec: CodeSpec
) -> Iterator[tuple[Words, Flags]]:
    """Yield tiles and searchable flags of all live rows in the order of `ids`, a bounded number of
    rows at a time.

    Mapped segments are verified first: damage must not get a new checksum.
    """
    for segment in segments:
        if segment.source is not None:
            segment.source.verify()
    for start in range(0, len(ids), ROWS_PER_PIECE):
        wanted = ids[start : start + ROWS_PER_PIECE]
        tiles = zero_tiles(bitmap.n_blocks(len(wanted)), spec.bits_per_symbol, spec.plane_words)
        searchable = np.ones(len(wanted), dtype=bool)
        for segment in segments:
            # rows of the segment within the piece's range of ids, and where each goes in the piece
            first = int(np.searchsorted(segment.row_ids, wanted[0]))
            last = int(np.searchsorted(segment.row_ids, wanted[-1], side="right"))
            rows = first + np.flatnonzero(bitmap.unpack(segment.alive, first, last))
            places = np.searchsorted(wanted, segment.ids[rows])
            move_rows_into(read_only(segment.tiles), read_only(rows), tiles, read_only(places))
            searchable[places] = bitmap.flags_at(segment.searchable, rows)
        yield tiles, searchable


def merge_segments(segments: Sequence[Segment], spec: CodeSpec) -> Segment:
    """Return one segment with the live rows of all."""
    ids = merged_ids(segments)
    whole = new_segment(spec, len(ids))
    whole.ids[: len(ids)] = ids
    searchable = np.ones(len(ids), dtype=bool)
    done = 0
    for tiles, flags in merged_tiles(segments, ids, spec):
        at = _tiles_before(done // BLOCK, whole.tiles)
        whole.tiles[at : at + len(tiles)] = tiles
        searchable[done : done + len(flags)] = flags
        done += len(flags)
    packed = None if searchable.all() else bitmap.pack(searchable)
    return replace(whole, n=len(ids), n_alive=len(ids), searchable=packed)


def _tiles_before(block: int, tiles: Words) -> int:
    """Return where the tiles of a block begin."""
    return block * int(BLOCK // tiles.shape[3])


def _pack_rows(words: Words, tiles: Words, first: int) -> None:
    """Pack rows into tiles from row `first` on, in pieces that share no block."""
    words = read_only(words)
    if len(words) <= ROWS_PER_PIECE:
        pack_tiles_into(words, tiles, first)
        return
    # up to the end of a block that is begun; from there on pieces are whole blocks, so that no two
    # threads write to one
    head = min(len(words), -first % BLOCK)
    cuts = [0, *range(head, len(words), ROWS_PER_PIECE), len(words)]

    def pack(cut: int) -> None:
        pack_tiles_into(words[cuts[cut] : cuts[cut + 1]], tiles, first + cuts[cut])

    threads.run(pack, range(len(cuts) - 1))
