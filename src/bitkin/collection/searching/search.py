"""One search of a collection: queries in blocks through the funnel, over one snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.collection.encoding import Encoder
from bitkin.collection.results import Hits
from bitkin.collection.searching.cell_lane import Asked
from bitkin.collection.searching.cells import (
    CellRows,
    Wanted,
    probes_for,
    rows_by_residuals,
    rows_in_cells,
)
from bitkin.collection.searching.lane import Lane
from bitkin.collection.snapshot import CollectionSnapshot
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors, require_fitting
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.exact import nearest_by_vectors
from bitkin.rescoring.funnel import BYTES_PER_HIT, Funnel, join_parts
from bitkin.rescoring.row_lengths import warn_of_zero_queries
from bitkin.sets.members import is_matrix
from bitkin.timings import Timings


class SearchPart(NamedTuple):
    """What a search does with the rows of one epoch."""

    rows: CollectionSnapshot
    funnel: Funnel

    @property
    def encoder(self) -> Encoder:
        """What encodes queries as these rows were."""
        return self.rows.epoch.encoder


class SearchOptions(NamedTuple):
    """What a search may look at, and what it notes."""

    allow: Ids | None = None
    """Row ids that may be returned; None is all."""
    probes: int | None = None
    """Cells to look into; None is as many as the index says."""
    timings: Timings | None = None
    """Where to note what every stage did."""


def find_nearest(part: SearchPart, queries: Any, options: SearchOptions) -> Neighbors:
    """Return the nearest rows of every query, k columns always; those of a lone one by the fast
    lane, where that leads.
    """
    snapshot, funnel = part
    encoder, last = part.encoder, funnel.steps[-1]
    ready = isinstance(queries, Codes)
    if not ready and (not encoder.takes_sets or is_matrix(queries)):
        rows = encoder.hasher.open_rows(lone_as_row(queries), "queries")
        # an iterator does not say how many queries it has, so it is checked for one here, and by
        # `join_parts` for all
        require_fitting(rows.n_rows or 1, last.keep, BYTES_PER_HIT[last.stage])
        if rows.n_rows == 1 and options.allow is None and options.timings is None:
            lone = _lone(snapshot, funnel, rows.rows, options.probes)
            if lone is not None:
                if lone.distances[0, 0] == 1.0:  # as everything is from zeros under cosine
                    warn_of_zero_queries(rows.rows, lone, funnel.metric)
                return join_parts([lone], last, snapshot.coded.spec)
        parts = []
        for first, batch in rows.batches(funnel.queries_at_once(len(snapshot))):
            found = nearest_of_batch(part, batch, (rows.name, first), options)
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
        looked_at = _rows_for(part, None, codes, options)
        parts = [funnel.nearest(looked_at, None, codes, options.allow, timings=options.timings)]
    return join_parts(parts, last, snapshot.coded.spec)


def nearest_of_batch(
    part: SearchPart, batch: Batch, source: tuple[str, int], options: SearchOptions
) -> Neighbors:
    """Return the nearest rows of a batch of queries; `source` is the name of all of them, and the
    number of the first of these.
    """
    funnel, timings = part.funnel, options.timings
    encode = partial(part.encoder.encode_queries, batch, *source)
    inside = _in_cells(part, encode, batch, source, options)
    if inside is not None:
        return inside
    since = time.perf_counter()
    codes, prepared = encode(prepare=funnel.scorer is not None)
    if timings is not None:
        timings.add("encode", since, len(codes), len(codes))
    looked_at = _rows_for(part, batch, codes, options)
    return funnel.nearest(
        looked_at, batch, codes, options.allow, prepared=prepared, timings=timings
    )


def as_hits(snapshot: CollectionSnapshot, found: Neighbors) -> Hits:
    """Return neighbours under the ids that a caller knows, with their metadata."""
    ids = snapshot.ids.from_row_ids(found.ids)
    if not snapshot.has_metadata:
        return Hits(ids, found.distances)
    if len(found.ids) == 1 and (found.ids >= 0).all():
        known = snapshot.metadata(found.ids[0]) or []
        return Hits(ids, found.distances, [list(known)])
    # every row is read once, however many queries found it
    wanted, places = np.unique(found.ids, return_inverse=True)
    padded = int(len(wanted) > 0 and wanted[0] < 0)
    every: list[dict[str, Any] | None] = [None] * padded
    every += snapshot.metadata(wanted[padded:]) or []
    flat = [every[place] for place in places.reshape(-1).tolist()]
    k = found.ids.shape[1]
    metadata = [flat[i * k : (i + 1) * k] for i in range(len(found.ids))]
    return Hits(ids, found.distances, metadata)


def _lone(
    snapshot: CollectionSnapshot, funnel: Funnel, query: Any, probes: int | None
) -> Neighbors | None:
    """Return the nearest rows of a lone query by a fast lane, None where none leads."""
    if snapshot.cell_lane is not None:
        return _through_cell_lane(snapshot, funnel, query, None, probes)
    lane = snapshot.epoch.lane
    return None if lane is None else _through_lane(snapshot, lane, funnel, query)


def _through_lane(
    snapshot: CollectionSnapshot, lane: Lane, funnel: Funnel, query: Any
) -> Neighbors | None:
    """Return the nearest rows of a lone query by the lane over all rows, None where it does not
    lead.
    """
    first, last = funnel.steps[0], funnel.steps[-1]
    if len(funnel.steps) != 2 or first.stage != "scan" or last.stage != "exact":
        return None
    rows = snapshot.lane_rows
    best = None if rows is None else lane.best(rows, query, first.keep)
    if best is None:
        return None
    ids, slots = best
    in_folder = snapshot.reading is not None
    here = snapshot.vectors_in_place(ids) if in_folder else snapshot.vectors_in_slots(slots)
    ids = ids[None]
    return nearest_by_vectors(
        ids, ids, snapshot.vectors, query, funnel.metric, last.keep, in_place=here
    )


def _in_cells(
    part: SearchPart,
    encode: Callable[..., tuple[Codes, Any]],
    batch: Batch,
    source: tuple[str, int],
    options: SearchOptions,
) -> Neighbors | None:
    """Return the nearest rows of queries in cells where rows are coded by what is left of them;
    None where they are not, and where a query is not finite.
    """
    snapshot, funnel = part
    allow, probes, timings = options
    scorer = snapshot.estimates
    if scorer is None or funnel.steps[0].stage != "scan":
        return None
    if timings is None:
        found = _through_cell_lane(snapshot, funnel, batch, allow, probes)
        if found is not None:
            return found
    since = time.perf_counter()
    rows = rows_by_residuals(snapshot, batch, *source, allow, probes, Wanted.by(funnel))
    if rows is None:
        return None
    queries = rows.cells[0]
    if timings is not None:
        _note_cells(timings, since, rows, len(queries))
        since = time.perf_counter()
    found = scorer.scan_cells(
        rows.rows_to_estimate(queries, allow),
        lambda: encode(prepare=True)[1],
        funnel.first_keep(len(rows)),
    )
    if timings is not None:
        funnel.note_first(timings, since, rows, queries, allow, found)
    if funnel.steps[-1].stage == "estimate":  # there is no better one
        k = funnel.steps[-1].keep
        return scorer.reported(Neighbors(found.ids[:, :k], found.distances[:, :k]))
    return funnel.finish(rows, batch, found, timings=timings)


def _through_cell_lane(
    snapshot: CollectionSnapshot,
    funnel: Funnel,
    batch: Batch,
    allow: Ids | None,
    probes: int | None,
) -> Neighbors | None:
    """Return what `_in_cells` does by the fast lane, None where it does not lead for all of these
    queries.
    """
    last, lane = funnel.steps[-1], snapshot.cell_lane
    if lane is None or funnel.steps[0].stage != "scan" or last.stage != "exact":
        return None
    if not (isinstance(batch, np.ndarray) and batch.dtype == np.float32):
        return None
    n_probes = probes_for(snapshot, len(batch), allow, probes, Wanted.by(funnel))
    if n_probes is None:
        return None
    keep, k = funnel.first_keep(len(snapshot)), min(last.keep, len(snapshot))
    mask = None if allow is None else snapshot.mask_of(allow)
    return lane.nearest(batch, Asked(n_probes, keep, k), mask)


def _note_cells(timings: Timings, since: float, rows: CellRows, n_queries: int) -> None:
    timings.add("cells", since, n_queries * rows.n_cells, n_queries * rows.n_probed)


def _rows_for(
    part: SearchPart, batch: Batch, codes: Codes, options: SearchOptions
) -> CollectionSnapshot | CellRows:
    """Return the rows that a batch of queries looks at: all, or those in cells."""
    since = time.perf_counter()
    wanted = Wanted.by(part.funnel)
    rows = rows_in_cells(part.rows, batch, codes, options.allow, options.probes, wanted)
    if rows is None:
        return part.rows
    if options.timings is not None:
        _note_cells(options.timings, since, rows, len(codes))
    return rows
