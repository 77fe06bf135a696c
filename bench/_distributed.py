"""What does a Dask cluster cost, and does it find the same? The parts of bench/distributed.py.

`encode` and `fit`: 5,000,000 × 128 float32 on 1 and on 2 workers of one thread each, beside the
same work in this process on one thread, in turn; rows are in memory, here and there. Codes are
compared bit by bit, directions by their angle. The overhead of one worker is in wall time and in
processor time; where others use the machine, the second says more.

`search`: codes of 128 bits in shards over 2 workers, a batch of 100 queries and lone ones. The
answers are compared with those of one FlatIndex per shard in this process, merged by NumPy.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles

import bitkin
from _cluster import (
    dask_rows,
    held_bytes,
    made_rows,
    own_bytes,
    peak_bytes,
    persisted,
    timed,
    workers,
)
from _timing import report, report_machine
from _tiny import sized
from bitkin import threads
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes

PARTS = ("encode", "fit", "search")
N_ROWS, D, CHUNK, BITS = sized((5_000_000, 128, 250_000, 128), (4_000, 16, 500, 8))
SEARCHED, SHARDS, CHECKED = sized((50_000_000, 20, 3), (5_000, 4, 3))
QUERIES, K = sized((100, 10), (5, 3))
GOAL = 1.3


def in_memory() -> Any:
    """Return the rows that `dask_rows` makes on workers."""
    sizes = [min(CHUNK, N_ROWS - at) for at in range(0, N_ROWS, CHUNK)]
    return np.concatenate([made_rows(i, n, D) for i, n in enumerate(sizes)])


def compare_passes(parts: list[str], rounds: int) -> None:
    """Fit and encode here, on 1 and on 2 workers, in turn."""
    rows = in_memory()
    fitted = bitkin.ProjectionHash(BITS).fit(rows)
    codes = fitted.encode(rows)
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with workers(1) as one, workers(2) as two:
        held = {}
        for name, client in (("1 worker", one), ("2 workers", two)):
            with client.as_current():
                held[name] = client, persisted(client, dask_rows(N_ROWS, D, CHUNK))
        for number in range(rounds + 1):  # the first is for warmth
            for what in parts:
                for place in ("here", *held):
                    seconds, cpu, found = (
                        run_here(what, fitted, rows)
                        if place == "here"
                        else run_there(what, fitted, *held[place])
                    )
                    if number:
                        taken.setdefault((what, place), []).append((seconds, cpu))
                    check(what, found, fitted, codes, rows, first=number == 0)
    for what in parts:
        alone = np.median(taken[what, "here"], axis=0)
        for place in held:
            seconds, cpu = np.median(taken[what, place], axis=0)
            report(
                f"{what}, {place}",
                rows=N_ROWS,
                columns=D,
                bits=BITS,
                here_seconds=float(alone[0]),
                seconds=float(seconds),
                wall_ratio=float(seconds / alone[0]),
                cpu_ratio=float(cpu / alone[1]),
                most_wanted=GOAL if place == "1 worker" else None,
                rounds=rounds,
            )


def run_here(what: str, fitted: Any, rows: Any) -> tuple[float, float, Any]:
    """Do the work in this process, on one thread."""
    with threads.alone():
        cpu, start = time.process_time(), time.perf_counter()
        found = fitted.encode(rows) if what == "encode" else bitkin.ProjectionHash(BITS).fit(rows)
        return time.perf_counter() - start, time.process_time() - cpu, found


def run_there(what: str, fitted: Any, client: Any, X: Any) -> tuple[float, float, Any]:
    """Do the work on workers; codes stay there."""
    with client.as_current():
        if what == "fit":
            return timed(
                client,
                lambda: bitkin.distributed.fit(bitkin.ProjectionHash(BITS), X, client=client),
            )
        seconds, cpu, held = timed(
            client, lambda: persisted(client, bitkin.distributed.encode(fitted, X).to_dask_array())
        )
        return seconds, cpu, held.compute()


def check(what: str, found: Any, fitted: Any, codes: Codes, rows: Any, *, first: bool) -> None:
    """Compare what was found with what was found here."""
    if what == "encode":
        same = (
            np.array_equal(codes.to_bytes(), found)
            if isinstance(found, np.ndarray)
            else codes == found
        )
        if not same:
            raise SystemExit("encode: codes differ")
        return
    angle = float(subspace_angles(found.components_, fitted.components_).max())
    bits = float((found.encode(rows[:CHUNK]).symbols() == codes[:CHUNK].symbols()).mean())
    if first:
        report(
            "fit, differences", angle=f"{angle:.1e}", same_bits=f"{bits:.6f}", most_wanted="1e-05"
        )
    if angle > 1e-5 or bits < 0.999:
        raise SystemExit(f"fit: angle {angle}, {bits:.5f} of the bits")


def made_codes(number: int, n: int) -> Codes:
    """Return random codes of a shard."""
    rng = np.random.default_rng([7, number])
    words = rng.integers(0, 2**64, (n, 1, -(-BITS // 64)), dtype=np.uint64)
    if BITS < 64:
        words &= np.uint64(2**BITS - 1)
    return Codes(words, CodeSpec(BITS))


def search(n_rows: int, rounds: int) -> None:
    """Hold codes on 2 workers, and search them."""
    from dask.delayed import delayed

    n = n_rows // SHARDS
    queries = made_codes(10**6, QUERIES)
    with workers(2) as client, client.as_current():
        before = held_bytes(client), own_bytes()
        start = time.perf_counter()
        parts = [delayed(made_codes)(i, n) for i in range(SHARDS)]
        index = bitkin.distributed.ShardedIndex.from_codes(parts, client)
        found = index.search(queries, K)
        built = time.perf_counter() - start
        batch, lone = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            found = index.search(queries, K)
            batch.append(time.perf_counter() - start)
            for i in range(5):
                start = time.perf_counter()
                index.search(queries[i : i + 1], K)
                lone.append(time.perf_counter() - start)
        report(
            "search",
            rows=n * SHARDS,
            bits=BITS,
            shards=SHARDS,
            workers=2,
            queries=QUERIES,
            batch_ms=1e3 * float(np.median(batch)),
            lone_ms=1e3 * float(np.median(lone)),
            made_and_loaded_seconds=built,
            workers_bytes_per_row=(held_bytes(client) - before[0]) / (n * SHARDS),
            client_mb=(own_bytes() - before[1]) / 1e6,
            client_peak_mb=peak_bytes() / 1e6,
        )
        here = alone(n, queries, found, rounds)
    report("search, here", **here)


def alone(n: int, queries: Codes, found: Any, rounds: int) -> dict[str, Any]:
    """Search the shards one after another in this process, and compare with the exact answer."""
    ids: list[Any] = []
    distances: list[Any] = []
    seconds = 0.0
    for i in range(SHARDS):
        index = bitkin.FlatIndex(CodeSpec(BITS))
        index.add(made_codes(i, n), ids=np.arange(i * n, (i + 1) * n))
        index.search(queries, K)
        with threads.alone():
            start = time.perf_counter()
            one = index.search(queries, K)
            seconds += time.perf_counter() - start
        ids.append(one.ids)
        distances.append(one.distances)
    every, far = np.concatenate(ids, axis=1), np.concatenate(distances, axis=1)
    order = np.lexsort((every, far), axis=1)[:, :K]
    same = np.array_equal(np.take_along_axis(every, order, axis=1), found.ids)
    if not same:
        raise SystemExit("search: neighbours differ")
    return {"one_thread_batch_ms": 1e3 * seconds, "queries_checked": QUERIES, "equal": same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="[default: all]")
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    parser.add_argument("--rows", type=int, default=SEARCHED, help="of the search")
    given = parser.parse_args()
    report_machine(threads=bitkin.get_threads())
    parts = list(given.parts or PARTS)
    passes = [part for part in parts if part in ("encode", "fit")]
    if passes:
        compare_passes(passes, given.rounds)
    if "search" in parts:
        search(given.rows, given.rounds)
