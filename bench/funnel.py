"""What do the stages of the funnel give and cost, and how do they stand against FAISS's RaBitQ?

    python bench/funnel.py             all questions, about 20 minutes on one core
    python bench/funnel.py goal        Fashion-MNIST, 256 bits: the estimate against the scan alone
    python bench/funnel.py stages      codes, estimate, exact on four sets at 64, 128, 256 bits
    python bench/funnel.py rabitq      recall of the estimate of all rows against IndexRaBitQ and
                                       IndexRaBitQFastScan at equal bytes, by several seeds
    python bench/funnel.py scan        1,000,000 rows by the estimate, against codes and FAISS
    python bench/funnel.py first       a whole search at recall@10 0.95: codes or estimate first

Everything runs in one thread, 1,000 queries at a time; µs a query are medians of interleaved runs
and contain what makes codes of queries. "r10" is the share of the true ten nearest among the first
ten, "r100" among the first hundred.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _rabitq import compare_recalls
from _sets import METRICS, RealSet, real_set
from _timing import interleaved, report
from _tiny import sized
from bitkin import Collection, FlatIndex, Neighbors, ProjectionHash, SignHash, rescore
from bitkin.choices import FIRST_STAGES
from bitkin.cli.machine.doctor import processor_name
from bitkin.evaluate import recall
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate_scan import (
    QUERY_BITS,
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)

BITS: tuple[int, ...] = sized((64, 128, 256), (32, 64))
SHORTLIST = sized(1000, 200)  # rows a query that codes hand to the estimate
NUMBERS = 8  # bytes a vector beside the code: two of float32, as RaBitQ's


class Ours:
    """A fitted hasher, the codes of a set in an index, and their corrections."""

    def __init__(self, data: RealSet, n_bits: int, rotation: str, seed: int = 0) -> None:
        # More bits than features have no principal directions; those are random.
        projection = "pca" if n_bits <= data.rows.shape[1] else "random"
        self.rotation = rotation if projection == "pca" else None
        self.hasher = ProjectionHash(
            n_bits, projection=projection, rotation=self.rotation, random_state=seed
        )
        self.data, codes = data, self.hasher.fit(data.rows).encode(data.rows)
        self.numbers = bitkin.corrections(self.hasher, data.rows, data.metric)
        self.index = FlatIndex(codes.spec)
        self.index.add(codes)

    def codes(self, k: int = 100) -> Neighbors:
        """Return the k nearest by code."""
        return self.index.search(self.hasher.encode(self.data.queries), k)

    def estimate(self, shortlist: int = SHORTLIST) -> Neighbors:
        """Return the first hundred of a shortlist by the estimate."""
        return rescore(
            self.codes(shortlist),
            self.data.queries,
            stage="estimate",
            k=100,
            metric=self.data.metric,
            hasher=self.hasher,
            codes=self.index,
            corrections=self.numbers,
        )

    def collection(self, vectors: str | None) -> Collection:
        """Return a collection of all rows."""
        metric = self.data.metric
        collection = Collection.create(None, self.hasher, metric=metric, vectors=vectors)
        collection.add(self.data.rows)
        return collection

    def exact(self) -> Neighbors:
        """Return the first hundred of the estimate by their vectors."""
        data = self.data
        return rescore(
            self.estimate(), data.queries, stage="exact", metric=data.metric, vectors=data.rows
        )


def recalls(found: npt.NDArray[np.int64], data: RealSet) -> dict[str, float]:
    return {"r10": recall(found[:, :10], data.truth), "r100": recall(found, data.truth)}


def goal() -> None:
    data = real_set("fashion_mnist")
    for seed in range(sized(3, 1)):
        ours = Ours(data, 256, "random", seed)
        jobs: dict[str, Callable[[], Neighbors]] = {"codes": ours.codes}
        jobs |= {f"estimate of {m}": partial(ours.estimate, m) for m in (750, 1000, 1300, 1500)}
        seconds = interleaved(jobs, rounds=9)
        for name, job in jobs.items():
            report(
                f"Fashion-MNIST, 256 bits, random rotation, {name}",
                seed=seed,
                rows=len(data.rows),
                **recalls(job().ids, data),
                us_a_query=1e6 * seconds[name] / len(data.queries),
                times_the_scan=seconds[name] / seconds["codes"],
                wanted_r100=None if name == "codes" else 0.985,
                wanted_at_most_times=None if name == "codes" else 2.0,
            )


def stages() -> None:
    for name in METRICS:
        data = real_set(name)
        for n_bits in BITS:
            for rotation in ("random", "itq") if n_bits <= data.rows.shape[1] else ("random",):
                ours = Ours(data, n_bits, rotation)
                jobs = {"codes": ours.codes, "estimate": ours.estimate, "exact": ours.exact}
                seconds = interleaved(jobs, rounds=3)
                for stage, job in jobs.items():
                    row_bytes = ours.index.spec.n_bytes + (NUMBERS if stage != "codes" else 0)
                    report(
                        "stages",
                        data=name,
                        n_bits=n_bits,
                        rotation=ours.rotation or "none: random directions",
                        stage=stage,
                        **recalls(job().ids, data),
                        us_a_query=1e6 * seconds[stage] / len(data.queries),
                        bytes_a_vector=row_bytes + (data.rows[0].nbytes if stage == "exact" else 0),
                    )


def scan() -> None:
    n_rows, n_bits = sized(1_000_000, 2000), 256
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_rows, n_bits), dtype=np.float32)
    queries = rng.standard_normal((100, n_bits), dtype=np.float32)
    hasher = SignHash(n_bits).fit()
    codes, asked = hasher.encode(rows), hasher.encode(queries)
    index = FlatIndex(codes.spec)
    index.add(codes)
    fast, plain = faiss.IndexRaBitQFastScan(n_bits), faiss.IndexRaBitQ(n_bits)
    for theirs in (fast, plain):
        theirs.train(rows[:10_000])
        theirs.add(rows)
        theirs.qb = 4
    kept = bitkin.corrections(hasher, rows, "l2")
    del rows
    prepared = scorer_for(hasher, "l2").prepare_queries(queries)
    every = EstimateRows.from_stretches(index.snapshot.whole, kept, lambda ids: 0)

    def estimate(k: int) -> Neighbors:
        rounded = QuantizedQueries.from_prepared(prepared, QUERY_BITS)
        return scan_estimates(every, rounded, k, has_small=True)

    for k in (10, 100):
        jobs: dict[str, Callable[[], Any]] = {
            "codes": partial(index.search, asked, k),
            "estimate": partial(estimate, k),
            "RaBitQFastScan": partial(fast.search, queries, k),
            "RaBitQ": partial(plain.search, queries, k),
        }
        seconds = interleaved(jobs, rounds=7, clock=time.process_time)
        sizes = {"processor": processor_name(), "rows": n_rows, "bits": n_bits, "queries": 100}
        ours = seconds["estimate"]
        times = {f"{name}_ms": 1e3 * taken for name, taken in seconds.items()}
        report("estimate of all rows", k=k, **sizes, **times)
        report("codes / estimate", k=k, ratio=seconds["codes"] / ours, wanted=1 / 6)
        report("RaBitQFastScan / estimate", k=k, ratio=seconds["RaBitQFastScan"] / ours, wanted=3.0)
        report("RaBitQ / estimate", k=k, ratio=seconds["RaBitQ"] / ours, wanted=5.0)


def first() -> None:
    data = real_set("cifar10_gist960")
    for rotation in sized(("random", "itq", "auto"), ("random",)):
        ours = Ours(data, sized(256, 64), rotation)
        compare_first_stages(data, ours.collection("float32"), str(ours.hasher.rotation_))


def compare_first_stages(data: RealSet, collection: Collection, rotation: str) -> None:
    """Report what a search takes that finds 0.95 of the true ten, by the stage it begins with."""
    chosen = {}
    for stage in FIRST_STAGES:
        for oversample in range(1, 40):
            found = collection.search(data.queries, 10, oversample=oversample, first=stage)
            if recall(found.ids, data.truth) >= sized(0.95, 0.0):
                chosen[stage] = oversample
                break
    for name, queries in (("all at once", data.queries), ("one by one", data.queries[:200])):
        step = len(queries) if name == "all at once" else 1

        def search(stage: str, queries: Any = queries, step: int = step) -> None:
            for at in range(0, len(queries), step):
                some = queries[at : at + step]
                collection.search(some, 10, oversample=chosen[stage], first=stage)

        jobs: dict[str, Callable[[], Any]] = {stage: partial(search, stage) for stage in chosen}
        seconds = interleaved(jobs, rounds=15, clock=time.process_time)
        report(
            f"CIFAR-10 GIST, 256 bits, exact last, recall@10 0.95, queries {name}",
            processor=processor_name(),
            rotation=rotation,
            **{f"oversample_{stage}": chosen[stage] for stage in chosen},
            **{f"us_{stage}": 1e6 * seconds[stage] / len(queries) for stage in chosen},
            ratio=seconds["codes"] / seconds["estimate"],
            wanted=2.0,
        )


def main() -> None:
    sections: dict[str, Callable[[], None]] = {
        "goal": goal,
        "stages": stages,
        "rabitq": compare_recalls,
        "scan": scan,
        "first": first,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", choices=[*sections, []], help="which questions; all without"
    )
    bitkin.set_threads(1)
    faiss.omp_set_num_threads(1)
    for name in parser.parse_args().sections or sections:
        sections[name]()


if __name__ == "__main__":
    main()
