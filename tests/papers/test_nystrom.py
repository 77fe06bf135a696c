from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.nystrom.experiment import (
    NystromExperiment,
    NystromSizes,
    count_kept,
    reranked_precision,
)
from bitkin.papers.nystrom.names import FULL, METHODS, RANDOM, UNIFORM
from bitkin.papers.report import PaperReport

TINY = NystromSizes(
    rows=1200, queries=150, runs=2, bits=(16, 32), samples=(0.05, 0.1), features=(0.1, 0.3),
    bound_rows=300, bound_bits=8, timed_rounds=1,
)  # fmt: skip


def new_experiment() -> NystromExperiment:
    data = PaperData(quick=True)
    return NystromExperiment(data, data.find([SHIPPED], "nystrom"), TINY)


@cache
def ended() -> tuple[NystromExperiment, PaperReport]:
    experiment = new_experiment()
    for job in experiment.jobs():
        job()
    return experiment, experiment.report()


def test_the_claims_of_the_paper_hold_at_a_small_size() -> None:
    experiment, _ = ended()
    scores = experiment.scores
    for bits in TINY.bits:
        full, uniform, random = (
            scores.mean(("map", SHIPPED, bits, method)).mean for method in (FULL, UNIFORM, RANDOM)
        )
        assert uniform > 0.9 * full  # 0.97 at full size
        assert uniform > 1.1 * random
    for gamma_key in [("bound", SHIPPED, gamma) for gamma in (1e-2, 1e-3)]:
        error = scores.mean(("modified error", *gamma_key[1:])).mean
        assert error < scores.mean(gamma_key).mean
        assert error >= scores.mean(("error", SHIPPED, FULL)).mean


def test_the_report_has_every_method_and_every_claim() -> None:
    _, report = ended()
    tables = {table.name: table for table in report.tables}
    assert [row[1] for row in tables["precision"].rows] == list(METHODS)
    assert len(report.claims) == 8
    assert len(report.timing_claims) == 3
    verdicts = {claim.name: claim.verdict for claim in report.claims}
    assert verdicts["uniform is above random"] == "holds"
    assert verdicts["Theorem 2"] == "in part"  # true, and says nothing
    assert {table.name for table in report.timings} == {"seconds", "sweep_seconds"}


def test_a_job_gives_the_same_numbers_again() -> None:
    experiment, _ = ended()
    again = new_experiment()
    for job in again.jobs()[:3]:
        job()
    for method in METHODS[:3]:
        for kind in ("map", "reranked"):
            key = (kind, SHIPPED, 16, method)
            assert again.scores.values(key) == experiment.scores.values(key)[:1]


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
