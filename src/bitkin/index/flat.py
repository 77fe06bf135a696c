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
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import Stretch, Stretches
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.scan import (
    ScanState,
    TileRoom,
    block_widths,
    blocks_ahead,
    k_smallest_into,
    many_smallest_into,
    room_for,
    scan_state,
    tile_room,
    within_radius_into,
)

_MOST_QUERIES = 128  # at once: past that nothing is left to gain from a block in cache
_CACHE_BYTES = 1 << 20  # for the candidates of all queries of a piece
# Words compared, all queries together, below which another thread costs more than it saves.
_WORDS_PER_PIECE = 1 << 20


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


class _ScanPart(NamedTuple):
    """Queries `first` … `last` over some stretches: one piece of work."""

    first: int
    last: int
    stretches: list[Stretch]


def scan_nearest(snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None) -> Neighbors:
    """Return the k nearest rows of every query, nearest first, ties by lower id."""
    farther = snapshot.spec.n_symbols + 1
    if queries.empty is not None:
        found = no_neighbors(len(queries), k, farther, np.int32)
        asked = np.flatnonzero(~queries.empty)
        found.ids[asked], found.distances[asked] = scan_nearest(snapshot, queries[asked], k, allow)
        return found
    n_queries = len(queries)
    rows = snapshot.whole if allow is None else snapshot.allowed(allow, n_queries)
    reach = min(k, rows.n_rows)
    if reach == 0 or n_queries == 0:
        return no_neighbors(n_queries, k, farther, np.int32)
    scan = _Scan(read_only(queries.words), k, reach, not rows.in_order, farther)
    # 12 bytes per candidate (an id and a distance), 4 per entry of a histogram of 64·W distances
    state_bytes = 12 * room_for(reach) + 256 * scan.words.shape[2]
    parts = _parts(scan.words, rows, _CACHE_BYTES // state_bytes)
    if len(parts) == 1:
        return scan.nearest(parts[0])
    results = threads.run(scan.nearest, parts)
    if parts[0].first == parts[1].first:  # cut by rows
        return merge_neighbors(results, k)
    return Neighbors(*map(np.concatenate, zip(*results, strict=True)))


class _Scan(NamedTuple):
    """What is looked for: the `reach` nearest of every query, in `k` columns."""

    words: Words
    """uint64 (n_queries, planes, words per plane), read-only."""
    k: int
    reach: int
    by_id: bool
    """Whether ids do not ascend over all stretches: equal distances then have to be ordered."""
    farther: int

    def nearest(self, part: _ScanPart) -> Neighbors:
        """Search one piece."""
        words, stretches = self.words[part.first : part.last], part.stretches
        if not stretches:
            return no_neighbors(len(words), self.k, self.farther, np.int32)
        planes, turn = block_widths(*words.shape[1:])
        step = _sampled_step(stretches, self.reach) if len(turn) == words.shape[2] else None
        if step is None:
            return self._scan(words, stretches)
        found, state, room = self._room(len(words))
        rank = _sampled_rank(stretches, self.reach, step)
        # one stretch is sampled and scanned in one call; of several, all are sampled first
        rounds = ((True, True),) if len(stretches) == 1 else ((True, False), (False, True))
        for sample, scan in rounds:
            for i, stretch in enumerate(stretches):
                first, last = i == 0, i == len(stretches) - 1
                many_smallest_into(
                    *stretch, words, planes, turn, step, rank, sample, scan, self.reach,
                    self.by_id, first, last, *state, *room, self.farther, *found,
                )  # fmt: skip
        # The sample promised too little to these queries: not all of their k are within the limit.
        last_ids = found.ids[:, self.reach - 1]
        if last_ids.min() < 0:
            missed = np.flatnonzero(last_ids < 0)
            again = self._scan(read_only(words[missed]), stretches)
            found.ids[missed], found.distances[missed] = again
        return found

    def _scan(self, words: Words, stretches: list[Stretch]) -> Neighbors:
        """Search without a guess from a sample."""
        found, state, room = self._room(len(words))
        n_planes, n_words = words.shape[1:]
        widths = (*block_widths(n_planes, n_words), blocks_ahead(n_planes, n_words))
        for i, stretch in enumerate(stretches):
            first, last = i == 0, i == len(stretches) - 1
            k_smallest_into(
                *stretch, words, *widths, self.reach, self.by_id, first, last, *state,
                *room, self.farther, *found,
            )  # fmt: skip
        return found

    def _room(self, n_queries: int) -> tuple[Neighbors, ScanState, TileRoom]:
        """Return room for what is found, which kernels fill, and for what they remember."""
        found = Neighbors(
            np.empty((n_queries, self.k), dtype=np.int64),
            np.empty((n_queries, self.k), dtype=np.int32),
        )
        n_planes, n_words = self.words.shape[1:]
        return found, scan_state(n_queries, self.reach, n_words), tile_room(n_planes, n_words)


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
        work = tile_room(*some.shape[1:])
        found = []
        for stretch in part.stretches:
            while stretch.first < stretch.last:
                at, count = within_radius_into(*stretch, some, *widths, radius, *out, *work)
                stretch = stretch._replace(first=at)
                found.append(
                    (query_numbers[out[0][:count]], out[1][:count].copy(), out[2][:count].copy())
                )
        return found

    rows = snapshot.whole if allow is None else snapshot.allowed(allow, len(asked))
    parts = _parts(words, rows, _MOST_QUERIES // 2)
    pieces = [piece for found in threads.run(search, parts) for piece in found]
    return ragged_neighbors(len(queries), pieces)


def _sampled_step(stretches: list[Stretch], k: int) -> int | None:
    """Return how many blocks from one in the sample to the next, or None where a sample costs more
    than it saves.
    """
    rows = BLOCK * sum(s.last - s.first for s in stretches)
    return max(8, k // 64) if 8 * k <= rows <= k * k // 4 else None


def _sampled_rank(stretches: list[Stretch], k: int, step: int) -> int:
    """Return how many of a sample to take in, so that most likely the k nearest of all rows are no
    farther.
    """
    # Of k rows spread over all blocks, e = k · sampled / total are expected in the sample, and
    # their number is at most about Poisson: e + 3·√e is passed by few queries in a thousand.
    sampled = sum(-(-(s.last - s.first) // step) for s in stretches)
    expected = k * sampled / sum(s.last - s.first for s in stretches)
    return int(expected + 3 * expected**0.5 + 4)


def _parts(words: Words, rows: Stretches, most_queries: int) -> list[_ScanPart]:
    """Cut the scan for the pool; either all parts have all rows, or all have all queries."""
    n_queries, n_planes, n_words = words.shape
    most_queries = max(2, min(_MOST_QUERIES, most_queries))
    work = rows.n_blocks * BLOCK * n_planes * n_words * n_queries
    workers = max(1, min(threads.get_threads(), work // _WORDS_PER_PIECE))
    if workers == 1 and n_queries <= most_queries:
        return [_ScanPart(0, n_queries, rows.parts)]
    if n_queries < 2 * workers and n_queries <= most_queries:
        cuts = _cut_rows(rows.parts, rows.n_blocks, workers)
        return [_ScanPart(0, n_queries, stretches) for stretches in cuts]
    # Equal pieces, as few rounds of all threads as the cache allows.
    rounds = -(-n_queries // (workers * most_queries))
    step = -(-n_queries // (workers * rounds))
    return [
        _ScanPart(first, min(first + step, n_queries), rows.parts)
        for first in range(0, n_queries, step)
    ]


def _cut_rows(stretches: list[Stretch], total: int, n_parts: int) -> Iterator[list[Stretch]]:
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
