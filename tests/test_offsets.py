"""Orders of numbers that come from files: no fall may look like a rise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin.checks import are_offsets, is_ascending

LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize("strictly", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_ascending_is_what_python_says_it_is(dtype: Any, strictly: bool) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 3, 7):
        for _ in range(50):
            numbers = (
                np.sort(rng.integers(0, 4, n).astype(dtype))
                if rng.random() < 0.6
                else rng.integers(0, 4, n)
            )
            pairs = list(zip(numbers.tolist(), numbers.tolist()[1:], strict=False))
            truth = all(a < b if strictly else a <= b for a, b in pairs)
            assert is_ascending(numbers.astype(dtype), strictly=strictly) == truth


def test_a_fall_too_deep_to_be_subtracted_is_a_fall() -> None:
    numbers = np.array([0, HIGH, LOW + 5000, 8])
    with np.errstate(over="ignore"):
        assert (np.diff(numbers) >= 0).all()  # what made it worth a check of its own
    assert not is_ascending(numbers)
    assert not is_ascending(numbers, strictly=True)
    assert not are_offsets(numbers, 8)


@pytest.mark.parametrize(
    ("offsets", "sound"),
    [
        ([0], True),
        ([0, 0, 3], True),
        ([0, 3, 3], True),
        ([], False),
        ([0, 2], False),
        ([0, 4], False),
        ([1, 3], False),
        ([0, 2, 1, 3], False),
        ([0, 5, 3], False),
        ([0, -1, 3], False),
    ],
)
def test_offsets_rise_from_zero_to_their_end(offsets: list[int], sound: bool) -> None:
    assert are_offsets(np.array(offsets, dtype=np.int64), 3 if offsets != [0] else 0) == sound


def test_offsets_of_unsigned_numbers_do_not_wrap() -> None:
    assert not are_offsets(np.array([0, 2**64 - 1, 3], dtype=np.uint64), 3)
    assert are_offsets(np.array([0, 1, 3], dtype=np.uint64), 3)
