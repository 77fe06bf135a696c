"""Search in cells: the runs of every query's nearest centres, and rows that are in no cell yet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.code_spec import CodeSpec
from bitkin.errors import InvalidInputError
from bitkin.index.cells.centres import CellCentres, choice_room
from bitkin.index.cells.tables import CellTables, no_cells
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, ragged_neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import allowed_rows
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import (
    LEAST_OF_TILE,
    TILE,
    TILES_AT_ONCE,
    choose_cells_into,
    nearest_in_cells_into,
    within_radius_in_cells_into,
)
from bitkin.kernels.search.scan import block_widths

_POOL_BYTES = 1 << 20  # of candidates, of all queries that are asked at once
_FEW_QUERIES = 16  # are not shared out: a thread costs as much as it saves

Distances = npt.NDArray[np.int32]


class SegmentRows(NamedTuple):
    """A segment as kernels take it: its cells, and rows in none from `tables.n` to `n`."""

    tables: CellTables
    tiles: Words
    ids: Ids
    n: int
    mask: Bitmap


class ReadyRows(NamedTuple):
    """The rows of a snapshot as a search takes them, made once for all searches."""

    segments: list[SegmentRows]
    n_rows: int
    """At least as many as can be found."""
    by_vectors: bool
    """Whether centres are vectors, which codes cannot be compared with."""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, allow: Ids | None = None) -> ReadyRows:
        """Take all rows that can be found, or those allowed."""
        segments = segments_of(snapshot, allow)
        by_vectors = any(not isinstance(rows.tables.centres, CellCentres) for rows in segments)
        return cls(segments, len(snapshot), by_vectors)


def segments_of(snapshot: Snapshot, allow: Ids | None = None) -> list[SegmentRows]:
    """Return all rows that can be found, or those allowed, as kernels take them."""
    filled = [segment for segment in snapshot.segments if segment.n]
    whole = snapshot.whole.parts
    if allow is None:
        masks = [part.mask for part in whole]
    else:
        masks = [read_only(allowed_rows(segment, allow)) for segment in filled]
    return [
        SegmentRows(_tables_of(segment), part.tiles, part.ids, segment.n, mask)
        for segment, part, mask in zip(filled, whole, masks, strict=True)
    ]


class CellSearch(NamedTuple):
    """One search: what is asked of every segment."""

    segments: list[SegmentRows]
    spec: CodeSpec
    n_rows: int
    """At least as many as can be found."""
    probes: int
    words: Words
    """uint64 (q, P, W): queries that are not empty, read-only."""
    chosen: list[Ids] | None = None
    """The cells that every query looks into, int64 (q, probes) for each segment; None where those
    are the nearest by codes.
    """

    def nearest(self, k: int) -> tuple[Neighbors, int]:
        """Return the k nearest rows of every query in its cells and in none, and the fewest that
        were found for one.
        """
        n_queries, farther = len(self.words), self.spec.n_symbols + 1
        if n_queries == 0 or not self.segments:
            return no_neighbors(n_queries, k, farther, np.int32), 0
        ids = np.empty((n_queries, k), dtype=np.int64)
        distances = np.empty((n_queries, k), dtype=np.int32)
        reach = min(k, self.n_rows)
        if n_queries <= _FEW_QUERIES:
            part = slice(0, n_queries)
            return Neighbors(ids, distances), self._nearest(part, reach, ids, distances)
        step = min(
            max(1, _POOL_BYTES // (12 * _pool_room(reach))),
            -(-n_queries // threads.get_threads()),
        )

        def search(first: int) -> int:
            part = slice(first, min(first + step, n_queries))
            return self._nearest(part, reach, ids[part], distances[part])

        fewest = threads.run(search, range(0, n_queries, step))
        return Neighbors(ids, distances), min(fewest)

    def _nearest(self, part: slice, k: int, ids: Ids, distances: Distances) -> int:
        """Search all segments for some queries, one kernel call each; returns the fewest rows that
        were found for a query.
        """
        words = self.words if len(ids) == len(self.words) else self.words[part]
        fewest = 0
        for call, room in zip(self.calls(k), self.rooms(part, len(ids), k), strict=True):
            arguments: Any = *call, words, *room, ids, distances
            fewest = nearest_in_cells_into(*arguments)
        return fewest

    def calls(self, k: int) -> list[tuple[Any, ...]]:
        """Return what the kernel is told of every segment, whatever the queries are."""
        last, farther, asked = len(self.segments) - 1, self.spec.n_symbols + 1, None
        told: list[tuple[Any, ...]] = []
        for number, (tables, tiles, row_ids, n, mask) in enumerate(self.segments):
            shape = tiles.shape[1:3]
            centres = _code_centres(tables if self.chosen is None else no_cells(*shape))
            # segments whose centres are the same have their cells in common
            find = self.chosen is None and centres is not asked
            asked = centres
            told.append((
                *centres.grouped, len(centres), find, *tables.arrays, tiles, row_ids, tables.n, n,
                mask, *block_widths(*shape), k, number == 0, number == last, farther,
            ))  # fmt: skip
        return told

    def rooms(self, part: slice, n_queries: int, k: int) -> list[tuple[Any, ...]]:
        """Return the room that the kernel takes for some queries in every segment: what is in it
        goes from one to the next.
        """
        pool = _pool(n_queries, k)
        asked, room, rooms = None, None, []
        for number, (tables, *_) in enumerate(self.segments):
            if self.chosen is not None:
                room = *_room_for(0, 0), self.chosen[number][part]
            elif room is None or tables.centres is not asked:
                asked = tables.centres
                room = self._room(_code_centres(tables), n_queries)
            rooms.append((*room, *pool))
        return rooms

    def choose(self) -> list[Ids]:
        """Return the cells that every query looks into, for each segment."""
        if self.chosen is not None:
            return self.chosen
        return [self._nearest_cells(segment.tables, self.words) for segment in self.segments]

    def count_rows(self) -> Ids:
        """Return how many rows are compared with every query."""
        counts = np.zeros(len(self.words), dtype=np.int64)
        for (tables, _, _, n, _), cells in zip(self.segments, self.choose(), strict=True):
            counts += n - tables.n + tables.arrays.bounds[cells, 1].sum(axis=1)
        return counts

    def within_radius(self, asked: Ids, n_queries: int, radius: int) -> RaggedNeighbors:
        """Return all rows within `radius` of every query in its cells and in none; query i is
        `asked[i]`.
        """

        def within(query: int) -> list[tuple[Ids, Ids, Distances]]:
            found = []
            for segment in self.segments:
                ids, distances = self._within(segment, self.words[query], radius)
                found.append((np.full(len(ids), asked[query]), ids, distances))
            return found

        pieces = threads.run(within, range(len(asked)))
        return ragged_neighbors(n_queries, [piece for found in pieces for piece in found])

    def _within(self, segment: SegmentRows, query: Words, radius: int) -> tuple[Ids, Distances]:
        """Return ids and distances of a segment's rows within `radius` of a query."""
        tables, tiles, row_ids, n, mask = segment
        cells = self._nearest_cells(tables, query[None])[0]
        most = int(tables.arrays.bounds[cells, 1].sum()) + n - tables.n
        ids, distances = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int32)
        lanes = np.empty(TILE, dtype=np.int32)
        found = within_radius_in_cells_into(
            *tables.arrays, tiles, row_ids, tables.n, n, mask, query, *block_widths(*query.shape),
            lanes, read_only(cells), radius, ids, distances,
        )  # fmt: skip
        return ids[:found], distances[:found]

    def _nearest_cells(self, tables: CellTables, words: Words) -> Ids:
        """Return the cells that every query looks into: int64 (q, probes)."""
        centres = _code_centres(tables)
        n_chosen = min(self.probes, len(centres))
        cells = np.empty((len(words), n_chosen), dtype=np.int64)
        widths, room = block_widths(*words.shape[1:]), choice_room(centres, n_chosen)
        choose_cells_into(*centres.grouped, len(centres), words, *widths, *room, cells)
        return cells

    def _room(self, centres: CellCentres, n_queries: int) -> tuple[Distances, Ids, Ids]:
        """Return what searching takes, and room for the cells that every query looks into."""
        n_chosen = min(self.probes, len(centres))
        n_looked = centres.groups_for(n_chosen)
        n_tiles = max(n_looked, len(centres.grouped.groups))
        return *_room_for(n_tiles, n_looked), np.empty((n_queries, n_chosen), dtype=np.int64)


def _room_for(n_tiles: int, n_looked: int) -> tuple[Distances, Ids]:
    """Return what searching takes: room for distances of so many tiles of centres, and for places
    of tiles and groups.
    """
    n_distances = LEAST_OF_TILE * TILES_AT_ONCE + TILE * max(TILES_AT_ONCE, n_tiles)
    places = np.empty(TILES_AT_ONCE + n_looked, dtype=np.int64)
    return np.empty(n_distances, dtype=np.int32), places


def _code_centres(tables: CellTables) -> CellCentres:
    """Return centres that are codes, which queries are compared with."""
    if not isinstance(tables.centres, CellCentres):
        raise InvalidInputError("cells must be chosen by vectors where their centres are vectors.")
    return tables.centres


def _pool(n_queries: int, k: int) -> tuple[Distances, Ids, Ids]:
    """Return room for the candidates of queries, and for sizes and limits."""
    shape = n_queries, _pool_room(k)
    return (
        np.empty(shape, dtype=np.int32),
        np.empty(shape, dtype=np.int64),
        np.empty((n_queries, 2), dtype=np.int64),
    )


def _pool_room(k: int) -> int:
    """Return how many candidates of a query there is room for where k are kept."""
    return 2 * k + TILE


def _tables_of(segment: Segment) -> CellTables:
    """Return the cells of a segment; none of its rows are in any where it has no tables."""
    if isinstance(segment.tables, CellTables):
        return segment.tables
    return no_cells(*segment.tiles.shape[1:3])
