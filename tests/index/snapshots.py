"""Searching beside a writer: every answer must be the truth of some snapshot between call and return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from bitkin import Codes, FlatIndex
from tests import truth
from tests.truth import random_codes


def stress(seconds: float, n_searchers: int = 8, seed: int = 0, k: int = 5) -> int:
    """Search from many threads while one adds, removes and replaces; return how many answers were checked."""
    rng = np.random.default_rng(seed)
    rows, queries = random_codes(rng, 600, 40, near=True), random_codes(rng, 4, 40)
    index = FlatIndex(rows.spec)
    # history[v] holds ids and row numbers after write v. A search that starts after write a was published and ends
    # before write b + 1 was announced must equal the truth of one of the versions a … b.
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = [
        (np.empty(0, np.int64), np.empty(0, np.int64))
    ]
    announced, published = [0], [0]
    stop = threading.Event()
    answers: list[tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.int32]]] = []
    failures: list[BaseException] = []

    def search() -> None:
        try:
            while not stop.is_set():
                first = published[0]
                found = index.search(queries, k)
                last = announced[0]
                answers.append((first, last, found.ids, found.distances))
                time.sleep(0.0005)
        except BaseException as failure:  # noqa: BLE001  # raised again by the main thread
            failures.append(failure)

    searchers = [threading.Thread(target=search) for _ in range(n_searchers)]
    for thread in searchers:
        thread.start()
    end = time.monotonic() + seconds
    there: dict[int, int] = {}
    while time.monotonic() < end and not failures:
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
        announced[0] += 1
        write()
        published[0] += 1
    stop.set()
    for thread in searchers:
        thread.join()
    if failures:
        raise failures[0]
    _require_truths(rows, queries, k, history, answers)
    return len(answers)


def _require_truths(
    rows: Codes,
    queries: Codes,
    k: int,
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    answers: list[tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.int32]]],
) -> None:
    truths: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]] = {}
    for first, last, ids, distances in answers:
        for version in range(first, last + 1):
            if version not in truths:
                version_ids, version_rows = history[version]
                truths[version] = truth.nearest(rows[version_rows], version_ids, queries, k)
            if np.array_equal(truths[version][0], ids) and np.array_equal(truths[version][1], distances):
                break
        else:
            raise AssertionError(f"no snapshot between write {first} and {last} gives {ids.tolist()}")
