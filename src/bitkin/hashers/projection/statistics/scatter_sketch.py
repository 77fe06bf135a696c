"""The scatter of wide rows, seen through a few random directions: never n_features² numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.sums import RowChunks, column_sums, row_pieces


class ScatterSketch:
    """S · Ω for the scatter S = Σ (x − mean)(x − mean)ᵀ of rows and a few test directions Ω, in one
    pass.

    Sums are kept in float64; rows are dense or CSR. Any cut of the same rows into batches gives the
    same bits.

    Parameters
    ----------
    test : float64 (n_features, l)
        The directions Ω.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.hashers.projection.statistics import ScatterSketch
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 5.0]])
    >>> test = np.array([[1.0], [1.0]])
    >>> ScatterSketch(test).update(X[:1]).merge(ScatterSketch(test).update(X[1:])).product()
    array([[14.],
           [12.]])
    """

    def __init__(self, test: Floats) -> None:
        self.test = test
        self.n = 0
        self._chunks = RowChunks(len(test), shifted=False)
        self._total = np.zeros(len(test))
        self._product = np.zeros(test.shape)
        self._squares = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Hold no rows back in a pickle: a full chunk of them is larger than the sums."""
        return self.merge(ScatterSketch(self.test)).__dict__

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return len(self.test)

    @property
    def mean(self) -> Floats:
        """Mean of the rows: float64 (n_features,)."""
        total = self._total.copy()
        for chunk in self._chunks.rest():
            total += column_sums(chunk)
        return total / max(1, self.n)

    @property
    def mean_square(self) -> float:
        """Mean over the rows of ‖x‖²."""
        return sum(map(_squares, self._chunks.rest()), self._squares) / max(1, self.n)

    def product(self, *, center: bool = True) -> Floats:
        """Return S · Ω, or Σ x xᵀ · Ω: float64, of the shape of `test`."""
        total, product, _ = self._sums()
        if center:
            # Σ (x − m)(x − m)ᵀ Ω = Σ x xᵀ Ω − t (tᵀ Ω) / n, where t = Σ x = n·m
            with threads.blas_in_one_thread():
                product -= np.outer(total, total @ self.test / max(1, self.n))
        return product

    def update(self, rows: Batch) -> Self:
        """Take in more rows, the next of the sequence."""
        if rows.shape[1] != len(self.test):
            raise InvalidInputError(
                f"rows must have {len(self.test)} features, got {rows.shape[1]}."
            )
        for chunk in self._chunks.push(rows):
            self._squares += _add(self._total, self._product, self.test, chunk)
        self.n += rows.shape[0]
        return self

    def merge(self, other: ScatterSketch) -> ScatterSketch:
        """Return the sketch of both sets of rows together."""
        if not np.array_equal(self.test, other.test):
            raise InvalidInputError("other must be a sketch of the same test directions.")
        both = ScatterSketch(self.test)
        both.n = self.n + other.n
        mine, theirs = self._sums(), other._sums()
        # all three are plain sums over rows about zero, so they add
        both._total = mine[0] + theirs[0]
        both._product = mine[1] + theirs[1]
        both._squares = mine[2] + theirs[2]
        return both

    def _sums(self) -> tuple[Floats, Floats, float]:
        total, product, squares = self._total.copy(), self._product.copy(), self._squares
        for chunk in self._chunks.rest():
            squares += _add(total, product, self.test, chunk)
        return total, product, squares


def _add(total: Floats, product: Floats, test: Floats, chunk: Any) -> float:
    """Add a chunk to the sums in place, and return the sum of its squares."""
    total += column_sums(chunk)
    if issparse(chunk):
        # Xᵀ (X Ω) in this order: n × l and d × l numbers, never d × d
        product += chunk.T @ (chunk @ test)
        return _squares(chunk)
    # Xᵀ (X Ω) for the rows X of the chunk, first X Ω by rows, then Xᵀ (…) by features
    seen = np.empty((len(chunk), test.shape[1]))

    def rows(piece: slice) -> None:
        seen[piece] = chunk[piece] @ test

    def features(piece: slice) -> None:
        product[piece] += chunk[:, piece].T @ seen

    with threads.blas_in_one_thread():
        threads.run(rows, row_pieces(len(chunk), chunk.shape[1]))
        threads.run(features, row_pieces(chunk.shape[1], len(chunk)))
    return _squares(chunk)


def _squares(chunk: Any) -> float:
    numbers = chunk.data if issparse(chunk) else chunk
    with threads.blas_in_one_thread():
        return float(np.vdot(numbers, numbers))
