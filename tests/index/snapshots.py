"""Searching beside a writer: every answer must be the truth of some snapshot between call and return."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from bitkin import Codes, FlatIndex
from tests import truth
from tests.index.searchers import Answer, Searchers
from tests.truth import random_codes


def stress(seconds: float, n_searchers: int = 8, seed: int = 0, k: int = 5) -> int:
    """Search from many threads while one adds, removes and replaces; return how many answers were checked."""
    rng = np.random.default_rng(seed)
    rows, queries = random_codes(rng, 600, 40, near=True), random_codes(rng, 4, 40)
    index = FlatIndex(rows.spec)
    # history[v] holds ids and row numbers after write v.
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = [
        (np.empty(0, np.int64), np.empty(0, np.int64))
    ]
    there: dict[int, int] = {}
    with Searchers(lambda: index.search(queries, k), n_searchers, pause=0.0005) as searchers:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not searchers.failures:
            write: Callable[[], object]
            kind = rng.integers(0, 4)
            some = rng.integers(0, len(rows), int(rng.integers(1, 60)))
            if kind == 0 and len(there) > 100:
                gone = rng.permutation(list(there))[: len(there) // 2]
                for i in gone.tolist():
                    del there[i]
                write = partial(index.remove, gone)
            elif kind == 1:
                ids = np.unique(rng.integers(0, 500, len(some)))
                there.update(zip(ids.tolist(), some[: len(ids)].tolist(), strict=True))
                write = partial(index.upsert, rows[some[: len(ids)]], ids)
            else:
                start = index._snapshot.next_id
                there.update(zip(range(start, start + len(some)), some.tolist(), strict=True))
                write = partial(index.add, rows[some])
            history.append((np.array(list(there), dtype=np.int64), np.array(list(there.values()), dtype=np.int64)))
            with searchers.write():
                write()
    _require_truths(rows, queries, k, history, searchers.answers)
    return len(searchers.answers)


def _require_truths(
    rows: Codes,
    queries: Codes,
    k: int,
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    answers: list[Answer],
) -> None:
    truths: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]] = {}
    for first, last, found in answers:
        for version in range(first, last + 1):
            if version not in truths:
                version_ids, version_rows = history[version]
                truths[version] = truth.nearest(rows[version_rows], version_ids, queries, k)
            if np.array_equal(truths[version][0], found.ids) and np.array_equal(truths[version][1], found.distances):
                break
        else:
            raise AssertionError(f"no snapshot between write {first} and {last} gives {found.ids.tolist()}")
