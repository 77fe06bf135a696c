"""How many workers, and how long, for a billion vectors? A model from rates of one core, checked.

    python bench/sizing.py                             # rates, checks at a million rows, the table
    python bench/sizing.py --check 1000000 10000000 --workers 2
    python bench/sizing.py --check 50000000 --parts encode search

Rates are measured in this process on one thread, and what tasks and transfers take on a cluster of
two workers. The checks fit, encode and search so many rows of 768 numbers on such a cluster, and
print what the model says beside what was measured. Rows of a block are cheap to make, and made
again whenever they are needed, so that they may be more than memory holds.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

if Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    sys.path.append(sys.path.pop(0))  # where a file is called as Dask's package is

import numpy as np
from dask.delayed import delayed
from distributed import Client

import bitkin
from _cluster import cheap_rows, dask_rows, held_bytes, persisted, workers
from _sizing import Network, Plan, Rates, predict_bytes, predict_encode, predict_fit, predict_search
from _timing import report, report_machine
from _tiny import sized
from bitkin import threads
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.hashers.projection.statistics import RowMoments

D, BITS, CHUNK, K = sized((768, 128, 20_000, 10), (16, 8, 300, 3))
CHECKED = sized([1_000_000], [2_000])
SCANNED, QUERIES = sized((4_000_000, 100), (2_000, 5))
TABLE_ROWS = 10**9
NETWORK = Network(bytes_per_second=1.1e9, round_trip=5e-4)  # 10 Gbit/s
DISK = 5e8  # bytes per second and core, of whatever the files are on
PARTS = ("fit", "encode", "search")


def cheap_codes(number: int, n: int) -> Codes:
    """Return random codes of a shard."""
    rng = np.random.default_rng([2, number])
    words = rng.integers(0, 2**64, (n, 1, -(-BITS // 64)), dtype=np.uint64)
    if BITS < 64:
        words &= np.uint64(2**BITS - 1)
    return Codes(words, CodeSpec(BITS))


def measure_rates(client: Client) -> tuple[Rates, Network]:
    """Measure what a core does, and what tasks and transfers between workers take."""
    with threads.alone():
        make = _median(lambda: cheap_rows(3, CHUNK, D)) / CHUNK
        rows = cheap_rows(3, CHUNK, D)
        state = RowMoments(D).update(rows)
        moments = _median(lambda: RowMoments(D).update(rows)) / CHUNK
        merge = _median(lambda: state.merge(state))
        few = np.concatenate([cheap_rows(i, CHUNK, D) for i in range(2)])
        whole = _median(lambda: bitkin.ProjectionHash(BITS).fit(few), 2)
        hasher = bitkin.ProjectionHash(BITS, projection="random").fit(rows)
        encode = _median(lambda: hasher.encode(rows)) / CHUNK
        index, queries = bitkin.FlatIndex(CodeSpec(BITS)), cheap_codes(9, QUERIES)
        index.add(cheap_codes(0, SCANNED))
        batch = _median(lambda: index.search(queries, K)) / SCANNED / QUERIES
        lone = _median(lambda: index.search(queries[:1], K)) / SCANNED
    start = time.perf_counter()
    client.gather(client.map(_nothing, range(sized(1000, 20)), pure=False))
    task = (time.perf_counter() - start) / sized(1000, 20)
    answer = _median(lambda: client.submit(_nothing, 0, pure=False).result(), 9)
    return (
        Rates(
            make_row=make,
            moments_row=moments,
            merge_states=merge,
            state_bytes=len(pickle.dumps(state)),
            solve=max(0.0, whole - len(few) * moments),
            encode_row=encode,
            scan_pair=batch,
            scan_lone=lone,
            bytes_per_code=CodeSpec(BITS).n_bytes + 8,
            task=task,
            answer=answer,
        ),
        Network(_loopback(client), answer),
    )


def _loopback(client: Client) -> float:
    """Return the bytes per second from one worker to another."""
    first, second = list(client.scheduler_info()["workers"])[:2]
    size = sized(1 << 27, 1 << 16)
    taken = []
    for number in range(3):
        sent = client.submit(np.full, size, number, dtype=np.uint8, workers=first, pure=False)
        client.submit(len, sent, workers=first, pure=False).result()
        start = time.perf_counter()
        client.submit(len, sent, workers=second, pure=False).result()
        taken.append(time.perf_counter() - start)
    return size / float(np.median(taken))


def check(client: Client, plan: Plan, rates: Rates, network: Network, parts: list[str]) -> None:
    """Print what is predicted beside what is measured."""
    if "fit" in parts:
        start = time.perf_counter()
        bitkin.distributed.fit(
            bitkin.ProjectionHash(BITS), dask_rows(plan.n_rows, D, CHUNK, cheap_rows)
        )
        _compare("fit", plan, time.perf_counter() - start, predict_fit(plan, rates, network))
    if "encode" in parts:
        hasher = bitkin.ProjectionHash(BITS, projection="random").fit(cheap_rows(0, CHUNK, D))
        start = time.perf_counter()
        codes = bitkin.distributed.encode(hasher, dask_rows(plan.n_rows, D, CHUNK, cheap_rows))
        held = persisted(client, codes.to_dask_array())
        _compare("encode", plan, time.perf_counter() - start, predict_encode(plan, rates, network))
        del held
    if "search" in parts:
        _check_search(client, plan, rates, network)


def _check_search(client: Client, plan: Plan, rates: Rates, network: Network) -> None:
    n, before = plan.n_rows // plan.shards, held_bytes(client)
    shards = [delayed(cheap_codes)(i, n) for i in range(plan.shards)]
    with bitkin.distributed.ShardedIndex.from_codes(shards, client) as index:
        queries = cheap_codes(10**6, QUERIES)
        index.search(queries, K)
        for count in (QUERIES, 1):
            taken = _median(lambda count=count: index.search(queries[:count], K), 5)
            predicted = predict_search(plan, rates, network, count, K)
            _compare(f"search, {count} queries", plan, taken, predicted)
        report(
            "memory, search",
            rows=plan.n_rows,
            workers_gb=(held_bytes(client) - before) / 1e9,
            predicted_gb=predict_bytes(plan, rates)["all_search_gb"],
        )


def _compare(what: str, plan: Plan, seconds: float, predicted: float) -> None:
    report(
        what,
        rows=plan.n_rows,
        columns=plan.n_features,
        bits=plan.n_bits,
        workers=plan.workers,
        seconds=seconds,
        predicted_seconds=predicted,
        predicted_over_measured=predicted / seconds,
    )


def table(rates: Rates) -> None:
    """Print what the model says of a billion rows, by cores."""
    from_disk = replace(rates, make_row=4 * D / DISK)
    for cores in (8, 32, 128):
        plan = Plan(TABLE_ROWS, D, BITS, cores, CHUNK, 4 * cores)
        report(
            "a billion rows",
            columns=D,
            bits=BITS,
            cores=cores,
            fit_hours=predict_fit(plan, from_disk, NETWORK) / 3600,
            encode_hours=predict_encode(plan, from_disk, NETWORK) / 3600,
            batch_ms=1e3 * predict_search(plan, rates, NETWORK, QUERIES, K),
            lone_ms=1e3 * predict_search(plan, rates, NETWORK, 1, K),
            **predict_bytes(plan, rates),
        )


def _nothing(number: int) -> int:
    return number


def _median(work: Any, rounds: int = 3) -> float:
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=int, nargs="*", default=CHECKED, help="rows")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    report_machine()
    with workers(2) as client, client.as_current():
        rates, network = measure_rates(client)
        report("rates of a core", **{name: f"{value:.3g}" for name, value in vars(rates).items()})
        report("between workers", bytes_per_second=f"{network.bytes_per_second:.3g}")
        for n_rows in given.check:
            plan = Plan(n_rows, D, BITS, 2, CHUNK, 20)
            check(client, plan, rates, network, given.parts)
    table(rates)


if __name__ == "__main__":
    main()
