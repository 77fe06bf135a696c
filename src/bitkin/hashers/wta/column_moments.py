"""What one pass tells of every feature: mean, variance, range, and how often it is zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from bitkin import memory, threads
from bitkin.arrays import Flags, Floats
from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing.moments import add_dense_moments_into, add_sparse_moments_into

_COLUMNS_PER_PIECE = 256  # what a thread takes at a time
_EXACT_BYTES = {"f": 4, "i": 2, "u": 2}  # numbers of up to so many bytes are exact in float32
_SPLIT = 2.0**27 + 1.0
BYTES_PER_FEATURE = 7 * 8


def exact_float_type(numbers: np.dtype[Any]) -> type[np.float32 | np.float64]:
    """Return the type in which kernels read such numbers: float32 where it holds all of them."""
    return np.float32 if numbers.itemsize <= _EXACT_BYTES[numbers.kind] else np.float64


class ColumnMoments:
    """Mean, variance and range of every feature of the rows seen, dense or CSR.

    A matrix and its sparse copy, whatever the batches, the type of the numbers and the number of
    threads, give the same bits. Constant features have a variance of exactly zero.
    """

    def __init__(self, n_features: int) -> None:
        memory.require_memory(
            BYTES_PER_FEATURE * n_features,
            f"What center and scale learn of {n_features:,} features",
            "Give center=False and scale=False.",
        )
        self.n_rows = 0
        self.n_features = n_features
        self._sums = np.zeros((6, n_features))
        self._sums[4], self._sums[5] = np.inf, -np.inf
        self._nonzeros = np.zeros(n_features, dtype=np.int64)

    def update(self, batch: Any) -> None:
        """Take in more rows."""
        self.n_rows += batch.shape[0]
        kind = exact_float_type(batch.dtype)
        if issparse(batch):
            numbers = read_only(batch.data.astype(kind, copy=False))
            add_sparse_moments_into(numbers, read_only(batch.indices), self._sums, self._nonzeros)
            return
        rows = read_only(batch.astype(kind, copy=False))

        # Each piece adds up some columns whole, so that no sum depends on how many threads run.
        def add(first: int) -> None:
            stop = min(first + _COLUMNS_PER_PIECE, self.n_features)
            add_dense_moments_into(rows, first, stop, self._sums, self._nonzeros)

        threads.run(add, list(range(0, self.n_features, _COLUMNS_PER_PIECE)))

    def merge(self, other: ColumnMoments) -> ColumnMoments:
        """Return the moments of both sets of rows together. Sums have twice the digits of float64,
        so that they round to the same mean and variance as those of one pass, nearly always.
        """
        both = ColumnMoments(self.n_features)
        both.n_rows = self.n_rows + other.n_rows
        mine, theirs = self._sums, other._sums
        with np.errstate(all="ignore"):
            for high, low in ((0, 1), (2, 3)):
                both._sums[high], both._sums[low] = _add_pairs(
                    mine[high], mine[low], theirs[high], theirs[low]
                )
        both._sums[4] = np.minimum(mine[4], theirs[4])
        both._sums[5] = np.maximum(mine[5], theirs[5])
        both._nonzeros = self._nonzeros + other._nonzeros
        return both

    @property
    def zero_share(self) -> float:
        """Share of the numbers that are zero."""
        return 1.0 - int(self._nonzeros.sum()) / (max(1, self.n_rows) * self.n_features)

    @property
    def least(self) -> Floats:
        """The smallest number of every feature."""
        least: Floats = np.where(self._has_zeros, np.minimum(self._sums[4], 0.0), self._sums[4])
        return least

    @property
    def constant(self) -> Flags:
        """Which features have the same value in all rows."""
        greatest = np.where(self._has_zeros, np.maximum(self._sums[5], 0.0), self._sums[5])
        return np.asarray(self.least == greatest)

    @property
    def mean(self) -> Floats:
        """Mean of every feature; not finite where its sum overflows."""
        with np.errstate(all="ignore"):
            mean = (self._sums[0] + self._sums[1]) / self.n_rows
        return np.where(self.constant, self.least, mean)

    @property
    def variance(self) -> Floats:
        """Variance of every feature; not finite where its squares overflow."""
        high, low, square_high, square_low = self._sums[:4]
        mean = self.mean
        with np.errstate(all="ignore"):
            # n · variance = Σx² − 2m·Σx + n·m² = (Σx² − m·Σx) + m·(n·m − Σx). Large parts of each
            # bracket cancel, so both are subtracted as pairs: high parts exactly, then low parts.
            product, error = _product(mean, high)
            first = (square_high - product) + (square_low - (error + mean * low))
            product, error = _product(mean, np.float64(self.n_rows))
            second = mean * ((product - high) + (error - low))
            variance = (first + second) / self.n_rows
        # rounding may take a variance near to nothing below it
        variance = np.where(variance < 0, 0.0, variance)
        return np.where(self.constant, 0.0, variance)

    def share_between(self) -> float:
        """Return the share of all variance that is between the means of features and not within
        features: η² of a number by its feature. NaN where numbers are too large.
        """
        means, within = self.mean, self.variance
        if not (np.isfinite(means).all() and np.isfinite(within).all()):
            return math.nan
        # fsum is exact, and so the same on every machine
        middle = math.fsum(means) / self.n_features
        between = math.fsum(np.square(means - middle)) / self.n_features
        total = between + math.fsum(within) / self.n_features
        return between / total if total > 0 else 0.0

    @property
    def _has_zeros(self) -> Flags:
        return np.asarray(self._nonzeros < self.n_rows)


def _add_pairs(a: Floats, a_low: Floats, b: Floats, b_low: Floats) -> tuple[Floats, Floats]:
    """Return (a + a_low) + (b + b_low) as a pair; what rounding takes away from a + b is exact
    (Knuth's two-sum).
    """
    total = a + b
    part = total - a
    return total, ((a - (total - part)) + (b - part)) + (a_low + b_low)


def _product(a: Floats, b: Any) -> tuple[Floats, Floats]:
    """Return a · b, and exactly what rounding took away from it (Dekker's product)."""
    product = a * b
    a_left, b_left = _SPLIT * a - (_SPLIT * a - a), _SPLIT * b - (_SPLIT * b - b)
    a_right, b_right = a - a_left, b - b_left
    cross = (a_left * b_left - product) + a_left * b_right + a_right * b_left
    return product, cross + a_right * b_right
