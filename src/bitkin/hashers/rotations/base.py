"""The slot for rotations."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from bitkin.hashers.training import TrainingVectors
from bitkin.randomness import Draws


class Rotation(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds an orthonormal matrix. Stores its parameters only: what it finds belongs to the hasher that asked."""

    @abstractmethod
    def matrix(
        self, vectors: TrainingVectors, directions: npt.NDArray[np.float32], draws: Draws
    ) -> npt.NDArray[np.float32]:
        """Return R, float32 (n_bits, n_bits): rows are hashed as the signs of (x − mean) · directions · R."""
