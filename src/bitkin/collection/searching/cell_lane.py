"""The fast lane through cells: dense queries, from their vectors to their nearest rows, in two
compiled calls per thread: one up to the rows that are to be measured, one that measures them.

It goes through the stages of a search by the same kernels, and so gives the same answers to the
last bit; what it does not cover goes the longer way. It covers rows that are all in cells, in one
segment, coded by what is left of them.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bitkin import threads
from bitkin.arrays import FloatRows, Ids
from bitkin.index.cells.tables import Centres
from bitkin.index.results import Neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import TILE
from bitkin.kernels.search.lane import scan_cells_lane_into
from bitkin.kernels.search.nearest_rows import nearest_rows_into
from bitkin.rescoring.cells.residuals import ResidualCentres
from bitkin.rescoring.cells.scan import EstimateRuns
from bitkin.rescoring.estimate_scan import scan_widths
from bitkin.rescoring.exact import VectorsInPlace, measuring_room, stored_for_kernels
from bitkin.rescoring.scan_parts import candidate_pool

_MOST_HELD = 1 << 12  # rows and cells of a query, whose room is kept
_FEW_QUERIES = 16  # are not shared out: a thread costs as much as it saves


class Asked(NamedTuple):
    """What is asked of every query."""

    probes: int
    keep: int
    """Rows that are measured."""
    k: int
    """Rows that are returned, and must be found in cells, or the query goes the longer way."""


@dataclass(frozen=True, eq=False, slots=True)
class CellLane:
    """The rows of one snapshot as the lane takes them."""

    centres: ResidualCentres
    rows: tuple[Any, ...]
    """What `scan_cells_lane_into` takes of rows, up to the mask."""
    mask: Bitmap
    """Of all rows that can be found."""
    stored: tuple[Any, ...]
    """Vectors as `nearest_rows_into` takes them."""
    n_features: int

    @classmethod
    def from_part(
        cls, centres: Centres, part: EstimateRuns, slots: Ids | int, vectors: VectorsInPlace
    ) -> CellLane | None:
        """Take the rows of a segment; None where the lane does not cover them. Slots, by which
        `vectors` stand, are those of rows, or the first of them where they stand in that order.
        """
        stored = stored_for_kernels(vectors.rows, vectors.scales)
        if stored is None or part.tail is not None or not isinstance(centres, ResidualCentres):
            return None
        first = slots if isinstance(slots, int) else 0
        given = np.empty(0, dtype=np.int64) if isinstance(slots, int) else slots
        rows = *part.arrays, part.corrections, part.ids, part.n, read_only(given), first
        return cls(centres, rows, part.mask, stored, vectors.rows.shape[1])

    def nearest(self, queries: FloatRows, asked: Asked, mask: Bitmap | None) -> Neighbors | None:
        """Return the nearest rows of queries, nearest first, ties by lower id; None where the
        longer way must be gone. `mask` are the rows allowed, if not all are.
        """
        n_queries, k = len(queries), asked.k
        found = Neighbors(np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k)))
        queries, allowed = read_only(queries), self.mask if mask is None else mask

        def search(first: int) -> int:
            last = min(first + step, n_queries)
            candidates = self._candidates(last - first, asked.keep)
            ids, slots, undone, ids_view, slots_view = candidates
            scanning, measuring = self._room(asked)
            some = queries[first:last]
            arguments: Any = (
                some, *self.centres.for_queries, *self.rows, allowed, *scanning, undone, ids, slots,
            )  # fmt: skip
            n_undone: int = scan_cells_lane_into(*arguments)
            if n_undone:
                return n_undone
            arguments = (
                *self.stored, slots_view, ids_view, some, self.centres.for_queries[2], *measuring,
                found.distances[first:last], found.ids[first:last],
            )  # fmt: skip
            return int(nearest_rows_into(*arguments))

        if n_queries <= _FEW_QUERIES:
            step = n_queries
            return None if search(0) else found
        step = -(-n_queries // threads.get_threads())
        return None if any(threads.run(search, range(0, n_queries, step))) else found

    @staticmethod
    def _candidates(n_queries: int, keep: int) -> tuple[Ids, ...]:
        """Return room for the rows that are to be measured, ids and slots, and for queries that
        found too few; then views of the first two.
        """
        ids, slots = np.empty((2, n_queries, keep), dtype=np.int64)
        return ids, slots, np.empty(n_queries, dtype=np.int64), read_only(ids), read_only(slots)

    def _room(self, asked: Asked) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return what both kernels work in, kept per thread for the next search."""
        held = _rooms.last
        if held is not None and held[0]() is self.centres and held[1] == asked:
            return held[2]
        room = self._scanning_room(asked), measuring_room(self.n_features, asked.keep)
        # which keeps nothing of a collection that is gone, and nothing that is large
        _rooms.last = None
        if asked.keep <= _MOST_HELD and asked.probes <= _MOST_HELD:
            _rooms.last = weakref.ref(self.centres), asked, room
        return room

    def _scanning_room(self, asked: Asked) -> tuple[Any, ...]:
        n_bits, n_words = self.centres.query_bits, self.rows[0].shape[2]
        n_chosen = min(asked.probes, len(self.centres))
        planes = np.empty((1, n_bits, n_words), dtype=np.uint64)
        totals, terms = np.empty(1, dtype=np.int64), np.empty((1, 4))
        return (
            *scan_widths(n_bits, n_words),
            asked.k,
            *self.centres.room(n_chosen),
            planes, totals, terms,
            np.empty((1, n_chosen), dtype=np.int64), np.empty((1, n_chosen)),
            read_only(planes), read_only(totals), read_only(terms),
            np.empty(TILE, dtype=np.int32), np.empty(TILE, dtype=np.float32),
            *candidate_pool(1, asked.keep),
            np.empty((1, asked.keep)),
        )  # fmt: skip


class _Rooms(threading.local):
    """The room of a thread, for which centres and what is asked."""

    last: (
        tuple[weakref.ref[ResidualCentres], Asked, tuple[tuple[Any, ...], tuple[Any, ...]]] | None
    ) = None


_rooms = _Rooms()
