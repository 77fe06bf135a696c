"""The slot for projections."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from bitkin.hashers.training import TrainingVectors
from bitkin.randomness import Draws


class Projection(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds directions. Stores its parameters only: what it finds belongs to the hasher that asked."""

    @abstractmethod
    def directions(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> npt.NDArray[np.float32]:
        """Return `n_bits` directions as columns: float32 (n_features, n_bits)."""
