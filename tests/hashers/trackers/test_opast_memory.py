"""How much of the past OPAST remembers, and what its random start weighs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import OPAST
from bitkin.hashers.projection.trackers import OPASTTracker
from bitkin.kernels.hashing import streaming
from bitkin.randomness import Draws
from tests.hashers.trackers.opast_truth import captured, same_state, stream

ROWS = stream(2600, 20)


def auto(d: int = 20, c: int = 4) -> OPASTTracker:
    return OPAST().tracker(d, c, center=True, draws=Draws(0, "projection"))


def weight_of(tracker: OPASTTracker) -> float:
    return float(tracker.state()[1]["numbers"][streaming.WEIGHT])


def test_the_memory_fills_up_and_then_forgets_as_much_as_comes() -> None:
    assert (auto().memory, auto(100, 64).memory) == (1024, 32 * 64)
    tracker = auto()
    tracker.update(ROWS[:1024])
    numbers, arrays = tracker.state()
    fixed = OPAST(1.0).tracker(20, 4, center=True, draws=Draws(0, "projection"))
    fixed.update(ROWS[:1024])
    assert all(np.array_equal(arrays[name], array) for name, array in fixed.state()[1].items())
    # from here on it is the tracker of the factor 1 − 1 / memory
    fixed = OPASTTracker.from_state(numbers | {"forgetting": 1 - 1 / 1024}, arrays)
    for one in (tracker, fixed):
        one.update(ROWS[1024:])
    assert np.array_equal(fixed.directions, tracker.directions)
    assert weight_of(tracker) == pytest.approx(1024)


def test_any_cut_and_any_pause_give_the_same() -> None:
    whole, cut = auto(), auto()
    whole.update(ROWS)
    for first, stop in ((0, 3), (3, 1000), (1000, 1023), (1023, 1500), (1500, 2600)):
        cut.update(ROWS[first:stop])
        cut = OPASTTracker.from_state(*cut.state())
    assert same_state(whole, cut)


def test_rows_of_a_fit_weigh_the_same_and_the_stream_after_it_forgets_them() -> None:
    live = ProjectionHash(4, projection="opast", rotation="random").fit(ROWS)
    plain = ProjectionHash(4, projection=OPAST(1.0), rotation="random").fit(ROWS)
    assert live.fingerprint_ == plain.fingerprint_
    tracker, other = live.stream_.tracker, plain.stream_.tracker
    assert isinstance(tracker, OPASTTracker)
    assert isinstance(other, OPASTTracker)
    assert weight_of(tracker) == pytest.approx(1024)
    assert weight_of(other) == 2600
    assert np.allclose(tracker.covariance, other.covariance)
    assert tracker.total_variance == pytest.approx(other.total_variance)
    offline = ProjectionHash(4, projection="opast", rotation="itq").fit(ROWS)
    assert np.allclose(
        offline.components_ @ offline.components_.T,
        plain.components_ @ plain.components_.T,
        atol=1e-5,
    )


def spectrum(name: str) -> npt.NDArray[np.float32]:
    rng, place = np.random.default_rng(0), np.arange(1, 61)
    deviations = {
        "power": place**-0.5,
        "geometric": 0.93**place,
        "step": np.where(place <= 9, 3, 1),
    }
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    rows = rng.standard_normal((400, 60)) * deviations[name] @ basis
    return np.asarray(rows, dtype=np.float32)


@pytest.mark.parametrize("name", ["power", "geometric", "step"])
@pytest.mark.parametrize("n", [64, 400])
def test_a_light_start_captures_more_than_a_heavy_one(name: str, n: int) -> None:
    rows = spectrum(name)
    shares = []
    for weight in (0.1, 1.0):
        numbers, arrays = auto(60, 8).state()
        tracker = OPASTTracker.from_state(numbers | {"start_weight": weight}, arrays)
        tracker.update(rows[:n])
        shares.append(captured(tracker.directions, rows))
    assert shares[0] > shares[1]


def test_a_state_without_the_weight_of_its_start_is_one_of_before() -> None:
    numbers, arrays = auto().state()
    assert OPASTTracker.complete_state(numbers) == numbers
    del numbers["start_weight"]
    assert OPASTTracker.complete_state(numbers)["start_weight"] == 1.0
    with pytest.raises(InvalidInputError, match=r"start_weight must be 0\.1 or 1\.0, got 3\.0"):
        OPASTTracker.from_state(numbers | {"start_weight": 3.0}, arrays)


def test_the_memory_is_kept_in_files(tmp_path: Path) -> None:
    path = tmp_path / "live.bitkin"
    live = ProjectionHash(4, projection="opast", rotation="random").partial_fit(ROWS[:1500])
    live.save(path)
    copy = bitkin.load(path)
    assert copy.projection.forgetting == "auto"
    live.partial_fit(ROWS[1500:])
    copy.partial_fit(ROWS[1500:])
    assert copy.fingerprint_ == live.fingerprint_
