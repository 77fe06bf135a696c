"""Distances of rows from a query each, summed in float64, by direct differences and dot products.

Sums are first made of the numbers as they are. Those that leave the range of float64, or lose
digits at its lower end, are made again of numbers multiplied by powers of two, which is exact: so
rows of any size have distances as good as those of ordinary ones, and ordinary ones pay nothing for
it. Where a distance itself may leave the range, it comes as a number and a power of two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.arrays import Floats, Ids
from bitkin.kernels._shared import COSINE, IP, L2
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.ranking import (
    cosine_distances_into,
    dot_products_into,
    sparse_dot_products_into,
    sparse_squared_distances_into,
    squared_distances_into,
)

METRIC_CODES = {"l2": L2, "cosine": COSINE, "ip": IP}  # as kernels know them

Exponents = npt.NDArray[np.intc]  # a C int, as for `np.frexp`: on Windows `np.ldexp` takes no other


class Measured(NamedTuple):
    """Distances, as values · 2**exponents."""

    values: Floats
    exponents: Exponents | None
    """None where all are 0."""

    def times_power(self, exponents: int | Exponents) -> Floats:
        """Return all distances times powers of two: infinity or 0 for what is beyond float64
        then.
        """
        if self.exponents is not None:
            exponents = exponents + self.exponents
        elif isinstance(exponents, int) and exponents == 0:
            return self.values
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(self.values, exponents)


def pair_distances(rows: Any, row_of: Ids, queries: Any, query_of: Ids, metric: str) -> Measured:
    """Return the distance of row `row_of[i]` from query `query_of[i]`, for all i; quickest where
    queries repeat.

    All numbers are finite, and either both are C-contiguous arrays, of float32 or float64, or both
    are CSR of float64, row i then being `row_of[i]` already. l2 is not squared; cosine is 1 −
    cosine, 1 from a row of zeros; ip is negated.
    """
    values, n_beyond = _measure(rows, row_of, queries, query_of, metric, scaled=False)
    if not n_beyond:
        return Measured(values, None)
    beyond = np.flatnonzero(np.isnan(values))
    exponents = np.zeros(len(values), dtype=np.intc)
    # only these pairs are measured again
    sparse = not isinstance(rows, np.ndarray)
    some = rows[beyond] if sparse else rows[row_of[beyond]].astype(np.float64)
    asked = queries[query_of[beyond]]
    if metric == "l2":
        # Rounding a and b apart would change a − b: it is the difference that is scaled.
        values[beyond], exponents[beyond] = _scaled_lengths(some, asked)
    else:
        some, of_rows = _scaled_by_own(some)
        asked, of_queries = _scaled_by_own(asked)
        each = np.arange(len(beyond))
        values[beyond], _ = _measure(some, each, asked, each, metric, scaled=True)
        # (2^−e·a)·(2^−f·b) = 2^−(e+f)·(a·b); a cosine does not depend on either scale
        if metric == "ip":
            exponents[beyond] = of_rows + of_queries
    return Measured(values, exponents)


def own_exponents(rows: Any) -> Exponents:
    """Return e for every row such that its largest value is from 2**(e − 1) to 2**e; 0 for
    zeros.
    """
    largest = np.zeros(rows.shape[0])
    if isinstance(rows, np.ndarray):
        np.max(abs(rows), axis=1, initial=0.0, out=largest)
    else:
        np.maximum.at(
            largest, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), abs(rows.data)
        )
    return np.frexp(largest)[1]


def _measure(
    rows: Any, row_of: Ids, queries: Any, query_of: Ids, metric: str, *, scaled: bool
) -> tuple[Floats, int]:
    """Return distances, and how many are NaN since their sums leave the range of float64."""
    if metric == "l2":
        squares, n_beyond = _sums(rows, row_of, queries, query_of, squares=True, scaled=scaled)
        return np.sqrt(squares), n_beyond
    products, n_beyond = _sums(rows, row_of, queries, query_of, squares=False, scaled=scaled)
    if metric == "ip":
        # 0 − x, for −x would make −0.0 of a product of 0
        return 0.0 - products, n_beyond
    every = np.arange(queries.shape[0])
    of_queries, _ = _sums(queries, every, queries, every, squares=False, scaled=scaled)
    if not isinstance(rows, np.ndarray):
        row_of = np.arange(len(query_of))  # of which they are gathered already
    of_rows, _ = _sums(rows, row_of, rows, row_of, squares=False, scaled=scaled)
    out = np.empty(len(query_of))
    return out, cosine_distances_into(products, of_rows, of_queries, query_of, scaled, out)


def _sums(
    rows: Any, row_of: Ids, queries: Any, query_of: Ids, *, squares: bool, scaled: bool
) -> tuple[Floats, int]:
    """Return Σ (row − query)² for `squares`, else Σ row · query, and how many of them are NaN."""
    out, lanes = np.empty(len(query_of)), np.empty(8)
    if isinstance(rows, np.ndarray):
        dense_sums_into = squared_distances_into if squares else dot_products_into
        n_beyond = dense_sums_into(
            read_only(rows),
            read_only(row_of),
            read_only(queries),
            read_only(query_of),
            scaled,
            lanes,
            out,
        )
        return out, n_beyond
    sparse_sums_into = sparse_squared_distances_into if squares else sparse_dot_products_into
    return out, sparse_sums_into(*_plain(rows), *_plain(queries), query_of, scaled, lanes, out)


def _scaled_lengths(rows: Any, queries: Any) -> tuple[Floats, Exponents]:
    """Return ‖row − query‖ of every row and its query, as a number and a power of two."""
    with np.errstate(over="ignore"):
        apart = rows - queries
    # Halves of differences beyond float64 are within. Other pairs stay whole: half of the smallest
    # number is none.
    halved = _not_finite(apart).astype(np.intc)
    if halved.any():
        apart = _times_powers(rows, -halved) - _times_powers(queries, -halved)
    apart, exponents = _scaled_by_own(apart)
    nothing = np.zeros((1, rows.shape[1]))
    zero: Any = nothing if isinstance(apart, np.ndarray) else csr_array(nothing)
    first = np.zeros(rows.shape[0], dtype=np.int64)
    squares, _ = _sums(apart, np.arange(len(first)), zero, first, squares=True, scaled=True)
    # ‖a − b‖ = 2^halved · 2^e · ‖scaled‖
    return np.sqrt(squares), exponents + halved


def _scaled_by_own(rows: Any) -> tuple[Any, Exponents]:
    """Return rows with largest values between ½ and 1, and the powers of two they were divided
    by.
    """
    exponents = own_exponents(rows)
    return _times_powers(rows, -exponents), exponents


def _times_powers(rows: Any, exponents: Exponents) -> Any:
    """Return every row times a power of two of its own."""
    if isinstance(rows, np.ndarray):
        return np.ldexp(rows, exponents[:, None])
    values = np.ldexp(rows.data, np.repeat(exponents, np.diff(rows.indptr)))
    return csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


def _not_finite(rows: Any) -> npt.NDArray[np.bool_]:
    """Tell of every row whether it holds a number that is not finite."""
    if isinstance(rows, np.ndarray):
        return np.asarray(~np.isfinite(rows).all(axis=1))
    flags = np.zeros(rows.shape[0], dtype=np.bool_)
    flags[np.repeat(np.arange(len(flags)), np.diff(rows.indptr))[~np.isfinite(rows.data)]] = True
    return flags


def _plain(csr: Any) -> tuple[Ids, Ids, Floats]:
    """Return the three arrays of a CSR matrix, of one type whatever SciPy chose."""
    return (
        csr.indptr.astype(np.int64, copy=False),
        csr.indices.astype(np.int64, copy=False),
        csr.data,
    )
