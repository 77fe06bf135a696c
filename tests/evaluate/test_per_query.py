"""What `details=True` returns, and files in place of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import precision_recall_curve

import bitkin.evaluate
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.evaluate import (
    error_at_recall,
    interval,
    kendall,
    mean_average_precision,
    ndcg,
    precision_recall,
    recall,
)
from bitkin.io import open_vectors


def ranking(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    distances, relevant = rng.integers(0, 12, (7, 65)), rng.random((7, 65)) < 0.3
    relevant[[2, 5]] = False
    return distances, relevant


def test_every_query_has_the_figure_it_has_alone() -> None:
    distances, relevant = ranking()
    for metric in (mean_average_precision, ndcg):
        found = metric(distances, relevant, details=True)
        assert np.flatnonzero(np.isnan(found.values)).tolist() == [2, 5]
        assert found.n_left_out == 2
        assert found.mean == metric(distances, relevant)
        for query in (0, 1, 3, 4, 6):
            alone = metric(distances[[query]], relevant[[query]])
            assert found.values[query] == pytest.approx(alone, abs=1e-14)
        assert found.interval(confidence=0.9) == interval(found.values, confidence=0.9)


def test_curves_of_every_query_have_the_mean_curve() -> None:
    distances, relevant = ranking()
    mean = precision_recall(distances, relevant, ranks=[1, 10, 65])
    found = precision_recall(distances, relevant, ranks=[1, 10, 65], details=True)
    assert found.n_left_out == 2
    assert found.precision.shape == found.recall.shape == (7, 3)
    assert np.isnan(found.precision[[2, 5]]).all()
    assert np.isnan(found.recall[[2, 5]]).all()
    assert np.nanmean(found.precision, axis=0) == pytest.approx(mean.precision)
    assert np.nanmean(found.recall, axis=0) == pytest.approx(mean.recall)


def test_without_ties_a_curve_has_scikit_learns_points() -> None:
    rng = np.random.default_rng(5)
    distances, relevant = rng.permutation(65)[None], rng.random((1, 65)) < 0.3
    precision, found, _ = precision_recall_curve(relevant[0], -distances[0])
    curve = precision_recall(distances, relevant)
    # theirs run from the last rank to the first, and stop where everything is found
    n = len(precision) - 1
    assert curve.precision[:n][::-1] == pytest.approx(precision[:-1])
    assert curve.recall[:n][::-1] == pytest.approx(found[:-1])


def test_recall_of_every_query() -> None:
    found = recall([[1, 2], [3, 4], [5, 6]], [[1, 9], [-1, -1], [6, 5]], details=True)
    assert found.values[[0, 2]].tolist() == [0.5, 1.0]
    assert np.isnan(found.values[1])
    assert (found.mean, found.n_left_out) == (0.75, 1)


def test_tables_in_files_are_taken_for_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    found, true = rng.integers(-1, 9, (4, 6)), rng.integers(0, 9, (4, 3))
    want = recall(found, true)
    np.save(tmp_path / "found.npy", found)
    np.savez(tmp_path / "found.npz", ids=found, distances=np.full(found.shape, np.inf))
    np.savez(tmp_path / "true.npz", anything=true)
    lines = np.column_stack([np.full(4, 3), true]).astype("<i4")
    (tmp_path / "true.ivecs").write_bytes(lines.tobytes())
    assert recall(tmp_path / "found.npy", true) == want
    assert recall(str(tmp_path / "found.npz"), tmp_path / "true.npz") == want
    assert recall(found, tmp_path / "true.ivecs") == want
    assert recall(found, open_vectors(tmp_path / "true.ivecs")) == want
    distances, relevant = ranking()
    distances = distances * 0.5
    np.save(tmp_path / "distances.npy", distances)
    np.savez(tmp_path / "relevant.npz", relevant=relevant, other=true)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_matrix(relevant))
    for metric in (mean_average_precision, ndcg, error_at_recall):
        for truth in ("relevant.npz", "sparse.npz"):
            value = metric(tmp_path / "distances.npy", tmp_path / truth)
            assert value == metric(distances, relevant)
    assert kendall(tmp_path / "distances.npy", distances) == pytest.approx(1.0)


def test_hdf5_truths_are_found_by_name(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "truth.hdf5", "w") as file:
        file["train"], file["neighbors"] = np.ones((3, 2)), np.array([[1, 2], [3, 4]])
    assert recall([[1, 2], [4, 5]], tmp_path / "truth.hdf5") == 0.75
    distances, relevant = ranking()
    with h5py.File(tmp_path / "relevant.h5", "w") as file:
        file["relevant"], file["distances"] = relevant, distances
    want = mean_average_precision(distances, relevant)
    both = tmp_path / "relevant.h5"
    assert mean_average_precision(both, both) == want
    assert mean_average_precision(open_vectors(distances), open_vectors(relevant)) == want
    with pytest.raises(InvalidInputError, match="relevant must be boolean, got dtype uint8"):
        mean_average_precision(distances, open_vectors(relevant * np.uint8(2)))
    with pytest.raises(InvalidInputError, match=r"one named 'distances', got \['neighbors', 'tr"):
        kendall([[1, 2]], tmp_path / "truth.hdf5")


def test_files_that_hold_no_table_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"none\.npy cannot be read"):
        recall(tmp_path / "none.npy", [[1]])
    np.savez(tmp_path / "two.npz", a=[[1]], b=[[2]])
    with pytest.raises(InvalidInputError, match=r"one named 'ids' or 'neighbors', got \['a', 'b'"):
        recall(tmp_path / "two.npz", [[1]])
    np.savez(tmp_path / "radius.npz", offsets=[0, 1], ids=[4], distances=[1])
    with pytest.raises(InvalidInputError, match="what bitkin search --radius found"):
        recall(tmp_path / "radius.npz", [[1]])
    np.save(tmp_path / "flat.npy", [1, 2])
    with pytest.raises(InvalidInputError, match="found_ids must be 2-dimensional"):
        recall(tmp_path / "flat.npy", [[1]])
    (tmp_path / "ids.txt").write_text("1")
    with pytest.raises(InvalidInputError, match="must end in one of"):
        recall(tmp_path / "ids.txt", [[1]])


def test_everything_exported_is_named() -> None:
    assert all(hasattr(bitkin.evaluate, name) for name in bitkin.evaluate.__all__)
