from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array
from sklearn.utils import murmurhash3_32

from bitkin import Taxonomy, hashed_node_weights, hierarchical_features, theory
from bitkin.errors import InvalidInputError
from bitkin.learn.heshing.tree import node_seeds

TREE = Taxonomy.from_paths(
    [("r", "a", "x"), ("r", "a", "y"), ("r", "b", "c", "z"), ("r", "w"), ("r", "b")]
)
# share the root alone
MANY = Taxonomy.from_paths([(f"a{i}", f"b{i}", f"c{i}") for i in range(2500)])


def unit_pair(rng: np.random.Generator, d: int) -> Any:
    pair = rng.normal(size=(2, d)) * (rng.random((2, d)) < 0.7)
    pair[1] += 0.8 * pair[0]
    return pair / np.linalg.norm(pair, axis=1, keepdims=True)


@pytest.mark.parametrize("n_buckets", [1, 7, 64])
def test_features_are_those_of_scikit_learns_hash_entry_by_entry(n_buckets: int) -> None:
    X = np.random.default_rng(0).normal(size=(5, 9)).round(1)
    X[2] = 0
    labels = ["x", "z", "y", "w", "b"]
    truth = np.zeros((5, TREE.n_levels * n_buckets))
    for row, label in enumerate(labels):
        path = [-1, *TREE.class_paths[TREE.class_number(label)]]
        for level, seed in enumerate(node_seeds(np.array(path), 3).tolist()):
            for j in range(9):
                h = murmurhash3_32(j.to_bytes(4, "little"), seed=seed, positive=True)
                sign, bucket = 1 - 2 * (h >> 31), (h % 2**31) * n_buckets // 2**31
                truth[row, level * n_buckets + bucket] += sign * X[row, j] / np.sqrt(TREE.n_levels)
    found = hierarchical_features(X, labels, TREE, n_buckets, random_state=3)
    assert found.format == "csr"
    assert found.toarray() == pytest.approx(truth)
    assert hierarchical_features(
        csr_array(X), labels, TREE, n_buckets, 3
    ).toarray() == pytest.approx(truth)
    below = hierarchical_features(X, labels, TREE, n_buckets, 3, root=False)
    assert below.toarray() == pytest.approx(truth[:, n_buckets:])


@pytest.mark.parametrize(
    ("label", "other", "shared"), [("x", "x", 4), ("x", "y", 2), ("x", "z", 1), ("z", "b", 2)]
)
def test_products_have_the_mean_and_variance_of_the_theory(
    label: str, other: str, shared: int
) -> None:
    pair, m, n = unit_pair(np.random.default_rng(1), 12), 16, 400
    products = np.empty(n)
    for seed in range(n):
        a, b = hierarchical_features(pair, [label, other], TREE, m, seed).toarray()
        products[seed] = a @ b
    mean, variance = theory.hashed_product(pair[0], pair[1], m, TREE.n_levels, shared=shared)
    assert mean == pytest.approx(shared / 4 * (pair[0] @ pair[1]))
    assert abs(products.mean() - mean) < 4 * np.sqrt(variance / n)
    spread = (products - mean) ** 2
    assert abs(spread.mean() - variance) < 4 * spread.std() / np.sqrt(n)


def test_nodes_hash_independently_of_each_other() -> None:
    # Over the nodes of one model, as the test above is over seeds: the root, which all share, is
    # left out.
    pair, m, T = unit_pair(np.random.default_rng(2), 15), 32, MANY.n_levels
    a, b = (
        hierarchical_features([x] * MANY.n_classes, MANY.classes, MANY, m, root=False) for x in pair
    )
    products = np.asarray(a.multiply(b).sum(axis=1)).ravel()
    level = theory.hashed_product(pair[0], pair[1], m, T=1)
    mean, variance = (T - 1) * level.mean / T, (T - 1) * level.variance / T**2
    assert level.variance == pytest.approx(
        (1 + (pair[0] @ pair[1]) ** 2 - 2 * (pair[0] ** 2 @ pair[1] ** 2)) / m
    )
    assert abs(products.mean() - mean) < 4 * np.sqrt(variance / len(products))
    spread = (products - mean) ** 2
    assert abs(spread.mean() - variance) < 4 * spread.std() / np.sqrt(len(products))
    next_class = np.asarray(a[:-1].multiply(b[1:]).sum(axis=1)).ravel()
    assert abs(next_class.mean()) < 4 * next_class.std() / np.sqrt(len(next_class))


def test_theorem_2_by_counting_lost_features() -> None:
    d, m, n = 700, 2053, 80
    tree = Taxonomy.from_paths([(f"a{i}", f"b{i}") for i in range(n)])
    lost = []
    for label in tree.classes:
        features = hierarchical_features(eye_array(d, format="csr"), label, tree, m, root=False)
        # a row a feature, a column a level
        buckets = np.sort(features.indices.reshape(d, 2), axis=1)
        shared = [np.bincount(level, minlength=2 * m)[level] > 1 for level in buckets.T]
        lost.append((shared[0] & shared[1]).sum())
    expected = theory.expected_feature_loss(d, m, T=2, exact=True)
    assert expected < theory.expected_feature_loss(d, m, T=2)
    assert abs(np.mean(lost) - expected) < 4 * np.std(lost) / np.sqrt(n)


def hierarchical_svm(X: Any, y: Any, tree: Taxonomy) -> Any:
    """A weight vector a node, learned by the Crammer–Singer hinge on sums along paths: 1/√T · Σ
    ⟨w_u, x⟩.
    """
    weights = np.zeros((tree.n_nodes, X.shape[1]))
    on_path = np.zeros((tree.n_classes, tree.n_nodes))
    np.put_along_axis(
        on_path, tree.class_paths.astype(np.int64), 1 / np.sqrt(tree.n_levels), axis=1
    )
    for step in range(1, 2001):
        row = step % len(X)
        scores = on_path @ (weights @ X[row]) + (np.arange(tree.n_classes) != y[row])
        weights *= 1 - 1 / step
        weights += np.outer(on_path[y[row]] - on_path[scores.argmax()], X[row]) / (0.05 * step)
    return weights, on_path


def test_theorem_3_hashed_weights_of_a_hierarchical_svm_give_its_scores() -> None:
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(TREE.n_classes, 30))
    y = rng.integers(0, TREE.n_classes, 200)
    X = centres[y] + 0.5 * rng.normal(size=(200, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights, on_path = hierarchical_svm(X, y, TREE)
    scores = X @ weights.T @ on_path.T
    assert (scores.argmax(axis=1) == y).mean() > 0.95
    few = X[:20]
    for m in (2**5, 2**7, 2**9):
        errors = [
            ((hashed_scores(few, weights, m, seed) - scores[:20]) ** 2).mean() for seed in range(25)
        ]
        expected = np.mean(
            [expected_error(x, path, weights, m) for x in few for path in TREE.class_paths]
        )
        assert abs(np.mean(errors) - expected) < 4 * np.std(errors) / 5
        assert expected < 1.1 * (weights**2).sum() / TREE.n_levels / m
    found = hashed_scores(X, weights, 2**16, seed=0)
    assert (found.argmax(axis=1) == scores.argmax(axis=1)).mean() > 0.99


def hashed_scores(X: Any, weights: Any, m: int, seed: int) -> Any:
    table = hashed_node_weights(weights, TREE, m, seed).ravel()
    every = [
        hierarchical_features(X, label, TREE, m, seed, root=False) @ table for label in TREE.classes
    ]
    return np.stack(every, axis=1)


def expected_error(x: Any, path: Any, weights: Any, m: int) -> float:
    """On each level the node of the path has a hash in common with x, and all other nodes of the
    level have not.
    """
    total = 0.0
    for level, node in enumerate(path, 1):
        others = (TREE.node_levels == level) & (np.arange(TREE.n_nodes) != node)
        total += (
            theory.hashed_product(weights[node], x, m, T=1).variance
            + (weights[others] ** 2).sum() * (x @ x) / m
        )
    return total / TREE.n_levels


def test_hashed_weights_are_sums_of_hashed_rows() -> None:
    weights = np.random.default_rng(5).normal(size=(TREE.n_nodes, 6))
    table = hashed_node_weights(csr_array(weights), TREE, 8, random_state=2)
    assert table.shape == (TREE.n_levels - 1, 8)
    truth = np.zeros_like(table)
    for number, label in enumerate(TREE.classes):
        for level, node in enumerate(TREE.class_paths[number]):
            if node in TREE.class_paths[:number, level]:
                continue  # counted with an earlier class
            hashed = (
                hierarchical_features(weights[[node]], label, TREE, 8, 2, root=False)
                .toarray()
                .reshape(-1, 8)
            )
            truth[level] += hashed[level] * np.sqrt(TREE.n_levels)
    assert table == pytest.approx(truth)
    assert hashed_node_weights(weights, TREE, 8, 2) == pytest.approx(table)


def test_seeds_of_nodes_differ_and_do_not_depend_on_the_tree() -> None:
    seeds = node_seeds(np.arange(-1, 200_000), 9)
    assert seeds.dtype == np.uint32
    assert len(np.unique(seeds)) == len(seeds)
    assert node_seeds(np.array([500, -1], dtype=np.int32), 9).tolist() == [seeds[501], seeds[0]]
    assert not (node_seeds(np.arange(1000), 10) == seeds[1:1001]).any()
    grown = TREE.with_paths([("r", "a", "x", "new", "deep")])
    X = np.arange(6.0).reshape(1, 6)
    before, after = (
        hierarchical_features(X, "x", tree, 16, root=False).toarray() for tree in (TREE, grown)
    )
    assert after[:, : before.shape[1]] * np.sqrt(grown.n_levels) == pytest.approx(
        before * np.sqrt(TREE.n_levels)
    )


def test_no_rows_and_rows_of_zeros() -> None:
    assert hierarchical_features(np.empty((0, 3)), [], TREE, 4).shape == (0, 16)
    assert hierarchical_features(np.zeros((2, 3)), "x", TREE, 4).nnz == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": ["x"]}, "labels must be one a row of X, 2 in all, got 1"),
        ({"labels": ["x", "a"]}, "classes of the taxonomy, got 'a'"),
        ({"n_buckets": 0}, "n_buckets must be between 1 and 2147483648, got 0"),
        ({"n_buckets": 2.5}, "n_buckets must be a whole number, got 2.5"),
        ({"X": [[1, np.nan], [0, 0]]}, "X must be finite"),
        ({"X": [1, 2]}, r"X must have shape \(n, d\)"),
        ({"random_state": -1}, "random_state must be between"),
    ],
    ids=["too few", "inner", "none", "fraction", "nan", "flat", "seed"],
)
def test_what_cannot_be_hashed_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "X": np.eye(2),
        "labels": ["x", "y"],
        "taxonomy": TREE,
        "n_buckets": 4,
    } | change
    with pytest.raises(InvalidInputError, match=words):
        hierarchical_features(**arguments)


def test_weights_must_have_a_row_a_node() -> None:
    with pytest.raises(
        InvalidInputError, match="a row for each of the 13 nodes below the root, got 3"
    ):
        hashed_node_weights(np.eye(3), TREE, 4)
