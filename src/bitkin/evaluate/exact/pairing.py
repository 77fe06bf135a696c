"""Distances of chosen pairs in float64, scaled so that none of them overflows or vanishes.

Products of blocks need rows multiplied by powers of two, which is exact, so that none leaves the
range of a float32. Pairs are measured as they are, by `bitkin.rescoring`; their distances are then
brought near the upper end of float64, so that the shortest, too, keep their order. Order and ties
are those of the scaled distances; only what is reported is scaled back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bitkin.arrays import Floats, Ids
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.rescoring.exact import measure_pairs
from bitkin.rescoring.pair_distances import Measured, own_exponents

# powers of two from the scale of products, below 2**120, to that of distances, below 2**960
_ROOM = 840
# norms between these powers of two need no scaling, even squared in float32
_UNSCALED_EXPONENTS = range(-30, 61)


class Pairing:
    """Rows, the queries they are compared with, and the metric.

    `row_scale` and `query_scale` are powers of two that keep every norm below 2**60, centred or
    not; they are equal for l2. Under cosine every row has a power of its own instead, see
    `own_scales`.
    """

    def __init__(self, rows: ComparedRows, queries: ComparedRows, metric: str) -> None:
        self.rows = rows
        self.queries = queries
        self.metric = metric
        self.both_sparse = rows.sparse and queries.sparse
        # Differences (l2) need one scale for both sides. Products may have one per side, since
        # (s·a)·(t·b) = s·t·(a·b).
        self.row_scale = self.query_scale = 1.0
        if metric == "l2":
            exponent = _norm_exponent(max(rows.largest, queries.largest), rows.n_columns)
            if exponent not in _UNSCALED_EXPONENTS:
                self.row_scale = self.query_scale = _scale_down_to_60(exponent)
        elif metric == "ip":
            self.row_scale = _scale_down_to_60(_norm_exponent(rows.largest, rows.n_columns))
            self.query_scale = _scale_down_to_60(_norm_exponent(queries.largest, rows.n_columns))

    @property
    def _exponent(self) -> int:
        """The power of two by which products are scaled."""
        exponent = math.frexp(self.row_scale)[1] - 1
        return exponent + math.frexp(self.query_scale)[1] - 1 if self.metric == "ip" else exponent

    @property
    def _room(self) -> int:
        """How many powers of two more distances are scaled by; none where nothing is scaled."""
        return _ROOM if self._exponent else 0

    def distances(self, ids: Ids, query_ids: Ids) -> Floats:
        """Return the distance of row `ids[i]` from query `query_ids[i]`, for all i; quickest where
        queries repeat.

        They are scaled, each by the same power of two: see `scaled_back` and `scaled_as_products`.
        """
        asked, query_of = np.unique(query_ids, return_inverse=True)
        measured = measure_pairs(
            self.rows.matrix, ids, self.queries.matrix[asked], query_of, self.metric
        )
        return measured.times_power(self._exponent + self._room)

    def scaled_distances(self, ids: Ids, query_ids: Ids) -> Floats:
        """Return distances as `distances` does, in the units of products of scaled rows."""
        return _multiply_by_power(self.distances(ids, query_ids), -self._room)

    def scaled_as_products(self, distance: float) -> float:
        """Return what `distances` returned in the units of products of scaled rows."""
        return math.ldexp(distance, -self._room)

    def scaled_back(self, distances: Floats) -> Floats:
        """Return distances as they are to be reported."""
        return _multiply_by_power(distances, -self._exponent - self._room)

    def take_rows(self, ids: Ids) -> Any:
        """Return the rows `ids` in float64, scaled: CSR where both sides are, else dense."""
        return self._take(self.rows, ids, self.row_scale)

    def take_queries(self, ids: Ids) -> Any:
        """Return the queries `ids` as `take_rows` does rows."""
        return self._take(self.queries, ids, self.query_scale)

    def _take(self, source: ComparedRows, ids: Ids, scale: float) -> Any:
        taken: Any = source.matrix[ids].astype(np.float64) if self.both_sparse else source.take(ids)
        values: Floats = taken.data if self.both_sparse else taken
        if self.metric == "cosine":
            scales = own_scales(taken)
            values *= (
                np.repeat(scales, np.diff(taken.indptr)) if self.both_sparse else scales[:, None]
            )
        elif scale != 1.0:
            values *= scale
        return taken


def _multiply_by_power(distances: Floats, exponent: int) -> Floats:
    return Measured(distances, None).times_power(exponent)


def own_scales(rows: Any) -> Floats:
    """Return for every row the power of two that brings its largest value between ½ and 1; 1 for a
    row of zeros.
    """
    scales: Floats = np.ldexp(1.0, -np.maximum(own_exponents(rows), -1000))
    return scales


def _norm_exponent(largest: float, n_columns: int) -> int:
    """Return e such that the difference of any two rows with values up to `largest` is shorter than
    2**e.
    """
    if largest == 0.0:
        return 0
    # |x| < 2**f for f = frexp(largest), so ‖x‖ < 2**f·√D, and a difference is at most twice that.
    return math.frexp(largest)[1] + 1 + math.ceil(math.log2(max(1, n_columns)) / 2)


def _scale_down_to_60(exponent: int) -> float:
    return math.ldexp(1.0, min(60 - exponent, 1000))
