"""Drift: numbers that say what truly happened to the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import Drift, ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.given import hasher_from_directions
from bitkin.hashers.projection.streams.probe import PROBE_ROWS, Probe
from tests.hashers.streams.data import live, turning


def test_nothing_has_moved_since_just_now() -> None:
    hasher = live(refresh=1).fit(turning(2000)[:1000])
    drift = hasher.drift(hasher.snapshot())
    assert drift.variance_kept == pytest.approx(1)
    assert drift.bits_flipped == 0
    assert drift.n_vectors == 1000


def test_without_an_earlier_model_drift_is_since_the_epoch_began() -> None:
    X = turning(2000)
    hasher = live(epochs="request").fit(X[:1000])
    hasher.partial_fit(X[1000:])
    assert hasher.drift() == hasher.drift(hasher.epoch_)
    hasher.new_epoch()
    assert hasher.drift().bits_flipped == 0
    with pytest.raises(
        InvalidInputError, match=r"since must be a snapshot .* epochs=None there is no epoch"
    ):
        live(epochs=None).fit(X[:1000]).drift()


def turned(n: int, d: int = 60) -> Any:
    """Rows with four strong directions, others in the second half, and the same variance along all
    the rest.
    """
    rows = np.random.default_rng(0).standard_normal((2, n // 2, d))
    rows[0, :, :4] *= 5
    rows[1, :, 4:8] *= [3, 5, 5, 7]
    return rows.reshape(-1, d).astype(np.float32)


def test_the_variance_kept_is_about_what_the_old_basis_captures_of_the_recent_stream() -> None:
    X = turned(16_000)
    hasher = live(projection=bitkin.projections.OPAST(0.998)).fit(X[:8_000])
    old = hasher.snapshot()
    hasher.partial_fit(X[8_000:])
    captured = [np.linalg.norm(X[-1024:] @ model.components_) ** 2 for model in (old, hasher)]
    assert hasher.drift(old).variance_kept == pytest.approx(captured[0] / captured[1], rel=0.1)
    assert hasher.drift(old).variance_kept < 0.1


def test_the_spread_is_that_of_the_variances_of_the_old_bits() -> None:
    X = turned(16_000)
    hasher = live(rotation=None, projection=bitkin.projections.OPAST(0.998)).fit(X[8_000:])
    still = hasher.snapshot()
    variances = (X[-1024:] @ still.components_).var(axis=0)
    assert hasher.drift(still).diagonal_spread == pytest.approx(
        np.ptp(variances) / variances.mean(), rel=0.1
    )
    even = live(refresh=1, projection=bitkin.projections.OPAST(0.998)).fit(X[8_000:])
    assert even.drift(even.snapshot()).diagonal_spread < 0.25
    assert hasher.drift(even).diagonal_spread < 0.25


def test_both_follow_from_the_covariance_within_the_directions_and_an_even_rest() -> None:
    hasher = live().fit(turning(500))
    tracker = hasher.stream_.tracker
    W, inside = tracker.directions.astype(np.float64), tracker.recent_covariance
    rest = (tracker.recent_total_variance - inside.trace()) / (13 - 5)
    C = W @ inside @ W.T + rest * (np.eye(13) - W @ W.T)
    other = hasher_from_directions(np.random.default_rng(0).standard_normal((13, 5)))
    basis = np.linalg.qr(other.components_.astype(np.float64))[0]
    drift = hasher.drift(other)
    assert drift.variance_kept == pytest.approx(np.trace(basis.T @ C @ basis) / inside.trace())
    variances = np.diag(other.components_.T @ C @ other.components_)
    assert drift.diagonal_spread == pytest.approx(np.ptp(variances) / variances.mean(), rel=1e-5)


def test_bits_flipped_is_the_share_on_the_probe() -> None:
    X = turning(3_000)
    hasher = live().fit(X[:1000])
    old = hasher.snapshot()
    hasher.partial_fit(X[1000:])
    rows = hasher.stream_.probe.rows
    assert hasher.drift(old).bits_flipped == (old.transform(rows) != hasher.transform(rows)).mean()
    assert hasher.drift(old).bits_flipped > 0


def test_any_hasher_of_the_shape_can_be_compared_with() -> None:
    X = turning(2_000)[:1000]
    hasher = live().fit(X)
    assert hasher.drift(ProjectionHash(5).fit(X)).variance_kept == pytest.approx(1, abs=0.02)
    random = hasher.drift(ProjectionHash(5, projection="random").fit(X))
    assert 0 < random.variance_kept < 1
    twice = hasher_from_directions(hasher.components_[:, [0, 0, 1, 1, 1]])
    once = hasher_from_directions(np.eye(13, 5) * 3)
    assert 0 < hasher.drift(twice).variance_kept < 1
    assert hasher.drift(once).variance_kept == pytest.approx(
        hasher.drift(hasher_from_directions(np.eye(13, 5))).variance_kept
    )
    for other in (
        ProjectionHash(3).fit(X),
        ProjectionHash(5).fit(X[:, :9]),
        ProjectionHash(5),
        "snapshot",
    ):
        with pytest.raises(InvalidInputError, match="since must be a snapshot of this hasher"):
            hasher.drift(other)  # type: ignore[arg-type]


def test_drift_of_a_stream_without_variance_is_none() -> None:
    hasher = live().partial_fit(np.ones((50, 13), dtype=np.float32))
    assert hasher.drift(hasher.epoch_) == Drift(1.0, 1.0, 0.0, 0.0, 50)


def test_the_probe_keeps_recent_vectors_by_their_positions() -> None:
    rows = np.arange(50_000, dtype=np.float32)[:, None]
    whole, parts = Probe(1), Probe(1)
    whole.update(rows)
    for first in range(0, 50_000, 37):
        parts.update(rows[first : first + 37])
    kept = np.sort(whole.rows.ravel())
    assert np.array_equal(kept, np.sort(parts.rows.ravel()))
    assert len(np.unique(kept)) == PROBE_ROWS
    assert 50_000 - 2 * 64 <= kept.max()
    ages = []
    probe = Probe(1)
    for first in range(0, 50_000, 500):
        probe.update(rows[first : first + 500])
        ages.append(first + 500 - probe.rows)
    assert 700 < np.mean(ages[10:]) < 1300
    few = Probe(1)
    few.update(rows[:5])
    assert few.rows.ravel().tolist() == [0, 1, 2, 3, 4]


def turned_late(n: int, d: int = 64) -> Any:
    """Rows with eight strong directions, and eight others in the last 4,000."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d)) * 0.3
    rows[:-4000, :8] *= 10
    rows[-4000:, 8:16] *= 10
    return rows.astype(np.float32)


def test_what_the_old_directions_capture_is_told_where_those_of_now_have_not_followed() -> None:
    X = turned_late(34_000)
    never_forgets = bitkin.projections.OPAST(forgetting=1.0)
    hasher = live(8, projection=never_forgets, epochs="request").fit(X[:-4000])
    old = hasher.snapshot()
    before = hasher.drift(old)
    with pytest.warns(
        UserWarning,
        match=r"The 8 directions .* capture \d % .* random ones .* \(12 %\).*forgetting",
    ):
        hasher.partial_fit(X[-4000:])
    after = hasher.drift(old)
    assert before.variance_captured == pytest.approx(0.93, abs=0.02)
    assert after.variance_kept > 0.95  # neither model is any good
    recent = X[-1024:] - hasher.mean_
    captured = np.linalg.norm(recent @ old.components_) ** 2 / np.linalg.norm(recent) ** 2
    assert after.variance_captured == pytest.approx(captured, abs=0.03)
    assert after.variance_captured < 0.05
    assert " % captured, " in str(after)


def test_a_vector_that_overflows_float32_does_not_end_a_report() -> None:
    X = turning(40)
    X[3] = 3e38
    hasher = live(epochs=None).partial_fit(X)
    drift = hasher.drift(hasher.snapshot())
    assert drift.bits_flipped == 0
    other = hasher_from_directions(-hasher.components_, hasher.mean_)
    assert hasher.drift(other).bits_flipped == 1
    normalizing = live(normalize=True).partial_fit(X)
    assert 0 <= hasher.drift(normalizing.snapshot()).bits_flipped < 1
