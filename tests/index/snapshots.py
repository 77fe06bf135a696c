"""Searching beside a writer: every answer must be the truth of some snapshot between call and
return.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import bitkin
from bitkin import Codes, Neighbors
from tests import truth
from tests.index.searchers import Answer, Searchers
from tests.truth import random_codes

_PATIENCE = 300  # seconds: only what hangs takes so long
_WRITES = 30


class Kind(NamedTuple):
    """An index of codes: what it is made with, how much is written at once, and whether it must
    miss nothing.
    """

    settings: dict[str, Any]
    n_rows: int
    exact: bool


# Those with tables get enough rows for them, and bands so narrow that most queries find something.
KINDS = {
    "FlatIndex": Kind({}, 60, exact=True),
    "MultiIndex": Kind({}, 600, exact=True),
    "BandIndex": Kind({"band_bits": 4}, 600, exact=False),
    "CellIndex": Kind({"n_cells": 8, "probes": 3}, 600, exact=False),
}


def stress(
    n_answers: int, name: str = "FlatIndex", n_searchers: int = 8, seed: int = 0, k: int = 5
) -> int:
    """Search from many threads while one adds, removes and replaces; return how many answers were
    checked.

    Ends when so many answers have come and 30 writes were done, or fails after minutes.
    """
    rng = np.random.default_rng(seed)
    settings, most, exact = KINDS[name]
    rows, queries = random_codes(rng, 600, 40, near=True), random_codes(rng, 4, 40)
    index = getattr(bitkin, name)(rows.spec, **settings)
    # history[v] holds ids and row numbers after write v.
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = [
        (np.empty(0, np.int64), np.empty(0, np.int64))
    ]
    there: dict[int, int] = {}
    with Searchers(lambda: index.search(queries, k), n_searchers, pause=0.0005) as searchers:
        end = time.monotonic() + _PATIENCE
        while (
            len(searchers.answers) < n_answers or len(history) <= _WRITES
        ) and not searchers.failures:
            assert time.monotonic() < end, f"{len(searchers.answers)} answers in {_PATIENCE} s"
            write: Callable[[], object]
            kind = rng.integers(0, 4)
            some = rng.integers(0, len(rows), int(rng.integers(1, most)))
            if kind == 0 and len(there) > 2 * most:
                gone = rng.permutation(list(there))[: len(there) // 2]
                for i in gone.tolist():
                    del there[i]
                write = partial(index.remove, gone)
            elif kind == 1:
                ids = np.unique(rng.integers(0, 8 * most, len(some)))
                there.update(zip(ids.tolist(), some[: len(ids)].tolist(), strict=True))
                write = partial(index.upsert, rows[some[: len(ids)]], ids)
            else:
                start = index.snapshot.next_id
                there.update(zip(range(start, start + len(some)), some.tolist(), strict=True))
                write = partial(index.add, rows[some])
            history.append(
                (
                    np.array(list(there), dtype=np.int64),
                    np.array(list(there.values()), dtype=np.int64),
                )
            )
            with searchers.write():
                write()
    _require_truths(rows, queries, k, history, searchers.answers, exact=exact)
    return len(searchers.answers)


def _require_truths(
    rows: Codes,
    queries: Codes,
    k: int,
    history: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    answers: list[Answer],
    *,
    exact: bool,
) -> None:
    truths: dict[int, Neighbors] = {}
    fits = _equal if exact else _among
    for first, last, found in answers:
        for version in range(first, last + 1):
            if version not in truths:
                version_ids, version_rows = history[version]
                depth = k if exact else len(version_ids)
                true = Neighbors(*truth.nearest(rows[version_rows], version_ids, queries, depth))
                truths[version] = true if exact else _by_id(true)
            if fits(found, truths[version]):
                break
        else:
            raise AssertionError(
                f"no snapshot between write {first} and {last} gives {found.ids.tolist()}"
            )


def _equal(found: Neighbors, true: Neighbors) -> bool:
    return np.array_equal(true.ids, found.ids) and np.array_equal(true.distances, found.distances)


def _by_id(true: Neighbors) -> Neighbors:
    order = np.argsort(true.ids, axis=1)
    return Neighbors(
        np.take_along_axis(true.ids, order, 1), np.take_along_axis(true.distances, order, 1)
    )


def _among(found: Neighbors, true: Neighbors) -> bool:
    """Whether found rows are among all rows (by id) at their true distances, nearest first, ties by
    lower id, once.
    """
    for ids, distances, true_ids, true_distances in zip(*found, *true, strict=True):
        there = ids >= 0
        count = int(there.sum())
        places = np.searchsorted(true_ids, ids[:count])
        if not there[:count].all() or (places == len(true_ids)).any():
            return False
        as_found = distances[:count].astype(np.int64), ids[:count]
        as_true = true_distances[places], true_ids[places]
        pairs = list(zip(*(part.tolist() for part in as_found), strict=True))
        if not all(map(np.array_equal, as_found, as_true)) or pairs != sorted(set(pairs)):
            return False
    return True
