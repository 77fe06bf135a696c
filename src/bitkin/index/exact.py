"""Distances of shortlisted rows from stored vectors, in float64: only those rows are ever read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.index.estimate import Floats
from bitkin.index.segment import Ids
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import Batch
from bitkin.kernels.ranking import (
    dot_products_into,
    sparse_dot_products_into,
    sparse_squared_distances_into,
    squared_distances_into,
)

_GATHERED = 1 << 23  # numbers of stored rows held at a time
_PIECE = 1 << 17  # numbers compared by one thread at a time: they stay in its cache


def exact_distances(source: VectorSource, queries: Batch, places: Ids, metric: str) -> Floats:
    """Return the distance of query i from row `places[i, k]` of `source`: float64 (q, m), infinity where that is −1.

    l2 is not squared; cosine is 1 − cosine, 1 from a row of zeros; ip is negated.
    """
    out = np.full(places.shape, np.inf)
    step = max(1, _GATHERED // max(1, places.shape[1] * source.shape[1]))
    for first in range(0, len(places), step):
        some = slice(first, first + step)
        asked, columns = np.nonzero(places[some] >= 0)
        wanted, row_of = np.unique(places[some][asked, columns], return_inverse=True)
        rows = source.gather(wanted)
        out[first + asked, columns] = _measured(rows, row_of, queries[some], asked, metric)
    return out


def _measured(rows: Batch, row_of: Ids, queries: Batch, query_of: Ids, metric: str) -> Floats:
    """Return the distance of row `row_of[i]` from query `query_of[i]`, for all i."""
    out = np.empty(len(row_of))
    sparse = issparse(rows) and issparse(queries)
    held = _wide(queries, sparse)
    step = 512 if sparse else max(1, _PIECE // rows.shape[1])

    def measure(first: int) -> None:
        some = slice(first, first + step)
        out[some] = _distances(_wide(rows[row_of[some]], sparse), held, query_of[some], metric)

    threads.run(measure, range(0, len(out), step))
    return out


def _distances(rows: Any, queries: Any, query_of: Ids, metric: str) -> Floats:
    if metric == "l2":
        return np.sqrt(_sums(rows, queries, query_of, squares=True))
    products = _sums(rows, queries, query_of, squares=False)
    if metric == "ip":
        return 0.0 - products
    of_rows = _sums(rows, rows, np.arange(len(query_of)), squares=False)
    of_queries = _sums(queries, queries, np.arange(queries.shape[0]), squares=False)[query_of]
    # One root of the product, not two roots: a row is then at distance 0 from itself, exactly.
    norms = np.sqrt(of_rows * of_queries)
    cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0.0)
    return 1.0 - np.clip(cosines, -1.0, 1.0)


def _sums(rows: Any, queries: Any, query_of: Ids, *, squares: bool) -> Floats:
    """Return Σ (row − query)² for `squares`, else Σ row · query, for every row and its query."""
    out, lanes = np.empty(len(query_of)), np.empty(8)
    if issparse(rows):
        sparse_sums_into = sparse_squared_distances_into if squares else sparse_dot_products_into
        sparse_sums_into(*_plain(rows), *_plain(queries), query_of, lanes, out)
    else:
        dense_sums_into = squared_distances_into if squares else dot_products_into
        dense_sums_into(rows, queries, query_of, lanes, out)
    return out


def _wide(batch: Batch, sparse: bool) -> Any:
    """Return a batch in float64: CSR where both sides are, else dense."""
    if issparse(batch) and not sparse:
        batch = batch.toarray()
    return batch.astype(np.float64) if sparse else np.ascontiguousarray(batch, dtype=np.float64)


def _plain(csr: Any) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """Return the three arrays of a CSR matrix, of one type whatever SciPy chose."""
    return csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int64, copy=False), csr.data
