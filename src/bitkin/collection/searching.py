"""One search of a collection: queries in blocks through the funnel, over the state that the search
began with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bitkin.arrays import Ids
from bitkin.collection.encoder import Encoder
from bitkin.collection.funnel import Funnel
from bitkin.collection.padding import NOBODY, padded, require_result_fits
from bitkin.collection.results import Hits
from bitkin.collection.stages import Step
from bitkin.collection.state import State
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors


def nearest(
    state: State,
    encoder: Encoder,
    steps: tuple[Step, ...],
    queries: Any,
    allow: Ids | None,
    metric: str,
) -> Hits:
    """Return the nearest rows of every query, k columns always."""
    funnel = Funnel(steps, encoder.hasher, metric)
    parts = [
        (state.ids.of(part.ids), part.distances)
        for part in _parts(state, encoder, funnel, queries, allow)
    ]
    return Hits(*padded(parts, steps[-1], state.rows.spec, state.ids.of(NOBODY)))


def _parts(
    state: State, encoder: Encoder, funnel: Funnel, queries: Any, allow: Ids | None
) -> Iterator[Neighbors]:
    """Yield the nearest rows of a block of queries at a time, as row numbers."""
    last = funnel.steps[-1]
    if not encoder.takes(queries):
        if len(funnel.steps) > 1:
            raise InvalidInputError(
                f"queries must be a matrix for stage={last.stage!r}, got sets. Search them with "
                "stage='codes'."
            )
        codes = encoder.hasher.encode(queries)
        require_result_fits(len(codes), last)
        yield funnel.nearest(state, None, codes, allow)
        return
    source = encoder.source(queries, "queries")
    require_result_fits(source.shape[0] or 1, last)
    for first, batch in source.batches(
        rows=min(source.batch_rows, funnel.queries_at_once(len(state)))
    ):
        questions = encoder.questions(batch, source.name, first) if funnel.estimates else None
        codes = encoder.codes(batch, source.name, first) if questions is None else questions.codes
        yield funnel.nearest(state, batch, codes, allow, questions=questions)
