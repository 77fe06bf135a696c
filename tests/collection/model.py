"""A slow truth: rows in a dictionary, every stage by sorting all of what the stage before kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import ProjectionHash
from bitkin.evaluate import nearest
from bitkin.rescoring.corrections import scorer_for
from tests.truth import symbol_distances

Floats = npt.NDArray[Any]


def rows_like(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows with directions of different variance, away from the origin."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + 1, dtype=np.float32)


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
    ) -> tuple[list[list[Any]], list[list[float]]]:
        """Return ids and distances, without padding; ties go to the id that comes first in `order`,
        else the lowest.
        """
        ids = [i for i in (sorted(self.rows) if order is None else order) if i in self.rows]
        if allow is not None:
            allowed = set(allow)
            ids = [i for i in ids if i in allowed]
        if not ids:
            return [[]] * len(queries), [[]] * len(queries)
        X = np.array([self.rows[i] for i in ids], dtype=np.float32)
        stages = self.able[: self.able.index(stage) + 1]
        keeps = {"codes": 10 * k * oversample, "estimate": k * oversample, stage: k}
        distances = {name: getattr(self, f"_{name}")(queries, X) for name in stages}
        empty = self.hasher.encode(X).empty_rows()
        empty_queries = self.hasher.encode(queries).empty_rows()
        found_ids, found_distances = [], []
        for q in range(len(queries)):
            left = np.flatnonzero(~empty) if not empty_queries[q] else np.empty(0, dtype=np.int64)
            for name in stages:
                left = np.sort(left)
                left = left[np.argsort(distances[name][q, left], kind="stable")][: keeps[name]]
            found_ids.append([ids[i] for i in left])
            shown = distances[stage][q, left]
            if stage == "estimate" and self.metric != "ip":
                shown = np.maximum(shown, 0)
            if stage == "estimate" and self.metric == "l2":
                shown = np.sqrt(shown)
            found_distances.append(shown.tolist())
        return found_ids, found_distances

    def _codes(self, queries: Floats, X: Floats) -> Floats:
        return symbol_distances(self.hasher.encode(queries), self.hasher.encode(X))

    def _estimate(self, queries: Floats, X: Floats) -> Floats:
        scorer = scorer_for(self.hasher, self.metric)
        codes, numbers = scorer.encode(X, "X")
        places = np.tile(np.arange(len(X)), (len(queries), 1))
        return scorer.scores(scorer.prepare_queries(queries), codes.words[:, 0], numbers, places)

    def _exact(self, queries: Floats, X: Floats) -> Floats:
        found = nearest(X, queries, len(X), self.metric)
        distances = np.empty(found.distances.shape)
        np.put_along_axis(distances, found.ids, found.distances, axis=1)
        return distances


def without_padding(hits: Any) -> tuple[list[list[Any]], list[list[float]]]:
    """Return ids and distances as lists, the places of nobody left out."""
    rows = [
        [(i, d) for i, d in zip(ids, distances, strict=True) if i not in (None, -1)]
        for ids, distances in zip(hits.ids.tolist(), hits.distances.tolist(), strict=True)
    ]
    return [[i for i, _ in row] for row in rows], [[d for _, d in row] for row in rows]


def require_same(hits: Any, truth: tuple[list[list[Any]], list[list[float]]]) -> None:
    """Fail unless ids are equal, and distances as nearly as float32 reports them."""
    ids, distances = without_padding(hits)
    assert ids == truth[0]
    for mine, theirs in zip(distances, truth[1], strict=True):
        assert np.allclose(mine, theirs, rtol=1e-6, atol=0)
