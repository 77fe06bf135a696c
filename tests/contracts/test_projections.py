"""Promises that every projection keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import bitkin
from bitkin import ProjectionHash, projections
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.registry import PROJECTIONS
from bitkin.io import open_vectors
from tests.contracts.parts import (
    NONSENSE,
    draws_directions,
    each_projection,
    exported,
    promises_orthonormal,
)

each = pytest.mark.parametrize("projection", each_projection(), ids=repr)
C = 5


def rows_like(n: int = 600, d: int = 12, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows with directions of different variance, away from the origin."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.geomspace(4, 0.2, d) + 1).astype(np.float32)


def fitted(projection: Any, X: Any, n_bits: int = C, **parameters: Any) -> ProjectionHash:
    hasher = ProjectionHash(n_bits, projection=projection, rotation=None, **parameters)
    return hasher.fit(X)


def test_every_exported_projection_has_a_name() -> None:
    assert set(exported(projections, projections.Projection)) == set(PROJECTIONS.values()), (
        "name it in PROJECTIONS of hashers/projection/registry.py"
    )
    for name, kind in PROJECTIONS.items():
        X = rows_like()
        assert fitted(name, X).encode(X) == fitted(kind(), X).encode(X)


@each
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_bits", [1, 2, 7, 11])
def test_directions_have_their_shape_and_are_orthonormal_where_that_is_promised(
    projection: Any, n_bits: int, center: bool
) -> None:
    X = rows_like()
    sketch_size = getattr(projection, "sketch_size", None)
    if sketch_size is not None:
        projection = clone(projection).set_params(sketch_size=max(sketch_size, n_bits))
    hasher = fitted(projection, X, n_bits, center=center)
    components = hasher.components_
    assert components.shape == (12, n_bits)
    assert components.dtype == np.float32
    assert np.isfinite(components).all()
    assert (np.linalg.norm(components, axis=0) > 0).all()
    if promises_orthonormal(projection):
        products = components.astype(np.float64).T @ components
        assert np.abs(products - np.eye(n_bits)).max() < 1e-4
    if center:
        assert hasher.mean_ is not None
        assert hasher.mean_.dtype == np.float64
        # a sample's mean is off by a few standard errors
        assert (np.abs(hasher.mean_ - X.mean(axis=0)) < 6 * X.std(axis=0) / np.sqrt(30)).all()
    else:
        assert hasher.mean_ is None


@each
def test_learned_directions_capture_most_of_what_the_best_would(projection: Any) -> None:
    X = rows_like(3000)
    centred = X - X.mean(axis=0, dtype=np.float64)
    best = np.linalg.svd(centred, compute_uv=False)[:C]
    Q = np.linalg.qr(fitted(projection, X).components_.astype(np.float64))[0]
    share = np.square(centred @ Q).sum() / np.square(best).sum()
    # any five of twelve directions capture something; learned ones most of what there is
    assert share > (0.05 if draws_directions(projection) else 0.8)
    assert share <= 1 + 1e-6


@each
def test_the_seed_decides_and_nothing_else(projection: Any) -> None:
    X = rows_like()
    before = X.copy()
    X.flags.writeable = False
    first = fitted(projection, X, random_state=3)
    again = fitted(clone(projection), X, random_state=3)
    assert first.components_.tobytes() == again.components_.tobytes()
    assert first.fingerprint_ == again.fingerprint_
    assert np.array_equal(X, before)
    if draws_directions(projection):
        other = fitted(projection, X, random_state=4)
        assert other.components_.tobytes() != first.components_.tobytes()


@each
@pytest.mark.usefixtures("few_threads")
def test_threads_and_batches_change_no_bit(projection: Any) -> None:
    X = rows_like(5000)
    models = set()
    for n_threads, batch_rows in ((1, 5000), (2, 5000), (3, 37), (2, 1024)):
        bitkin.set_threads(n_threads)
        hasher = fitted(projection, open_vectors(X, batch_rows=batch_rows))
        models.add(hasher.components_.tobytes())
    assert len(models) == 1


@each
def test_sparse_rows_and_their_dense_copy_give_nearly_the_same_directions(projection: Any) -> None:
    X = np.where(rows_like() > 1.5, rows_like(), 0)
    dense, sparse = fitted(projection, X), fitted(projection, csr_array(X))
    assert np.allclose(sparse.components_, dense.components_, atol=1e-4)


@each
def test_it_stores_its_parameters_and_nothing_else(projection: Any) -> None:
    parameters = projection.get_params()
    assert vars(projection) == parameters
    fitted(projection, rows_like())
    assert vars(projection) == parameters
    twin = clone(projection)
    assert twin is not projection
    assert twin.get_params() == parameters
    assert eval(repr(projection), vars(projections)).get_params() == parameters
    assert type(projection)().set_params(**parameters).get_params() == parameters


@each
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_hasher_comes_back_with_it(projection: Any, mmap: bool, tmp_path: Path) -> None:
    X = rows_like()
    hasher = fitted(projection, X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model", mmap=mmap)
    assert type(back.projection) is type(projection)
    assert back.projection.get_params() == projection.get_params()
    assert back.components_.tobytes() == hasher.components_.tobytes()
    assert clone(back).fit(X).fingerprint_ == hasher.fingerprint_


@pytest.mark.parametrize(
    ("projection", "name"),
    [(one, name) for one in each_projection() for name in one.get_params()],
    ids=repr,
)
def test_a_parameter_that_cannot_be_is_refused_by_its_name(projection: Any, name: str) -> None:
    X = rows_like()
    hasher = fitted(projection, X)
    codes = hasher.encode(X)
    for value in NONSENSE:
        hasher.projection = clone(projection).set_params(**{name: value})
        with pytest.raises(InvalidInputError, match=f"{name} must be"):
            hasher.fit(X)
    hasher.projection = projection
    assert hasher.encode(X) == codes


@each
def test_more_bits_than_features_are_filled_up_or_refused_by_streams(projection: Any) -> None:
    X = rows_like()
    if draws_directions(projection):
        assert fitted(projection, X, 40).components_.shape == (12, 40)
        return
    if isinstance(projection, projections.StreamingProjection):
        with pytest.raises(InvalidInputError, match=r"n_bits must be .* got 13"):
            fitted(clone(projection), X, 13)
        return
    with pytest.warns(UserWarning, match="n_bits=40 is more than the 12 directions") as told:
        hasher = fitted(clone(projection), X, 40)
    assert len(told) == 1
    assert hasher.components_.shape == (12, 40)
    bits = hasher.transform(X)
    assert ((bits.mean(axis=0) > 0.2) & (bits.mean(axis=0) < 0.8)).all()  # none is wasted
