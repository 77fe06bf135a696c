"""Exact neighbours of sets: the columns of a row that are not 0, compared by Jaccard distance.

Products of rows of ones count what two sets share, |A ∩ B|; with the sizes of both that gives the
distance (|A ∪ B| − |A ∩ B|) / |A ∪ B| of every pair. Counts are whole numbers and exact, and a
fraction is rounded once, so that equal fractions tie and others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import interrupts, threads
from bitkin.arrays import Floats, Ids
from bitkin.evaluate.exact.pairing import Pairing
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.evaluate.exact.sparse_bounds import only_columns, sparse_is_quicker
from bitkin.index.results import Neighbors, no_neighbors

_DENSE_VALUES = 2**22  # of a block of rows or queries as dense ones
_ROW_BLOCK = 2048
_QUERY_BLOCK = 512
_FLOAT32_COLUMNS = 2**24  # counts up to here are exact in float32

# counts of what queries share with every row: the first row and a (queries, rows) block of counts
_Counts = Iterator[tuple[int, npt.NDArray[Any]]]


def nearest_sets(rows: ComparedRows, queries: ComparedRows, k: int) -> Neighbors:
    """Return the `k` nearest rows of every query, nearest first, ties by lower row number; an empty
    set is at distance 1 from everything, also from another empty one.
    """
    found = no_neighbors(queries.n_rows, k)
    if rows.n_rows == 0 or queries.n_rows == 0:
        return found
    by_sparse = sparse_is_quicker(Pairing(rows, queries, "jaccard"))
    count: Callable[..., _Counts] = _count_sparse if by_sparse else _count_dense
    sizes, query_sizes = _sizes(rows), _sizes(queries)
    n_found = min(k, rows.n_rows)
    step = _QUERY_BLOCK
    if not by_sparse:
        step = max(1, min(step, _DENSE_VALUES // max(1, rows.n_columns)))
    for start in range(0, queries.n_rows, step):
        stop = min(start + step, queries.n_rows)
        best = _BestSets(stop - start, n_found)
        for first, shared in count(rows, queries, start, stop):
            interrupts.check()
            own = sizes[first : first + shared.shape[1]]
            best.add(first, _distances(shared, own, query_sizes[start:stop]))
        found.ids[start:stop, :n_found] = best.ids
        found.distances[start:stop, :n_found] = best.distances
    return found


def _distances(shared: npt.NDArray[Any], sizes: Floats, query_sizes: Floats) -> Floats:
    """Return the distances of pairs that share so many members; whole numbers in float64 are
    exact.
    """
    unions: Floats = query_sizes[:, None] + sizes
    unions -= shared
    apart: Floats = unions - shared
    # Two empty sets have no union: 1 / 1 instead of 0 / 0.
    apart[np.ix_(query_sizes == 0, sizes == 0)] = 1.0
    np.maximum(unions, 1.0, out=unions)
    apart /= unions
    return apart


class _BestSets:
    """The k nearest rows of some queries, of those that came in so far."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.ids: Ids = np.full((n_queries, k), -1, dtype=np.int64)
        self.distances: Floats = np.full((n_queries, k), np.inf)

    def add(self, first: int, distances: Floats) -> None:
        """Take in the rows `first`, `first + 1`, …, all after those before them."""
        k = self.ids.shape[1]
        # a later row at the same distance comes behind
        better = np.flatnonzero((distances < self.distances[:, -1:]).any(axis=1))
        both = np.concatenate([self.distances[better], distances[better]], axis=1)
        # stable, and rows are in order: ties stay by row number
        order = np.argsort(both, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(self.ids[better], np.minimum(order, k - 1), axis=1)
        self.ids[better] = np.where(order < k, kept, first + order - k)
        self.distances[better] = np.take_along_axis(both, order, axis=1)


def _sizes(rows: ComparedRows) -> Floats:
    """Return how many columns of every row are not 0, as whole numbers in float64."""
    if rows.sparse:
        row_of = np.repeat(np.arange(rows.n_rows), np.diff(rows.matrix.indptr))
        counts = np.bincount(row_of[rows.matrix.data != 0], minlength=rows.n_rows)
        return counts.astype(np.float64)
    step = max(1, _DENSE_VALUES // max(1, rows.n_columns))
    starts = range(0, rows.n_rows, step)
    pieces = threads.run(
        lambda start: np.count_nonzero(rows.matrix[start : start + step], axis=1), starts
    )
    return np.concatenate([np.empty(0), *pieces])


def _count_sparse(rows: ComparedRows, queries: ComparedRows, start: int, stop: int) -> _Counts:
    """Count by products of CSR matrices, over the columns that some query of the block has."""
    asked = _ones(queries.matrix[start:stop])
    columns = np.unique(asked.indices)
    table = only_columns(asked, columns)
    for first in range(0, rows.n_rows, _ROW_BLOCK):
        block = only_columns(_ones(rows.matrix[first : first + _ROW_BLOCK]), columns)
        yield first, (table @ block.T).toarray()


def _count_dense(rows: ComparedRows, queries: ComparedRows, start: int, stop: int) -> _Counts:
    """Count by products of dense ones, whose sums are exact."""
    # BLAS adds in float32 where counts stay below 2**24, and so exact
    dtype: Any = np.float32 if rows.n_columns < _FLOAT32_COLUMNS else np.float64
    table = (queries.block(start, stop) != 0).astype(dtype)
    step = max(1, min(_ROW_BLOCK, _DENSE_VALUES // max(1, rows.n_columns)))
    for first in range(0, rows.n_rows, step):
        block = (rows.block(first, first + step) != 0).astype(dtype)
        yield first, table @ block.T


def _ones(csr: Any) -> Any:
    """Return CSR rows with 1 wherever they are not 0."""
    ones = scipy.sparse.csr_array(
        ((csr.data != 0).astype(np.int64), csr.indices, csr.indptr), shape=csr.shape, copy=True
    )
    ones.eliminate_zeros()
    return ones
