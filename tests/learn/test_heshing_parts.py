"""Learning in parts: what fails leaves nothing behind, and classes, paths and parameters may come
later.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin import HeshingClassifier, Taxonomy
from bitkin.errors import InvalidInputError
from bitkin.io import open_vectors
from bitkin.kernels.heshing import learn_online_into, learn_rows_into
from bitkin.learn.heshing import online, sgd
from tests.hashers.sources import once
from tests.learn.heshing_truth import TREE, bags


def small(**parameters: Any) -> HeshingClassifier:
    """A model that is quickly learned."""
    return HeshingClassifier(
        **{"taxonomy": TREE, "n_buckets": 512, "alpha": 1e-3, "max_iter": 3, **parameters}
    )


def test_softmax_learns_rows_of_one_class() -> None:
    X, y = bags(60)
    model = small(loss="softmax").partial_fit(X[:5], ["lily"] * 5)
    assert not model.weights_.any()
    assert model.predict_proba(X).tolist() == [[1.0]] * 60
    model.partial_fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_softmax_learns_where_a_beam_leaves_the_true_class_alone() -> None:
    X, y = bags(300)
    model = small(loss="softmax", beam=1).fit(X, y)
    assert np.isfinite(model.weights_).all()
    assert model.score(X, y) > 0.7


def test_softmax_learns_rows_a_million_times_longer() -> None:
    X, y = bags(300)
    model = small(loss="softmax").partial_fit(X, y).partial_fit(X * 1e6, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    "more", [{}, {"classes": ["orchid"], "paths": [("plant", "flower", "tropical", "orchid")]}]
)
def test_an_interrupted_part_leaves_the_model_as_it_was(
    error: type[BaseException],
    more: dict[str, Any],
    fitted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = bags(200)
    model, twin = (
        (small().fit(X, y) if fitted else small()).partial_fit(X[:100], y[:100]) for _ in range(2)
    )
    module, name, learn = (
        (sgd, "learn_rows_into", learn_rows_into)
        if fitted
        else (online, "learn_online_into", learn_online_into)
    )

    def half_way(*arguments: Any) -> None:
        learn(*arguments)
        raise error

    monkeypatch.setattr(module, name, half_way)
    with pytest.raises(error):
        model.partial_fit(X[100:], y[100:], **more)
    monkeypatch.undo()
    model.save(tmp_path / "model")
    assert np.array_equal(bitkin.load(tmp_path / "model").weights_, twin.weights_)
    assert model.class_counts_.tolist() == twin.class_counts_.tolist()
    assert model.taxonomy_ == TREE
    assert np.array_equal(model.partial_fit(X, y).weights_, twin.partial_fit(X, y).weights_)


def test_a_shallow_copy_learns_for_itself() -> None:
    X, y = bags(200)
    model = small().partial_fit(X[:100], y[:100])
    copy.copy(model).partial_fit(X[100:], y[100:])
    assert np.array_equal(model.weights_, small().partial_fit(X[:100], y[:100]).weights_)


def test_naming_a_class_leaves_all_predictions_as_they_are() -> None:
    X, y = bags(300)
    model = small(taxonomy=None).partial_fit(X, y)
    before = model.decision_function(X)
    model.partial_fit(X[:0], y[:0], classes=["orchid"])
    assert np.allclose(model.decision_function(X)[:, :5], before, atol=1e-5)


def test_the_first_part_may_place_its_classes_by_paths() -> None:
    X, y = bags(200)
    paths = [("plant", "lily"), ("plant", "rose")]
    model = small(taxonomy=None).partial_fit(X, y, paths=paths)
    assert model.taxonomy_.path_of("lily") == ("root", "plant", "lily")
    assert model.taxonomy_.path_of("cat") == ("root", "cat")
    assert set(model.classes_) == set(y)
    flowers = np.isin(y, ["lily", "rose"])
    only = small(taxonomy=None).partial_fit(X[flowers], y[flowers], paths=paths)
    assert only.taxonomy_.classes == ("lily", "rose")
    only.partial_fit(X[:1], ["cat"], paths=[("animal", "cat")])
    assert only.taxonomy_.path_of("cat") == ("root", "animal", "cat")


def test_a_class_called_root_may_come_later() -> None:
    X, y = bags(100)
    model = small(taxonomy=None).partial_fit(X, y)
    model.partial_fit(X, ["root"] * 100, classes=["root"])
    assert model.taxonomy_.path_of("root") == ("root", "root")
    assert model.taxonomy_.n_levels == 2
    assert "root" in model.predict(X)


def test_a_tree_that_outgrows_its_memory_is_an_error() -> None:
    X, y = bags(100)
    model = small(max_bytes=1200).partial_fit(X, y)
    assert model.weights_.nbytes == 1200
    deep = ("plant", "flower", "orchid", "vanilla")
    with pytest.raises(
        InvalidInputError,
        match="max_bytes must be at least 1600 for 5 levels, got 1200: a new class",
    ):
        model.partial_fit(X[:1], ["vanilla"], paths=[deep])
    assert (
        model.partial_fit(X[:1], ["vanilla"], paths=[("plant", "vanilla")]).weights_.nbytes == 1200
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", 0.5),
        ("loss", "softmax"),
        ("average", False),
        ("fit_intercept", True),
        ("n_buckets", 64),
        ("max_bytes", 10_000),
        ("taxonomy", Taxonomy.from_classes(TREE.classes)),
        ("random_state", 7),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_part_cannot_change_what_the_weights_depend_on(name: str, value: Any) -> None:
    X, y = bags(100)
    model = small().partial_fit(X, y)
    weights = model.weights_
    model.set_params(**{name: value})
    with pytest.raises(
        InvalidInputError, match=f"{name} must stay what it was when the model was begun"
    ):
        model.partial_fit(X, y)
    assert model.weights_ is weights
    assert model.fit(X, y).n_iter_ == 3


def test_a_part_takes_on_a_beam_and_a_margin() -> None:
    X, y = bags(100)
    model = small().partial_fit(X, y).set_params(beam=1, min_margin=1e6)
    assert set(model.predict(X)) <= set(TREE.classes)
    assert set(model.partial_fit(X, y).predict(X)) == {"root"}
    assert model._model.beam == 1


def test_probabilities_are_those_of_the_learned_model() -> None:
    X, y = bags(100)
    hinge, softmax = small().fit(X, y), small(loss="softmax").fit(X, y)
    assert not hasattr(hinge.set_params(loss="softmax"), "predict_proba")
    with pytest.raises(
        AttributeError, match="no attribute 'predict_proba': scores learned by loss='hinge' are"
    ):
        hinge.predict_proba(X)
    assert softmax.set_params(loss="hinge").predict_proba(X).shape == (100, 5)
    assert hasattr(small(loss="softmax"), "predict_proba")


def test_sources_of_every_kind_are_learned_in_parts() -> None:
    X, y = bags(200)
    weights = small().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]).weights_
    for form in (np.asarray, scipy.sparse.csr_array):
        rows = form(X)
        whole = small()
        for part in (slice(0, 100), slice(100, 200)):
            whole.partial_fit(open_vectors(rows[part], batch_rows=7), y[part])
        assert np.array_equal(whole.weights_, weights)
        streamed = small()
        for start in (0, 100):
            pieces = iter([rows[start : start + 30], rows[start + 30 : start + 100]])
            streamed.partial_fit(open_vectors(pieces), y[start : start + 100])
        assert np.array_equal(streamed.weights_, weights)
        assert np.array_equal(
            small().fit(open_vectors(iter([rows])), y).weights_, small().fit(X, y).weights_
        )
    with pytest.raises(InvalidInputError, match="has no rows"):
        small().fit(open_vectors(iter([X[:0]])), [])


def test_a_source_may_fill_one_array_again_and_again() -> None:
    X, y = bags(200)
    assert np.array_equal(
        small().fit(open_vectors(once(X, 30, 60)), y).weights_, small().fit(X, y).weights_
    )
    parts = small().partial_fit(open_vectors(once(X[:100], 10, 50)), y[:100])
    parts.partial_fit(open_vectors(once(X[100:], 10, 50)), y[100:])
    want = small().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert np.array_equal(parts.weights_, want.weights_)


@pytest.mark.parametrize(
    "copied",
    [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy],
    ids=["pickle", "deepcopy"],
)
def test_a_copy_is_as_read_only_as_the_model(copied: Any) -> None:
    X, y = bags(50)
    model = small().partial_fit(X, y)
    assert model.weights_.flags.writeable is False
    other = copied(model)
    assert not any(array.flags.writeable for array in (*other._model.tree, other.weights_))
