"""The rows that may be among the k nearest of some queries, cut down while they come in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats, Ids
from bitkin.evaluate.exact.bounds import BoundBlock, Bounds
from bitkin.kernels.search.precision import count_at_most_into, find_at_most_into

_MAX_CANDIDATES = 2**20  # candidates kept at a time, where k allows it
_CUT_ABOVE = 2**15  # not worth a cut


class PairsWithin:
    """The entries of `low` that are at most the limit of their row: counted at once, listed on
    demand.
    """

    def __init__(self, low: npt.NDArray[Any], limits: Floats) -> None:
        self._low = low
        # Rounded up: a limit must never become stricter in the type of `low`.
        self._limits = np.nextafter(limits.astype(low.dtype), np.asarray(np.inf, dtype=low.dtype))
        self._counts = np.empty(len(low), dtype=np.int64)
        count_at_most_into(low, self._limits, self._counts)
        self.n_pairs = int(self._counts.sum())

    def pairs(self) -> tuple[Ids, Ids, Floats]:
        """Return row, column and value of each, row by row."""
        rows, columns = (
            np.empty(self.n_pairs, dtype=np.int64),
            np.empty(self.n_pairs, dtype=np.int64),
        )
        values = np.empty(self.n_pairs, dtype=np.float64)
        find_at_most_into(self._low, self._limits, self._counts, rows, columns, values)
        return rows, columns, values


class _Candidates(NamedTuple):
    """Pairs that may be near, one per place."""

    query_ids: Ids
    """Counted from the first query of the block."""
    ids: Ids
    low: Floats
    """The lower bound of the score."""
    high: Floats
    """The upper bound; both leave out the error that depends on the query alone."""

    def at(self, places: npt.NDArray[Any]) -> _Candidates:
        return _Candidates(*(values[places] for values in self))


class NearestCandidates:
    """The candidates of the queries `start` to `stop` of `bounds`, of which every row has been
    seen.

    A row is a candidate as long as its lower bound is at most the k-th smallest upper bound. Where
    rounding leaves too many of them (a row with a million copies), they are measured on the way and
    only the k nearest stay.
    """

    def __init__(self, bounds: Bounds, start: int, stop: int, k: int) -> None:
        self._bounds = bounds
        self._start = start
        self._k = k
        self._queries = bounds.queries(start, stop)
        self._limits = np.full(stop - start, np.inf)
        self._held: list[_Candidates] = []
        self._n_new = 0
        for block in bounds.blocks(self._queries):
            self._add(block)
            if self._n_new > max(_CUT_ABOVE, k * (stop - start)):
                self._cut()
        self._cut()

    @staticmethod
    def fitting_queries(k: int, most: int) -> int:
        """Return how many queries to take at a time, at most `most`: k candidates of each must
        leave room for more.
        """
        return max(1, min(most, _MAX_CANDIDATES // (4 * k)))

    def best(self) -> tuple[Ids, Floats]:
        """Return rows and scaled distances of the k nearest, (queries, k): nearest first, ties by
        lower row number.
        """
        candidates, distances = self._measure(self._held[0])
        return candidates.ids.reshape(-1, self._k), distances.reshape(-1, self._k)

    def _add(self, block: BoundBlock) -> None:
        """Keep the rows of `block` that the limits do not rule out."""
        near = PairsWithin(block.low, self._limits)
        if near.n_pairs > 4 * self._k * self._limits.size and block.low.shape[1] >= self._k:
            # The first block, or one much nearer than those before. Any k rows give a limit: the k
            # lowest a good one.
            lowest = self._candidates(
                block, PairsWithin(block.low, np.partition(block.low, self._k - 1)[:, self._k - 1])
            )
            kth_high = np.full(self._limits.size, -np.inf)
            np.maximum.at(kth_high, lowest.query_ids, lowest.high)
            self._lower_limits(slice(None), kth_high)
            near = PairsWithin(block.low, self._limits)
        self._held.append(self._candidates(block, near))
        self._n_new += near.n_pairs

    def _candidates(self, block: BoundBlock, near: PairsWithin) -> _Candidates:
        query_ids, places, low = near.pairs()
        high = low + self._bounds.uncertainty(block.norms[places], self._queries.norms[query_ids])
        return _Candidates(query_ids, block.start + places, low, high)

    def _lower_limits(self, which: Any, kth_high: Floats) -> None:
        # One error for the row that set the limit, one for the row held against it.
        limits = kth_high + 2.0 * self._queries.errors[which]
        self._limits[which] = np.minimum(self._limits[which], limits)

    def _cut(self) -> None:
        """Lower the limits to what the candidates held so far allow, and drop those beyond."""
        # Sorted by upper bound within every query, so that place k − 1 of a query is its k-th
        # smallest: k rows are surely that near, and what has a higher lower bound is ruled out.
        held = _Candidates(*map(np.concatenate, zip(*self._held, strict=True)))
        held = held.at(np.lexsort((held.high, held.query_ids)))
        counts = np.bincount(held.query_ids, minlength=self._limits.size)
        enough = np.flatnonzero(counts >= self._k)
        self._lower_limits(enough, held.high[(np.cumsum(counts) - counts)[enough] + self._k - 1])
        held = held.at(held.low <= self._limits[held.query_ids])
        if held.ids.size > max(_MAX_CANDIDATES, 4 * self._k * self._limits.size):
            held, _ = self._measure(held)
        self._held = [held]
        self._n_new = 0

    def _measure(self, candidates: _Candidates) -> tuple[_Candidates, Floats]:
        """Return the k nearest candidates of every query, in order, and their scaled distances."""
        distances = self._bounds.pairing.distances(
            candidates.ids, candidates.query_ids + self._start
        )
        order = np.lexsort((candidates.ids, distances, candidates.query_ids))
        counts = np.bincount(candidates.query_ids, minlength=self._limits.size)
        # The rank of a candidate within its query: its place, less the first place of the query.
        ranks = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        best = order[ranks < self._k]
        return candidates.at(best), distances[best]
