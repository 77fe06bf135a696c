from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin.evaluate.exact.dense_bounds
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, radius_truth


def slow_truth(X: npt.NDArray[Any], Q: npt.NDArray[Any], k: int) -> npt.NDArray[np.bool_]:
    distances = np.sqrt(((X[None] - Q[:, None]) ** 2).sum(axis=2))
    within: npt.NDArray[np.bool_] = distances < np.sort(distances, axis=1)[:, k - 1].mean()
    return within


@pytest.mark.parametrize("n", [1, 7, 63, 64, 65])
def test_neighbours_are_closer_than_the_mean_distance_to_the_kth(n: int) -> None:
    rng = np.random.default_rng(n)
    X, Q = rng.standard_normal((n, 5)), rng.standard_normal((9, 5))
    truth = radius_truth(X, Q, n_neighbors=min(n, 10))
    assert isinstance(truth, scipy.sparse.csr_matrix)
    assert truth.dtype == np.bool_
    assert truth.has_sorted_indices
    np.testing.assert_array_equal(truth.toarray(), slow_truth(X, Q, min(n, 10)))


def test_fifty_neighbours_are_the_default() -> None:
    rng = np.random.default_rng(1)
    X, Q = rng.standard_normal((200, 3)), rng.standard_normal((20, 3))
    np.testing.assert_array_equal(radius_truth(X, Q).toarray(), slow_truth(X, Q, 50))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 20))
def test_a_row_on_the_circle_is_not_a_neighbour(seed: int, k: int) -> None:
    # Small whole numbers and one query: some row is exactly at the radius.
    rng = np.random.default_rng(seed)
    X, Q = rng.integers(0, 3, (30, 4)), rng.integers(0, 3, (1, 4))
    truth = radius_truth(X, Q, k).toarray()
    np.testing.assert_array_equal(truth, slow_truth(X, Q, k))
    assert truth.sum() < k


def test_sparse_rows_and_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 40)) * (rng.random((100, 40)) < 0.05)
    Q = X[::9] + 0.0
    want = radius_truth(X, Q, 5).toarray()
    monkeypatch.setattr(bitkin.evaluate.exact.dense_bounds, "_PREPARED_VALUES", 1)
    for a, b in [
        (X, Q),
        (scipy.sparse.csr_array(X), scipy.sparse.csr_array(Q)),
        (X.astype(np.float32), Q),
    ]:
        np.testing.assert_array_equal(radius_truth(a, b, 5).toarray(), want)


def test_identical_rows_have_no_neighbours_closer_than_themselves() -> None:
    assert radius_truth(np.ones((9, 4)), np.ones((2, 4)), 3).nnz == 0


def test_no_queries_give_no_rows() -> None:
    assert radius_truth(np.ones((60, 4)), np.ones((0, 4))).shape == (0, 60)


def test_the_radius_agrees_with_nearest() -> None:
    rng = np.random.default_rng(3)
    X, Q = rng.standard_normal((300, 5)) ** 3, rng.standard_normal((40, 5)) ** 3
    radius = nearest(X, Q, 7).distances[:, -1].mean()
    counts = np.diff(radius_truth(X, Q, 7).indptr)
    np.testing.assert_array_equal(counts, (nearest(X, Q, 300).distances < radius).sum(axis=1))
    assert (counts == 0).any()


def test_bad_arguments_are_refused_by_name() -> None:
    X = np.ones((5, 4))
    with pytest.raises(
        InvalidInputError, match="n_neighbors must be at most the 5 rows of X, got 50"
    ):
        radius_truth(X, X)
    with pytest.raises(InvalidInputError, match="n_neighbors must be at least 1, got 0"):
        radius_truth(X, X, 0)
    with pytest.raises(InvalidInputError, match="Q must have as many columns as X, got 3 and 4"):
        radius_truth(X, X[:, :3], 1)
