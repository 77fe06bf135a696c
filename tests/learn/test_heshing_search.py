"""Beams and margins: one answer however it is asked for, in trees of any size."""

from __future__ import annotations

import functools
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bitkin import HeshingClassifier, Taxonomy
from bitkin.kernels._kernel import JIT_DISABLED
from bitkin.kernels.heshing import _keep_best
from bitkin.learn.heshing.rows import to_kernel_rows
from bitkin.learn.heshing.scoring import (
    ClassScorer,
    SpreadWeights,
    spread_pays,
    visited_nodes,
)
from bitkin.learn.heshing.settings import AUTO_BEAM, FULL_SEARCH_NODES
from bitkin.learn.heshing.sgd import (
    LabelledRows,
    LearningMethod,
    TrainingPlan,
    finish_weights,
    learn_rows,
    start_tables,
)
from bitkin.learn.heshing.tree import build_tree, sure_depth
from tests.learn.heshing_truth import TREE, bags, feature_maps, learned_slowly

WIDE = 3 if JIT_DISABLED else 17
PLACES = itertools.product("abc", range(WIDE), range(7))
LARGE = Taxonomy.from_paths([(a, f"{a}{b}", f"{a}{b}.{c}") for a, b, c in PLACES])


def rows(n: int, seed: int) -> tuple[Any, Any]:
    """Rows of noise, and of signs of the nodes on the path of their class."""
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(n) % LARGE.n_classes
    X = rng.poisson(0.01, (n, LARGE.n_nodes)).astype(np.float32)
    np.put_along_axis(X, LARGE.class_paths[numbers], 1.0, axis=1)
    return X, np.array(LARGE.classes)[numbers]


@functools.cache
def learned(**parameters: Any) -> HeshingClassifier:
    """A model of the large tree; tests must not change it."""
    n = LARGE.n_classes if JIT_DISABLED else 4 * LARGE.n_classes
    parameters = {"n_buckets": 2**15, "alpha": 1e-4, "max_iter": 3, **parameters}
    return HeshingClassifier(LARGE, **parameters).fit(*rows(n, 0))


def test_a_large_tree_is_searched_by_the_usual_beam() -> None:
    if JIT_DISABLED:
        pytest.skip("plain Python is too slow for a large tree")
    assert LARGE.n_nodes > FULL_SEARCH_NODES
    X, y = rows(300, 1)
    model = learned()
    assert model._model.beam == AUTO_BEAM
    assert model.score(X, y) > 0.6
    assert 0 < model.beam_gap(X, 1) < 0.8
    assert np.array_equal(model.weights_, learned(beam=AUTO_BEAM).weights_)
    assert not np.array_equal(model.weights_, learned(beam=None).weights_)


def test_fewer_classes_are_the_first_of_more() -> None:
    X, _ = rows(40, 1)
    model = learned(beam=2)
    all_of_them = model.predict_top(X, len(model.classes_))
    assert np.array_equal(all_of_them.labels[:, 0], model.predict(X))
    assert all(len(set(row)) == len(model.classes_) for row in all_of_them.labels.tolist())
    for k in (1, 2, 7, 14, 15, len(model.classes_) - 1):
        top = model.predict_top(X, k)
        assert np.array_equal(top.labels, all_of_them.labels[:, :k])
        assert np.array_equal(top.scores, all_of_them.scores[:, :k])
    scores = model.decision_function(X)
    columns = np.searchsorted(np.sort(model.classes_), all_of_them.labels)
    columns = np.argsort(model.classes_, kind="stable")[columns]
    assert np.array_equal(np.take_along_axis(scores, columns, axis=1), all_of_them.scores)
    reached = 14  # two nodes of the level above, of seven classes each
    assert (np.diff(all_of_them.scores[:, :reached]) <= 0).all()
    assert (np.diff(all_of_them.scores[:, reached:]) <= 0).all()


def test_probabilities_and_predictions_agree_in_a_large_tree() -> None:
    X, _ = rows(40, 1)
    model = learned(loss="softmax", max_iter=1)
    assert model._model.beam is None
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("beam", [None, 1, 3])
@pytest.mark.parametrize("margin", [0.0, 0.05, 0.3, 1e6])
def test_a_margin_is_kept_from_all_classes_whatever_the_beam(
    beam: int | None, margin: float
) -> None:
    X, _ = rows(60, 1)
    X[7] = 0
    model = learned(beam=beam)
    scores, whole, found = (
        model.decision_function(X).astype(np.float64),
        model.predict_path(X),
        model.predict_path(X, margin),
    )
    paths = {path: LARGE.class_paths[LARGE.class_number(path[-1])] for path in whole}
    known = LARGE.class_paths[LARGE.index_of(model.classes_)]
    for row, (path, full) in enumerate(zip(found, whole, strict=True)):
        assert path == full[: len(path)]
        best = scores[row][(known == paths[full]).all(axis=1)][0]
        for depth in range(1, 4):
            outside = known[:, depth - 1] != paths[full][depth - 1]
            lead = best - scores[row][outside].max()
            if abs(lead - margin) > 1e-5:
                assert (len(path) > depth) == (lead >= margin)


def test_the_definition_of_a_sure_depth() -> None:
    paths = np.array([[0, 1], [0, 2], [3, 4]], dtype=np.int32)
    scores = np.array([1.0, 0.5, -1.0], dtype=np.float32)
    assert [sure_depth(paths, scores, margin) for margin in (0.0, 0.5, 0.6, 2.0, 2.1)] == [
        2,
        2,
        1,
        1,
        0,
    ]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 45))
def test_the_best_nodes_come_in_order_and_ties_by_number(values: list[int], k: int) -> None:
    scores = np.array(values, dtype=np.float64)
    frontier = np.random.default_rng(0).permutation(len(values)).astype(np.int32)
    kept = np.empty(k, dtype=np.int32)
    n = _keep_best(frontier, scores, k, kept)
    assert kept[:n].tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("beam", [1, 2])
def test_learning_with_a_beam_is_its_definition(softmax: bool, beam: int) -> None:
    taxonomy = Taxonomy.from_paths(
        [(a, f"{a}{b}", f"{a}{b}{c}") for a in "pqr" for b in range(2) for c in "xy"]
    )
    rng = np.random.default_rng(0)
    n = 20 if JIT_DISABLED else 80
    classes = rng.integers(0, 12, n).astype(np.int32)
    X = rng.standard_normal((n, 9)).astype(np.float32)
    tables = start_tables(np.zeros((3, 200), dtype=np.float32), average=True)
    square = float((X.astype(np.float64) ** 2).sum(axis=1).mean())
    method = LearningMethod(softmax, average=True, alpha=1e-2, mean_square=square, intercept=0.0)
    tree = build_tree(taxonomy, np.arange(12), 0)
    plan = TrainingPlan(tree, 200, method, beam=beam, max_iter=1, seed=0)
    learn_rows(tables, plan, LabelledRows(X, classes), np.arange(n))
    maps = feature_maps(taxonomy, 9, 200, 0)
    slow = learned_slowly(
        maps,
        X.astype(np.float64),
        classes,
        alpha=1e-2,
        softmax=softmax,
        beam=beam,
        paths=taxonomy.class_paths,
    )
    assert np.allclose(finish_weights(tables), slow, atol=2e-4 * np.abs(slow).max())


def wide_tree() -> Taxonomy:
    """Three levels below the root, 36 classes."""
    return Taxonomy.from_paths(
        [(a, f"{a}{b}", f"{a}{b}{c}") for a in "pqrs" for b in range(3) for c in "xyz"]
    )


@pytest.mark.parametrize("intercept", [0.0, 1.5])
@pytest.mark.parametrize("n_features", [1, 4, 7, 9])
def test_weights_spread_over_features_give_the_same_scores_to_the_last_bit(
    intercept: float, n_features: int
) -> None:
    rng = np.random.default_rng(0)
    taxonomy = wide_tree()
    tree = build_tree(taxonomy, np.arange(36), 0)
    weights = rng.standard_normal((3, 200)).astype(np.float32)
    X = rng.standard_normal((30, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    X_rows = to_kernel_rows(X)
    spread = SpreadWeights(n_features)
    hashed = ClassScorer(tree, weights, intercept)
    fast = ClassScorer(tree, weights, intercept, spread)
    assert np.array_equal(fast.scores(X_rows), hashed.scores(X_rows))
    assert spread.n_bytes == 4 * (n_features + 1) * len(tree.seeds)
    for k, beam in ((1, None), (5, 2), (36, 3)):
        for one, other in zip(
            fast.best(X_rows, k, beam), hashed.best(X_rows, k, beam), strict=True
        ):
            assert np.array_equal(one, other)
    sure, truly_sure = (scorer.best_and_sure(X_rows, 2, 0.5) for scorer in (fast, hashed))
    assert np.array_equal(sure[0], truly_sure[0])
    assert np.array_equal(sure[1], truly_sure[1])
    if n_features > 1:
        # a row that is cheaper to hash makes nothing
        later = SpreadWeights(n_features)
        ClassScorer(tree, weights, intercept, later).scores(to_kernel_rows(X[:0]))
        assert later.n_bytes == 0


def test_spread_weights_are_bounded_and_follow_what_is_learned() -> None:
    X, y = bags(200)
    model = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3, max_iter=1).fit(X, y)
    before = model.predict(X)
    assert model._model.spread is not None
    assert model._model.spread.n_bytes == 4 * 61 * len(model._model.tree.seeds)
    back = pickle.loads(pickle.dumps(model))
    assert back._model.spread is None
    assert model._model.spread is not None
    assert np.array_equal(back.predict(X), before)
    model.partial_fit(X[:50], ["rock"] * 50)
    fresh = pickle.loads(pickle.dumps(model))
    assert np.array_equal(
        model.decision_function(X),
        np.concatenate([fresh.decision_function(X[[i]]) for i in range(200)]),
    )
    wide = SpreadWeights(2**22)
    assert wide.for_rows(to_kernel_rows(X), model._model.tree, model.weights_).size == 0


def test_weights_are_not_spread_where_a_beam_visits_few_nodes() -> None:
    taxonomy = Taxonomy.from_paths(
        [(f"{a}", f"{a}.{b}", f"{a}.{b}.{c}") for a in range(5) for b in range(8) for c in range(9)]
    )
    tree = build_tree(taxonomy, np.arange(360), 0)  # 5, 40 and 360 nodes
    assert [visited_nodes(tree, width) for width in (1, 8, 40)] == [5 + 8 + 9, 5 + 40 + 72, 405]
    assert [spread_pays(tree, width) for width in (1, 7, 8, 40)] == [False, True, True, True]
    rows = to_kernel_rows(np.ones((20, 3), dtype=np.float32))
    weights = np.random.default_rng(0).standard_normal((3, 200)).astype(np.float32)
    spread = SpreadWeights(3)
    scorer = ClassScorer(tree, weights, 0.0, spread)
    few = scorer.best(rows, 2, 1)
    assert spread.n_bytes == 0
    scorer.best(rows, 2, None)
    assert spread.n_bytes == 4 * 4 * 405
    for before, after in zip(few, scorer.best(rows, 2, 1), strict=True):
        assert np.array_equal(before, after)


def test_threads_that_predict_at_once_find_the_same() -> None:
    X, y = bags(200)
    model = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3, max_iter=1).fit(X, y)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.decision_function(X), range(8)))
    assert all(np.array_equal(scores, found[0]) for scores in found)


@pytest.mark.parametrize("zeros", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5)])
def test_dense_rows_have_the_features_that_scipy_finds(
    zeros: float, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape).astype(np.float32)
    X[rng.random(shape) < zeros] = 0
    truth = csr_array(X)
    for form in (X, np.asfortranarray(X), X[:, ::-1][:, ::-1]):
        found = to_kernel_rows(form)
        assert found.indptr.tolist() == truth.indptr.tolist()
        assert found.features.tolist() == truth.indices.tolist()
        assert found.values.tolist() == truth.data.tolist()
        assert [part.dtype for part in found] == [np.int64, np.uint32, np.float32]
