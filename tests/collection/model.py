"""A slow truth: rows in a dictionary, every stage by sorting all of what the stage before kept.

Nothing of it asks the library for a distance: symbols are compared one by one, estimates and exact
distances computed from their formulas in float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import ProjectionHash
from tests.truth import estimates, exact_distances, symbol_distances

Floats = npt.NDArray[Any]
# How far scores may be from the truth, as a share of the numbers they are made of: estimates are
# reckoned in float32.
_ROUNDING = {"codes": 0.0, "estimate": 2e-6, "exact": 1e-12}


def rows_like(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows with directions of different variance, away from the origin."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + 1, dtype=np.float32)


class Truth(NamedTuple):
    """What a search must find for every query, without padding.

    Scores are what rows are ranked by: estimates of l2 are squares, and may be below 0 by rounding.
    """

    ids: list[list[Any]]
    scores: list[list[float]]
    every: list[dict[Any, float]]
    """The scores of all rows that the last stage saw, by id."""
    tolerance: float
    """How far a score may be off."""
    squared: bool
    """Whether distances are the roots of scores."""
    signed: bool
    """Whether distances may be below 0."""


class Model:
    """What a collection with this hasher, metric and these rows must answer."""

    def __init__(
        self, hasher: Any, metric: str = "l2", rows: dict[Any, Floats] | None = None
    ) -> None:
        self.hasher = hasher
        self.metric = metric
        self.rows: dict[Any, Floats] = {} if rows is None else dict(rows)
        self.able = ["codes", "exact"]
        if isinstance(hasher, ProjectionHash):
            self.able.insert(1, "estimate")

    def search(
        self,
        queries: Floats,
        k: int,
        stage: str = "exact",
        oversample: int = 10,
        allow: Iterable[Any] | None = None,
        order: list[Any] | None = None,
    ) -> Truth:
        """Return what must be found; ties go to the id that comes first in `order`, else the
        lowest.
        """
        ids = [i for i in (sorted(self.rows) if order is None else order) if i in self.rows]
        if allow is not None:
            allowed = set(allow)
            ids = [i for i in ids if i in allowed]
        squared, signed = stage == "estimate" and self.metric == "l2", self.metric == "ip"
        if not ids:
            nothing: list[Any] = [[] for _ in queries]
            return Truth(nothing, nothing, [{} for _ in queries], 0.0, squared, signed)
        X = np.array([self.rows[i] for i in ids], dtype=np.float32)
        # Scores are sums of squares and products, no larger than the longest rows' squares.
        size = 1.0 + max(float(np.square(rows).sum(axis=1).max(initial=0)) for rows in (X, queries))
        truth = Truth([], [], [], size * _ROUNDING[stage], squared, signed)
        stages = self.able[: self.able.index(stage) + 1]
        keeps = {"codes": 10 * k * oversample, "estimate": k * oversample, stage: k}
        distances = {name: getattr(self, f"_{name}")(queries, X) for name in stages}
        empty = self.hasher.encode(X).empty_rows()
        empty_queries = self.hasher.encode(queries).empty_rows()
        for q in range(len(queries)):
            left = np.flatnonzero(~empty) if not empty_queries[q] else np.empty(0, dtype=np.int64)
            for name in stages:
                seen = left = np.sort(left)
                left = left[np.argsort(distances[name][q, left], kind="stable")][: keeps[name]]
            scores = distances[stage][q]
            truth.ids.append([ids[i] for i in left])
            truth.scores.append(scores[left].tolist())
            truth.every.append({ids[i]: float(scores[i]) for i in seen})
        return truth

    def _codes(self, queries: Floats, X: Floats) -> Floats:
        return symbol_distances(self.hasher.encode(queries), self.hasher.encode(X))

    def _estimate(self, queries: Floats, X: Floats) -> Floats:
        return estimates(self.hasher, queries, X, self.metric)

    def _exact(self, queries: Floats, X: Floats) -> Floats:
        return exact_distances(queries, X, self.metric)


def without_padding(hits: Any) -> tuple[list[list[Any]], list[list[float]]]:
    """Return ids and distances as lists, the places of no match left out."""
    rows = [
        [(i, d) for i, d in zip(ids, distances, strict=True) if i not in (None, -1)]
        for ids, distances in zip(hits.ids.tolist(), hits.distances.tolist(), strict=True)
    ]
    return [[i for i, _ in row] for row in rows], [[d for _, d in row] for row in rows]


def require_same(hits: Any, truth: Truth) -> None:
    """Fail unless ids and distances are the truth's.

    Two rows may change places where rounding can do that: never where their scores are exactly
    equal, since ties have an order.
    """
    ids, distances = without_padding(hits)
    for mine, wanted, shown, scores, every in zip(
        ids, truth.ids, distances, truth.scores, truth.every, strict=True
    ):
        assert len(mine) == len(wanted) == len(set(mine))
        found = np.square(shown) if truth.squared else np.array(shown)
        expected = np.array(scores) if truth.signed else np.maximum(scores, 0)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=truth.tolerance)
        for one, other, score in zip(mine, wanted, scores, strict=True):
            assert one in every
            gap = abs(every[one] - score)
            assert one == other or 0 < gap <= truth.tolerance, (mine, wanted)


def same(hits: Any, truth: Truth) -> bool:
    """Whether `require_same` passes."""
    try:
        require_same(hits, truth)
    except AssertionError:
        return False
    return True
