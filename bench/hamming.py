"""Is exact search over binary codes faster than FAISS, and how near is it to the speed of memory?

    python bench/hamming.py            all questions
    python bench/hamming.py --quick    a tenth of the rows

Both sides run interleaved in this process, one thread each, and their answers are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _timing import interleaved, report, report_machine
from _tiny import sized
from bitkin import Codes, CodeSpec, FlatIndex
from bitkin.threads import available_cores

RATIOS_WANTED = sized({64: 6.0, 128: 4.0, 256: 3.3, 512: 2.5, 1024: 2.5}, {64: 6.0, 512: 2.5})
SINGLE_WANTED = {64: 2.0, 128: 1.5, 256: 1.15, 512: 1.15, 1024: 1.15}
SHARE_WANTED = 0.85  # of the speed at which one thread reads memory


def random_bytes(rng: np.random.Generator, n: int, n_bits: int) -> npt.NDArray[np.uint8]:
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def require_equal(
    index: FlatIndex,
    codes: Codes,
    ours: bitkin.Neighbors,
    distances: npt.NDArray[np.int32],
    ids: npt.NDArray[np.int64],
) -> None:
    """Distances equal; ids equal up to the order of ties, and in the last group each at the
    distance it claims.
    """
    if not np.array_equal(ours.distances, distances):
        raise SystemExit("distances differ from FAISS")
    for row in range(len(ids)):
        if not np.array_equal(
            bitkin.distances(codes[row], index.codes(ours.ids[row]))[0], ours.distances[row]
        ):
            raise SystemExit(f"ids of query {row} are not at the distances given")
    inner = ours.distances < ours.distances[:, -1:]
    for row in range(len(ids)):
        if set(ours.ids[row][inner[row]].tolist()) != set(ids[row][inner[row]].tolist()):
            raise SystemExit(f"ids differ from FAISS for query {row}")


def against_faiss(n: int, n_bits: int, rng: np.random.Generator, bandwidth: float) -> None:
    rows, queries = random_bytes(rng, n, n_bits), random_bytes(rng, 100, n_bits)
    peer = faiss.IndexBinaryFlat(n_bits)
    peer.add(rows)
    codes = Codes.from_bytes(queries, n_bits)
    index = FlatIndex(codes.spec)
    index.add(Codes.from_bytes(rows, n_bits))
    for k in sized((1, 10, 100, 1000, 10_000), (1, 10)):
        many_at_once(index, peer, codes, queries, k)
    one_at_a_time(index, peer, codes, queries, bandwidth)


def many_at_once(
    index: FlatIndex, peer: Any, codes: Codes, queries: npt.NDArray[np.uint8], k: int
) -> None:
    n_bits = codes.spec.n_bits
    require_equal(index, codes, index.search(codes, k), *peer.search(queries, k))
    jobs = {"ours": lambda: index.search(codes, k), "faiss": lambda: peer.search(queries, k)}
    times = interleaved(jobs, rounds=9 if k <= 10 else 5)
    report(
        "100 queries",
        n_bits=n_bits,
        rows=len(index),
        k=k,
        ours_ms=1e3 * times["ours"],
        faiss_ms=1e3 * times["faiss"],
        ratio=times["faiss"] / times["ours"],
        wanted=RATIOS_WANTED[n_bits] if k == 10 else 1.5 if k == 1000 else None,
    )


def one_at_a_time(
    index: FlatIndex, peer: Any, codes: Codes, queries: npt.NDArray[np.uint8], bandwidth: float
) -> None:
    singles, single_bytes = [codes[i] for i in range(20)], [queries[i : i + 1] for i in range(20)]
    times = interleaved(
        {
            "ours": lambda: [index.search(one, 10) for one in singles],
            "faiss": lambda: [peer.search(one, 10) for one in single_bytes],
            "ours once": lambda: index.search(singles[0], 10),
            "faiss once": lambda: peer.search(single_bytes[0], 10),
        },
        rounds=15,
    )
    ours, n_bytes = times["ours"] / len(singles), len(index) * codes.spec.n_bytes
    report(
        "one query at a time",
        n_bits=codes.spec.n_bits,
        rows=len(index),
        k=10,
        ours_ms=1e3 * ours,
        faiss_ms=1e3 * times["faiss"] / len(singles),
        ratio=times["faiss"] / times["ours"],
        ratio_with_cold_cache=times["faiss once"] / times["ours once"],
        wanted=SINGLE_WANTED[codes.spec.n_bits],
        gb_s=n_bytes / ours / 1e9,
        share_of_read_bandwidth=n_bytes / ours / bandwidth,
        share_wanted=SHARE_WANTED,
    )


def more_threads(n: int, n_bits: int, rng: np.random.Generator) -> None:
    """One query and a batch with 1, 2, … threads, up to all cores: more must never be slower."""
    index = FlatIndex(CodeSpec(n_bits))
    index.add(Codes.from_bytes(random_bytes(rng, n, n_bits), n_bits))
    queries = Codes.from_bytes(random_bytes(rng, 100, n_bits), n_bits)
    counts = sorted({1, 2, *(2**i for i in range(2, 7) if 2**i <= available_cores())})
    for asked in (queries[:1], queries):
        times: dict[int, list[float]] = {n_threads: [] for n_threads in counts}
        for _ in range(sized(15, 1)):
            for n_threads, taken in times.items():
                bitkin.set_threads(n_threads)
                index.search(asked, 10)  # starts the threads
                start = time.perf_counter()
                index.search(asked, 10)
                taken.append(time.perf_counter() - start)
        medians = {n_threads: float(np.median(taken)) for n_threads, taken in times.items()}
        report(
            "more threads",
            n_bits=n_bits,
            rows=n,
            queries=len(asked),
            **{f"threads_{n_threads}_ms": 1e3 * taken for n_threads, taken in medians.items()},
            ratio=medians[1] / medians[counts[-1]],
            wanted=1.0 if len(asked) == 1 else 1.7,
        )
    bitkin.set_threads(1)


def planes(n: int, rng: np.random.Generator) -> None:
    def job(spec: CodeSpec) -> Callable[[], object]:
        index = FlatIndex(spec)
        index.add(Codes.from_bytes(random_bytes(rng, n, 256), spec))
        queries = Codes.from_bytes(random_bytes(rng, 100, 256), spec)
        return lambda: index.search(queries, 10)

    jobs = {"one plane": job(CodeSpec(256)), "two planes": job(CodeSpec(128, 2))}
    times = interleaved(jobs, rounds=11)
    report(
        "2-plane symbols against bits",
        n_bits=256,
        rows=n,
        bits_ms=1e3 * times["one plane"],
        symbols_ms=1e3 * times["two planes"],
        cost=times["two planes"] / times["one plane"],
        wanted_at_most=1.3,
    )


def build_and_load(n: int, rng: np.random.Generator) -> None:
    codes = Codes.from_bytes(random_bytes(rng, n, 256), 256)
    start = time.perf_counter()
    index = FlatIndex(codes.spec)
    index.add(codes)
    built = time.perf_counter() - start
    grown = FlatIndex(codes.spec)
    start = time.perf_counter()
    for first in range(0, n, 10_000):
        grown.add(codes[first : first + 10_000])
    grown_time = time.perf_counter() - start
    at_most = 1.2 * n * 32 + 8 * n
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.bitkin"
        start = time.perf_counter()
        index.save(path)
        saved = time.perf_counter() - start
        loads = []
        for _ in range(5):
            start = time.perf_counter()
            mapped = FlatIndex.load(path, mmap=True)
            loads.append(time.perf_counter() - start)
        same = np.array_equal(mapped.search(codes[:5], 10).ids, index.search(codes[:5], 10).ids)
        if not same:
            raise SystemExit("the mapped index answers differently")
        del mapped
    report(
        "build, rest, load",
        rows=n,
        n_bits=256,
        built_s=built,
        built_in_adds_of_10000_s=grown_time,
        wanted_at_most_s=5.0,
        bytes_at_rest=index.nbytes,
        bytes_after_adds_of_10000=grown.nbytes,
        wanted_at_most_bytes=int(at_most),
        saved_s=saved,
        mmap_load_s=float(np.median(loads)),
        wanted_load_s=0.1,
    )


def import_time() -> None:
    code = "import time; s = time.perf_counter(); import bitkin; print(time.perf_counter() - s)"
    times = [
        float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(sized(7, 1))
    ]
    report("import bitkin", seconds=float(np.median(times)), wanted_at_most=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    n = sized(100_000 if parser.parse_args().quick else 1_000_000, 1000)
    faiss.omp_set_num_threads(1)
    bitkin.set_threads(1)
    rng = np.random.default_rng(0)
    bandwidth = report_machine(faiss=faiss.__version__)
    import_time()
    for n_bits in sized((64, 256), (64,)):
        more_threads(n, n_bits, rng)
    planes(n, rng)
    build_and_load(10 * n, rng)
    for n_bits in RATIOS_WANTED:
        against_faiss(n, n_bits, rng, bandwidth)


if __name__ == "__main__":
    main()
