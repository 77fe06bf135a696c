"""Promises that every rotation keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone

import bitkin
from bitkin import ProjectionHash, memory, rotations
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.registry import ROTATIONS
from bitkin.hashers.projection.statistics import RowMoments, RowSample
from bitkin.hashers.projection.statistics.row_sample import sample_row_numbers
from bitkin.randomness import Draws
from bitkin.rotations import CovarianceRotation, Projected, Rotation
from tests.contracts.parts import NONSENSE, each_rotation, exported
from tests.hashers.covariances import loss_of_orthogonality

each = pytest.mark.parametrize("rotation", each_rotation(), ids=repr)


def projected(n: int = 3000, c: int = 13, seed: int = 0) -> Projected:
    rows = np.random.default_rng(seed).standard_normal((n, c)) * np.geomspace(3, 0.1, c)
    return Projected(rows.astype(np.float32))


def found(rotation: Rotation, data: Projected, seed: int = 0) -> npt.NDArray[np.float64]:
    return rotation.matrix(data, data.rows.shape[1], Draws(seed, "rotation"))


def rows_like(n: int = 600, d: int = 12) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return (rng.standard_normal((n, d)) * np.geomspace(4, 0.2, d) + 1).astype(np.float32)


def test_every_exported_rotation_has_a_name() -> None:
    assert set(exported(rotations, Rotation)) == set(ROTATIONS.values()), (
        "name it in ROTATIONS of hashers/projection/registry.py"
    )
    X = rows_like()
    for name, kind in ROTATIONS.items():
        by_name, by_object = (ProjectionHash(5, rotation=one).fit(X) for one in (name, kind()))
        assert by_name.fingerprint_ == by_object.fingerprint_


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


@each
def test_statistics_of_projected_rows_merge_into_the_rotation_of_all_of_them(
    rotation: Rotation,
) -> None:
    rows = projected(3000).rows
    late, early = (
        RowSample(7, 400).update(1100, rows[1100:]),
        RowSample(7, 400).update(0, rows[:1100]),
    )
    sampled = Projected(rows[sample_row_numbers(3000, 7, 400)])
    assert np.array_equal(
        found(rotation, Projected.from_statistics(late.merge(early))), found(rotation, sampled)
    )
    if isinstance(rotation, CovarianceRotation):
        moments = RowMoments(13).update(rows[:1100]).merge(RowMoments(13).update(rows[1100:]))
        assert np.allclose(
            found(rotation, Projected.from_statistics(moments)),
            found(rotation, Projected(rows)),
            atol=1e-9,
        )


@each
def test_matrices_beyond_memory_are_refused(
    rotation: Rotation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 * rotation.n_matrices * 13 * 13 - 1)
    with pytest.raises(
        InvalidInputError, match=r"A rotation of 13 bits does not fit in memory.*fewer bits"
    ):
        found(rotation, projected(50))
    found(rotation, projected(50, 12))


@each
def test_columns_of_project_are_the_projected_rows_turned(rotation: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 30)) * np.geomspace(2, 0.2, 30) + 1
    plain = bitkin.ProjectionHash(n_bits=12, projection="pca", rotation=None).fit(X)
    turned = bitkin.ProjectionHash(n_bits=12, projection="pca", rotation=rotation).fit(X)
    R = np.linalg.lstsq(
        plain.components_.astype(float), turned.components_.astype(float), rcond=None
    )[0]
    assert loss_of_orthogonality(R) < 1e-5
    assert np.allclose(turned.project(X), plain.project(X) @ R, atol=1e-4)
    if isinstance(rotation, (rotations.UnifDiag, rotations.IsoHash)):
        variances = turned.project(X).astype(np.float64).var(axis=0)
        assert np.allclose(variances, variances.mean(), rtol=1e-5)


@each
def test_it_stores_its_parameters_and_nothing_else(rotation: Any) -> None:
    parameters = rotation.get_params()
    assert vars(rotation) == parameters
    ProjectionHash(5, rotation=rotation).fit(rows_like())
    assert vars(rotation) == parameters
    assert eval(repr(rotation), vars(rotations)).get_params() == parameters
    assert type(rotation)().set_params(**parameters).get_params() == parameters


@each
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_hasher_comes_back_with_it(rotation: Any, mmap: bool, tmp_path: Path) -> None:
    X = rows_like()
    hasher = ProjectionHash(5, rotation=rotation).fit(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model", mmap=mmap)
    assert type(back.rotation) is type(rotation)
    assert back.rotation.get_params() == rotation.get_params()
    assert back.components_.tobytes() == hasher.components_.tobytes()
    assert clone(back).fit(X).fingerprint_ == hasher.fingerprint_


@pytest.mark.parametrize(
    ("rotation", "name"),
    [(one, name) for one in each_rotation() for name in one.get_params()],
    ids=repr,
)
def test_a_parameter_that_cannot_be_is_refused_by_its_name(rotation: Any, name: str) -> None:
    X = rows_like()
    hasher = ProjectionHash(5, rotation=rotation).fit(X)
    codes = hasher.encode(X)
    for value in NONSENSE:
        hasher.rotation = clone(rotation).set_params(**{name: value})
        with pytest.raises(InvalidInputError, match=f"{name} must be"):
            hasher.fit(X)
    hasher.rotation = rotation
    assert hasher.encode(X) == codes
