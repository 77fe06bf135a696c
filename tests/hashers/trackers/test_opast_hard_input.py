"""Streams that break naive trackers: huge, tiny, zero and repeated vectors, too few directions,
very many vectors.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.hashers.projection.trackers import OPASTTracker
from tests.hashers.trackers.opast_truth import captured, deviation, same_state, stream, tracker_of


def require_sound(tracker: OPASTTracker) -> None:
    arrays = tracker.state()[1]
    for name, array in arrays.items():
        assert np.isfinite(array).all(), name
    assert deviation(arrays["directions"]) < 1e-4
    for name in ("inverse", "moment", "recent"):
        assert np.array_equal(arrays[name], arrays[name].T)


KINDS = {
    "ordinary": lambda row: row,
    "zero": lambda row: 0 * row,
    "repeated": lambda row: np.ones_like(row),
    "huge": lambda row: np.float32(1e18) * row,
    "largest": lambda row: np.copysign(np.float32(3.4e38), row),
    "tiny": lambda row: np.float32(1e-18) * row,
    "denormal": lambda row: np.float32(1e-42) * row,
}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=80),
    st.sampled_from([1.0, 0.999, 0.5, 1e-300]),
    st.booleans(),
)
def test_any_mixture_leaves_a_sound_tracker(
    kinds: list[str], forgetting: float, center: bool
) -> None:
    rows = stream(80, 12)
    mixed = np.stack([KINDS[kind](row) for kind, row in zip(kinds, rows, strict=False)])
    tracker = tracker_of(12, 4, forgetting=forgetting, center=center)
    tracker.update(mixed)
    require_sound(tracker)
    tracker.update(np.concatenate([rows] * 3))
    require_sound(tracker)
    assert tracker.n_seen == len(mixed) + 240


@pytest.mark.parametrize("place", [0, 3, 1000, 1999])
@pytest.mark.parametrize("size", [1e6, 1e18, 3e38])
def test_one_huge_vector_does_not_ruin_the_model(place: int, size: float) -> None:
    rows = stream(2000, 40)
    wild = rows.copy()
    wild[place] = np.float32(size) * np.sign(np.random.default_rng(1).standard_normal(40))
    tracker = tracker_of(40, 8)
    tracker.update(wild)
    require_sound(tracker)
    # where it came first, the mean is off until others have come
    assert 1 <= tracker.n_clipped <= 3
    assert captured(tracker.directions, rows) > 0.97
    spread = np.sqrt(tracker.total_variance)
    assert np.abs(tracker.mean - rows.mean(axis=0, dtype=np.float64)).max() < 0.1 * spread


def test_a_stream_that_truly_grows_is_followed() -> None:
    rows = stream(4000, 30)
    tracker = tracker_of(30, 5)
    tracker.update(np.concatenate([rows[:1000], 1000 * rows[1000:]]))
    assert 0 < tracker.n_clipped < 200
    assert captured(tracker.directions, rows) > 0.93


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [7, 8, 9, 50])
def test_a_stream_may_begin_with_one_vector_repeated(n: int, center: bool) -> None:
    rows = stream(500, 20)
    first = np.repeat(rows[:1] if center else 0 * rows[:1], n, axis=0)
    tracker = tracker_of(20, 4, center=center)
    tracker.update(first)
    assert (tracker.ready, tracker.n_seen) == (False, n)
    tracker.update(rows)
    together = np.concatenate([first, rows]).astype(np.float64)
    mean = together.mean(axis=0) if center else np.zeros(20)
    assert (tracker.ready, tracker.n_seen) == (True, n + 500)
    assert np.allclose(tracker.mean, mean, atol=1e-9)
    assert tracker.total_variance == pytest.approx(
        ((together - mean) ** 2).sum() / (n + 500), rel=1e-6
    )
    one_by_one = tracker_of(20, 4, center=center)
    for row in together.astype(np.float32):
        one_by_one.update(row[None])
    assert same_state(tracker, one_by_one)


@pytest.mark.parametrize("forgetting", [1.0, 0.99, 0.5])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_fewer_directions_than_bits_over_many_vectors(forgetting: float, rank: int) -> None:
    rows = stream(20_000, 20, rank=max(rank, 1))
    if not rank:
        rows[100:] = rows[0]
    tracker = tracker_of(20, 6, forgetting=forgetting)
    tracker.update(rows)
    require_sound(tracker)
    if rank:
        assert captured(tracker.directions, rows[-100:]) > 0.999


def test_a_stream_that_turns_is_followed_where_the_past_is_forgotten() -> None:
    before, after = stream(5000, 40, seed=1), stream(5000, 40, seed=2)
    shares = []
    for forgetting in (1.0, 0.998):
        tracker = tracker_of(40, 6, forgetting=forgetting)
        tracker.update(before)
        tracker.update(after)
        shares.append(captured(tracker.directions, after))
    assert shares[1] > 0.98
    assert shares[1] > shares[0] + 0.01


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_directions_stay_orthonormal_over_200000_vectors(forgetting: float) -> None:
    tracker = tracker_of(16, 5, forgetting=forgetting)
    rows = stream(20_000, 16)
    for _ in range(10):
        tracker.update(rows)
    require_sound(tracker)
    assert tracker.n_seen == 200_000


def test_directions_that_are_off_are_mended_at_the_next_look() -> None:
    tracker = tracker_of(30, 4)
    rows = stream(1024, 30)
    tracker.update(rows[:1000])
    numbers, arrays = tracker.state()
    arrays["directions"] *= np.float32(1.003)
    arrays["directions"][:, 0] += np.float32(0.001) * arrays["directions"][:, 1]
    off = type(tracker).from_state(numbers, arrays)
    off.update(rows[1000:1023])
    assert deviation(off.directions) > 1e-3
    off.update(rows[1023:])
    assert deviation(off.directions) < 1e-4
    off.update(np.concatenate([rows, rows]))
    assert deviation(off.directions) < 1e-5
    assert captured(off.directions, rows) > 0.98


def test_a_great_turn_leaves_directions_orthonormal_at_once() -> None:
    """A vector along the strongest direction, a little along one Z knows nothing of: rounding grows
    with it.
    """
    rng = np.random.default_rng(0)
    for outside in (1e-4, 1e-2):
        tracker = tracker_of(300, 6, forgetting=0.5)
        tracker.update(stream(100, 300, rank=1))
        for _ in range(6):
            W = tracker.directions.astype(np.float64)
            away = rng.standard_normal(300)
            away -= W @ (W.T @ away)
            axes = W @ np.linalg.eigh(tracker.covariance)[1]
            row = 9 * axes[:, -1] + 1e-6 * axes[:, 0] + outside * away / np.linalg.norm(away)
            tracker.update(
                (tracker.mean + np.sqrt(tracker.total_variance) * row).astype(np.float32)[None]
            )
            assert deviation(tracker.directions) < 3e-5


@pytest.mark.parametrize("d", [20, 300])
def test_vectors_that_lie_within_the_directions_do_not_move_them(d: int) -> None:
    rows = stream(10_000, d, rank=3)
    tracker = tracker_of(d, 6, forgetting=0.5)
    tracker.update(rows[:1000])
    before = tracker.directions
    tracker.update(rows[1000:])
    assert np.abs(tracker.directions - before).max() < 1e-6


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_equal_vectors_at_the_start_do_not_make_others_look_far_away(
    center: bool, forgetting: float
) -> None:
    rows = stream(3000, 20)
    first = np.repeat(rows[:1] if center else 0 * rows[:1], 100_000, axis=0)
    tracker = tracker_of(20, 4, center=center, forgetting=forgetting)
    tracker.update(first)
    tracker.update(rows)
    assert tracker.n_clipped <= 3
    about = rows - (first[0] if forgetting == 1 else rows.mean(axis=0)) if center else rows
    scatter = about.T.astype(np.float64) @ about
    kept = np.trace(tracker.directions.T @ scatter @ tracker.directions)
    assert kept > 0.98 * np.linalg.eigvalsh(scatter)[-4:].sum()


def test_what_is_recent_counts_the_equal_vectors_at_the_start_too() -> None:
    rows = stream(100, 20)
    first = np.repeat(rows[:1], 1000, axis=0)
    tracker = tracker_of(20, 4)
    tracker.update(np.concatenate([first, rows]))
    weights = (1 - 1 / 1024) ** np.arange(1099, -1, -1)
    squares = np.concatenate([np.zeros(1000), ((rows - rows[0]) ** 2).sum(axis=1)])
    assert tracker.recent_total_variance == pytest.approx(
        (weights * squares).sum() / weights.sum(), rel=0.2
    )
