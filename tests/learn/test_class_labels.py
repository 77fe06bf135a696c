"""Labels of every kind go in and come out as they are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bitkin import HeshingClassifier, Taxonomy
from bitkin.errors import InvalidInputError
from bitkin.learn.heshing.class_labels import sort_labels, to_label_array
from tests.learn.heshing_truth import TREE, bags

KINDS: dict[str, list[Any]] = {
    "numbers": [3, 1, 2],
    "tuples": [("a", 1), ("b", 2), ("a", 2)],
    "mixed": ["a", 1, ("b",)],
    "ending in NUL": ["a\0", "a", "b\0\0"],
    "sets": [frozenset("ab"), frozenset("c"), frozenset("a")],
    "bytes": [b"x", b"y\0", b"y"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("margin", [None, 0.3])
def test_labels_of_every_kind_can_be_learned_and_scored(kind: str, margin: float | None) -> None:
    labels = KINDS[kind]
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 3, 90)
    X = np.eye(3, dtype=np.float32)[numbers] + rng.random((90, 3)).astype(np.float32) / 9
    y = [labels[number] for number in numbers]
    model = HeshingClassifier(n_buckets=64, alpha=1e-3, min_margin=margin).fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == (90,)
    hits = np.array([label == guess for label, guess in zip(y, predicted.tolist(), strict=True)])
    assert model.score(X, y) == pytest.approx(hits.mean())
    assert model.score(X, y) > 0.8
    assert set(predicted.tolist()) <= {*labels, "root"}
    weights = rng.random(90)
    assert model.score(X, y, weights) == pytest.approx((hits * weights).sum() / weights.sum())
    for size in (0, 1, 7):  # the type is that of all answers there are, not of those given
        assert model.predict(X[:size]).dtype == predicted.dtype
    with pytest.raises(
        InvalidInputError, match="y must hold one label a row of X, 90 in all, got 2"
    ):
        model.score(X, y[:2])
    with pytest.raises(InvalidInputError, match="sample_weight must be 90 numbers"):
        model.score(X, y, [1.0])


def test_an_unsure_prediction_has_the_type_of_all_answers() -> None:
    X, y = bags(100)
    model = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3, min_margin=1e6).fit(X, y)
    assert model.predict(X).dtype == "<U6"  # "flower" and "animal" are the longest
    numbers = TREE.index_of(y)
    tree = Taxonomy.from_paths([(number % 2 - 9, number) for number in range(5)])
    few = HeshingClassifier(tree, n_buckets=64, alpha=1e-3, min_margin=0.1).fit(X, numbers)
    assert few.predict(X).dtype == object  # the root is a text
    assert 0 < few.score(X, numbers) <= 1


def test_an_empty_row_is_as_sure_as_the_prior() -> None:
    X, y = bags(200)
    y[:] = np.array(["lily", "rose"])[np.arange(200) % 2]
    y[:20] = "cat"
    model = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3).fit(X, y)
    nothing = np.zeros((1, 60))
    lead = np.log(91 / 21)  # of lily over cat; rose is as frequent as lily
    assert model.predict_path(nothing, min_margin=0.0)[0] == TREE.path_of("lily")
    assert model.predict_path(nothing, min_margin=0.1)[0] == ("root", "plant", "flower")
    assert model.predict_path(nothing, min_margin=lead - 0.01)[0] == ("root", "plant", "flower")
    assert model.predict_path(nothing, min_margin=lead + 0.01)[0] == ("root",)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_labels_does_not_depend_on_the_rows(kind: str) -> None:
    orders = [sort_labels(labels) for labels in itertools.permutations(KINDS[kind])]
    assert all(order == orders[0] for order in orders)


def test_no_text_loses_its_end() -> None:
    assert to_label_array(["a\0", "a"]).tolist() == ["a\0", "a"]
    assert to_label_array(["a", "b"]).dtype == "<U1"
