from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    chi2_kernel,
    pairwise_kernels,
    rbf_kernel,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import bitkin
from bitkin import KernelMap
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.kernel_map import kernel_map, pairwise_kernel
from bitkin.io import open_vectors
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.randomness import Draws
from tests.io.mutations import mutate
from tests.memory import peak_of

HISTOGRAMS = ("additive_chi2", "chi2")
PARAMETERS: dict[str, dict[str, Any]] = {
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.2},
    "chi2": {"gamma": 0.7},
    "poly": {"gamma": 0.1, "degree": 2, "coef0": 0.5},
    "sigmoid": {"gamma": 0.05, "coef0": -0.5},
}
each_kernel = pytest.mark.parametrize("kernel", sorted(PAIRWISE_KERNEL_FUNCTIONS))


def vectors(n: int = 60, d: int = 9, seed: int = 0) -> npt.NDArray[np.float64]:
    """Counts, many of them zero: something for every kernel."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 9, (n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float64)


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
def test_scikit_learn_agrees_on_a_kernel_of_ones_own() -> None:
    # Apart from contracts/test_estimators.py: test names would hold the function's address,
    # different in every test process.
    check_estimator(KernelMap(rbf_kernel, anchors=2), on_skip=None)


@each_kernel
def test_components_are_kernel_values_against_the_anchors(kernel: str) -> None:
    X = vectors()
    parameters = PARAMETERS.get(kernel, {})
    fitted = KernelMap(kernel, 7, **parameters).fit(X)
    rows = Draws(0, "anchors").choice(60, 7)
    assert np.array_equal(fitted.anchors_, X[rows])
    truth = pairwise_kernels(X, X[rows], metric=kernel, **parameters)
    assert np.allclose(fitted.transform(X), truth, rtol=1e-12, atol=1e-12)
    assert fitted.get_feature_names_out().tolist() == [f"kernelmap{i}" for i in range(7)]


@each_kernel
def test_sparse_rows_and_their_dense_copies_have_the_same_values(kernel: str) -> None:
    X = vectors()
    sparse = scipy.sparse.csr_matrix(X)
    dense_fit, sparse_fit = KernelMap(kernel, 7).fit(X), KernelMap(kernel, 7).fit(sparse)
    assert scipy.sparse.issparse(sparse_fit.anchors_) == (kernel not in HISTOGRAMS)
    truth = dense_fit.transform(X)
    for fitted in (dense_fit, sparse_fit):
        for form in (X, sparse, scipy.sparse.coo_array(X), scipy.sparse.csc_matrix(X)):
            values = fitted.transform(form)
            assert type(values) is np.ndarray
            assert np.allclose(values, truth, rtol=1e-9, atol=1e-12)


def test_anchors_may_be_given_in_every_form() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    X, anchors = vectors(), vectors(5, seed=1)
    truth = rbf_kernel(X, anchors)
    for given_anchors in (
        anchors,
        anchors.tolist(),
        scipy.sparse.csr_matrix(anchors),
        pandas.DataFrame(anchors),
    ):
        assert np.allclose(KernelMap(anchors=given_anchors).fit_transform(X), truth)
    own = anchors.copy()
    fitted = KernelMap(anchors=own).fit(X)
    own[:] = 7  # the model keeps its own
    assert np.allclose(fitted.transform(X), truth)


def test_drawn_anchors_are_different_rows_in_an_order_that_the_seed_decides() -> None:
    X = np.arange(200.0).reshape(100, 2)
    anchors = KernelMap(anchors=100).fit(X).anchors_
    assert sorted(anchors.tolist()) == X.tolist()
    first = KernelMap(anchors=10, random_state=3).fit(X).anchors_
    assert np.array_equal(first, KernelMap(anchors=10, random_state=3).fit(X).anchors_)
    assert not np.array_equal(first, KernelMap(anchors=10, random_state=4).fit(X).anchors_)
    fresh = KernelMap(anchors=10, random_state=None).fit(X)
    assert np.array_equal(
        KernelMap(anchors=10, random_state=fresh.seed_).fit(X).anchors_, fresh.anchors_
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i8", ">f4", "O"])
def test_the_type_of_the_numbers_decides_precision_alone(dtype: str) -> None:
    X = vectors()
    fitted = KernelMap(anchors=5).fit(X.astype(dtype))
    values = fitted.transform(X.astype(dtype))
    assert (
        values.dtype
        == fitted.anchors_.dtype
        == (np.float32 if dtype in ("f2", "f4", ">f4") else np.float64)
    )
    assert np.allclose(values, KernelMap(anchors=5).fit_transform(X), rtol=1e-4)
    assert np.allclose(fitted.transform(X), values, rtol=1e-4)


@each_kernel
@pytest.mark.parametrize("n", [0, 1, 7, 60])
def test_blocks_do_not_show(kernel: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = vectors()
    fitted = KernelMap(kernel, 5).fit(X)
    whole = fitted.transform(X)
    monkeypatch.setattr(kernel_map, "_BLOCK_NUMBERS", 20)
    for form in (X[:n], scipy.sparse.csr_matrix(X[:n])):
        assert np.allclose(fitted.transform(form), whole[:n], rtol=1e-9, atol=1e-12)
    assert fitted.transform(X[:n]).shape == (n, 5)


@pytest.mark.parametrize("kernel", ["rbf", "chi2", "laplacian", rbf_kernel])
def test_the_number_of_threads_changes_nothing(
    kernel: Any, few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_map, "_BLOCK_NUMBERS", 500)
    X = vectors(1000)
    values = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        values.append(KernelMap(kernel, 20).fit_transform(X))
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_an_anchor_is_nearest_to_itself(n: int, d: int, data: Any) -> None:
    X = np.random.default_rng(n).standard_normal((n, d))
    count = data.draw(st.integers(1, n))
    fitted = KernelMap(anchors=count).fit(X)
    values = fitted.transform(fitted.anchors_)
    assert np.allclose(np.diag(values), 1)
    assert np.allclose(values, values.T)
    assert (values <= 1 + 1e-12).all()


# Functions as kernels


def intersection(rows: Any, anchors: Any) -> npt.NDArray[Any]:
    """Histogram intersection."""
    common: npt.NDArray[Any] = np.minimum(rows[:, None, :], anchors[None, :, :]).sum(axis=2)
    return common


def test_a_function_of_two_matrices_is_a_kernel() -> None:
    X = vectors()
    fitted = KernelMap(intersection, 6).fit(X)
    assert np.array_equal(fitted.transform(X), intersection(X, fitted.anchors_))
    named = KernelMap("chi2", 6, gamma=0.5).fit_transform(X)
    assert np.allclose(KernelMap(partial(chi2_kernel, gamma=0.5), 6).fit_transform(X), named)
    whole = KernelMap(lambda rows, anchors: (rows @ anchors.T).toarray(), 6)
    assert np.allclose(
        whole.fit_transform(scipy.sparse.csr_array(X)), KernelMap("linear", 6).fit_transform(X)
    )


def test_a_function_that_is_no_kernel_says_so_when_it_is_fitted() -> None:
    X = vectors()
    for wrong in (
        lambda a, b: float(a[0] @ b[0]),
        lambda a, b: np.ones((len(a), 3)),
        lambda a, b: [["?"] * len(b)],
    ):
        with pytest.raises(
            InvalidInputError, match=r"kernel must be a function of two matrices .* shape \(1, 6\)"
        ):
            KernelMap(wrong, 6).fit(X)
    with pytest.raises(InvalidInputError, match="kernel of row 0 and anchor 2 is nan"):
        KernelMap(
            lambda a, b: np.where(np.arange(len(b)) == 2, np.nan, np.ones((len(a), 1))), 6
        ).fit(X)
    with pytest.raises(ZeroDivisionError):  # what a function raises is its own affair
        KernelMap(lambda a, b: 1 / 0, 6).fit(X)


def test_a_function_cannot_be_saved_but_pickles(tmp_path: Path) -> None:
    X = vectors()
    fitted = KernelMap(intersection, 6).fit(X)
    with pytest.raises(
        InvalidInputError, match=r"kernel <function intersection .* cannot be saved.*pickle"
    ):
        fitted.save(tmp_path / "map")
    assert not list(tmp_path.iterdir())
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


# One model, everywhere


def same_map(a: KernelMap, b: KernelMap, X: Any) -> bool:
    return np.array_equal(a.transform(X), b.transform(X)) and a.n_features_in_ == b.n_features_in_


SAVED = [
    pytest.param(KernelMap("rbf", 5, gamma=0.25), vectors(), id="dense"),
    pytest.param(
        KernelMap("poly", 5, degree=3, coef0=1), scipy.sparse.csr_array(vectors()), id="sparse"
    ),
    pytest.param(KernelMap("chi2", 5), scipy.sparse.csr_array(vectors()), id="sparse histograms"),
    pytest.param(KernelMap("cosine", vectors(4, seed=2)), vectors().astype(np.float32), id="given"),
    pytest.param(
        KernelMap("linear", scipy.sparse.csr_array(vectors(4, seed=2))),
        vectors(),
        id="given sparse",
    ),
    pytest.param(
        KernelMap("linear", scipy.sparse.csr_array((2, 9))), vectors(), id="given sparse zeros"
    ),
    pytest.param(
        KernelMap("laplacian", 5, random_state=None), vectors().astype(np.float32), id="fresh seed"
    ),
]


@pytest.mark.parametrize(("made", "X"), SAVED)
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_map_has_the_same_values(
    made: KernelMap, X: Any, mmap: bool, tmp_path: Path
) -> None:
    fitted = clone(made).fit(X)
    fitted.save(tmp_path / "map")
    back = bitkin.load(tmp_path / "map", mmap=mmap)
    assert type(back) is KernelMap
    assert same_map(back, fitted, X)
    assert back.anchors_.dtype == fitted.anchors_.dtype
    assert (back.seed_, back.kernel, back.gamma) == (fitted.seed_, fitted.kernel, fitted.gamma)
    assert back.random_state == fitted.random_state
    again = clone(back).set_params(random_state=fitted.seed_).fit(X)
    assert same_map(again, fitted, X)
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "map").read_bytes()


@pytest.mark.parametrize(("made", "X"), SAVED)
def test_pickles_copies_and_clones_are_the_same_map(made: KernelMap, X: Any) -> None:
    fitted = clone(made).fit(X)
    assert same_map(pickle.loads(pickle.dumps(fitted)), fitted, X)
    assert same_map(copy.deepcopy(fitted), fitted, X)
    assert same_map(clone(fitted).set_params(random_state=fitted.seed_).fit(X), fitted, X)


@pytest.mark.parametrize(("made", "X"), SAVED)
def test_damaged_maps_are_refused(made: KernelMap, X: Any, tmp_path: Path) -> None:
    fitted = clone(made).fit(X)
    fitted.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = mutate(data, rng)
        (tmp_path / "bad").write_bytes(damaged)
        for mmap in (False, True):
            try:
                back = bitkin.load(tmp_path / "bad", mmap=mmap)
            except CorruptFileError:
                continue
            assert same_map(back, fitted, X)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "precomputed"}, "kernel must be one of"),
        ({"kernel": ["rbf"]}, "a kernel has a name"),
        ({"settings": {"anchors": 3}}, "a kernel has no settings"),
        ({"settings": {"gamma": "0.25"}}, "gamma must be a finite number"),
        ({"settings": {"gamma": -1.0}}, "gamma must be a finite number above 0"),
        ({"settings": {"degree": 2}}, "degree must be None"),
        ({"settings": {"gamma": 0.5}}, "does not fit its fingerprint"),
        ({"seed": -1}, "seed must be between"),
        ({"random_state": "x"}, "random_state must be a whole number"),
        ({"dtype": "int64"}, "dtype must be one of"),
        ({"dtype": "float32"}, "has a tensor anchors"),
        ({"shape": [5]}, "shape must be two numbers"),
        ({"shape": [5, 0]}, "shape must be between"),
        ({"shape": [9, 5]}, "has a tensor anchors"),
        ({"sparse": True}, "lacks the tensor data"),
    ],
)
def test_forged_parameters_are_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    KernelMap("rbf", 5, gamma=0.25).fit(vectors()).save(tmp_path / "map")
    stored = read_file(tmp_path / "map")
    parameters = {**stored._parameters, **changes}
    write_file(
        tmp_path / "map", "KernelMap", parameters, stored.fingerprint, {"anchors": vectors(5)}
    )
    with pytest.raises(CorruptFileError, match=words):
        bitkin.load(tmp_path / "map")


@pytest.mark.parametrize(
    ("changes", "kernel", "words"),
    [
        (
            {"indices": np.array([0, 99], dtype=np.int32)},
            "rbf",
            "impossible anchors",
        ),
        ({"indptr": np.array([0, 2, 1], dtype=np.int64)}, "rbf", "impossible anchors"),
        ({"indptr": np.array([0, 1], dtype=np.int64)}, "rbf", "has a tensor indptr"),
        ({"indptr": np.array([0, 3, 2], dtype=np.int64)}, "rbf", "impossible anchors"),
        ({"data": np.array([1.0, np.nan])}, "rbf", "anchors must be finite"),
        ({"more": np.zeros(3)}, "rbf", "tensors that do not belong there: more"),
        ({}, "chi2", "anchors must be dense"),
    ],
)
def test_forged_sparse_anchors_are_refused(
    changes: dict[str, npt.NDArray[Any]], kernel: str, words: str, tmp_path: Path
) -> None:
    anchors = scipy.sparse.csr_array(np.array([[0, 1.0, 0], [2.0, 0, 0]]))
    fitted = KernelMap(anchors=anchors).fit(vectors(3, 3))
    fitted.save(tmp_path / "map")
    stored = read_file(tmp_path / "map")
    tensors = {**kernel_map._anchor_tensors(fitted.anchors_), **changes}
    parameters = {**stored._parameters, "kernel": kernel}
    write_file(tmp_path / "map", "KernelMap", parameters, stored.fingerprint, tensors)
    with pytest.raises(CorruptFileError, match=words):
        bitkin.load(tmp_path / "map")


def test_a_source_in_batches_is_mapped_like_the_array() -> None:
    X = vectors()
    fitted = KernelMap(anchors=5).fit(X)
    source = open_vectors(X, batch_rows=7)
    assert np.array_equal(KernelMap(anchors=5).fit(source).anchors_, fitted.anchors_)
    assert np.allclose(fitted.transform(source), fitted.transform(X), rtol=1e-12)
    with pytest.raises(InvalidInputError, match="is an iterator"):
        KernelMap(anchors=5).fit(open_vectors(iter([X])))


def test_parameters_set_after_fitting_wait_for_the_next_fit() -> None:
    X = vectors()
    fitted = KernelMap(anchors=5).fit(X)
    before = fitted.transform(X)
    fitted.set_params(kernel="poly", gamma=3.0, anchors=2)
    assert np.array_equal(fitted.transform(X), before)
    assert fitted.fit_transform(X).shape == (60, 2)


def test_a_failed_fit_leaves_the_map_as_it_was() -> None:
    X = vectors()
    fitted = KernelMap(anchors=5).fit(X)
    before = fitted.transform(X)
    bad = X[:, :8].copy()
    bad[5, 5] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 5, column 5"):
        fitted.fit(bad)
    fitted.gamma = -1.0
    with pytest.raises(InvalidInputError, match="gamma"):
        fitted.fit(X[:, :8])
    assert np.array_equal(fitted.transform(X), before)


def test_with_winner_take_all_behind_it_near_vectors_get_near_codes() -> None:
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((10, 16)) * 3
    X = np.repeat(centers, 20, axis=0) + 0.3 * rng.standard_normal((200, 16))
    pipeline = make_pipeline(KernelMap("rbf", 50, gamma=0.02), bitkin.WTAHash(128, window=4)).fit(X)
    symbols = pipeline.transform(X)
    assert symbols.shape == (200, 128)
    equal = (symbols[:, None, :] == symbols[None, :, :]).mean(axis=2)
    same = np.repeat(np.arange(10), 20)[:, None] == np.repeat(np.arange(10), 20)[None, :]
    assert equal[same].mean() > equal[~same].mean() + 0.2
    assert np.array_equal(pickle.loads(pickle.dumps(pipeline)).transform(X), symbols)


# Bad input


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": "rbff"}, "kernel must be one of 'additive_chi2', .* or a function, got 'rbff'"),
        ({"kernel": "precomputed"}, "kernel must be one of"),
        ({"kernel": None}, "kernel must be one of .* got None"),
        (
            {"anchors": 0},
            "anchors must be at least 1, got 0. Pass how many rows to draw, or the anchors "
            "themselves",
        ),
        ({"anchors": 2.5}, "anchors must be a whole number, got 2.5"),
        ({"anchors": None}, "anchors must be a whole number, got None"),
        ({"anchors": "all"}, "anchors must be a whole number, got 'all'"),
        (
            {"anchors": vectors(4, 8)},
            r"anchors must be rows of 9 features, like those of X, got shape \(4, 8\)",
        ),
        ({"anchors": vectors(0)}, r"anchors must be rows of 9 features, .* got shape \(0, 9\)"),
        ({"anchors": vectors()[0]}, r"anchors must have shape \(n, d\)"),
        ({"anchors": [[1.0], [1.0, 2.0]]}, "anchors cannot become a 2-D array"),
        ({"anchors": np.full((2, 9), np.inf)}, "anchors: infinity at row 0, column 0"),
        ({"gamma": 0}, "gamma must be a finite number above 0, or None, got 0"),
        ({"gamma": np.inf}, "gamma must be a finite number above 0, or None, got inf"),
        ({"gamma": "scale"}, "gamma must be a finite number above 0, or None, got 'scale'"),
        ({"gamma": True}, "gamma must be a finite number above 0, or None, got True"),
        ({"degree": 3}, "degree must be None for the kernel 'rbf', which has gamma; got 3"),
        (
            {"kernel": "poly", "degree": 0.5},
            "degree must be a finite number of at least 1, or None, got 0.5",
        ),
        ({"kernel": "poly", "coef0": np.nan}, "coef0 must be a finite number, or None, got nan"),
        (
            {"kernel": "cosine", "gamma": 1.0},
            "gamma must be None for the kernel 'cosine', which has no parameter",
        ),
        (
            {"kernel": rbf_kernel, "gamma": 1.0},
            "gamma must be None for the kernel <function rbf_kernel",
        ),
        ({"random_state": -1}, "random_state must be between"),
    ],
)
def test_bad_parameters_are_one_clear_error(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        KernelMap(**{"anchors": 5, **parameters}).fit(vectors())


def test_of_fewer_rows_than_anchors_all_are_anchors(tmp_path: Path) -> None:
    X = vectors()
    with pytest.warns(UserWarning, match="anchors=61 is more than the 60 rows fitted") as told:
        fitted = KernelMap(anchors=61).fit(X)
    assert len(told) == 1
    assert np.array_equal(fitted.anchors_, KernelMap(anchors=60).fit(X).anchors_)
    fitted.save(tmp_path / "map")
    assert np.array_equal(bitkin.load(tmp_path / "map").transform(X), fitted.transform(X))


def test_bad_vectors_are_one_clear_error() -> None:
    X = vectors()
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        KernelMap(anchors=5).transform(X)
    fitted = KernelMap(anchors=5).fit(X)
    with pytest.raises(
        InvalidInputError, match="X has 8 features, but KernelMap is expecting 9 features"
    ):
        fitted.transform(X[:, :8])
    with pytest.raises(InvalidInputError, match="is expecting 9 features"):
        fitted.transform(open_vectors(X[:, :8]))
    with pytest.raises(
        InvalidInputError, match=r"X must have two dimensions, .* Reshape your data"
    ):
        fitted.transform(X[0])
    with pytest.raises(InvalidInputError, match="0 sample"):
        clone(fitted).fit(X[:0])
    with pytest.raises(InvalidInputError, match="no rows"):
        clone(fitted).fit(open_vectors(X[:0]))
    with pytest.raises(InvalidInputError, match="masked"):
        fitted.transform(np.ma.masked_equal(X, 0))
    with pytest.raises(InvalidInputError, match="Complex data not supported"):
        fitted.transform(X * 1j)
    X[50, 3] = -np.inf
    for bad in (X, scipy.sparse.csr_matrix(X)):
        with pytest.raises(InvalidInputError, match="infinity at row 50, column 3"):
            fitted.transform(bad)


def test_numbers_the_kernel_cannot_take_are_one_clear_error() -> None:
    X = vectors()
    fitted = KernelMap("chi2", 5).fit(X)
    X[50, 3] = -2
    for bad in (X, scipy.sparse.csr_matrix(X), open_vectors(X, batch_rows=7, name="X")):
        for job in (fitted.transform, clone(fitted).fit):
            with pytest.raises(
                InvalidInputError, match=r"X has -2\.0 at row 50, column 3, and the kernel 'chi2'"
            ):
                job(bad)
    with pytest.raises(InvalidInputError, match=r"anchors has -1\.0 at row 0, column 0"):
        KernelMap("chi2", -np.ones((2, 9))).fit(vectors())
    X = vectors()
    steep = KernelMap("poly", 5, degree=60, gamma=1e6, coef0=1).fit(X / 1e6)
    with pytest.raises(
        InvalidInputError, match=r"kernel of row \d+ and anchor \d is inf. Scale the data"
    ):
        steep.transform(X * 1e6)


def test_sparse_anchors_whose_offsets_overflow_are_refused(tmp_path: Path) -> None:
    anchors = scipy.sparse.csr_array(np.arange(1.0, 10.0).reshape(3, 3))
    fitted = KernelMap(anchors=anchors).fit(vectors(3, 3))
    fitted.save(tmp_path / "map")
    stored = read_file(tmp_path / "map")
    # the differences of neighbours overflow, and are positive
    fall = np.array([0, 2**63 - 1, -(2**63) + 5000, 9])
    tensors = {**kernel_map._anchor_tensors(fitted.anchors_), "indptr": fall}
    write_file(tmp_path / "map", "KernelMap", stored._parameters, stored.fingerprint, tensors)
    with pytest.raises(CorruptFileError, match=r"impossible anchors.*non-decreasing"):
        bitkin.load(tmp_path / "map")


SPARSE_KERNELS = ["cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid"]


@pytest.mark.parametrize("kernel", SPARSE_KERNELS)
def test_columns_that_nothing_is_in_take_no_memory(kernel: str, tmp_path: Path) -> None:
    d = 2**31 - 1
    columns = np.array([0, 5, d - 1, 3, d - 1], dtype=np.int32)
    parts = (np.array([1.0, -2.0, 3.0, 4.0, 0.5]), columns, np.array([0, 3, 5, 5], dtype=np.int32))
    rows = scipy.sparse.csr_array(parts, shape=(3, d))
    made = KernelMap(kernel, anchors=rows)
    values = []

    def use() -> None:
        values.append(made.fit(rows).transform(rows))
        made.save(tmp_path / "map")
        values.append(bitkin.load(tmp_path / "map").transform(rows))

    assert peak_of(use) < 5_000_000
    gamma = {} if kernel in ("cosine", "linear") else {"gamma": 1 / d}
    # by hand: SciPy takes columns with the help of an array as long as the row, of 8 GB
    used = np.array([[1.0, 0.0, -2.0, 3.0], [0.0, 4.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    truth = pairwise_kernels(used, used, metric=kernel, **gamma)
    for found in values:
        np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kernel", SPARSE_KERNELS)
def test_leaving_columns_out_changes_no_value(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((20, 300), density=0.02, rng=rng, format="csr")
    made = KernelMap(kernel, anchors=X[:7]).fit(X)
    whole = made.transform(X)
    monkeypatch.setattr(pairwise_kernel, "_MANY_COLUMNS", 0)
    assert np.array_equal(made.transform(X), whole)
