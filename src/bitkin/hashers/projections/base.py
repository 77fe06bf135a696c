"""The slot for projections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from bitkin.errors import InvalidInputError
from bitkin.hashers.statistics.centred_rows import CentredRows
from bitkin.hashers.training import TrainingVectors
from bitkin.io.vectors.batch import Batch
from bitkin.randomness import Draws


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What a projection found: a row x is projected to (x − mean) · directions."""

    directions: npt.NDArray[np.float64]
    """Directions as columns: float64 (n_features, n_bits)."""

    mean: npt.NDArray[np.float64] | None
    """float64 (n_features,), on the grid of float32; None where the hasher does not centre."""

    covariance: npt.NDArray[np.float64] | None = None
    """Second moment of all projected rows, float64 (n_bits, n_bits); None where only a sample can tell."""

    def project(self, rows: Batch) -> npt.NDArray[np.float32]:
        """Return projected rows, rounded to float32 once: dense and CSR rows hardly ever differ."""
        centre = np.zeros(len(self.directions)) if self.mean is None else self.mean
        with np.errstate(over="ignore"):
            projected = CentredRows(rows, centre).times(self.directions).astype(np.float32)
        if not np.isfinite(projected).all():
            raise InvalidInputError("X must have smaller numbers: they project beyond float32. Scale it down.")
        return projected


class Projection(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds directions. Stores its parameters only: what it finds belongs to the hasher that asked."""

    reads_all_rows: ClassVar[bool] = True
    """Whether `learn` comes across every row, and so across every number that is not finite."""

    @abstractmethod
    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return `n_bits` directions and the mean; the projection decides which rows are read for them."""

    def require_parameters(self) -> None:  # most have none
        """Raise unless every parameter can be used."""
