"""Promises that every hasher keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bitkin
from bitkin import Codes
from bitkin.errors import CodeMismatchError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.registry import projection_for, rotation_for
from bitkin.io import open_vectors
from tests.contracts.hashers import (
    INSTANCES,
    exported,
    has_seed,
    instances,
    seed_decides,
    takes_lists_as_sets,
)

each_hasher = pytest.mark.parametrize("hasher", [clone(h) for h in instances()], ids=repr)
each_seeded_hasher = pytest.mark.parametrize(
    "hasher", [clone(h) for h in instances() if has_seed(h)], ids=repr
)


def vectors(n: int = 300, d: int = 11, seed: int = 0) -> npt.NDArray[np.float32]:
    """Small whole numbers, many of them zero, so that every type and form holds the same values."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-9, 10, (n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)


def test_every_exported_hasher_has_instances_here() -> None:
    assert {kind.__name__ for kind in exported()} == set(INSTANCES)


@pytest.mark.parametrize(
    ("slot", "room", "base", "lookup"),
    [
        ("projection", bitkin.projections, bitkin.projections.Projection, projection_for),
        ("rotation", bitkin.rotations, bitkin.rotations.Rotation, rotation_for),
    ],
    ids=["projections", "rotations"],
)
def test_every_exported_projection_and_rotation_is_part_of_an_instance(
    slot: str, room: Any, base: type, lookup: Callable[[Any], Any]
) -> None:
    public = [getattr(room, name) for name in room.__all__]
    wanted = {one for one in public if issubclass(one, base) and not inspect.isabstract(one)}
    used = {type(lookup(getattr(hasher, slot))) for hasher in INSTANCES["ProjectionHash"]}
    assert wanted <= used, f"add an instance with {wanted - used} to tests/contracts/hashers.py"


@each_hasher
def test_codes_are_packed_symbols_under_the_fingerprint(hasher: Hasher) -> None:
    X = vectors()
    assert hasher.fit(X) is hasher
    codes = hasher.encode(X)
    assert codes.spec == hasher.spec_
    assert codes.fingerprint == hasher.fingerprint_
    assert np.array_equal(codes.symbols(), hasher.transform(X))
    assert hasher.transform(X).dtype == hasher.spec_.symbol_dtype
    assert hasher.n_features_in_ == 11
    assert len(hasher.get_feature_names_out()) == hasher.spec_.n_symbols


@each_hasher
@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65, 1025])
def test_any_number_of_rows_gives_the_rows_of_the_whole(hasher: Hasher, n: int) -> None:
    X = vectors(1100)
    hasher.fit(X)
    assert np.array_equal(hasher.transform(X[:n]), hasher.transform(X)[:n])
    assert hasher.encode(X[:n]) == hasher.encode(X)[:n]
    assert hasher.transform(X[:n]).shape == (n, hasher.spec_.n_symbols)


@each_hasher
def test_a_sparse_matrix_and_its_dense_copy_get_the_same_model_and_codes(hasher: Hasher) -> None:
    X = vectors()
    dense = hasher.fit(X).encode(X)
    for sparse in (
        scipy.sparse.csr_matrix(X),
        scipy.sparse.coo_array(X),
        scipy.sparse.csc_array(X),
    ):
        assert np.array_equal(hasher.encode(sparse).symbols(), dense.symbols())
        assert clone(hasher).fit(sparse).encode(X) == dense


@each_hasher
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", ">f4", "O"])
def test_the_type_of_the_numbers_does_not_matter(hasher: Hasher, dtype: str) -> None:
    X = vectors()
    codes = hasher.fit(X).encode(X)
    assert hasher.encode(X.astype(dtype)) == codes
    assert clone(hasher).fit(X.astype(dtype)).encode(X) == codes


@each_hasher
def test_memory_order_and_views_do_not_matter(hasher: Hasher) -> None:
    X = vectors()
    codes = hasher.fit(X).encode(X)
    same_values: list[Any] = [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        np.repeat(X, 2, axis=1)[:, ::2],
    ]
    if not takes_lists_as_sets(hasher):
        same_values.append(X.tolist())
    for same in same_values:
        assert hasher.encode(same) == codes
        assert clone(hasher).fit(same).encode(X) == codes


@each_hasher
def test_a_source_in_batches_fits_and_encodes_like_the_array(hasher: Hasher) -> None:
    X = vectors()
    codes = clone(hasher).fit(X).encode(X)
    source = open_vectors(X, batch_rows=37)
    fitted = hasher.fit(source)
    assert fitted.encode(X) == codes
    assert fitted.encode(open_vectors(X, batch_rows=7)) == codes


@each_hasher
def test_no_rows_have_no_codes_of_the_same_kind(hasher: Hasher) -> None:
    X = vectors()
    hasher.fit(X)
    assert hasher.encode(X[:0]) == Codes.concatenate([hasher.encode(X)[:0]])


@each_hasher
def test_it_works_in_a_pipeline(hasher: Hasher) -> None:
    X = vectors()
    pipeline = make_pipeline(StandardScaler(), hasher).fit(X)
    assert pipeline.transform(X).shape == (300, hasher.spec_.n_symbols)


@each_seeded_hasher
def test_codes_of_two_models_never_meet(hasher: Hasher) -> None:
    X = vectors()
    a = hasher.fit(X).encode(X)
    b = clone(hasher).set_params(random_state=77).fit(vectors(seed=5)).encode(X)
    with pytest.raises(CodeMismatchError, match="same fitted hasher"):
        bitkin.distances(a, b)
    index = bitkin.FlatIndex(a.spec)
    index.add(a)
    with pytest.raises(CodeMismatchError, match="same fitted hasher"):
        index.search(b, 1)


@each_seeded_hasher
def test_a_fresh_seed_is_kept(hasher: Hasher, tmp_path: Path) -> None:
    X = vectors()
    a = clone(hasher).set_params(random_state=None).fit(X)
    b = clone(hasher).set_params(random_state=None).fit(X)
    assert a.seed_ != b.seed_
    if seed_decides(hasher):
        assert a.fingerprint_ != b.fingerprint_
    a.save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").encode(X) == a.encode(X)
    assert clone(hasher).set_params(random_state=a.seed_).fit(X).encode(X) == a.encode(X)
