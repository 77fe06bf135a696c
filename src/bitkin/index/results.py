"""What a search returns: plain arrays, one row per query, whatever the number of queries.

The order is the same everywhere: nearest first, ties by lower id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import memory
from bitkin.arrays import Ids
from bitkin.errors import InvalidInputError, MissingExtraError


class Hit(NamedTuple):
    """One neighbour of a query."""

    id: Any
    distance: Any


class Neighbors(NamedTuple):
    """The k nearest of every query, nearest first, ties by lower id.

    Where fewer than k exist the rest is id −1, with distance `n_symbols + 1` (codes) or infinity
    (vectors).
    """

    ids: npt.NDArray[np.int64]
    """int64 (n_queries, k)."""
    distances: npt.NDArray[Any]
    """(n_queries, k): int32 symbol counts from an index, floats from `bitkin.evaluate.nearest`."""

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        return f"Neighbors({n_queries:,} queries × {k:,}, {self.distances.dtype} distances)"

    def by_query(self) -> Iterator[list[Hit]]:
        """Yield what was found for every query, padding left out."""
        return found_by_query(self.ids, self.distances)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with the columns query, rank, id and distance, a row per
        neighbour.
        """
        return found_to_pandas(self.ids, self.distances)


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

    def __repr__(self) -> str:
        n_queries, n_found = len(self.offsets) - 1, len(self.ids)
        return (
            f"RaggedNeighbors({n_queries:,} queries, {n_found:,} found, "
            f"{self.distances.dtype} distances)"
        )

    def by_query(self) -> Iterator[list[Hit]]:
        """Yield what was found for every query."""
        for first, last in pairwise(self.offsets.tolist()):
            yield list(map(Hit, self.ids[first:last].tolist(), self.distances[first:last].tolist()))

    def to_pandas(self) -> Any:
        """Return a pandas data frame with the columns query, rank, id and distance, a row per
        neighbour.
        """
        counts = np.diff(self.offsets)
        queries = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], counts)
        return _data_frame(queries, rank, self.ids, self.distances)


def found_by_query(ids: npt.NDArray[Any], distances: npt.NDArray[Any]) -> Iterator[list[Hit]]:
    """Yield what was found for every query, padding left out."""
    for row, there in enumerate(_not_padding(ids)):
        yield list(map(Hit, ids[row, there].tolist(), distances[row, there].tolist()))


def found_to_pandas(ids: npt.NDArray[Any], distances: npt.NDArray[Any]) -> Any:
    """Return a pandas data frame of what was found, padding left out."""
    there = _not_padding(ids)
    queries, rank = np.nonzero(there)
    return _data_frame(queries, rank, ids[there], distances[there])


def _not_padding(ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if ids.dtype.kind == "O":  # strings, or None
        return np.array([[id is not None for id in row] for row in ids], dtype=bool).reshape(
            ids.shape
        )
    return np.asarray(ids >= 0)


def _data_frame(queries: Any, rank: Any, ids: Any, distances: Any) -> Any:
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise MissingExtraError(
            "to_pandas needs pandas, which is not installed: pip install pandas"
        ) from error
    return DataFrame({"query": queries, "rank": rank, "id": ids, "distance": distances})


def no_neighbors(
    n_queries: int, k: int, distance: float = np.inf, dtype: npt.DTypeLike = np.float64
) -> Neighbors:
    """Return id −1 everywhere, at a distance farther than that of any row."""
    return Neighbors(
        np.full((n_queries, k), -1, dtype=np.int64),
        np.full((n_queries, k), distance, dtype=dtype),
    )


def merge_neighbors(parts: Sequence[Neighbors], k: int) -> Neighbors:
    """Keep the best k of several results for the same queries, no row being in two of them.

    Missing neighbours, which are farther than all others, end up last.
    """
    ids = np.concatenate([part.ids for part in parts], axis=1)
    distances = np.concatenate([part.distances for part in parts], axis=1)
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return Neighbors(
        np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    )


def ragged_neighbors(
    n_queries: int, found: Sequence[tuple[Ids, Ids, npt.NDArray[np.int32]]]
) -> RaggedNeighbors:
    """Put what was found in pieces, each (query, id, distance) as arrays, in order.

    No row of a query may be in two pieces.
    """
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
    queries, ids, distances = map(np.concatenate, zip(nothing, *found, strict=True))
    order = np.lexsort((ids, distances, queries))
    offsets = np.zeros(n_queries + 1, dtype=np.int64)
    np.cumsum(np.bincount(queries, minlength=n_queries), out=offsets[1:])
    return RaggedNeighbors(offsets, ids[order], distances[order])


def join_ragged(parts: Sequence[RaggedNeighbors]) -> RaggedNeighbors:
    """Return what was found for batches of queries as one result."""
    no_ids, no_distances = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    # offsets of all queries are the running sum of how many each of them found
    counts = np.concatenate([no_ids, *(np.diff(part.offsets) for part in parts)])
    return RaggedNeighbors(
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([no_ids, *(part.ids for part in parts)]),
        np.concatenate([no_distances, *(part.distances for part in parts)]),
    )


def require_fitting(n_queries: int, k: int, pair_bytes: int = 12) -> None:
    """Raise where the result alone, `pair_bytes` per neighbour, would not fit this machine's
    memory.
    """
    if pair_bytes * n_queries * k > memory.physical_memory():
        raise InvalidInputError(
            f"k must be smaller: {k} neighbours of {n_queries} queries do not fit in memory. "
            "Search in batches."
        )
