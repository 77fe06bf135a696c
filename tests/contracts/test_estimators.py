"""Promises that every scikit-learn estimator of ours keeps: hashers, maps and classifiers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitkin
from bitkin.errors import BitkinError, CorruptFileError, InvalidInputError
from bitkin.io import open_vectors
from tests.contracts.estimators import (
    INSTANCES,
    answer,
    exported,
    fit,
    instances,
    labels,
    same,
    scikit_learn_instances,
    vectors,
)
from tests.contracts.hashers import expected_failures, has_seed, meets_every_row
from tests.io.mutations import mutate

each = pytest.mark.parametrize("estimator", [clone(one) for one in instances()], ids=repr)


def test_every_exported_estimator_has_instances_here() -> None:
    missing = {kind.__name__ for kind in exported()} - set(INSTANCES)
    assert not missing, f"add instances of {missing} to tests/contracts/estimators.py"


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@pytest.mark.filterwarnings("ignore:.* coordinates have one sign")  # some of its data is positive
@pytest.mark.filterwarnings("ignore:(n_bits|window|anchors)=[0-9]+ is more than the")
@parametrize_with_checks(scikit_learn_instances(), expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator]
def test_scikit_learn_agrees(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@each
def test_fitting_returns_the_estimator_and_says_how_many_features_there_were(
    estimator: Any,
) -> None:
    X = vectors(estimator)
    assert not hasattr(clone(estimator), "n_features_in_")
    assert fit(estimator, X) is estimator
    assert estimator.n_features_in_ == 11
    assert len(answer(estimator, X)) == 300
    assert len(answer(estimator, X[:0])) == 0
    # a refit forgets the rows and their number of features
    fit(estimator, X[:, :9])
    assert estimator.n_features_in_ == 9
    assert same(answer(estimator, X[:, :9]), answer(fit(clone(estimator), X[:, :9]), X[:, :9]))


@each
def test_parameters_make_the_same_estimator_again(estimator: Any) -> None:
    parameters = estimator.get_params(deep=False)
    twin = type(estimator)().set_params(**parameters)
    assert twin.get_params(deep=False) == parameters
    assert repr(twin) == repr(clone(estimator))  # fitted ones say what they chose, too
    X = vectors(estimator)
    assert same(answer(fit(twin, X), X), answer(fit(estimator, X), X))


@each
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_estimator_gives_the_same_answers(
    estimator: Any, mmap: bool, tmp_path: Path
) -> None:
    X = vectors(estimator)
    fit(estimator, X).save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model", mmap=mmap)
    assert type(back) is type(estimator)
    assert same(answer(back, X), answer(estimator, X))
    assert back.n_features_in_ == 11
    assert same(answer(fit(clone(back), X), X), answer(estimator, X))
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@each
def test_damaged_models_are_refused_or_give_the_same_answers(
    estimator: Any, tmp_path: Path
) -> None:
    X = vectors(estimator)
    fit(estimator, X).save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    wanted = answer(estimator, X)
    rng = np.random.default_rng(0)
    refused = 0
    # instances of one class share a layout
    tries = max(150, 2000 // len(INSTANCES[type(estimator).__name__]))
    for _ in range(tries):
        (tmp_path / "bad").write_bytes(mutate(data, rng))
        try:
            back = bitkin.load(tmp_path / "bad")
        except CorruptFileError:
            refused += 1
            continue
        assert same(answer(back, X), wanted)
    assert refused > tries / 2


@each
def test_pickles_copies_and_clones_are_the_same_estimator(estimator: Any) -> None:
    X = vectors(estimator)
    wanted = answer(fit(estimator, X), X)
    assert same(answer(pickle.loads(pickle.dumps(estimator)), X), wanted)
    assert same(answer(copy.deepcopy(estimator), X), wanted)
    assert same(answer(fit(clone(estimator), X), X), wanted)
    other = vectors(estimator, seed=5)
    assert same(answer(fit(fit(estimator, other), X), X), wanted)


@each
def test_the_number_of_threads_changes_nothing(estimator: Any, few_threads: None) -> None:
    X = vectors(estimator, 5000)
    answers = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        answers.append(answer(fit(clone(estimator), X), X))
    assert same(answers[1], answers[0])
    assert same(answers[2], answers[0])


@each
def test_data_frames_are_taken_by_name(estimator: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    X = vectors(estimator)
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(11)])
    wanted = answer(fit(estimator, frame), frame)
    plain = answer(fit(clone(estimator), X), X)
    if not isinstance(plain, np.ndarray):  # the names are part of what codes are compared by
        wanted, plain = wanted.symbols(), plain.symbols()
    assert np.array_equal(wanted, plain)
    estimator.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.feature_names_in_.tolist() == list(frame.columns)
    assert same(answer(back, frame), answer(estimator, frame))
    for one in (estimator, back):
        with pytest.raises(InvalidInputError, match="feature names should match"):
            answer(one, frame.rename(columns={"f3": "other"}))
    # a refit without names forgets them
    assert not hasattr(fit(estimator, X), "feature_names_in_")


@each
def test_what_is_not_finite_is_named_by_row_and_column(estimator: Any) -> None:
    X = vectors(estimator, 3000).astype(np.float64)
    y = labels(X)
    fit(estimator, X)
    X[2345, 6] = np.nan
    for bad in (X, scipy.sparse.csr_matrix(X), X.astype(np.float32)):
        with pytest.raises(InvalidInputError, match="NaN at row 2345, column 6"):
            answer(estimator, bad)
        with pytest.raises(InvalidInputError, match="NaN at row 2345, column 6"):
            fit(clone(estimator), bad, y)
    X[2345, 6] = np.inf
    with pytest.raises(InvalidInputError, match="infinity at row 2345, column 6"):
        answer(estimator, X)


@each
def test_other_bad_input_is_one_clear_error(estimator: Any, tmp_path: Path) -> None:
    X = vectors(estimator)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        answer(clone(estimator), X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        clone(estimator).save(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    fit(estimator, X)
    with pytest.raises(
        InvalidInputError, match=r"X has 10 features, but .* is expecting 11 features"
    ):
        answer(estimator, X[:, :10])
    with pytest.raises(InvalidInputError, match="expecting 11 features"):
        answer(estimator, open_vectors(X[:, :10]))
    with pytest.raises(InvalidInputError, match="0 sample"):
        fit(clone(estimator), X[:0])
    with pytest.raises(InvalidInputError, match="no rows"):
        fit(clone(estimator), open_vectors(X[:0]), labels(X[:0]))
    if hasattr(estimator, "encode"):  # a lone vector may be asked about
        assert same(estimator.encode(X[0]), estimator.encode(X[:1]))
    else:
        with pytest.raises(
            InvalidInputError, match=r"X must have two dimensions, .* Reshape your data"
        ):
            answer(estimator, X[0])
    with pytest.raises((BitkinError, TypeError), match=r"argument must be a string|a real number"):
        answer(estimator, np.array([[{}] * 11], dtype=object))
    with pytest.raises(InvalidInputError, match="could not convert string"):
        answer(estimator, np.array([["a"] * 11], dtype=object))
    with pytest.raises(InvalidInputError, match="Complex data not supported"):
        answer(estimator, X * 1j)
    with pytest.raises(InvalidInputError, match="masked"):
        answer(estimator, np.ma.masked_equal(X, 0))
    if has_seed(estimator):
        with pytest.raises(InvalidInputError, match="random_state must be"):
            fit(clone(estimator).set_params(random_state=-1), X)
    broken = scipy.sparse.csr_matrix(X)
    broken.has_canonical_format = True
    broken.indices[5] = 10**8
    with pytest.raises(InvalidInputError, match="not a valid sparse matrix"):
        answer(estimator, broken)


@each
def test_a_failed_fit_leaves_the_estimator_as_it_was(estimator: Any) -> None:
    X = vectors(estimator)
    wanted = answer(fit(estimator, X), X)
    bad = X[:, :10].copy()
    y = labels(bad)
    bad[5, 5] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 5, column 5"):
        fit(estimator, bad, y)
    if meets_every_row(estimator):
        with pytest.raises(InvalidInputError, match="NaN at row 5, column 5"):
            fit(estimator, open_vectors(bad), y)
    assert estimator.n_features_in_ == 11
    assert same(answer(estimator, X), wanted)


@each
def test_parameters_set_after_fitting_wait_for_the_next_fit(estimator: Any, tmp_path: Path) -> None:
    X = vectors(estimator)
    wanted = answer(fit(estimator, X), X)
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, bool):
            estimator.set_params(**{name: not value})
    assert same(answer(estimator, X), wanted)
    estimator.save(tmp_path / "model")
    assert same(answer(bitkin.load(tmp_path / "model"), X), wanted)
