"""How many searches per second does the service answer, and how many the server one would take
instead?

    python bench/service.py                         # all parts; ten minutes once the rows are there
    python bench/service.py load --rounds 5
    python bench/service.py rivals --rows 100000 1000000

Rows and queries are those of bench/collection.py: a million made embeddings of 384 numbers under
cosine, kept as float16 under codes of 128 bits in a folder, and real ones that none of them is.
They stay in --folder for the next run.

`load` starts `bitkin serve` as a user does, and asks for 10 neighbours by the exact stage: lone
queries on 1, 8 and 32 connections, as lists of numbers, in base64 and as plain bytes, with
metadata, under a filter that keeps 1 %, and 64 queries in a request. It compares with the goals.

`rivals` starts chromadb's server (`chroma run`) beside, on the same rows, where it is installed
(`pip install chromadb`), and sends the same queries to both in turn, as JSON, which is what it
takes. Its ef_search is the cheapest whose recall@10 reaches ours: at bitkin's defaults, and at
0.95. It builds a graph of a million rows in a quarter of an hour, once.

One process sends (bench/_load.py): every connection sends its next request as soon as it has an
answer, so that "8 connections" are 8 callers who never rest. It shares the processors with the
server. Figures are medians over rounds, each with new server processes; the least and the most
stand beside. `cpu_ms` is processor time of the server per query, which the load of others changes
least. The first answer to every query is compared with what `Collection.search` finds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import bitkin
from _load import Answered, Load, LoadGenerator, load_generator
from _servers import WHERE, BitkinServer, Case, ChromaServer, Server, chroma_command
from _timing import report, report_machine
from _tiny import TINY, folder, sized
from collection import RECALL, Bitkin, Chroma, Figures, Groups, K, Rows, write_rows

PARTS = ("load", "rivals")
ROWS, RIVAL_ROWS = sized((1_000_000, [100_000, 1_000_000]), (500, [400]))
SECONDS, ROUNDS = sized((4.0, 3), (0.05, 1))
CONNECTIONS = sized((1, 8, 32), (1, 2))
FEW = CONNECTIONS[1]
BATCH = sized(64, 4)
"""Queries in one request."""
LONE_GOAL, P99_GOAL, BATCH_GOAL = 150, 100, 4
OVERSAMPLES = (5, 10, 20, 30, 40, 50, 70, 100, 150, 200)
"""Of bitkin, cheapest first, where a recall is to be reached."""

LOAD_CASES = [
    *(Case("lists", n) for n in CONNECTIONS),
    *(Case("base64", n) for n in CONNECTIONS),
    Case("bytes", FEW),
    *(Case("base64", n, metadata=True) for n in CONNECTIONS[:2]),
    *(Case("base64", n, filtered=True) for n in CONNECTIONS[:2]),
    *(Case("base64", n, BATCH) for n in CONNECTIONS[:2]),
    Case("lists", 1, BATCH),
]
RIVAL_CASES = [
    *(Case("lists", n) for n in CONNECTIONS),
    *(Case("lists", n, BATCH) for n in CONNECTIONS[:2]),
    *(Case("lists", n, filtered=True) for n in CONNECTIONS[:2]),
]


@dataclass(slots=True)
class Measured:
    """What one case came to, round after round."""

    per_second: list[float] = field(default_factory=list)
    """Queries."""
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    """Milliseconds per request."""
    cpu: list[float] = field(default_factory=list)
    sender_cpu: list[float] = field(default_factory=list)
    """Milliseconds per query."""
    load: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    found: dict[int, tuple[list[int], list[float]]] = field(default_factory=dict)
    """By query."""

    def add(self, answered: Answered, cpu: float, case: Case) -> None:
        """Note one round."""
        n_queries = max(1, len(answered.latencies)) * case.size
        taken = 1e3 * np.array(answered.latencies or [np.nan])
        self.per_second.append(n_queries / max(answered.seconds, 1e-9))
        self.p50.append(float(np.percentile(taken, 50)))
        self.p99.append(float(np.percentile(taken, 99)))
        self.cpu.append(1e3 * cpu / n_queries)
        self.sender_cpu.append(1e3 * answered.cpu / n_queries)
        self.load.append(os.getloadavg()[0])
        self.errors += answered.errors

    def figures(self) -> Figures:
        """Return medians, and how far rounds lie apart."""
        return {
            "queries_per_second": float(np.median(self.per_second)),
            "least_and_most": [round(min(self.per_second), 1), round(max(self.per_second), 1)],
            "p50_ms": float(np.median(self.p50)),
            "p99_ms": float(np.median(self.p99)),
            "p99_most_ms": max(self.p99),
            "cpu_ms": float(np.median(self.cpu)),
            "sender_cpu_ms": float(np.median(self.sender_cpu)),
            "errors": len(self.errors),
            "first_errors": self.errors[:2],
            "rounds": len(self.per_second),
            "load": float(np.median(self.load)),
        }


def run_case(
    server: Server, sender: LoadGenerator, queries: Rows, case: Case, seconds: float, into: Measured
) -> None:
    """Send one case to a server for a while."""
    starts = range(0, len(queries) - case.size + 1, case.size)
    requests = [server.request(queries[first : first + case.size], case) for first in starts]
    sender.send(Load(server.port, requests[:FEW], case.connections, seconds / 8))
    cpu = server.cpu()
    answered = sender.send(Load(server.port, requests, case.connections, seconds))
    into.add(answered, server.cpu() - cpu, case)
    for number, body in answered.bodies.items():
        ids, distances = server.read(body)
        for query, found in enumerate(zip(ids, distances, strict=True)):
            into.found[number * case.size + query] = found


def n_different(measured: Measured, hits: Any) -> int:
    """Count the queries whose answer is not what a collection found in this process."""
    ids, distances = hits.ids.tolist(), hits.distances.tolist()
    padded = [(row, row.index(-1) if -1 in row else len(row)) for row in ids]
    return sum(
        found != (padded[query][0][: padded[query][1]], distances[query][: padded[query][1]])
        for query, found in measured.found.items()
    )


def recall_of(measured: Measured, truth: Groups) -> float:
    """Return the share of true neighbours among what was answered."""
    shares = [
        len(set(ids) & set(truth[query].tolist())) / truth.shape[1]
        for query, (ids, _) in measured.found.items()
    ]
    return float(np.mean(shares))


def prepared(place: Path, n: int, store: Bitkin | Chroma) -> Path:
    """Return the folder of a store of `n` rows, made unless it is there."""
    data, kept = place / str(n) / "data", place / str(n) / store.name.partition(" ")[0]
    if not (data / "queries.npz").exists():
        data.mkdir(parents=True, exist_ok=True)
        write_rows(data, n)
    if not kept.exists():
        begun = kept.with_name(f"{kept.name}-begun")
        shutil.rmtree(begun, ignore_errors=True)
        start = time.perf_counter()
        store.fill(data, begun, n)
        report("made", store=store.name, rows=n, seconds=time.perf_counter() - start)
        begun.rename(kept)
    return kept


def read_queries(place: Path, n: int) -> tuple[Rows, Groups]:
    with np.load(place / str(n) / "data" / "queries.npz") as stored:
        return stored["queries"], stored["truth"]


def load(place: Path, n: int, rounds: int, seconds: float, sender: LoadGenerator) -> None:
    """Compare the service with its goals."""
    kept = prepared(place, n, Bitkin())
    queries, truth = read_queries(place, n)
    with bitkin.Collection.open(kept, read_only=True) as collection:
        plain = collection.search(queries, K)
        filtered = collection.search(queries, K, where=WHERE)
    measured: dict[Case, Measured] = defaultdict(Measured)
    resident = []
    for _ in range(rounds):
        with contextlib.closing(BitkinServer(kept)) as server:
            for case in LOAD_CASES:
                run_case(server, sender, queries, case, seconds, measured[case])
            resident.append(server.resident())
    for case in LOAD_CASES:
        one = measured[case]
        report(
            case.name, server="bitkin", rows=n, connections=case.connections, **one.figures(),
            different=n_different(one, filtered if case.filtered else plain),
            compared=len(one.found), memory_mb=float(np.median(resident)),
        )  # fmt: skip
    report_goals(n, measured, truth)


def report_goals(n: int, measured: dict[Case, Measured], truth: Groups) -> None:
    """Compare with the goals; batches by both readings of "4 times that"."""
    figures = {case: one.figures() for case, one in measured.items()}
    lists, packed = figures[Case("lists", FEW)], figures[Case("base64", FEW)]
    lone = lists["queries_per_second"]
    p99 = max(lists["p99_ms"], packed["p99_ms"])
    batched = max(one["queries_per_second"] for case, one in figures.items() if case.size > 1)
    report(
        "goals", rows=n, connections=FEW, recall=recall_of(measured[LOAD_CASES[0]], truth),
        lone_per_second=lone, p99_ms=p99, batched_per_second=batched, ratio=batched / lone,
        goals={"lone": LONE_GOAL, "p99_ms": P99_GOAL, "batched": BATCH_GOAL * LONE_GOAL,
               "batched, by lone as measured": BATCH_GOAL * lone},
        met={"lone": lone >= LONE_GOAL, "p99_ms": p99 < P99_GOAL,
             "batched": batched >= BATCH_GOAL * LONE_GOAL,
             "batched, by lone as measured": batched >= BATCH_GOAL * lone},
    )  # fmt: skip


def rivals(place: Path, n: int, rounds: int, seconds: float, sender: LoadGenerator) -> None:
    """Send the same queries to both servers in turn."""
    lacking = Chroma.lacking() or (None if chroma_command() else "no chroma command")
    if lacking:
        report("left out", server="chromadb", rows=n, reason=lacking)
        return
    ours, theirs = prepared(place, n, Bitkin()), prepared(place, n, Chroma())
    queries, truth = read_queries(place, n)
    with bitkin.Collection.open(ours, read_only=True) as collection:
        reached = {
            oversample: bitkin.evaluate.recall(
                collection.search(queries, K, oversample=oversample).ids, truth
            )
            for oversample in (None, *OVERSAMPLES)
        }
    enough = next((one for one in OVERSAMPLES if reached[one] >= RECALL), OVERSAMPLES[-1])
    for oversample in (None, enough):
        effort = cheapest_effort(theirs, sender, queries, truth, reached[oversample])
        measured: dict[tuple[str, Case], Measured] = defaultdict(Measured)
        resident: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            with (
                contextlib.closing(BitkinServer(ours, oversample)) as bitkin_server,
                contextlib.closing(ChromaServer(theirs)) as chroma_server,
            ):
                servers: list[Server] = [bitkin_server, chroma_server]
                for case in RIVAL_CASES:
                    for server in servers:
                        into = measured[server.name, case]
                        run_case(server, sender, queries, case, seconds, into)
                for server in servers:
                    resident[server.name].append(server.resident())
        for case in RIVAL_CASES:
            rates = {}
            for name, setting in (("bitkin", oversample), ("chromadb", effort)):
                one = measured[name, case]
                figures = one.figures()
                rates[name] = figures["queries_per_second"]
                if not case.filtered:
                    figures["recall"] = recall_of(one, truth)
                report(
                    case.name, server=name, rows=n, connections=case.connections, effort=setting,
                    **figures, memory_mb=float(np.median(resident[name])),
                )  # fmt: skip
            report(
                f"{case.name}: bitkin beside chromadb", rows=n, connections=case.connections,
                recall=reached[oversample], ratio=rates["bitkin"] / rates["chromadb"],
            )  # fmt: skip


def cheapest_effort(
    kept: Path, sender: LoadGenerator, queries: Rows, truth: Groups, recall: float
) -> int:
    """Return the least ef_search that reaches a recall, and leave it set."""
    for effort in Chroma.efforts:
        with contextlib.closing(ChromaServer(kept)) as server:
            server.set_effort(effort)
        with contextlib.closing(ChromaServer(kept)) as server:
            measured = Measured()
            run_case(server, sender, queries, Case("lists", 1, len(queries)), 0.01, measured)
        if recall_of(measured, truth) >= recall:
            break
    return effort


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="[default: all]")
    parser.add_argument("--rows", type=int, nargs="*", default=None, help="of every part")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="new server processes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of every case and round")
    parser.add_argument(
        "--folder", type=Path, default=None, help="for the rows [default: /tmp/bitkin-service]"
    )
    given = parser.parse_args()
    place = given.folder or Path(tempfile.gettempdir()) / "bitkin-service"
    place = folder() / "service" if TINY else place
    report_machine(processors=os.cpu_count(), load=os.getloadavg()[0])
    with load_generator() as sender:
        for part in given.parts or PARTS:
            for n in given.rows or ([ROWS] if part == "load" else RIVAL_ROWS):
                job = load if part == "load" else rivals
                job(place, n, given.rounds, given.seconds, sender)


if __name__ == "__main__":
    main()
