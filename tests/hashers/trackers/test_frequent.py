from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import FrequentDirections
from bitkin.hashers.projection.trackers import FrequentDirectionsTracker
from bitkin.hashers.projection.trackers.sketch import FrequentDirectionsSketch
from bitkin.randomness import Draws
from tests.hashers.trackers.opast_truth import captured, deviation, same_state, stream


def tracker_of(
    d: int, c: int, *, size: int | None = None, chunk: int = 16, center: bool = True
) -> FrequentDirectionsTracker:
    return FrequentDirections(size, chunk).tracker(
        d, c, center=center, draws=Draws(0, "projection")
    )


def fed(rows: np.ndarray, c: int, **options: Any) -> FrequentDirectionsTracker:
    tracker = tracker_of(rows.shape[1], c, **options)
    tracker.update(rows)
    tracker.flush()
    return tracker


def error(rows: np.ndarray, sketch: np.ndarray) -> float:
    """‖AᵀA − BᵀB‖₂"""
    return float(np.linalg.norm(rows.T @ rows - sketch.T @ sketch, 2))


def bound(rows: np.ndarray, size: int) -> float:
    """The least ‖A − A_k‖²_F / (size − k)."""
    tails = np.append(
        np.cumsum(np.linalg.svd(rows, compute_uv=False)[::-1] ** 2)[::-1], np.zeros(size)
    )
    return float(min(tails[k] / (size - k) for k in range(size)))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 90),
    st.integers(1, 30),
    st.floats(0.3, 1.0),
    st.integers(0, 2**32 - 1),
)
def test_a_sketch_keeps_its_bound(size: int, n: int, d: int, decay: float, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((n, d)) * decay ** np.arange(d)
    sketch = FrequentDirectionsSketch(d, size)
    for piece in np.array_split(rows, 3):
        sketch.add(piece)
    assert len(sketch.rows) <= 2 * size
    assert error(rows, sketch.rows) <= bound(rows, size) * (1 + 1e-9) + 1e-9
    assert np.linalg.eigvalsh(rows.T @ rows - sketch.rows.T @ sketch.rows).min() > -1e-9 * n - 1e-12


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("center", [True, False])
def test_the_sketch_is_that_of_rows_centred_by_the_mean_of_all(chunk: int, center: bool) -> None:
    rows = stream(300, 20)
    tracker = fed(rows, 4, size=12, chunk=chunk, center=center)
    mean = rows.mean(axis=0, dtype=np.float64) if center else np.zeros(20)
    centred = rows - mean
    sketch = tracker.state()[1]["sketch"]
    assert np.allclose(tracker.mean, mean)
    assert tracker.total_variance == pytest.approx((centred**2).sum() / 300)
    assert error(centred, sketch) <= bound(centred, 12) * (1 + 1e-9)


def test_a_sketch_that_never_shrinks_is_exact() -> None:
    rows = stream(40, 30)
    tracker = fed(rows, 5, size=30, chunk=9)
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    values = np.linalg.eigvalsh(centred.T @ centred / 40)[::-1][:5]
    assert np.allclose(tracker.covariance, np.diag(values))
    assert captured(tracker.directions, rows) == pytest.approx(1.0, abs=1e-6)
    projected = (rows[36:] - tracker.mean) @ tracker.directions
    assert np.allclose(tracker.recent_covariance, projected.T @ projected / 4, atol=1e-5)
    assert tracker.recent_total_variance == pytest.approx((centred[36:] ** 2).sum() / 4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 120), max_size=6))
def test_any_cut_of_a_stream_gives_the_same_bits(cuts: list[int]) -> None:
    rows = stream(120, 15)
    whole, parts = tracker_of(15, 3, size=5), tracker_of(15, 3, size=5)
    whole.update(rows)
    for first, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        parts.update(rows[first:stop])
    assert same_state(whole, parts)
    assert np.array_equal(whole.directions, parts.directions)


def test_directions_are_orthonormal_and_nearly_principal() -> None:
    rows = stream(3000, 60)
    tracker = fed(rows, 8)
    assert deviation(tracker.directions) < 1e-6
    assert captured(tracker.directions, rows) > 0.999
    assert (tracker.n_seen, tracker.n_clipped) == (3000, 0)


def test_directions_are_random_until_a_chunk_is_full() -> None:
    tracker = tracker_of(20, 4, chunk=50)
    tracker.update(stream(49, 20))
    assert (tracker.ready, tracker.n_seen) == (False, 49)
    assert deviation(tracker.directions) < 1e-6
    assert not tracker.covariance.any()
    assert not tracker.recent_covariance.any()
    tracker.update(stream(1, 20))
    assert tracker.ready


@pytest.mark.parametrize("rank", [1, 3])
def test_directions_beyond_those_of_the_rows_are_orthonormal_too(rank: int) -> None:
    tracker = fed(stream(100, 20, rank=rank), 6)
    assert deviation(tracker.directions) < 1e-6
    assert np.count_nonzero(tracker.covariance > 1e-6 * tracker.covariance.max()) == rank
    assert deviation(fed(np.ones((2, 20), dtype=np.float32), 6).directions) < 1e-6


def test_merging_is_associative_where_nothing_was_lost() -> None:
    parts = [fed(stream(n, 30, seed=n), 4, size=60) for n in (1, 20, 33)]
    a, b, c = parts
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    for merged in (
        left,
        right,
        fed(np.concatenate([stream(n, 30, seed=n) for n in (1, 20, 33)]), 4, size=60),
    ):
        sketch, expected = merged.state()[1]["sketch"], left.state()[1]["sketch"]
        assert np.allclose(sketch.T @ sketch, expected.T @ expected)
        assert np.allclose(merged.mean, left.mean)
        assert merged.n_seen == 54
        assert merged.total_variance == pytest.approx(left.total_variance)


def test_merged_sketches_keep_the_bound_in_any_order() -> None:
    rows = stream(400, 25)
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    a, b, c = (fed(part, 3, size=8) for part in np.split(rows, [100, 250]))
    for merged in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b)):
        assert error(centred, merged.state()[1]["sketch"]) <= bound(centred, 8) * (1 + 1e-9)


def test_merging_leaves_both_as_they_were_and_takes_what_waits() -> None:
    a, b = tracker_of(20, 3, chunk=50), tracker_of(20, 3, chunk=50)
    a.update(stream(70, 20, seed=1))
    b.update(stream(10, 20, seed=2))
    before = pickle.dumps((a, b))
    merged = a.merge(b)
    assert pickle.dumps((a, b)) == before
    assert merged.n_seen == 80
    assert a.merge(tracker_of(20, 3)).n_seen == 70
    with pytest.raises(
        InvalidInputError, match="other must follow 20 features by 3 bits, center=True, got 20 feat"
    ):
        a.merge(tracker_of(20, 4))


@pytest.mark.parametrize("n", [0, 5, 16, 100])
def test_a_tracker_goes_on_from_its_state_and_from_a_pickle(n: int) -> None:
    rows = stream(150, 25)
    tracker, whole = tracker_of(25, 4, size=6), tracker_of(25, 4, size=6)
    tracker.update(rows[:n])
    whole.update(rows)
    for copy in (
        FrequentDirectionsTracker.from_state(*tracker.state()),
        pickle.loads(pickle.dumps(tracker)),
    ):
        assert same_state(tracker, copy)
        copy.update(rows[n:])
        assert same_state(whole, copy)


@pytest.mark.parametrize(
    ("projection", "c", "words"),
    [
        (
            FrequentDirections(10),
            11,
            "sketch_size must be at least n_bits = 11, got 10.*Use sketch_size=44",
        ),
        (FrequentDirections(0), 3, "sketch_size must be at least 1, got 0"),
        (FrequentDirections(2.5), 3, "sketch_size must be a whole number, got 2.5"),  # type: ignore[arg-type]
        (FrequentDirections(chunk_rows=0), 3, "chunk_rows must be at least 1, got 0"),
        (
            FrequentDirections(10**13),
            3,
            "sketch_size=10000000000000 and 20 features does not fit in memory.*smaller",
        ),
        (
            FrequentDirections(chunk_rows=10**13),
            3,
            "chunk_rows=10000000000000 and 20 features does not fit in memory",
        ),
        (
            FrequentDirections(),
            20,
            "n_bits must be below n_features = 20 for frequent directions, got 20.*'pca'",
        ),
    ],
    ids=[
        "short sketch",
        "no sketch",
        "half a row",
        "no chunk",
        "huge sketch",
        "huge chunk",
        "all features",
    ],
)
def test_what_cannot_be_sketched_is_named(
    projection: FrequentDirections, c: int, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        projection.tracker(20, c, center=True, draws=Draws(0, "projection"))
