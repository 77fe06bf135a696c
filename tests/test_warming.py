from __future__ import annotations

import pytest

import bitkin
from bitkin.choices import WARMUP_TASKS
from bitkin.errors import InvalidInputError


def test_every_task_runs_and_what_is_compiled_is_not_compiled_again() -> None:
    told: list[bitkin.WarmUp] = []
    done = bitkin.warmup(bits=64, report=told.append)
    assert told == done
    assert tuple(task.task for task in done) == WARMUP_TASKS
    assert [task.kernels for task in bitkin.warmup(bits=64)] == [0] * len(done)


def test_bad_tasks_and_lengths_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"tasks must be one of 'search', .* got 'serch'"):
        bitkin.warmup(["search", "serch"])
    with pytest.raises(InvalidInputError, match="bits must hold at least one length"):
        bitkin.warmup("search", bits=[])
    with pytest.raises(InvalidInputError, match=r"bits must be .* got 0"):
        bitkin.warmup("search", bits=[64, 0])
