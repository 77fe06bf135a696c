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


def learned(**parameters: Any) -> HeshingClassifier:
    """A model with tables, as between two parts."""
    X, y = bags(60)
    parameters = {"taxonomy": TREE, "n_buckets": 16, "alpha": 1e-3, **parameters}
    return HeshingClassifier(**parameters).partial_fit(X, y)


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


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_learning_cannot_leave_behind_is_refused(
    change: str, mmap: bool, tmp_path: Path
) -> None:
    model = learned()
    write_model(model, model._model, tmp_path / "good")
    assert np.array_equal(bitkin.load(tmp_path / "good", mmap=mmap).weights_, model.weights_)
    write_model(model, CHANGES[change](model._model), tmp_path / "bad")
    with pytest.raises(CorruptFileError, match="bad"):
        bitkin.load(tmp_path / "bad", mmap=mmap)


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
