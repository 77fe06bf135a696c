"""Covariances as input, IsoHash and random rotations; see contracts/test_rotations.py for what
every rotation promises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.registry import ROTATIONS, STREAM_ROTATIONS
from bitkin.hashers.projection.rotations import (
    ITQ,
    CovarianceRotation,
    IsoHash,
    Projected,
    RandomRotation,
    Rotation,
    UnifDiag,
)
from bitkin.randomness import Draws
from tests.hashers.covariances import KINDS, loss_of_orthogonality, spread
from tests.memory import peak_of


def projected(n: int = 3000, c: int = 13, seed: int = 0) -> Projected:
    rows = np.random.default_rng(seed).standard_normal((n, c)) * np.geomspace(3, 0.1, c)
    return Projected(rows.astype(np.float32))


def found(rotation: Rotation, data: Projected, seed: int = 0) -> npt.NDArray[np.float64]:
    return rotation.matrix(data, data.rows.shape[1], Draws(seed, "rotation"))


@pytest.mark.parametrize("rotation", [ROTATIONS[name]() for name in STREAM_ROTATIONS], ids=repr)
def test_a_covariance_alone_gives_the_rotation_of_its_rows(rotation: CovarianceRotation) -> None:
    data = projected()
    assert np.array_equal(
        rotation.rotation_of(data.covariance, Draws(3, "rotation")), found(rotation, data, seed=3)
    )
    assert np.array_equal(rotation.rotation_of(data.covariance), found(rotation, data, seed=0))
    with pytest.raises(InvalidInputError, match="covariance must be a square array"):
        rotation.rotation_of(np.zeros((2, 3)))


def test_a_covariance_is_the_second_moment_about_zero() -> None:
    rows = projected(500).rows + np.float32(0.5)
    wide = rows.astype(np.float64)
    assert np.allclose(Projected(rows).covariance, wide.T @ wide / 500, rtol=1e-13, atol=1e-14)
    assert not Projected(rows[:0]).covariance.any()
    known = np.eye(13)
    assert Projected(rows[:0], known).covariance is known


@pytest.mark.parametrize(
    "rotation", [*(kind() for kind in ROTATIONS.values()), UnifDiag("random")], ids=repr
)
def test_no_more_matrices_are_held_at_once_than_are_reckoned_with(rotation: Rotation) -> None:
    found(rotation, projected(50, 7))  # what is compiled or imported once
    data = projected(50, 500)
    chunk = 8 * 4096 * 500  # of the sums behind a covariance
    assert peak_of(lambda: found(rotation, data)) < 8 * rotation.n_matrices * 500 * 500 + chunk


@pytest.mark.parametrize("rotation", [UnifDiag(), IsoHash()])
def test_columns_of_the_turned_rows_have_equal_variances(rotation: Rotation) -> None:
    data = projected()
    turned = data.rows.astype(np.float64) @ found(rotation, data)
    variances = (turned * turned).mean(axis=0)
    assert np.allclose(variances, variances.mean(), rtol=2e-6)


def test_random_rotations_are_evenly_distributed() -> None:
    """Every entry has mean 0 and variance 1/c, and determinants of both signs come equally
    often.
    """
    n, c = 2000, 4
    matrices = np.stack([found(RandomRotation(), projected(1, c), seed) for seed in range(n)])
    assert np.abs(matrices.mean(axis=0)).max() < 4.5 * np.sqrt(1 / c / n)
    assert np.abs((matrices**2).mean(axis=0) - 1 / c).max() < 4.5 * np.sqrt(2 / (c * c) / n)
    positive = (np.linalg.det(matrices) > 0).sum()
    assert abs(positive - n / 2) < 4.5 * np.sqrt(n / 4)


def test_a_random_rotation_needs_no_rows() -> None:
    nothing = Projected(np.empty((0, 6), dtype=np.float32))
    assert not RandomRotation().needs_rows
    assert np.array_equal(
        found(RandomRotation(), nothing), found(RandomRotation(), projected(40, 6))
    )
    assert all(rotation.needs_rows for rotation in (ITQ(), UnifDiag(), IsoHash()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_isohash_makes_variances_equal_within_its_tolerance(kind: str, size: int) -> None:
    sigma = KINDS[kind](size, np.random.default_rng(size))
    for tolerance in (1e-2, 1e-6, 1e-10):
        rotation = IsoHash(n_iter=20, tolerance=tolerance).rotation_of(sigma)
        assert spread(rotation, sigma)[0] <= 2 * tolerance + 1e-13 * size
        assert loss_of_orthogonality(rotation) < 2e-14 * max(size, 8)


def test_isohash_stops_as_soon_as_it_may() -> None:
    sigma = KINDS["random"](40, np.random.default_rng(0))
    loose, fine = (spread(IsoHash(tolerance=t).rotation_of(sigma), sigma)[0] for t in (1e-2, 1e-8))
    assert 1e-4 < loose <= 2e-2
    assert fine <= 2e-8


def test_isohash_is_lift_and_project() -> None:
    """Three turns by the book, from the same random start."""
    sigma = KINDS["random"](9, np.random.default_rng(4))
    start = RandomRotation().rotation_of(sigma)
    values, z = np.linalg.eigvalsh(sigma), start.T @ sigma @ start
    for _ in range(3):
        lifted = z - np.diag(np.diag(z)) + np.eye(9) * np.trace(sigma) / 9
        axes = np.linalg.eigh(lifted)[1]
        z = axes @ np.diag(values) @ axes.T
    error = np.abs(np.diag(z) - np.trace(sigma) / 9).max() / (np.trace(sigma) / 9)
    rotation = IsoHash(n_iter=3, tolerance=float(error) * 1.001).rotation_of(sigma)
    assert np.allclose(rotation.T @ sigma @ rotation, z, atol=1e-12)


def test_isohash_depends_on_the_seed() -> None:
    sigma = KINDS["random"](9, np.random.default_rng(4))
    assert not np.allclose(
        IsoHash().rotation_of(sigma, Draws(1, "r")), IsoHash().rotation_of(sigma, Draws(2, "r"))
    )


@pytest.mark.parametrize(
    ("rotation", "words"),
    [
        (ITQ(n_iter=0), "n_iter must be at least 1, got 0"),
        (ITQ(n_iter=2.5), "n_iter must be a whole number, got 2.5"),  # type: ignore[arg-type]
        (ITQ(n_iter=True), "n_iter must be a whole number, got True"),
        (ITQ(max_rows=0), "max_rows must be at least 1, got 0"),
        (IsoHash(n_iter=-1), "n_iter must be at least 1, got -1"),
        (IsoHash(tolerance=0), "tolerance must be a number between 1e-10 and 1, got 0"),
        (IsoHash(tolerance=2.0), "tolerance must be a number between 1e-10 and 1, got 2.0"),
        (
            IsoHash(tolerance=float("nan")),
            "tolerance must be a number between 1e-10 and 1, got nan",
        ),
        (IsoHash(tolerance="small"), "tolerance must be a number"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_named(rotation: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        found(rotation, projected(10, 3))
