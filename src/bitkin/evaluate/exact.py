"""Distances of chosen pairs in float64, by direct differences and dot products: the ones that are reported.

Rows are first multiplied by powers of two, which is exact, so that no square or product leaves the range of a float.
Order and ties are those of the scaled distances; only what is reported is scaled back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.evaluate.rows import Rows
from bitkin.kernels.ranking import (
    dot_products_into,
    sparse_dot_products_into,
    sparse_squared_distances_into,
    squared_distances_into,
)

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

METRICS = ("l2", "cosine", "ip")

_PIECE = 2**17  # values gathered at a time: they stay in the cache
_COMFORT = range(-30, 61)  # norms between these powers of two need no scaling, even squared in float32


class Pairing:
    """Rows, the queries they are compared with, and the metric.

    `row_scale` and `query_scale` are powers of two that keep every norm below 2**60, centred or not; they are equal for
    l2. Under cosine every row has a power of its own instead, see `own_scales`.
    """

    def __init__(self, rows: Rows, queries: Rows, metric: str) -> None:
        self.rows = rows
        self.queries = queries
        self.metric = metric
        self.both_sparse = rows.csr is not None and queries.csr is not None
        self.row_scale = self.query_scale = 1.0
        if metric == "l2":
            exponent = _norm_exponent(max(rows.largest, queries.largest), rows.n_columns)
            if exponent not in _COMFORT:
                self.row_scale = self.query_scale = _down_to_60(exponent)
        elif metric == "ip":
            self.row_scale = _down_to_60(_norm_exponent(rows.largest, rows.n_columns))
            self.query_scale = _down_to_60(_norm_exponent(queries.largest, rows.n_columns))

    def scaled_distances(self, ids: Ids, query_ids: Ids) -> Floats:
        """Return the distance of row `ids[i]` from query `query_ids[i]`, for all i; quickest where queries repeat."""
        out = np.empty(ids.size, dtype=np.float64)
        step = 512 if self.both_sparse else max(1, _PIECE // max(1, self.rows.n_columns))

        def measure(start: int) -> None:
            part = slice(start, start + step)
            out[part] = self._measure(ids[part], query_ids[part])

        threads.run(measure, range(0, ids.size, step))
        return out

    def scaled_back(self, distances: Floats) -> Floats:
        """Return scaled distances as they are to be reported."""
        exponent = math.frexp(self.row_scale)[1] - 1
        if self.metric == "ip":
            exponent += math.frexp(self.query_scale)[1] - 1
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(distances, -exponent) if exponent else distances

    def take_rows(self, ids: Ids) -> Any:
        """Return the rows `ids` in float64, scaled: CSR where both sides are, else dense."""
        return self._take(self.rows, ids, self.row_scale)

    def take_queries(self, ids: Ids) -> Any:
        """Return the queries `ids` as `take_rows` does rows."""
        return self._take(self.queries, ids, self.query_scale)

    def _measure(self, ids: Ids, query_ids: Ids) -> Floats:
        asked, query_of = np.unique(query_ids, return_inverse=True)
        rows, queries = self.take_rows(ids), self.take_queries(asked)
        if self.metric == "l2":
            return np.sqrt(_sums(rows, queries, query_of, squares=True))
        products = _sums(rows, queries, query_of, squares=False)
        if self.metric == "ip":
            return 0.0 - products
        of_rows = _sums(rows, rows, np.arange(ids.size), squares=False)
        of_queries = _sums(queries, queries, np.arange(asked.size), squares=False)[query_of]
        # One root of the product, not two roots: a row is then at distance 0 from itself, exactly.
        norms = np.sqrt(of_rows * of_queries)
        cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0.0)
        return 1.0 - np.clip(cosines, -1.0, 1.0)

    def _take(self, source: Rows, ids: Ids, scale: float) -> Any:
        taken: Any = source.take_csr(ids) if self.both_sparse else source.take(ids)
        values: Floats = taken.data if self.both_sparse else taken
        if self.metric == "cosine":
            scales = own_scales(taken)
            values *= np.repeat(scales, np.diff(taken.indptr)) if self.both_sparse else scales[:, None]
        elif scale != 1.0:
            values *= scale
        return taken


def own_scales(rows: Any) -> Floats:
    """Return for every row the power of two that brings its largest value between ½ and 1; 1 for a row of zeros."""
    largest = np.zeros(rows.shape[0])
    if isinstance(rows, np.ndarray):
        np.max(abs(rows), axis=1, initial=0.0, out=largest)
    else:
        np.maximum.at(largest, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), abs(rows.data))
    exponents = np.frexp(largest)[1]
    scales: Floats = np.ldexp(1.0, -np.maximum(exponents, -1000))
    return scales


def _sums(rows: Any, queries: Any, query_of: Ids, *, squares: bool) -> Floats:
    """Return Σ (row − query)² for `squares`, else Σ row · query, for every row and its query."""
    out = np.empty(query_of.size, dtype=np.float64)
    lanes = np.empty(8, dtype=np.float64)
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


def _norm_exponent(largest: float, n_columns: int) -> int:
    """Return e such that the difference of any two rows with values up to `largest` is shorter than 2**e."""
    if largest == 0.0:
        return 0
    return math.frexp(largest)[1] + 1 + math.ceil(math.log2(max(1, n_columns)) / 2)


def _down_to_60(exponent: int) -> float:
    return math.ldexp(1.0, min(60 - exponent, 1000))
