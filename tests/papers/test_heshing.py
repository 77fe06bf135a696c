from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin import HeshingClassifier, Taxonomy, flat_error, hierarchical_error
from bitkin.papers.data import PaperData
from bitkin.papers.heshing.experiment import (
    HashedTreeExperiment,
    HashedTreeSizes,
    objective,
    small_problem,
)
from bitkin.papers.heshing.names import FLATHASH, FLATHASH_TOTAL, HESHING, HIESVM, METHODS, OVR
from bitkin.papers.heshing.rivals import (
    HashedMachine,
    OneVsRestMachine,
    ProjectedMachine,
    TopDownMachine,
    choose_alpha,
)
from bitkin.papers.label_trees import LabelTree, _with_columns, tree_of_groups
from bitkin.papers.report import PaperReport

SET = "small"
TINY = HashedTreeSizes(
    seeds=2, high_bits=8, curve_bits=(6, 8, 12), curve_seeds=1, components=20, most_bits=14,
    optimum_passes=(10, 300),
)  # fmt: skip


@cache
def small_tree() -> LabelTree:
    X, y, X_test, y_test, tree = small_problem()
    return LabelTree(SET, tree, X, tree.index_of(y), X_test, tree.index_of(y_test))


def new_experiment() -> HashedTreeExperiment:
    data = PaperData(quick=True)
    data._loaded[SET] = small_tree()
    return HashedTreeExperiment(data, [SET], [SET], TINY)


@cache
def ended() -> tuple[HashedTreeExperiment, PaperReport]:
    experiment = new_experiment()
    for job in experiment.jobs():
        job()
    return experiment, experiment.report()


def error(kind: str, method: str) -> float:
    return ended()[0].scores.mean((kind, "table", SET, method)).mean


def test_the_tree_helps_where_buckets_are_few() -> None:
    assert error("flat", HESHING) < error("flat", FLATHASH) + 0.01
    assert error("hierarchical", HESHING) < error("hierarchical", FLATHASH) + 0.02
    assert error("flat", HIESVM) < error("flat", HESHING) + 0.02
    scores = ended()[0].scores
    few, many = (
        scores.mean(("flat", "curve", SET, bits, HESHING)).mean for bits in (6, TINY.curve_bits[-1])
    )
    assert many < few - 0.02


def test_equal_total_memory_is_equal() -> None:
    scores = ended()[0].scores
    ours, flat, total = (
        scores.mean(("bytes", SET, method)).mean for method in (HESHING, FLATHASH, FLATHASH_TOTAL)
    )
    assert ours == total == 2 * flat


def test_more_passes_come_nearer_to_the_optimum() -> None:
    scores = ended()[0].scores
    for alpha in TINY.alphas:
        few, many = (scores.mean(("objective", alpha, passes)).mean for passes in (10, 300))
        assert many < few


def test_the_objective_is_the_paper_s() -> None:
    X, y, _, _, tree = small_problem()
    model = HeshingClassifier(tree, n_buckets=2**8, alpha=0.01).fit(X[:50], y[:50])
    scores = model.decision_function(X[:50])
    labels = model.classes_.tolist()
    losses = []
    for row, label in zip(scores, y[:50], strict=True):
        own = row[labels.index(label)]
        others = [1 + score - own for score, name in zip(row, labels, strict=True) if name != label]
        losses.append(max(0.0, *others))
    expected = 0.005 * float((model.weights_.astype(float) ** 2).sum()) + float(np.mean(losses))
    assert objective(model, X[:50], y[:50], 0.01) == pytest.approx(expected, rel=1e-5)


def test_the_report_has_every_method_and_every_claim() -> None:
    _, report = ended()
    tables = {table.name: table for table in report.tables}
    assert [row[0] for row in tables["flat_error"].rows] == list(METHODS)
    verdicts = {claim.name: claim.verdict for claim in report.claims}
    assert len(verdicts) == 11
    assert verdicts["Theorem 2"] == "holds"
    assert verdicts["below flat hashing, flat error"] == "holds"


def test_a_job_gives_the_same_numbers_again() -> None:
    experiment, _ = ended()
    again = new_experiment()
    # HESHING is compared with the others row by row
    for method in (FLATHASH, FLATHASH_TOTAL, HESHING):
        for seed in range(TINY.seeds):
            again._table(SET, method, seed)
    key = ("flat", "table", SET, HESHING)
    assert again.scores.values(key) == experiment.scores.values(key)


@pytest.mark.parametrize("kind", ["one", "projected", "top down", "hashed"])
def test_every_machine_learns_and_says_what_it_keeps(kind: str) -> None:
    data = small_tree()
    made: dict[str, Any] = {
        "one": OneVsRestMachine(1e-4),
        "projected": ProjectedMachine(20),
        "top down": TopDownMachine(data, 1e-4),
        "hashed": HashedMachine(data, 2**12, 1e-3, 0, tree=True),
    }
    machine = made[kind].fit(data.X, data.y)
    predicted = machine.predict(data.X_test)
    assert (predicted != data.y_test).mean() < 0.6  # 0.8 by chance
    n = data.X.shape[1]
    assert (
        machine.n_bytes
        == {
            "one": 4 * 5 * (n + 1),
            "projected": 4 * (5 * 21 + 20 * n),
            "top down": 4 * (1 + 1 + 3) * (n + 1),  # a | b, a.1 | a.2, b.1 | b.2 | b.3
            "hashed": 4 * 2 * 2**12,
        }[kind]
    )


def test_errors_are_those_of_the_library() -> None:
    data = small_tree()
    predicted = np.roll(data.y_test, 1)
    names = np.array(data.taxonomy.classes)
    true, guessed = names[data.y_test].tolist(), names[predicted].tolist()
    flat, hierarchical = data.errors(predicted)
    assert flat == pytest.approx(flat_error(true, guessed))
    assert hierarchical == pytest.approx(hierarchical_error(data.taxonomy, true, guessed))


def test_the_penalty_with_the_least_error_is_chosen() -> None:
    data = small_tree()
    tried: list[float] = []

    class Noted(OneVsRestMachine):
        def __init__(self, alpha: float) -> None:
            tried.append(alpha)
            super().__init__(alpha)

    assert choose_alpha(Noted, data.X, data.y) in tried
    assert len(tried) == 3
    assert tried[1] == pytest.approx(1e-4)  # rows of length 1


def test_columns_of_very_wide_rows_are_taken() -> None:
    wide = scipy.sparse.csr_array(
        ([1.0, 2.0, 3.0, 4.0], [5, 2**30, 7, 2**31 - 2], [0, 2, 2, 4]), shape=(3, 2**31 - 1)
    )
    used = np.array([5, 7, 2**30])
    assert _with_columns(wide, used).toarray().tolist() == [[1, 0, 2], [0, 0, 0], [0, 3, 0]]


def test_newsgroups_hang_below_their_first_words() -> None:
    counts = scipy.sparse.csr_array(np.eye(6, dtype=np.float32) + 1)
    groups = ["rec.autos", "rec.motorcycles", "sci.med"] * 2
    learned = np.arange(6) < 3
    found = tree_of_groups(counts, groups, learned, ~learned)
    assert found.taxonomy == Taxonomy.from_paths([(g.split(".")[0], g) for g in groups])
    assert found.X.shape == (3, 6)
    assert np.allclose(np.linalg.norm(found.X.toarray(), axis=1), 1)
    assert sorted(found.y.tolist()) == sorted(found.y_test.tolist()) == [0, 1, 2]


def test_the_memory_of_one_vs_rest_grows_with_classes_and_features() -> None:
    scores = ended()[0].scores
    assert scores.mean(("bytes", SET, OVR)).mean == 4 * 5 * (small_tree().X.shape[1] + 1)
