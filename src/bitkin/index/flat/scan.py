"""Exact search over a snapshot: the work is cut into pieces for the thread pool, the results do not
depend on the cut.

Many queries are cut by queries; few queries by rows, and the parts' results merge. A piece takes as
many queries at once as leave their candidates in the second-level cache.

Of many neighbours most candidates would come early and fall out later. So a sample of the blocks
says first how far the k-th is about; a query that finds fewer than k within that distance searches
again without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.index.results import Neighbors, RaggedNeighbors
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap, n_blocks
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.scan import (
    block_widths,
    blocks_ahead,
    guess_limits,
    k_smallest_into,
    many_smallest_into,
    nothing_yet,
    room_for,
    sample_into,
    sort_best_into,
    within_radius_into,
)

_MOST_QUERIES = 128  # at once: past that nothing is left to gain from a block in cache
_CACHE_BYTES = 1 << 20
_SMALL_SCAN = 1 << 21  # words; handing less than that to another thread costs more than it saves
_FEW_ALLOWED = 8  # times fewer than all rows: copying those pays for a single query
_ALL_ROWS = np.empty(0, dtype=np.uint64)


class _Stretch(NamedTuple):
    """Blocks `first` … `last` of a segment of `n` rows, with the rows that may be returned: what
    kernels take first.
    """

    blocks: Words
    ids: Ids
    first: int
    last: int
    n: int
    mask: Bitmap


class _Part(NamedTuple):
    """Queries `first` … `last` over some stretches: one piece of work."""

    first: int
    last: int
    stretches: list[_Stretch]


def k_nearest(snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None) -> Neighbors:
    """Return the k nearest rows of every query, nearest first, ties by lower id."""
    found = _nothing_found(len(queries), k, snapshot.spec)
    if queries.empty is not None:
        asked = np.flatnonzero(~queries.empty)
        found.ids[asked], found.distances[asked] = k_nearest(snapshot, queries[asked], k, allow)
        return found
    reach = min(k, len(snapshot))
    if reach == 0 or len(queries) == 0:
        return found
    words = read_only(queries.words)
    n_planes, n_words = words.shape[1:]
    widths = (*block_widths(n_planes, n_words), blocks_ahead(n_planes, n_words))
    by_id = not snapshot.in_order

    def search(part: _Part, out: Neighbors) -> Neighbors:
        some = words[part.first : part.last]
        step = _sampled_step(part.stretches, reach) if len(widths[1]) == n_words else None
        if step is None:
            return scanned(some, part.stretches, out)
        best = nothing_yet(len(some), reach, n_words)
        for s in part.stretches:
            sample_into(s.blocks, s.first, s.last, s.n, s.mask, some, *widths[:2], step, best)
        guess_limits(best, _sampled_rank(part.stretches, reach, step))
        for stretch in part.stretches:
            many_smallest_into(*stretch, some, *widths[:2], reach, by_id, best)
        missed = np.flatnonzero(best.progress[:, 0] < reach)
        sort_best_into(best, reach, by_id, *out)
        if len(missed):
            nothing = _nothing_found(len(missed), k, snapshot.spec)
            out.ids[missed], out.distances[missed] = scanned(
                read_only(some[missed]), part.stretches, nothing
            )
        return out

    def scanned(some: Words, stretches: list[_Stretch], out: Neighbors) -> Neighbors:
        best = nothing_yet(len(some), reach, n_words)
        for stretch in stretches:
            k_smallest_into(*stretch, some, *widths, reach, by_id, best)
        sort_best_into(best, reach, by_id, *out)
        return out

    state_bytes = 12 * room_for(reach) + 256 * n_words
    parts = _parts(words, _stretches(snapshot, allow), _CACHE_BYTES // state_bytes)
    if len(parts) > 1 and parts[0].first == parts[1].first:
        rivals = threads.run(
            lambda part: search(part, _nothing_found(len(queries), k, snapshot.spec)), parts
        )
        return _best_of(rivals, k)
    threads.run(
        lambda p: search(
            p, Neighbors(found.ids[p.first : p.last], found.distances[p.first : p.last])
        ),
        parts,
    )
    return found


def within_radius(
    snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query, nearest first, ties by lower id."""
    asked = np.flatnonzero(~queries.empty_rows())
    words = read_only(queries.words[asked])
    planes, turn = block_widths(words.shape[1], words.shape[2])

    def search(part: _Part) -> list[tuple[Ids, Ids, npt.NDArray[np.int32]]]:
        some, numbers = words[part.first : part.last], asked[part.first : part.last]
        room = 4 * BLOCK * len(some)
        out = (
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int32),
        )
        lanes = np.empty(BLOCK, dtype=np.int32)
        found = []
        for stretch in part.stretches:
            while stretch.first < stretch.last:
                at, count = within_radius_into(*stretch, some, planes, turn, radius, *out, lanes)
                stretch = stretch._replace(first=at)
                found.append(
                    (numbers[out[0][:count]], out[1][:count].copy(), out[2][:count].copy())
                )
        return found

    pieces = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]
    if len(asked):
        for found in threads.run(
            search, _parts(words, _stretches(snapshot, allow), _MOST_QUERIES // 2)
        ):
            pieces.extend(found)
    which, ids, distances = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.lexsort((ids, distances, which))
    offsets = np.zeros(len(queries) + 1, dtype=np.int64)
    np.cumsum(np.bincount(which, minlength=len(queries)), out=offsets[1:])
    return RaggedNeighbors(offsets, ids[order], distances[order])


def _stretches(snapshot: Snapshot, allow: Ids | None) -> list[_Stretch]:
    snapshot, allow = _narrowed(snapshot, allow)
    return [
        _Stretch(
            read_only(segment.blocks),
            read_only(segment.ids),
            0,
            n_blocks(segment.n),
            segment.n,
            read_only(_ALL_ROWS if mask is None else mask),
        )
        for segment, mask in zip(snapshot.segments, snapshot.masks(allow), strict=True)
        if segment.n
    ]


def _narrowed(snapshot: Snapshot, allow: Ids | None) -> tuple[Snapshot, Ids | None]:
    """Return a copy of the allowed rows alone where they are few: that and its scan take less than
    a scan of all.
    """
    if allow is None or _FEW_ALLOWED * len(allow) > sum(segment.n for segment in snapshot.segments):
        return snapshot, allow
    parts = []
    for segment in snapshot.segments:
        rows = np.sort(segment.found(allow))
        # without repeats; np.unique takes ten times as long
        rows = rows[np.diff(rows, prepend=-1) > 0]
        parts.append(segment.gathered(rows[bitmap.test(segment.searchable, rows)]))
    return replace(snapshot, segments=tuple(parts)), None


def _sampled_step(stretches: list[_Stretch], k: int) -> int | None:
    """Return how many blocks from one in the sample to the next, or None where a sample costs more
    than it saves.
    """
    rows = BLOCK * sum(s.last - s.first for s in stretches)
    return max(8, k // 64) if 8 * k <= rows <= k * k // 4 else None


def _sampled_rank(stretches: list[_Stretch], k: int, step: int) -> int:
    """Return how many of a sample to take in, so that most likely the k nearest of all rows are no
    farther.
    """
    sampled = sum(-(-(s.last - s.first) // step) for s in stretches)
    expected = k * sampled / sum(s.last - s.first for s in stretches)
    return int(expected + 3 * expected**0.5 + 4)


def _parts(words: Words, stretches: list[_Stretch], most_queries: int) -> list[_Part]:
    """Cut the scan for the pool; either all parts have all rows, or all have all queries."""
    n_queries = len(words)
    total = sum(s.last - s.first for s in stretches)
    most_queries = max(2, min(_MOST_QUERIES, most_queries))
    workers = (
        1 if total * BLOCK * words[0].size * n_queries < _SMALL_SCAN else threads.get_threads()
    )
    if n_queries < 2 * workers and n_queries <= most_queries:
        return [_Part(0, n_queries, rows) for rows in _cut_rows(stretches, total, workers)]
    rounds = -(-n_queries // (workers * most_queries))
    step = -(-n_queries // (workers * rounds))
    return [
        _Part(first, min(first + step, n_queries), stretches) for first in range(0, n_queries, step)
    ]


def _cut_rows(stretches: list[_Stretch], total: int, n_parts: int) -> Iterator[list[_Stretch]]:
    for i in range(n_parts):
        low, high = total * i // n_parts, total * (i + 1) // n_parts
        part, before = [], 0
        for s in stretches:
            first, last = max(low - before, s.first), min(high - before, s.last)
            if first < last:
                part.append(s._replace(first=first, last=last))
            before += s.last
        yield part


def _nothing_found(n_queries: int, k: int, spec: CodeSpec) -> Neighbors:
    ids = np.full((n_queries, k), -1, dtype=np.int64)
    return Neighbors(ids, np.full((n_queries, k), spec.n_symbols + 1, dtype=np.int32))


def _best_of(rivals: list[Neighbors], k: int) -> Neighbors:
    """Keep the best k of several results for the same queries."""
    ids = np.concatenate([found.ids for found in rivals], axis=1)
    distances = np.concatenate([found.distances for found in rivals], axis=1)
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return Neighbors(
        np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    )
