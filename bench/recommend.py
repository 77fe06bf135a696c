"""Does `recommend` keep what it promises, and what does it cost?

    python bench/recommend.py                                    # everything, about an hour
    python bench/recommend.py intervals --sets glove100_100k --seeds 20
    python bench/recommend.py compared lower predicted large

Parts: `intervals`, the recall of queries that `recommend` never saw, against its interval;
`compared`, its bytes and seconds against an exhaustive `compare` of the same rows; `lower`, bytes
at a recall of 0.7 against those at 0.95; `predicted`, a recall on all rows from a sample of 20,000,
against a collection of all; `large`, seconds and peak memory on 100,000 × 384 float32; `cut`, what
is found by the columns of sparse rows that vary most, and in how many bytes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.preprocessing import normalize
from sklearn.utils.sparsefuncs import mean_variance_axis

import bitkin
from _data import data_file
from _timing import report
from _tiny import sized
from bitkin.errors import TargetNotReachedError
from bitkin.evaluate import nearest
from bitkin.evaluate.recommending import checking
from bitkin.evaluate.trials.trial import SAMPLE_ROWS
from bitkin.randomness import Draws

METRICS = {
    "fashion_mnist": "l2",
    "glove100_100k": "cosine",
    "onet_tasks_minilm384": "cosine",
    "cifar10_gist960": "l2",
    "newsgroups20_bow": "cosine",
}
SPARSE = ("newsgroups20_bow",)
PARTS = ("intervals", "compared", "lower", "predicted", "large", "cut")
SAMPLE, FRESH, K = sized((20_000, 1_000, 10), (300, 40, 3))
COMPARED_BITS = sized((32, 64, 96, 128, 192, 256, 384, 512), (8, 16))
LARGE = sized((100_000, 384), (500, 24))
RECALL = sized(0.95, 0.5)
LOWER = sized(0.7, 0.3)
CUTS = sized(
    (
        # columns, bits, kept vectors, oversample
        (10**9, 256, "csr", 50),
        (8_192, 256, "csr", 100),
        (4_096, 256, "csr", 100),
        (1_024, 256, "csr", 50),
        (512, 256, "csr", 20),
        (256, 128, "csr", 50),
        (2_048, 1_536, None, 1),
        (2_048, 1_024, None, 1),
        (1_024, 1_024, None, 1),
    ),
    ((100, 16, "csr", 5), (100, 32, None, 1)),
)


def load(name: str) -> Any:
    """Return all rows of a set, float32, dense or CSR."""
    if name == "newsgroups20_bow":
        bags = scipy.sparse.load_npz(data_file(f"{name}.npz"))
        return scipy.sparse.csr_matrix(bags).astype(np.float32)
    with np.load(data_file(f"{name}.npz")) as file:
        rows = file["X_train" if "X_train" in file else "X"]
    return rows.reshape(len(rows), -1).astype(np.float32)


def split(rows: Any, n: int, seed: int) -> tuple[Any, Any]:
    """Return n random rows, or all that there are but 1,000, and queries that are none of them."""
    order = Draws(seed, "bench recommend").permutation(rows.shape[0])
    n = min(n, rows.shape[0] - FRESH)
    return rows[np.sort(order[:n])], rows[order[n : n + FRESH]]


def search_all(collection: bitkin.Collection, queries: Any) -> npt.NDArray[np.int64]:
    """Return what fresh queries find."""
    return np.concatenate(
        [collection.search(queries[i : i + 200], K).ids for i in range(0, FRESH, 200)]
    )


def measure(found: bitkin.Recommendation, X: Any, queries: Any) -> float:
    """Return the recall of fresh queries in the collection that was recommended."""
    with found.build(X) as collection:
        ids = search_all(collection, queries)
    return float(bitkin.evaluate.recall(ids, nearest(X, queries, K, found.metric).ids))


def recommend(X: Any, name: str, recall: float, **options: Any) -> bitkin.Recommendation:
    """Return what is recommended; where nothing reaches the recall, the best that was found."""
    options = {"metric": METRICS[name], "k": K, **options}
    if sized(False, True):
        options["methods"], options["bits"] = ["nystrom", "random"], COMPARED_BITS
    try:
        return bitkin.recommend(X, recall=recall, **options)
    except TargetNotReachedError as error:
        if error.best is None:
            raise
        best: bitkin.Recommendation = error.best
        return best


def tell(found: bitkin.Recommendation) -> dict[str, Any]:
    """Return what a line of figures says of a recommendation."""
    return {
        "choice": found.chosen.name,
        "oversample": found.oversample,
        "bytes": found.bytes_per_vector,
        "recall": found.recall,
        "low": found.interval[0],
        "high": found.interval[1],
        "reached": found.reached,
        "seconds": found.seconds,
    }


def intervals(name: str, seeds: int) -> None:
    """Ask fresh queries in seeded runs."""
    rows = load(name)
    n_holds = 0
    for seed in range(seeds):
        X, queries = split(rows, SAMPLE, seed)
        found = recommend(X, name, RECALL, random_state=seed)
        fresh = measure(found, X, queries)
        holds = bool(found.interval[0] <= fresh <= found.interval[1])
        n_holds += holds
        report(f"interval, {name}", seed=seed, fresh=fresh, holds=holds, **tell(found))
    report(f"intervals, {name}", seeds=seeds, holds=n_holds)


def compared(name: str, _: int) -> None:
    """Measure every method at every size, and see what `recommend` leaves on the table."""
    X, _queries = split(load(name), SAMPLE, 0)
    start = time.process_time()  # others may use the machine meanwhile
    found = recommend(X, name, RECALL)
    ours = time.process_time() - start
    start = time.process_time()
    methods = sized(None, ["nystrom", "random"])
    everything = bitkin.compare(
        X, k=K, metric=METRICS[name], bits=COMPARED_BITS, baselines=False, methods=methods
    )
    theirs = time.process_time() - start
    ways = [m.cheapest_at(RECALL) for m in everything.measurements if m.error is None]
    best = min((w for w in ways if w is not None), key=lambda w: w.bytes_per_vector)
    report(
        f"compared, {name}",
        best=best.name,
        best_bytes=best.bytes_per_vector,
        ratio_of_bytes=found.bytes_per_vector / best.bytes_per_vector,
        compare_cpu_seconds=theirs,
        share_of_time=ours / theirs,
        **tell(found),
    )


def lower(name: str, _: int) -> None:
    """Ask for less recall, and see whether that takes fewer bytes."""
    X, _queries = split(load(name), SAMPLE, 0)
    full, less = recommend(X, name, RECALL), recommend(X, name, LOWER)
    report(
        f"lower, {name}",
        wanted=LOWER,
        full_bytes=full.bytes_per_vector,
        share_of_bytes=less.bytes_per_vector / full.bytes_per_vector,
        **tell(less),
    )


def predicted(name: str, _: int) -> None:
    """Let the sample predict the recall on all rows, as for collections too large to be built."""
    X, queries = split(load(name), sized(10**9, SAMPLE), 0)
    most = checking.MOST_BYTES
    for recall in (RECALL, LOWER):
        checking.MOST_BYTES = 0
        try:
            found = recommend(X, name, recall, sample_rows=sized(SAMPLE_ROWS, 100))
        finally:
            checking.MOST_BYTES = most
        fresh = measure(found, X, queries)
        holds = bool(found.interval[0] <= fresh <= found.interval[1])
        report(f"predicted, {name}", rows=X.shape[0], fresh=fresh, holds=holds, **tell(found))


def cut(name: str, _: int) -> None:
    """Search by the columns that vary most, of rows that were scaled to length 1 before the cut."""
    X, queries = split(load(name), SAMPLE, 0)
    truth = nearest(X, queries, K, "cosine").ids
    unit, asked = normalize(X), normalize(queries)
    order = np.argsort(-mean_variance_axis(unit, axis=0)[1])
    for n_columns, n_bits, vectors, oversample in CUTS:
        columns = np.sort(order[:n_columns])
        few, fresh = unit[:, columns], asked[:, columns]
        rotation = "random" if vectors is None else "itq"
        hasher = bitkin.ProjectionHash(n_bits, rotation=rotation)
        start = time.process_time()
        hasher.fit(few)
        taken = time.process_time() - start
        with bitkin.Collection.create(
            None,
            hasher,
            vectors=vectors,
            metric="ip",
            stage="estimate" if vectors is None else "exact",
            oversample=oversample,
            index="flat",
            first="estimate",
        ) as collection:
            collection.add(few)
            collection.compact()
            ids, n_bytes = search_all(collection, fresh), collection.nbytes
        report(
            f"cut, {name}",
            columns=len(columns),
            bits=n_bits,
            vectors=vectors,
            oversample=oversample,
            recall=float(bitkin.evaluate.recall(ids, truth)),
            exact=float(bitkin.evaluate.recall(nearest(few, fresh, K, "ip").ids, truth)),
            bytes=n_bytes / X.shape[0],
            model_mb=4 * len(columns) * n_bits / 1e6,
            fit_cpu_seconds=taken,
        )


def made(n: int, d: int) -> npt.NDArray[np.float32]:
    """Return rows in clusters with a falling spectrum, as embeddings have them."""
    draws = Draws(0, "bench recommend, large")
    spread = np.geomspace(1.0, 0.05, d, dtype=np.float32)
    centres = draws.normals((200, d)).astype(np.float32) * spread
    rows = np.empty((n, d), dtype=np.float32)
    for i in range(0, n, 10_000):
        some = rows[i : i + 10_000]
        some[:] = draws.normals(some.shape).astype(np.float32) * spread
        some += centres[draws.below(200, len(some))]
    return rows


def answer_large(_: None) -> dict[str, Any]:
    """Recommend for many rows, in a process of its own for the sake of its memory."""
    X = made(*LARGE)
    start = time.perf_counter()
    found = recommend(X, "fashion_mnist", RECALL)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall_seconds": taken, "peak_mb": peak, **tell(found)}


def large() -> None:
    """Measure seconds and peak memory."""
    if sized(False, True):
        figures = answer_large(None)
    else:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures = pool.map(answer_large, [None])[0]
    n, d = LARGE
    report("large", rows=n, columns=d, threads=bitkin.get_threads(), **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="[default: all]")
    parser.add_argument("--sets", nargs="+", choices=METRICS, default=None)
    parser.add_argument("--seeds", type=int, default=None)
    given = parser.parse_args()
    runs = {
        "intervals": intervals,
        "compared": compared,
        "lower": lower,
        "predicted": predicted,
        "cut": cut,
    }
    large_sets = [name for name in METRICS if name in ("fashion_mnist", "glove100_100k")]
    for part in given.parts or PARTS:
        if part == "large":
            large()
            continue
        names = given.sets or {"predicted": large_sets, "cut": SPARSE}.get(part, list(METRICS))
        for name in names:
            seeds = given.seeds or (20 if name in large_sets else 3)
            runs[part](name, seeds)


if __name__ == "__main__":
    main()
