"""How fast CellIndex is beside FAISS's IndexBinaryIVF at equal recall, one thread, in CPU time.

Codes are made from a real data set by noise (`_clustered`). Recall is that of each index's own
codes: found rows no farther than the true tenth. Every index gets the fewest probes that reach it.
FAISS trains its lists itself, with 1,024 and 4,096 of them; the faster one at a recall counts.
Then filters that keep 1 % and 50 % of the rows, beside FAISS's IndexBinaryFlat with an IDSelector,
which IndexBinaryIVF refuses; adds of 10,000 at a time; and searches after those adds.

    python bench/cells.py            all lengths; training FAISS takes minutes
    python bench/cells.py 256        one length
    python bench/cells.py 256 --keep FOLDER    write FAISS's lists there, and read them next time
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _clustered import K, clustered
from _timing import interleaved, report
from _tiny import sized
from bitkin import CellIndex, Codes, FlatIndex

ROWS = sized(1_000_000, 20_000)
QUERIES = sized(1000, 40)
LONE = sized(200, 5)
LISTS = sized((1024, 4096), (64,))
FILTERED = sized(100, 5)  # queries of FAISS's scan
ADDED = sized(200_000, 2_000)
ADDED_AT_ONCE = sized(10_000, 500)
RECALLS = (0.95, 0.99)

Distances = npt.NDArray[np.int32]
Search = Callable[[int], Distances]
Jobs = dict[str, Callable[[], Any]]


def main() -> None:
    """Print a line per length, recall and way of asking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bits", type=int, nargs="*", default=sized([64, 128, 256], [64]))
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    bitkin.set_threads(1)
    faiss.omp_set_num_threads(1)
    for n_bits in chosen.bits:
        made = clustered("fashion_mnist", ROWS, n_bits, 2 * QUERIES, np.random.default_rng(0))
        compare(made.codes, made.queries[:QUERIES], n_bits, chosen.keep)


def compare(codes: Codes, queries: Codes, n_bits: int, keep: Path | None) -> None:
    """Compare all indexes on codes of one length."""
    scan = FlatIndex(codes.spec)
    scan.add(codes)
    index = CellIndex(codes.spec)
    begin = time.process_time()
    index.add(codes)
    built = time.process_time() - begin
    lists = {n: _trained(codes, n_bits, n, keep) for n in LISTS}
    facts: dict[str, Any] = {"bits": n_bits, "rows": len(codes), "cells": index.n_cells}
    report("cells: build", **facts, seconds=built, bytes_per_row=index.nbytes / len(codes))
    far = scan.search(queries, K).distances[:, -1:]
    for wanted in RECALLS:
        _at_recall(index, lists, queries, far, wanted, facts)
    _filtered(index, scan, codes, queries, facts)
    _added(index, codes, queries, facts)


def _trained(codes: Codes, n_bits: int, n_lists: int, keep: Path | None) -> Any:
    path = None if keep is None else keep / f"faiss{n_bits}_{n_lists}"
    if path is not None and path.exists():
        return faiss.read_index_binary(str(path))
    lists = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(n_bits), n_bits, n_lists)
    lists.cp.niter, lists.cp.max_points_per_centroid = 8, 40
    rows = codes.to_bytes()
    lists.train(rows[np.random.default_rng(0).permutation(len(rows))[: 40 * n_lists]])
    lists.add(rows)
    if path is not None:
        faiss.write_index_binary(lists, str(path))
    return lists


def _at_recall(
    index: CellIndex,
    lists: dict[int, Any],
    queries: Codes,
    far: Distances,
    wanted: float,
    facts: dict[str, Any],
) -> None:
    asked = queries.to_bytes()
    one_by_one = [queries[i : i + 1] for i in range(LONE)]
    bytes_of_one = [asked[i : i + 1] for i in range(LONE)]

    def listed(n: int, rows: npt.NDArray[np.uint8], probes: int) -> Distances:
        lists[n].nprobe = probes
        found: Distances = lists[n].search(rows, K)[0]
        return found

    probes = _fewest(lambda p: index.search(queries, K, probes=p).distances, far, wanted)
    theirs = {n: _fewest(partial(listed, n, asked), far, wanted) for n in lists}
    batches: Jobs = {"cells": lambda: index.search(queries, K, probes=probes)}
    lone: Jobs = {"cells": lambda: [index.search(one, K, probes=probes) for one in one_by_one]}
    for n in lists:
        batches[f"faiss {n}"] = partial(listed, n, asked, theirs[n])
        lone[f"faiss {n}"] = partial(
            _one_by_one, partial(listed, n, probes=theirs[n]), bytes_of_one
        )
    for way, jobs, count in (("batch", batches, len(queries)), ("lone", lone, LONE)):
        seconds = interleaved(jobs, clock=time.process_time)
        micros = {name: 1e6 * taken / count for name, taken in seconds.items()}
        best = min(value for name, value in micros.items() if name != "cells")
        report(
            f"cells: {way}",
            **facts,
            recall=wanted,
            probes=probes,
            probes_of_faiss=theirs,
            scanned=float(index.count_candidates(queries, probes=probes).mean()),
            microseconds={name: round(value, 1) for name, value in micros.items()},
            ratio=best / micros["cells"],
            wanted=1.5,
        )


def _one_by_one(search: Callable[[Any], Any], queries: list[Any]) -> None:
    for query in queries:
        search(query)


def _fewest(search: Search, far: Distances, wanted: float) -> int:
    """Return the fewest probes that reach a recall."""
    low, high = 0, 1
    while (search(high) <= far).mean() < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if (search(middle) <= far).mean() < wanted:
            low = middle
        else:
            high = middle
    return high


def _selecting(marks: npt.NDArray[np.uint8]) -> Any:
    """Return FAISS's parameters for rows whose bits are set; its types know nothing of arrays."""
    select: Any = faiss
    return select.SearchParameters(sel=select.IDSelectorBitmap(marks))


def _filtered(
    index: CellIndex, scan: FlatIndex, codes: Codes, queries: Codes, facts: dict[str, Any]
) -> None:
    """Filters that keep a share of the rows, with the usual probes."""
    flat = faiss.IndexBinaryFlat(codes.spec.n_symbols)
    flat.add(codes.to_bytes())
    asked = queries.to_bytes()[:FILTERED]
    for share in (0.01, 0.5):
        drawn = np.random.default_rng(0).permutation(len(index))
        allow = np.sort(drawn[: int(share * len(index))])
        marks = np.packbits(np.isin(np.arange(len(index)), allow), bitorder="little")
        chosen = _selecting(marks)
        far = scan.search(queries, K, allow=allow).distances[:, -1:]
        found = index.search(queries, K, allow=allow)
        one_by_one = [queries[i : i + 1] for i in range(max(1, LONE // 10))]
        seconds = interleaved(
            {
                "cells": partial(index.search, queries, K, allow=allow),
                "cells, one query": partial(
                    _one_by_one, partial(index.search, k=K, allow=allow), one_by_one
                ),
                "flat": partial(scan.search, queries, K, allow=allow),
                "faiss flat": partial(flat.search, asked, K, params=chosen),
            },
            rounds=5,
            clock=time.process_time,
        )
        counts = {"cells, one query": len(one_by_one), "faiss flat": len(asked)}
        micros = {
            name: round(1e6 * taken / counts.get(name, len(queries)), 1)
            for name, taken in seconds.items()
        }
        report(
            "cells: filter",
            **facts,
            keeps=share,
            recall=float((found.distances <= far).mean()),
            recall_of_all=float(
                (
                    index.search(queries, K).distances <= scan.search(queries, K).distances[:, -1:]
                ).mean()
            ),
            microseconds=micros,
            ratio_to_scan=micros["flat"] / micros["cells"],
            ratio_to_faiss=micros["faiss flat"] / micros["cells"],
        )


def _added(index: CellIndex, codes: Codes, queries: Codes, facts: dict[str, Any]) -> None:
    """Adds behind all rows; the codes are those that are there already, under new ids."""
    begin = time.process_time()
    for first in range(0, ADDED, ADDED_AT_ONCE):
        index.add(codes[first : first + ADDED_AT_ONCE])
    seconds = time.process_time() - begin
    per_second = ADDED / seconds
    report("cells: add", **facts, at_once=ADDED_AT_ONCE, per_second=per_second,
           ratio=per_second / 300_000, wanted=1.0)  # fmt: skip
    one_by_one = [queries[i : i + 1] for i in range(LONE)]
    grown = _micros_per_query(index, queries, one_by_one)
    index.compact()
    compacted = _micros_per_query(index, queries, one_by_one)
    report("cells: after adds", **facts, added=ADDED, microseconds=grown,
           microseconds_compacted=compacted)  # fmt: skip


def _micros_per_query(
    index: CellIndex, queries: Codes, one_by_one: list[Codes]
) -> dict[str, float]:
    """Return microseconds per query with the usual probes."""
    seconds = interleaved(
        {
            "batch": partial(index.search, queries, K),
            "lone": lambda: [index.search(one, K) for one in one_by_one],
        },
        clock=time.process_time,
    )
    counts = {"batch": len(queries), "lone": len(one_by_one)}
    return {name: round(1e6 * taken / counts[name], 1) for name, taken in seconds.items()}


if __name__ == "__main__":
    main()
