"""Files that were written with good checksums and hold what no learning leaves behind; and what
must come back.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import HeshingClassifier
from bitkin.errors import CorruptFileError
from bitkin.learn.heshing.files import write_model
from bitkin.learn.heshing.model import HeshingModel
from tests.learn.heshing_truth import TREE, bags


def learned(fitted: bool = False, **parameters: Any) -> HeshingClassifier:
    """A model with tables, as between two parts, begun by `partial_fit` or by `fit`."""
    X, y = bags(60)
    X[30] += 1  # a dense first row: those of `partial_fit` are centred
    parameters = {"taxonomy": TREE, "n_buckets": 16, "alpha": 1e-3, "max_iter": 1, **parameters}
    model = HeshingClassifier(**parameters)
    return (model.fit(X[:30], y[:30]) if fitted else model).partial_fit(X[30:], y[30:])


def changed(array: Any, value: float) -> Any:
    """A copy with another first number."""
    other = array.copy()
    other.flat[0] = value
    return other


def with_number(model: HeshingModel, place: int, value: float) -> HeshingModel:
    """A model whose tables count otherwise: scale, carried, averaged, steps, loss."""
    assert model.tables is not None
    numbers = model.tables.numbers.copy()
    numbers[place] = value
    return replace(model, tables=model.tables._replace(numbers=numbers))


CHANGES: dict[str, Any] = {
    "weights not a number": lambda m: replace(m, finished=changed(m.weights, np.nan)),
    "weights infinite": lambda m: replace(m, finished=changed(m.weights, np.inf)),
    "weights as large as float32 goes": lambda m: replace(m, finished=changed(m.weights, 1e38)),
    "weights that were not learned": lambda m: replace(m, finished=changed(m.weights, 0.25)),
    "learned weights as large as float32 goes": lambda m: replace(
        m, finished=m.weights, tables=m.tables._replace(weights=changed(m.tables.weights, 1e38))
    ),
    "other learned weights": lambda m: replace(
        m, finished=m.weights, tables=m.tables._replace(weights=changed(m.tables.weights, 0.25))
    ),
    "weights of other buckets": lambda m: replace(m, finished=m.weights[:, :8].copy()),
    "settings of other buckets": lambda m: replace(m, settings=replace(m.settings, n_buckets=17)),
    "negative counts": lambda m: replace(m, class_counts=changed(m.class_counts, -1)),
    "huge counts": lambda m: replace(m, class_counts=changed(m.class_counts, 2**63 - 1)),
    "classes of no taxonomy": lambda m: replace(m, class_numbers=m.class_numbers + 1),
    "classes that fall by more than an int64": lambda m: replace(
        m,
        class_numbers=np.array([0, 2**63 - 1, -(2**63) + 5, 2]),
        class_counts=np.ones(4, dtype=np.int64),
    ),
    "tiny mean square": lambda m: replace(m, method=replace(m.method, mean_square=5e-324)),
    "huge mean square": lambda m: replace(m, method=replace(m.method, mean_square=1e300)),
    "another alpha": lambda m: replace(m, method=replace(m.method, alpha=0.5)),
    "tiny scale": lambda m: with_number(m, 0, 1e-300),
    "scale above 1": lambda m: with_number(m, 0, 2.0),
    "scale not a number": lambda m: with_number(m, 0, np.nan),
    "carried more than averaged": lambda m: with_number(m, 1, 1e9),
    "averaged more than taken": lambda m: with_number(m, 2, 61.0),
    "half a step": lambda m: with_number(m, 2, 0.5),
    "other steps": lambda m: with_number(m, 3, 61.0),
    "negative loss": lambda m: with_number(m, 4, -1.0),
    "learned weights infinite": lambda m: replace(
        m, finished=m.weights, tables=m.tables._replace(weights=changed(m.tables.weights, np.inf))
    ),
    "sums not a number": lambda m: replace(
        m, finished=m.weights, tables=m.tables._replace(sums=changed(m.tables.sums, np.nan))
    ),
    "losses not a number": lambda m: replace(m, losses=["much"]),
}


def with_table(model: HeshingModel, **tables: Any) -> HeshingModel:
    """A model with another table, and the weights it had."""
    assert model.tables is not None
    return replace(model, finished=model.weights, tables=model.tables._replace(**tables))


ONLINE_CHANGES: dict[str, Any] = {
    "weights that were not learned": lambda m: replace(m, finished=changed(m.weights, 0.25)),
    "other learned weights": lambda m: with_table(m, weights=changed(m.tables.weights, 0.25)),
    "learned weights too large": lambda m: with_table(m, weights=changed(m.tables.weights, 1e38)),
    "negative precision": lambda m: with_table(m, precisions=changed(m.tables.precisions, -1.0)),
    "huge precision": lambda m: with_table(m, precisions=changed(m.tables.precisions, 1e38)),
    "precision no number": lambda m: with_table(m, precisions=changed(m.tables.precisions, np.nan)),
    "precisions of other buckets": lambda m: with_table(m, precisions=m.tables.precisions[:, :8]),
    "sums infinite": lambda m: with_table(m, sums=changed(m.tables.sums, np.inf)),
    "no decay left": lambda m: with_number(m, 0, 0.0),
    "decay above 1": lambda m: with_number(m, 0, 2.0),
    "other steps": lambda m: with_number(m, 1, 31.0),
    "half a step": lambda m: with_number(m, 1, 30.5),
    "negative loss": lambda m: with_number(m, 2, -1.0),
    "squares of no row": lambda m: with_number(m, 4, 0.0),
    "rows learned but not met": lambda m: with_number(m, 4, 31.0),
    "means of no row": lambda m: with_number(m, 5, 0.0),
    "means of other features": lambda m: with_table(m, feature_sums=np.ones(59)),
    "means not a number": lambda m: with_table(
        m, feature_sums=changed(m.tables.feature_sums, np.nan)
    ),
    "means beyond float32": lambda m: with_table(
        m, feature_sums=changed(m.tables.feature_sums, 1e300)
    ),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_learning_cannot_leave_behind_is_refused(
    change: str, mmap: bool, tmp_path: Path
) -> None:
    model = learned(fitted=True)
    write_model(model, model._model, tmp_path / "good")
    assert np.array_equal(bitkin.load(tmp_path / "good", mmap=mmap).weights_, model.weights_)
    write_model(model, CHANGES[change](model._model), tmp_path / "bad")
    with pytest.raises(CorruptFileError, match="bad"):
        bitkin.load(tmp_path / "bad", mmap=mmap)


@pytest.mark.parametrize("change", ONLINE_CHANGES)
def test_what_online_learning_cannot_leave_behind_is_refused(change: str, tmp_path: Path) -> None:
    model = learned()
    assert model._model.mean is not None
    write_model(model, model._model, tmp_path / "good")
    assert np.array_equal(bitkin.load(tmp_path / "good").weights_, model.weights_)
    with np.errstate(over="ignore"):
        write_model(model, ONLINE_CHANGES[change](model._model), tmp_path / "bad")
    with pytest.raises(CorruptFileError, match="bad"):
        bitkin.load(tmp_path / "bad")


def test_an_impossible_intercept_is_refused(tmp_path: Path) -> None:
    model = learned(fit_intercept=True)
    bad = replace(model._model, method=replace(model._model.method, intercept=1e300))
    write_model(model, bad, tmp_path / "bad")
    with pytest.raises(CorruptFileError, match="bad"):
        bitkin.load(tmp_path / "bad")


def test_the_given_taxonomy_comes_back_though_the_tree_has_grown(tmp_path: Path) -> None:
    X, y = bags(60)
    for in_parts in (True, False):
        model = learned() if in_parts else learned().fit(X, y)
        model.partial_fit(X[:1], ["orchid"], paths=[("plant", "flower", "tropical", "orchid")])
        model.save(tmp_path / "model")
        back = bitkin.load(tmp_path / "model")
        assert back.get_params() == model.get_params()
        assert back.taxonomy == TREE
        assert back.taxonomy_ == model.taxonomy_ != TREE
        assert np.array_equal(back.partial_fit(X, y).weights_, model.partial_fit(X, y).weights_)


def test_a_tree_grown_from_none_comes_back(tmp_path: Path) -> None:
    X, _ = bags(60)
    model = learned(taxonomy=None, max_bytes=400).partial_fit(X[:1], ["dog"], classes=["dog"])
    model.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.taxonomy is None
    assert back.predict(X).tolist() == model.predict(X).tolist()
