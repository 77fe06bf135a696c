"""IsoHash: equal variance for every bit, by lift and project."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bitkin import interrupts, threads
from bitkin.checks import is_number, whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.rotations.base import draw_rotation
from bitkin.hashers.projection.rotations.covariance import CovarianceRotation, unit_covariance
from bitkin.hashers.projection.rotations.unifdiag import equalizing_rotation
from bitkin.randomness import Draws


class IsoHash(CovarianceRotation):
    """Give every bit the same variance, starting from a random rotation, by lift and project.

    The method of "Isotropic Hashing" (Kong and Li, 2012). Alternately: set the diagonal of the
    rotated covariance to its mean τ, and go to the nearest matrix that has the eigenvalues of the
    covariance. O(c³) per iteration.

    Parameters
    ----------
    n_iter : int, default 100
        At most so many iterations.
    tolerance : float, default 1e-6
        Variances differ from τ by at most `tolerance` · τ. From 1e-10 up.

    Notes
    -----
    Iterations gain little where few variances hold nearly everything (c = 256, variances falling as
    k^−1.5: 15 % off after 100 iterations). What is left after `n_iter` of them is evened out by the
    Givens rotations of `UnifDiag`, so the tolerance is always met. Where eigenvectors can have
    either sign, the rotation nearest the start is taken.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> sigma = np.diag([4.0, 2.0, 1.0, 1.0])
    >>> R = bitkin.rotations.IsoHash().rotation_of(sigma)
    >>> np.diag(R.T @ sigma @ R).round(4)
    array([2., 2., 2., 2.])
    """

    n_matrices: ClassVar[int] = 12

    def __init__(self, n_iter: int = 100, tolerance: float = 1e-6) -> None:
        self.n_iter = n_iter
        self.tolerance = tolerance

    def rotation_of(
        self, covariance: npt.ArrayLike, draws: Draws | None = None
    ) -> npt.NDArray[np.float64]:
        """Return R, float64 (c, c), such that the diagonal of RᵀΣR is equal within the
        tolerance.
        """
        self.require_parameters()
        sigma = unit_covariance(covariance)
        start = draw_rotation(len(sigma), draws or Draws(0, "rotation"))
        with threads.blas_in_one_thread():
            return _lift_and_project(
                sigma, start, self.n_iter, self.tolerance * sigma.diagonal().mean()
            )

    def require_parameters(self) -> None:
        """Raise unless `n_iter` is a number of iterations and `tolerance` one that can be kept."""
        whole_number(self.n_iter, "n_iter", low=1)
        if not is_number(self.tolerance) or not 1e-10 <= self.tolerance <= 1.0:
            raise InvalidInputError(
                f"tolerance must be a number between 1e-10 and 1, got {self.tolerance!r}."
            )


def _lift_and_project(
    sigma: npt.NDArray[np.float64], start: npt.NDArray[np.float64], n_iter: int, tolerance: float
) -> npt.NDArray[np.float64]:
    mean = sigma.diagonal().mean()
    variances, directions = np.linalg.eigh(sigma)
    rotation, rotated = start, start.T @ sigma @ start
    for _ in range(n_iter):
        interrupts.check()
        if np.abs(rotated.diagonal() - mean).max() <= tolerance:
            return rotation
        # Project: the nearest matrix with an even diagonal.
        np.fill_diagonal(rotated, mean)
        # Lift: with its eigenvectors V, the nearest matrix with the eigenvalues of Σ = U Λ Uᵀ is
        # V Λ Vᵀ, both sorted alike; the rotation that leads there is R = U Vᵀ, as RᵀΣR = V Λ Vᵀ.
        axes = np.linalg.eigh(rotated)[1]
        rotated = (axes * variances) @ axes.T
        # Each eigenvector may have either sign: take the one nearer the start.
        nearer = np.einsum("ij,ij->j", directions, start @ axes)
        rotation = (directions * np.where(nearer < 0, -1.0, 1.0)) @ axes.T
    if np.abs(rotated.diagonal() - mean).max() > tolerance:
        # R₂ᵀ(RᵀΣR)R₂ has an even diagonal, so R·R₂ is the rotation
        rotation = rotation @ equalizing_rotation(rotation.T @ sigma @ rotation)[0]
    return rotation
