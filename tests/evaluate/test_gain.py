from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import bitkin.evaluate.gain
from bitkin.errors import InvalidInputError
from bitkin.evaluate import ndcg


def gain_in_order(grades: npt.NDArray[Any], k: int) -> float:
    return float((grades[:k] / np.log2(np.arange(2, len(grades[:k]) + 2))).sum())


def expected_ndcg(distances: npt.NDArray[Any], grades: npt.NDArray[Any], k: int) -> float:
    """Average over all orders that sort the distances, and divide by the best of all orders."""
    orders = [list(order) for order in permutations(range(len(distances)))]
    gains = [gain_in_order(grades[o], k) for o in orders if (np.diff(distances[o]) >= 0).all()]
    return float(np.mean(gains) / max(gain_in_order(grades[o], k) for o in orders))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 7),
)
def test_ties_count_as_the_mean_over_all_their_orders(items: list[tuple[int, int]], k: int) -> None:
    distances, grades = np.array([d for d, _ in items]), np.array([g for _, g in items])
    grades[0] = max(1, grades[0])
    want = expected_ndcg(distances, grades, k)
    for form in (distances, distances / 7.0, distances.astype(np.uint8)):
        assert ndcg(form[None], grades[None], k) == pytest.approx(want, abs=1e-12)
    assert ndcg(distances[None], grades[None] * 1e307, k) == pytest.approx(want, abs=1e-12)
    assert ndcg(distances[None], grades[None] > 0) == pytest.approx(
        expected_ndcg(distances, grades > 0, len(items)), abs=1e-12
    )


@pytest.mark.parametrize(("n", "k"), [(2, 1), (7, None), (63, 10), (64, 64), (65, 100)])
def test_with_and_without_ties_it_is_scikit_learns(n: int, k: int | None) -> None:
    rng = np.random.default_rng(n)
    grades = rng.integers(0, 5, (6, n)) * (rng.random((6, n)) < 0.4)
    grades[:, 0] = 1
    sparse = scipy.sparse.coo_array(grades)
    for distances in (np.array([rng.permutation(n) for _ in grades]), rng.integers(0, 9, (6, n))):
        want = ndcg_score(grades, -distances, k=k)
        assert ndcg(distances, grades, k) == pytest.approx(want, abs=1e-12)
        assert ndcg(distances, sparse, k) == pytest.approx(want, abs=1e-12)


def test_queries_with_nothing_relevant_are_left_out_and_counted() -> None:
    grades = np.array([[0.0, 0.0], [0.0, 2.5]])
    found = ndcg([[0, 1], [0, 1]], grades, details=True)
    assert np.isnan(found.values[0])
    assert found.n_left_out == 1
    assert found.mean == found.values[1] == ndcg([[0, 1], [0, 1]], grades)
    assert found.mean == pytest.approx(1 / np.log2(3))
    stored = scipy.sparse.csr_matrix(([0.0, 2.5], [0, 1], [0, 1, 2]), shape=(2, 2))
    assert ndcg([[0, 1], [0, 1]], stored, details=True).n_left_out == 1


def test_what_a_sparse_matrix_stores_twice_is_one_relevance() -> None:
    parts = (np.array([2.0, 1.0, 2.0]), np.array([0, 0, 1]), np.array([0, 3]))
    twice = scipy.sparse.csr_matrix(parts, shape=(1, 3))
    assert ndcg([[1, 0, 2]], twice) == pytest.approx(ndcg_score([[3, 2, 0]], [[-1, 0, -2]]))
    assert twice.nnz == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
@pytest.mark.parametrize("form", [scipy.sparse.coo_array, scipy.sparse.csr_array])
def test_what_is_stored_twice_is_added_beyond_its_type(dtype: Any, form: Any) -> None:
    most = np.iinfo(dtype).max
    entries = (np.array([most, most, most // 2], dtype=dtype), ([0, 0, 0], [1, 1, 0]))
    stored = scipy.sparse.coo_array(entries, shape=(1, 2))
    if form is scipy.sparse.csr_array:
        stored = scipy.sparse.csr_array((entries[0], entries[1][1], [0, 3]), shape=(1, 2))
    want = ndcg([[1, 2]], [[float(most // 2), 2.0 * most]])
    assert ndcg([[1, 2]], stored) == pytest.approx(want)
    assert stored.nnz == 3
    flags = scipy.sparse.csr_array((np.ones(3, dtype=bool), [1, 1, 0], [0, 3]), shape=(1, 2))
    assert ndcg([[1, 2]], flags) == 1.0


def test_queries_split_over_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    distances, grades = rng.integers(0, 33, (65, 40)), rng.integers(0, 3, (65, 40))
    whole = ndcg(distances, grades, 10)
    monkeypatch.setattr(bitkin.evaluate.gain, "_PAIRS_PER_PIECE", 120)
    assert ndcg(distances, grades, 10) == whole


def test_bad_relevance_is_refused_by_name() -> None:
    good = [[0, 1]]
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match=f"relevance must be finite .* got {bad}"):
            ndcg(good, [[1.0, bad]])
        with pytest.raises(InvalidInputError, match=f"relevance must be finite .* got {bad}"):
            ndcg(good, scipy.sparse.csr_matrix([[1.0, bad]]))
    with pytest.raises(InvalidInputError, match="relevance must be numbers from 0 or booleans"):
        ndcg(good, [["a", "b"]])
    with pytest.raises(InvalidInputError, match="relevance must have the shape of distances"):
        ndcg(good, [[1, 2, 3]])
    with pytest.raises(InvalidInputError, match="relevance must name at least one row above 0"):
        ndcg(good, [[0, 0]])
    with pytest.raises(InvalidInputError, match="k must be at least 1, got 0"):
        ndcg(good, [[0, 1]], 0)
    with pytest.raises(InvalidInputError, match="distances must be 2-dimensional"):
        ndcg([0, 1], [[0, 1]])
