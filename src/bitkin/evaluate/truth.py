"""Exact neighbours: what an index, a code or an estimate is measured against.

Matrix products give every pair a lower bound at the speed of BLAS (`bounds`); the few rows whose
bound does not rule them out are measured one by one in float64 (`pairing`). Rows and queries go by
in blocks, so memory stays bounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from bitkin.arrays import Ids
from bitkin.checks import one_of, whole_number
from bitkin.choices import TRUTH_METRICS
from bitkin.errors import InvalidInputError
from bitkin.evaluate.exact.bounds import Bounds
from bitkin.evaluate.exact.cache import TruthCache
from bitkin.evaluate.exact.candidates import NearestCandidates, PairsWithin
from bitkin.evaluate.exact.dense_bounds import DenseBounds
from bitkin.evaluate.exact.jaccard import nearest_sets
from bitkin.evaluate.exact.pairing import Pairing
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.evaluate.exact.sparse_bounds import SparseBounds, sparse_is_quicker
from bitkin.index.results import Neighbors, no_neighbors
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.columns import Columns, require_columns
from bitkin.io.vectors.rows import is_in_memory, lone_as_row
from bitkin.memory import require_memory

_BATCHES_PER_BLOCK = 8  # of a source: about 64 MB, beside which the work per block is small


def nearest(
    X: Any,
    Q: Any,
    k: int,
    metric: str = "l2",
    *,
    cache: bool | str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Neighbors:
    """Find the `k` nearest rows of `X` for every row of `Q`, exactly: nearest first, ties by lower
    row number.

    Parameters
    ----------
    X, Q : array, SciPy sparse matrix, data frame, path, list of paths, VectorSource or iterator
        The rows to search and the queries, of as many columns. Rows that are not in memory are read
        once, a block at a time; queries are held. A lone vector is one query.
    k : int
        Where `X` has fewer rows, the rest is id −1 at distance infinity.
    metric : {"l2", "cosine", "ip", "jaccard"}
        Euclidean distance (not squared); 1 − cosine, where a row of zeros is at distance 1 from
        everything; the negated inner product, so that smaller is nearer for all; or 1 − the Jaccard
        similarity of the sets of columns that are not 0, where an empty set is at distance 1 from
        everything, other empty sets included, as for `MinHash.jaccard`.
    cache : None, True or a folder, default None
        Keep the result on disk for the next time that the same rows and queries are asked for, for
        as many neighbours or fewer: in this folder, or with True in that of the user (`truth` in
        BITKIN_CACHE, else in `~/.cache/bitkin` or what the system has for that). `clear_cache`
        empties it.
    progress : callable, optional
        Called with the number of rows of X done.

    Returns
    -------
    Neighbors
        `ids`, the row numbers in `X`, int64 (q, k), and `distances`, float64 (q, k), computed in
        float64 by direct differences or products. A sparse matrix and its dense copy give the same
        result to the last bit.

    Notes
    -----
    Nothing is approximate about the result: float32 products only rule out rows that a
    rounding-error bound proves to be farther than k others. Many rows at nearly one distance
    therefore cost time, not correctness. Rows of different blocks are ranked by their distances as
    reported: where those are beyond the range of float64, they tie.

    A result is kept under a digest of all numbers of X and Q, their types, and the metric: an array
    in any memory order, its file and several files of its rows share it; float32 and float64, or
    sparse and dense rows, do not. The digest takes some 0.7 s per GB of X on one core, a seventh of
    a search with 1,000 queries, and reads a file once more. A file in the cache that is damaged, or
    none of ours, is a warning and found again; where nothing can be written, nothing is kept. The
    folder never holds more than 1 GB: what was not used for longest goes. Iterators can be read
    only once, and are never kept.

    Examples
    --------
    >>> from bitkin.evaluate import nearest
    >>> ids, distances = nearest([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]], [[0.0, 1.0]], k=2)
    >>> ids
    array([[0, 1]])
    >>> distances.round(3)
    array([[1.   , 4.243]])
    >>> nearest([[1, 1, 0], [0, 5, 5]], [[1, 1, 1]], k=2, metric="jaccard").distances.round(3)
    array([[0.333, 0.333]])
    """
    kept = TruthCache.from_argument(cache)
    report = _no_report if progress is None else progress
    rows: ComparedRows | VectorSource
    if is_in_memory(X):
        rows, queries = _check_rows(X, Q)
    else:
        rows, queries = open_vectors(X, name="X"), ComparedRows(lone_as_row(Q), "Q")
        _require_same_columns(rows.shape[1], rows.feature_names, queries)
    k, metric = whole_number(k, "k", low=1), one_of(metric, "metric", TRUTH_METRICS)
    require_memory(
        16 * max(1, queries.n_rows) * k,
        f"a result of {queries.n_rows:,} queries with k={k:,}",
        "Take fewer neighbours, or fewer queries at a time.",
    )

    def find() -> Neighbors:
        if isinstance(rows, ComparedRows):
            return _nearest_in(rows, queries, k, metric, report)
        return _nearest_of(rows, queries, k, metric, report)

    if kept is None or (isinstance(rows, VectorSource) and rows.shape[0] is None):
        return find()
    found = kept.neighbors(rows, queries, k, metric, find)
    report(rows.n_rows if isinstance(rows, ComparedRows) else len(rows))
    return found


def _nearest_of(
    source: VectorSource,
    queries: ComparedRows,
    k: int,
    metric: str,
    report: Callable[[int], object],
) -> Neighbors:
    """Return the nearest of the rows of a source, read once."""
    best = no_neighbors(queries.n_rows, k)
    # blocks hold k rows at least, or most of what is measured would be dropped again
    for first, batch in source.batches(max(k, source.batch_rows * _BATCHES_PER_BLOCK)):
        found = _nearest_in(ComparedRows(batch, source.name), queries, k, metric, _no_report)
        found.ids[found.ids >= 0] += first
        best = _nearer_of(best, found, k)
        report(first + batch.shape[0])
    return best


def _no_report(n_rows: int) -> None:
    """Tell nobody."""


def _nearest_in(
    rows: ComparedRows,
    queries: ComparedRows,
    k: int,
    metric: str,
    report: Callable[[int], object],
) -> Neighbors:
    """Return the nearest of rows in memory; queries done are reported as that share of the rows."""
    if metric == "jaccard":
        sets = nearest_sets(rows, queries, k)
        report(rows.n_rows)
        return sets
    found = no_neighbors(queries.n_rows, k)
    if rows.n_rows > 0 and queries.n_rows > 0:
        bounds = _choose_bounds(Pairing(rows, queries, metric))
        # what is beyond the rows there are stays padding: id −1 at infinity
        n_found = min(k, rows.n_rows)
        for start, stop in _ranges(
            queries.n_rows, NearestCandidates.fitting_queries(n_found, bounds.query_block)
        ):
            ids, distances = NearestCandidates(bounds, start, stop, n_found).best()
            found.ids[start:stop, :n_found] = ids
            found.distances[start:stop, :n_found] = bounds.pairing.scaled_back(distances)
            report(rows.n_rows * stop // queries.n_rows)
    return found


def radius_truth(
    X: Any,
    Q: Any,
    n_neighbors: int = 50,
    *,
    cache: bool | str | os.PathLike[str] | None = None,
) -> scipy.sparse.csr_matrix:
    """Mark for every row of `Q` the rows of `X` that count as its neighbours: those closer than one
    radius for all.

    The radius is the mean, over the queries, of the l2 distance to the `n_neighbors`-th nearest
    row; neighbours are strictly closer. So a query in a dense region has many and about a fifth of
    the queries have none: average precision leaves those out. `X` and `Q` are what `nearest` takes;
    here both are held in memory. `cache` keeps the result on disk as there, for the same
    `n_neighbors`.

    Returns
    -------
    csr_matrix of bool, (q, n)
        True where row j of `X` is a neighbour of query i; columns sorted.

    Examples
    --------
    >>> from bitkin.evaluate import radius_truth
    >>> radius_truth([[0.0], [1.0], [5.0]], [[0.0], [4.0]], n_neighbors=2).toarray()
    array([[ True,  True, False],
           [False, False,  True]])
    """
    kept = TruthCache.from_argument(cache)
    rows, queries = _check_rows(X, Q)
    k = whole_number(n_neighbors, "n_neighbors", low=1)
    if k > rows.n_rows:
        raise InvalidInputError(
            f"n_neighbors must be at most the {rows.n_rows} rows of X, got {k}."
        )
    if kept is None:
        return _within_radius(rows, queries, k)
    return kept.within_radius(rows, queries, k, lambda: _within_radius(rows, queries, k))


def _within_radius(rows: ComparedRows, queries: ComparedRows, k: int) -> scipy.sparse.csr_matrix:
    """Mark the rows closer than the mean distance of the k-th nearest."""
    shape = (queries.n_rows, rows.n_rows)
    if queries.n_rows == 0:
        return scipy.sparse.csr_matrix(shape, dtype=bool)
    bounds = _choose_bounds(Pairing(rows, queries, "l2"))
    n_at_once = NearestCandidates.fitting_queries(k, bounds.query_block)
    kth = [
        NearestCandidates(bounds, start, stop, k).best()[1][:, -1]
        for start, stop in _ranges(queries.n_rows, n_at_once)
    ]
    # A second pass, now that the radius is known: the mean of scaled distances, scaled like them.
    query_ids, ids = _closer_than(bounds, float(np.concatenate(kth).mean()))
    truth = scipy.sparse.csr_matrix((np.ones(ids.size, dtype=bool), (query_ids, ids)), shape=shape)
    truth.sort_indices()
    return truth


def _closer_than(bounds: Bounds, radius: float) -> tuple[Ids, Ids]:
    """Return query and row of every pair at an l2 distance below `radius`, scaled as `distances`
    are.
    """
    pairing = bounds.pairing
    in_products = pairing.scaled_as_products(radius)
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for start, stop in _ranges(pairing.queries.n_rows, bounds.query_block):
        queries = bounds.queries(start, stop)
        # ‖a − b‖² < r² means ½‖a‖² − a·b < (r² − ‖b‖²) / 2, where the left side is the score.
        limits = (in_products**2 - queries.squares) / 2.0 + queries.errors
        for block in bounds.blocks(queries):
            query_ids, places, _ = PairsWithin(block.low, limits).pairs()
            query_ids, ids = start + query_ids, block.start + places
            inside = pairing.distances(ids, query_ids) < radius
            found.append((query_ids[inside], ids[inside]))
    every_query, every_id = map(np.concatenate, zip(*found, strict=True))
    return every_query, every_id


def _check_rows(X: Any, Q: Any) -> tuple[ComparedRows, ComparedRows]:
    rows, queries = ComparedRows(X, "X"), ComparedRows(lone_as_row(Q), "Q")
    _require_same_columns(rows.n_columns, rows.feature_names, queries)
    return rows, queries


def _require_same_columns(n_columns: int, names: Columns | None, queries: ComparedRows) -> None:
    require_columns(queries.feature_names, names, "Q", "X")
    if n_columns != queries.n_columns:
        raise InvalidInputError(
            f"Q must have as many columns as X, got {queries.n_columns} and {n_columns}. "
            "Encode both the same way."
        )


def _nearer_of(before: Neighbors, after: Neighbors, k: int) -> Neighbors:
    """Return the k nearest of two results; what is missing comes last, behind infinity too."""
    ids = np.concatenate([before.ids, after.ids], axis=1)
    distances = np.concatenate([before.distances, after.distances], axis=1)
    order = np.lexsort((ids, distances, ids < 0), axis=1)[:, :k]
    return Neighbors(
        np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    )


def _ranges(n: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut 0 … n into ranges of `step`, the last one shorter."""
    for start in range(0, n, step):
        yield start, min(start + step, n)


def _choose_bounds(pairing: Pairing) -> Bounds:
    return SparseBounds(pairing) if sparse_is_quicker(pairing) else DenseBounds(pairing)
