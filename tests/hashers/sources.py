"""Data and sources for the tests of projections."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.io.vectors import VectorSource
from bitkin.randomness import Draws


class CountingSource(VectorSource):
    """The rows of an array; remembers how many were read in order and which by number."""

    def __init__(self, array: Any) -> None:
        self._inner = open_vectors(array, name="counted")
        inner = self._inner
        super().__init__(
            inner.name, inner.shape, inner.dtype, sparse=inner.sparse, batch_rows=inner.batch_rows
        )
        self.passes = 0
        self.gathered: list[int] = []

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Any]]:
        self.passes += 1
        return self._inner.batches(rows, start)

    def gather(self, row_numbers: npt.ArrayLike) -> Any:
        self.gathered += np.asarray(row_numbers).tolist()
        return self._inner.gather(row_numbers)


def decaying(n: int, d: int, seed: int = 0, power: float = 1.0) -> npt.NDArray[np.float32]:
    """Rows along random axes with standard deviations that fall as j^−power, about a mean that is
    not zero.
    """
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -power
    return np.asarray(rows @ axes.T + rng.standard_normal(d), dtype=np.float32)


def bags(n: int, d: int, per_row: int = 30, seed: int = 0) -> scipy.sparse.csr_array:
    """Sparse rows of twenty topics, each with frequent and rare features of its own."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, 20, (n, 1))
    columns = (topics * (d // 20) + (d // 20) * rng.random((n, per_row)) ** 5).astype(np.int64)
    rows = np.repeat(np.arange(n), per_row)
    numbers = (1 + topics + rng.random((n, per_row))).ravel()
    return scipy.sparse.csr_array(
        (numbers, (rows, columns.ravel())), shape=(n, d), dtype=np.float32
    )


def once(X: Any, *cuts: int) -> Iterator[Any]:
    """Yield the rows in batches, once; dense batches share one buffer, as a careless reader's
    would.
    """
    edges = [0, *cuts, X.shape[0]]
    longest = max(stop - first for first, stop in pairwise(edges))
    buffer = None if scipy.sparse.issparse(X) else np.empty((longest, X.shape[1]), dtype=X.dtype)
    for first, stop in pairwise(edges):
        if buffer is None:
            yield X[first:stop]
        else:
            buffer[: stop - first] = X[first:stop]
            yield buffer[: stop - first]


def largest_angle(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return the largest principal angle between the spans of the columns."""
    return float(scipy.linalg.subspace_angles(a.astype(np.float64), b.astype(np.float64)).max())


def training(X: Any, center: bool = True, seed: int = 0, **options: Any) -> TrainingVectors:
    """Return rows as `ProjectionHash.fit` hands them to a projection."""
    key = int(Draws(seed, "rows").words(1)[0])
    return TrainingVectors(open_vectors(X, **options), center=center, normalize=False, key=key)
