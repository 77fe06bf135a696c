"""Is MultiIndex faster than the scan where codes are clustered like real ones, and never much
slower anywhere?

    python bench/sublinear.py                                  all sections, 10,000,000 rows
    python bench/sublinear.py multi64 --rows 1000000           one section, fewer rows
    python bench/sublinear.py settings --rows 600000           beside the scan in every setting

Sections: multi64 and multi128, codes made from real data by noise (`_clustered.py` says how), one
query at a time and all together; random, uniform codes of 64 and 128 bits; settings, clustered and
random codes of 64 to 512 bits in batches of 1 to 200 new queries, from the first batch on, and the
time of all batches as a multiple of the scan's. One thread, medians of
CPU time, both indexes asked in turn: a scan between two queries empties the caches, so a median
without scans between is told too. Answers are compared with the scan's. FAISS's exact multi-index
hash answers within a radius; it is asked for the median distance of the tenth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np

import bitkin
from _clustered import K, clustered
from _timing import report
from _tiny import sized
from bitkin import Codes, CodeSpec, FlatIndex, MultiIndex

SETS = {64: ("glove100_100k", "cifar10_gist960"), 128: ("glove100_100k", "cifar10_gist960")}
WANTED = {64: 10.0, 128: 3.0}
AT_MOST = 1.2  # times the scan, on random codes
N_QUERIES, BATCH = sized(101, 5), sized(256, 8)
# queries per batch, and batches
SETTINGS_BATCHES = sized(((1, 100), (2, 60), (16, 30), (200, 8)), ((1, 3), (8, 2)))
SETTINGS_QUERIES = sized(600, 20)

Times = np.ndarray[tuple[int], np.dtype[np.float64]]


def seconds(job: Callable[[], Any]) -> float:
    """Return the CPU time of one call."""
    start = time.process_time()
    job()
    return time.process_time() - start


def medians(jobs: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """Run all jobs in turn after one untimed round; the machine may be busy, so CPU time counts."""
    for job in jobs.values():
        job()
    times = [{name: seconds(job) for name, job in jobs.items()} for _ in range(rounds)]
    return {name: float(np.median([taken[name] for taken in times])) for name in jobs}


def in_turn(index: MultiIndex, flat: FlatIndex, queries: Codes) -> tuple[Times, Times]:
    """Return seconds of every query alone, by both; end the bench where the answers differ."""
    ours, scans = np.empty(len(queries)), np.empty(len(queries))
    for i, query in enumerate(queries):
        found, want = index.search(query, K), flat.search(query, K)
        if not all(np.array_equal(*pair) for pair in zip(found, want, strict=True)):
            raise SystemExit(f"query {i} gets another answer than from the scan")
        ours[i] = seconds(partial(index.search, query, K))
        scans[i] = seconds(partial(flat.search, query, K))
    return ours, scans


def built(codes: Codes) -> tuple[MultiIndex, FlatIndex]:
    """Return both indexes of the same codes, and report what they take."""
    index, flat = MultiIndex(codes.spec), FlatIndex(codes.spec)
    index.add(codes[:100_000])  # compiles what builds tables
    index = MultiIndex(codes.spec)
    start = time.process_time()
    index.add(codes)
    middle = time.process_time()
    flat.add(codes)
    report(
        "building",
        n_bits=codes.spec.n_bits,
        rows=len(codes),
        multi_s=middle - start,
        flat_s=time.process_time() - middle,
        multi_bytes_a_row=index.nbytes / len(codes),
        flat_bytes_a_row=flat.nbytes / len(codes),
    )
    return index, flat


def one_by_one(
    question: str, index: MultiIndex, flat: FlatIndex, queries: Codes, **figures: Any
) -> None:
    ours, scan = in_turn(index, flat, queries)
    alone = [seconds(partial(index.search, query, K)) for query in queries]
    lookups = [index.explain(query, K) for query in queries]
    report(
        question,
        n_bits=queries.spec.n_bits,
        rows=len(index),
        multi_ms=1e3 * float(np.median(ours)),
        multi_p90_ms=1e3 * float(np.percentile(ours, 90)),
        without_scans_between_ms=1e3 * float(np.median(alone)),
        scan_ms=1e3 * float(np.median(scan)),
        probes=float(np.median([each.probes[0] for each in lookups])),
        candidates=float(np.median([each.candidates[0] for each in lookups])),
        fell_back=float(np.mean([each.fell_back[0] for each in lookups])),
        ratio=float(np.median(scan) / np.median(ours)),
        **figures,
    )


def together(
    question: str, index: MultiIndex, flat: FlatIndex, queries: Codes, **figures: Any
) -> None:
    jobs = {"multi": lambda: index.search(queries, K), "scan": lambda: flat.search(queries, K)}
    times = medians(jobs)
    report(
        question,
        n_bits=queries.spec.n_bits,
        queries=len(queries),
        multi_ms=1e3 * times["multi"] / len(queries),
        scan_ms=1e3 * times["scan"] / len(queries),
        fell_back=float(np.mean(index.explain(queries, K).fell_back)),
        ratio=times["scan"] / times["multi"],
        **figures,
    )


def beside_faiss(index: MultiIndex, codes: Codes, queries: Codes) -> None:
    """All neighbours within the radius that holds the tenth of the median query."""
    radius = int(np.median(index.search(queries, K).distances[:, -1]))
    n_tables = len(index.snapshot.segments[0].tables.chunks.lengths)  # type: ignore[union-attr]
    peer = faiss.IndexBinaryMultiHash(codes.spec.n_bits, n_tables, codes.spec.n_bits // n_tables)
    peer.add(codes.to_bytes())
    peer.nflip = radius // n_tables
    asked = queries.to_bytes()
    found, limits = index.search_radius(queries, radius), peer.range_search(asked, radius + 1)[0]
    if not np.array_equal(found.offsets, limits.astype(np.int64)):
        raise SystemExit("FAISS finds another number of neighbours within the radius")
    jobs = {
        "multi": lambda: index.search_radius(queries, radius),
        "faiss": lambda: peer.range_search(asked, radius + 1),
    }
    times = medians(jobs, rounds=3)
    report(
        "within a radius, beside IndexBinaryMultiHash",
        n_bits=codes.spec.n_bits,
        rows=len(index),
        radius=radius,
        multi_ms=1e3 * times["multi"] / len(queries),
        faiss_ms=1e3 * times["faiss"] / len(queries),
        ratio=times["faiss"] / times["multi"],
    )


def on_clustered_codes(n_bits: int, n: int, with_faiss: bool) -> None:
    for name in SETS[n_bits]:
        made = clustered(name, n, n_bits, BATCH, np.random.default_rng(0))
        index, flat = built(made.codes)
        tenth = flat.search(made.queries, K).distances[:, -1]
        report(
            "made codes",
            data=name,
            n_bits=n_bits,
            rows=n,
            noise=made.noise,
            wanted_distance=made.wanted_distance,
            tenth_neighbour_p10_p50_p90=np.percentile(tenth, [10, 50, 90]).tolist(),
        )
        one_by_one(
            "one query", index, flat, made.queries[:N_QUERIES], data=name, wanted=WANTED[n_bits]
        )
        together("queries together", index, flat, made.queries, data=name)
        if with_faiss:
            beside_faiss(index, made.codes, made.queries)


def on_random_codes(n: int) -> None:
    rng = np.random.default_rng(1)
    for n_bits in sized((64, 128), (64,)):
        codes, queries = (random_codes(count, n_bits, rng) for count in (n, BATCH))
        index, flat = built(codes)
        one_by_one(
            "one query on random codes", index, flat, queries[:N_QUERIES], wanted=1 / AT_MOST
        )
        for count in (2, 16, BATCH):
            together(
                "queries together on random codes", index, flat, queries[:count], wanted=1 / AT_MOST
            )


def in_batches(index: MultiIndex, flat: FlatIndex, queries: Codes, **figures: Any) -> None:
    """Ask both the same batches in turn, each batch other queries, and report the times in all."""
    for size, count in SETTINGS_BATCHES:
        ours, scans = np.empty(count), np.empty(count)
        for i in range(count):
            first = i * size % (len(queries) - size + 1)
            some = queries[first : first + size]
            jobs = [(ours, partial(index.search, some, K)), (scans, partial(flat.search, some, K))]
            # who comes second finds the queries in the cache
            for times, job in jobs if i % 2 else jobs[::-1]:
                times[i] = seconds(job)
        report(
            "beside the scan",
            n_bits=queries.spec.n_bits,
            rows=len(index),
            queries=size,
            batches=count,
            multi_ms=1e3 * float(np.median(ours)) / size,
            scan_ms=1e3 * float(np.median(scans)) / size,
            of_the_scan_median=float(np.median(ours) / np.median(scans)),
            of_the_scan_in_all=float(ours.sum() / scans.sum()),
            fell_back=float(np.mean(index.explain(some, K).fell_back)),
            **figures,
        )


def in_all_settings(n: int, widths: list[int]) -> None:
    for n_bits in widths:
        rng = np.random.default_rng(2)
        made = clustered("glove100_100k", n, n_bits, SETTINGS_QUERIES, rng)
        for name, codes, queries in (
            ("glove100_100k", made.codes, made.queries),
            ("random", random_codes(n, n_bits, rng), random_codes(SETTINGS_QUERIES, n_bits, rng)),
        ):
            index, flat = built(codes)
            known = MultiIndex(codes.spec)  # compiles; the other index learns all by itself
            known.add(codes[:100_000])
            for size in (1, 2):
                known.search(queries[:size], K)
                flat.search(queries[:size], K)
            in_batches(index, flat, queries, data=name)


def random_codes(n: int, n_bits: int, rng: np.random.Generator) -> Codes:
    spec = CodeSpec(n_bits)
    return Codes(rng.integers(0, 2**64, (n, 1, spec.plane_words), dtype=np.uint64), spec)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=["multi64", "multi128", "random"])
    parser.add_argument("--rows", type=int, default=sized(10_000_000, 3000))
    parser.add_argument(
        "--bits", type=int, nargs="+", default=[64, 128, 256, 512], help="widths of `settings`"
    )
    parser.add_argument(
        "--faiss", action="store_true", help="FAISS's multi-index hash beside it; it builds slowly"
    )
    arguments = parser.parse_args()
    bitkin.set_threads(1)
    faiss.omp_set_num_threads(1)
    for section in arguments.sections:
        if section == "random":
            on_random_codes(arguments.rows)
        elif section == "settings":
            in_all_settings(arguments.rows, arguments.bits)
        else:
            on_clustered_codes(int(section.removeprefix("multi")), arguments.rows, arguments.faiss)


if __name__ == "__main__":
    main()
