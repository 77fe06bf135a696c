"""One epoch: the rows that one frozen model encoded, with the two numbers per row that its
estimates need.

An epoch never changes: whatever adds or removes rows returns another one, and the two share what is
common.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bitkin.arrays import Batch, Ids, Words
from bitkin.codes import Codes
from bitkin.index.flat import scan_nearest
from bitkin.index.results import Neighbors
from bitkin.index.rows.growth import compact_if_sparse, in_one_segment, with_rows, without_ids
from bitkin.index.rows.segment_slots import SegmentSlots
from bitkin.index.rows.snapshot import Snapshot
from bitkin.rescoring.estimate import Corrections, PreparedQueries, Scorer
from bitkin.rescoring.estimate_scan import (
    QUERY_BITS,
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)
from bitkin.rescoring.first_stage import FirstStage, FirstStageChooser


@dataclass(frozen=True, eq=False, slots=True)
class EpochCorrections:
    """Corrections in ascending order of id; ids that were removed may still be among them.

    The arrays may have room for more rows, which the writer fills: readers never look beyond their
    own `n`.
    """

    ids: Ids
    values: Corrections
    n: int

    @classmethod
    def empty(cls) -> EpochCorrections:
        """Return a table without rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.float32), 0)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.ids.nbytes + self.values.nbytes

    def lookup(self, ids: Ids) -> Corrections:
        """Return the corrections of ids that are here."""
        here = self.ids[: self.n]
        return self.values[ids - here[0] if _consecutive(here) else np.searchsorted(here, ids)]

    def first_in_order(self, ids: Ids) -> int | None:
        """Return the place of the corrections of the first of ascending ids where ids, here and
        there, are numbers without a gap; else None.
        """
        here = self.ids[: self.n]
        if _consecutive(here) and _consecutive(ids) and here[0] <= ids[0] and ids[-1] <= here[-1]:
            return int(ids[0] - here[0])
        return None

    def slots_in_order(self, ids: Ids) -> Ids:
        """Return where the corrections of ascending ids stand; ids that are not here get the place
        of another.
        """
        return np.minimum(np.searchsorted(self.ids[: self.n], ids), self.n - 1)

    def stays_in_place(self, ids: Ids) -> bool:
        """Whether rows with these ids would come behind all that are here."""
        return self.n == 0 or len(ids) == 0 or bool(self.ids[self.n - 1] < ids.min())

    def with_rows(self, ids: Ids, numbers: Corrections) -> EpochCorrections:
        """Return a table with these rows too; what it had under the same ids is replaced."""
        order = np.argsort(ids)
        ids, numbers = ids[order], numbers[order]
        stop = self.n + len(ids)
        if len(ids) == 0:
            return self
        # ids that come between or replace others: a new table, for older ones are still read
        if self.n and self.ids[self.n - 1] >= ids[0]:
            stays = ~np.isin(self.ids[: self.n], ids)
            every = np.concatenate([self.ids[: self.n][stays], ids])
            order = np.argsort(every, kind="stable")
            joined = np.concatenate([self.values[: self.n][stays], numbers])[order]
            return EpochCorrections(every[order], joined, len(every))
        if stop > len(self.ids) or not self.ids.flags.writeable:
            # an eighth more than needed, so that every row is copied a bounded number of times
            room = stop + stop // 8
            grown = EpochCorrections(
                np.zeros(room, dtype=np.int64), np.zeros((room, 2), dtype=np.float32), self.n
            )
            grown.ids[: self.n], grown.values[: self.n] = (
                self.ids[: self.n],
                self.values[: self.n],
            )
            return grown.with_rows(ids, numbers)
        self.ids[self.n : stop], self.values[self.n : stop] = ids, numbers
        return replace(self, n=stop)


@dataclass(frozen=True, eq=False, slots=True)
class Epoch:
    """A frozen model, the codes it made, and their corrections."""

    scorer: Scorer
    rows: Snapshot
    corrections: EpochCorrections
    by_segment: SegmentSlots = field(default_factory=SegmentSlots)
    """Where the corrections of rows stand, as far as searches have looked it up."""

    @classmethod
    def without_rows(cls, scorer: Scorer) -> Epoch:
        """Return an epoch without rows."""
        return cls(
            scorer, Snapshot(scorer.model.spec, scorer.model.fingerprint), EpochCorrections.empty()
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self.scorer.model.fingerprint

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, corrections and the model; mapped bytes count."""
        model = self.scorer.model
        of_model = model.components.nbytes + (0 if model.mean is None else model.mean.nbytes)
        return (
            sum(segment.nbytes for segment in self.rows.segments)
            + self.corrections.nbytes
            + self.by_segment.nbytes
            + of_model
        )

    def with_codes(self, codes: Codes, numbers: Corrections, ids: Ids) -> Epoch:
        """Return the epoch with new rows, whose ids are not among those alive."""
        rows = with_rows(self.rows, codes, ids)
        corrections = self.corrections.with_rows(ids, numbers)
        by_segment = SegmentSlots()
        if self.corrections.stays_in_place(ids):
            by_segment = self.by_segment.after(rows.segments, corrections)
        return replace(self, rows=rows, corrections=corrections, by_segment=by_segment)

    def without(self, ids: Ids) -> Epoch:
        """Return the epoch without those of the ids that are in it."""
        if not self.rows.present(ids).any():
            return self
        rows = compact_if_sparse(without_ids(self.rows, ids))
        by_segment = self.by_segment.after(rows.segments, self.corrections)
        fewer = replace(self, rows=rows, by_segment=by_segment)
        # corrections of removed rows stay until they outnumber the others
        return fewer.compact() if fewer.corrections.n > 2 * len(fewer) + 1024 else fewer

    def compact(self) -> Epoch:
        """Return the epoch in as little memory as it needs."""
        ids = self.rows.ids()
        return replace(
            self,
            rows=in_one_segment(self.rows),
            corrections=EpochCorrections(ids.copy(), self.corrections.lookup(ids), len(ids)),
            by_segment=SegmentSlots(),
        )

    def without_room(self) -> Epoch:
        """Return the same rows over arrays that can no longer be appended to."""
        rows = replace(
            self.rows, segments=tuple(segment.without_room() for segment in self.rows.segments)
        )
        ids = self.corrections.ids[: self.corrections.n]
        ids.flags.writeable = False
        corrections = replace(self.corrections, ids=ids)
        return replace(self, rows=rows, corrections=corrections, by_segment=SegmentSlots())

    def nearest(
        self, queries: Batch, n_candidates: int, allow: Ids | None, first: str | None
    ) -> Neighbors:
        """Return the nearest rows of every query by the `first` stage, in that order, with their
        scores; None chooses it.
        """
        asked = self.scorer.prepare_queries(queries)
        if first is None:
            first = self.first_stage(n_candidates).stage
        n_candidates = min(n_candidates, len(self))
        if first == "estimate":
            found = self._scan_estimates(asked, n_candidates, allow)
        else:
            found = scan_nearest(self.rows, asked.codes, n_candidates, allow).ids
        there = found >= 0
        ids = found[there]
        places = np.full(found.shape, -1, dtype=np.int64)
        # where the words and corrections of each candidate are, −1 for padding
        places[there] = np.arange(len(ids))
        return Neighbors(
            found, self.scorer.scores(asked, self._words(ids), self.corrections.lookup(ids), places)
        )

    def first_stage(self, n_candidates: int) -> FirstStage:
        """Return the stage that looks at all rows where it keeps so many, and why."""
        chooser = FirstStageChooser(self.scorer, QUERY_BITS, has_vectors=False)
        return chooser.choose(self.rows, None, n_candidates)

    def _scan_estimates(self, queries: PreparedQueries, k: int, allow: Ids | None) -> Ids:
        """Return the ids of the best k of all rows by the estimate, queries in a few bits."""
        rows = self.rows_to_estimate(len(queries.terms), allow)
        rounded = QuantizedQueries.from_prepared(queries, QUERY_BITS)
        has_small = self.scorer.metric == "l2"
        return scan_estimates(rows, rounded, k, has_small=has_small).ids

    def rows_to_estimate(self, n_queries: int, allow: Ids | None) -> EstimateRows:
        """Return all rows, or those allowed, as a scan of so many queries by the estimate takes
        them.
        """
        rows = self.rows.whole if allow is None else self.rows.allowed(allow, n_queries)
        kept, segments = self.corrections, self.rows.segments
        return EstimateRows.from_stretches(
            rows,
            kept.values[: kept.n],
            lambda ids: self.by_segment.find(ids, segments, kept),
        )

    def _words(self, ids: Ids) -> Words:
        """Return the packed codes of ids that are here: uint64 (n, words per row)."""
        words = np.empty((len(ids), self.rows.spec.plane_words), dtype=np.uint64)
        for segment in self.rows.segments:
            rows = segment.find(ids)
            here = rows >= 0
            if here.all():
                return segment.words(rows)[:, 0]
            words[here] = segment.words(rows[here])[:, 0]
        return words


def _consecutive(ids: Ids) -> bool:
    return len(ids) > 0 and int(ids[-1]) - int(ids[0]) == len(ids) - 1
