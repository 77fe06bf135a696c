"""Search in cells: the runs of every query's nearest centres, and rows that are in no cell yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.codes import Codes
from bitkin.index.cells.tables import CellTables, no_cells
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, ragged_neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import allowed_rows
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import (
    TILE,
    nearest_in_cells_into,
    probe_into,
    within_radius_in_cells_into,
)
from bitkin.kernels.search.scan import block_widths

_QUERIES_AT_ONCE = 256
_FEW_QUERIES = 16  # are not shared out: a thread costs as much as it saves

Distances = npt.NDArray[np.int32]


class SegmentRows(NamedTuple):
    """A segment as kernels take it: its cells, and rows in none from `tables.n` to `n`."""

    tables: CellTables
    tiles: Words
    ids: Ids
    n: int
    mask: Bitmap


class CellSearch(NamedTuple):
    """One search: what is asked of every segment."""

    snapshot: Snapshot
    probes: int
    words: Words
    """uint64 (q, P, W): queries that are not empty, read-only."""
    segments: list[SegmentRows]

    @classmethod
    def begin(
        cls, snapshot: Snapshot, probes: int, queries: Codes, allow: Ids | None
    ) -> CellSearch:
        """Start a search for queries of which none is empty."""
        filled = [segment for segment in snapshot.segments if segment.n]
        whole = snapshot.whole.parts
        if allow is None:
            masks = [part.mask for part in whole]
        else:
            masks = [read_only(allowed_rows(segment, allow)) for segment in filled]
        segments = [
            SegmentRows(_tables_of(segment), part.tiles, part.ids, segment.n, mask)
            for segment, part, mask in zip(filled, whole, masks, strict=True)
        ]
        return cls(snapshot, probes, read_only(queries.words), segments)

    def nearest(self, k: int) -> Neighbors:
        """Return the k nearest rows of every query in its cells and in none."""
        n_queries, farther = len(self.words), self.snapshot.spec.n_symbols + 1
        if n_queries == 0 or not self.segments:
            return no_neighbors(n_queries, k, farther, np.int32)
        ids = np.empty((n_queries, k), dtype=np.int64)
        distances = np.empty((n_queries, k), dtype=np.int32)
        reach = min(k, len(self.snapshot))
        if n_queries <= _FEW_QUERIES:
            self._nearest(self.words, reach, farther, ids, distances)
            return Neighbors(ids, distances)
        step = min(_QUERIES_AT_ONCE, -(-n_queries // threads.get_threads()))

        def search(first: int) -> None:
            part = slice(first, min(first + step, n_queries))
            self._nearest(self.words[part], reach, farther, ids[part], distances[part])

        threads.run(search, range(0, n_queries, step))
        return Neighbors(ids, distances)

    def _nearest(self, words: Words, k: int, farther: int, ids: Ids, distances: Distances) -> None:
        """Offer all segments to some queries, one kernel call each; the last one sorts the best."""
        widths = block_widths(*words.shape[1:])
        lanes = np.empty(TILE, dtype=np.int32)
        sizes = np.empty(len(words), dtype=np.int64)
        asked, last = None, len(self.segments) - 1
        cells, cell_distances = self._room(0, len(words))
        for number, (tables, tiles, row_ids, n, mask) in enumerate(self.segments):
            centres, find = tables.centres, tables.centres is not asked
            if find:  # segments whose centres are the same have their cells in common
                asked = centres
                cells, cell_distances = self._room(len(centres), len(words))
            nearest_in_cells_into(
                centres.tiles, len(centres), find, *tables.arrays, tiles, row_ids, tables.n, n,
                mask, words, *widths, k, number == 0, number == last, farther, lanes, cells,
                cell_distances, sizes, ids, distances,
            )  # fmt: skip

    def count_rows(self) -> Ids:
        """Return how many rows are compared with every query."""
        counts = np.zeros(len(self.words), dtype=np.int64)
        for tables, _, _, n, _ in self.segments:
            cells = self._nearest_cells(tables, self.words)
            counts += n - tables.n + tables.arrays.counts[cells].sum(axis=1)
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
        most = int(tables.arrays.counts[cells].sum()) + n - tables.n
        ids, distances = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int32)
        lanes = np.empty(TILE, dtype=np.int32)
        found = within_radius_in_cells_into(
            *tables.arrays, tiles, row_ids, tables.n, n, mask, query, *block_widths(*query.shape),
            lanes, read_only(cells), radius, ids, distances,
        )  # fmt: skip
        return ids[:found], distances[:found]

    def _nearest_cells(self, tables: CellTables, words: Words) -> Ids:
        """Return the cells that every query looks into: int64 (q, probes)."""
        centres = tables.centres
        cells, distances = self._room(len(centres), len(words))
        lanes = np.empty(TILE, dtype=np.int32)
        widths = block_widths(*words.shape[1:])
        probe_into(centres.tiles, len(centres), words, *widths, lanes, cells, distances)
        return cells

    def _room(self, n_cells: int, n_queries: int) -> tuple[Ids, Distances]:
        """Return room for the cells that every query looks into."""
        shape = n_queries, min(self.probes, n_cells)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int32)


def _tables_of(segment: Segment) -> CellTables:
    """Return the cells of a segment; none of its rows are in any where it has no tables."""
    if isinstance(segment.tables, CellTables):
        return segment.tables
    return no_cells(*segment.tiles.shape[1:3])
