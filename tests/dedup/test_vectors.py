"""Near-duplicate vectors, compared with all pairs in NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin.dedup import find_duplicate_vectors
from bitkin.dedup.vectors.candidates import MISS_RATE, find_radii
from bitkin.dedup.vectors.files import write_dropped_rows, write_kept_rows, write_pairs_of_rows
from bitkin.errors import InvalidInputError
from bitkin.io import open_vectors
from tests.dedup.texts import cluster_of


def related_rows(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows around a fifth as many, far from the origin, equal ones, scaled ones and zeros among
    them.
    """
    rng = np.random.default_rng(seed)
    originals = rng.standard_normal((max(1, n // 5), d)) + 0.5
    rows = originals[rng.integers(0, len(originals), n)]
    rows += rng.uniform(0, 0.5, (n, 1)) * (rng.random((n, 1)) > 0.2) * rng.standard_normal((n, d))
    rows *= rng.choice([1.0, 1.0, 0.5, 3.0], (n, 1))
    rows[rng.random(n) < 0.02] = 0
    return rows.astype(np.float32)


def near_pairs(
    rows: npt.NDArray[Any], metric: str, threshold: float
) -> dict[tuple[int, int], float]:
    x = rows.astype(np.float64)
    if metric == "cosine":
        lengths = np.linalg.norm(x, axis=1)
        unit = x / np.where(lengths > 0, lengths, 1.0)[:, None]
        measure = np.minimum(unit @ unit.T, 1.0)
        near = measure >= threshold - 1e-9
    else:
        measure = np.linalg.norm(x[:, None] - x[None], axis=2)
        near = measure <= threshold
    pairs = zip(*np.nonzero(np.triu(near, 1)), strict=True)
    return {(int(i), int(j)): float(measure[i, j]) for i, j in pairs}


CASES = [("cosine", 0.95), ("cosine", 0.5), ("cosine", 1.0), ("l2", 0.7), ("l2", 2.5), ("l2", 40.0)]


@pytest.mark.parametrize("metric, threshold", CASES)
@pytest.mark.parametrize("d", [3, 17])
def test_clusters_are_those_of_all_pairs(metric: str, threshold: float, d: int) -> None:
    rows = related_rows(203, d, seed=d)
    truth = near_pairs(rows, metric, threshold)
    found = find_duplicate_vectors(rows, threshold, metric=metric)
    assert found.cluster_of.tolist() == cluster_of(len(rows), list(truth))
    for row, like, measure in zip(found.dropped, found.like, found.like_measure, strict=True):
        assert measure == pytest.approx(truth[min(row, like), max(row, like)], abs=1e-6)
    x = rows.astype(np.float64)
    kept = x[found.cluster_of[found.dropped]]
    if metric == "l2":
        assert np.allclose(found.measure, np.linalg.norm(x[found.dropped] - kept, axis=1))
    every = find_duplicate_vectors(rows, threshold, metric=metric, pairs="all")
    assert every.cluster_of.tolist() == found.cluster_of.tolist()
    # equal rows are represented by the first of them
    listed = set(zip(every.first.tolist(), every.second.tolist(), strict=True))
    assert listed <= set(truth)
    distinct = [i for i in range(203) if not (rows[:i] == rows[i]).all(axis=1).any()]
    assert {pair for pair in truth if set(pair) <= set(distinct)} <= listed


def test_rows_far_from_the_origin_and_other_types() -> None:
    rows = related_rows(150, 8).astype(np.float64) + 1000.0
    truth = near_pairs(rows, "l2", 0.8)
    assert len(truth) > 20
    found = find_duplicate_vectors(rows, 0.8, metric="l2")
    assert found.cluster_of.tolist() == cluster_of(150, list(truth))
    whole = np.random.default_rng(0).integers(-3, 4, (300, 4)).astype(np.int8)
    expected = cluster_of(300, list(near_pairs(whole, "l2", 0.5)))
    assert find_duplicate_vectors(whole, 0.5, metric="l2").cluster_of.tolist() == expected


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("metric, threshold", [("cosine", 0.945), ("l2", 2.0)])
def test_rows_that_are_not_centred_are_compared_by_products(
    metric: str, threshold: float, kind: type[np.floating[Any]]
) -> None:
    rows = (np.random.default_rng(0).standard_normal((300, 32)) * 0.27 + 1).astype(kind)
    truth = near_pairs(rows, metric, threshold)
    assert 100 < len(truth) < 20_000
    every = find_duplicate_vectors(rows, threshold, metric=metric, pairs="all")
    assert set(zip(every.first.tolist(), every.second.tolist(), strict=True)) == set(truth)
    # nearly all pairs are candidates, and the product leaves those within the threshold
    assert every.n_compared == len(truth)
    links = find_duplicate_vectors(rows, threshold, metric=metric)
    assert links.cluster_of.tolist() == cluster_of(300, list(truth))


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64", "float64"])
def test_whole_numbers_that_float32_rounds_stay_different(kind: str) -> None:
    high = 2**24 if kind.endswith("32") else 2**52
    rows = np.array([[high, 0], [high + 1, 0], [high + 1, 0], [5, 5]], dtype=kind)
    found = find_duplicate_vectors(rows, 0.5, metric="l2")
    assert found.cluster_of.tolist() == [0, 1, 1, 3]
    assert found.n_equal == 1
    joined = find_duplicate_vectors(rows, 1.0, metric="l2")
    assert joined.cluster_of.tolist() == [0, 0, 0, 3]
    assert joined.measure.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "value, kind", [(2**53 + 1, "int64"), (-(2**53) - 1, "int64"), (2**64 - 1, "uint64")]
)
def test_whole_numbers_beyond_float64_are_refused(value: int, kind: str) -> None:
    rows = np.array([[1, 2], [3, value]], dtype=kind)
    words = rf"at most 2\*\*53.*got {value} at row 1, column 1"
    with pytest.raises(InvalidInputError, match=words):
        find_duplicate_vectors(rows)
    edge = np.array([[2**53, 1], [2**53 - 1, 1]], dtype=kind)
    assert find_duplicate_vectors(edge, 0.5, metric="l2").kept.tolist() == [0, 1]


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_numbers_whose_squares_do_not_fit_are_refused(scale: float) -> None:
    rows = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 1.0]]) * scale
    cases: list[dict[str, Any]] = [{}, {"threshold": 0.1 * scale, "metric": "l2"}]
    for arguments in cases:
        with pytest.raises(InvalidInputError, match="squares float64 holds, got"):
            find_duplicate_vectors(rows, **arguments)


@pytest.mark.parametrize("scale", [1e-40, 1e37])
def test_extreme_float32_is_compared_as_any_other(scale: float) -> None:
    rows = (np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 1.0]]) * scale).astype(np.float32)
    assert find_duplicate_vectors(rows).cluster_of.tolist() == [0, 0, 2]
    near = find_duplicate_vectors(rows, 2.3 * scale, metric="l2")
    assert near.cluster_of.tolist() == [0, 0, 0]


def test_the_radius_leaves_out_as_few_as_it_says() -> None:
    rng = np.random.default_rng(0)
    angles = np.array([0.0, 0.1, np.arccos(0.95), 1.0, np.pi])
    for angle, radius in zip(angles, find_radii(angles, 256), strict=True):
        beyond = rng.binomial(256, angle / np.pi, 200_000) > radius
        assert beyond.mean() <= 1.5 * MISS_RATE
    assert find_radii(angles, 256).tolist()[0] == 0


def test_zero_rows_and_equal_rows() -> None:
    rows = np.array([[0, 0], [1, 2], [0, 0], [1, 2], [2, 4], [-1, -2]], dtype=np.float32)
    found = find_duplicate_vectors(rows)
    assert (found.n_zero, found.n_equal) == (2, 1)
    assert found.cluster_of.tolist() == [0, 1, 2, 1, 1, 5]
    assert find_duplicate_vectors(rows, 0.1, metric="l2").cluster_of.tolist() == [0, 1, 0, 1, 4, 5]
    assert len(find_duplicate_vectors(rows[:0])) == 0
    assert find_duplicate_vectors(rows[:1]).kept.tolist() == [0]
    assert find_duplicate_vectors(rows[:1] * 0).kept.tolist() == [0]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"threshold": 1.5}, "threshold must be above 0 and up to 1 for metric='cosine', got 1.5"),
        ({"threshold": -1, "metric": "l2"}, "threshold must be above 0 and finite"),
        ({"threshold": float("nan")}, "threshold must be above 0"),
        ({"threshold": "high"}, "threshold must be above 0 and up to 1"),
        ({"metric": "l2"}, 'threshold must be given for metric="l2"'),
        ({"metric": "ip"}, "metric must be one of 'cosine', 'l2', got 'ip'"),
        ({"n_bits": 8}, "n_bits must be between 64 and 4096, got 8"),
        ({"pairs": "none"}, "pairs must be one of"),
    ],
)
def test_wrong_arguments_are_one_clear_error(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        find_duplicate_vectors(np.ones((3, 2)), **arguments)


def test_rows_that_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match="must hold dense vectors, got sparse rows"):
        find_duplicate_vectors(scipy.sparse.csr_array(np.eye(3)))
    with pytest.raises(InvalidInputError, match="vectors"):
        find_duplicate_vectors(np.array([[1.0, np.nan]]))


def test_files_of_what_was_found(tmp_path: Path) -> None:
    rows = related_rows(97, 5).astype(np.float16)
    np.save(tmp_path / "a.npy", rows)
    source = open_vectors(tmp_path / "a.npy", batch_rows=10)
    found = bitkin.dedup.find_duplicate_vectors(source, 0.9, pairs="all")
    assert 0 < len(found.dropped) < 97
    write_kept_rows(tmp_path / "kept.npy", source, found.kept)
    kept = np.load(tmp_path / "kept.npy")
    assert kept.dtype == np.float16
    assert np.array_equal(kept, rows[found.kept])
    write_dropped_rows(tmp_path / "dropped", found)
    records = [json.loads(line) for line in (tmp_path / "dropped").read_text().splitlines()]
    assert [record["row"] for record in records] == found.dropped.tolist()
    assert [record["kept_row"] for record in records] == found.cluster_of[found.dropped].tolist()
    assert [record["like_cosine"] for record in records] == found.like_measure.tolist()
    write_pairs_of_rows(tmp_path / "pairs", found)
    pairs = [json.loads(line) for line in (tmp_path / "pairs").read_text().splitlines()]
    assert [(pair["row"], pair["other_row"]) for pair in pairs] == list(
        zip(found.first.tolist(), found.second.tolist(), strict=True)
    )


def test_rows_that_are_compared_with_all_meet_others_once() -> None:
    """Far rows have narrow searches, those near the mean are compared with all at once."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((401, 9)) * np.where(np.arange(401) % 3, 1.0, 40.0)[:, None]
    rows[300:330] = rows[:30] + 0.01
    truth = near_pairs(rows, "l2", 1.5)
    every = find_duplicate_vectors(rows, 1.5, metric="l2", pairs="all")
    listed = sorted(zip(every.first.tolist(), every.second.tolist(), strict=True))
    assert listed == sorted(truth)
    assert find_duplicate_vectors(rows, 1.5, metric="l2").cluster_of.tolist() == cluster_of(
        len(rows), list(truth)
    )
