from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from bitkin import distances
from bitkin.papers.data import PaperData
from bitkin.papers.dwta.experiment import (
    DensifiedExperiment,
    DensifiedSizes,
    made,
)
from bitkin.papers.dwta.names import METHODS, OPTIMAL, WTA
from bitkin.papers.machines import svm_accuracy
from bitkin.papers.report import PaperReport
from bitkin.papers.visual_words import count_words

SPARSE = "bow_fashion_300"
TEXTS = "bow_fashion_100"  # in the place of texts
TINY = DensifiedSizes(
    rows=800, queries=100, runs=2, codes=(64, 128), wide_codes=(128,), alphabet_runs=1,
    swept_windows=(4, 16), n_bytes=16, learned_codes=64,
    learned_rows=300, tested_rows=200, learned_runs=1, features=(64, 128), costs=(1.0, 8.0),
    n_ranks=8, pairs=6, pair_codes=4000, many_codes=256,
)  # fmt: skip


def new_experiment() -> DensifiedExperiment:
    data = PaperData(quick=True)
    sets, texts = data.find([SPARSE], "dwta"), data.find([TEXTS], "dwta")
    return DensifiedExperiment(data, sets, TINY, texts)


@cache
def ended() -> tuple[DensifiedExperiment, PaperReport]:
    experiment = new_experiment()
    for job in experiment.jobs():
        job()
    return experiment, experiment.report()


def test_densified_codes_find_more_where_most_windows_are_empty() -> None:
    scores = ended()[0].scores
    assert scores.mean(("empty", SPARSE, 4)).mean > 0.5
    for n_codes in TINY.codes:
        gain = scores.ratio(("map", SPARSE, 4, n_codes, OPTIMAL), ("map", SPARSE, 4, n_codes, WTA))
        assert gain.mean > 1.03


def test_codes_meet_as_the_theorem_says() -> None:
    scores = ended()[0].scores
    assert scores.mean(("from good", SPARSE, OPTIMAL)).mean < 0.02
    assert scores.mean(("from good", SPARSE, WTA)).mean > 0.1
    plain = scores.mean(("plain kernel", SPARSE)).mean
    assert scores.mean(("meeting", SPARSE, WTA)).mean == pytest.approx(plain, abs=0.02)


def test_the_report_has_every_method_and_every_claim() -> None:
    _, report = ended()
    tables = {table.name: table for table in report.tables}
    assert [row[1] for row in tables["retrieval"].rows] == list(METHODS)
    verdicts = {claim.name: claim.verdict for claim in report.claims}
    assert len(verdicts) == 14
    by_alphabet = {row[:3] for row in tables["equal_bytes"].rows}
    assert by_alphabet == {
        *((SPARSE, K, method) for K in ("4", "16") for method in (WTA, OPTIMAL)),
        *((TEXTS, "auto", method) for method in (WTA, OPTIMAL)),
    }
    assert {row[0] for row in tables["classification_by_r"].rows} == {SPARSE, TEXTS}
    assert verdicts["equal on dense rows"] == "holds"
    assert verdicts["ahead in retrieval"] == "holds"
    assert verdicts["empty codes grow with sparsity"] == "holds"
    assert verdicts["Theorem 1"] in ("holds", "in part")
    assert {figure.name for figure in report.figures} == {"figure-5", "figure-6"}


def test_a_job_gives_the_same_numbers_again() -> None:
    experiment, _ = ended()
    again = new_experiment()
    retrieve = next(job for job in again.jobs() if job.args[1:] == (0, 4, 64))  # type: ignore[attr-defined]
    retrieve()
    for method in METHODS:
        key = ("map", SPARSE, 4, 64, method)
        assert again.scores.values(key) == experiment.scores.values(key)[:1]


def test_codes_that_agree_are_the_inner_product_of_one_hot_codes() -> None:
    rows = scipy.sparse.random(40, 60, 0.1, format="csr", random_state=0)
    for method in METHODS:
        hasher = made(method, 64, 4, 1, alphabet=16)
        codes = hasher.fit(rows).encode(rows)
        onehot = clone(hasher).set_params(output="onehot").fit_transform(rows)
        filled = ~codes.empty_rows()
        agree = 64 - distances(codes, codes)
        assert ((onehot @ onehot.T).toarray() == agree)[np.ix_(filled, filled)].all()


def test_the_machine_separates_what_can_be_separated() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 5)) + 4 * y[:, None]
    kernel = X @ X.T
    learned, asked = kernel[:60, :60], kernel[60:, :60]
    assert svm_accuracy(learned, y[:60], asked, y[60:], (0.1, 1.0)) == 1.0
    mixed = rng.permutation(y)
    assert svm_accuracy(learned, mixed[:60], asked, mixed[60:], (0.1, 1.0)) < 0.9


def test_words_are_counted_where_a_picture_shows_something() -> None:
    rng = np.random.default_rng(0)
    pictures = np.zeros((6, 28, 28), dtype=np.uint8)
    pictures[1:] = rng.integers(0, 255, (5, 28, 28))
    pictures[2] = pictures[1]
    counts = count_words(pictures, 10)
    assert counts.shape == (6, 10)
    assert counts[0].sum() == 0  # blank
    assert (counts.sum(axis=1)[1:] == 49).all()
    assert (counts[1] != counts[2]).nnz == 0
    assert (counts != count_words(pictures, 10)).nnz == 0
