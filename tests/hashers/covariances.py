"""Covariances of every kind that a rotation may meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import dct

Matrix = npt.NDArray[np.float64]


def orthonormal(size: int, rng: np.random.Generator) -> Matrix:
    if size > 256:  # a QR would take seconds here
        return np.asarray(
            dct(np.diag(rng.choice([-1.0, 1.0], size)), norm="ortho")[rng.permutation(size)]
        )
    q: Matrix = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return q


def of_eigenvalues(values: npt.NDArray[np.floating[Any]], rng: np.random.Generator) -> Matrix:
    q = orthonormal(len(values), rng)
    matrix: Matrix = (q * values) @ q.T
    return (matrix + matrix.T) / 2


KINDS: dict[str, Callable[[int, np.random.Generator], Matrix]] = {
    "random": lambda c, rng: of_eigenvalues(rng.random(c), rng),
    "diagonal": lambda c, rng: np.diag(rng.random(c)),
    "falling": lambda c, rng: np.diag(np.arange(1.0, c + 1) ** -1.5),
    "ill-conditioned": lambda c, rng: of_eigenvalues(10.0 ** rng.uniform(-15, 3, c), rng),
    "ill-conditioned diagonal": lambda c, rng: np.diag(10.0 ** rng.uniform(-300, 0, c)),
    "one direction": lambda c, rng: of_eigenvalues(np.eye(1, c)[0], rng),
    "one axis": lambda c, rng: np.diag(np.eye(1, c, c // 2)[0]),
    "half the rank": lambda c, rng: of_eigenvalues(np.arange(c) % 2 * 1.0, rng),
    "equal pairs": lambda c, rng: np.diag(np.repeat(rng.random(c), 2)[:c]),
    "equal pairs, turned": lambda c, rng: of_eigenvalues(np.repeat(rng.random(c), 2)[:c], rng),
    "half zeros": lambda c, rng: np.diag(np.where(np.arange(c) % 2, rng.random(c), 0.0)),
    "nearly equal": lambda c, rng: np.diag(1 + 1e-9 * rng.random(c)),
    "equal": lambda c, rng: np.eye(c) * 3.7,
    "equal on the diagonal alone": lambda c, rng: np.eye(c) + 0.1 * (1 - np.eye(c)),
    "zero": lambda c, rng: np.zeros((c, c)),
    "tiny": lambda c, rng: 1e-300 * of_eigenvalues(rng.random(c), rng),
    "huge": lambda c, rng: 1e300 * of_eigenvalues(rng.random(c), rng),
}
"""Each makes a (c, c) matrix."""


def spread(rotation: Matrix, covariance: Matrix) -> tuple[float, float]:
    """Largest minus smallest variance after the rotation, and their mean, both over the mean before
    it.
    """
    mean = covariance.diagonal().mean()
    if mean == 0:
        return 0.0, 1.0
    variances = np.einsum("ij,ij->j", rotation, (covariance / mean) @ rotation)
    return float(np.ptp(variances)), float(variances.mean())


def loss_of_orthogonality(rotation: Matrix) -> float:
    return float(np.linalg.norm(rotation.T @ rotation - np.eye(len(rotation))))
