"""Exact search by tables: what is in none is scanned as well, and queries that give up are scanned
together with those that were not looked up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.index.flat import scan_nearest, scan_within_radius
from bitkin.index.multi.batch import SearchBatch
from bitkin.index.multi.lookup import (
    MultiHeaps,
    empty_heaps,
    has_tables,
    heaps_from,
    look_up,
    outside_tables,
)
from bitkin.index.multi.record import BatchKind, LookupRecord, clock
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, ragged_neighbors
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.search.multi_index import sort_heaps

# where fewer than a sixteenth of the rows may be returned, the scan passes over the others fast
FEW_ALLOWED = 16
# for the neighbours within a radius; a query with more of them than that is scanned
_ROOMS = (256, 16_384)
_TOGETHER = 256  # queries within a radius

_SCANNED = np.array([0, 0, 0, 1])  # what it takes to find nothing by tables

# (n_queries, 4): keys looked up, rows found under them, codes compared, whether it was scanned
Account = npt.NDArray[np.int64]
_Hits = tuple[npt.NDArray[np.int64], Ids, npt.NDArray[np.int32]]


class Lookups(NamedTuple):
    """What a search did for every query."""

    probes: npt.NDArray[np.int64]
    """int64 (n_queries,): keys looked up."""
    candidates: npt.NDArray[np.int64]
    """int64 (n_queries,): rows found under those keys, each as often as it was found."""
    compared: npt.NDArray[np.int64]
    """int64 (n_queries,): those whose codes were compared with the query; of the others a few bits
    were enough.
    """
    fell_back: npt.NDArray[np.bool_]
    """bool (n_queries,): whether all rows were scanned, from the start or after all."""


def k_nearest(
    snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, record: LookupRecord
) -> tuple[Neighbors, Account | None]:
    """Return the k nearest rows of every query, nearest first, ties by lower id, and how they were
    found: None where all were scanned at once.
    """
    n = len(queries)
    if not _worth_it(snapshot, allow) or n == 0:
        return scan_nearest(snapshot, queries, k, allow), None
    if queries.empty is not None:
        asked = queries[~queries.empty]
        return _spread(queries, *k_nearest(snapshot, asked, k, allow, record))
    kind = BatchKind(n, len(snapshot), k, within_radius=False, filtered=allow is not None)
    choice = record.choice(kind)
    n_tried = choice.n_to_look_up(n)
    # Nothing is timed or noted here: this is to be as fast as FlatIndex.
    if n_tried == 0 and not choice.pays:
        return scan_nearest(snapshot, queries, k, allow), None
    batch = SearchBatch(record, snapshot, kind)
    return _nearest_in_batch(_narrowed(snapshot, allow), queries, k, batch, n_tried)


def _nearest_in_batch(
    snapshot: Snapshot, queries: Codes, k: int, batch: SearchBatch, n_tried: int
) -> tuple[Neighbors, Account]:
    """Look some queries up, the others as well where that was faster than a scan, and scan the
    rest.
    """
    n = len(queries)
    found = Neighbors(np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.int32))
    account = np.tile(_SCANNED, (n, 1))
    first, last = 0, n_tried
    while first < last:
        start = clock()
        heaps = _nearest_by_tables(snapshot, queries[first:last], k, batch)
        found.ids[first:last], found.distances[first:last] = heaps.ids, heaps.distances
        account[first:last] = heaps.account
        gave_up = int(np.count_nonzero(heaps.account[:, 3]))
        batch.note_lookups(last - first, gave_up, clock() - start)
        first, last = last, n if batch.choice.pays else last
    left = np.flatnonzero(account[:, 3])
    if len(left):
        start = clock()
        # a search that gave up may have missed rows: its heap is thrown away
        found.ids[left], found.distances[left] = scan_nearest(snapshot, queries[left], k, None)
        batch.note_scan(len(left), clock() - start)
    return found, account


def _nearest_by_tables(
    snapshot: Snapshot, queries: Codes, k: int, batch: SearchBatch
) -> MultiHeaps:
    """Return the k nearest rows of every query, nearest first; of those that gave up, anything."""
    outside = outside_tables(snapshot)
    if outside.segments:
        # rows in no table first: the k-th distance that they leave lets the lookups end earlier
        heaps = heaps_from(scan_nearest(outside, queries, k, None))
    else:
        heaps = empty_heaps(len(queries), k, snapshot.spec.n_symbols + 1)
    look_up(snapshot, queries, snapshot.spec.n_symbols, heaps, batch.choice.pace, batch.budget)
    sort_heaps(heaps.distances, heaps.ids, heaps.sizes)
    return heaps


def within_radius(
    snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None, record: LookupRecord
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query, nearest first, ties by lower id."""
    asked = np.flatnonzero(~queries.empty_rows())
    if not _worth_it(snapshot, allow) or len(asked) == 0:
        return scan_within_radius(snapshot, queries, radius, allow)
    kind = BatchKind(
        len(asked), len(snapshot), radius, within_radius=True, filtered=allow is not None
    )
    choice = record.choice(kind)
    first, last = 0, choice.n_to_look_up(len(asked))
    if last == 0 and not choice.pays:
        return scan_within_radius(snapshot, queries, radius, allow)
    batch = SearchBatch(record, snapshot, kind)
    snapshot = _narrowed(snapshot, allow)
    rest = outside_tables(snapshot)
    hits: list[_Hits] = []
    gave_up = [asked[:0]]
    while first < last:
        start = clock()
        some = asked[first:last]
        by_tables = _within_radius_by_tables(snapshot, queries, some, radius, batch)
        # answered by tables: only rows outside of them are left to scan
        answered = np.setdiff1d(some, by_tables.gave_up)
        hits += [*by_tables.hits, _scanned_hits(rest, queries, answered, radius)]
        gave_up.append(by_tables.gave_up)
        batch.note_lookups(len(some), len(by_tables.gave_up), clock() - start)
        first, last = last, len(asked) if batch.choice.pays else last
    left = np.concatenate([*gave_up, asked[last:]])
    if len(left):
        start = clock()
        hits.append(_scanned_hits(snapshot, queries, left, radius))
        batch.note_scan(len(left), clock() - start)
    return ragged_neighbors(len(queries), hits)


class _FoundWithin(NamedTuple):
    """What tables say of some queries: the hits of those that they answer, and the others."""

    hits: list[_Hits]
    gave_up: npt.NDArray[np.int64]


def _within_radius_by_tables(
    snapshot: Snapshot,
    queries: Codes,
    numbers: npt.NDArray[np.int64],
    radius: int,
    batch: SearchBatch,
) -> _FoundWithin:
    hits: list[_Hits] = []
    left, gave_up = numbers, [numbers[:0]]
    # Most queries have few neighbours: small heaps first, larger ones for those that overflow, and
    # a scan for the rest.
    for room in _ROOMS:
        crowded = [numbers[:0]]
        for start in range(0, len(left), _TOGETHER):
            some = left[start : start + _TOGETHER]
            heaps = empty_heaps(len(some), room, radius + 1)
            look_up(snapshot, queries[some], radius, heaps, batch.choice.pace, batch.budget)
            stopped, full = heaps.account[:, 3] != 0, heaps.sizes == room
            there = (np.arange(room) < heaps.sizes[:, None]) & ~(stopped | full)[:, None]
            hits.append(
                (np.repeat(some, there.sum(axis=1)), heaps.ids[there], heaps.distances[there])
            )
            gave_up.append(some[stopped])
            crowded.append(some[full & ~stopped])
        left = np.concatenate(crowded)
    return _FoundWithin(hits, np.concatenate([*gave_up, left]))


def _scanned_hits(
    snapshot: Snapshot, queries: Codes, numbers: npt.NDArray[np.int64], radius: int
) -> _Hits:
    found = scan_within_radius(snapshot, queries[numbers], radius, None)
    return np.repeat(numbers, np.diff(found.offsets)), found.ids, found.distances


def _worth_it(snapshot: Snapshot, allow: Ids | None) -> bool:
    few = allow is not None and FEW_ALLOWED * len(allow) < len(snapshot)
    return has_tables(snapshot) and not few


def _narrowed(snapshot: Snapshot, allow: Ids | None) -> Snapshot:
    """Return the snapshot with nothing to be found in it but the rows allowed."""
    if allow is None:
        return snapshot
    marks = snapshot.masks(allow)
    segments = (
        replace(segment, searchable=searchable)
        for segment, searchable in zip(snapshot.segments, marks, strict=True)
    )
    return replace(snapshot, segments=tuple(segments))


def _spread(
    queries: Codes, some_found: Neighbors, some_account: Account | None
) -> tuple[Neighbors, Account]:
    """Return the results of the queries that are not empty, in a row each, and nothing for the
    others.
    """
    asked = ~queries.empty_rows()
    n, k = len(queries), some_found.ids.shape[1]
    found = no_neighbors(n, k, queries.spec.n_symbols + 1, np.int32)
    found.ids[asked], found.distances[asked] = some_found
    account = np.zeros((n, len(_SCANNED)), dtype=np.int64)
    account[asked] = _SCANNED if some_account is None else some_account
    return found, account


def lookups_in(account: Account | None, n_queries: int) -> Lookups:
    """Return what `k_nearest` did for every query."""
    if account is None:
        account = np.tile(_SCANNED, (n_queries, 1))
    return Lookups(account[:, 0], account[:, 1], account[:, 2], account[:, 3] != 0)
