"""Promises that every hasher keeps."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitkin
from bitkin import Codes
from bitkin.errors import BitkinError, CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.registry import projection_for, rotation_for
from bitkin.io import open_vectors
from tests.contracts.hashers import (
    INSTANCES,
    expected_failures,
    exported,
    instances,
    meets_every_row,
    scikit_learn_instances,
    seed_decides,
    takes_lists_as_sets,
)
from tests.io.mutations import mutate

each_hasher = pytest.mark.parametrize("hasher", [clone(h) for h in instances()], ids=repr)


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


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@parametrize_with_checks(scikit_learn_instances(), expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator]
def test_scikit_learn_agrees(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


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
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_hasher_makes_the_same_codes(hasher: Hasher, mmap: bool, tmp_path: Path) -> None:
    X = vectors()
    hasher.fit(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model", mmap=mmap)
    assert type(back) is type(hasher)
    assert back.encode(X) == hasher.encode(X)
    assert back.fingerprint_ == hasher.fingerprint_
    assert back.n_features_in_ == 11
    assert repr(clone(back).fit(X).encode(X)) == repr(hasher.encode(X))


@each_hasher
def test_damaged_models_are_refused(hasher: Hasher, tmp_path: Path) -> None:
    hasher.fit(vectors()).save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    rng = np.random.default_rng(0)
    # instances of one class share a layout
    for _ in range(2000 // len(INSTANCES[type(hasher).__name__])):
        damaged = mutate(data, rng)
        (tmp_path / "bad").write_bytes(damaged)
        try:
            back = bitkin.load(tmp_path / "bad")
        except CorruptFileError:
            continue
        assert damaged == data or back.fingerprint_ == hasher.fingerprint_


@each_hasher
def test_pickles_copies_and_clones_are_the_same_hasher(hasher: Hasher) -> None:
    X = vectors()
    codes = hasher.fit(X).encode(X)
    assert pickle.loads(pickle.dumps(hasher)).encode(X) == codes
    assert copy.deepcopy(hasher).encode(X) == codes
    assert clone(hasher).fit(X).encode(X) == codes
    assert hasher.fit(vectors(seed=5)).fit(X).encode(X) == codes


@each_hasher
def test_the_number_of_threads_changes_nothing(hasher: Hasher, few_threads: None) -> None:
    X = vectors(5000)
    codes = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        codes.append(clone(hasher).fit(X).encode(X))
    assert codes[0] == codes[1] == codes[2]


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
def test_data_frames_are_taken_by_name(hasher: Hasher, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    X = vectors()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(11)])
    codes = hasher.fit(frame).encode(frame)
    assert np.array_equal(codes.symbols(), clone(hasher).fit(X).encode(X).symbols())
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.feature_names_in_.tolist() == list(frame.columns)
    assert back.encode(frame) == codes
    with pytest.raises(InvalidInputError, match="feature names should match"):
        hasher.encode(frame.rename(columns={"f3": "other"}))


@each_hasher
def test_a_source_in_batches_fits_and_encodes_like_the_array(hasher: Hasher) -> None:
    X = vectors()
    codes = clone(hasher).fit(X).encode(X)
    source = open_vectors(X, batch_rows=37)
    fitted = hasher.fit(source)
    assert fitted.encode(X) == codes
    assert fitted.encode(open_vectors(X, batch_rows=7)) == codes


@each_hasher
def test_it_works_in_a_pipeline(hasher: Hasher) -> None:
    X = vectors()
    pipeline = make_pipeline(StandardScaler(), hasher).fit(X)
    assert pipeline.transform(X).shape == (300, hasher.spec_.n_symbols)


@each_hasher
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


@each_hasher
def test_a_fresh_seed_is_kept(hasher: Hasher, tmp_path: Path) -> None:
    X = vectors()
    a = clone(hasher).set_params(random_state=None).fit(X)
    b = clone(hasher).set_params(random_state=None).fit(X)
    assert a.seed_ != b.seed_
    assert a.fingerprint_ != b.fingerprint_ or not seed_decides(hasher)
    a.save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").encode(X) == a.encode(X)
    assert clone(hasher).set_params(random_state=a.seed_).fit(X).encode(X) == a.encode(X)


@each_hasher
def test_what_is_not_finite_is_named_by_row_and_column(hasher: Hasher) -> None:
    X = vectors(3000).astype(np.float64)
    hasher.fit(X)
    X[2345, 6] = np.nan
    for bad in (X, scipy.sparse.csr_matrix(X), X.astype(np.float32)):
        with pytest.raises(InvalidInputError, match="NaN at row 2345, column 6"):
            hasher.encode(bad)
        with pytest.raises(InvalidInputError, match="NaN at row 2345, column 6"):
            clone(hasher).fit(bad)
    X[2345, 6] = -np.inf
    with pytest.raises(InvalidInputError, match="infinity at row 2345, column 6"):
        hasher.transform(X)


@each_hasher
def test_other_bad_input_is_one_clear_error(hasher: Hasher) -> None:
    X = vectors()
    with pytest.raises(NotFittedError):
        clone(hasher).encode(X)
    hasher.fit(X)
    with pytest.raises(
        InvalidInputError, match=r"X has 10 features, but .* is expecting 11 features"
    ):
        hasher.encode(X[:, :10])
    with pytest.raises(InvalidInputError, match="expecting 11 features"):
        hasher.encode(open_vectors(X[:, :10]))
    with pytest.raises(InvalidInputError, match="0 sample"):
        clone(hasher).fit(X[:0])
    with pytest.raises(InvalidInputError, match="no rows"):
        clone(hasher).fit(open_vectors(X[:0]))
    with pytest.raises(
        InvalidInputError, match=r"X must have two dimensions, .* Reshape your data"
    ):
        hasher.encode(X[0])
    with pytest.raises((BitkinError, TypeError)):
        hasher.encode(np.array([[{}] * 11], dtype=object))
    with pytest.raises(InvalidInputError, match="could not convert string"):
        hasher.encode(np.array([["a"] * 11], dtype=object))
    with pytest.raises(InvalidInputError, match="Complex data not supported"):
        hasher.encode(X * 1j)
    with pytest.raises(InvalidInputError, match="random_state must be"):
        clone(hasher).set_params(random_state=-1).fit(X)
    assert hasher.encode(X[:0]) == Codes.concatenate([hasher.encode(X)[:0]])


@each_hasher
def test_a_failed_fit_leaves_the_hasher_as_it_was(hasher: Hasher) -> None:
    X = vectors()
    codes = hasher.fit(X).encode(X)
    bad = X[:, :10].copy()
    bad[5, 5] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 5, column 5"):
        hasher.fit(bad)
    if meets_every_row(hasher):
        with pytest.raises(InvalidInputError, match="NaN at row 5, column 5"):
            hasher.fit(open_vectors(bad))
    assert hasher.encode(X) == codes


@each_hasher
def test_parameters_set_after_fitting_wait_for_the_next_fit(hasher: Hasher, tmp_path: Path) -> None:
    X = vectors()
    codes = hasher.fit(X).encode(X)
    for name, value in hasher.get_params(deep=False).items():
        if isinstance(value, bool):
            hasher.set_params(**{name: not value})
    assert hasher.encode(X) == codes
    hasher.save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").encode(X) == codes


@each_hasher
def test_a_sparse_matrix_with_impossible_indices_is_refused(hasher: Hasher) -> None:
    X = vectors()
    hasher.fit(X)
    broken = scipy.sparse.csr_matrix(X)
    broken.has_canonical_format = True
    broken.indices[5] = 10**8
    with pytest.raises(InvalidInputError, match="not a valid sparse matrix"):
        hasher.encode(broken)
    with pytest.raises(InvalidInputError, match="masked"):
        hasher.encode(np.ma.masked_equal(X, 0))
