"""Rotations that need no rows, only the covariance of the projected data: they serve streams
too.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.rotations.base import Projected, Rotation
from bitkin.randomness import Draws

_ASYMMETRY = 1e-8  # of the largest entry: what rounding may leave, and no more
_CORRELATION = 1e-6  # of the largest variance: likewise


class CovarianceRotation(Rotation):
    """A rotation found from the covariance of the projected data alone."""

    needs_covariance_only = True

    @abstractmethod
    def rotation_of(
        self, covariance: npt.ArrayLike, draws: Draws | None = None
    ) -> npt.NDArray[np.float64]:
        """Return R, float64 (c, c), for data of this covariance; without `draws`, those of
        seed 0.
        """

    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return `rotation_of` the covariance of the rows."""
        self.require_memory(n_bits)
        with threads.blas_in_one_thread():  # so that sums do not depend on the number of threads
            covariance = projected.covariance
        return self.rotation_of(covariance, draws)


def unit_covariance(covariance: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a checked copy, exactly symmetric, whose largest entry is between ½ and 1 (all zeros
    stay zeros).

    It is divided by a power of two: no rotation depends on the scale, and squares stay inside
    float64.
    """
    try:
        matrix = np.array(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "covariance must be a square array of numbers, got something else."
        ) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise InvalidInputError(f"covariance must be a square array, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InvalidInputError("covariance must have finite numbers only, got NaN or infinity.")
    largest = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > _ASYMMETRY * largest:
        row, column = np.unravel_index(np.abs(matrix - matrix.T).argmax(), matrix.shape)
        raise InvalidInputError(
            f"covariance must be symmetric, got {matrix[row, column]} at ({row}, {column}) and "
            f"{matrix[column, row]} at ({column}, {row})."
        )
    if matrix.diagonal().min() < 0:
        place = int(matrix.diagonal().argmin())
        raise InvalidInputError(
            "covariance must have variances of 0 or more on its diagonal, got "
            f"{matrix[place, place]} at {place}."
        )
    _require_correlations(matrix)
    if largest > 0:
        # ldexp by the exponent of the largest entry: exact, so no digit of the covariance is lost
        matrix = np.ldexp(matrix, -int(np.frexp(largest)[1]))
    return (matrix + matrix.T) / 2


def _require_correlations(matrix: npt.NDArray[np.float64]) -> None:
    """Raise where a covariance is larger than its two variances allow; squares of numbers that
    small may vanish.
    """
    # Cauchy–Schwarz: |σᵢⱼ| ≤ √σᵢᵢ · √σⱼⱼ
    deviations = np.sqrt(matrix.diagonal())
    beyond = np.abs(matrix) - np.outer(deviations, deviations)
    if beyond.max() > _CORRELATION * matrix.diagonal().max():
        row, column = np.unravel_index(beyond.argmax(), matrix.shape)
        raise InvalidInputError(
            f"covariance must be positive semidefinite, got {matrix[row, column]} at ({row}, "
            f"{column}) where the variances are {matrix[row, row]} and {matrix[column, column]}."
        )
