"""A slow truth for EpochIndex, and searching beside a writer: every answer must be that of one
state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from bitkin import EpochIndex, Neighbors, ProjectionHash
from tests.index.searchers import Answer, Searchers
from tests.truth import estimates

Rows = dict[int, tuple[ProjectionHash, npt.NDArray[np.float32]]]


_PATIENCE = 300  # seconds: only what hangs takes so long
_WRITES = 30


def turned(n: int, d: int, seed: int) -> npt.NDArray[np.float32]:
    """Rows whose directions of large variance depend on the seed."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * rng.permutation(np.linspace(0.2, 3.0, d)) + seed
    return np.asarray(rows, dtype=np.float32)


def nearest(rows: Rows, queries: npt.NDArray[np.float32], k: int, metric: str = "l2") -> Neighbors:
    """Estimate every row under its own model, sort by (estimate, id), and cut."""
    ids = np.full((len(queries), k), -1, dtype=np.int64)
    distances = np.full((len(queries), k), np.inf, dtype=np.float32)
    order = sorted(rows)
    table = np.empty((len(queries), len(order)))
    for hasher in {id(hasher): hasher for hasher, _ in rows.values()}.values():
        own = [column for column, number in enumerate(order) if rows[number][0] is hasher]
        table[:, own] = estimates(
            hasher, queries, np.stack([rows[order[column]][1] for column in own]), metric
        )
    for q in range(len(queries)):
        best = np.argsort(table[q], kind="stable")[:k]
        ids[q, : len(best)] = np.array(order, dtype=np.int64)[best]
        shown = table[q][best] if metric == "ip" else np.maximum(table[q][best], 0)
        distances[q, : len(best)] = np.sqrt(shown) if metric == "l2" else shown
    return Neighbors(ids, distances)


def stress(n_answers: int, n_searchers: int = 8, seed: int = 0) -> int:
    """Search from many threads while one adds, removes and retires; return how many answers were
    checked.

    Ends when so many answers have come and 30 writes were done, or fails after minutes.
    """
    rng = np.random.default_rng(seed)
    pool = turned(400, 12, 0)
    hashers = [ProjectionHash(8).fit(turned(200, 12, s)) for s in range(3)]
    queries = turned(2, 12, 5)
    index = EpochIndex()
    history: list[Rows] = [{}]  # history[v] holds the rows after write v
    with Searchers(
        lambda: index.search(queries, 4, oversample=1000), n_searchers, pause=0.002
    ) as searchers:
        end = time.monotonic() + _PATIENCE
        while (
            len(searchers.answers) < n_answers or len(history) <= _WRITES
        ) and not searchers.failures:
            assert time.monotonic() < end, f"{len(searchers.answers)} answers in {_PATIENCE} s"
            there = dict(history[-1])
            kind = rng.integers(0, 4)
            hasher = hashers[rng.integers(0, 3)]
            others = [
                epoch.fingerprint
                for epoch in index.epochs
                if epoch.fingerprint != hasher.fingerprint_
            ]
            write: Callable[[], object]
            if kind == 0 and len(there) > 60:
                gone = rng.permutation(list(there))[: len(there) // 2]
                for number in gone.tolist():
                    del there[number]
                write = partial(index.remove, gone)
            elif kind == 1 and others:
                ids = index.epoch_ids(others[0])
                vectors = np.array([there[i][1] for i in ids.tolist()], dtype=np.float32).reshape(
                    -1, 12
                )
                there.update({i: (hasher, there[i][1]) for i in ids.tolist()})
                write = partial(index.retire, others[0], into=hasher, vectors=vectors)
            else:
                some = pool[rng.integers(0, len(pool), int(rng.integers(1, 20)))]
                start = index._state.next_id
                there.update({start + i: (hasher, row) for i, row in enumerate(some)})
                write = partial(index.add, hasher, some)
            history.append(there)
            with searchers.write():
                write()
    _require_truths(queries, history, searchers.answers)
    return len(searchers.answers)


def _require_truths(
    queries: npt.NDArray[np.float32], history: list[Rows], answers: list[Answer]
) -> None:
    truths: dict[int, Neighbors] = {}
    for first, last, found in answers:
        for version in range(first, last + 1):
            if version not in truths:
                truths[version] = nearest(history[version], queries, found.ids.shape[1])
            if np.allclose(truths[version].distances, found.distances, rtol=1e-4):
                break
        else:
            raise AssertionError(
                f"no state between write {first} and {last} gives {found.ids.tolist()}"
            )
