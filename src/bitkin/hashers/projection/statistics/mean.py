"""Mean of rows, in one pass."""

from __future__ import annotations

from typing import Self

import numpy as np

from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.chunks import Chunks
from bitkin.hashers.projection.statistics.products import column_sums


class Mean:
    """Count and mean of rows, dense or CSR, added up in float64. Any cut of the same rows gives the
    same bits.

    Parameters
    ----------
    n_features : int
        Length of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.hashers.projection.statistics import Mean
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 5.0]])
    >>> Mean(2).update(X[:1]).merge(Mean(2).update(X[1:])).mean
    array([3., 3.])
    """

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self._chunks = Chunks(n_features, shifted=False)
        self._total = np.zeros(n_features)

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return len(self._total)

    @property
    def mean(self) -> Floats:
        """Mean of the rows: float64 (n_features,)."""
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

    def merge(self, other: Mean) -> Mean:
        """Return the mean of both sets of rows together."""
        if other.n_features != self.n_features:
            raise InvalidInputError(
                f"other must have {self.n_features} features, got {other.n_features}."
            )
        both = Mean(self.n_features)
        both.n = self.n + other.n
        both._total = self._sums() + other._sums()
        return both

    def _sums(self) -> Floats:
        total = self._total.copy()
        for chunk in self._chunks.rest():
            total += column_sums(chunk)
        return total
