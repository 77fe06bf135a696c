from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin.evaluate.exact.bounds import Bounds
from bitkin.evaluate.exact.dense_bounds import DenseBounds
from bitkin.evaluate.exact.pairing import Pairing
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.evaluate.exact.sparse_bounds import SparseBounds, sparse_is_quicker


def exact_score(pairing: Pairing, squares: float, row: int, query: int) -> float:
    """Return the score that belongs to the distance we report, from that distance."""
    distance = float(pairing.scaled_distances(np.array([row]), np.array([query]))[0])
    if pairing.metric == "l2":
        return float((Fraction(distance) ** 2 - Fraction(squares)) / 2)
    return distance - 1 if pairing.metric == "cosine" else distance


@pytest.mark.parametrize("kind", ["plain", "shifted", "all sizes", "cancelling", "tiny", "sparse"])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("make", [DenseBounds, SparseBounds])
def test_the_true_score_lies_within_the_bounds(make: Any, metric: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    X, Q = rng.standard_normal((60, 50)), rng.standard_normal((6, 50))
    if kind == "shifted":
        X, Q = X + 1000, Q + 1000
    elif kind == "all sizes":
        X, Q = X * 10.0 ** rng.integers(-25, 26, (60, 1)), Q * 10.0 ** rng.integers(-25, 26, (6, 1))
    elif kind == "cancelling":
        X = np.concatenate([Q * (1 + 1e-8 * rng.standard_normal(Q.shape)) for _ in range(10)])
    elif kind == "tiny":
        X, Q = X * 1e-200, Q * 1e-200
    elif kind == "sparse":
        X, Q = X * (rng.random(X.shape) < 0.05), Q * (rng.random(Q.shape) < 0.05)
    form = scipy.sparse.csr_array if make is SparseBounds else np.asarray
    pairing = Pairing(ComparedRows(form(X), "X"), ComparedRows(form(Q), "Q"), metric)
    bounds: Bounds = make(pairing)
    queries = bounds.queries(0, 6)
    seen = 0
    for block in bounds.blocks(queries):
        for query, row in np.ndindex(block.low.shape):
            score = exact_score(pairing, float(queries.squares[query]), block.start + row, query)
            low = float(block.low[query, row]) - queries.errors[query]
            high = (
                low
                + bounds.uncertainty(block.norms[row], queries.norms[query])
                + 2 * queries.errors[query]
            )
            assert low <= score <= high
            seen += 1
    assert seen == 360


def test_the_bounds_are_close_enough_to_be_of_use() -> None:
    rng = np.random.default_rng(2)
    bounds = DenseBounds(
        Pairing(
            ComparedRows(rng.random((500, 784)), "X"), ComparedRows(rng.random((3, 784)), "Q"), "l2"
        )
    )
    queries = bounds.queries(0, 3)
    (block,) = bounds.blocks(queries)
    width = bounds.uncertainty(block.norms, queries.norms[:, None]) + 2 * queries.errors[:, None]
    assert (width / queries.squares[:, None]).max() < 5e-4


def test_one_huge_row_does_not_widen_the_bounds_of_the_others() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((500, 20))
    X[7] = 1e30
    pairing = Pairing(ComparedRows(X, "X"), ComparedRows(rng.random((3, 20)), "Q"), "l2")
    bounds = DenseBounds(pairing)
    queries = bounds.queries(0, 3)
    (block,) = bounds.blocks(queries)
    width = (
        bounds.uncertainty(np.delete(block.norms, 7), queries.norms[:, None])
        + 2 * queries.errors[:, None]
    )
    assert (width / queries.squares[:, None]).max() < 1e-4


def test_sparse_products_are_used_for_sparse_rows_only() -> None:
    rng = np.random.default_rng(4)

    def pairing(density: float) -> Pairing:
        X = scipy.sparse.random(50, 1000, density=density, random_state=rng, format="csr")
        return Pairing(ComparedRows(X, "X"), ComparedRows(X[:5], "Q"), "l2")

    assert sparse_is_quicker(pairing(0.001))
    assert not sparse_is_quicker(pairing(0.5))
    assert not sparse_is_quicker(
        Pairing(ComparedRows(np.zeros((5, 9)), "X"), ComparedRows(np.zeros((5, 9)), "Q"), "l2")
    )
