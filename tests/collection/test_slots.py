"""The map from rows to where their vectors are, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bitkin.collection.rows import Column, RowSlots

numbers = st.lists(st.integers(0, 60), max_size=20, unique=True)


@given(st.lists(numbers, max_size=15))
def test_the_newest_slot_of_every_number_is_found_and_older_maps_stay_what_they_were(
    writes: list[list[int]],
) -> None:
    slots, n = RowSlots(), 0
    truth: dict[int, int] = {}
    history = [(slots, dict(truth))]
    for write in writes:
        new = np.arange(n, n + len(write))
        slots = slots.with_rows(np.array(write, dtype=np.int64), new)
        truth.update(zip(write, new.tolist(), strict=True))
        n += len(write)
        history.append((slots, dict(truth)))
    asked = np.arange(-1, 62)
    for kept, held in history:
        assert kept.lookup(asked).tolist() == [held.get(number, -1) for number in asked.tolist()]


def test_runs_stay_few_whatever_the_order_of_numbers() -> None:
    rng = np.random.default_rng(0)
    slots, most = RowSlots(), 0
    for at, some in enumerate(np.split(rng.permutation(4096), 1024)):
        slots = slots.with_rows(some.astype(np.int64), np.arange(4 * at, 4 * at + 4))
        most = max(most, len(slots.runs))
    assert most <= 12


def test_rows_one_by_one_in_order_stay_in_one_run_and_are_seldom_moved() -> None:
    slots = RowSlots()
    arrays: list[np.ndarray] = []
    for number in range(2000):
        slots = slots.with_rows(np.array([2 * number]), np.array([number]))
        assert len(slots.runs) == 1
        if number > 40:  # ranges are few until then
            run: Any = slots.runs[0]
            if not arrays or arrays[-1] is not run.row_ids.array:
                arrays.append(run.row_ids.array)
    assert len(arrays) < 60


def test_little_is_held_of_ids_and_slots_without_a_gap() -> None:
    slots = RowSlots()
    for first in range(0, 2000, 10):
        row_ids = np.arange(first, first + 10)
        slots = slots.with_rows(row_ids + 7, row_ids)
    assert slots.nbytes == 24  # one range
    assert slots.slots_of(np.array([7, 2006])).tolist() == [0, 1999]
    assert slots.first_in_order(np.arange(10, 50)) == 3
    assert slots.first_in_order(np.array([10, 12])) is None
    assert slots.first_in_order(np.arange(5, 9)) is None
    again = slots.with_rows(np.array([9]), np.array([2000]))
    assert again.first_in_order(np.arange(10, 50)) is None
    assert again.lookup(np.array([8, 9, 10, 3000])).tolist() == [1, 2000, 3, -1]
    assert slots.lookup(np.array([9])).tolist() == [2]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_a_column_is_all_that_was_put_behind_one_another_and_older_ones_stay(
    sizes: list[int],
) -> None:
    column, rows = Column.empty(np.int64, 3), np.arange(3 * sum(sizes)).reshape(-1, 3)
    history, done = [column], [0]
    for size in sizes:
        column = column.with_rows(rows[done[-1] : done[-1] + size])
        history.append(column)
        done.append(done[-1] + size)
    for kept, n in zip(history, done, strict=True):
        assert np.array_equal(kept.rows, rows[:n])
