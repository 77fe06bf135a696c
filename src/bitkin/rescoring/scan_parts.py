"""The pieces of a scan that keeps the best of all rows by some score, for the thread pool.

Results do not depend on the cut: many queries are cut by queries, few by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bitkin import threads
from bitkin.index.results import Neighbors, merge_neighbors, no_neighbors
from bitkin.kernels.blocks import BLOCK

_MOST_QUERIES = 128  # at once: past that nothing is left to gain from codes in cache
_CACHE_BYTES = 1 << 20  # for the best rows of all queries of a piece
_SMALL_SCAN = 1 << 19  # words; handing less than that to another thread costs more than it saves


class ScoredPart(NamedTuple):
    """Queries `first` … `last` over some stretches: one piece of work."""

    first: int
    last: int
    stretches: list[Any]
    """Of any kind that has blocks `first` … `last`, as `Stretch` has."""


def scan_best(
    stretches: list[Any],
    n_queries: int,
    words_per_row: int,
    k: int,
    n_rows: int,
    scan: Callable[[ScoredPart, int], Neighbors],
) -> Neighbors:
    """Return the best k rows of every query by `scan`, which is given a part and how many rows to
    keep, and returns float64 scores.

    `words_per_row` is about what a row costs a query, `n_rows` at least how many can be found.
    """
    reach = min(k, n_rows)
    if n_queries == 0 or reach == 0:
        return no_neighbors(n_queries, k)

    def scan_part(part: ScoredPart) -> Neighbors:
        if not part.stretches:
            return no_neighbors(part.last - part.first, k)
        found = scan(part, reach)
        return found if reach == k else _padded(found, k)

    parts = cut_scan(stretches, n_queries, words_per_row, reach)
    if len(parts) == 1:
        return scan_part(parts[0])
    results = threads.run(scan_part, parts)
    if parts[0].first == parts[1].first:  # cut by rows
        return merge_neighbors(results, k)
    return Neighbors(*map(np.concatenate, zip(*results, strict=True)))


def _padded(found: Neighbors, k: int) -> Neighbors:
    whole = no_neighbors(len(found.ids), k)
    whole.ids[:, : found.ids.shape[1]] = found.ids
    whole.distances[:, : found.ids.shape[1]] = found.distances
    return whole


def cut_scan(stretches: list[Any], n_queries: int, words_per_row: int, k: int) -> list[ScoredPart]:
    """Cut the scan for the pool; either all parts have all rows, or all have all queries."""
    # 16 bytes per row that is kept: an id and a score
    most_queries = max(2, min(_MOST_QUERIES, _CACHE_BYTES // (16 * k)))
    n_blocks = sum(stretch.last - stretch.first for stretch in stretches)
    small = n_blocks * BLOCK * words_per_row * n_queries < _SMALL_SCAN
    workers = 1 if small else threads.get_threads()
    if n_queries < 2 * workers and n_queries <= most_queries:
        return [ScoredPart(0, n_queries, part) for part in _cut_rows(stretches, n_blocks, workers)]
    rounds = -(-n_queries // (workers * most_queries))
    step = -(-n_queries // (workers * rounds))
    return [
        ScoredPart(first, min(first + step, n_queries), stretches)
        for first in range(0, n_queries, step)
    ]


def _cut_rows(stretches: list[Any], total: int, n_parts: int) -> Iterator[list[Any]]:
    """Yield the stretches of each of `n_parts` equal runs of all `total` blocks."""
    for i in range(n_parts):
        low, high = total * i // n_parts, total * (i + 1) // n_parts
        part, before = [], 0
        for s in stretches:
            first, last = max(low - before, s.first), min(high - before, s.last)
            if first < last:
                part.append(s._replace(first=first, last=last))
            before += s.last
        yield part
