"""One search of a collection: queries in blocks through the funnel, over one snapshot."""

from __future__ import annotations

import time
from typing import Any

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.collection.cells import CellRows, rows_for_queries
from bitkin.collection.encoding import Encoder
from bitkin.collection.lane import Lane
from bitkin.collection.memory import CollectionSnapshot
from bitkin.collection.results import Hits
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors, require_fitting
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.exact import nearest_by_vectors
from bitkin.rescoring.funnel import BYTES_PER_HIT, Funnel, join_parts
from bitkin.rescoring.row_lengths import warn_of_zero_queries
from bitkin.sets.members import is_matrix
from bitkin.timings import Timings


def find_nearest(
    snapshot: CollectionSnapshot,
    encoder: Encoder,
    funnel: Funnel,
    queries: Any,
    allow: Ids | None,
    timings: Timings | None = None,
    lane: Lane | None = None,
    probes: int | None = None,
) -> Hits:
    """Return the nearest rows of every query, k columns always; those of a lone one by the `lane`,
    where that leads, and where rows are in cells, those of `probes` cells, or of as many as the
    index says.
    """
    last = funnel.steps[-1]
    ready = isinstance(queries, Codes)
    if not ready and (not encoder.takes_sets or is_matrix(queries)):
        rows = encoder.hasher.open_rows(lone_as_row(queries), "queries")
        # an iterator does not say how many queries it has, so it is checked for one here, and by
        # `join_parts` for all
        require_fitting(rows.n_rows or 1, last.keep, BYTES_PER_HIT[last.stage])
        if lane is not None and rows.n_rows == 1 and allow is None:
            lone = _through_lane(snapshot, lane, funnel, rows.rows)
            if lone is not None:
                return Hits(snapshot.ids.from_row_ids(lone.ids), lone.distances)
        parts = []
        for first, batch in rows.batches(funnel.queries_at_once(len(snapshot))):
            since = time.perf_counter()
            codes, prepared = encoder.encode_queries(
                batch, rows.name, first, prepare=funnel.scorer is not None
            )
            if timings is not None:
                timings.add("encode", since, len(codes), len(codes))
            looked_at = _rows_for(snapshot, batch, codes, allow, timings, probes, last.keep)
            found = funnel.nearest(
                looked_at, batch, codes, allow, prepared=prepared, timings=timings
            )
            warn_of_zero_queries(batch, found, funnel.metric, first)
            parts.append(found)
    # sets and codes have no vectors to measure or to estimate with
    elif len(funnel.steps) > 1:
        raise InvalidInputError(
            f"queries must be a matrix for stage={last.stage!r}, got "
            f"{'codes' if ready else 'sets'}. Search them with stage='codes'."
        )
    else:
        codes = encoder.require_own(queries, "queries") if ready else encoder.hasher.encode(queries)
        require_fitting(len(codes), last.keep, BYTES_PER_HIT[last.stage])
        looked_at = _rows_for(snapshot, None, codes, allow, timings, probes, last.keep)
        parts = [funnel.nearest(looked_at, None, codes, allow, timings=timings)]
    found = join_parts(parts, last, snapshot.coded.spec)
    return Hits(snapshot.ids.from_row_ids(found.ids), found.distances)


def _through_lane(
    snapshot: CollectionSnapshot, lane: Lane, funnel: Funnel, query: Any
) -> Neighbors | None:
    """Return the nearest rows of a lone query by the fast lane, None where it does not lead."""
    first, last = funnel.steps[0], funnel.steps[-1]
    if len(funnel.steps) != 2 or first.stage != "scan" or last.stage != "exact":
        return None
    rows = snapshot.lane_rows
    best = None if rows is None else lane.best(rows, query, first.keep)
    if best is None:
        return None
    ids, here = best[0][None], snapshot.vectors_in_slots(best[1])
    found = nearest_by_vectors(
        ids, ids, snapshot.vectors, query, funnel.metric, last.keep, in_place=here
    )
    warn_of_zero_queries(query, found, funnel.metric, 0)
    return found


def _rows_for(
    snapshot: CollectionSnapshot,
    batch: Batch,
    codes: Codes,
    allow: Ids | None,
    timings: Timings | None,
    probes: int | None,
    least: int,
) -> CollectionSnapshot | CellRows:
    """Return the rows that a batch of queries looks at: all, or those in cells."""
    since = time.perf_counter()
    rows = rows_for_queries(snapshot, batch, codes, allow, probes, least)
    if timings is not None and isinstance(rows, CellRows):
        n_queries = len(codes)
        timings.add("cells", since, n_queries * rows.n_cells, n_queries * rows.n_probed)
    return rows
