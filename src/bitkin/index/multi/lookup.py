"""Queries looked up in the tables of a snapshot: heaps of the best rows, and what it took to fill
them.

A search by tables may cost so much before the scan is cheaper; `costs.py` says what both cost here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.index.multi.costs import (
    ASSUMED_COSTS,
    LookupPace,
    ScanCosts,
    lookup_costs,
    scan_costs,
)
from bitkin.index.multi.record import clock
from bitkin.index.multi.tables import MultiTables
from bitkin.index.results import Neighbors
from bitkin.index.rows import bitmap
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.multi_index import multi_work_for, nearest_by_tables_into

_MOST_QUERIES_A_PIECE = 64
_ALL_ROWS = np.empty(0, dtype=np.uint64)

_CACHE_WORDS = 1 << 22
# Of the scan's cost: spent before the rest is estimated; the most that the rest may cost then; the
# most that is spent.
_SHARES_OF_SCAN = np.array([0.03, 0.5, 0.7])


class MultiHeaps(NamedTuple):
    """The best of every query as heaps, the worst first, and how they were found."""

    distances: npt.NDArray[np.int32]
    """int32 (n_queries, room)."""
    ids: Ids
    """int64 (n_queries, room)."""
    sizes: npt.NDArray[np.int64]
    """int64 (n_queries,): how many of them are there."""
    account: npt.NDArray[np.int64]
    """int64 (n_queries, 4): keys looked up, rows found under them, codes compared, whether the
    search gave up.
    """

    def part(self, first: int, last: int) -> MultiHeaps:
        """Return those of queries `first` … `last`, not copied."""
        some = slice(first, last)
        return MultiHeaps(
            self.distances[some], self.ids[some], self.sizes[some], self.account[some]
        )


def empty_heaps(n_queries: int, room: int, far: int) -> MultiHeaps:
    """Return heaps without rows: id −1, at a distance that no row has."""
    return MultiHeaps(
        distances=np.full((n_queries, room), far, dtype=np.int32),
        ids=np.full((n_queries, room), -1, dtype=np.int64),
        sizes=np.zeros(n_queries, dtype=np.int64),
        account=np.zeros((n_queries, 4), dtype=np.int64),
    )


def heaps_from(found: Neighbors) -> MultiHeaps:
    """Return heaps of what was found: backwards, the worst of what is there comes first."""
    n_queries, k = found.ids.shape
    sizes = (found.ids >= 0).sum(axis=1)
    places = np.arange(k)
    order = np.where(places < sizes[:, None], sizes[:, None] - 1 - places, places)
    distances, ids = (
        np.take_along_axis(found.distances, order, axis=1),
        np.take_along_axis(found.ids, order, axis=1),
    )
    return MultiHeaps(distances, ids, sizes, np.zeros((n_queries, 4), dtype=np.int64))


def has_tables(snapshot: Snapshot) -> bool:
    """Whether any rows are in tables."""
    return any(isinstance(segment.tables, MultiTables) for segment in snapshot.segments)


def outside_tables(snapshot: Snapshot) -> Snapshot:
    """Return the rows that no table covers."""
    rest = (_behind_tables(segment) for segment in snapshot.segments)
    return Snapshot(
        snapshot.spec, segments=tuple(segment for segment in rest if segment is not None)
    )


def _behind_tables(segment: Segment) -> Segment | None:
    """Return the rows of a segment that were appended since its tables were built; they may begin
    within a block.
    """
    if not isinstance(segment.tables, MultiTables):
        return segment
    if segment.tables.n == segment.n:
        return None
    block, covered = divmod(segment.tables.n, BLOCK)
    n = segment.n - block * BLOCK
    marks = None if segment.searchable is None else segment.searchable[8 * block :]
    searchable = bitmap.without(marks, n, np.arange(covered))
    # Whether a row is alive matters to those who look for ids; here rows are only searched.
    return Segment(
        segment.tiles_from(block), segment.ids[block * BLOCK :], n, n_alive=n, searchable=searchable
    )


def look_up(
    snapshot: Snapshot,
    queries: Codes,
    radius: int,
    heaps: MultiHeaps,
    pace: LookupPace,
    budget: ScanBudget,
) -> None:
    """Offer all rows in tables, within `radius`, to the heaps of all queries; some may give up."""
    words = read_only(queries.words)
    rounds = -(-len(words) // (threads.get_threads() * _MOST_QUERIES_A_PIECE))
    step = -(-len(words) // (threads.get_threads() * rounds))

    def search(first: int) -> None:
        some, best = words[first : first + step], heaps.part(first, first + step)
        for segment in snapshot.segments:
            if isinstance(segment.tables, MultiTables):
                _look_up_segment(
                    segment, segment.tables, snapshot.spec.n_symbols, some, radius, best, pace,
                    budget,
                )  # fmt: skip

    threads.run(search, range(0, len(words), step))


class ScanBudget(NamedTuple):
    """What scans cost, and how many queries would be scanned together: lookups may cost less."""

    costs: ScanCosts
    n_queries: int


def _look_up_segment(
    segment: Segment,
    tables: MultiTables,
    n_symbols: int,
    words: npt.NDArray[np.uint64],
    radius: int,
    heaps: MultiHeaps,
    pace: LookupPace,
    budget: ScanBudget,
) -> None:
    costs = lookup_costs(words[0].size)
    before = heaps.account[:, :3].sum(axis=0)
    work = multi_work_for(words.shape[1], words.shape[2], len(tables.chunks.lengths))
    start = clock()
    nearest_by_tables_into(
        read_only(segment.tiles),
        read_only(segment.ids),
        read_only(_ALL_ROWS if segment.searchable is None else segment.searchable),
        tables.chunks,
        n_symbols,
        words,
        radius,
        costs * pace.factor,
        lookup_budgets(tables.n * words[0].size, budget.n_queries, budget.costs),
        work,
        *heaps,
    )
    counts = heaps.account[:, :3].sum(axis=0) - before
    pace.note(float(counts @ costs), clock() - start)


def snapshot_scan_costs(snapshot: Snapshot) -> ScanCosts:
    """Return what a scan of a snapshot that has tables costs here."""
    return next(
        scan_costs(segment, snapshot)
        for segment in snapshot.segments
        if isinstance(segment.tables, MultiTables)
    )


def scan_time(n_words: int, n_queries: int, costs: ScanCosts = ASSUMED_COSTS) -> float:
    """Return the nanoseconds of a scan of so many words for some queries together, by all threads.

    n · (compare + read / √queries) per query: what is read serves all that are scanned together.
    """
    reading = costs.read * min(1.0, n_words / _CACHE_WORDS) / math.sqrt(max(1, n_queries))
    return n_words * n_queries * (costs.compare + reading) / threads.get_threads()


def lookup_budgets(
    n_words: int, n_queries: int, costs: ScanCosts = ASSUMED_COSTS
) -> npt.NDArray[np.float64]:
    """Return what a query over rows of so many words in all may spend, asked together with others.

    All threads scan a few queries together, while each query is looked up by one: while the scan
    takes its time, every thread looks up `queries_per_thread`.
    """
    queries_per_thread = -(-n_queries // threads.get_threads())
    shares: npt.NDArray[np.float64] = _SHARES_OF_SCAN * (
        scan_time(n_words, n_queries, costs) / queries_per_thread
    )
    return shares
