"""What does it give to rank winner-take-all codes by what the query loses, and what does it cost?

    python bench/losses.py           all questions, about 15 minutes on one core
    python bench/losses.py recall    of the true 10, how many are in the best 100 and 10
    python bench/losses.py bits      the same by the bits to which losses are rounded
    python bench/losses.py scan      time of a scan of random codes, against counting
    python bench/losses.py exact     a search that ends with vectors: which first stage is better
    python bench/losses.py cells     rows in cells, with vectors and without, beside all rows

Everything runs in one thread; times are CPU time, medians of interleaved runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

import bitkin
from _data import data_file
from _sets import METRICS, real_set
from _timing import interleaved, report, report_machine
from _tiny import sized
from bitkin import Collection, WTAHash
from bitkin.evaluate import nearest, recall

N_ROWS, N_QUERIES = sized((20_000, 500), (300, 20))
# set, hashes, window
SETTINGS: list[tuple[str, int, int | str]] = sized(
    [
        ("fashion_mnist", 64, 4),
        ("fashion_mnist", 256, 4),
        ("cifar10_gist960", 64, 4),
        ("cifar10_gist960", 256, 4),
        ("cifar10_gist960", 128, 8),
        ("glove100_100k", 64, 4),
        ("onet_tasks_minilm384", 64, 4),
        ("onet_tasks_minilm384", 64, 16),
        ("imclef07a", 64, 4),
        ("bow_cifar10_300", 256, 4),
        ("bow_cifar10_1000", 128, 16),
        ("bow_cifar10_10000", 128, "auto"),
        ("newsgroups20_bow", 128, "auto"),
    ],
    [("fashion_mnist", 16, 4)],
)
# set, hashes
IN_CELLS = sized(
    [("glove100_100k", 128), ("fashion_mnist", 128), ("onet_tasks_minilm384", 128)],
    [("fashion_mnist", 16)],
)
CELLED = "flat", "cells"
NOISE = 0.3  # of every feature's standard deviation, in rows that are made of real ones
SCANS = sized([(64, 4), (256, 4), (512, 4), (128, 8), (128, 16), (128, 256)], [(16, 4)])


class Searched(NamedTuple):
    """Rows, queries, metric, and the true ten nearest of every query."""

    rows: Any
    queries: Any
    metric: str
    truth: npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def searched(name: str) -> Searched:
    """Load a set; bags of words are compared by cosine."""
    if name in METRICS:
        whole = real_set(name)
        rows, queries, metric = whole.rows, whole.queries, whole.metric
    elif name == "imclef07a":
        with np.load(data_file("imclef07a.npz")) as file:
            rows, queries, metric = file["X_train"], file["X_test"], "l2"
    elif name == "newsgroups20_bow":
        bags = scipy.sparse.load_npz(data_file("newsgroups20_bow.npz")).tocsr()
        order = np.random.default_rng(0).permutation(bags.shape[0])
        queries, rows, metric = bags[order[:N_QUERIES]], bags[order[N_QUERIES:]], "cosine"
    else:
        rows, queries = (
            scipy.sparse.load_npz(data_file(f"{name}_{part}.npz")).tocsr()
            for part in ("train", "test")
        )
        metric = "cosine"
    rows, queries = rows[:N_ROWS].astype(np.float32), queries[:N_QUERIES].astype(np.float32)
    return Searched(rows, queries, metric, nearest(rows, queries, 10, metric).ids)


def recalls(found: npt.NDArray[np.int64], data: Searched) -> tuple[float, float]:
    """Return the share of the true 10 in all that was found, and in the first 10."""
    return float(recall(found, data.truth)), float(recall(found[:, :10], data.truth))


def filled(data: Searched, hasher: WTAHash, **settings: Any) -> Collection:
    collection = Collection.create(None, hasher, metric=data.metric, **settings)
    collection.add(data.rows)
    return collection


def recall_by_losses() -> None:
    for name, n_hashes, window in SETTINGS:
        data = searched(name)
        hasher = WTAHash(n_hashes, window).fit(data.rows)
        collection = filled(data, hasher, vectors=None)
        by_count = recalls(collection.search(data.queries, 100, stage="codes").ids, data)
        by_loss = recalls(collection.search(data.queries, 100, first="estimate").ids, data)
        report(
            "of the true 10 in the best 100, by counting and by losses",
            set=name,
            rows=data.rows.shape[0],
            n_hashes=n_hashes,
            window=hasher.window_,
            alphabet=hasher.alphabet_size_,
            bytes=hasher.spec_.n_bytes,
            empty_share=hasher.empty_share_,
            count=by_count[0],
            loss=by_loss[0],
            count_in_10=by_count[1],
            loss_in_10=by_loss[1],
        )


def recall_by_bits() -> None:
    for name, n_hashes, window in SETTINGS[::3]:
        data = searched(name)
        hasher = WTAHash(n_hashes, window).fit(data.rows)
        figures = {}
        for bits in sized((1, 2, 3, 4, 8), (3,)):
            collection = filled(data, hasher, vectors=None, query_bits=bits)
            found = collection.search(data.queries, 100, first="estimate").ids
            figures[f"bits_{bits}"] = recalls(found, data)[0]
        report(
            "of the true 10 in the best 100, by bits of a loss",
            set=name,
            n_hashes=n_hashes,
            window=hasher.window_,
            **figures,
        )


def scan() -> None:
    report_machine()
    rng = np.random.default_rng(0)
    n_rows, n_queries = sized((1 << 20, 20), (2000, 2))
    X = rng.standard_normal((n_queries, 400)).astype(np.float32)
    for n_hashes, window in SCANS:
        hasher = WTAHash(n_hashes, window, center=False).fit(X)
        symbols = rng.integers(0, hasher.alphabet_size_, (n_rows, n_hashes)).astype(np.uint8)
        collection = Collection.create(None, hasher, vectors=None)
        collection.add_codes(bitkin.Codes.from_symbols(symbols, hasher.spec_.bits_per_symbol))
        jobs: dict[str, Callable[[], Any]] = {
            f"{stage}_{k}": partial(collection.search, X, k, stage=stage, first=first)
            for stage, first in (("codes", None), ("estimate", "estimate"))
            for k in (10, 100)
        }
        times = interleaved(jobs, rounds=5, clock=time.process_time)
        report(
            "a scan by losses against one by counting",
            rows=n_rows,
            n_hashes=n_hashes,
            window=window,
            ms_a_query_counting=1e3 * times["codes_10"] / n_queries,
            ms_a_query_losses=1e3 * times["estimate_10"] / n_queries,
            times_at_10=times["estimate_10"] / times["codes_10"],
            times_at_100=times["estimate_100"] / times["codes_100"],
        )


def exact() -> None:
    for rows, n_hashes, window in SETTINGS[:9]:  # dense rows
        data = searched(rows)
        collection = filled(data, WTAHash(n_hashes, window).fit(data.rows))
        for oversample in sized((1, 3, 10), (1,)):
            jobs: dict[str, Callable[[], Any]] = {
                first: partial(
                    collection.search, data.queries, 10, first=first, oversample=oversample
                )
                for first in ("codes", "estimate")
            }
            times = interleaved(jobs, rounds=3, clock=time.process_time)
            figures = {
                f"recall_{first}": recalls(job().ids, data)[1] for first, job in jobs.items()
            }
            report(
                "exact last: 10 of 10 by the first stage",
                set=rows,
                n_hashes=n_hashes,
                window=window,
                measured=100 * oversample,
                **figures,
                us_a_query_codes=1e6 * times["codes"] / data.queries.shape[0],
                us_a_query_estimate=1e6 * times["estimate"] / data.queries.shape[0],
            )


def noisy(name: str) -> Searched:
    """Make as many rows as cells are for of those of a real set, each of them a few times."""
    n_rows, n_queries = sized((200_000, 200), (600, 20))
    whole, rng = real_set(name), np.random.default_rng(0)
    base, queries = whole.rows.astype(np.float32), whole.queries[:n_queries].astype(np.float32)
    rows = base[np.arange(n_rows) % len(base)]
    scale = NOISE * base.std(axis=0)
    for first in range(0, n_rows, 10_000):
        some = rows[first : first + 10_000]
        some += scale * rng.standard_normal(some.shape, dtype=np.float32)
    if whole.metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Searched(rows, queries, whole.metric, nearest(rows, queries, 10, whole.metric).ids)


def in_cells() -> None:
    report_machine()
    for name, n_hashes in IN_CELLS:
        data = noisy(name)
        hasher = WTAHash(n_hashes).fit(data.rows[:20_000])
        for vectors in ("float32", None):
            both = {kind: filled(data, hasher, index=kind, vectors=vectors) for kind in CELLED}
            for oversample in sized((1, 3, 10), (1,)) if vectors else (1,):
                _compare_with_flat(name, both, data, vectors, oversample)


def _compare_with_flat(
    name: str, both: dict[str, Collection], data: Searched, vectors: str | None, oversample: int
) -> None:
    asked = {"many": data.queries, "one": data.queries[:1]}
    jobs: dict[str, Callable[[], Any]] = {
        f"{kind}_{number}": partial(both[kind].search, queries, 10, oversample=oversample)
        for kind in CELLED
        for number, queries in asked.items()
    }
    times = interleaved(jobs, rounds=sized(7, 1), clock=time.process_time)
    report(
        "rows in cells beside all rows, by losses",
        set=name,
        vectors=vectors,
        stage=both["cells"].stage,
        kept=100 * oversample if vectors else 10,
        **{f"recall_{kind}": recalls(jobs[f"{kind}_many"]().ids, data)[1] for kind in CELLED},
        **{
            f"us_a_query_{job}": 1e6 * seconds / len(asked[job.split("_")[1]])
            for job, seconds in times.items()
        },
    )


MODES = {
    "recall": recall_by_losses,
    "bits": recall_by_bits,
    "scan": scan,
    "exact": exact,
    "cells": in_cells,
}

if __name__ == "__main__":
    bitkin.set_threads(1)
    for mode in sys.argv[1:] or MODES:
        MODES[mode]()
