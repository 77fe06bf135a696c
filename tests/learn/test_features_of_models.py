from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin import HeshingClassifier, Taxonomy, hierarchical_features

TREE = Taxonomy.from_paths([("r", "a", "x"), ("r", "a", "y"), ("r", "b", "c", "z"), ("r", "w")])


def products(model: HeshingClassifier, X: Any) -> Any:
    """⟨w, Ψ(x, y)⟩ of all rows and classes, by the definition."""
    every = [
        hierarchical_features(
            X, label, model.taxonomy_, model.weights_.shape[1], model.random_state, root=False
        )
        for label in model.classes_.tolist()
    ]
    return np.stack([features @ model.weights_.ravel() for features in every], axis=1)


@pytest.mark.parametrize("n_buckets", [3, 64, 1001])
def test_scores_of_a_model_are_its_weights_times_the_features(n_buckets: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 13))
    y = np.array(["x", "y", "z", "w"])[np.arange(60) % 4]
    model = HeshingClassifier(
        TREE, n_buckets=n_buckets, alpha=1e-3, max_iter=2, random_state=7
    ).fit(X, y)
    assert np.abs(products(model, X)).max() > 0.01
    assert model.decision_function(X) == pytest.approx(products(model, X), abs=1e-5)
    # A class that comes later, and deeper than all others, changes neither the hashes nor the
    # layout.
    more = ["x", "y", "v", "w"] * 5
    model.partial_fit(X[:20], more, paths=[("r", "a", "x", "u", "v")])
    assert model.weights_.shape == (4, n_buckets)
    assert model.classes_.tolist() == ["x", "y", "z", "w", "v"]
    assert model.decision_function(X) == pytest.approx(products(model, X), abs=1e-5)
