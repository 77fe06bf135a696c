"""What a search returns: plain arrays, one row a query, whatever the number of queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Neighbors(NamedTuple):
    """The k nearest of every query, nearest first, ties by lower id.

    Where fewer than k exist the rest is id −1, with distance `n_symbols + 1` (codes) or infinity
    (vectors).
    """

    ids: npt.NDArray[np.int64]
    """int64 (n_queries, k)."""
    distances: npt.NDArray[Any]
    """(n_queries, k): int32 symbol counts from an index, floats from `bitkin.evaluate.nearest`."""


class RaggedNeighbors(NamedTuple):
    """All neighbours within a radius; those of query i are `ids[offsets[i]:offsets[i + 1]]`.

    They come nearest first, ties by lower id.
    """

    offsets: npt.NDArray[np.int64]
    """int64 (n_queries + 1,)."""
    ids: npt.NDArray[np.int64]
    """int64, all queries after one another."""
    distances: npt.NDArray[np.int32]
    """int32, beside `ids`."""
