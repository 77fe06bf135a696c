"""One search over the rows of several epochs.

Codes of two hashers do not compare. So every epoch puts its own rows on the shortlist, by its own
codes and estimates, and what compares them is the distance itself: the vectors, or the estimates of
it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitkin.codes import Codes
from bitkin.collection.searching.search import SearchOptions, SearchPart, nearest_of_batch
from bitkin.collection.snapshot import CollectionSnapshot
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors, merge_neighbors, require_fitting
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.funnel import (
    BYTES_PER_HIT,
    CODES_PER_ESTIMATE,
    Funnel,
    Step,
    join_parts,
    steps_to,
)
from bitkin.rescoring.row_lengths import warn_of_zero_queries

_MANY = "the collection has rows of {} epochs, whose codes do not compare with one another"


def require_comparable_epochs(parts: Sequence[CollectionSnapshot], last: str) -> None:
    """Raise where rows of several epochs cannot be ranked together by the last stage."""
    if len(parts) == 1 or last == "exact":
        return
    about = _MANY.format(len(parts))
    has_vectors = parts[0].epoch.settings.vectors is not None
    better = "exact" if has_vectors else "estimate"
    advice = ", or move all rows to the current epoch by reencode()" if has_vectors else ""
    if last == "codes":
        raise InvalidInputError(
            f"stage must not be 'codes' while {about}. Search with stage={better!r}{advice}."
        )
    if not all(part.epoch.has_estimates for part in parts):
        raise InvalidInputError(
            f"stage must not be 'estimate' while {about}, and the hasher of one makes no estimates "
            f"of distances. Search with stage={better!r}{advice}."
        )


def funnel_of_part(
    part: CollectionSnapshot, last: Step, oversample: int, first: str, *, merge_all: bool
) -> Funnel:
    """Return what one epoch does for a search that ends with `last`: with `merge_all` it finds rows
    for the last stage, which need not be ranked together.
    """
    epoch = part.epoch
    scorer = epoch.encoder.row_scorer
    keep, ranks_only = last.keep, scorer is not None and scorer.ranks_only
    if last.stage == "exact":
        keep, oversample = keep * oversample * (CODES_PER_ESTIMATE if merge_all else 1), 1
    best = "codes" if scorer is None else "estimate"
    steps = steps_to(best, epoch.stages, keep, oversample, first, ranks_only=ranks_only)
    return Funnel(steps, scorer, part.metric)


def find_across(
    now: CollectionSnapshot,
    parts: Sequence[SearchPart],
    last: Step,
    shortlisted: int | None,
    queries: Any,
    options: SearchOptions,
) -> Neighbors:
    """Return the nearest rows of every query among those of several epochs. Of what the epochs
    find, the best `shortlisted` by their estimates are measured, all if it is None.
    """
    if isinstance(queries, Codes):
        raise InvalidInputError(
            f"queries must be a matrix while {_MANY.format(len(parts))}, got codes. Search "
            "vectors, or move all rows to the current epoch by reencode()."
        )
    rows = parts[0].encoder.hasher.open_rows(lone_as_row(queries), "queries")
    require_fitting(rows.n_rows or 1, last.keep, BYTES_PER_HIT[last.stage])
    at_once = min(part.funnel.queries_at_once(len(part.rows)) for part in parts)
    joined = []
    for first, batch in rows.batches(max(1, at_once // len(parts))):
        found = [nearest_of_batch(part, batch, (rows.name, first), options) for part in parts]
        if last.stage == "exact":
            best = _shortlist(found, shortlisted)
            funnel = Funnel((Step("codes", best.ids.shape[1]), last), None, now.metric)
            nearest = funnel.finish(now, batch, best, timings=options.timings)
        else:
            since = time.perf_counter()
            nearest = merge_neighbors(found, last.keep)
            if options.timings is not None:
                n_found = sum(int(np.count_nonzero(one.ids >= 0)) for one in found)
                n_kept = int(np.count_nonzero(nearest.ids >= 0))
                options.timings.add("merge", since, n_found, n_kept)
        warn_of_zero_queries(batch, nearest, now.metric, first)
        joined.append(nearest)
    return join_parts(joined, last, now.coded.spec)


def _shortlist(found: Sequence[Neighbors], keep: int | None) -> Neighbors:
    """Return the best of what several epochs found, padding last; all of it if `keep` is None, in
    no order.
    """
    if keep is not None:
        return merge_neighbors(found, keep)
    total = sum(one.ids.shape[1] for one in found)
    padding_last = [Neighbors(one.ids, (one.ids < 0).astype(np.float32)) for one in found]
    return merge_neighbors(padding_last, total)
