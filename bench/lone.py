"""What does one query cost, and one row, beside FAISS?

    python bench/lone.py

One thread. `FlatIndex` against FAISS's flat binary index over the same codes, whose distances must
be equal; `Collection` with its defaults, at two lengths of codes, against FAISS's HNSW and flat
indexes over the same vectors, with the share of the true ten that each finds; and rows added and
replaced one at a time. Queries are rows with noise, another one for every call.

Times are medians, in microseconds of CPU time, and depend on what else the machine does; their
ratios less so. Jobs of one line take turns, 20 calls each. FAISS's flat index reads all 30 MB
of vectors for every query and leaves nothing of others in the cache: so it takes turns with nobody,
and the searches beside it find the cache as a program leaves it that only searches.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _timing import interleaved, report
from _tiny import sized

ROWS, FEATURES, K = sized(20_000, 300), sized(384, 20), 10
LENGTHS = sized([256, 128], [16])
QUERIES, CALLS, ROUNDS = sized(200, 5), sized(20, 2), 40
Rows = npt.NDArray[np.float32]


def one_by_one(call: Callable[[Any], object], rows: Any) -> Callable[[], object]:
    """A job of some calls with one row each: the next one, and the first again after the last."""
    places = cycle(range(len(rows)))

    def job() -> None:
        for at in islice(places, CALLS):
            call(rows[at : at + 1])

    return job


def microseconds(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return what a call of each job takes."""
    taken = interleaved(jobs, rounds=ROUNDS, clock=time.thread_time)
    return {name: 1e6 * seconds / CALLS for name, seconds in taken.items()}


def found_by(search: Callable[[Rows], npt.NDArray[Any]], queries: Rows, truth: Any) -> float:
    """The share of the true ten that comes back, one query at a time."""
    found = np.concatenate([search(queries[q : q + 1]) for q in range(len(queries))])
    return float(bitkin.evaluate.recall(found, truth))


def codes(hasher: bitkin.ProjectionHash, X: Rows, Q: Rows) -> None:
    rows, queries = hasher.encode(X), hasher.encode(Q)
    n_bits = rows.spec.n_bits
    ours, theirs = bitkin.FlatIndex(rows.spec), faiss.IndexBinaryFlat(n_bits)
    ours.add(rows)
    theirs.add(rows.to_bytes())
    if not np.array_equal(ours.search(queries, K)[1], theirs.search(queries.to_bytes(), K)[0]):
        raise SystemExit("FlatIndex and FAISS find different distances")
    taken = microseconds(
        {
            "ours": one_by_one(lambda query: ours.search(query, K), queries),
            "faiss": one_by_one(lambda query: theirs.search(query, K), queries.to_bytes()),
            "ours, add": one_by_one(ours.add, rows),
            "faiss, add": one_by_one(theirs.add, rows.to_bytes()),
        }
    )
    for job, suffix in (("one query by codes", ""), ("one row of codes added", ", add")):
        report(
            job,
            rows=ROWS,
            n_bits=n_bits,
            ours_us=taken["ours" + suffix],
            faiss_us=taken["faiss" + suffix],
            ratio=taken["faiss" + suffix] / taken["ours" + suffix],
        )


def vectors(hasher: bitkin.ProjectionHash, X: Rows, Q: Rows) -> None:
    items, grown = (bitkin.Collection.create(None, hasher) for _ in range(2))
    flat, graph = faiss.IndexFlatL2(FEATURES), faiss.IndexHNSWFlat(FEATURES, 32)
    replaced = cycle(range(0, ROWS, 7))
    for index in (items, grown, flat, graph):
        index.add(X)
    truth = bitkin.evaluate.nearest(X, Q, K).ids
    searches: dict[str, Callable[[Rows], Any]] = {
        "ours": lambda query: items.search(query, K).ids,
        "hnsw": lambda query: graph.search(query, K)[1],
        "flat": lambda query: flat.search(query, K)[1],
    }
    jobs = {name: one_by_one(search, Q) for name, search in searches.items()}
    alone = {"flat": jobs.pop("flat")}
    changes = {
        "add": one_by_one(grown.add, Q),
        "upsert": one_by_one(lambda row: grown.upsert(row, ids=[next(replaced)]), Q),
    }
    taken = microseconds(jobs) | microseconds(alone) | microseconds(changes)
    if len(grown) <= ROWS:
        raise SystemExit("no row was added")
    report(
        "one query by vectors",
        rows=ROWS,
        features=FEATURES,
        n_bits=hasher.spec_.n_bits,
        **{f"{name}_us": taken[name] for name in searches},
        **{f"{name}_recall": found_by(search, Q, truth) for name, search in searches.items()},
    )
    for job, name in (("one vector added", "add"), ("one vector replaced", "upsert")):
        report(job, rows=ROWS, features=FEATURES, ours_us=taken[name])


def main() -> None:
    bitkin.set_threads(1)
    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    # most of the variance in 32 directions or fewer, as in embeddings
    directions = rng.standard_normal((min(32, FEATURES), FEATURES))
    within = rng.standard_normal((ROWS, len(directions))) @ directions
    X = (within + 0.3 * rng.standard_normal(within.shape)).astype(np.float32)
    Q = (X[:QUERIES] + 0.3 * rng.standard_normal((QUERIES, FEATURES))).astype(np.float32)
    for n_bits in LENGTHS:
        hasher = bitkin.ProjectionHash(n_bits, random_state=0).fit(X)
        codes(hasher, X, Q)
        vectors(hasher, X, Q)


if __name__ == "__main__":
    main()
