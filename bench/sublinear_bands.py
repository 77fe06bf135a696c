"""Where do inverted bands pay, and how do they stand beside FAISS's binary indexes at equal recall?

    python bench/sublinear_bands.py            Fashion-MNIST codes, then 1,000,000 codes made from GloVe by noise
    python bench/sublinear_bands.py --quick    Fashion-MNIST alone, 500 queries

One thread each, all interleaved in one process, CPU time of the best of several rounds: the machine may be busy. FAISS
compares bits, we compare symbols, so recall is told twice: `own`, against the exact answer in the index's own
distance (a row as near as the k-th counts), and `euclid`, against the true Euclidean neighbours. Of ours and of
each of theirs, the fastest of all settings tried that reaches the recall is taken.
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
from _data import data_file
from _timing import report
from bitkin import BandIndex, Codes, FlatIndex

K = 10
RECALLS = (0.8, 0.9, 0.95)
OURS_WANTED = 2.0


@dataclass
class Run:
    """One index with one setting."""

    kind: str
    setting: str
    search: Callable[[], tuple[Any, Any]]
    candidates: float
    bytes_a_row: float
    own: float = 0.0
    euclid: float = 0.0
    seconds: float = np.inf


def overlap(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
    """Share of the true ids that were found."""
    return float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def ours(rows: Codes, queries: Codes) -> Iterator[Run]:
    bits = rows.spec.bits_per_symbol
    flat = FlatIndex(rows.spec)
    flat.add(rows)
    yield Run("flat", "", lambda: flat.search(queries, K)[::-1], float(len(rows)), flat.nbytes / len(rows))
    for symbols in sorted({max(1, width // bits) for width in (10, 12, 14, 16, 20, 24, 32)}):
        one = symbols * (2**bits - 1)
        for probes in (0, one) if one <= 64 else (0,):
            for share in (1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16):
                budget = round(share * len(rows))
                index = BandIndex(rows.spec, symbols * bits, probes=probes, budget=budget)
                index.add(rows)
                looked = index._nearest_and_looked(index._snapshot, queries, K, None)[1].mean()
                name = f"band_bits={symbols * bits} probes={probes} budget={budget}"

                def search(index: BandIndex = index) -> tuple[Any, Any]:
                    ids, distances = index.search(queries, K)
                    return distances, ids

                yield Run("bands", name, search, looked, index.nbytes / len(rows))


def theirs(rows: Codes, queries: Codes) -> Iterator[Run]:
    data, asked = rows.to_bytes(), queries.to_bytes()
    n_bits = 8 * data.shape[1]
    for n_lists in (64, 256, 1024):
        index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(n_bits), n_bits, n_lists)
        index.train(data[:: max(1, len(data) // 100_000)])
        index.add(data)
        for n_probe in (1, 2, 4, 8, 16, 32):

            def search(index: Any = index, n_probe: int = n_probe) -> tuple[Any, Any]:
                index.nprobe = n_probe
                found: tuple[Any, Any] = index.search(asked, K)
                return found

            size = data.shape[1] + 8
            yield Run("ivf", f"nlist={n_lists} nprobe={n_probe}", search, len(rows) * n_probe / n_lists, size)
    for width in (14, 16, 20, 24):
        for n_hash in (4, 8, 16):
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
                probe()
                size = data.shape[1] + 8 * n_hash  # row numbers alone: its maps take more
                yield Run("multihash", f"b={width} nhash={n_hash} nflip={n_flip}", probe, stats.ndis / len(asked), size)


def compare(name: str, rows: Codes, queries: Codes, euclid: npt.NDArray[np.int64] | None, rounds: int) -> None:
    kept = np.flatnonzero(~queries.empty_rows())
    queries, euclid = queries[kept], None if euclid is None else euclid[kept]
    flat, peer = FlatIndex(rows.spec), faiss.IndexBinaryFlat(8 * rows.to_bytes().shape[1])
    flat.add(rows)
    peer.add(rows.to_bytes())
    limits = {True: flat.search(queries, K).distances[:, -1:], False: peer.search(queries.to_bytes(), K)[0][:, -1:]}
    runs = [*ours(rows, queries), *theirs(rows, queries)]
    for run in runs:
        distances, ids = run.search()
        mine = run.kind in ("flat", "bands")
        run.own = float(((distances <= limits[mine]) & (ids >= 0)).mean())
        run.euclid = 0.0 if euclid is None else overlap(ids, euclid)
    for _ in range(rounds):
        for run in runs:
            start = time.thread_time()
            run.search()
            run.seconds = min(run.seconds, time.thread_time() - start)
    spec = str(rows.spec)
    for run in sorted(runs, key=lambda run: (run.kind, run.own)):
        report(
            "curve", codes=name, spec=spec, rows=len(rows), index=run.kind, setting=run.setting, own=run.own,
            euclid=run.euclid, rows_looked_at=run.candidates, us=1e6 * run.seconds / len(queries),
            bytes_a_row=run.bytes_a_row,
        )  # fmt: skip
    exact = next(run for run in runs if run.kind == "flat")
    measures: dict[str, tuple[float, ...]] = {"own": RECALLS}
    if euclid is not None:
        best = max(run.euclid for run in runs if run.kind == "ivf")
        measures["euclid"] = tuple(round(share * best, 3) for share in RECALLS)
    for measure, levels in measures.items():
        for level in levels:
            fastest = {
                kind: min((r for r in runs if r.kind == kind and getattr(r, measure) >= level),
                          key=lambda r: r.seconds, default=None)
                for kind in ("bands", "ivf", "multihash")
            }  # fmt: skip
            bands = fastest["bands"]
            for rival in ("ivf", "multihash"):
                other = fastest[rival]
                report(
                    f"bands against {rival}", codes=name, spec=spec, rows=len(rows), measure=measure, recall=level,
                    ours=bands and bands.setting, ours_us=bands and 1e6 * bands.seconds / len(queries),
                    theirs=other and other.setting, theirs_us=other and 1e6 * other.seconds / len(queries),
                    scan_us=1e6 * exact.seconds / len(queries),
                    ratio=other.seconds / bands.seconds if bands and other else float("nan"), wanted=OURS_WANTED,
                )  # fmt: skip


def fashion(n_queries: int, rounds: int) -> None:
    stored = np.load(data_file("fashion_mnist.npz"))
    X = stored["X_train"].reshape(60_000, -1).astype(np.float32)
    Q = stored["X_test"].reshape(10_000, -1).astype(np.float32)[:n_queries]
    truth = bitkin.evaluate.nearest(X, Q, K).ids
    for name, hasher in {
        "WTA K=16 p=4, 64 symbols": bitkin.WTAHash(64, 16, degree=4),
        "WTA K=16 p=4, 64 symbols, not densified": bitkin.WTAHash(64, 16, degree=4, densify=None),
        "WTA K=4 p=1, 128 symbols, not densified": bitkin.WTAHash(128, 4, densify=None),
        "PCA + random rotation, 256 bits": bitkin.ProjectionHash(256, rotation="random"),
    }.items():
        hasher.fit(X)
        compare(name, hasher.encode(X), hasher.encode(Q), truth, rounds)


def million(n_queries: int, rounds: int) -> None:
    """GloVe vectors ten times over, each with noise of its own, as 256-bit codes."""
    stored = np.load(data_file("glove100_100k.npz"))
    X = next(stored[key] for key in stored if stored[key].ndim == 2).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    hasher = bitkin.ProjectionHash(256, projection="random", rotation=None).fit(X)
    noisy = [X + rng.normal(0, 0.04, X.shape).astype(np.float32) for _ in range(10)]
    queries = X[rng.choice(len(X), n_queries, replace=False)]
    queries = queries + rng.normal(0, 0.04, queries.shape).astype(np.float32)
    rows = Codes.concatenate([hasher.encode(part) for part in noisy])
    compare("GloVe by noise, 256 bits", rows, hasher.encode(queries), None, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    faiss.omp_set_num_threads(1)
    bitkin.set_threads(1)
    fashion(500 if quick else 2000, 3 if quick else 7)
    if not quick:
        million(500, 3)


if __name__ == "__main__":
    main()
