"""What does a search with an exact answer at its end cost, at equal recall, beside HNSW and IVF?

    python bench/collection_speed.py                          # four real sets and two made ones
    python bench/collection_speed.py made_1m_128 --without hnswlib   # half an hour less
    python bench/collection_speed.py made_100k_128 --targets 0.97

One thread, CPU microseconds per query: lone queries, one call each, and batches of 100. Every
method is built once, with its build time and the bytes that its search needs; for each target
recall@10 it gets the quickest setting of its own knobs (probes and oversample; efSearch; nprobe)
that reaches it, and all of them then search in turn. hnswlib and usearch take
part where they are installed (`pip install 'bitkin[rivals]'`); the made sets, a hundred thousand
and a million rows, are real ones with noise.

The last lines count: in how many settings (set, recall, lone or batch) a rival is behind the best
of ours that needs no more bytes, and by how much the others are ahead. A rival that is smaller than
all of ours that reach the recall counts as ahead.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import faiss
import numpy as np

import bitkin
from _searchers import K, Method, Rows, Searcher, methods
from _sets import METRICS, RealSet, real_set
from _timing import interleaved, report, report_machine
from _tiny import sized

TARGETS = (0.95, 0.99)
BATCH, LONE, ROUNDS = sized(100, 5), sized(20, 2), 9
MADE = {"made_100k_128": sized(100_000, 500), "made_1m_128": sized(1_000_000, 500)}


@dataclass
class Built:
    """A method on one set."""

    method: Method
    searcher: Searcher
    seconds: float
    settings: dict[float, Any]
    """By target; none where no setting reaches it."""


def made_set(name: str) -> RealSet:
    """Many rows of 128 numbers: descriptors of real images, each with noise."""
    real = real_set("cifar10_gist960")
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(real.rows.shape[1], min(128, real.rows.shape[1]), replace=False))
    base = np.ascontiguousarray(real.rows[:, columns])
    noise = np.float32(0.5) * base.std()

    def some(n: int) -> Rows:
        picked = base[rng.integers(0, len(base), n)]
        return np.asarray(picked + noise * rng.standard_normal(picked.shape, dtype=np.float32))

    rows, queries = some(MADE[name]), some(sized(500, 20))
    truth = bitkin.evaluate.nearest(rows, queries, K).ids
    return RealSet(name, "l2", rows, queries, truth)


def recall_of(searcher: Searcher, data: RealSet, setting: Any) -> float:
    found = searcher.search(data.queries[:500], setting)
    return float(bitkin.evaluate.recall(found, data.truth[:500]))


def built(method: Method, data: RealSet, targets: Sequence[float]) -> Built:
    start = time.process_time()
    searcher = method.build(data.rows, data.metric)
    seconds = time.process_time() - start
    reaching: dict[float, list[Any]] = {}
    for series in searcher.settings:
        waiting = sorted(targets)
        for setting in series:
            recall = recall_of(searcher, data, setting)
            while waiting and recall >= waiting[0]:
                reaching.setdefault(waiting.pop(0), []).append(setting)
            if not waiting:
                break
    settings = {target: quickest(searcher, data, some) for target, some in reaching.items()}
    return Built(method, searcher, seconds, settings)


def quickest(searcher: Searcher, data: RealSet, settings: list[Any]) -> Any:
    """Return the setting of several that answers a batch first."""
    if len(settings) == 1:
        return settings[0]
    batch = data.queries[:BATCH]
    jobs: dict[str, Callable[[], Any]] = {
        str(at): partial(searcher.search, batch, setting) for at, setting in enumerate(settings)
    }
    seconds = interleaved(jobs, rounds=3, clock=time.process_time)
    return settings[int(min(seconds, key=seconds.__getitem__))]


def searched(these: list[Built], data: RealSet, target: float) -> dict[str, dict[str, float]]:
    """Microseconds per query of every method, alone and in batches."""
    queries = data.queries

    def lone(one: Built) -> None:
        for _ in range(LONE):
            at = int(rng.integers(0, len(queries)))
            one.searcher.search(queries[at : at + 1], one.settings[target])

    def batch(one: Built) -> None:
        at = int(rng.integers(0, max(1, len(queries) - BATCH)))
        one.searcher.search(queries[at : at + BATCH], one.settings[target])

    rng = np.random.default_rng(0)
    taken = {}
    for how, count, run in (("lone", LONE, lone), ("batch", BATCH, batch)):
        jobs: dict[str, Callable[[], Any]] = {one.method.name: partial(run, one) for one in these}
        seconds = interleaved(jobs, rounds=ROUNDS, clock=time.process_time)
        taken[how] = {name: 1e6 * s / count for name, s in seconds.items()}
    return taken


def compare(data: RealSet, targets: Sequence[float], without: list[str]) -> list[tuple[str, float]]:
    """Report one set; return for every rival and setting how much faster the best of ours is that
    needs no more bytes.
    """
    all_built = []
    for method in methods():
        if any(part in method.name for part in without):
            report("left out", set=data.name, method=method.name, reason="asked for")
            continue
        if not method.there:
            report("left out", set=data.name, method=method.name, reason=f"no {method.needs}")
            continue
        one = built(method, data, targets)
        all_built.append(one)
        report(
            "built",
            set=data.name,
            rows=len(data.rows),
            features=data.rows.shape[1],
            method=method.name,
            seconds=one.seconds,
            bytes_per_row=one.searcher.n_bytes / len(data.rows),
            settings={str(target): setting for target, setting in one.settings.items()},
        )
    ratios = []
    for target in sorted(targets):
        these = [one for one in all_built if target in one.settings]
        taken = searched(these, data, target)
        for one in these:
            name, n_bytes = one.method.name, one.searcher.n_bytes
            figures = {how: taken[how][name] for how in taken}
            if not one.method.ours:
                for how in taken:
                    ours = [
                        taken[how][other.method.name]
                        for other in these
                        if other.method.ours and other.searcher.n_bytes <= n_bytes
                    ]
                    ahead = taken[how][name] / min(ours) if ours else 0.0
                    figures[f"ours_ahead_{how}"] = ahead
                    ratios.append((f"{one.method.kind}, {how}", ahead))
            report(
                "searched",
                set=data.name,
                target=target,
                method=name,
                setting=one.settings[target],
                bytes_per_row=n_bytes / len(data.rows),
                **{f"{key}_us" if key in taken else key: value for key, value in figures.items()},
            )
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[*METRICS, *MADE])
    parser.add_argument("--without", nargs="*", default=[], help="methods, by a part of their name")
    parser.add_argument("--targets", nargs="*", type=float, default=TARGETS, help="of recall@10")
    given = parser.parse_args()
    bitkin.set_threads(1)
    faiss.omp_set_num_threads(1)
    report_machine(faiss=faiss.__version__)
    ratios: list[tuple[str, float]] = []
    for name in given.sets:
        data = made_set(name) if name in MADE else real_set(name)
        ratios += compare(data, given.targets, given.without)
    for kind in sorted({kind for kind, _ in ratios}):
        ahead = np.array([ratio for of, ratio in ratios if of == kind])
        report(
            "against " + kind,
            settings=len(ahead),
            ours_ahead=int((ahead > 1).sum()),
            behind_by_more_than_half=int((ahead < 1 / 1.5).sum()),
            none_as_small=int((ahead == 0).sum()),
            median_ratio=float(np.median(ahead)),
        )


if __name__ == "__main__":
    main()
