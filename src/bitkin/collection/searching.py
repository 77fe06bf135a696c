"""One search of a collection: queries in blocks through the funnel, over the state that the search began with."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitkin.collection.encoder import Encoder
from bitkin.collection.funnel import Funnel
from bitkin.collection.stages import Step
from bitkin.collection.state import State
from bitkin.errors import InvalidInputError
from bitkin.index.limits import require_fitting
from bitkin.index.results import Neighbors
from bitkin.index.segment import Ids


def nearest(
    state: State, encoder: Encoder, steps: tuple[Step, ...], queries: Any, allow: Ids | None, metric: str
) -> Neighbors:
    """Return the nearest rows of every query, as row numbers."""
    k = steps[-1].keep
    if not encoder.takes(queries):
        if len(steps) > 1:
            raise InvalidInputError(
                f"queries must be a matrix for stage={steps[-1].stage!r}, got sets. Search them with stage='codes'."
            )
        codes = encoder.hasher.encode(queries)
        require_fitting(len(codes), k)
        return state.nearest(codes, k, allow)
    source = encoder.source(queries, "queries")
    require_fitting(source.shape[0] or 1, k)
    funnel = Funnel(steps, encoder.hasher, metric)
    parts = []
    for first, batch in source.batches(rows=min(source.batch_rows, funnel.queries_at_once(len(state)))):
        parts.append(funnel.nearest(state, batch, encoder.codes(batch, source.name, first), allow))
    return _joined(parts) if parts else funnel.nothing()


def _joined(parts: list[Neighbors]) -> Neighbors:
    ids, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Neighbors(ids, distances)
