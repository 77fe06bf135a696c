from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import bitkin
import bitkin.evaluate.exact.jaccard
import bitkin.evaluate.exact.sparse_bounds
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest


def nearest_by_fractions(
    rows: npt.NDArray[Any], queries: npt.NDArray[Any], k: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Compare every pair of sets; a set without members is like nothing."""
    sets = [[set(np.flatnonzero(row)) for row in side] for side in (rows, queries)]
    apart = np.array([[1 - len(q & r) / max(1, len(q | r)) for r in sets[0]] for q in sets[1]])
    apart = apart.reshape(len(queries), len(rows))
    ids = np.argsort(apart.round(12), axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(apart, ids, axis=1)


@pytest.mark.parametrize("by_sparse_products", [True, False])
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_neighbours_of_sets_are_those_of_all_fractions(
    by_sparse_products: bool, data: st.DataObject
) -> None:
    n, q, d, k = (data.draw(st.integers(low, 9)) for low in (0, 0, 0, 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, queries = (
        rng.integers(-3, 4, (size, d)) * (rng.random((size, d)) < rng.random()) for size in (n, q)
    )
    with pytest.MonkeyPatch.context() as patch:
        cost = 0 if by_sparse_products else 10**9
        patch.setattr(bitkin.evaluate.exact.sparse_bounds, "_SPARSE_COST", cost)
        patch.setattr(bitkin.evaluate.exact.jaccard, "_ROW_BLOCK", 4)
        patch.setattr(bitkin.evaluate.exact.jaccard, "_QUERY_BLOCK", 3)
        csr = scipy.sparse.csr_matrix(rows.astype(float))
        forms = [rows, csr, scipy.sparse.coo_array(rows), rows.astype(np.float32) * 0.1]
        results = [
            nearest(form, asked, k, metric="jaccard")
            for form in forms
            for asked in (queries, scipy.sparse.csr_array(queries))
        ]
    ids, distances = nearest_by_fractions(rows, queries, k)
    for found in results:
        assert found.ids.shape == found.distances.shape == (q, k)
        assert (found.ids[:, :n] == ids).all()
        assert (found.ids[:, n:] == -1).all()
        assert found.distances[:, :n] == pytest.approx(distances, abs=1e-15)
        assert np.isinf(found.distances[:, n:]).all()


def test_sets_with_members_agree_with_scipy() -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.random((300, 65)) < 0.2, rng.random((7, 65)) < 0.2
    found = nearest(rows, queries, 10, metric="jaccard")
    want = np.sort(cdist(queries, rows, "jaccard"), axis=1)[:, :10]
    assert found.distances == pytest.approx(want, abs=1e-15)


def test_an_empty_set_is_like_nothing_as_for_minhash() -> None:
    rows = scipy.sparse.csr_matrix([[0, 0], [1, 0]])
    found = nearest(rows, rows, 2, metric="jaccard")
    assert found.ids.tolist() == [[0, 1], [1, 0]]
    assert found.distances.tolist() == [[1.0, 1.0], [0.0, 1.0]]
    hasher = bitkin.MinHash(16).fit(rows)
    codes = hasher.encode(rows)
    assert (1 - hasher.jaccard(codes, codes)).tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_stored_zeros_are_no_members_and_the_matrix_stays() -> None:
    stored = scipy.sparse.csr_matrix(([0.0, 2.0, 3.0], [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    found = nearest(stored, [[0, 1]], 2, metric="jaccard")
    assert found.ids.tolist() == [[0, 1]]
    assert found.distances.tolist() == [[0.0, 1.0]]
    assert stored.nnz == 3


def test_files_and_batches_give_what_arrays_give(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = (rng.random((70, 12)) < 0.3).astype(np.float32)
    want = nearest(rows, rows[:5], 4, metric="jaccard")
    np.save(tmp_path / "rows.npy", rows)
    scipy.sparse.save_npz(tmp_path / "rows.npz", scipy.sparse.csr_matrix(rows))
    batches = (rows[start : start + 9] for start in range(0, 70, 9))
    for form in (tmp_path / "rows.npy", tmp_path / "rows.npz", batches):
        found = nearest(form, rows[:5], 4, metric="jaccard")
        assert (found.ids == want.ids).all()
        assert (found.distances == want.distances).all()


def test_another_name_for_a_metric_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'jaccard', got 'jacard'.* Did you mean"):
        nearest([[1]], [[1]], 1, metric="jacard")
