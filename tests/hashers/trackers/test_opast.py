from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import OPAST
from bitkin.hashers.projection.rotations import UnifDiag
from bitkin.hashers.projection.trackers import FrozenSigns, OPASTTracker
from tests.hashers.trackers.opast_truth import (
    captured,
    deviation,
    same_state,
    stream,
    tracker_of,
    truth_of,
)

SHAPES = [(2, 1), (3, 2), (7, 3), (63, 5), (64, 8), (65, 13), (130, 33), (1100, 4)]


def nothing(n: int) -> np.ndarray:
    return np.empty((n, 0), dtype=np.uint64)


@pytest.mark.parametrize(("d", "c"), SHAPES)
@pytest.mark.parametrize(
    ("forgetting", "center"), [(1.0, True), (0.97, True), (1.0, False), (0.9, False)]
)
def test_the_kernel_is_the_papers_recurrence(
    d: int, c: int, forgetting: float, center: bool
) -> None:
    rows = stream(max(c, 8) + 40, d, seed=d)
    # A start of a whole vector's weight: from a tenth of it, a factor of 0.9 lets Z grow to where
    # float32 shows.
    numbers, arrays = tracker_of(d, c, forgetting=forgetting, center=center).state()
    tracker = OPASTTracker.from_state(numbers | {"start_weight": 1.0}, arrays)
    tracker.update(rows[: max(c, 8)])
    truth = truth_of(tracker)
    for row in rows[max(c, 8) :]:
        truth = truth.after(row.astype(np.float64))
    tracker.update(rows[max(c, 8) :])
    now = truth_of(tracker)
    size = truth.sigma.diagonal().max()
    assert np.allclose(now.W, truth.W, atol=2e-5)
    assert np.allclose(now.Z, truth.Z, rtol=1e-3, atol=1e-5 * np.abs(truth.Z).max())
    assert np.allclose(now.sigma, truth.sigma, atol=1e-5 * size)
    assert np.allclose(now.mean, truth.mean, rtol=1e-12, atol=1e-12)
    assert now.weight == pytest.approx(truth.weight, rel=1e-14)


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
def test_the_inverse_of_z_is_the_second_moment_of_what_was_projected(forgetting: float) -> None:
    tracker = tracker_of(20, 4, forgetting=forgetting)
    rows = stream(200, 20)
    tracker.update(rows[:8])
    truth = truth_of(tracker)
    total = truth.z_inverse
    for row in rows[8:]:
        before = truth_of(tracker)
        y = before.W.T @ before.centred(row.astype(np.float64))
        total = forgetting * total + np.outer(y, y)
        tracker.update(row[None])
    assert np.allclose(
        np.linalg.inv(truth_of(tracker).Z), total, rtol=1e-4, atol=1e-5 * np.abs(total).max()
    )


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_matrices_are_symmetric_to_the_last_bit(forgetting: float) -> None:
    tracker = tracker_of(33, 7, forgetting=forgetting)
    tracker.update(stream(3000, 33))
    for name in ("inverse", "moment", "recent"):
        matrix = tracker.state()[1][name]
        assert np.array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix).min() > 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=8), st.booleans(), st.integers(1, 30))
def test_any_cut_of_a_stream_gives_the_same_bits(
    cuts: list[int], frozen: bool, refresh: int
) -> None:
    rows = stream(60, 21)
    emit = FrozenSigns(stream(21, 5), np.full(5, 0.25)) if frozen else None

    def follow(edges: list[int]) -> tuple[OPASTTracker, np.ndarray, np.ndarray]:
        tracker, rotation = tracker_of(21, 5, forgetting=0.99), np.eye(5)
        words = np.full((60, 1), 77, dtype=np.uint64)
        for first, stop in zip([0, *edges], [*edges, 60], strict=True):
            tracker.follow(
                rows[first:stop], words[first:stop], frozen=emit, rotation=rotation, refresh=refresh
            )
        return tracker, words, rotation

    whole, words, rotation = follow([])
    tracker, words_of_parts, rotation_of_parts = follow(sorted(cuts))
    assert same_state(whole, tracker)
    assert np.array_equal(words, words_of_parts)
    assert np.array_equal(rotation, rotation_of_parts)


@pytest.mark.parametrize("power", [-100, -1, 40, 100])
def test_scaling_by_a_power_of_two_changes_nothing_at_all(power: int) -> None:
    rows = stream(300, 30)
    plain, scaled = tracker_of(30, 6), tracker_of(30, 6)
    plain.update(rows)
    scaled.update(np.ldexp(rows, power))
    assert np.array_equal(plain.directions, scaled.directions)
    assert np.array_equal(np.ldexp(plain.mean, power), scaled.mean)
    assert np.array_equal(np.ldexp(plain.covariance, 2 * power), scaled.covariance)


@pytest.mark.parametrize("factor", [3.7e-20, 0.3, 255.0, 9.9e20])
def test_scaling_by_any_constant_changes_no_code(factor: float) -> None:
    rows = stream(500, 30).astype(np.float64)
    words = []
    for scale in (1.0, factor):
        out = np.empty((500, 1), dtype=np.uint64)
        tracker_of(30, 6).follow(
            (scale * rows).astype(np.float32), out, rotation=np.eye(6), refresh=10
        )
        words.append(out)
    assert np.array_equal(words[0], words[1])


def test_the_mean_and_the_variance_are_those_of_the_vectors() -> None:
    rows = stream(1000, 40)
    tracker = tracker_of(40, 5)
    tracker.update(rows)
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    assert np.allclose(tracker.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert tracker.total_variance == pytest.approx((centred**2).sum() / 1000, rel=1e-9)
    assert (tracker.n_seen, tracker.n_clipped) == (1000, 0)


def test_the_covariance_is_exact_where_the_basis_stands_still() -> None:
    """All vectors lie in the basis from the start, so that it has no reason to move."""
    rng = np.random.default_rng(0)
    tracker = tracker_of(12, 3, forgetting=0.98, center=False)
    basis = tracker.directions.astype(np.float64)
    seen = rng.standard_normal((200, 3)) * [3, 1, 0.5]
    tracker.update((seen @ basis.T).astype(np.float32))
    weights = 0.98 ** np.arange(199, -1, -1)
    assert np.allclose(tracker.directions, basis, atol=1e-6)
    assert np.allclose(tracker.covariance, (seen.T * weights) @ seen / weights.sum(), atol=1e-5)
    recent = (1 - 1 / 1024) ** np.arange(199, -1, -1)
    assert np.allclose(
        tracker.recent_covariance, (seen.T * recent) @ seen / recent.sum(), atol=1e-5
    )


def test_the_covariance_follows_the_basis_nearly() -> None:
    rows = stream(4000, 40)
    tracker = tracker_of(40, 5)
    tracker.update(rows)
    direct = (rows - tracker.mean) @ tracker.directions.astype(np.float64)
    direct = direct.T @ direct / len(rows)
    assert np.abs(tracker.covariance - direct).max() < 0.02 * direct.max()
    assert np.abs(tracker.recent_covariance - direct).max() < 0.2 * direct.max()
    assert tracker.recent_total_variance == pytest.approx(tracker.total_variance, rel=0.2)


def test_codes_of_the_moving_model_are_those_before_each_vector() -> None:
    rows, refresh = stream(150, 20), 7
    tracker, rotation, words = tracker_of(20, 6), np.eye(6), np.empty((150, 1), dtype=np.uint64)
    shadow, turn, wrong = tracker_of(20, 6), np.eye(6), 0
    tracker.follow(rows, words, rotation=rotation, refresh=refresh)
    codes = Codes.from_bytes(words.view(np.uint8)[:, :1], 6).symbols()
    for n, row in enumerate(rows):
        expected = (row - shadow.mean) @ shadow.directions.astype(np.float64) @ turn
        wrong += int(np.count_nonzero((codes[n] != (expected >= 0)) & (np.abs(expected) > 1e-5)))
        shadow.update(row[None])
        if n + 1 == 8 or (n + 1 > 8 and (n + 1) % refresh == 0):
            turn = UnifDiag().rotation_of(shadow.state()[1]["moment"])
    assert wrong == 0
    assert np.array_equal(turn, rotation)
    assert same_state(tracker, shadow)


def test_the_rotation_is_unifdiags_of_the_covariance() -> None:
    tracker, rotation = tracker_of(50, 16), np.eye(16)
    tracker.follow(stream(400, 50), nothing(400), rotation=rotation, refresh=100)
    assert np.allclose(rotation, UnifDiag().rotation_of(tracker.covariance), atol=1e-8)


def test_without_refresh_the_rotation_stays() -> None:
    rotation = UnifDiag().rotation_of(np.diag([3.0, 2.0, 1.0]))
    before = rotation.copy()
    tracker_of(20, 3).follow(stream(50, 20), nothing(50), rotation=rotation)
    assert np.array_equal(rotation, before)


@pytest.mark.parametrize(("d", "c"), [*SHAPES, (3000, 70)])
def test_codes_of_a_frozen_model_are_signs_of_its_projection(d: int, c: int) -> None:
    rows, components = stream(30, d), stream(d, c, seed=1)
    offset = np.linspace(-1, 1, c)
    words = np.empty((30, -(-c // 64)), dtype=np.uint64)
    tracker_of(d, c).follow(rows, words, frozen=FrozenSigns(components, offset))
    codes = Codes.from_bytes(words.view(np.uint8)[:, : -(-c // 8)], c).symbols()
    projected = rows.astype(np.float64) @ components.astype(np.float64) - offset
    clear = np.abs(projected) > 1e-4
    assert np.array_equal(codes[clear], (projected >= 0)[clear])
    assert clear.mean() > 0.98


def test_a_vector_that_overflows_float32_is_coded_all_the_same() -> None:
    rows = np.full((1, 9), 3e38, dtype=np.float32)
    components = np.array([[1.0, -1.0], [-1.0, 1.0], *[[1.0, -1.0]] * 7], dtype=np.float32)
    words = np.empty((1, 1), dtype=np.uint64)
    tracker_of(9, 2).follow(rows, words, frozen=FrozenSigns(components, np.zeros(2)))
    assert Codes.from_bytes(words.view(np.uint8)[:, :1], 2).symbols().tolist() == [[1, 0]]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 500])
def test_a_tracker_goes_on_from_its_state_and_from_a_pickle(n: int) -> None:
    rows = stream(700, 25)
    tracker = tracker_of(25, 4, forgetting=0.995)
    tracker.update(rows[:n])
    for copy in (OPASTTracker.from_state(*tracker.state()), pickle.loads(pickle.dumps(tracker))):
        assert same_state(tracker, copy)
        copy.update(rows[n:])
        whole = tracker_of(25, 4, forgetting=0.995)
        whole.update(rows)
        assert same_state(whole, copy)


@pytest.mark.parametrize("name", ["mean", "inverse", "counts", "held"])
def test_a_state_that_does_not_fit_is_named(name: str) -> None:
    tracker = tracker_of(25, 4)
    tracker.update(stream(5 if name == "held" else 50, 25))
    numbers, arrays = tracker.state()
    with pytest.raises(InvalidInputError, match=f"arrays must have '{name}' of .* and shape"):
        OPASTTracker.from_state(numbers, arrays | {name: arrays[name][:-1]})
    with pytest.raises(InvalidInputError, match=f"arrays must have '{name}' of"):
        OPASTTracker.from_state(numbers, arrays | {name: arrays[name].astype(np.float16)})


def test_a_pickle_is_no_larger_than_the_model() -> None:
    tracker = tracker_of(960, 32)
    tracker.update(stream(100, 960, rank=60))
    assert len(pickle.dumps(tracker)) < 160_000


@pytest.mark.parametrize("seed", range(3))
def test_one_pass_captures_nearly_what_pca_does(seed: int) -> None:
    rows = stream(5000, 100, seed)
    tracker = tracker_of(100, 10, seed=seed)
    tracker.update(rows)
    assert captured(tracker.directions, rows) > 0.995
    assert deviation(tracker.directions) < 1e-5


def test_settling_learns_from_fewer_vectors_than_usual() -> None:
    tracker = tracker_of(20, 10)
    tracker.update(stream(4, 20))
    was_ready = tracker.ready
    tracker.flush()
    assert (was_ready, tracker.ready, tracker.n_seen) == (False, True, 4)
    assert tracker.total_variance > 0
    alike = tracker_of(20, 10)
    alike.update(np.ones((4, 20), dtype=np.float32))
    alike.flush()
    assert not alike.ready


@pytest.mark.parametrize("forgetting", [0, -0.5, 1.0001, np.nan, "1", "automatic", None, True])
def test_a_forgetting_factor_that_is_none_is_named(forgetting: object) -> None:
    with pytest.raises(
        InvalidInputError, match="forgetting must be 'auto', or above 0 and at most 1, got"
    ):
        OPAST(forgetting).require_parameters()  # type: ignore[arg-type]


@pytest.mark.parametrize("c", [20, 21])
def test_as_many_bits_as_features_are_refused(c: int) -> None:
    with pytest.raises(
        InvalidInputError,
        match=rf"n_bits must be below n_features = 20 for OPAST, got {c}.*'random'",
    ):
        tracker_of(20, c)
