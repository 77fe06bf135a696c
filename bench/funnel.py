"""What do the stages of the funnel give and cost, and how do they stand against FAISS's RaBitQ?

    python bench/funnel.py             all questions, about 15 minutes on one core
    python bench/funnel.py goal        Fashion-MNIST, 256 bits: the estimate against the scan alone
    python bench/funnel.py stages      codes, estimate, exact on four sets at 64, 128, 256 bits
    python bench/funnel.py rabitq      recall against IndexRaBitQ at equal bytes per vector

Everything runs in one thread, 1,000 queries at a time; µs a query are medians of interleaved runs
and contain what makes codes of queries. "r10" is the share of the true ten nearest among the first
ten, "r100" among the first hundred.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _sets import METRICS, RealSet, real_set
from _timing import interleaved, report
from _tiny import sized
from bitkin import FlatIndex, Neighbors, ProjectionHash, rescore
from bitkin.evaluate import recall

BITS: tuple[int, ...] = sized((64, 128, 256), (32, 64))
SHORTLIST = sized(1000, 200)  # rows a query that codes hand to the estimate
MOST_ITQ = 512  # bits: beyond, its fit takes minutes
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


def rabitq() -> None:
    behind: list[float] = []
    for name in METRICS:
        data = real_set(name)
        n_features = data.rows.shape[1]
        for n_bits in sorted({*(b for b in BITS if b < n_features), n_features}):
            theirs, theirs_bytes, qb = best_rabitq(data, n_bits)
            mine = {
                r: _ours(data, n_bits, r)
                for r in ("random", "itq")
                if r != "itq" or n_bits <= MOST_ITQ
            }
            found = {
                rotation: recalls(ours.estimate().ids, data) for rotation, ours in mine.items()
            }
            named = {
                f"ours_{r}_{key}": value
                for r, scores in found.items()
                for key, value in scores.items()
            }
            best = max(scores["r10"] for scores in found.values())
            behind.append(best - theirs["r10"])
            report(
                "estimate against RaBitQ",
                data=name,
                n_bits=n_bits,
                **named,
                **{f"rabitq_{key}": value for key, value in theirs.items()},
                rabitq_query_bits=qb,
                ours_bytes=mine["random"].index.spec.n_bytes + NUMBERS,
                rabitq_bytes=theirs_bytes,
                ratio=1 + best - theirs["r10"],
                wanted=0.99,
            )
    report(
        "estimate minus RaBitQ, recall@10, mean",
        mean=float(np.mean(behind)),
        least=float(min(behind)),
    )


def _ours(data: RealSet, n_bits: int, rotation: str) -> Ours:
    """Return ours at so many bits, or a few less where the data does not vary along as many
    directions.
    """
    try:
        return Ours(data, n_bits, rotation)
    except bitkin.errors.InvalidInputError:
        return Ours(data, n_bits - n_bits // 64, rotation)


def best_rabitq(data: RealSet, n_bits: int) -> tuple[dict[str, float], int, int]:
    """Return the best recalls that IndexRaBitQ gets with any precision of the query; 0 is full
    precision.
    """
    n_features = data.rows.shape[1]
    codes: Any = faiss.IndexRaBitQ(n_bits)
    # Its codes are of rotated vectors; after PCA the rotation comes with it.
    turn: Any = faiss.PCAMatrix(n_features, n_bits, 0, True)
    if n_bits == n_features:
        turn = faiss.RandomRotationMatrix(n_features, n_features)
    index = faiss.IndexPreTransform(turn, codes)
    index.train(data.rows)
    index.add(data.rows)
    scores = {}
    for qb in (0, 4, 8):
        codes.qb = qb
        scores[qb] = recalls(index.search(data.queries, 100)[1], data)
    best = max(scores, key=lambda qb: scores[qb]["r10"])
    return scores[best], int(codes.code_size), best


def main() -> None:
    sections: dict[str, Callable[[], None]] = {"goal": goal, "stages": stages, "rabitq": rabitq}
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
