"""Learning in one pass: its definition, the same whatever the parts, and about as good as many
passes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin import HeshingClassifier
from bitkin.kernels._kernel import JIT_DISABLED
from bitkin.kernels.heshing import OnlineTables
from tests.learn.heshing_truth import TREE, bags, feature_maps, learned_online_slowly


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("alpha", ["auto", 1e-2])
@pytest.mark.parametrize("n_columns", [25, 5000])
@pytest.mark.parametrize("wild", [None, 0, 1, 12])
def test_a_pass_is_its_definition_step_by_step(
    softmax: bool, alpha: float | str, n_columns: int, wild: int | None
) -> None:
    X, y = bags(20 if JIT_DISABLED or wild is not None else 80, n_features=25)
    # The same features in few columns are dense enough to be centred, in many they are not.
    X[0] += 1
    if wild is not None:
        X[wild] *= 1000
    rows = scipy.sparse.csr_array(X)
    rows.resize((len(X), n_columns))
    loss = "softmax" if softmax else "hinge"
    model = HeshingClassifier(TREE, n_buckets=50, alpha=alpha, loss=loss)
    model.partial_fit(rows, y, classes=TREE.classes)
    slow = learned_online_slowly(
        feature_maps(TREE, 25, 50, 0),
        X.astype(np.float64),
        TREE.index_of(y),
        alpha=None if alpha == "auto" else float(alpha),
        softmax=softmax,
        centered=n_columns == 25,
    )
    assert (model.feature_means_ is None) == (n_columns == 5000)
    assert np.allclose(model.weights_, slow, atol=1e-3 * np.abs(slow).max())


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n_features", [60, 5000])
def test_rows_one_at_a_time_give_the_same_model_as_all_at_once(
    n_features: int, fit_intercept: bool
) -> None:
    X, y = bags(90)
    X[0] += 1
    X[[5, 50]] *= [[1000], [0]]  # a wild row and an empty one
    rows = scipy.sparse.csr_array(X)
    rows.resize((90, n_features))
    parameters: dict[str, Any] = {"n_buckets": 128, "fit_intercept": fit_intercept}
    whole, single = (HeshingClassifier(TREE, **parameters) for _ in range(2))
    whole.partial_fit(rows, y, classes=TREE.classes)
    for row in range(90):
        single.partial_fit(rows[[row]], y[[row]], classes=TREE.classes if row == 0 else None)
    assert np.array_equal(single.weights_, whole.weights_)
    assert np.array_equal(single.decision_function(rows), whole.decision_function(rows))
    assert single.alpha_ == whole.alpha_
    if n_features == 60:
        assert np.array_equal(
            HeshingClassifier(TREE, **parameters)
            .partial_fit(X, y, classes=TREE.classes)
            .decision_function(X),
            whole.decision_function(rows),
        )


def shifted(n: int, seed: int, n_classes: int = 12) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Dense rows of uneven scales, far from 0: what plain steps learn slowly."""
    centers = np.random.default_rng(0).standard_normal((n_classes, 20))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = centers[y] + 0.7 * rng.standard_normal((n, 20)) + 5
    return (X * np.geomspace(0.1, 10, 20)).astype(np.float32), y


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_one_pass_over_dense_rows_is_about_as_good_as_ten(scale: float) -> None:
    X, y = shifted(1500, 1)
    Q, truth = shifted(600, 2)
    once = HeshingClassifier(n_buckets=2**12).partial_fit(X * scale, y)
    many = HeshingClassifier(n_buckets=2**12, alpha=1e-5 * many_square(X * scale)).fit(X * scale, y)
    assert once.score(Q * scale, truth) > many.score(Q * scale, truth) - 0.03
    assert once.score(Q * scale, truth) > 0.9


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("factor", [1e3, 1e6])
@pytest.mark.parametrize("place", [0, 1, 3, 1500])
def test_one_wild_row_changes_little(place: int, factor: float, centered: bool) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 2400)
    X = 1.2 * rng.standard_normal((6, 20))[y] + rng.standard_normal((2400, 20))
    rows = scipy.sparse.csr_array(X)
    rows.resize((2400, 20 if centered else 5000))
    factors = np.where(np.arange(2400) == place, factor, 1.0)
    wild_rows = scipy.sparse.csr_array(rows.multiply(factors[:, None]))
    tame, wild = (
        HeshingClassifier(n_buckets=2**12).partial_fit(given[:1600], y[:1600])
        for given in (rows, wild_rows)
    )
    assert (wild.feature_means_ is not None) == centered
    assert tame.score(rows[1600:], y[1600:]) > 0.9
    assert abs(wild.score(rows[1600:], y[1600:]) - tame.score(rows[1600:], y[1600:])) <= 0.02


@pytest.mark.parametrize("offset", [0, 1000])
def test_a_constant_beside_centred_rows_is_as_large_as_they_are(offset: float) -> None:
    X, y = shifted(1500, 1)
    Q, truth = shifted(600, 2)
    plain, constant = (
        HeshingClassifier(n_buckets=2**12, fit_intercept=fit_intercept)
        .partial_fit(X + offset, y)
        .score(Q + offset, truth)
        for fit_intercept in (False, True)
    )
    assert constant > plain - 0.02


def many_square(X: npt.NDArray[Any]) -> float:
    """The mean squared length of rows."""
    return float((X.astype(np.float64) ** 2).sum(axis=1).mean())


def test_rows_sorted_by_class_are_not_forgotten() -> None:
    X, y = shifted(1500, 1)
    Q, truth = shifted(600, 2)
    order = np.argsort(y, kind="stable")
    model = HeshingClassifier(n_buckets=2**12)
    for part in np.array_split(order, 10):
        model.partial_fit(X[part], y[part], classes=np.arange(12))
    assert model.score(Q, truth) > 0.75  # without centring 0.1 to 0.3


def test_rows_that_never_differ_teach_nothing_and_are_kept(tmp_path: Path) -> None:
    X = np.full((40, 7), 1e-6, dtype=np.float32)
    model = HeshingClassifier(n_buckets=16).partial_fit(X, [0, 1] * 20)
    assert not model.weights_.any()
    model.save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").predict(X).tolist() == [0] * 40


def test_what_fit_began_is_continued_by_its_own_steps() -> None:
    X, y = bags(100)
    fitted = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3).fit(X, y).partial_fit(X, y)
    assert not isinstance(fitted._model.tables, OnlineTables)
    assert fitted.feature_means_ is None
    streamed = HeshingClassifier(TREE, n_buckets=64, alpha=1e-3).partial_fit(X, y)
    assert isinstance(streamed._model.tables, OnlineTables)
    assert streamed.feature_means_ is not None
    assert np.allclose(streamed.feature_means_, X.mean(axis=0), rtol=1e-5)
