"""Distances of shortlisted rows from stored vectors, in float64: only those rows are ever read."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from bitkin import threads
from bitkin.errors import InvalidInputError
from bitkin.index.pair_distances import Floats, Ids, pair_distances
from bitkin.index.shortlist import Shortlist
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import Batch

_GATHERED = 1 << 23  # numbers of stored rows held at a time
_PIECE = 1 << 17  # numbers compared by one thread at a time: they stay in its cache


def exact_distances(
    source: VectorSource, queries: Batch, places: Ids, metric: str, scale: Floats | None = None
) -> Floats:
    """Return the distance of query i from row `places[i, k]` of `source`: float64 (q, m), infinity where that is −1.

    l2 is not squared; cosine is 1 − cosine, 1 from a row of zeros; ip is negated. `scale`, one a row, multiplies rows.
    """
    out = np.full(places.shape, np.inf)
    step = max(1, _GATHERED // max(1, places.shape[1] * source.shape[1]))
    for first in range(0, len(places), step):
        some = slice(first, first + step)
        shortlist = Shortlist.of(places[some])
        rows = source.gather(shortlist.wanted)
        if scale is not None:
            rows = rows * scale[shortlist.wanted, None]
        asked, columns = np.nonzero(shortlist.at >= 0)
        out[first + asked, columns] = _measured(rows, shortlist.at[asked, columns], queries[some], asked, metric)
    return out


def require_scale(scale: Any, source: VectorSource) -> Floats | None:
    """Return a scale a row, from one number or as many as there are rows; None stays None."""
    if scale is None:
        return None
    if source.sparse:
        raise InvalidInputError("scale must be left out for sparse vectors: multiply their values instead.")
    try:
        numbers = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("scale must be a number, or one a row of vectors.") from None
    if numbers.shape not in ((), (len(source),)):
        raise InvalidInputError(
            f"scale must be one number, or one a row of vectors, which has {len(source)}, got shape {numbers.shape}."
        )
    if not np.isfinite(numbers).all():
        raise InvalidInputError(f"scale must be finite, got {numbers[~np.isfinite(numbers)].flat[0]}.")
    return np.broadcast_to(numbers, len(source))


def _measured(rows: Batch, row_of: Ids, queries: Batch, query_of: Ids, metric: str) -> Floats:
    """Return the distance of row `row_of[i]` from query `query_of[i]`, for all i."""
    out = np.empty(len(row_of))
    sparse = issparse(rows) and issparse(queries)
    held = _wide(queries, sparse)
    step = 512 if sparse else max(1, _PIECE // rows.shape[1])

    def measure(first: int) -> None:
        some = slice(first, first + step)
        out[some] = pair_distances(_wide(rows[row_of[some]], sparse), held, query_of[some], metric)

    threads.run(measure, range(0, len(out), step))
    return out


def _wide(batch: Batch, sparse: bool) -> Any:
    """Return a batch in float64: CSR where both sides are, else dense."""
    if issparse(batch) and not sparse:
        batch = batch.toarray()
    return batch.astype(np.float64) if sparse else np.ascontiguousarray(batch, dtype=np.float64)
