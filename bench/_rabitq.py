"""Recall of the estimate of all rows beside FAISS's RaBitQ at equal bytes, over several seeds.

Both sides draw rotations, and one draw moves recall by some thousandths: so every figure is a mean
over seeds with its standard error, and a difference counts where it is beyond two of its own.
Queries are the same for all, so what they vary by does not enter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _sets import METRICS, RealSet, real_set
from _timing import report
from _tiny import sized
from bitkin import FlatIndex, ProjectionHash, rescore
from bitkin.evaluate import nearest, recall
from bitkin.rescoring.corrections import encode_with_corrections, scorer_for
from bitkin.rescoring.estimate_scan import (
    QUERY_BITS,
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)

BITS: tuple[int, ...] = sized((64, 128, 256), (32,))
N_ROWS = sized(20_000, 400)  # of every set
SEEDS = sized(5, 2)
SEEDS_OF_DEFAULT = sized(3, 2)  # whose rotation is learned, where that pays
MOST_LEARNED = 512  # bits: beyond, learning a rotation takes minutes
SHORTLIST = sized(1000, 200)

Ids = npt.NDArray[np.int64]


class Recalls(NamedTuple):
    """Of the true ten, the share in the first ten and in the first hundred, by seed."""

    r10: npt.NDArray[np.float64]
    r100: npt.NDArray[np.float64]

    @classmethod
    def from_runs(cls, found: list[Ids], data: RealSet) -> Recalls:
        return cls(
            np.array([recall(ids[:, :10], data.truth) for ids in found]),
            np.array([recall(ids, data.truth) for ids in found]),
        )


def compare_recalls() -> None:
    """Report every set of `_sets` at some widths, and with as many bits as features."""
    for name in METRICS:
        data = _some_rows(real_set(name))
        n_features = data.rows.shape[1]
        for n_bits in sorted({*(b for b in BITS if b < n_features), n_features}):
            ours = _ours(data, n_bits, "random", SEEDS)
            if n_bits <= MOST_LEARNED:
                ours |= _ours(data, n_bits, "default", SEEDS_OF_DEFAULT)
            theirs = _rabitq(data, n_bits)
            # those that round queries to four bits, and those that hardly do
            pairs = {
                "random": ("rabitq_4", "fastscan_4"),
                "default": ("rabitq_4", "fastscan_4"),
                "random_again": ("rabitq_8",),
                "default_again": ("rabitq_8",),
            }
            figures = {
                f"{method}_{share}": f"{values.mean():.4f} ± {_error(values):.4f}"
                for method, recalls in {**ours, **theirs}.items()
                for share, values in recalls._asdict().items()
            }
            rows = len(data.rows)
            report("estimate against RaBitQ", data=name, rows=rows, n_bits=n_bits, **figures)
            for mine in ours:
                rivals = pairs[mine]
                named = {"data": name, "n_bits": n_bits, "ours": mine, "theirs": "/".join(rivals)}
                for share in Recalls._fields:
                    _report_difference(ours[mine], [theirs[one] for one in rivals], share, named)


def _some_rows(data: RealSet) -> RealSet:
    """Return a set with its first rows alone."""
    rows = data.rows[:N_ROWS]
    return replace(data, rows=rows, truth=nearest(rows, data.queries, 10).ids)


def _report_difference(
    mine: Recalls, rivals: list[Recalls], share: str, named: dict[str, Any]
) -> None:
    """Report how much higher ours is than the best of the others, and whether it is no lower."""
    own = getattr(mine, share)
    best = max((getattr(rival, share) for rival in rivals), key=np.mean)
    higher = float(own.mean() - best.mean())
    error = float(np.hypot(_error(own), _error(best)))
    report(
        f"estimate minus RaBitQ, {share}",
        **named,
        higher=f"{higher:+.4f} ± {error:.4f}",
        lower_beyond_noise=bool(higher < -2 * error),
    )


def _error(values: npt.NDArray[np.float64]) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _ours(data: RealSet, n_bits: int, rotation: str, seeds: int) -> dict[str, Recalls]:
    """The best hundred of a scan with queries of four bits; and, "again", of the best thousand of
    such a scan by queries as they are.
    """
    scanned: list[Ids] = []
    again: list[Ids] = []
    for seed in range(seeds):
        hasher = _fitted(data, n_bits, "auto" if rotation == "default" else rotation, seed)
        scorer = scorer_for(hasher, data.metric)
        codes, corrections = encode_with_corrections(scorer, data.rows)
        index = FlatIndex(codes.spec)
        index.add(codes)
        found = scan_estimates(
            EstimateRows.from_stretches(index.snapshot.whole, corrections, lambda ids: 0),
            QuantizedQueries.from_prepared(scorer.prepare_queries(data.queries), QUERY_BITS),
            SHORTLIST,
            has_small=data.metric == "l2",
        )
        better = rescore(
            found, data.queries, stage="estimate", k=100, metric=data.metric,
            hasher=hasher, codes=index, corrections=corrections,
        )  # fmt: skip
        scanned.append(found.ids[:, :100])
        again.append(better.ids)
    return {
        rotation: Recalls.from_runs(scanned, data),
        f"{rotation}_again": Recalls.from_runs(again, data),
    }


def _fitted(data: RealSet, n_bits: int, rotation: str, seed: int) -> ProjectionHash:
    """Return a hasher of so many bits, or a few less where rows vary along fewer directions."""
    hasher = ProjectionHash(n_bits, projection="pca", rotation=rotation, random_state=seed)
    try:
        hasher.fit(data.rows)
    except bitkin.errors.InvalidInputError:
        hasher.set_params(n_bits=n_bits - n_bits // 64).fit(data.rows)
    return hasher


def _rabitq(data: RealSet, n_bits: int) -> dict[str, Recalls]:
    """RaBitQ after PCA below all dimensions, and rotations by as many seeds as ours; queries of
    four bits, and of eight, which are as good as queries as they are and take a fortieth of the
    time.
    """
    n_features = data.rows.shape[1]
    found: dict[str, list[Ids]] = {"rabitq_4": [], "rabitq_8": [], "fastscan_4": []}
    rows, queries = data.rows, data.queries
    if n_bits < n_features:
        pca = faiss.PCAMatrix(n_features, n_bits)
        pca.train(rows)
        rows, queries = pca.apply(rows), pca.apply(queries)
    for seed in range(SEEDS):
        rotation = faiss.RandomRotationMatrix(n_bits, n_bits)
        rotation.init(seed)
        rotated, asked = rotation.apply(rows), rotation.apply(queries)
        plain, fast = faiss.IndexRaBitQ(n_bits), faiss.IndexRaBitQFastScan(n_bits)
        for index in (plain, fast):
            index.train(rotated)
            index.add(rotated)
            index.qb = QUERY_BITS
        found["rabitq_4"].append(plain.search(asked, 100)[1])
        found["fastscan_4"].append(fast.search(asked, 100)[1])
        plain.qb = 8
        found["rabitq_8"].append(plain.search(asked, 100)[1])
    return {name: Recalls.from_runs(runs, data) for name, runs in found.items()}
