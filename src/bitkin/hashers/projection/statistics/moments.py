"""Mean and scatter of rows, in one pass."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.chunks import Chunks
from bitkin.hashers.projection.statistics.products import (
    add_column_sums,
    add_products,
    column_sums,
    mirror,
    upper_times,
)


class Moments:
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
    >>> from bitkin.hashers.projection.statistics import Moments
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 5.0]])
    >>> both = Moments(2).update(X[:1]).merge(Moments(2).update(X[1:]))
    >>> both.n, both.mean
    (3, array([3., 3.]))
    >>> both.scatter()
    array([[8., 6.],
           [6., 6.]])
    """

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self._chunks = Chunks(n_features, shifted=True)
        self._total = np.zeros(n_features)
        self._products = np.zeros((n_features, n_features))

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return len(self._total)

    @property
    def mean(self) -> Floats:
        """Mean of the rows: float64 (n_features,)."""
        total = self._total.copy()
        for chunk in self._chunks.rest():
            total += column_sums(chunk)
        # exact sums of whole numbers
        return (self.n * self._chunks.origin + total) / max(1, self.n)

    def scatter(self, *, center: bool = True) -> Floats:
        """Return Σ (x − mean)(x − mean)ᵀ, or Σ x xᵀ: float64, exactly symmetric."""
        total, products = self._sums()
        if center:
            _subtract_outer(products, total, total / max(1, self.n))
        else:
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
            out += directions.T @ upper_times(self._products, directions)
            for chunk in self._chunks.rest():
                total += column_sums(chunk)
                seen = chunk @ directions
                out += seen.T @ seen
            n = max(1, self.n)
            along, off = total @ directions, (self._chunks.origin + total / n - about) @ directions
        out = out / n - np.outer(along / n, along / n) + np.outer(off, off)
        return (out + out.T) / 2

    def update(self, rows: Batch) -> Self:
        """Take in more rows, the next of the sequence."""
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(
                f"rows must have {self.n_features} features, got {rows.shape[1]}."
            )
        for chunk in self._chunks.push(rows):
            _add(self._total, self._products, chunk)
        self.n += rows.shape[0]
        return self

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows together."""
        if other.n_features != self.n_features:
            raise InvalidInputError(
                f"other must have {self.n_features} features, got {other.n_features}."
            )
        if not (self.n and other.n):
            return (self if self.n else other)._frozen()
        both, theirs = self._frozen(), other._frozen()
        shift = theirs._chunks.origin - both._chunks.origin
        # About our origin instead of theirs.
        _subtract_outer(theirs._products, -shift, theirs._total)
        theirs._total += theirs.n * shift
        _subtract_outer(theirs._products, theirs._total, -shift)
        both.n += theirs.n
        both._total += theirs._total
        both._products += theirs._products
        return both

    def _sums(self) -> tuple[Floats, Floats]:
        total, products = self._total.copy(), self._products.copy()
        for chunk in self._chunks.rest():
            _add(total, products, chunk)
        return total, products

    def _frozen(self) -> Moments:
        """Return a copy that holds no rows back."""
        copy = Moments(self.n_features)
        copy.n = self.n
        if self.n:
            copy._chunks.set_origin(self._chunks.origin)
        copy._total, copy._products = self._sums()
        return copy


def _add(total: Floats, products: Floats, chunk: Any) -> None:
    if issparse(chunk):
        total += column_sums(chunk)
        products += (chunk.T @ chunk).toarray()
    else:
        add_column_sums(total, chunk)
        add_products(products, chunk)


def _subtract_outer(matrix: Floats, a: Floats, b: Floats) -> None:
    """Subtract a · bᵀ in place, a row at a time: no second matrix."""
    for row, number in zip(matrix, a, strict=True):
        row -= number * b
