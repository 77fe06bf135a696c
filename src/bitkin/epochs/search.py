"""Nearest rows of several epochs: a shortlist of each by its own codes, merged by the estimate of
one distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.epochs.epoch import Epoch
from bitkin.epochs.state import State
from bitkin.index.results import Neighbors, require_fitting
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.batch import row_slice
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.estimate import distances_from_scores
from bitkin.rescoring.row_lengths import warn_of_zero_queries
from bitkin.rescoring.shortlist import nearest_first

_PAIRS_AT_ONCE = 1 << 20  # candidates of a block of queries: 30 MB of ids, words and estimates


def nearest_rows(
    state: State,
    queries: Any,
    k: int,
    n_candidates: int,
    allow: Ids | None,
    metric: str,
    look_at: Callable[[State, Batch], None],
    first: str | None,
) -> Neighbors:
    """Return the k nearest rows of every query, from the `n_candidates` nearest of each epoch by
    the `first` stage; every batch of queries is shown to `look_at`.
    """
    source = open_vectors(lone_as_row(queries), name="queries")
    for epoch in state.epochs:
        source.require_columns(epoch.scorer.feature_names)
    state.require_features(source.shape[1], source.feature_names, source.name)
    require_fitting(source.shape[0] or 1, k)
    parts = [Neighbors(np.empty((0, k), dtype=np.int64), np.empty((0, k), dtype=np.float32))]
    epochs = [epoch for epoch in state.epochs if len(epoch)]
    step = max(1, _PAIRS_AT_ONCE // max(1, sum(min(n_candidates, len(epoch)) for epoch in epochs)))
    for row, batch in source.batches():
        look_at(state, batch)
        for start in range(0, batch.shape[0], step):
            some = row_slice(batch, start, min(start + step, batch.shape[0]))
            found = _nearest(epochs, some, k, n_candidates, allow, metric, first)
            warn_of_zero_queries(some, found, metric, row + start)
            parts.append(found)
    ids, distances = map(np.concatenate, zip(*parts, strict=True))
    return Neighbors(ids, distances)


def _nearest(
    epochs: list[Epoch],
    queries: Batch,
    k: int,
    n_candidates: int,
    allow: Ids | None,
    metric: str,
    first: str | None,
) -> Neighbors:
    # Codes of different models cannot be compared, but estimates are all in the units of the
    # metric: each epoch gives its best, and those are ranked together.
    found = [epoch.nearest(queries, n_candidates, allow, first) for epoch in epochs]
    none = (np.empty((queries.shape[0], 0), dtype=np.int64), np.empty((queries.shape[0], 0)))
    ids, scores = (np.concatenate(columns, axis=1) for columns in zip(none, *found, strict=True))
    return distances_from_scores(nearest_first(ids, scores, k), metric)
