"""Searches that arrive together are searched together, and each gets its own."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi import HTTPException

from bitkin.collection.results import Hits
from bitkin.errors import InvalidInputError
from bitkin.service.batching import MOST_IN_BATCH, FoundItems, SearchBatcher


class Searching:
    """Returns for every query its own number; the first call waits until it is let go."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, int]] = []
        self.go = threading.Event()

    def __call__(self, rows: Any, arguments: Any) -> Hits:
        self.calls.append((arguments, len(rows)))
        assert self.go.wait(10)
        if (rows < 0).any():
            raise InvalidInputError("vectors must not be negative.")
        return Hits(rows.astype(np.int64), np.zeros(rows.shape))


def queries(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.float32)[:, None]


def run(asked: list[tuple[Any, Any]], **options: Any) -> tuple[Searching, list[Any]]:
    """Ask one after another without waiting, then let the searches go."""
    searching = Searching()

    async def ask() -> list[Any]:
        with ThreadPoolExecutor(2) as workers:
            most = options.get("most_waiting", 100)
            batcher = SearchBatcher(searching, workers, options.get("n_workers", 1), most)
            until = time.monotonic() + options.get("seconds", 10.0)
            tasks = []
            for rows, arguments in asked:
                tasks.append(asyncio.create_task(batcher.find(rows, arguments, until)))
                await asyncio.sleep(0)
            await asyncio.sleep(options.get("pause", 0.02))
            searching.go.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            while batcher.n_waiting:  # those that were given up are passed over in their turn
                await asyncio.sleep(0.001)
            return found

    return searching, asyncio.run(ask())


def ids(found: Any) -> Any:
    return found.ids if isinstance(found, FoundItems) else type(found).__name__


def test_a_lone_search_begins_at_once_and_the_others_go_together() -> None:
    searching, found = run([(queries(i), "a") for i in range(6)])
    assert searching.calls == [("a", 1), ("a", 5)]
    assert [ids(one) for one in found] == [[[i]] for i in range(6)]


def test_only_equal_arguments_go_together_the_oldest_first() -> None:
    asked = [(queries(0), "a"), (queries(1), "b"), (queries(2, 3), "a"), (queries(4), "b")]
    searching, found = run(asked)
    assert searching.calls == [("a", 1), ("b", 2), ("a", 2)]
    assert [ids(one) for one in found] == [[[0]], [[1]], [[2], [3]], [[4]]]


def test_a_batch_has_an_end() -> None:
    searching, found = run([(queries(0), "a")] + [(queries(*range(30)), "a")] * 5)
    assert [n for _, n in searching.calls] == [1, 60, 60, 30]
    assert max(n for _, n in searching.calls) <= MOST_IN_BATCH
    assert all(len(one.ids) == 30 for one in found[1:])


def test_one_bad_search_spoils_only_itself() -> None:
    _, found = run([(queries(i), "a") for i in (0, 1, -2, 3)])
    assert [ids(one) for one in found] == [[[0]], [[1]], "InvalidInputError", [[3]]]


def test_a_queue_that_is_full_refuses() -> None:
    _, found = run([(queries(i), "a") for i in range(5)], most_waiting=2)
    refused = [one for one in found if isinstance(one, HTTPException)]
    assert [one.status_code for one in refused] == [429, 429]
    assert [ids(one) for one in found[:3]] == [[[0]], [[1]], [[2]]]


def test_what_takes_too_long_is_given_up_and_what_waits_behind_never_begins() -> None:
    searching, found = run([(queries(i), "a") for i in range(3)], seconds=0.05, pause=0.2)
    assert [type(one).__name__ for one in found] == ["HTTPException"] * 3
    assert {one.status_code for one in found} == {503}
    assert searching.calls == [("a", 1)]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_search_side_by_side(n_workers: int) -> None:
    searching, _ = run([(queries(i), "a") for i in range(4)], n_workers=n_workers)
    assert [n for _, n in searching.calls] == ([1, 3] if n_workers == 1 else [1, 1, 2])
