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
# How far distances may be from the truth of each stage: estimates are reckoned in float32, and are
# differences of larger numbers.
_TOLERANCES = {"codes": 0.0, "estimate": 1e-4, "exact": 1e-12}


def rows_like(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows with directions of different variance, away from the origin."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + 1, dtype=np.float32)


class Truth(NamedTuple):
    """What a search must find for every query, without padding."""

    ids: list[list[Any]]
    distances: list[list[float]]
    every: list[dict[Any, float]]
    """The distances of all rows that the last stage saw, by id."""
    tolerance: float


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
        tolerance = _TOLERANCES[stage]
        if not ids:
            nothing: list[Any] = [[] for _ in queries]
            return Truth(nothing, nothing, [{} for _ in queries], tolerance)
        X = np.array([self.rows[i] for i in ids], dtype=np.float32)
        stages = self.able[: self.able.index(stage) + 1]
        keeps = {"codes": 10 * k * oversample, "estimate": k * oversample, stage: k}
        distances = {name: getattr(self, f"_{name}")(queries, X) for name in stages}
        empty = self.hasher.encode(X).empty_rows()
        empty_queries = self.hasher.encode(queries).empty_rows()
        truth = Truth([], [], [], tolerance)
        for q in range(len(queries)):
            left = np.flatnonzero(~empty) if not empty_queries[q] else np.empty(0, dtype=np.int64)
            for name in stages:
                seen = left = np.sort(left)
                left = left[np.argsort(distances[name][q, left], kind="stable")][: keeps[name]]
            shown = self._shown(distances[stage][q], stage)
            truth.ids.append([ids[i] for i in left])
            truth.distances.append(shown[left].tolist())
            truth.every.append({ids[i]: float(shown[i]) for i in seen})
        return truth

    def _shown(self, scores: Floats, stage: str) -> Floats:
        """Make distances of what rows are ranked by: estimates are squares, and may be below 0."""
        if stage != "estimate" or self.metric == "ip":
            return scores
        scores = np.maximum(scores, 0)
        return np.sqrt(scores) if self.metric == "l2" else scores

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

    Two rows may change places where they are further from equal than rounding in the truth, and
    nearer than in the collection: never where they are exactly equal, since ties have an order.
    """
    ids, distances = without_padding(hits)
    for mine, wanted, shown, expected, every in zip(
        ids, truth.ids, distances, truth.distances, truth.every, strict=True
    ):
        assert len(mine) == len(wanted) == len(set(mine))
        np.testing.assert_allclose(shown, expected, rtol=truth.tolerance, atol=truth.tolerance)
        for one, other, distance in zip(mine, wanted, expected, strict=True):
            assert one in every
            gap = abs(every[one] - distance)
            assert one == other or 0 < gap <= truth.tolerance * max(1.0, abs(distance)), (
                mine,
                wanted,
            )


def same(hits: Any, truth: Truth) -> bool:
    """Whether `require_same` passes."""
    try:
        require_same(hits, truth)
    except AssertionError:
        return False
    return True
