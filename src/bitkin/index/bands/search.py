"""Search in bands: tables where there are some, the scan for rows in none, and one answer whatever
the cut.

A row is a candidate of a query when the query looks into one of its bands. Without a budget that
depends on the two codes and the layout alone: rows outside tables are asked the same question, once
they are near enough to matter, and a query whose buckets hold a large part of the rows is answered
by the scan, which then is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.codes import Codes
from bitkin.index.bands.layout import BandLayout
from bitkin.index.bands.tables import BandTables, sketches_of
from bitkin.index.results import (
    Neighbors,
    RaggedNeighbors,
    merge_neighbors,
    no_neighbors,
    ragged_neighbors,
)
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.band_index import (
    BandWork,
    hits_in_rows_into,
    hits_in_tables_into,
    keys_into,
    nearest_in_rows_into,
    nearest_in_tables_into,
    room_for,
    row_distances_into,
)
from bitkin.kernels.search.scan import block_widths, symbol_distances_into, tile_room

SCAN_SHARE = 8  # a row in a bucket costs about as much time as so many in a scan
_ROWS_A_FINALIST = 5  # with a budget, of rows that have sketches
_FINALISTS_A_RESULT = 16
_NO_MATCH = np.int64(2**63 - 1)
_NO_LIMIT = 2**62
_DISTANCES_AT_ONCE = 1 << 20
_QUERIES_AT_ONCE = 256
_FEW_QUERIES = 16
_ALL_ROWS = np.empty(0, dtype=np.uint64)

Scores = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BandSearch:
    """One search: what is asked of every segment."""

    snapshot: Snapshot
    layout: BandLayout
    budget: int | None
    by_hits: bool
    words: Words
    """uint64 (q, P, W): queries that are not empty."""
    keys: npt.NDArray[np.uint64]
    """uint64 (q, bands)."""
    masks: list[Bitmap | None]

    @classmethod
    def begin(
        cls,
        snapshot: Snapshot,
        layout: BandLayout,
        budget: int | None,
        by_hits: bool,
        queries: Codes,
        allow: Ids | None,
    ) -> BandSearch:
        """Start a search for queries of which none is empty."""
        words = read_only(queries.words)
        keys = np.empty((len(words), layout.bands), dtype=np.uint64)
        keys_into(words, layout.r, keys)
        return cls(snapshot, layout, budget, by_hits, words, read_only(keys), snapshot.masks(allow))

    def nearest(self, k: int) -> tuple[Neighbors, Ids]:
        """Return the k nearest candidates of every query, and how many rows of tables were looked
        at.
        """
        n_queries, step = len(self.words), _QUERIES_AT_ONCE
        workers = threads.get_threads()
        if n_queries > _FEW_QUERIES:
            step = min(step, -(-n_queries // workers))
        farther = self.layout.spec.n_symbols + 1
        ids, distances = no_neighbors(n_queries, k, farther, np.int32)
        looked = np.zeros(n_queries, dtype=np.int64)

        def search(first: int) -> None:
            part = slice(first, min(first + step, n_queries))
            rivals = [self._of_segment(s, mask, part, k, looked) for s, mask in self._segments()]
            best_ids, scores = rivals[0] if len(rivals) == 1 else merge_neighbors(rivals, k)
            there = scores < _NO_MATCH >> 32
            width = best_ids.shape[1]
            ids[part, :width] = np.where(there, best_ids, -1)
            distances[part, :width] = np.where(there, scores, farther)

        if any(True for _ in self._segments()):
            threads.run(search, range(0, n_queries, step))
        return Neighbors(ids, distances), looked

    def candidates(self, query: int) -> Iterator[tuple[Ids, Scores]]:
        """Yield ids and scores of all candidates of a query, a segment at a time."""
        for segment, mask in self._segments():
            rows, scores = self._scored(segment, mask, query)
            yield segment.ids[rows], scores

    def _segments(self) -> Iterator[tuple[Segment, Bitmap]]:
        for segment, mask in zip(self.snapshot.segments, self.masks, strict=True):
            if segment.n:
                yield segment, read_only(_ALL_ROWS if mask is None else mask)

    def _of_segment(
        self, segment: Segment, mask: Bitmap, part: slice, k: int, looked: Ids
    ) -> Neighbors:
        # Places, score · 2³² + row: one comparison orders by score and then by row, and so by id.
        best = np.full((part.stop - part.start, min(k, segment.n)), _NO_MATCH)
        if self.by_hits:
            for q in range(part.start, part.stop):
                rows, scores = self._scored(segment, mask, q)
                # one number per candidate, score above row: the smallest is the best, ties by
                # lower row, and so by lower id
                places = (scores.astype(np.int64) << 32) + rows
                if len(places) > best.shape[1]:
                    places = np.partition(places, best.shape[1] - 1)[: best.shape[1]]
                places.sort()
                best[q - part.start, : len(places)] = places
        else:
            self._by_distance(segment, mask, part, best, looked)
        rows = best & (2**32 - 1)
        scores = best >> 32
        return Neighbors(segment.ids[np.where(best < _NO_MATCH, rows, 0)], scores)

    def _by_distance(
        self, segment: Segment, mask: Bitmap, part: slice, best: Ids, looked: Ids
    ) -> None:
        """Offer the candidates of a segment to the queries of a part, and sort the best."""
        layout, words, keys = self.layout, self.words[part], self.keys[part]
        widths = block_widths(words.shape[1], words.shape[2])
        covered = 0
        if isinstance(segment.tables, BandTables):
            covered = segment.tables.n
            budget = self._budget(segment, mask)
            # beyond this many rows in its buckets a query is quicker by a scan
            most = max(1, segment.n // SCAN_SHARE) if self.budget is None else budget
            rows_looked_at = np.empty(len(words), dtype=np.int64)
            finalists = _NO_LIMIT
            if self.budget is not None:
                finalists = max(
                    self.budget // _ROWS_A_FINALIST, _FINALISTS_A_RESULT * best.shape[1]
                )
            nearest_in_tables_into(
                segment.tables.arrays,
                mask,
                words,
                sketches_of(words),
                keys,
                layout.r,
                layout.masks,
                layout.sorted_masks,
                layout.levels,
                budget,
                most,
                finalists,
                *widths,
                best,
                rows_looked_at,
                self._room(segment.tables, most),
            )
            # the kernel left these out; they count as having looked at every row
            heavy = np.flatnonzero(rows_looked_at > most)
            rows_looked_at[heavy] = covered
            looked[part] += rows_looked_at
            if len(heavy):
                some = best[heavy]
                self._scan(segment, mask, part.start + heavy, 0, covered, widths, some)
                best[heavy] = some
        # rows added since the tables were made are in none: scan them
        if covered < segment.n:
            self._scan(
                segment, mask, np.arange(part.start, part.stop), covered, segment.n, widths, best
            )
        best.sort(axis=1)

    def _scan(
        self,
        segment: Segment,
        mask: Bitmap,
        which: Ids,
        first: int,
        last: int,
        widths: tuple[tuple[int, ...], tuple[int, ...]],
        best: Ids,
    ) -> None:
        """Offer rows `first` … `last` of a segment to the best of some queries, by their
        distances.
        """
        layout, tiles = self.layout, read_only(segment.tiles)
        # so many blocks that the table of distances stays within 4 MB
        step = max(1, _DISTANCES_AT_ONCE // (BLOCK * len(which)))
        words, keys = read_only(self.words[which]), read_only(self.keys[which])
        room, tiles_per_block = tile_room(*words.shape[1:]), BLOCK // tiles.shape[3]
        for block in range(first // BLOCK, bitmap.n_blocks(last), step):
            origin, stop = block * BLOCK, min((block + step) * BLOCK, last)
            distances = np.empty((len(which), stop - origin), dtype=np.int32)
            some = tiles[block * tiles_per_block : (block + step) * tiles_per_block]
            symbol_distances_into(some, words, *widths, distances, 0, stop - origin, *room)
            nearest_in_rows_into(
                tiles,
                max(first, origin),
                origin,
                read_only(distances),
                mask,
                keys,
                layout.r,
                layout.sorted_masks,
                best,
            )

    def _scored(self, segment: Segment, mask: Bitmap, query: int) -> tuple[Ids, Scores]:
        """Return the rows of a segment that are candidates of a query, and their scores."""
        layout, keys = self.layout, self.keys[query]
        hits = np.zeros(segment.n, dtype=np.uint32)
        rows = np.empty(segment.n, dtype=np.int64)
        covered = found = 0
        if isinstance(segment.tables, BandTables):
            covered = segment.tables.n
            found = hits_in_tables_into(
                segment.tables.arrays,
                mask,
                keys,
                layout.r,
                layout.masks,
                layout.levels,
                self._budget(segment, mask),
                self._room(segment.tables, 0),
                hits,
                rows,
            )
        found += hits_in_rows_into(
            read_only(segment.tiles),
            covered,
            segment.n,
            mask,
            keys,
            layout.r,
            layout.sorted_masks,
            hits,
            rows[found:],
        )
        rows = rows[:found]
        if self.by_hits:
            # bands that did not find the row, so that smaller is nearer here too
            return rows, layout.bands - hits[rows].astype(np.int32)
        scores = np.empty(found, dtype=np.int32)
        query_words = self.words[query]
        row_distances_into(
            read_only(segment.words(rows)), query_words, *block_widths(*query_words.shape), scores
        )
        return rows, scores

    def _budget(self, segment: Segment, mask: Bitmap) -> int:
        """Return the share of the budget that is this segment's; rows that cannot be returned do
        not use it up.
        """
        if self.budget is None:
            return _NO_LIMIT
        allowed = segment.n if len(mask) == 0 else int(bitmap.unpack(mask, 0, segment.n).sum())
        total = sum(s.n for s in self.snapshot.segments)
        # The budget by the segment's share of all rows, divided by the share of its rows that are
        # allowed: buckets list the others too, and they should not use it up.
        share = -(-self.budget * segment.n // total)
        return min(_NO_LIMIT, -(-share * segment.n // max(1, allowed)))

    def _room(self, tables: BandTables, most: int) -> BandWork:
        """Return room to work in for queries that look at up to `most` rows."""
        n_words, n_buckets = self.words.shape[2], self.layout.bands * len(self.layout.masks)
        return room_for(tables.n, n_words, n_buckets, min(most, tables.arrays.rows.size))


def candidates_within(
    search: BandSearch, asked: Ids, n_queries: int, radius: int
) -> RaggedNeighbors:
    """Return all candidates within `radius`, nearest first, ties by lower id; query i of the search
    is `asked[i]`.
    """

    def within(query: int) -> list[tuple[Ids, Ids, Scores]]:
        found = []
        for ids, scores in search.candidates(query):
            near = scores <= radius
            which = np.full(np.count_nonzero(near), asked[query])
            found.append((which, ids[near], scores[near]))
        return found

    pieces = threads.run(within, range(len(asked)))
    return ragged_neighbors(n_queries, [piece for found in pieces for piece in found])
