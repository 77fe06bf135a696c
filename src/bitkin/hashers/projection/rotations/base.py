"""The slot for rotations, and what they may learn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.hashers.projection.statistics import RowMoments, RowSample
from bitkin.memory import require_memory
from bitkin.randomness import Draws


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """Training rows after the projection: a sample of them, or all where there are few.

    Parameters
    ----------
    rows : float32 (n, c)
        Centred where the hasher centres; one column for each direction. Empty for rotations that
        need none.
    known : float64 (c, c) or None
        Second moment of all rows, where the projection knows it; else that of `rows` is taken.
    original : callable or None
        Returns rows as they were before the projection, but for centring, by their positions in
        `rows`. None where nobody has them any more.
    """

    rows: npt.NDArray[np.float32]
    known: npt.NDArray[np.float64] | None = None
    original: Callable[[npt.NDArray[np.int64]], Batch] | None = None
    _covariance: list[npt.NDArray[np.float64]] = field(default_factory=list, init=False, repr=False)

    @property
    def covariance(self) -> npt.NDArray[np.float64]:
        """Σ = rowsᵀ · rows / n in float64 (c, c), exactly symmetric; of all rows where that is
        known.

        About zero, not about the mean of the sample: what is coded are signs about zero.
        """
        if not self._covariance:
            self._covariance.append(_second_moment(self.rows) if self.known is None else self.known)
        return self._covariance[0]

    @classmethod
    def from_statistics(cls, statistics: RowSample | RowMoments) -> Self:
        """Return projected rows from a sample of them, or from their moments where a covariance is
        enough.

        Both can be fed on several machines and merged.
        """
        if isinstance(statistics, RowSample):
            return cls(statistics.rows)
        nothing = np.empty((0, statistics.n_features), dtype=np.float32)
        return cls(nothing, statistics.scatter(center=False) / max(1, statistics.n))


def _second_moment(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return Projected.from_statistics(RowMoments(rows.shape[1]).update(rows)).covariance


class FoundRotation(NamedTuple):
    """An orthonormal matrix, and how it was found."""

    matrix: npt.NDArray[np.float64]
    losses: npt.NDArray[np.float64]
    """The loss after each iteration, where there are any; else empty."""

    by: Rotation
    """What found it: the rotation that was asked, or the one that it chose."""


class Rotation(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds an orthonormal matrix. Stores its parameters only: what it finds belongs to the hasher
    that asked.
    """

    needs_rows: ClassVar[bool] = True
    """Whether it looks at `Projected.rows`; without, no row is projected for it."""

    needs_covariance_only: ClassVar[bool] = False
    """Whether `Projected.covariance` is all it looks at, so that a known one saves the rows."""

    n_matrices: ClassVar[int] = 8
    """How many matrices of n_bits × n_bits numbers it holds at once, about."""

    @abstractmethod
    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return R, float64 (n_bits, n_bits), orthonormal: rows hash as the signs of (x − mean) ·
        directions · R.
        """

    def find(self, projected: Projected, n_bits: int, draws: Draws) -> FoundRotation:
        """Return `matrix`, the loss after each iteration where there are any, and what found it."""
        return FoundRotation(self.matrix(projected, n_bits, draws), np.empty(0), self)

    def require_memory(self, n_bits: int) -> None:
        """Raise unless its matrices fit in memory."""
        needed = 8 * self.n_matrices * n_bits * n_bits
        require_memory(
            needed, f"A rotation of {n_bits:,} bits", "Use fewer bits, or rotation=None."
        )

    def require_parameters(self) -> None:  # most have none
        """Raise unless every parameter can be used."""


def draw_rotation(size: int, draws: Draws) -> npt.NDArray[np.float64]:
    """Draw an orthonormal matrix, evenly distributed over all of them, from size² normals."""
    normals = draws.normals((size, size))
    with threads.blas_in_one_thread():
        q, r = np.linalg.qr(normals)
    # Q of normals = Q · R is evenly distributed once signs make the diagonal of R positive, which
    # leaves one decomposition only.
    rotation: npt.NDArray[np.float64] = q * np.where(r.diagonal() < 0, -1.0, 1.0)
    return rotation
