"""FlatIndex: exact search over all codes, at the speed of memory; and the scan, which other indexes
use as well.

A scan is cut into pieces for the thread pool, and the results do not depend on the cut. Many
queries are cut by queries; few queries by rows, and the parts' results merge. A piece takes as many
queries at once as leave their candidates in the second-level cache.

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
from bitkin.codes import Codes
from bitkin.index.base import RowIndex
from bitkin.index.results import (
    Neighbors,
    RaggedNeighbors,
    merge_neighbors,
    no_neighbors,
    ragged_neighbors,
)
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap, n_blocks
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.scan import (
    block_widths,
    blocks_ahead,
    empty_best,
    guess_limits,
    k_smallest_into,
    many_smallest_into,
    room_for,
    sample_into,
    sort_best_into,
    within_radius_into,
)

_MOST_QUERIES = 128  # at once: past that nothing is left to gain from a block in cache
_CACHE_BYTES = 1 << 20  # for the candidates of all queries of a piece
_SMALL_SCAN = 1 << 21  # words; handing less than that to another thread costs more than it saves
_FEW_ALLOWED = 8  # times fewer than all rows: copying those pays for a single query
_ALL_ROWS = np.empty(0, dtype=np.uint64)


class FlatIndex(RowIndex):
    """Exact nearest neighbours among codes by the number of symbols that differ.

    Any number of threads may search while others add and remove: a search works on the snapshot it
    took, and writers take turns. An index adopts the fingerprint of the first codes that have one;
    codes of another hasher are refused.

    Parameters
    ----------
    spec : CodeSpec
        The shape of the codes.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], bits_per_symbol=1)
    >>> index = bitkin.FlatIndex(codes.spec)
    >>> index.add(codes).tolist()
    [0, 1, 2]
    >>> ids, distances = index.search(codes[:1], k=2)
    >>> ids.tolist(), distances.tolist()
    ([[0, 1]], [[0, 1]])
    >>> index.remove([0])
    >>> index.search(codes[:1], k=2).ids.tolist()
    [[1, 2]]
    """

    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest rows of every query, by a scan of all."""
        return scan_nearest(snapshot, queries, k, allow)

    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return all rows within `radius` of every query, by a scan of all."""
        return scan_within_radius(snapshot, queries, radius, allow)


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


class _ScanPart(NamedTuple):
    """Queries `first` … `last` over some stretches: one piece of work."""

    first: int
    last: int
    stretches: list[_Stretch]


def scan_nearest(snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None) -> Neighbors:
    """Return the k nearest rows of every query, nearest first, ties by lower id."""
    farther = snapshot.spec.n_symbols + 1
    found = no_neighbors(len(queries), k, farther, np.int32)
    if queries.empty is not None:
        asked = np.flatnonzero(~queries.empty)
        found.ids[asked], found.distances[asked] = scan_nearest(snapshot, queries[asked], k, allow)
        return found
    reach = min(k, len(snapshot))
    if reach == 0 or len(queries) == 0:
        return found
    words = read_only(queries.words)
    n_planes, n_words = words.shape[1:]
    widths = (*block_widths(n_planes, n_words), blocks_ahead(n_planes, n_words))
    # Where ids do not ascend over all segments, equal distances have to be ordered by id.
    by_id = not snapshot.in_order
    # 12 bytes per candidate (an id and a distance), 4 per entry of a histogram of 64·W distances
    state_bytes = 12 * room_for(reach) + 256 * n_words
    parts = _parts(words, _stretches(snapshot, allow), _CACHE_BYTES // state_bytes)
    cut_by_rows = len(parts) > 1 and parts[0].first == parts[1].first

    def search(part: _ScanPart) -> Neighbors:
        if cut_by_rows:
            out = no_neighbors(len(queries), k, farther, np.int32)
        else:
            out = Neighbors(*(column[part.first : part.last] for column in found))
        some = words[part.first : part.last]
        step = _sampled_step(part.stretches, reach) if len(widths[1]) == n_words else None
        if step is None:
            return scan(some, part.stretches, out)
        best = empty_best(len(some), reach, n_words)
        for s in part.stretches:
            sample_into(s.blocks, s.first, s.last, s.n, s.mask, some, *widths[:2], step, best)
        guess_limits(best, _sampled_rank(part.stretches, reach, step))
        for stretch in part.stretches:
            many_smallest_into(*stretch, some, *widths[:2], reach, by_id, best)
        # The sample promised too little to these queries: not all of their k are within the limit.
        missed = np.flatnonzero(best.progress[:, 0] < reach)
        sort_best_into(best, reach, by_id, *out)
        if len(missed):
            nothing = no_neighbors(len(missed), k, farther, np.int32)
            again = scan(read_only(some[missed]), part.stretches, nothing)
            out.ids[missed], out.distances[missed] = again
        return out

    def scan(some: Words, stretches: list[_Stretch], out: Neighbors) -> Neighbors:
        best = empty_best(len(some), reach, n_words)
        for stretch in stretches:
            k_smallest_into(*stretch, some, *widths, reach, by_id, best)
        sort_best_into(best, reach, by_id, *out)
        return out

    results = threads.run(search, parts)
    return merge_neighbors(results, k) if cut_by_rows else found


def scan_within_radius(
    snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query, nearest first, ties by lower id."""
    asked = np.flatnonzero(~queries.empty_rows())
    if not len(asked):
        return ragged_neighbors(len(queries), [])
    words = read_only(queries.words[asked])
    widths = block_widths(words.shape[1], words.shape[2])

    def search(part: _ScanPart) -> list[tuple[Ids, Ids, npt.NDArray[np.int32]]]:
        some = words[part.first : part.last]
        query_numbers = asked[part.first : part.last]
        # The kernel stops before a block whose hits, up to 512 per query, might not fit.
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
                at, count = within_radius_into(*stretch, some, *widths, radius, *out, lanes)
                stretch = stretch._replace(first=at)
                found.append(
                    (query_numbers[out[0][:count]], out[1][:count].copy(), out[2][:count].copy())
                )
        return found

    parts = _parts(words, _stretches(snapshot, allow), _MOST_QUERIES // 2)
    pieces = [piece for found in threads.run(search, parts) for piece in found]
    return ragged_neighbors(len(queries), pieces)


def _stretches(snapshot: Snapshot, allow: Ids | None) -> list[_Stretch]:
    """Return all segments as kernels take them, with masks of the rows that are allowed."""
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
        rows = np.sort(segment.find_present(allow))
        # without repeats; np.unique takes ten times as long
        rows = rows[np.diff(rows, prepend=-1) > 0]
        parts.append(segment.gather(rows[bitmap.flags_at(segment.searchable, rows)]))
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
    # Of k rows spread over all blocks, e = k · sampled / total are expected in the sample, and
    # their number is at most about Poisson: e + 3·√e is passed by few queries in a thousand.
    sampled = sum(-(-(s.last - s.first) // step) for s in stretches)
    expected = k * sampled / sum(s.last - s.first for s in stretches)
    return int(expected + 3 * expected**0.5 + 4)


def _parts(words: Words, stretches: list[_Stretch], most_queries: int) -> list[_ScanPart]:
    """Cut the scan for the pool; either all parts have all rows, or all have all queries."""
    n_queries = len(words)
    total = sum(s.last - s.first for s in stretches)
    most_queries = max(2, min(_MOST_QUERIES, most_queries))
    workers = (
        1 if total * BLOCK * words[0].size * n_queries < _SMALL_SCAN else threads.get_threads()
    )
    if n_queries < 2 * workers and n_queries <= most_queries:
        return [_ScanPart(0, n_queries, rows) for rows in _cut_rows(stretches, total, workers)]
    # Equal pieces, as few rounds of all threads as the cache allows.
    rounds = -(-n_queries // (workers * most_queries))
    step = -(-n_queries // (workers * rounds))
    return [
        _ScanPart(first, min(first + step, n_queries), stretches)
        for first in range(0, n_queries, step)
    ]


def _cut_rows(stretches: list[_Stretch], total: int, n_parts: int) -> Iterator[list[_Stretch]]:
    """Yield the stretches of each of `n_parts` equal runs of all `total` blocks."""
    for i in range(n_parts):
        low, high = total * i // n_parts, total * (i + 1) // n_parts
        part, before = [], 0
        for s in stretches:
            first, last = max(low - before, s.first), min(high - before, s.last)
            if first < last:
                part.append(s._replace(first=first, last=last))
            before += s.last
        yield part
