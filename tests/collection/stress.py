"""Searching a collection beside a writer: every answer must be the truth of some state between call
and return.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import CellIndex, Collection, ProjectionHash
from bitkin.index.base import RowIndex
from tests.collection.model import Model, rows_like, same
from tests.index.searchers import Searchers

_PATIENCE = 300  # seconds: only what hangs takes so long
D, K = 6, 3
TRAINING, QUERIES = rows_like(200, D), rows_like(2, D, seed=1)
HASHER = ProjectionHash(5).fit(TRAINING)
Rows = dict[Any, npt.NDArray[np.float32]]


def stress(
    n_answers: int,
    n_writes: int,
    kind: str,
    index: str | RowIndex,
    n_searchers: int = 8,
    seed: int = 0,
    enough: Callable[[], bool] = lambda: True,
) -> None:
    """Search and read from many threads while one writes, and check all answers.

    Ends when so many answers have come, so many writes were done, and `enough` says so, or fails
    after minutes.
    """
    rng = np.random.default_rng(seed)
    collection = Collection.create(None, HASHER, ids=kind, index=index)
    names: list[Any] = list(range(80)) if kind == "int" else [f"name {i}" for i in range(80)]
    history: list[Rows] = [{}]  # history[v] holds the rows after write v
    # Ties by codes go to the string that came first, which a dictionary does not know.
    stages = ["exact", "estimate", "codes"] if kind == "int" else ["exact", "estimate"]
    if isinstance(index, CellIndex):  # which makes other estimates
        stages.remove("estimate")
    questions = [(stage, allow) for stage in stages for allow in (None, names[::3])]
    turn = itertools.count()

    def ask() -> tuple[int, Any]:
        number = next(turn) % (len(questions) + 1)
        if number == len(questions):
            return number, collection.ids
        stage, allow = questions[number]
        return number, collection.search(QUERIES, K, stage=stage, oversample=100, allow=allow)

    with Searchers(ask, n_searchers, pause=0.001) as searchers:
        end = time.monotonic() + _PATIENCE
        while not searchers.failures:
            if len(searchers.answers) >= n_answers and len(history) > n_writes and enough():
                break
            assert time.monotonic() < end, f"{len(searchers.answers)} answers in {_PATIENCE} s"
            there = dict(history[-1])
            write: Callable[[], object]
            action = rng.integers(0, 5)
            chosen = [names[i] for i in rng.permutation(80)[: rng.integers(1, 30)]]
            if action == 0:
                gone = [one for one in chosen if one in there]
                for one in gone:
                    del there[one]
                write = partial(collection.remove, gone)
            elif action == 1:
                write = collection.compact
            else:
                rows = np.asarray(rng.standard_normal((len(chosen), D)) + 1, dtype=np.float32)
                there.update(zip(chosen, rows, strict=True))
                write = partial(collection.upsert, rows, ids=chosen)
            history.append(there)
            with searchers.write():
                write()
            time.sleep(0.002)
    truths: dict[tuple[int, int], Any] = {}
    for first, last, (number, found) in searchers.answers:
        versions = range(first, last + 1)
        if number == len(questions):
            assert any(set(found.tolist()) == set(history[version]) for version in versions)
            continue
        stage, allow = questions[number]
        for version in versions:
            if (version, number) not in truths:
                truths[version, number] = Model(HASHER, rows=history[version]).search(
                    QUERIES, K, stage, 100, allow
                )
            if same(found, truths[version, number]):
                break
        else:
            raise AssertionError(
                f"no state between write {first} and {last} gives {found.ids.tolist()} by {stage}"
            )
    collection.verify()
