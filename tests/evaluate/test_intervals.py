from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin.evaluate.intervals
from bitkin.errors import InvalidInputError
from bitkin.evaluate import interval


def recalls(rng: np.random.Generator, mean: float, n: int) -> npt.NDArray[np.float64]:
    """Draw recalls at 10 whose queries differ in how hard they are, as those of real data do."""
    return rng.binomial(10, rng.beta(5 * mean, 5 * (1 - mean), n)) / 10


@pytest.mark.parametrize(
    ("mean", "n", "least"), [(0.5, 40, 0.91), (0.8, 100, 0.91), (0.95, 100, 0.9), (0.99, 200, 0.88)]
)
def test_intervals_hold_the_mean_of_all_queries_about_as_often_as_they_say(
    mean: float, n: int, least: float
) -> None:
    rng = np.random.default_rng(n)
    ends = np.array([interval(recalls(rng, mean, n), n_resamples=400) for _ in range(300)])
    held = ((ends[:, 0] <= mean) & (mean <= ends[:, 1])).mean()
    # three standard deviations of 300 trials are 0.04
    assert least < held < 0.985
    half = np.array([interval(recalls(rng, mean, n), confidence=0.5) for _ in range(50)])
    assert 0.25 < ((half[:, 0] <= mean) & (mean <= half[:, 1])).mean() < 0.75


def test_many_values_give_the_interval_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 3000)
    half = 1.96 * values.std() / np.sqrt(3000)
    assert interval(values) == pytest.approx((values.mean() - half, values.mean() + half), abs=5e-3)


def test_skewed_values_agree_with_scipys_bca_but_for_students_t() -> None:
    values = recalls(np.random.default_rng(4), 0.95, 400)
    want = scipy.stats.bootstrap(
        (values,), np.mean, method="BCa", n_resamples=8000, rng=np.random.default_rng(0)
    ).confidence_interval
    assert interval(values, n_resamples=8000) == pytest.approx(tuple(want), abs=1.5e-3)


def test_queries_left_out_change_nothing_and_seeds_decide() -> None:
    values = recalls(np.random.default_rng(2), 0.9, 63)
    ends = interval(values)
    gaps = np.insert(values, [0, 7, 63], np.nan)
    assert interval(gaps) == interval(values.tolist()) == ends
    assert interval(values, random_state=1) != ends
    assert ends[0] < values.mean() < ends[1]


def test_the_size_of_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = recalls(np.random.default_rng(3), 0.9, 65)
    whole = interval(values)
    monkeypatch.setattr(bitkin.evaluate.intervals, "_DRAWS_AT_ONCE", 1000)
    assert interval(values) == whole


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=9).filter(lambda v: len(set(v)) > 1),
    st.floats(-300, 300),
    st.floats(-1e3, 1e3),
    st.sampled_from([1e-9, 0.5, 0.95, 1 - 1e-12]),
)
def test_ends_lie_within_the_values_in_order_and_move_with_them(
    values: list[int], power: float, offset: float, confidence: float
) -> None:
    low, high = interval(values, confidence=confidence, n_resamples=100)
    assert min(values) <= low <= high <= max(values)
    scale = 10.0**power
    moved = [(value + offset) * scale for value in values]
    assert interval(moved, confidence=confidence, n_resamples=100) == pytest.approx(
        ((low + offset) * scale, (high + offset) * scale), rel=1e-6, abs=1e-6 * scale
    )


@pytest.mark.parametrize("n", [2, 7, 65, 200])
def test_recalls_that_are_all_one_or_all_zero_leave_room_for_a_query_not_yet_seen(n: int) -> None:
    exact = scipy.stats.binomtest(n, n).proportion_ci(0.95, method="exact")
    assert interval(np.ones(n)) == pytest.approx((exact.low, 1.0))
    assert interval(np.zeros(n)) == pytest.approx((0.0, 1 - exact.low))
    assert interval(np.full(n, 0.5)) == (0.5, 0.5)


def test_values_at_the_ends_of_float64_have_an_interval() -> None:
    for unit in (1.0, 2.0**1023, 2.0**-1074):
        low, high = interval(np.array([1.5, -1.0, -1.5, -1.5]) * unit)
        assert -1.5 * unit <= low <= high <= 1.5 * unit
        assert low < high
    assert interval(np.array([1.5, -1.0, -1.5]) * 2.0**1023) == tuple(
        end * 2.0**1023 for end in interval([1.5, -1.0, -1.5])
    )


def test_what_has_no_interval_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="values has masked entries"):
        interval(np.ma.masked_array([0.5, 0.25, 1.0], mask=[False, True, False]))
    bad: list[Any] = [[[0.5, 1.0]], 0.5, ["a", "b"], [[1], [1, 2]], None]
    for values in bad:
        with pytest.raises(InvalidInputError, match="values must be one number per query"):
            interval(values)
    with pytest.raises(InvalidInputError, match=r"at least 2 numbers, got 1 \(and 2 NaN\)"):
        interval([np.nan, 1.0, np.nan])
    with pytest.raises(InvalidInputError, match="at least 2 numbers, got 0"):
        interval([])
    with pytest.raises(InvalidInputError, match=r"values must be finite, or NaN .*got inf"):
        interval([0.5, np.inf])
    wrong: list[Any] = [0, 1, 95, float("nan"), "0.95", None]
    for confidence in wrong:
        with pytest.raises(InvalidInputError, match="confidence must be a number between 0 and 1"):
            interval([0.5, 1.0], confidence=confidence)
    with pytest.raises(InvalidInputError, match="n_resamples must be at least 100, got 10"):
        interval([0.5, 1.0], n_resamples=10)
    with pytest.raises(InvalidInputError, match="random_state must be between 0 and"):
        interval([0.5, 1.0], random_state=-1)
