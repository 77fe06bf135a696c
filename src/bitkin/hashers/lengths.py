"""How long rows are, and how much their lengths differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from bitkin.arrays import Batch


class Lengths(NamedTuple):
    """Sums over rows that are not zero."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, other: Lengths) -> Lengths:
        """Return the sums over both."""
        return Lengths(self.n + other.n, self.total + other.total, self.squares + other.squares)

    def with_rows(self, batch: Batch) -> Lengths:
        """Return the sums with the rows of a batch."""
        squares = batch.multiply(batch).sum(axis=1) if issparse(batch) else _squares(batch)
        squares = np.asarray(squares, dtype=np.float64).reshape(-1)
        squares = squares[squares > 0]  # zeros have no direction
        return self.plus(Lengths(len(squares), float(np.sqrt(squares).sum()), float(squares.sum())))

    @property
    def mean(self) -> float:
        """Of the lengths."""
        return self.total / self.n

    @property
    def spread(self) -> float:
        """Standard deviation / mean."""
        return float(np.sqrt(max(0.0, self.squares / self.n - self.mean**2))) / self.mean


NO_LENGTHS = Lengths()


def _squares(batch: Any) -> Any:
    # in float64: squares of float32 numbers leave its range
    return np.einsum("ij,ij->i", batch, batch, dtype=np.float64)
