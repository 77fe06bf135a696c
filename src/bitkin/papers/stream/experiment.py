"""Figures 1 and 2 of the paper: precision along a stream, for the codes as they were emitted, for
all rows encoded again, and with epochs.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes, distances
from bitkin.epochs.epoch_index import EpochIndex
from bitkin.evaluate import mean_average_precision, radius_truth
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections import OPAST, FrequentDirections
from bitkin.hashers.projection.rotations import IsoHash, RandomRotation, UnifDiag
from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job, RetrievalSplit, Scores
from bitkin.papers.stream.findings import build_report
from bitkin.papers.stream.names import (
    AS_THEY_ARE,
    EMITTED,
    EPOCHS,
    ESTIMATED,
    ISOHASH,
    LENGTH_1,
    NONE,
    OFFLINE,
    OSH,
    PAPER_OSH,
    PAPER_SKETCH,
    RANDROT,
    REASONS,
    REENCODED,
    UNIFDIAG,
    methods_for,
)

_SETS = ("cifar10_gist960", "fashion_mnist")
_N_CHUNKS = 200  # of OSH, as in the paper


@dataclass(frozen=True, slots=True)
class StreamSizes:
    """How much of everything."""

    rows: int = 10_000
    queries: int = 1000
    orders: int = 5
    bits: tuple[int, ...] = (8, 16, 32, 64)
    points: tuple[float, ...] = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
    shown_bits: int = 32
    """At which the kinds of codes and the reasons are looked at."""
    reasons: int = 3
    """Orders in which they are."""


QUICK = StreamSizes(
    rows=2500, queries=300, orders=2, bits=(32,), points=(1 / 8, 1 / 2, 1.0), reasons=2
)


def experiment(data: PaperData) -> StreamExperiment:
    """Return the experiment on the data there is."""
    if data.quick:
        return StreamExperiment(data, data.find([SHIPPED], "stream"), QUICK)
    return StreamExperiment(data, data.find(_SETS, "stream"), StreamSizes())


class StreamExperiment:
    """Lets every method follow the same streams, order by order."""

    def __init__(self, data: PaperData, sets: list[str], sizes: StreamSizes) -> None:
        self.data, self.sets, self.sizes = data, sets, sizes
        self.scores = Scores()
        self._split: tuple[tuple[str, int], RetrievalSplit] | None = None

    def jobs(self) -> list[Job]:
        """Return the steps: sets, orders, bits, methods."""
        steps: list[Job] = []
        for name in self.sets:
            for seed in range(self.sizes.orders):
                for bits in self.sizes.bits:
                    steps.append(partial(self._offline, name, seed, bits))
                    steps += [
                        partial(self._follow, name, seed, bits, method)
                        for method in methods_for(bits)
                    ]
            steps += [partial(self._reasons, name, seed) for seed in range(self.sizes.reasons)]
        return steps

    def report(self) -> PaperReport:
        """Return tables, figures and claims."""
        return build_report(self.scores, self.sets, asdict(self.sizes), self.data.left_out)

    def _split_of(self, name: str, seed: int) -> RetrievalSplit:
        if self._split is None or self._split[0] != (name, seed):
            self._split = None  # before the next one is made: memory
            sizes = self.sizes
            split = RetrievalSplit.draw(self.data.dense(name), seed, sizes.rows, sizes.queries)
            self.scores.add(("without", name), split.share_without_neighbors)
            self._split = (name, seed), split
        return self._split[1]

    def _marks(self, split: RetrievalSplit) -> list[int]:
        return [round(point * len(split.rows)) for point in self.sizes.points]

    def _offline(self, name: str, seed: int, bits: int) -> None:
        """Measure what all rows at once give: PCA with ITQ, and PCA's variance."""
        split = self._split_of(name, seed)
        hasher = ProjectionHash(bits, rotation="itq", random_state=seed).fit(split.rows)
        table = distances(hasher.encode(split.queries), hasher.encode(split.rows))
        for mark in self._marks(split):
            so_far = precision_so_far(split, table[:, :mark])
            self.scores.add((OFFLINE, name, bits, mark), so_far)
        best = ProjectionHash(bits, rotation=None).fit(split.rows)
        projected = best.project(split.rows).astype(np.float64)
        self.scores.add(("variance", name, bits, OFFLINE), projected.var(axis=0).sum())
        # Theorem 3.1 and Algorithm 1 on the covariance of what was projected
        covariance = np.cov(projected.T)
        R = UnifDiag().rotation_of(covariance)
        diagonal = np.diag(R.T @ covariance @ R)
        self.scores.add(("spread", name, bits), np.ptp(diagonal) / diagonal.mean())
        self.scores.add(
            ("spread before", name, bits), np.ptp(np.diag(covariance)) / diagonal.mean()
        )
        self.scores.add(("orthonormal", name, bits), float(np.linalg.norm(R.T @ R - np.eye(bits))))

    def _follow(self, name: str, seed: int, bits: int, method: str) -> None:
        split = self._split_of(name, seed)
        slots = slots_of(method, bits, len(split.rows))
        marks = self._marks(split)
        self._follow_moving(split, marks, (name, bits, method), seed, slots)
        self._follow_epochs(split, marks, (name, bits, method), seed, slots)

    def _reasons(self, name: str, seed: int) -> None:
        """Measure what equal variances do, all rows at once, and whether lengths are the cause."""
        split, bits = self._split_of(name, seed), self.sizes.shown_bits
        for rows, searched in ((AS_THEY_ARE, split), (LENGTH_1, at_length_1(split))):
            axes = ProjectionHash(bits, rotation=None).fit(searched.rows)
            variances = axes.project(searched.rows).astype(np.float64).var(axis=0)
            self.scores.add(("first direction", name, rows), variances[0] / variances.sum())
            for rotation, made in reasons().items():
                hasher = ProjectionHash(bits, rotation=made, random_state=seed).fit(searched.rows)
                self.scores.add(("reason", name, rows, rotation), searched.precision_of(hasher))
                # what every principal direction has of the variance of every bit
                R = axes.components_.T.astype(np.float64) @ hasher.components_
                parts = R**2 * variances[:, None]
                strongest = (parts / parts.sum(axis=0)).max(axis=0).mean()
                self.scores.add(("strongest", name, rows, rotation), strongest)

    def _follow_moving(
        self, split: RetrievalSplit, marks: list[int], key: Any, seed: int, slots: dict[str, Any]
    ) -> None:
        """Measure the paper's process: every code is made by the model of that moment."""
        name, bits, method = key
        hasher = ProjectionHash(bits, epochs=None, random_state=seed, **slots)
        emitted: list[Codes] = []
        first, seconds = 0, 0.0
        for mark in marks:
            start = time.process_time()
            emitted += hasher.sketch_stream(split.rows[first:mark])
            seconds += time.process_time() - start
            first = mark
            queries = hasher.encode(split.queries)
            codes = Codes.concatenate([part.with_fingerprint(None) for part in emitted])
            for kind, searched in (
                (EMITTED, codes),
                (REENCODED, hasher.encode(split.rows[:mark])),
            ):
                table = distances(queries, searched)
                self.scores.add((kind, *key, mark), precision_so_far(split, table))
        self.scores.add(("µs", *key), 1e6 * seconds / marks[-1])
        self.scores.add(("bytes", *key), len(pickle.dumps(hasher)))
        if method == NONE:  # the tracker is the same for all that have it
            variance = hasher.project(split.rows).astype(np.float64).var(axis=0).sum()
            self.scores.add(("variance", name, bits, NONE), variance)

    def _follow_epochs(
        self, split: RetrievalSplit, marks: list[int], key: Any, seed: int, slots: dict[str, Any]
    ) -> None:
        """Measure codes of epochs: a query is encoded by the model of each."""
        hasher = ProjectionHash(key[1], epochs="auto", random_state=seed, **slots)
        parts: list[EpochPart] = []
        tables: list[npt.NDArray[Any]] = []
        for part in coded_by_epochs(hasher, split.rows, marks):
            parts.append(part)
            queries = part.snapshot.encode(split.queries)
            tables.append(distances(queries, part.codes))
            if part.stop in marks:
                so_far = np.concatenate(tables, axis=1)
                self.scores.add((EPOCHS, *key, part.stop), precision_so_far(split, so_far))
        self.scores.add(("n epochs", *key), len({part.codes.fingerprint for part in parts}))
        if key[1] == self.sizes.shown_bits and key[2] in ESTIMATED:
            self.scores.add(("estimate", *key), estimate_precision(split, parts))


@dataclass(frozen=True, slots=True, eq=False)
class EpochPart:
    """Rows `start` to `stop` of a stream, coded by one model."""

    start: int
    stop: int
    snapshot: ProjectionHash
    codes: Codes


def slots_of(method: str, bits: int, n_rows: int) -> dict[str, Any]:
    """Return a method as the slots of a ProjectionHash. The paper never forgets and, for UnifDiag,
    rotates at every vector; IsoHash at every vector would take hours.
    """
    never_forgets = OPAST(forgetting=1.0)
    chunk = max(1, n_rows // _N_CHUNKS)
    slots: dict[str, dict[str, Any]] = {
        UNIFDIAG: {"projection": never_forgets, "rotation": "unifdiag", "refresh": 1},
        ISOHASH: {"projection": never_forgets, "rotation": "isohash", "refresh": 100},
        RANDROT: {"projection": never_forgets, "rotation": "random"},
        NONE: {"projection": never_forgets, "rotation": None},
        OSH: {"projection": FrequentDirections(4 * bits, chunk_rows=chunk), "rotation": "random"},
        PAPER_OSH: {
            "projection": FrequentDirections(max(PAPER_SKETCH, bits), chunk_rows=chunk),
            "rotation": "random",
        },
    }
    return slots[method]


def reasons() -> dict[str, Any]:
    """Return the rotations that `_reasons` compares."""
    rotations = (RandomRotation(), IsoHash(), UnifDiag(), UnifDiag(start="random"))
    return dict(zip(REASONS, rotations, strict=True))


def at_length_1(split: RetrievalSplit) -> RetrievalSplit:
    """Return rows and queries about the mean of the rows, scaled to length 1."""
    mean = split.rows.mean(axis=0)
    rows, queries = (
        (part - mean) / np.maximum(np.linalg.norm(part - mean, axis=1, keepdims=True), 1e-12)
        for part in (split.rows, split.queries)
    )
    return RetrievalSplit(rows, queries, radius_truth(rows, queries))


def precision_so_far(split: RetrievalSplit, table: npt.NDArray[Any]) -> float:
    """Return the mean average precision among the rows that have come so far."""
    return mean_average_precision(table, split.relevant[:, : table.shape[1]])


def coded_by_epochs(hasher: ProjectionHash, rows: Any, marks: list[int]) -> Iterator[EpochPart]:
    """Let a hasher code rows and learn from them, and yield the rows of one epoch up to each mark.

    The first rows, which random directions would code, are coded by the first learned model, as
    `EpochIndex.from_stream` does. From there on the stream comes in pieces of half a vector per
    bit, at multiples of which epochs begin: each is coded by the epoch there is, then learned from.
    """
    step = max(1, hasher.n_bits // 2)
    hasher.partial_fit(rows[:step])
    snapshot, start, stop = hasher.epoch_, 0, step
    while stop < len(rows):
        if hasher.epoch_.fingerprint_ != snapshot.fingerprint_ or stop in marks:
            yield EpochPart(start, stop, snapshot, snapshot.encode(rows[start:stop]))
            snapshot, start = hasher.epoch_, stop
        ends = [stop - stop % step + step, len(rows), *(mark for mark in marks if mark > stop)]
        following = min(ends)
        hasher.partial_fit(rows[stop:following])
        stop = following
    yield EpochPart(start, stop, snapshot, snapshot.encode(rows[start:stop]))


def estimate_precision(split: RetrievalSplit, parts: list[EpochPart]) -> float:
    """Return the mean average precision of `EpochIndex`: all epochs ranked by one estimate."""
    index = EpochIndex()
    for part in parts:
        ids = np.arange(part.start, part.stop)
        index.add(part.snapshot, split.rows[part.start : part.stop], ids=ids)
    n = len(split.rows)
    found = index.search(split.queries, n)
    # by ranks: estimates below 0 are all reported as 0
    ranks = np.full((len(split.queries), n), n, dtype=np.int32)
    which, rank = np.nonzero(found.ids >= 0)
    ranks[which, found.ids[which, rank]] = rank
    return precision_so_far(split, ranks)
