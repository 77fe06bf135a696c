"""Exact neighbours of rows that are not in memory, against those of the same rows that are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, radius_truth, truth
from bitkin.io import open_vectors
from tests.memory import peak_of

RNG = np.random.default_rng(0)
# rounded, so that there are ties across blocks
X = (RNG.standard_normal((203, 6)) * (RNG.random((203, 6)) < 0.7)).round(1).astype(np.float32)
Q = RNG.standard_normal((9, 6)).round(1).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_BATCHES_PER_BLOCK", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("k", [1, 10, 250])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_sources_have_the_neighbours_of_their_rows(metric: str, k: int, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X[:100])
    np.save(tmp_path / "b.npy", X[100:])
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    want = nearest(X, Q, k, metric)
    sources: list[Any] = [
        open_vectors(X, batch_rows=17),
        open_vectors(paths, batch_rows=64),
        paths,
        iter(np.split(X, [1, 60, 130])),
        open_vectors(scipy.sparse.csr_array(X), batch_rows=50),
    ]
    for source in sources:
        found = nearest(source, Q, k, metric)
        np.testing.assert_array_equal(found.ids, want.ids)
        np.testing.assert_array_equal(found.distances, want.distances)
    first = nearest(str(paths[0]), open_vectors(iter([Q[:4], Q[4:]])), k, metric)
    np.testing.assert_array_equal(first.ids, nearest(X[:100], Q, k, metric).ids)


def test_a_mapped_array_is_read_like_any_other(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    found = nearest(np.load(tmp_path / "x.npy", mmap_mode="r"), Q, 5)
    np.testing.assert_array_equal(found.ids, nearest(X, Q, 5).ids)


def test_a_radius_is_found_for_sources_too(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    want = radius_truth(X, Q, 20)
    assert (radius_truth(tmp_path / "x.npy", iter([Q]), 20) != want).nnz == 0


def test_no_rows_and_rows_at_infinity_come_last(small_blocks: None) -> None:
    assert nearest(open_vectors(X[:0]), Q, 2).ids.tolist() == [[-1, -1]] * 9
    far = np.array([[1e200], [1.0], [-1e200]])
    found = nearest(open_vectors(far, batch_rows=1), [[1e200]], 5, "ip")
    assert found.ids.tolist() == [[0, 1, 2, -1, -1]]
    assert found.distances.tolist() == [[-np.inf, -1e200, np.inf, np.inf, np.inf]]


@pytest.mark.usefixtures("small_blocks")
def test_a_file_is_never_held_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((40_000, 50), dtype=np.float64))
    source = open_vectors(tmp_path / "x.npy", batch_rows=1000)
    nearest(X, Q, 2)  # kernels are compiled
    assert peak_of(lambda: nearest(source, np.zeros((2, 50)), 2)) < 8_000_000


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInputError, match="Q must have as many columns as X, got 5 and 6"):
        nearest(tmp_path / "x.npy", Q[:, :5], 1)
    with pytest.raises(InvalidInputError, match="k must be at least 1"):
        nearest(tmp_path / "x.npy", Q, 0)
    np.save(tmp_path / "x.npy", np.where(np.arange(203)[:, None] == 200, np.nan, X))
    with pytest.raises(InvalidInputError, match=r"x.npy: NaN at row 200, column 0"):
        nearest(tmp_path / "x.npy", Q, 1)
    with pytest.raises(InvalidInputError, match=r"x.npy: NaN at row 200, column 0"):
        nearest(X, tmp_path / "x.npy", 1)
    with pytest.raises(InvalidInputError, match="X must be an array, a sparse matrix"):
        nearest(7, Q, 1)
