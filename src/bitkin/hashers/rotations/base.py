"""The slot for rotations, and what they may learn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from bitkin.hashers.statistics.products import second_moment
from bitkin.randomness import Draws


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """Training rows after the projection: a sample of them, or all where there are few.

    Parameters
    ----------
    rows : float32 (n, c)
        Centred where the hasher centres; one column for each direction. Empty for rotations that need none.
    known : float64 (c, c) or None
        Second moment of all rows, where the projection knows it; else that of `rows` is taken.
    """

    rows: npt.NDArray[np.float32]
    known: npt.NDArray[np.float64] | None = None
    _covariance: list[npt.NDArray[np.float64]] = field(default_factory=list, init=False, repr=False)

    @property
    def covariance(self) -> npt.NDArray[np.float64]:
        """Σ = rowsᵀ · rows / n in float64 (c, c), exactly symmetric; of all rows where that is known.

        About zero, not about the mean of the sample: what is coded are signs about zero.
        """
        if not self._covariance:
            self._covariance.append(second_moment(self.rows) if self.known is None else self.known)
        return self._covariance[0]


class Rotation(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds an orthonormal matrix. Stores its parameters only: what it finds belongs to the hasher that asked."""

    needs_rows: ClassVar[bool] = True
    """Whether it looks at `Projected.rows`; without, no row is projected for it."""

    needs_covariance_only: ClassVar[bool] = False
    """Whether `Projected.covariance` is all it looks at, so that a known one saves the rows."""

    @abstractmethod
    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return R, float64 (n_bits, n_bits), orthonormal: rows hash as the signs of (x − mean) · directions · R."""

    def matrix_and_losses(
        self, projected: Projected, n_bits: int, draws: Draws
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return `matrix`, and the loss after each turn where it is found in turns; else none."""
        return self.matrix(projected, n_bits, draws), np.empty(0)

    def require_parameters(self) -> None:  # most have none
        """Raise unless every parameter can be used."""
