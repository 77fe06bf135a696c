from __future__ import annotations

import numpy as np
import pytest

from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.nystrom.experiment import (
    NystromExperiment,
    count_kept,
    reranked_precision,
)
from bitkin.papers.nystrom.names import METHODS
from bitkin.papers.nystrom.sizes import NystromSizes, Sweep

TINY = NystromSizes(
    rows=1200, queries=150, runs=2, bits=(16, 32),
    sweeps=(Sweep(32, samples=(0.05, 0.1), features=(0.1, 0.3)),),
    bound_rows=300, bound_bits=8, timed_rounds=1,
)  # fmt: skip


def new_experiment() -> NystromExperiment:
    data = PaperData(quick=True)
    return NystromExperiment(data, data.find([SHIPPED], "nystrom"), TINY)


def test_a_job_gives_the_same_numbers_again() -> None:
    first, again = new_experiment(), new_experiment()
    for experiment in (first, again):
        for job in experiment.jobs()[:3]:
            job()
    for method in METHODS[:3]:
        for kind in ("map", "reranked"):
            key = (kind, SHIPPED, 16, method)
            assert again.scores.values(key) == first.scores.values(key) != []


def test_reranking_sorts_candidates_and_their_ties_again() -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((300, 5)), rng.standard_normal((7, 5))
    table = rng.integers(0, 9, (7, 300))
    true = rng.permuted(np.tile(np.arange(300), (7, 1)), axis=1)[:, :3]
    expected = []
    for own, query, wanted in zip(table, queries, true, strict=True):
        limit = sorted(own)[99]
        candidates = [i for i in range(300) if own[i] <= limit]
        candidates.sort(key=lambda i, q=query: float(((rows[i] - q) ** 2).sum()))  # type: ignore[misc]
        ranks = sorted(candidates.index(i) + 1 for i in wanted if i in candidates)
        expected.append(sum((n + 1) / rank for n, rank in enumerate(ranks)) / 3)
    assert reranked_precision(table, rows, queries, true) == pytest.approx(np.mean(expected))


def test_truncation_keeps_what_the_paper_keeps() -> None:
    X = np.random.default_rng(0).standard_normal((40, 9)) * np.arange(9, 0, -1)
    samples, features = np.arange(0, 40, 2), np.arange(0, 9, 2)
    C = X[samples].T * np.sqrt(2)  # features × samples, as in the paper
    W = C[features] * np.sqrt(9 / 5)
    limit = np.linalg.norm(C, 1) * np.linalg.norm(C, np.inf)
    for gamma in (1e-3, 0.03, 0.1, 1.0):
        kept = sum(np.linalg.svd(W)[1][:4] ** 2 >= gamma * limit)
        assert count_kept(X, samples, features, 4, gamma) == kept
