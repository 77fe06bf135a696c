"""The fast lane through cells: dense queries, from their vectors to the rows that are to be
measured, in one compiled call per thread.

It goes through the first stages of a search, by the same kernels, and so finds the same rows to the
last one; what it does not cover goes the longer way. It covers rows that are all in cells, in one
segment, coded by what is left of them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bitkin import threads
from bitkin.arrays import FloatRows, Ids
from bitkin.index.cells.tables import Centres
from bitkin.index.rows.bitmap import Bitmap
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import TILE
from bitkin.kernels.search.lane import scan_cells_lane_into
from bitkin.rescoring.cells.residuals import ResidualCentres
from bitkin.rescoring.cells.scan import EstimateRuns
from bitkin.rescoring.estimate_scan import scan_widths
from bitkin.rescoring.scan_parts import candidate_pool

_FEW_QUERIES = 16  # are not shared out: a thread costs as much as it saves


class Asked(NamedTuple):
    """What is asked of every query."""

    probes: int
    keep: int
    """Rows that are to be measured."""
    least: int
    """Rows that must be found in cells, or the query goes elsewhere."""


@dataclass(frozen=True, eq=False, slots=True)
class CellLane:
    """The rows of one snapshot as the lane takes them."""

    centres: ResidualCentres
    rows: tuple[Any, ...]
    """What `scan_cells_lane_into` takes of rows, up to the mask."""
    mask: Bitmap
    """Of all rows that can be found."""

    @classmethod
    def from_part(cls, centres: Centres, part: EstimateRuns, slots: Ids | int) -> CellLane | None:
        """Take the rows of a segment; None where the lane does not cover them. Slots are those of
        rows, or the first of them where they stand in that order.
        """
        if part.tail is not None or not isinstance(centres, ResidualCentres):
            return None
        first = slots if isinstance(slots, int) else 0
        given = np.empty(0, dtype=np.int64) if isinstance(slots, int) else slots
        rows = *part.arrays, part.corrections, part.ids, part.n, read_only(given), first
        return cls(centres, rows, part.mask)

    def best(self, queries: FloatRows, asked: Asked, mask: Bitmap | None) -> tuple[Ids, Ids] | None:
        """Return the ids of the best rows of queries by the estimate, in any order, −1 behind the
        last one, and their slots; None where the longer way must be gone. `mask` are the rows
        allowed, if not all are.
        """
        n_queries = len(queries)
        ids, slots = np.empty((2, n_queries, asked.keep), dtype=np.int64)
        queries, allowed = read_only(queries), self.mask if mask is None else mask
        undone = np.empty(n_queries, dtype=np.int64)

        def search(first: int) -> int:
            part = slice(first, first + step)
            arguments: Any = (
                queries[part], *self.centres.for_queries, *self.rows, allowed,
                *self._room(asked), undone[part], ids[part], slots[part],
            )  # fmt: skip
            return int(scan_cells_lane_into(*arguments))

        if n_queries <= _FEW_QUERIES:
            step = n_queries
            n_undone = search(0)
        else:
            step = -(-n_queries // threads.get_threads())
            n_undone = sum(threads.run(search, range(0, n_queries, step)))
        return None if n_undone else (ids, slots)

    def _room(self, asked: Asked) -> tuple[Any, ...]:
        """Return what the kernel works in, kept per thread for the next search."""
        held = _rooms.last
        if held is None or held[0] is not self.centres or held[1] != asked:
            held = _rooms.last = self.centres, asked, self._new_room(asked)
        return held[2]

    def _new_room(self, asked: Asked) -> tuple[Any, ...]:
        n_bits, n_words = self.centres.query_bits, self.rows[0].shape[2]
        n_chosen = min(asked.probes, len(self.centres))
        planes = np.empty((1, n_bits, n_words), dtype=np.uint64)
        totals, terms = np.empty(1, dtype=np.int64), np.empty((1, 4))
        return (
            *scan_widths(n_bits, n_words),
            asked.least,
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

    last: tuple[ResidualCentres, Asked, tuple[Any, ...]] | None = None


_rooms = _Rooms()
