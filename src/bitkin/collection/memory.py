"""Rows in memory: the store behind a collection, and its snapshots.

This is the seam for other stores. `Collection` checks and encodes; a store keeps rows. Every change
(`put`, `remove`, `compact`) is one transaction, made by one writer at a time: it builds a new
snapshot and puts it in the place of the old one by a single assignment. A search reads one
snapshot, by row id, and so needs no lock. A store on disk commits a transaction where this one
assigns, and its snapshots read vectors and corrections in a read transaction of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Batch, Ids, Words
from bitkin.codes import Codes
from bitkin.collection.cell_lane import CellLane
from bitkin.collection.cells import cell_maker
from bitkin.collection.ids import CollectionIds
from bitkin.collection.lane import LaneRows
from bitkin.collection.metadata.slot_fields import SlotFields
from bitkin.collection.rows import Column, Pieces, RowSlots
from bitkin.collection.vectors import DenseVectors, KeptVectors, ScaledVectors, StagedVectors
from bitkin.errors import InvalidInputError
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.index.base import RowIndex
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.cells.search import segments_of
from bitkin.index.cells.tables import CellTables
from bitkin.index.results import Neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.growth import compact_if_sparse, with_rows, without_ids
from bitkin.index.rows.segment_slots import SegmentSlots
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import Stretches, allowed_rows
from bitkin.kernels.blocks import read_only
from bitkin.rescoring.cells.scan import EstimateRuns
from bitkin.rescoring.estimate import NO_CORRECTIONS, CodedRows, Corrections
from bitkin.rescoring.estimate_scan import EstimateRows
from bitkin.rescoring.exact import VectorsInPlace
from bitkin.rescoring.row_scorer import EstimateScorer

ROWS_FOR_CELLS = 50_000  # from which on index="auto" looks into cells
_NO_SLOTS = np.empty(0, dtype=np.int64)
_FEW_DEAD_ROWS = 1024  # are not worth the work of giving their space back


class RowReader(Protocol):
    """Reads what is not in memory of rows, all as of one moment."""

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""

    def metadata(self, row_ids: Ids) -> list[dict[str, Any]]:
        """Return the metadata of rows that are there, in that order."""


class NewRows(NamedTuple):
    """Rows to be kept, all checked; n of them."""

    row_ids: Ids
    """All different; one that is there already is replaced."""
    codes: Codes
    vectors: StagedVectors | None
    """Of n rows, as the kept vectors accepted them; none are left once they are kept."""
    corrections: Pieces | None
    """Of n rows too."""
    lengths: Lengths = NO_LENGTHS
    """Of their vectors, where those can spoil codes."""
    fields: Sequence[tuple[Any, ...]] = ()
    """Values of declared fields, where there are any."""


@dataclass(frozen=True, eq=False, slots=True)
class KeptRows:
    """Vectors, corrections and declared fields by slot, as far as a collection has them; those of
    removed rows until it is compacted.
    """

    vectors: KeptVectors | None
    corrections: Column | None
    slots: RowSlots = field(default_factory=RowSlots)
    n_slots: int = 0
    """Slots used."""
    by_segment: SegmentSlots = field(default_factory=SegmentSlots)
    """Slots that searches have looked up, of snapshots that hold these rows."""
    fields: SlotFields | None = None
    """Declared fields, where a collection has some."""

    @property
    def has_slots(self) -> bool:
        """Whether anything is kept of rows beside their codes."""
        return not (self.vectors is None and self.corrections is None and self.fields is None)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        of_vectors = 0 if self.vectors is None else self.vectors.nbytes
        of_corrections = 0 if self.corrections is None else self.corrections.array.nbytes
        of_fields = 0 if self.fields is None else self.fields.nbytes
        return of_vectors + of_corrections + of_fields + self.slots.nbytes + self.by_segment.nbytes

    def with_rows(self, rows: NewRows, coded: Snapshot) -> KeptRows:
        """Return these rows and new ones; what was under the same ids is out of reach then.

        `coded` holds the codes of all of them already.
        """
        vectors, corrections, fields = self.vectors, self.corrections, self.fields
        if not self.has_slots:
            return self
        if vectors is not None and rows.vectors is not None:
            vectors = vectors.with_rows(rows.vectors)
        if corrections is not None and rows.corrections is not None:
            corrections = corrections.with_pieces(rows.corrections)
        if fields is not None:
            fields = fields.with_rows(rows.row_ids, rows.fields)
        # New rows always take new slots, so that snapshots in use keep theirs.
        stop = self.n_slots + len(rows.row_ids)
        slots = self.slots.with_rows(rows.row_ids, np.arange(self.n_slots, stop))
        by_segment = self.by_segment.after(coded.segments, slots)
        return KeptRows(vectors, corrections, slots, stop, by_segment, fields)

    def with_changed_fields(
        self, row_ids: Ids, fields: Sequence[tuple[Any, ...]], coded: Snapshot
    ) -> KeptRows:
        """Return these rows with other declared fields of some, which take new slots; vectors must
        not be in memory.
        """
        old = self.slots.lookup(row_ids)
        corrections = None
        if self.corrections is not None:
            again = Pieces()
            again.append(self.corrections.array[old])
            corrections = again
        empty = coded.codes(row_ids[:0])
        rows = NewRows(row_ids, empty, None, corrections, fields=fields)
        return self.with_rows(rows, coded)

    def keep_only(self, row_ids: Ids, renumbered: Ids) -> KeptRows:
        """Return some rows alone, under new row ids."""
        if not self.has_slots:
            return self
        old = self.slots.lookup(row_ids)
        vectors = None if self.vectors is None else self.vectors.take(old)
        corrections = None
        if self.corrections is not None:
            corrections = Column(self.corrections.array[old], len(old))
        fields = None if self.fields is None else self.fields.take(old, renumbered)
        slots = RowSlots().with_rows(renumbered, np.arange(len(old)))
        return KeptRows(vectors, corrections, slots, len(old), fields=fields)


@dataclass(frozen=True, eq=False, slots=True)
class CollectionSnapshot:
    """Everything a collection is at one moment. It never changes, so a search needs no lock."""

    index: RowIndex
    """How codes are searched; it holds none itself."""
    coded: Snapshot
    """Codes by row id: what the index searches, and which rows there are."""
    ids: CollectionIds
    kept: KeptRows
    lengths: Lengths = NO_LENGTHS
    """Of all rows added since there were none, where those can spoil codes."""
    metric: str = "l2"
    """What distances are, which cells follow."""
    later: RowIndex | None = None
    """How codes are searched once there are `ROWS_FOR_CELLS` rows, if otherwise."""
    estimates: EstimateScorer | None = None
    """What codes of residuals are made by, where rows come into cells around vectors."""
    version: int = 0
    """Of a collection in a folder: how many writes its database had."""
    reading: RowReader | None = None
    """What reads vectors and metadata as of this moment, where they are not in memory."""
    _all_rows: list[EstimateRows] = field(default_factory=list, init=False, repr=False)
    _all_runs: list[list[EstimateRuns]] = field(default_factory=list, init=False, repr=False)
    _cell_lanes: list[CellLane | None] = field(default_factory=list, init=False, repr=False)
    _lane_rows: list[LaneRows | None] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.coded)

    def read_by(self, reading: RowReader | None) -> CollectionSnapshot:
        """Return the same snapshot, with what reads its rows; what was made once of all rows is
        shared.
        """
        same = replace(self, reading=reading)
        for made in ("_all_rows", "_all_runs", "_cell_lanes", "_lane_rows"):
            object.__setattr__(same, made, getattr(self, made))
        return same

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, vectors, corrections and ids, room for more rows included."""
        of_codes = sum(segment.nbytes for segment in self.coded.segments)
        return of_codes + self.kept.nbytes + self.ids.nbytes

    @property
    def n_written(self) -> int:
        """How many rows were written, those replaced or removed counted until their space is given
        back.
        """
        return self.kept.n_slots

    def count_present(self, row_ids: Ids) -> int:
        """Return how many rows have one of these row ids."""
        return int(self.coded.present(np.unique(row_ids)).sum())

    def looked_at(self, queries: Sized, allow: Ids | None) -> tuple[str, int]:
        """Return what the first stage looks at in words, and how many rows that are for all of
        these queries.
        """
        n_rows = len(self) if allow is None else self.count_present(allow)
        return "all rows", len(queries) * n_rows

    def count_compared(self, queries: Codes, k: int, allow: Ids | None, least: int) -> int:
        """Return how many rows `nearest` looks at for all of these queries."""
        return self.index.count_compared(self.coded, queries, k, allow, least)

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes, as row ids; at least `least`, if there
        are.
        """
        return self.index.nearest_in(self.coded, queries, k, allow, least)

    def rows_to_estimate(self, queries: Sized, allow: Ids | None) -> EstimateRows:
        """Return all rows, or those allowed, as a scan by the estimate takes them."""
        if allow is not None:
            return self._with_corrections(self.coded.allowed(allow, len(queries)))
        if not self._all_rows:  # made once, since a snapshot never changes
            self._all_rows.append(self._with_corrections(self.coded.whole))
        return self._all_rows[0]

    def runs_to_estimate(self, allow: Ids | None) -> list[EstimateRuns]:
        """Return all rows, or those allowed, in cells and in none, as the estimate takes them."""
        if allow is not None or not self._all_runs:
            stretches = self.rows_to_estimate((), None).parts
            runs = [
                EstimateRuns.from_segment(rows, stretch)
                for rows, stretch in zip(segments_of(self.coded, allow), stretches, strict=True)
            ]
            if allow is not None:
                return runs
            self._all_runs.append(runs)  # made once, since a snapshot never changes
        return self._all_runs[0]

    @property
    def lane_rows(self) -> LaneRows | None:
        """All rows as the fast lane takes them, None where it does not."""
        if not self._lane_rows:  # made once, since a snapshot never changes
            self._lane_rows.append(self._as_lane_rows())
        return self._lane_rows[0]

    @property
    def cell_lane(self) -> CellLane | None:
        """All rows in cells as the fast lane takes them, None where it does not."""
        if not self._cell_lanes:  # made once, since a snapshot never changes
            self._cell_lanes.append(self._as_cell_lane())
        return self._cell_lanes[0]

    def mask_of(self, allow: Ids) -> Bitmap:
        """Return the rows of the lone segment that are allowed."""
        [segment] = (segment for segment in self.coded.segments if segment.n)
        return read_only(allowed_rows(segment, allow))

    def _as_cell_lane(self) -> CellLane | None:
        kept, segments = self.kept, [s for s in self.coded.segments if s.n]
        if self.estimates is None or len(segments) != 1:
            return None
        [segment] = segments
        if not isinstance(segment.tables, CellTables) or not segment.tables.residual:
            return None
        [part] = self.runs_to_estimate(None)
        slots = kept.by_segment.find(part.ids[: part.n], self.coded.segments, kept.slots)
        vectors = self.vectors_in_slots(_NO_SLOTS)
        if vectors is None:
            return None
        return CellLane.from_part(segment.tables.centres, part, slots, vectors)

    def _as_lane_rows(self) -> LaneRows | None:
        kept = self.kept
        if isinstance(self.index, CellIndex):  # whose rows are in cells by now
            return None
        if kept.vectors is None or kept.vectors.sparse or kept.corrections is None:
            return None
        rows = self._with_corrections(self.coded.whole)
        if len(rows.parts) != 1:
            return None
        [stretch] = rows.parts
        first = kept.slots.first_in_order(stretch.ids[: stretch.n])
        return LaneRows(stretch, rows.n_rows, first or 0)

    def _with_corrections(self, rows: Stretches) -> EstimateRows:
        if self.kept.corrections is None:
            return EstimateRows.without_corrections(rows)
        kept, segments = self.kept, self.coded.segments
        return EstimateRows.from_stretches(
            rows,
            self.kept.corrections.rows,
            lambda ids: kept.by_segment.find(ids, segments, kept.slots),
        )

    def words(self, row_ids: Ids) -> Words:
        """Return the codes of rows that are there, in that order, as uint64 (n, planes, words per
        plane).
        """
        return self.coded.words(row_ids)

    def corrections(self, row_ids: Ids) -> Corrections:
        """Return the corrections of rows that are there, in that order."""
        if self.kept.corrections is None:
            raise InvalidInputError(
                "corrections must be kept to be read, but this collection has none."
            )
        found: Corrections = self.kept.corrections.array[self.kept.slots.slots_of(row_ids)]
        return found

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""
        if self.kept.vectors is None:
            raise InvalidInputError(
                "vectors must be kept to be read, but this collection has vectors=None."
            )
        if self.reading is not None:
            return self.reading.vectors(row_ids)
        return self.kept.vectors.gather(self.kept.slots.slots_of(row_ids))

    def coded_in_place(self, row_ids: Ids) -> CodedRows | None:
        """Return codes, and corrections if there are any, of rows that are there where they stand,
        for (q, m) ids; None while codes are in several segments.
        """
        segments, kept = self.coded.segments, self.kept
        if len(segments) != 1:
            return None
        places = segments[0].rows_of(row_ids)
        if kept.corrections is None:
            return CodedRows(segments[0].tiles, NO_CORRECTIONS, places, places)
        slots = kept.slots.slots_of(row_ids)
        return CodedRows(segments[0].tiles, kept.corrections.array, places, slots)

    def vectors_in_place(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return vectors of rows that are there where they stand; None where they are sparse."""
        return self.vectors_in_slots(self.kept.slots.slots_of(row_ids))

    def vectors_in_slots(self, slots: Ids) -> VectorsInPlace | None:
        """Return what `vectors_in_place` does, for rows of which the slots are known."""
        vectors = self.kept.vectors
        if isinstance(vectors, DenseVectors):
            return VectorsInPlace(vectors.column.array, slots)
        if isinstance(vectors, ScaledVectors):
            return VectorsInPlace(vectors.steps.array, slots, vectors.scales.array)
        return None  # sparse, or none at all


class MemoryStore:
    """Rows that live as long as their process.

    Parameters
    ----------
    snapshot : CollectionSnapshot
        The rows to begin with.

    Attributes
    ----------
    snapshot : CollectionSnapshot
        All rows as they are now.
    """

    snapshot: CollectionSnapshot

    def __init__(self, snapshot: CollectionSnapshot) -> None:
        # Sealed: the arrays may be shared, with a pickle's buffers or another copy made from them.
        segments = tuple(segment.without_room() for segment in snapshot.coded.segments)
        self._commit(replace(snapshot, coded=replace(snapshot.coded, segments=segments)))

    @classmethod
    def empty(
        cls,
        index: RowIndex,
        fingerprint: str,
        ids: CollectionIds,
        vectors: KeptVectors | None,
        *,
        corrections: bool,
        metric: str = "l2",
        later: RowIndex | None = None,
        estimates: EstimateScorer | None = None,
    ) -> MemoryStore:
        """Return a store without rows.

        `index`, which has none and is left so, says how codes are searched; `fingerprint` is of the
        hasher whose codes are to come. Without `vectors` none are kept, and without `corrections`
        rows come without them. Once there are `ROWS_FOR_CELLS` rows, it is `later` that says how
        codes are searched, if that is given. `estimates` make codes of residuals where rows come
        into cells around vectors.
        """
        kept = KeptRows(vectors, Column.empty(np.float32, 2) if corrections else None)
        coded = Snapshot(index.spec, fingerprint)
        return cls(
            CollectionSnapshot(
                index, coded, ids, kept, metric=metric, later=later, estimates=estimates
            )
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[CollectionSnapshot]:
        """Give all rows as they are now, to be read for as long as it takes."""
        yield self.snapshot

    def put(self, rows: NewRows, *, replaces: bool) -> None:
        """Add rows, and replace those whose row ids are there, if it `replaces`; if not, none may
        be. All of it or nothing.
        """
        self._commit(with_new_rows(self.snapshot, rows, replaces=replaces))

    def remove(self, row_ids: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""
        self._commit(without_rows(self.snapshot, row_ids))

    def compact(self) -> None:
        """Give the space of removed rows back."""
        self._commit(self.packed())

    def packed(self) -> CollectionSnapshot:
        """Return the current rows in as little memory as they need, sharing nothing that a writer
        changes.
        """
        now = self.snapshot
        return without_dead_rows(replace(now, coded=now.index.compacted(now.coded)))

    def copied(self) -> CollectionSnapshot:
        """Return what `packed` does for a copy, whose rows are in the same cells."""
        now = self.snapshot
        return without_dead_rows(replace(now, coded=now.index.pack(now.coded)))

    def close(self) -> None:
        """Let go of what is beside memory: nothing."""

    def _commit(self, new: CollectionSnapshot) -> None:
        """Make a snapshot the current one."""
        self.snapshot = prepare_snapshot(new)


def with_new_rows(now: CollectionSnapshot, rows: NewRows, *, replaces: bool) -> CollectionSnapshot:
    """Return a snapshot with new rows, which replace those of the same row ids if it `replaces`."""
    coded = without_ids(now.coded, rows.row_ids) if replaces else now.coded
    coded = with_rows(coded, rows.codes, rows.row_ids)
    if replaces:
        coded = compact_if_sparse(coded)
    lengths = (now.lengths if len(now) else NO_LENGTHS).plus(rows.lengths)
    return replace(now, coded=coded, kept=now.kept.with_rows(rows, coded), lengths=lengths)


def without_rows(now: CollectionSnapshot, row_ids: Ids) -> CollectionSnapshot:
    """Return a snapshot without some rows that are there, each given once."""
    return replace(now, coded=compact_if_sparse(without_ids(now.coded, row_ids)))


def prepare_snapshot(new: CollectionSnapshot) -> CollectionSnapshot:
    """Return a snapshot ready to be searched: where more rows are dead than alive, their space is
    given back first.
    """
    held = max(new.kept.n_slots, len(new.ids))
    if held - len(new) > max(_FEW_DEAD_ROWS, len(new)):
        new = without_dead_rows(new)
    if new.later is not None and len(new) >= ROWS_FOR_CELLS:
        new = replace(new, index=new.later, later=None)
    if isinstance(new.index, CellIndex):
        prepared = new.index.prepare_by(new.coded, cell_maker(new, new.index))
    else:
        prepared = new.index.prepare(new.coded)
    return new if prepared is new.coded else replace(new, coded=prepared)


def without_dead_rows(snapshot: CollectionSnapshot) -> CollectionSnapshot:
    """Return the same rows, without ids, vectors and corrections of removed ones."""
    coded = snapshot.coded
    row_ids = coded.ids()
    ids, renumbered = snapshot.ids.keep_only(row_ids)
    # strings are numbered again from 0, so their codes have to move to the new row ids
    if not np.array_equal(renumbered, row_ids):
        coded = _renumber(coded, row_ids, renumbered)
    kept = snapshot.kept.keep_only(row_ids, renumbered)
    return replace(snapshot, coded=coded, ids=ids, kept=kept)


def _renumber(coded: Snapshot, row_ids: Ids, renumbered: Ids) -> Snapshot:
    """Return the rows with these ids, all there are, under others in the same order."""
    if any(segment.n_alive < segment.n for segment in coded.segments):
        empty = Snapshot(coded.spec, coded.fingerprint)
        return with_rows(empty, coded.codes(row_ids), renumbered)
    segments = tuple(
        replace(segment, ids=renumbered[np.searchsorted(row_ids, segment.row_ids)])
        for segment in coded.segments
    )
    next_id = int(renumbered[-1]) + 1 if len(renumbered) else 0
    return replace(coded, segments=segments, next_id=next_id)
