"""The fast lane of a collection: one dense query, from its vector to the rows that are to be
measured, in one compiled call.

It goes through the stages of `Funnel`, by the same kernels, and so gives the same answer to the
last bit; what it does not cover goes through the funnel. It covers collections that keep dense
vectors, and codes in one segment, searched by the estimate first and vectors last, without a
filter.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch, Ids
from bitkin.index.scan_parts import n_workers
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.lane import scan_lane_into
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.estimate_scan import EstimateStretch, scan_room, scan_widths
from bitkin.rescoring.pair_distances import METRIC_CODES


class LaneRows(NamedTuple):
    """All rows of a collection as the lane takes them."""

    stretch: EstimateStretch
    n_rows: int
    first_slot: int
    """Of the rows, where they stand in the order of slots; else 0."""


class _Room(NamedTuple):
    """Where one thread works on queries of which `keep` rows are measured."""

    keep: int
    work: Any
    """What `scan_lane_into` works in, up to what it finds."""


class Lane:
    """The lane through one collection: what never changes of it, and room to work in per thread."""

    def __init__(self, scorer: Scorer, query_bits: int) -> None:
        model = scorer.model
        self._scorer = scorer
        self._n_words = model.spec.plane_words
        self._n_bits, self._query_bits = model.spec.n_symbols, query_bits
        self._model = (
            read_only(model.components),
            read_only(model.offset),
            read_only(scorer.mean),
            read_only(model.scaled_mean[0]),
            read_only(model.scaled_offset),
            METRIC_CODES[scorer.metric],
            model.normalize,
        )
        self._has_small = scorer.metric == "l2"  # which keeps roots of small squares
        self._widths = scan_widths(query_bits, self._n_words)
        self._rooms = threading.local()

    def best(self, rows: LaneRows, query: Batch, keep: int) -> tuple[Ids, Ids] | None:
        """Return the ids of the best `keep` rows of a lone query by the estimate, and their slots.

        None where the funnel must be asked: of other queries than one row of float32, with too few
        rows, with so many that several threads share them, and where numbers leave the range of
        float32.
        """
        stretch = rows.stretch
        n_blocks, n_planes = stretch.last - stretch.first, self._n_words * self._query_bits
        if (
            not self._scorer.takes_lone(query)
            or rows.n_rows < keep
            or n_workers(n_blocks, n_planes, 1) > 1
        ):
            return None
        room: _Room | None = getattr(self._rooms, "last", None)
        if room is None or room.keep != keep:
            room = self._rooms.last = self._new_room(stretch, keep)
        ids, slots = np.empty((1, keep), dtype=np.int64), np.empty(keep, dtype=np.int64)
        arguments: Any = (
            read_only(query)[0], *self._model, *stretch, self._has_small, *self._widths,
            *room.work, ids, slots,
        )  # fmt: skip
        if scan_lane_into(*arguments) < keep:
            return None
        return ids[0], slots + rows.first_slot if rows.first_slot else slots

    def _new_room(self, stretch: EstimateStretch, keep: int) -> _Room:
        n_bits, n_words = self._n_bits, self._n_words
        written: list[npt.NDArray[Any]] = [
            np.empty((1, n_bits), dtype=np.float32),
            np.empty((1, self._query_bits, n_words), dtype=np.uint64),
            np.empty(1, dtype=np.int64),
            np.empty((1, 4)),
        ]
        work = (
            np.empty(n_bits, dtype=np.float32),
            np.empty(n_bits),
            np.empty(n_words, dtype=np.uint64),
            np.empty(n_bits, dtype=np.int32),
            np.empty(1),
            *written,
            *map(read_only, written),
            *scan_room(stretch, 1, keep),
            np.empty((1, keep)),
        )
        return _Room(keep, work)
