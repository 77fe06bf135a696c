"""Rows put aside, the strength chosen on them, and the pass that was best on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import HeshingClassifier
from bitkin.learn.heshing import held_out, training
from bitkin.learn.heshing.held_out import choose_alpha, split_rows
from bitkin.learn.heshing.sgd import LabelledRows, LearningMethod, TrainingPlan
from bitkin.learn.heshing.training import train
from bitkin.learn.heshing.tree import build_tree
from tests.learn.heshing_truth import TREE, bags

METHOD = LearningMethod(softmax=False, average=True, alpha=1e-3, mean_square=2.0, intercept=0.0)
WHOLE_TREE = build_tree(TREE, np.arange(TREE.n_classes), 0)
PLAN = TrainingPlan(WHOLE_TREE, 64, METHOD, beam=None, max_iter=3, seed=0)


def numbered(classes: list[int]) -> LabelledRows:
    """Rows that hold their own numbers."""
    return LabelledRows(
        np.arange(len(classes), dtype=np.float32)[:, None], np.array(classes, dtype=np.int32)
    )


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(0, 99),
    st.sampled_from([0.1, 0.2, 0.5]),
)
def test_every_class_gives_its_share_and_keeps_a_row(
    classes: list[int], seed: int, share: float
) -> None:
    learned, held = split_rows(numbered(classes), share, seed, "a test")
    rows = np.concatenate([learned.batch, held.batch])[:, 0]
    assert sorted(rows.tolist()) == list(range(len(classes)))
    assert set(learned.classes.tolist()) == set(classes)
    several = sum(count for count in np.bincount(classes).tolist() if count > 1)
    assert len(held) == (max(1, round(share * several)) if several else 0)
    for label in set(classes):
        assert abs((held.classes == label).sum() - share * classes.count(label)) <= 1 + share


def test_every_purpose_puts_other_rows_aside() -> None:
    data = numbered([0, 1] * 50)
    one, other = (
        split_rows(data, 0.2, 0, purpose)[1].batch for purpose in ("alpha", "early stopping")
    )
    assert not np.array_equal(one, other)
    assert len(split_rows(data, 0.2, 0, "alpha", most=20)[0]) == 16


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        (lambda place: 8 * abs(place - 6), 6),
        (lambda place: 80 - 8 * place, 10),
        (lambda place: 8 * place, 0),
        (lambda place: 8 * abs(place - 8), 8),
        (lambda place: 8 * abs(place - 3), 3),
        (lambda place: 0, 10),
        (lambda place: 8 * max(place, 6), 6),
        (lambda place: 8 * (place in (4, 5, 7)), 6),
    ],
    ids=[
        "at the start",
        "up to the end",
        "down to the end",
        "up",
        "down",
        "flat",
        "flat below",
        "a wall on each side",
    ],
)
def test_alpha_is_looked_for_downhill(
    errors: Callable[[int], int], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = [step * METHOD.mean_square for step in held_out._STRENGTHS]
    met: list[Any] = []

    def trained(plan: TrainingPlan, data: LabelledRows, **_: Any) -> Any:
        met.append(data.batch)
        return SimpleNamespace(weights=plan.method.alpha)

    def measured(weights: float, plan: TrainingPlan, data: LabelledRows) -> float:
        met.append(data.batch)
        assert plan.method.alpha == weights
        return errors(grid.index(weights)) / 100

    monkeypatch.setattr(held_out, "train", trained)
    monkeypatch.setattr(held_out, "measure_error", measured)
    data = numbered([0, 1, 2, 3, 4] * 100)
    assert choose_alpha(PLAN, data) == grid[chosen]
    for learned, held in zip(met[::2], met[1::2], strict=True):
        assert (len(learned), len(held)) == (400, 100)
        assert not set(learned[:, 0]) & set(held[:, 0])


def test_rows_that_nothing_can_be_held_out_of_get_the_usual_alpha() -> None:
    data = numbered([0, 1, 2, 3, 4])
    assert choose_alpha(PLAN, data) == pytest.approx(2e-4)
    X, y = bags(300)
    few = [int(np.flatnonzero(y == label)[0]) for label in TREE.classes]
    model = HeshingClassifier(TREE, n_buckets=64, early_stopping=True).fit(X[few], y[few])
    assert model.class_counts_.tolist() == [1] * 5


def test_early_stopping_returns_the_best_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = bags(100)
    data = LabelledRows(X, TREE.index_of(y).astype(np.int32))
    errors = iter([0.5, 0.2, 0.3, 0.2, 0.1])
    monkeypatch.setattr(training, "measure_error", lambda *_: next(errors))
    stopped = train(replace(PLAN, max_iter=9), data, held_out=data)
    two = train(replace(PLAN, max_iter=2), data)
    assert len(stopped.losses) == 4
    assert stopped.steps == two.steps == 200
    assert np.array_equal(stopped.weights, two.weights)


def test_rows_held_out_for_early_stopping_are_not_counted() -> None:
    X, y = bags(200)
    model = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3, early_stopping=True).fit(X, y)
    assert model.class_counts_.sum() == 180
