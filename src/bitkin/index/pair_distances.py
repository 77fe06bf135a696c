"""Distances of rows from a query each, in float64, by direct differences and dot products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels.ranking import (
    dot_products_into,
    sparse_dot_products_into,
    sparse_squared_distances_into,
    squared_distances_into,
)

METRICS = ("l2", "cosine", "ip")

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


def pair_distances(rows: Any, queries: Any, query_of: Ids, metric: str) -> Floats:
    """Return the distance of row i from query `query_of[i]`, for all i; quickest where queries repeat.

    Both are float64, and either C-contiguous arrays or CSR. l2 is not squared; cosine is 1 − cosine, 1 from a row of
    zeros; ip is negated.
    """
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
    if isinstance(rows, np.ndarray):
        dense_sums_into = squared_distances_into if squares else dot_products_into
        dense_sums_into(rows, queries, query_of, lanes, out)
    else:
        sparse_sums_into = sparse_squared_distances_into if squares else sparse_dot_products_into
        sparse_sums_into(*_plain(rows), *_plain(queries), query_of, lanes, out)
    return out


def _plain(csr: Any) -> tuple[Ids, Ids, Floats]:
    """Return the three arrays of a CSR matrix, of one type whatever SciPy chose."""
    return csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int64, copy=False), csr.data
