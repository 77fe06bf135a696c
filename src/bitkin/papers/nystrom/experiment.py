"""Figures 1 and 2 of the paper, its re-ranking protocol, its theorem, and its times."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import theory
from bitkin.codes import distances
from bitkin.evaluate import nearest
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections import PCA, Nystrom, RandomProjection
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.nystrom.findings import build_report
from bitkin.papers.nystrom.names import (
    FIGURE_GAMMA,
    FULL,
    GAMMAS,
    MODIFIED,
    NON_UNIFORM,
    PAPER_NON_UNIFORM,
    PAPER_UNIFORM,
    RANDOM,
    SWEPT,
    UNIFORM,
)
from bitkin.papers.nystrom.sizes import NystromSizes, Sweep
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job, RetrievalSplit, Scores
from bitkin.randomness import Draws

_SETS = ("cifar10_gist960", "fashion_mnist")

_N_TRUE = 3  # matches per query in the re-ranking protocol: "usually 2 or 3" in the paper
_N_CANDIDATES = 100


QUICK = NystromSizes(
    rows=3000, queries=400, runs=2, bits=(16, 64),
    sweeps=(Sweep(32, samples=(0.02, 0.05, 0.1), features=(0.05, 0.1, 0.3)),),
    bound_rows=1000, bound_bits=32, timed_rounds=3,
)  # fmt: skip


def experiment(data: PaperData) -> NystromExperiment:
    """Return the experiment on the data there is."""
    if data.quick:
        return NystromExperiment(data, data.find([SHIPPED], "nystrom"), QUICK)
    return NystromExperiment(data, data.find(_SETS, "nystrom"), NystromSizes())


class NystromExperiment:
    """Runs all methods on the same rows and queries, seed by seed."""

    def __init__(self, data: PaperData, sets: list[str], sizes: NystromSizes) -> None:
        self.data, self.sets, self.sizes = data, sets, sizes
        self.scores = Scores()
        self._split: tuple[tuple[str, int], RetrievalSplit, Any] | None = None

    def jobs(self) -> list[Job]:
        """Return the steps: sets, seeds, then everything that is measured on those rows."""
        steps: list[Job] = []
        for name in self.sets:
            for seed in range(self.sizes.runs):
                steps += [
                    partial(self._figure_1, name, seed, bits, method)
                    for bits in self.sizes.bits
                    for method in figure_1_methods(0.05, 0.3)
                ]
                steps += [
                    partial(self._sweep, name, seed, sweep.bits, axis, share)
                    for sweep in self.sizes.sweeps
                    for axis, shares in sweep.axes.items()
                    for share in shares
                ]
                steps += [
                    partial(self._sweep_fixed, name, seed, sweep.bits)
                    for sweep in self.sizes.sweeps
                ]
            steps += [partial(self._bound, name), partial(self._time, name)]
        return steps

    def report(self) -> PaperReport:
        """Return tables, figures and claims."""
        return build_report(self.scores, self.sets, self.sizes, self.data.left_out)

    def _split_of(self, name: str, seed: int) -> tuple[RetrievalSplit, Any]:
        """Return rows and queries, and the true few of the re-ranking protocol; the last ones are
        kept.
        """
        if self._split is None or self._split[0] != (name, seed):
            self._split = None  # before the next one is made: memory
            sizes = self.sizes
            split = RetrievalSplit.draw(self.data.dense(name), seed, sizes.rows, sizes.queries)
            few = nearest(split.rows, split.queries, _N_TRUE).ids
            self.scores.add(("without", name), split.share_without_neighbors)
            self._split = (name, seed), split, few
        return self._split[1:]

    def _figure_1(self, name: str, seed: int, bits: int, method: str) -> None:
        split, few = self._split_of(name, seed)
        hasher = fitted(figure_1_methods(0.05, 0.3)[method], bits, split.rows, seed)
        codes, queries = hasher.encode(split.rows), hasher.encode(split.queries)
        self.scores.add(("map", name, bits, method), split.precision(codes, queries))
        again = reranked_precision(
            distances(queries, codes),
            hasher.project(split.rows),
            hasher.project(split.queries),
            few,
        )
        self.scores.add(("reranked", name, bits, method), again)

    def _sweep(self, name: str, seed: int, bits: int, axis: str, share: float) -> None:
        shares = {"samples": 0.05, "features": 0.3, axis: share}
        methods = figure_1_methods(shares["samples"], shares["features"])
        for method in SWEPT:
            self._add_swept((axis, name, bits, share, method), methods[method], seed)

    def _sweep_fixed(self, name: str, seed: int, bits: int) -> None:
        """Measure what does not depend on shares."""
        for method, projection in ((FULL, PCA()), (RANDOM, RandomProjection())):
            self._add_swept(("sweep", name, bits, method), projection, seed)

    def _add_swept(self, key: tuple[Any, ...], projection: Any, seed: int) -> None:
        name, bits = key[1:3]
        split, _ = self._split_of(name, seed)
        hasher = fitted(projection, bits, split.rows, seed)
        self.scores.add(key, split.precision_of(hasher))
        self.scores.add(("time", *key), learning_seconds(projection, bits, split.rows))

    def _bound(self, name: str) -> None:
        """Measure what directions of one and the same sample lose, beside Theorem 2."""
        rows = self._split_of(name, self.sizes.runs - 1)[0].rows[: self.sizes.bound_rows]
        k = self.sizes.bound_bits
        best, ours = learned(PCA(), rows, k), learned(Nystrom(), rows, k)
        raw = learned(Nystrom(orthonormalize=False), rows, k)
        apart = rows - ours.mean
        whole = float(np.linalg.norm(apart))
        for label, found in ((FULL, best), (UNIFORM, ours), (PAPER_UNIFORM, raw)):
            error = theory.projection_error(rows - found.mean, found.directions)
            self.scores.add(("error", name, label), error / whole)
        for gamma in GAMMAS:
            modified = learned(Nystrom(truncate=gamma, orthonormalize=False), rows, k)
            sample = modified.row_numbers, modified.features
            limit = theory.nystrom_error_bound(apart, *sample, k, truncate=gamma)
            kept = count_kept(apart, *sample, k, gamma)
            error = theory.projection_error(apart, modified.directions[:, :kept])
            self.scores.add(("bound", name, gamma), limit / whole)
            self.scores.add(("kept", name, gamma), kept)
            self.scores.add(("modified error", name, gamma), error / whole)

    def _time(self, name: str) -> None:
        """Measure the stage that finds directions, all methods in turn."""
        rows = self._split_of(name, self.sizes.runs - 1)[0].rows
        for _ in range(self.sizes.timed_rounds):
            for method, projection in figure_1_methods(0.05, 0.3).items():
                for bits in (self.sizes.bits[0], self.sizes.bits[-1]):
                    seconds = learning_seconds(projection, bits, rows)
                    self.scores.add(("seconds", name, bits, method), seconds)
            start = time.process_time()
            fitted(PCA(), self.sizes.bits[-1], rows, 0)
            self.scores.add(("whole fit", name), time.process_time() - start)
        for method, projection in figure_1_methods(0.05, 0.3).items():
            peak = learning_bytes(projection, self.sizes.bits[-1], rows)
            self.scores.add(("peak", name, method), peak)


def figure_1_methods(samples: float, features: float) -> dict[str, Any]:
    """Return the projections that are compared, by their names in figures."""
    shares: dict[str, Any] = {"samples": samples, "features": features}
    return {
        FULL: PCA(),
        UNIFORM: Nystrom(**shares),
        PAPER_UNIFORM: Nystrom(**shares, orthonormalize=False),
        NON_UNIFORM: Nystrom(**shares, sampling="norms"),
        PAPER_NON_UNIFORM: Nystrom(**shares, sampling="norms", orthonormalize=False),
        MODIFIED: Nystrom(**shares, truncate=FIGURE_GAMMA, orthonormalize=False),
        RANDOM: RandomProjection(),
    }


def fitted(projection: Any, bits: int, rows: Any, seed: int) -> ProjectionHash:
    """Return a hasher with ITQ. A share that gives fewer features than bits is raised, and the
    warning of it is not repeated: the page says so.
    """
    hasher = ProjectionHash(bits, projection=projection, rotation="itq", random_state=seed)
    _quietly(lambda: hasher.fit(rows))
    return hasher


def learning_seconds(projection: Any, bits: int, rows: Any) -> float:
    """Return the processor time of finding directions, without ITQ."""
    hasher = ProjectionHash(bits, projection=projection, rotation=None)
    start = time.process_time()
    _quietly(lambda: hasher.fit(rows))
    return time.process_time() - start


def learning_bytes(projection: Any, bits: int, rows: npt.NDArray[np.float32]) -> int:
    """Return the most memory that finding directions takes beside the rows."""
    hasher = ProjectionHash(bits, projection=projection, rotation=None)
    tracemalloc.start()
    try:
        _quietly(lambda: hasher.fit(rows))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def learned(projection: Any, rows: npt.NDArray[np.float32], k: int) -> Any:
    """Return directions and mean and, of a Nystrom, what it sampled: the same for every form."""
    vectors = TrainingVectors(open_vectors(rows), center=True, normalize=False, key=7)
    return _quietly(lambda: projection.learn(vectors, k, Draws(0, "projection")))


def count_kept(apart: Any, samples: Any, features: Any, k: int, gamma: float) -> int:
    """Return the paper's k′: of the first k values of W, how many have σ² ≥ γ·‖C‖₁·‖C‖∞."""
    (n, m), c, r = apart.shape, len(samples), len(features)
    sampled = apart[samples].astype(np.float64) * np.sqrt(n / c)
    inner = sampled[:, features] * np.sqrt(m / r)
    norms = np.abs(sampled).sum(axis=0).max() * np.abs(sampled).sum(axis=1).max()
    values = np.linalg.svd(inner, compute_uv=False)[:k]
    return int(np.count_nonzero(values**2 >= gamma * norms))


def reranked_precision(table: Any, rows: Any, queries: Any, true_ids: Any) -> float:
    """Return the mean average precision of the 100 nearest by codes, ties included, sorted again by
    the distance of what was projected. What is not among them counts as never found.
    """
    n_candidates = min(_N_CANDIDATES, table.shape[1])
    limits = np.partition(table, n_candidates - 1, axis=1)[:, n_candidates - 1]
    precisions = []
    for own, limit, query, true in zip(table, limits, queries, true_ids, strict=True):
        ids = np.flatnonzero(own <= limit)
        order = np.argsort(((rows[ids] - query) ** 2).sum(axis=1), kind="stable")
        ranks = 1 + np.flatnonzero(np.isin(ids[order], true))
        precisions.append(((1 + np.arange(len(ranks))) / ranks).sum() / len(true))
    return float(np.mean(precisions))


def _quietly(work: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="features=|samples=", category=UserWarning)
        return work()
