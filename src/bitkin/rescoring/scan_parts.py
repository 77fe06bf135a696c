"""A scan that keeps the best of all rows by some score, in parts for the thread pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.index.results import Neighbors, no_neighbors
from bitkin.index.scan_parts import CACHE_BYTES, ScanPart, cut_scan, nearest_of_parts
from bitkin.kernels._shared import SPARE_CANDIDATES


def scan_best(
    stretches: list[Any],
    n_queries: int,
    words_per_row: int,
    k: int,
    n_rows: int,
    scan: Callable[[ScanPart, int], Neighbors],
) -> Neighbors:
    """Return the best k rows of every query by `scan`, which is given a part and how many rows to
    keep, and returns float64 scores.

    `words_per_row` is about what a row costs a query, `n_rows` at least how many can be found.
    """
    reach = min(k, n_rows)
    if n_queries == 0 or reach == 0:
        return no_neighbors(n_queries, k)

    def scan_part(part: ScanPart) -> Neighbors:
        if not part.stretches:
            return no_neighbors(part.last - part.first, k)
        found = scan(part, reach)
        return found if reach == k else _padded(found, k)

    # 16 bytes per row that is kept, or a candidate: an id and a score
    parts = cut_scan(stretches, n_queries, words_per_row, CACHE_BYTES // (16 * pool_room(reach)))
    return nearest_of_parts(parts, scan_part, k)


def pool_room(k: int) -> int:
    """Return how many candidates of a query there is room for where k are kept."""
    return 2 * (k + SPARE_CANDIDATES)


def candidate_pool(
    n_queries: int, k: int, dtype: npt.DTypeLike = np.float64
) -> tuple[npt.NDArray[Any], Ids, npt.NDArray[Any], Ids, Ids]:
    """Return the room of `collect_rows` in kernels: scores and ids of candidates, then the limit of
    every query, the id at it, and the number of its candidates.
    """
    room = pool_room(k)
    return (
        np.empty((n_queries, room), dtype=dtype),
        np.empty((n_queries, room), dtype=np.int64),
        np.empty(n_queries, dtype=dtype),
        np.empty(n_queries, dtype=np.int64),
        np.empty(n_queries, dtype=np.int64),
    )


def _padded(found: Neighbors, k: int) -> Neighbors:
    whole = no_neighbors(len(found.ids), k)
    whole.ids[:, : found.ids.shape[1]] = found.ids
    whole.distances[:, : found.ids.shape[1]] = found.distances
    return whole
