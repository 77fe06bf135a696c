from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

import bitkin.evaluate.exact.candidates
import bitkin.evaluate.exact.dense_bounds
import bitkin.evaluate.exact.sparse_bounds
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, radius_truth

METRICS = ["l2", "cosine", "ip"]


def all_distances(X: Any, Q: Any, metric: str) -> npt.NDArray[np.float64]:
    X, Q = np.asarray(X, dtype=np.float64), np.asarray(Q, dtype=np.float64)
    products: npt.NDArray[np.float64] = (X[None] * Q[:, None]).sum(axis=2)
    if metric == "ip":
        return -products
    if metric == "l2":
        squares: npt.NDArray[np.float64] = ((X[None] - Q[:, None]) ** 2).sum(axis=2)
        return np.sqrt(squares)
    norms: npt.NDArray[np.float64] = np.sqrt((X**2).sum(axis=1)[None] * (Q**2).sum(axis=1)[:, None])
    return 1 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def slow_nearest(X: Any, Q: Any, k: int, metric: str) -> npt.NDArray[np.int64]:
    return np.argsort(all_distances(X, Q, metric), axis=1, kind="stable")[:, :k]


def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sixteen rows a block, cut the shortlist all the time and measure on the way."""
    monkeypatch.setattr(bitkin.evaluate.exact.dense_bounds, "_PREPARED_VALUES", 1)
    monkeypatch.setattr(bitkin.evaluate.exact.dense_bounds, "_QUERY_BLOCK", 5)
    monkeypatch.setattr(bitkin.evaluate.exact.sparse_bounds, "_ROW_BLOCK", 13)
    monkeypatch.setattr(bitkin.evaluate.exact.candidates, "_CUT_ABOVE", 3)
    monkeypatch.setattr(bitkin.evaluate.exact.candidates, "_MAX_CANDIDATES", 40)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [1, 7, 63, 64, 65])
def test_neighbours_are_those_of_a_full_sort(n: int, metric: str) -> None:
    rng = np.random.default_rng(n)
    X, Q = rng.standard_normal((n, 9)), rng.standard_normal((7, 9))
    found = nearest(X, Q, 3, metric)
    want = slow_nearest(X, Q, 3, metric)
    np.testing.assert_array_equal(found.ids[:, : min(n, 3)], want)
    np.testing.assert_allclose(
        found.distances[:, : min(n, 3)],
        np.take_along_axis(all_distances(X, Q, metric), want, axis=1),
        atol=1e-14,
    )
    assert found.ids.dtype == np.int64
    assert found.distances.dtype == np.float64


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_of_any_size_give_the_same_result(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    X, Q = rng.standard_normal((300, 5)).round(1), rng.standard_normal((23, 5)).round(1)
    whole = nearest(X, Q, 20, metric)
    tiny_blocks(monkeypatch)
    for a, b in [
        (X, Q),
        (scipy.sparse.csr_array(X), scipy.sparse.csr_matrix(Q)),
        (X[::-1][::-1], np.asfortranarray(Q)),
    ]:
        found = nearest(a, b, 20, metric)
        np.testing.assert_array_equal(found.ids, whole.ids)
        np.testing.assert_array_equal(found.distances, whole.distances)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_ties_go_to_the_lower_row_number_exactly(data: st.DataObject) -> None:
    # Small whole numbers: every sum is exact, so ties are real ties, and there are many.
    n, q, d, k = (
        data.draw(st.integers(low, high)) for low, high in [(1, 65), (1, 4), (1, 10), (1, 70)]
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    X, Q = rng.integers(-1, 2, (n, d)), rng.integers(-1, 2, (q, d))
    for metric in ["l2", "ip"]:
        found = nearest(X, Q, k, metric)
        np.testing.assert_array_equal(found.ids[:, :n], slow_nearest(X, Q, k, metric))


@pytest.mark.parametrize("metric", METRICS)
def test_copies_of_a_row_come_in_order_at_one_distance(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    X = np.repeat(rng.standard_normal((3, 33)), 50, axis=0)[rng.permutation(150)]
    Q = X[:4]
    whole = nearest(X, Q, 60, metric)
    for row, query in enumerate(Q):
        own = np.flatnonzero((query == X).all(axis=1))
        assert np.unique(whole.distances[row, np.isin(whole.ids[row], own)]).size == 1
        if metric != "ip":
            np.testing.assert_array_equal(whole.ids[row, :50], own)
            np.testing.assert_array_equal(whole.distances[row, :50], 0)
    tiny_blocks(monkeypatch)
    for k in [3, 60]:
        np.testing.assert_array_equal(nearest(X, Q, k, metric).ids, whole.ids[:, :k])


def test_differences_too_small_for_float32_are_seen() -> None:
    rng = np.random.default_rng(3)
    base = rng.standard_normal(40)
    X = base + 1e-12 * rng.permutation(np.arange(1, 101))[:, None] * np.eye(40)[0]
    found = nearest(X, base[None], 100)
    np.testing.assert_array_equal(
        found.ids[0], np.argsort(np.abs(X[:, 0] - base[0]), kind="stable")
    )


def test_rows_far_from_the_origin_keep_their_order() -> None:
    rng = np.random.default_rng(4)
    X, Q = rng.standard_normal((200, 30)) + 1e7, rng.standard_normal((5, 30)) + 1e7
    np.testing.assert_array_equal(nearest(X, Q, 10).ids, slow_nearest(X - 1e7, Q - 1e7, 10, "l2"))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-10, 1e10, 1e30, 1e300])
def test_the_scale_of_the_data_changes_nothing(scale: float, metric: str) -> None:
    rng = np.random.default_rng(5)
    X, Q = rng.standard_normal((65, 12)), rng.standard_normal((7, 12))
    found = nearest(X * scale, Q * scale if metric != "ip" else Q, 10, metric)
    np.testing.assert_array_equal(found.ids, slow_nearest(X, Q, 10, metric))
    np.testing.assert_allclose(
        found.distances,
        nearest(X, Q, 10, metric).distances * (1 if metric == "cosine" else scale),
        rtol=1e-12,
    )


@pytest.mark.parametrize("metric", METRICS)
def test_rows_of_every_size_go_together(metric: str) -> None:
    rng = np.random.default_rng(6)
    sizes = 10.0 ** rng.integers(-30, 31, (200, 1))
    X, Q = rng.standard_normal((200, 8)) * sizes, rng.standard_normal((9, 8))
    np.testing.assert_array_equal(nearest(X, Q, 50, metric).ids, slow_nearest(X, Q, 50, metric))
    found = nearest(X.astype(np.float32), Q, 50, metric)
    np.testing.assert_array_equal(found.ids, slow_nearest(X.astype(np.float32), Q, 50, metric))


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_short_rows_keep_their_order_beside_long_ones(form: Any) -> None:
    # Distances of 1e-201, 9e-201, 4e-200 and 1e300 from the first, of their squares none but the
    # last is a float.
    X = np.array([[0.0, 5e-200], [1e300, 0.0], [2e-200, 0.0], [1e-200, 0.0]])
    found = nearest(form(X), form(np.array([[1.1e-200, 0.0], [1e300, 1e284]])), 4)
    assert found.ids.tolist() == [[3, 2, 0, 1], [1, 0, 2, 3]]
    np.testing.assert_allclose(
        found.distances[0], [1e-201, 9e-201, np.hypot(1.1e-200, 5e-200), 1e300], rtol=1e-12
    )
    np.testing.assert_allclose(found.distances[1], [1e284, 1e300, 1e300, 1e300], rtol=1e-12)
    near = radius_truth(form(X), form(np.array([[1.1e-200, 0.0]])), 2)
    assert near.toarray().tolist() == [[False, False, False, True]]


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", ">f4"]
)
@pytest.mark.parametrize("metric", METRICS)
def test_every_type_of_number_is_taken_as_it_is(dtype: str, metric: str) -> None:
    rng = np.random.default_rng(7)
    X, Q = rng.integers(0, 2 if dtype == "?" else 100, (65, 6)), rng.integers(0, 100, (7, 6))
    want = nearest(X.astype(np.float64), Q.astype(np.float64), 9, metric)
    forms = [X, X.astype(dtype)]
    if dtype not in ("f2", ">f4"):  # SciPy has no such matrices
        forms.append(scipy.sparse.csr_matrix(X.astype(dtype)))
    for form in forms:
        found = nearest(form, Q, 9, metric)
        np.testing.assert_array_equal(found.ids, want.ids)
        np.testing.assert_array_equal(found.distances, want.distances)


def test_the_largest_whole_numbers_fit() -> None:
    X = np.array([[2**63 - 1, 0], [-(2**63), 0], [0, 0]])
    assert nearest(X, np.array([[-(2**20), 0]]), 3).ids.tolist() == [[2, 1, 0]]
    assert nearest(X, np.array([[-(2**20), 0]]), 3, "ip").ids.tolist() == [[1, 2, 0]]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.sampled_from(METRICS),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.booleans(),
)
def test_a_sparse_matrix_and_its_dense_copy_give_the_same_bits(
    seed: int, metric: str, density: float, by_sparse_products: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 21)) * (rng.random((40, 21)) < density)
    Q = rng.standard_normal((5, 21)) * (rng.random((5, 21)) < 2 * density)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            bitkin.evaluate.exact.sparse_bounds, "_SPARSE_COST", 0 if by_sparse_products else 10**9
        )
        want = nearest(X, Q, 12, metric)
        for a, b in [
            (scipy.sparse.csr_matrix(X), scipy.sparse.csr_array(Q)),
            (scipy.sparse.csc_matrix(X), Q),
        ]:
            found = nearest(a, b, 12, metric)
            np.testing.assert_array_equal(found.ids, want.ids)
            np.testing.assert_array_equal(found.distances, want.distances)


def test_repeated_and_unsorted_entries_of_a_sparse_row_are_added_up() -> None:
    messy = scipy.sparse.csr_matrix(([1.0, 2.0, 3.0, 5.0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    before = messy.data.copy(), messy.indices.copy()
    clean = np.array([[2.0, 0.0, 4.0], [0.0, 5.0, 0.0]])
    Q = np.array([[1.0, 1.0, 3.0]])
    for queries in (Q, scipy.sparse.csr_matrix(Q)):
        np.testing.assert_array_equal(
            nearest(messy, queries, 2).distances, nearest(clean, Q, 2).distances
        )
    np.testing.assert_array_equal(messy.data, before[0])
    np.testing.assert_array_equal(messy.indices, before[1])


@pytest.mark.parametrize("metric", METRICS)
def test_any_number_of_columns_is_fine_for_sparse_rows(metric: str) -> None:
    rng = np.random.default_rng(8)
    columns = np.sort(rng.choice(2**40, 30, replace=False))
    dense = rng.standard_normal((70, 30)) * (rng.random((70, 30)) < 0.3)
    packed = scipy.sparse.csr_array(dense)
    X = scipy.sparse.csr_array(
        (packed.data, columns[packed.indices], packed.indptr), shape=(70, 2**40)
    )
    found, want = nearest(X, X[:5], 9, metric), nearest(dense, dense[:5], 9, metric)
    np.testing.assert_allclose(found.distances, want.distances, atol=1e-14)
    assert nearest(X, X[:0], 9, metric).ids.shape == (0, 9)
    assert nearest(X, scipy.sparse.csr_array((2, 2**40)), 3, "l2").ids.shape == (2, 3)


def test_more_columns_than_float32_can_bound_are_multiplied_in_float64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bitkin.evaluate.exact.dense_bounds, "_FLOAT32_COLUMNS", 8)
    rng = np.random.default_rng(9)
    X, Q = rng.standard_normal((65, 9)), rng.standard_normal((7, 9))
    for metric in METRICS:
        np.testing.assert_array_equal(nearest(X, Q, 5, metric).ids, slow_nearest(X, Q, 5, metric))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbours_are_those_of_scikit_learn(metric: str) -> None:
    rng = np.random.default_rng(10)
    X, Q = rng.random((500, 20), dtype=np.float32), rng.random((30, 20), dtype=np.float32)
    want = NearestNeighbors(n_neighbors=5, algorithm="brute", metric=metric).fit(
        X.astype(np.float64)
    )
    distances, ids = want.kneighbors(Q.astype(np.float64))
    found = nearest(X, Q, 5, "l2" if metric == "euclidean" else metric)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.distances, distances, atol=1e-12)


def test_a_row_of_zeros_is_at_cosine_distance_one_from_everything() -> None:
    found = nearest([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], [[2.0, 2.0], [0.0, 0.0]], 3, "cosine")
    assert found.ids.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert found.distances[0, :2].tolist() == [0.0, 1.0]
    assert found.distances[1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_a_row_is_at_distance_zero_from_itself(metric: str) -> None:
    X = np.random.default_rng(11).standard_normal((64, 50))
    found = nearest(X, X, 1, metric)
    np.testing.assert_array_equal(found.ids[:, 0], np.arange(64))
    np.testing.assert_array_equal(found.distances, 0.0)


@pytest.mark.parametrize("metric", METRICS)
def test_missing_neighbours_are_padded(metric: str) -> None:
    rng = np.random.default_rng(12)
    X, Q = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    found = nearest(X, Q, 7, metric)
    np.testing.assert_array_equal(found.ids[:, :3], slow_nearest(X, Q, 3, metric))
    assert (found.ids[:, 3:] == -1).all()
    assert np.isposinf(found.distances[:, 3:]).all()
    nothing = nearest(X[:0], Q, 2, metric)
    assert nothing.ids.tolist() == [[-1, -1], [-1, -1]]
    assert np.isposinf(nothing.distances).all()


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix])
def test_no_queries_and_no_columns_are_fine(make: Any) -> None:
    found = nearest(make(np.ones((5, 4))), make(np.ones((0, 4))), 3)
    assert found.ids.shape == found.distances.shape == (0, 3)
    for metric, distance in [("l2", 0.0), ("cosine", 1.0), ("ip", 0.0)]:
        found = nearest(make(np.ones((5, 0))), make(np.ones((2, 0))), 2, metric)
        assert found.ids.tolist() == [[0, 1], [0, 1]]
        assert (found.distances == distance).all()


def test_the_arguments_are_left_as_they_were() -> None:
    rng = np.random.default_rng(13)
    X, Q = rng.standard_normal((20, 4)), rng.standard_normal((3, 4))
    before = X.copy(), Q.copy()
    for metric in METRICS:
        nearest(X, Q, 2, metric)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Q, before[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix])
def test_a_value_that_is_not_finite_is_named(bad: float, make: Any) -> None:
    good = np.ones((70, 5), dtype=np.float32)
    broken = good.copy()
    broken[64, 3] = bad
    with pytest.raises(
        InvalidInputError, match=rf"X must hold finite numbers, got {bad} in row 64, column 3"
    ):
        nearest(make(broken), good, 1)
    with pytest.raises(
        InvalidInputError, match=rf"Q must hold finite numbers, got {bad} in row 64, column 3"
    ):
        nearest(good, make(broken), 1)


def test_bad_arguments_are_refused_by_name() -> None:
    X = np.ones((5, 4))
    for metric in ("l2", "jaccard"):
        for k in (10**15, 2**70):
            with pytest.raises(InvalidInputError, match=f"5 queries with k={k:,} does not fit"):
                nearest(X, X, k, metric)
        with pytest.raises(InvalidInputError, match=r"0 queries with k=.* does not fit"):
            nearest(X, X[:0], 2**70, metric)
    with pytest.raises(InvalidInputError, match="Q must have as many columns as X, got 3 and 4"):
        nearest(X, np.ones((2, 3)), 1)
    with pytest.raises(InvalidInputError, match="k must be at least 1, got 0"):
        nearest(X, X, 0)
    with pytest.raises(InvalidInputError, match=r"k must be a whole number, got 1\.5"):
        nearest(X, X, 1.5)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInputError, match="metric must be one of 'l2', 'cosine', 'ip', 'jaccard', got 'L2'"
    ):
        nearest(X, X, 1, "L2")
    with pytest.raises(InvalidInputError, match=r"Q must be 2-dimensional, got shape \(5, 1, 4\)"):
        nearest(X, X[:, None], 1)
    with pytest.raises(InvalidInputError, match="X must hold real numbers, got dtype complex128"):
        nearest(X + 1j, X, 1)
    with pytest.raises(InvalidInputError, match="X must hold real numbers, got dtype <U1"):
        nearest([["a"]], X, 1)
    with pytest.raises(
        InvalidInputError, match="X must be a matrix, got rows of different lengths"
    ):
        nearest([[1.0], [1.0, 2.0]], X, 1)
