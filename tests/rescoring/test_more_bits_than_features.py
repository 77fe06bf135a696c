"""Codes of more bits than there are directions can be scored where a rotation made them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin import Collection, ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, recall


def share_found(X: Any, **slots: Any) -> float:
    """The true 10 among the best 30 by the estimate, all rows looked at."""
    rows, queries = X[100:], X[:100]
    hasher = ProjectionHash(64, **slots).fit(rows)
    collection = Collection.create(None, hasher, vectors=None)
    collection.add(rows)
    found = collection.search(queries, k=30, stage="estimate", oversample=1000).ids
    return recall(found, nearest(rows, queries, 10).ids)


@pytest.mark.filterwarnings("ignore:n_bits=64 is more than the 12 directions")
def test_bits_beyond_the_features_make_better_estimates_than_random_directions() -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((900, 12)) * np.geomspace(2, 0.5, 12)).astype(np.float32)
    drawn = share_found(X, projection="random", rotation=None)
    assert share_found(X, rotation="random") > drawn + 0.05
    assert share_found(X) > drawn + 0.05
    # random combinations behind the first bits keep no inner products
    with pytest.raises(InvalidInputError, match="orthonormal directions or a random projection"):
        share_found(X, rotation=None)
