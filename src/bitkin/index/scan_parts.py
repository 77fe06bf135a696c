"""A scan cut into parts for the thread pool, and put together again.

Results do not depend on the cut: many queries are cut by queries, few by rows, and the parts'
results merge. A part takes as many queries at once as leave their candidates in the second-level
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitkin import threads
from bitkin.index.results import Neighbors, merge_neighbors
from bitkin.kernels.blocks import BLOCK

MOST_QUERIES = 128  # at once: past that nothing is left to gain from codes in cache
CACHE_BYTES = 1 << 20  # for the candidates of all queries of a part
# Words compared, all queries together, below which another thread costs more than it saves.
_WORDS_PER_PART = 1 << 20


class ScanPart(NamedTuple):
    """Queries `first` … `last` over some stretches: one piece of work."""

    first: int
    last: int
    stretches: list[Any]
    """Of any kind that has blocks `first` … `last`, as `Stretch` has."""


def cut_scan(
    stretches: list[Any], n_queries: int, words_per_row: int, most_queries: int
) -> list[ScanPart]:
    """Cut the scan for the pool; either all parts have all rows, or all have all queries.

    `words_per_row` is about what a row costs a query, `most_queries` how many have their candidates
    in cache. There are no more parts than the work is worth: a thread that is woken for less than
    it takes to wake it makes a scan slower.
    """
    most_queries = max(2, min(MOST_QUERIES, most_queries))
    n_blocks = sum(stretch.last - stretch.first for stretch in stretches)
    workers = n_workers(n_blocks, words_per_row, n_queries)
    if workers == 1 and n_queries <= most_queries:
        return [ScanPart(0, n_queries, stretches)]
    if n_queries < 2 * workers and n_queries <= most_queries:
        return [ScanPart(0, n_queries, part) for part in _cut_rows(stretches, n_blocks, workers)]
    # Equal parts, as few rounds of all threads as the cache allows.
    rounds = -(-n_queries // (workers * most_queries))
    step = -(-n_queries // (workers * rounds))
    return [
        ScanPart(first, min(first + step, n_queries), stretches)
        for first in range(0, n_queries, step)
    ]


def n_workers(n_blocks: int, words_per_row: int, n_queries: int) -> int:
    """Return how many threads a scan of so many blocks is worth, for so many queries."""
    work = n_blocks * BLOCK * words_per_row * n_queries
    return max(1, min(threads.get_threads(), work // _WORDS_PER_PART))


def nearest_of_parts(
    parts: Sequence[ScanPart], nearest: Callable[[ScanPart], Neighbors], k: int
) -> Neighbors:
    """Return the best k rows of every query from all parts, searched side by side."""
    if len(parts) == 1:
        return nearest(parts[0])
    results = threads.run(nearest, parts)
    if parts[0].first == parts[1].first:  # cut by rows
        return merge_neighbors(results, k)
    return Neighbors(*map(np.concatenate, zip(*results, strict=True)))


def _cut_rows(stretches: list[Any], total: int, n_parts: int) -> Iterator[list[Any]]:
    """Yield the stretches of each of `n_parts` equal runs of all `total` blocks."""
    for i in range(n_parts):
        low, high = total * i // n_parts, total * (i + 1) // n_parts
        part, before = [], 0
        for s in stretches:
            count = s.last - s.first
            first, last = max(low - before, 0), min(high - before, count)
            if first < last:
                part.append(s._replace(first=s.first + first, last=s.first + last))
            before += count
        yield part
