"""Mean and scatter of rows, in one pass."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bitkin import threads
from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.sums import (
    RowChunks,
    add_products,
    column_sums,
    mirror,
    upper_times,
)


class RowMean:
    """Count and mean of rows, dense or CSR, added up in float64. Any cut of the same rows gives the
    same bits.

    Parameters
    ----------
    n_features : int
        Length of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.hashers.projection.statistics import RowMean
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 5.0]])
    >>> RowMean(2).update(X[:1]).merge(RowMean(2).update(X[1:])).mean
    array([3., 3.])
    """

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.n_features = n_features
        self._chunks = RowChunks(n_features, shifted=False)
        self._total = np.zeros(n_features)

    @property
    def mean(self) -> Floats:
        """RowMean of the rows: float64 (n_features,)."""
        return self._sums() / max(1, self.n)

    def update(self, rows: Batch) -> Self:
        """Take in more rows, the next of the sequence."""
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(
                f"rows must have {self.n_features} features, got {rows.shape[1]}."
            )
        for chunk in self._chunks.push(rows):
            self._total += column_sums(chunk)
        self.n += rows.shape[0]
        return self

    def merge(self, other: RowMean) -> RowMean:
        """Return the mean of both sets of rows together."""
        if other.n_features != self.n_features:
            raise InvalidInputError(
                f"other must have {self.n_features} features, got {other.n_features}."
            )
        both = RowMean(self.n_features)
        both.n = self.n + other.n
        both._total = self._sums() + other._sums()
        return both

    def _sums(self) -> Floats:
        total = self._total.copy()
        for chunk in self._chunks.rest():
            total += column_sums(chunk)
        return total


class RowMoments:
    """Count, mean and scatter of rows, dense or CSR, added up in float64.

    Memory is two or three times n_features² numbers. Any cut of the same rows into batches gives
    the same bits, and so does any number of threads.

    Parameters
    ----------
    n_features : int
        Length of a row.

    Notes
    -----
    Sums are about the median of some early rows (about zero for CSR), not about zero: where all
    rows are alike nothing is lost to rounding, a constant column has a scatter of exactly zero,
    rows far from all others do no harm wherever they come, and whole numbers stay whole, so that
    `merge` is then exact.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.hashers.projection.statistics import RowMoments
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 5.0]])
    >>> both = RowMoments(2).update(X[:1]).merge(RowMoments(2).update(X[1:]))
    >>> both.n, both.mean
    (3, array([3., 3.]))
    >>> both.scatter()
    array([[8., 6.],
           [6., 6.]])
    """

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.n_features = n_features
        self._chunks = RowChunks(n_features, shifted=True)
        self._total = np.zeros(n_features)
        self._products = np.zeros((n_features, n_features))

    @property
    def mean(self) -> Floats:
        """Mean of the rows: float64 (n_features,)."""
        total = self._total.copy()
        for chunk in self._chunks.rest():
            total += column_sums(chunk)
        # exact sums of whole numbers
        return (self.n * self._chunks.origin + total) / max(1, self.n)

    def __getstate__(self) -> dict[str, Any]:
        """Hold no rows back in a pickle: a full chunk of them is larger than the sums."""
        return self._copy().__dict__

    def scatter(self, *, center: bool = True) -> Floats:
        """Return Σ (x − mean)(x − mean)ᵀ, or Σ x xᵀ: float64, exactly symmetric."""
        total, products = self._sums()
        if center:
            # About any origin o, with t = Σ (x − o): Σ (x − o)(x − o)ᵀ − t·tᵀ/n.
            _subtract_outer(products, total, total / max(1, self.n))
        else:
            # Σ x xᵀ = Σ (x − o)(x − o)ᵀ + o·tᵀ + (t + n·o)·oᵀ
            _subtract_outer(products, -self._chunks.origin, total)
            _subtract_outer(products, total + self.n * self._chunks.origin, -self._chunks.origin)
        mirror(products)
        return products

    def projected(self, directions: Floats, about: Floats) -> Floats:
        """Return the mean of vᵀv over rows v = (x − about) · directions: float64 (k, k), exactly
        symmetric.

        The scatter is not copied for it.
        """
        total, right = self._total.copy(), directions.shape[1]
        out = np.zeros((right, right))
        with threads.blas_in_one_thread():
            # Dᵀ (Σ (x − o)(x − o)ᵀ) D, of the chunks added up already
            out += directions.T @ upper_times(self._products, directions)
            for chunk in self._chunks.rest():
                total += column_sums(chunk)
                seen = chunk @ directions
                out += seen.T @ seen
            n = max(1, self.n)
            along, off = total @ directions, (self._chunks.origin + total / n - about) @ directions
        # Let D be the directions, y = (x − o)·D, t = Σ (x − o). The mean of (y − ȳ)ᵀ(y − ȳ) is
        # Σ yᵀy/n − (t·D/n)ᵀ(t·D/n); `off` is where the mean of all rows lies seen from `about`.
        out = out / n - np.outer(along / n, along / n) + np.outer(off, off)
        return (out + out.T) / 2

    def update(self, rows: Batch) -> Self:
        """Take in more rows, the next of the sequence."""
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(
                f"rows must have {self.n_features} features, got {rows.shape[1]}."
            )
        for chunk in self._chunks.push(rows):
            add_products(self._products, chunk, self._total)
        self.n += rows.shape[0]
        return self

    def merge(self, other: RowMoments) -> RowMoments:
        """Return the moments of both sets of rows together."""
        if other.n_features != self.n_features:
            raise InvalidInputError(
                f"other must have {self.n_features} features, got {other.n_features}."
            )
        if not (self.n and other.n):
            return self._copy() if self.n else other._copy()
        both = self._copy()
        total, products = other._sums()
        # Their sums are about another origin. With s = their origin − ours and t = Σ (x − theirs):
        # Σ (x − ours) = t + n·s, and Σ (x − ours)(x − ours)ᵀ = products + s·tᵀ + (t + n·s)·sᵀ.
        shift = other._chunks.origin - self._chunks.origin
        _subtract_outer(products, -shift, total)
        total += other.n * shift
        _subtract_outer(products, total, -shift)
        both.add_sums(other.n, total, products)
        return both

    def add_sums(self, n: int, total: Floats, products: Floats) -> None:
        """Add Σ x and Σ x xᵀ of `n` more rows x, less our origin."""
        self.n += n
        self._total += total
        self._products += products

    def _sums(self) -> tuple[Floats, Floats]:
        """Return Σ x and Σ x xᵀ of all rows x, less the origin; of the latter the upper tiles."""
        total, products = self._total.copy(), self._products.copy()
        for chunk in self._chunks.rest():
            add_products(products, chunk, total)
        return total, products

    def _copy(self) -> RowMoments:
        """Return a copy that holds no rows back."""
        copy = RowMoments(self.n_features)
        copy.n = self.n
        if self.n:
            copy._chunks.set_origin(self._chunks.origin)
        copy._total, copy._products = self._sums()
        return copy


def _subtract_outer(matrix: Floats, a: Floats, b: Floats) -> None:
    """Subtract a · bᵀ in place, a row at a time: no second matrix."""
    for row, number in zip(matrix, a, strict=True):
        row -= number * b
