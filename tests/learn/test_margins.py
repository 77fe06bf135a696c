"""A margin given for one call does what the same margin of the model does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import InvalidInputError


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 4, 129)
    X = rng.poisson(1.0, (129, 23)) + (np.arange(23) % 4 == kinds[:, None])
    return X, np.array(["a.x", "a.y", "b.x", "b.y"])[kinds]


@pytest.mark.parametrize("margin", [0, 0.3, 7.0, 1e300])
def test_a_margin_of_one_call_is_a_margin_of_the_model(
    rows: tuple[Any, Any], margin: float
) -> None:
    X, y = rows
    tree = bitkin.Taxonomy.from_labels(y)
    plain, with_margin = (
        bitkin.HeshingClassifier(tree, n_buckets=512, alpha=1e-3, min_margin=value).fit(X, y)
        for value in (None, margin)
    )
    want = with_margin.predict_path(X).tolist()
    assert plain.predict_path(X, min_margin=margin).tolist() == want
    assert {len(path) for path in want} == {0: {3}, 0.3: {1, 2, 3}, 7.0: {1}, 1e300: {1}}[margin]
    assert {len(path) for path in plain.predict_path(X)} == {3}


def test_a_margin_below_zero_is_refused(rows: tuple[Any, Any]) -> None:
    X, y = rows
    model = bitkin.HeshingClassifier(bitkin.Taxonomy.from_labels(y), n_buckets=64, alpha=1e-3).fit(
        X, y
    )
    with pytest.raises(InvalidInputError, match="min_margin must be finite and at least 0"):
        model.predict_path(X, min_margin=-1)
