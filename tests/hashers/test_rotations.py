"""What every rotation promises, and random rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import limits
from bitkin.hashers.projection.registry import ROTATIONS
from bitkin.hashers.projection.rotations import (
    ITQ,
    CovarianceRotation,
    IsoHash,
    Projected,
    RandomRotation,
    Rotation,
    UnifDiag,
)
from bitkin.hashers.projection.statistics import Moments, RowSample
from bitkin.hashers.projection.statistics.row_sample import sampled_rows
from bitkin.randomness import Draws
from tests.hashers.covariances import KINDS, loss_of_orthogonality, spread
from tests.memory import peak_of

ALL = [ITQ(n_iter=8), UnifDiag(), UnifDiag("random"), IsoHash(), RandomRotation()]
each = pytest.mark.parametrize("rotation", ALL, ids=repr)


def projected(n: int = 3000, c: int = 13, seed: int = 0) -> Projected:
    rows = np.random.default_rng(seed).standard_normal((n, c)) * np.geomspace(3, 0.1, c)
    return Projected(rows.astype(np.float32))


def found(rotation: Rotation, data: Projected, seed: int = 0) -> npt.NDArray[np.float64]:
    return rotation.matrix(data, data.rows.shape[1], Draws(seed, "rotation"))


def test_every_rotation_has_a_name() -> None:
    assert {type(rotation) for rotation in ALL} == set(ROTATIONS.values())
    assert set(ROTATIONS) == {"itq", "unifdiag", "isohash", "random"}


@each
@pytest.mark.parametrize("c", [1, 2, 7, 64, 65])
def test_a_matrix_is_orthonormal_and_float64(rotation: Rotation, c: int) -> None:
    matrix = found(rotation, projected(200, c))
    assert matrix.dtype == np.float64
    assert matrix.shape == (c, c)
    assert loss_of_orthogonality(matrix) < 1e-14 * max(c, 8)


@each
@pytest.mark.parametrize("rows", ["one", "zeros", "equal", "few dimensions", "huge", "tiny"])
def test_poor_data_still_gets_a_rotation(rotation: Rotation, rows: str) -> None:
    good = projected(50, 9).rows
    poor = {
        "one": good[:1],
        "zeros": np.zeros_like(good),
        "equal": np.tile(good[:1], (50, 1)),
        "few dimensions": np.hstack([good[:, :2], np.zeros((50, 7))]).astype(np.float32),
        "huge": good * np.float32(1e37),
        "tiny": good * np.float32(1e-37),
    }[rows]
    matrix = found(rotation, Projected(poor))
    assert np.isfinite(matrix).all()
    assert loss_of_orthogonality(matrix) < 1e-13


@each
@pytest.mark.usefixtures("few_threads")
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(rotation: Rotation) -> None:
    data = projected(5000, 70)
    matrices = set()
    for n_threads in (1, 2, 5):
        bitkin.set_threads(n_threads)
        matrices.add(found(rotation, Projected(data.rows)).tobytes())
    assert len(matrices) == 1


@each
def test_finding_leaves_the_rotation_and_the_rows_as_they_were(rotation: Rotation) -> None:
    data = projected()
    before = data.rows.copy()
    data.rows.flags.writeable = False
    parameters = rotation.get_params()
    matrix = found(rotation, data)
    assert np.array_equal(data.rows, before)
    assert rotation.get_params() == parameters
    assert vars(rotation) == parameters
    assert np.array_equal(found(clone(rotation), data), matrix)


@pytest.mark.parametrize("rotation", [UnifDiag(), IsoHash(), RandomRotation()])
def test_a_covariance_alone_gives_the_rotation_of_its_rows(rotation: CovarianceRotation) -> None:
    data = projected()
    assert np.array_equal(
        rotation.rotation_of(data.covariance, Draws(3, "rotation")), found(rotation, data, seed=3)
    )
    assert np.array_equal(rotation.rotation_of(data.covariance), found(rotation, data, seed=0))
    with pytest.raises(InvalidInputError, match="covariance must be a square array"):
        rotation.rotation_of(np.zeros((2, 3)))


@each
def test_statistics_of_projected_rows_merge_into_the_rotation_of_all_of_them(
    rotation: Rotation,
) -> None:
    rows = projected(3000).rows
    late, early = (
        RowSample(7, 400).update(1100, rows[1100:]),
        RowSample(7, 400).update(0, rows[:1100]),
    )
    sampled = Projected(rows[sampled_rows(3000, 7, 400)])
    assert np.array_equal(
        found(rotation, Projected.from_statistics(late.merge(early))), found(rotation, sampled)
    )
    if isinstance(rotation, CovarianceRotation):
        moments = Moments(13).update(rows[:1100]).merge(Moments(13).update(rows[1100:]))
        assert np.allclose(
            found(rotation, Projected.from_statistics(moments)),
            found(rotation, Projected(rows)),
            atol=1e-9,
        )


def test_a_covariance_is_the_second_moment_about_zero() -> None:
    rows = projected(500).rows + np.float32(0.5)
    wide = rows.astype(np.float64)
    assert np.allclose(Projected(rows).covariance, wide.T @ wide / 500, rtol=1e-13, atol=1e-14)
    assert not Projected(rows[:0]).covariance.any()
    known = np.eye(13)
    assert Projected(rows[:0], known).covariance is known


@each
def test_matrices_beyond_memory_are_refused(
    rotation: Rotation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "physical_memory", lambda: 8 * rotation.n_matrices * 13 * 13 - 1)
    with pytest.raises(
        InvalidInputError, match=r"A rotation of 13 bits does not fit in memory.*fewer bits"
    ):
        found(rotation, projected(50))
    found(rotation, projected(50, 12))


@pytest.mark.parametrize(
    "rotation", [ITQ(2), UnifDiag(), UnifDiag("random"), IsoHash(2), RandomRotation()], ids=repr
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


@pytest.mark.parametrize("name", sorted(ROTATIONS))
def test_columns_of_project_are_the_projected_rows_turned(name: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 30)) * np.geomspace(2, 0.2, 30) + 1
    plain = bitkin.ProjectionHash(n_bits=12, projection="pca", rotation=None).fit(X)
    turned = bitkin.ProjectionHash(n_bits=12, projection="pca", rotation=name).fit(X)
    R = np.linalg.lstsq(
        plain.components_.astype(float), turned.components_.astype(float), rcond=None
    )[0]
    assert loss_of_orthogonality(R) < 1e-5
    assert np.allclose(turned.project(X), plain.project(X) @ R, atol=1e-4)
    if name in ("unifdiag", "isohash"):
        variances = turned.project(X).astype(np.float64).var(axis=0)
        assert np.allclose(variances, variances.mean(), rtol=1e-5)


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
