from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
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


def loaded_kernels() -> set[tuple[str, Any]]:
    """Return the kernels that were compiled or read from the cache, with the types that they are
    for.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("bitkin.kernels.")]
    return {
        (f"{module.__name__}.{name}", types)
        for module in modules
        for name, value in vars(module).items()
        for types in getattr(value, "signatures", ())
    }


def test_nothing_is_left_to_compile_for_searches_in_cells_by_the_lane_and_by_losses() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((20, 40)), 40, axis=0) + rng.standard_normal((800, 40))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    hashers: list[Any] = [bitkin.ProjectionHash(40, random_state=0), bitkin.WTAHash()]
    for hasher in hashers:
        hasher.fit(rows)
    bitkin.warmup(["collection", "cells", "wta"], bits=40)
    ready = loaded_kernels()
    for hasher, in_cells in itertools.product(hashers, (True, False)):
        index = bitkin.CellIndex(hasher.spec_, 30, probes=2) if in_cells else "flat"
        collection = bitkin.Collection.create(None, hasher, index=index)
        collection.add(rows)
        for queries in (rows[:1], rows[:7]):
            collection.search(queries, 5)
            collection.search(queries, 5, first="codes")
            collection.search(queries, 5, allow=np.arange(500))
    assert loaded_kernels() == ready


def test_bad_tasks_and_lengths_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"tasks must be one of 'search', .* got 'serch'"):
        bitkin.warmup(["search", "serch"])
    with pytest.raises(InvalidInputError, match="bits must hold at least one length"):
        bitkin.warmup("search", bits=[])
    with pytest.raises(InvalidInputError, match=r"bits must be .* got 0"):
        bitkin.warmup("search", bits=[64, 0])
