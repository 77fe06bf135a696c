"""FlatIndex: exact search over all codes, at the speed of memory; and the scan, which other indexes
use as well.

Of many neighbours most candidates would come early and fall out later. So a sample of the blocks
says first how far the k-th is about; a query that finds fewer than k within that distance searches
again without.
"""

from __future__ import annotations

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
    no_neighbors,
    ragged_neighbors,
)
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import Stretch
from bitkin.index.scan_parts import (
    CACHE_BYTES,
    MOST_QUERIES,
    ScanPart,
    cut_scan,
    nearest_of_parts,
)
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
    n_words = scan.words.shape[1] * scan.words.shape[2]
    parts = cut_scan(rows.parts, n_queries, n_words, CACHE_BYTES // state_bytes)
    return nearest_of_parts(parts, scan.nearest, k)


class _Scan(NamedTuple):
    """What is looked for: the `reach` nearest of every query, in `k` columns."""

    words: Words
    """uint64 (n_queries, planes, words per plane), read-only."""
    k: int
    reach: int
    by_id: bool
    """Whether ids do not ascend over all stretches: equal distances then have to be ordered."""
    farther: int

    def nearest(self, part: ScanPart) -> Neighbors:
        """Search one piece."""
        words = self.words[part.first : part.last]
        stretches: list[Stretch] = part.stretches
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

    def search(part: ScanPart) -> list[tuple[Ids, Ids, npt.NDArray[np.int32]]]:
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
        stretches: list[Stretch] = part.stretches
        for stretch in stretches:
            while stretch.first < stretch.last:
                at, count = within_radius_into(*stretch, some, *widths, radius, *out, *work)
                stretch = stretch._replace(first=at)
                found.append(
                    (query_numbers[out[0][:count]], out[1][:count].copy(), out[2][:count].copy())
                )
        return found

    rows = snapshot.whole if allow is None else snapshot.allowed(allow, len(asked))
    parts = cut_scan(rows.parts, len(words), words[0].size, MOST_QUERIES // 2)
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
