"""The best of what was scored: the first k of every query in order of distance, ties by lower
id.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids
from bitkin.index.results import Neighbors
from bitkin.kernels.blocks import read_only
from bitkin.kernels.selection import nearest_into

_PAIRS_A_PIECE = 1 << 16  # ranked by one thread at a time


def nobody(n_queries: int, k: int, dtype: npt.DTypeLike = np.float64) -> Neighbors:
    """Return id −1 at infinity, k times a query: what `nearest_into` begins with."""
    return Neighbors(
        np.full((n_queries, k), -1, dtype=np.int64), np.full((n_queries, k), np.inf, dtype=dtype)
    )


def nearest_first(ids: Ids, distances: npt.NDArray[np.floating], k: int) -> Neighbors:
    """Return the best k of every row, nearest first, ties by lower id; id −1 is nobody, and ends up
    last.
    """
    best = nobody(len(ids), k, distances.dtype)
    step = max(1, _PAIRS_A_PIECE // max(1, ids.shape[1]))

    def select(first: int) -> None:
        some = slice(first, first + step)
        nearest_into(
            read_only(distances[some]), read_only(ids[some]), best.distances[some], best.ids[some]
        )

    threads.run(select, range(0, len(ids), step))
    return best


def reported(found: Neighbors, metric: str) -> Neighbors:
    """Return estimates by score as they are reported: float32, roots of squares, no l2 or cosine
    distance below 0.
    """
    distances = found.distances if metric == "ip" else np.maximum(found.distances, 0)
    with np.errstate(over="ignore"):
        return Neighbors(
            found.ids, (np.sqrt(distances) if metric == "l2" else distances).astype(np.float32)
        )
