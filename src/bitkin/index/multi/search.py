"""Exact search by tables: what is in none is scanned as well, and queries that give up are scanned
together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.index.flat import scan_nearest, scan_within_radius
from bitkin.index.multi.lookup import empty_heaps, has_tables, heaps_from, look_up, outside_tables
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, ragged_neighbors
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.search.multi_index import sort_heaps

# where fewer than a sixteenth of the rows may be returned, the scan passes over the others fast
FEW_ALLOWED = 16
# for the neighbours within a radius; a query with more of them than that is scanned
_ROOMS = (256, 16_384)
_TOGETHER = 256  # queries within a radius

_SCANNED = np.array([0, 0, 0, 1])  # what it takes to find nothing by tables

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
    snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None
) -> tuple[Neighbors, Lookups]:
    """Return the k nearest rows of every query, nearest first, ties by lower id, and how they were
    found.
    """
    if queries.empty is not None:
        return _spread(queries, *k_nearest(snapshot, queries[~queries.empty], k, allow))
    if not _worth_it(snapshot, allow) or len(queries) == 0:
        account = np.ones((len(queries), 1), dtype=np.int64) * _SCANNED
        return scan_nearest(snapshot, queries, k, allow), _lookups(account)
    snapshot = _narrowed(snapshot, allow)
    outside = outside_tables(snapshot)
    if outside.segments:
        # rows in no table first: the k-th distance that they leave lets the lookups end earlier
        heaps = heaps_from(scan_nearest(outside, queries, k, None))
    else:
        heaps = empty_heaps(len(queries), k, snapshot.spec.n_symbols + 1)
    look_up(snapshot, queries, snapshot.spec.n_symbols, heaps)
    sort_heaps(heaps.distances, heaps.ids, heaps.sizes)
    found, lookups = Neighbors(heaps.ids, heaps.distances), _lookups(heaps.account)
    if lookups.fell_back.any():
        left = np.flatnonzero(lookups.fell_back)
        # a search that gave up may have missed rows: its heap is thrown away
        found.ids[left], found.distances[left] = scan_nearest(snapshot, queries[left], k, None)
    return found, lookups


def within_radius(
    snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query, nearest first, ties by lower id."""
    if not _worth_it(snapshot, allow):
        return scan_within_radius(snapshot, queries, radius, allow)
    snapshot = _narrowed(snapshot, allow)
    hits: list[_Hits] = []
    left = np.flatnonzero(~queries.empty_rows())
    answered, given_up = [], []
    # Most queries have few neighbours: small heaps first, larger ones for those that overflow, and
    # a scan for the rest.
    for room in _ROOMS:
        crowded = []
        for start in range(0, len(left), _TOGETHER):
            some = left[start : start + _TOGETHER]
            heaps = empty_heaps(len(some), room, radius + 1)
            look_up(snapshot, queries[some], radius, heaps)
            gave_up, full = heaps.account[:, 3] != 0, heaps.sizes == room
            done = ~gave_up & ~full
            there = (np.arange(room) < heaps.sizes[:, None]) & done[:, None]
            hits.append(
                (np.repeat(some, there.sum(axis=1)), heaps.ids[there], heaps.distances[there])
            )
            answered.append(some[done])
            given_up.append(some[gave_up])
            crowded.append(some[full & ~gave_up])
        left = np.concatenate([left[:0], *crowded])
    rest = outside_tables(snapshot)
    for rows, numbers in (
        # answered by tables: only rows outside of them are left to scan
        (rest, np.concatenate([left[:0], *answered])),
        (snapshot, np.concatenate([left, *given_up])),
    ):
        found = scan_within_radius(rows, queries[numbers], radius, None)
        hits.append((np.repeat(numbers, np.diff(found.offsets)), found.ids, found.distances))
    return ragged_neighbors(len(queries), hits)


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
    queries: Codes, some_found: Neighbors, some_lookups: Lookups
) -> tuple[Neighbors, Lookups]:
    """Return the results of the queries that are not empty, in a row each, and nothing for the
    others.
    """
    asked = ~queries.empty_rows()
    n, k = len(queries), some_found.ids.shape[1]
    found = no_neighbors(n, k, queries.spec.n_symbols + 1, np.int32)
    found.ids[asked], found.distances[asked] = some_found
    account = np.zeros((n, len(_SCANNED)), dtype=np.int64)
    account[asked] = np.stack(some_lookups, axis=1)
    return found, _lookups(account)


def _lookups(account: npt.NDArray[np.int64]) -> Lookups:
    return Lookups(account[:, 0], account[:, 1], account[:, 2], account[:, 3] != 0)
