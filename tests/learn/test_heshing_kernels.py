"""Hashes, scores, beams and steps against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

import bitkin
from bitkin.kernels._kernel import JIT_DISABLED
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import hash_pairs_into, place_features_into
from bitkin.learn.heshing.rows import to_kernel_rows
from bitkin.learn.heshing.scoring import ClassScorer
from bitkin.learn.heshing.sgd import (
    LabelledRows,
    LearningMethod,
    TrainingPlan,
    finish_weights,
    learn_rows,
    loss_of,
    start_tables,
    steps_of,
)
from bitkin.learn.heshing.tree import build_tree
from tests.learn.heshing_truth import TREE, bags, feature_maps, learned_slowly, murmur3

ALL = np.arange(TREE.n_classes)
WORDS = st.integers(0, 2**32 - 1)


def test_a_million_hashes_are_those_of_scikit_learn() -> None:
    n_features, n_seeds = (10, 10) if JIT_DISABLED else (1000, 1000)
    rng = np.random.default_rng(0)
    features = np.append(
        rng.integers(0, 2**32, n_features - 2, dtype=np.uint32), [0, 2**32 - 1]
    ).astype(np.uint32)
    for seed in np.append(rng.integers(0, 2**32, n_seeds - 2), [0, 2**32 - 1]).tolist():
        hashes = np.empty(len(features), dtype=np.uint32)
        hash_pairs_into(
            read_only(features), read_only(np.full(len(features), seed, dtype=np.uint32)), hashes
        )
        assert np.array_equal(
            hashes, murmurhash3_32(features.view(np.int32), seed=seed, positive=True)
        )


@given(feature=WORDS, seed=WORDS, n_buckets=st.integers(1, 2**31))
def test_the_bucket_and_the_sign_come_from_different_bits(
    feature: int, seed: int, n_buckets: int
) -> None:
    buckets, signs = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int8)
    place_features_into(
        read_only(np.array([feature], dtype=np.uint32)), np.uint32(seed), n_buckets, buckets, signs
    )
    h = murmur3(feature, seed)
    assert (buckets[0], signs[0]) == (((h & 2**31 - 1) * n_buckets) >> 31, -1 if h >> 31 else 1)
    assert 0 <= buckets[0] < n_buckets


def test_buckets_are_even_and_signs_independent_of_them() -> None:
    n = 500 if JIT_DISABLED else 200_000
    buckets, signs = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
    place_features_into(read_only(np.arange(n, dtype=np.uint32)), np.uint32(7), 10, buckets, signs)
    counts = np.bincount(buckets, minlength=10)
    sums = np.bincount(buckets, weights=signs, minlength=10)
    assert (np.abs(counts - n / 10) < 5 * math.sqrt(n / 10)).all()
    assert (np.abs(sums) < 5 * np.sqrt(counts)).all()


@pytest.mark.parametrize("n_buckets", [1, 7, 64, 1000])
def test_scores_are_products_with_the_hashed_features(n_buckets: int) -> None:
    X, _ = bags(13)
    weights = (
        np.random.default_rng(1).standard_normal((TREE.n_levels - 1, n_buckets)).astype(np.float32)
    )
    scorer = ClassScorer(build_tree(TREE, ALL, 5), weights, 0.0)
    maps = feature_maps(TREE, X.shape[1], n_buckets, 5)
    assert np.allclose(
        scorer.scores(to_kernel_rows(X)), np.einsum("nj,cljb,lb->nc", X, maps, weights), atol=1e-4
    )


def test_scores_are_products_with_the_library_s_explicit_features() -> None:
    X, y = bags(40)
    model = bitkin.HeshingClassifier(
        TREE, n_buckets=101, alpha=1e-3, max_iter=1, random_state=3
    ).fit(X, y)
    scores = model.decision_function(X)
    for column, label in enumerate(model.classes_):
        features = bitkin.hierarchical_features(X, [label] * len(X), TREE, 101, 3, root=False)
        assert np.allclose(features @ model.weights_.ravel(), scores[:, column], atol=1e-4)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_learning_is_its_definition_step_by_step(softmax: bool, alpha: float, scale: float) -> None:
    X, y = bags(30 if JIT_DISABLED else 120)
    X = (X * scale).astype(np.float32)
    classes = TREE.index_of(y).astype(np.int32)
    alpha *= scale**2
    mean_square = float((X.astype(np.float64) ** 2).sum(axis=1).mean())
    method = LearningMethod(
        softmax, average=True, alpha=alpha, mean_square=mean_square, intercept=0.0
    )
    plan = TrainingPlan(build_tree(TREE, ALL, 0), 50, method, beam=None, max_iter=1, seed=0)
    tables = start_tables(np.zeros((TREE.n_levels - 1, 50), dtype=np.float32), average=True)
    learn_rows(tables, plan, LabelledRows(X, classes), np.arange(len(X)))
    maps = feature_maps(TREE, X.shape[1], 50, 0)
    slow = learned_slowly(maps, X.astype(np.float64), classes, alpha=alpha, softmax=softmax)
    assert np.allclose(finish_weights(tables), slow, atol=2e-4 * np.abs(slow).max())
    assert steps_of(tables) == len(X)
    assert loss_of(tables) > 0


@given(st.integers(0, 2**32 - 1))
def test_the_searched_tree_keeps_every_path(seed: int) -> None:
    rng = np.random.default_rng(seed)
    paths = {
        tuple(rng.integers(0, 3, rng.integers(1, 5)).tolist()) for _ in range(rng.integers(1, 12))
    }
    taxonomy = bitkin.Taxonomy.from_paths([("root", *path, path) for path in sorted(paths)])
    chosen = np.sort(rng.permutation(taxonomy.n_classes)[: rng.integers(1, taxonomy.n_classes + 1)])
    tree = build_tree(taxonomy, chosen, 0)
    whole = build_tree(taxonomy, np.arange(taxonomy.n_classes), 0)
    seed_of_node = dict(zip(whole.seeds.tolist(), range(len(whole.seeds)), strict=True))
    for c, leaf in enumerate(tree.class_leaves.tolist()):
        path = []
        while leaf >= 0:
            path.append(tree.seeds[leaf])
            parent = tree.parents[leaf]
            assert tree.children[parent + 1] <= leaf < tree.children[parent + 2]
            leaf = parent
        node = whole.class_leaves[chosen[c]]
        for node_seed in path:
            assert seed_of_node[int(node_seed)] == node
            node = whole.parents[node]
        assert node == -1
        assert tree.leaf_classes[tree.class_leaves[c]] == c
    assert tree.children[-1] == len(tree.seeds)
    assert (np.diff(tree.levels) >= 0).all()


@pytest.mark.parametrize("beam", [1, 2, 3, 4, 100])
def test_a_beam_finds_what_a_search_by_hand_finds(beam: int) -> None:
    rng = np.random.default_rng(0)
    places = [(a, f"{a}{b}", f"{a}{b}{c}") for a in "pqrs" for b in range(3) for c in "xyz"]
    taxonomy = bitkin.Taxonomy.from_paths(places)
    weights = rng.standard_normal((3, 200)).astype(np.float32)
    X = rng.standard_normal((25, 9)).astype(np.float32)
    scorer = ClassScorer(build_tree(taxonomy, np.arange(36), 0), weights, 0.0)
    found, scores = scorer.best(to_kernel_rows(X), 1, beam)
    maps = feature_maps(taxonomy, 9, 200, 0)
    levels = np.einsum("nj,cljb,lb->ncl", X, maps, weights).cumsum(axis=2)
    for row in range(25):
        alive = np.ones(36, dtype=bool)
        for level in range(2):
            lead = {
                taxonomy.class_paths[c, level]: -levels[row, c, level]
                for c in np.flatnonzero(alive)
            }
            best = sorted(lead.items(), key=lambda pair: pair[1])[:beam]
            alive &= np.isin(taxonomy.class_paths[:, level], [node for node, _ in best])
        assert found[row, 0] == np.flatnonzero(alive)[np.argmax(levels[row, alive, 2])]
        assert scores[row, 0] == pytest.approx(levels[row, found[row, 0], 2], abs=1e-4)
