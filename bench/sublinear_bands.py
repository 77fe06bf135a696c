"""Where do inverted bands pay, and how do they stand beside FAISS's binary indexes at equal recall?

    python bench/sublinear_bands.py                 Fashion-MNIST, then 1,000,000 codes
    python bench/sublinear_bands.py --quick         Fashion-MNIST, 500 queries: two minutes
    python bench/sublinear_bands.py --only million  one part: wta16, wta4, projection or million

One thread each, all interleaved in one process, CPU time of the best of several rounds: the machine
may be busy. FAISS compares bits, we compare symbols, so recall is told twice: `own`, against the
exact answer in the index's own distance (a row as near as the k-th counts), and `euclid`, against
the true Euclidean neighbours. All settings are searched once; of those of ours and of each of
theirs that reach a recall, the three that were fastest then are timed in turn, and the fastest of
them is told.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _clustered import clustered
from _data import data_file
from _timing import report
from _tiny import sized
from bitkin import BandIndex, Codes, FlatIndex

K = 10
RECALLS = (0.8, 0.9, 0.95)
OURS_WANTED = 2.0
BUDGETS = sized((250, 500, 1000, 2000, 4000, 8000), (50, 100))
BUDGETS_OF_MANY = sized((4000, 8000, 16_000, 32_000), (100, 200))
MANY_ROWS = sized(500_000, 1000)
FINALISTS = 3
ENOUGH = 0.97  # settings that look at more than those that find so much are not tried
QUICK = "wta16"
MILLION = "million"


@dataclass
class Run:
    """One index with one setting."""

    kind: str
    setting: str
    search: Callable[[], tuple[Any, Any]]
    """Return distances and ids, in this order as FAISS does."""
    bytes_a_row: float
    candidates: float = 0.0
    own: float = 0.0
    euclid: float = 0.0
    seconds: float = np.inf

    def timed(self) -> tuple[Any, Any]:
        """Search, and remember the least CPU time it took."""
        start = time.thread_time()
        found = self.search()
        self.seconds = min(self.seconds, time.thread_time() - start)
        return found


class Truth:
    """The exact answers: by symbols for ours, by bits for theirs, and by vectors."""

    def __init__(self, rows: Codes, queries: Codes, euclid: npt.NDArray[np.int64] | None) -> None:
        flat, peer = FlatIndex(rows.spec), faiss.IndexBinaryFlat(8 * rows.to_bytes().shape[1])
        flat.add(rows)
        peer.add(rows.to_bytes())
        self.by_symbols = flat.search(queries, K).distances[:, -1:]
        self.by_bits = peer.search(queries.to_bytes(), K)[0][:, -1:]
        self.euclid = euclid

    def judge(self, run: Run) -> Run:
        """Search once, and tell how much is found."""
        distances, ids = run.timed()
        limits = self.by_symbols if run.kind in ("flat", "bands") else self.by_bits
        run.own = float(((distances <= limits) & (ids >= 0)).mean())
        if self.euclid is not None:
            run.euclid = float((ids[:, :, None] == self.euclid[:, None, :]).any(axis=1).mean())
        return run


def ours(rows: Codes, queries: Codes, truth: Truth) -> Iterator[Run]:
    bits = rows.spec.bits_per_symbol
    flat = FlatIndex(rows.spec)
    flat.add(rows)
    yield truth.judge(
        Run("flat", "", lambda: flat.search(queries, K)[::-1], flat.nbytes / len(rows), len(rows))
    )
    many = len(rows) > MANY_ROWS
    widths: tuple[int, ...] = (12, 14, 16, 20) if many else (10, 12, 14, 16, 20, 24, 32)
    widths = sized(widths, widths[:2])
    for symbols in sorted({max(1, width // bits) for width in widths}):
        tabled = BandIndex(rows.spec, symbols * bits)
        tabled.add(rows)
        tabled.search(queries[:1], K)  # compiles
        one = symbols * (2**bits - 1)
        for probes in (0, one) if one <= 64 else (0,):
            for budget in BUDGETS_OF_MANY if many else BUDGETS:
                index = BandIndex(rows.spec, symbols * bits, probes=probes, budget=budget)
                # tables do not depend on probes and budget: built once a width
                index.adopt(tabled.snapshot)
                name = f"band_bits={symbols * bits} probes={probes} budget={budget}"

                def search(index: BandIndex = index) -> tuple[Any, Any]:
                    return index.search(queries, K)[::-1]

                run = truth.judge(Run("bands", name, search, index.nbytes / len(rows)))
                run.candidates = float(
                    index.nearest_and_counts(index.snapshot, queries, K, None, least=1)[1].mean()
                )
                yield run
                if run.own > ENOUGH or run.candidates < budget / 2:
                    break


def theirs(rows: Codes, queries: Codes, truth: Truth) -> Iterator[Run]:
    data, asked = rows.to_bytes(), queries.to_bytes()
    n_bits = 8 * data.shape[1]
    many = len(rows) > MANY_ROWS
    for n_lists in sized((1024,) if many else (128, 256, 512), (4,)):
        index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(n_bits), n_bits, n_lists)
        index.train(data[:: max(1, len(data) // 60_000)])
        index.add(data)
        for n_probe in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):

            def search(index: Any = index, n_probe: int = n_probe) -> tuple[Any, Any]:
                index.nprobe = n_probe
                found: tuple[Any, Any] = index.search(asked, K)
                return found

            size = data.shape[1] + 8 + n_lists * data.shape[1] / len(rows)
            looked = len(rows) * n_probe / n_lists
            run = truth.judge(Run("ivf", f"nlist={n_lists} nprobe={n_probe}", search, size, looked))
            yield run
            if run.own > ENOUGH:
                break
    for width, n_hash in (
        ((20, 12), (24, 8)) if many else ((14, 8), (14, 16), (16, 16), (20, 12), (24, 8))
    ):
        if width * n_hash > n_bits:
            continue
        hashes = faiss.IndexBinaryMultiHash(n_bits, n_hash, width)
        hashes.add(data)
        for n_flip in (0, 1, 2):

            def probe(index: Any = hashes, n_flip: int = n_flip) -> tuple[Any, Any]:
                index.nflip = n_flip
                found: tuple[Any, Any] = index.search(asked, K)
                return found

            stats: Any = faiss.cvar.indexBinaryHash_stats  # type: ignore[attr-defined]
            stats.reset()
            size = data.shape[1] + 8 * n_hash  # row numbers alone: its maps take more
            run = truth.judge(
                Run("multihash", f"b={width} nhash={n_hash} nflip={n_flip}", probe, size)
            )
            run.candidates = stats.ndis / len(asked)
            yield run
            if run.own > 0.9 or run.candidates > len(rows) / 8:
                break


def compare(
    name: str, rows: Codes, queries: Codes, euclid: npt.NDArray[np.int64] | None, rounds: int
) -> None:
    kept = np.flatnonzero(~queries.empty_rows())
    queries, euclid = queries[kept], None if euclid is None else euclid[kept]
    truth = Truth(rows, queries, euclid)
    runs = [*ours(rows, queries, truth), *theirs(rows, queries, truth)]
    exact = runs[0]
    measures: dict[str, tuple[float, ...]] = {"own": RECALLS}
    if euclid is not None:
        best = max(run.euclid for run in runs if run.kind == "ivf")
        measures["euclid"] = tuple(round(share * best, 3) for share in RECALLS)
    finals = {
        (kind, measure, level): sorted(
            (run for run in runs if run.kind == kind and getattr(run, measure) >= level),
            key=lambda run: run.seconds,
        )[:FINALISTS]
        for kind in ("bands", "ivf", "multihash")
        for measure, levels in measures.items()
        for level in levels
    }
    timed = {id(run): run for some in finals.values() for run in some} | {id(exact): exact}
    for _ in range(rounds):
        for run in timed.values():
            run.timed()
    spec = str(rows.spec)
    for run in sorted(runs, key=lambda run: (run.kind, run.own)):
        report(
            "curve",
            codes=name,
            spec=spec,
            rows=len(rows),
            index=run.kind,
            setting=run.setting,
            own=run.own,
            euclid=run.euclid,
            rows_looked_at=run.candidates,
            us=1e6 * run.seconds / len(queries),
            rounds=rounds + 1 if id(run) in timed else 1,
            bytes_a_row=run.bytes_a_row,
        )
    for measure, levels in measures.items():
        for level in levels:
            fastest = {
                kind: min(finals[kind, measure, level], key=lambda run: run.seconds, default=None)
                for kind in ("bands", "ivf", "multihash")
            }
            bands = fastest["bands"]
            for rival in ("ivf", "multihash"):
                other = fastest[rival]
                report(
                    f"bands against {rival}",
                    codes=name,
                    spec=spec,
                    rows=len(rows),
                    measure=measure,
                    recall=level,
                    ours=bands and bands.setting,
                    ours_us=bands and 1e6 * bands.seconds / len(queries),
                    ours_bytes=bands and bands.bytes_a_row,
                    theirs=other and other.setting,
                    theirs_us=other and 1e6 * other.seconds / len(queries),
                    theirs_bytes=other and other.bytes_a_row,
                    scan_us=1e6 * exact.seconds / len(queries),
                    ratio=other.seconds / bands.seconds if bands and other else float("nan"),
                    wanted=OURS_WANTED,
                )


def fashion_hashers() -> dict[str, tuple[str, bitkin.WTAHash | bitkin.ProjectionHash]]:
    return {
        QUICK: ("WTA K=16 p=4, 64 symbols", bitkin.WTAHash(64, 16, degree=4)),
        "wta4": ("WTA K=4 p=1, 128 symbols, not densified", bitkin.WTAHash(128, 4, densify=None)),
        "projection": (
            "PCA + random rotation, 256 bits",
            bitkin.ProjectionHash(256, rotation="random"),
        ),
    }


def fashion(parts: list[str], n_queries: int, rounds: int) -> None:
    with np.load(data_file("fashion_mnist.npz")) as stored:
        X = stored["X_train"].reshape(len(stored["X_train"]), -1).astype(np.float32)
        Q = stored["X_test"].reshape(len(stored["X_test"]), -1).astype(np.float32)[:n_queries]
    truth = bitkin.evaluate.nearest(X, Q, K).ids
    for part, (name, hasher) in fashion_hashers().items():
        if part in parts:
            hasher.fit(X)
            compare(name, hasher.encode(X), hasher.encode(Q), truth, rounds)


def million(n_queries: int, rounds: int) -> None:
    """Codes of 256 bits that lie to each other like those of real vectors."""
    made = clustered(
        "glove100_100k", sized(1_000_000, 2000), 256, n_queries, np.random.default_rng(0)
    )
    compare("GloVe by noise, 256 bits", made.codes, made.queries, None, rounds)


def main() -> None:
    everything = [*fashion_hashers(), MILLION]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=everything)
    arguments = parser.parse_args()
    quick = arguments.quick
    parts = [arguments.only] if arguments.only else [QUICK] if quick else everything
    faiss.omp_set_num_threads(1)
    bitkin.set_threads(1)
    if parts != [MILLION]:
        fashion(parts, 500 if quick else 1000, 3 if quick else 7)
    if MILLION in parts:
        million(200 if quick else 500, 3)


if __name__ == "__main__":
    main()
