"""Snapshots of a collection: everything that it is at one moment.

A snapshot never changes, so a search needs no lock. Every change makes another one, which shares
what is common (see `changes.py`), and a store puts it in the place of the current one.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Batch, Flags, Ids, Words
from bitkin.codes import Codes
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.ids import CollectionIds
from bitkin.collection.metadata.documents import EncodedMetadata
from bitkin.collection.metadata.filters import Condition, matches
from bitkin.collection.metadata.row_metadata import RowMetadata
from bitkin.collection.rows import Column, Pieces, RowSlots
from bitkin.collection.searching.cell_lane import CellLane
from bitkin.collection.searching.lane import LaneRows
from bitkin.collection.vectors import DenseVectors, KeptVectors, ScaledVectors, StagedVectors
from bitkin.errors import InvalidInputError
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.index.base import RowIndex
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.cells.search import segments_of
from bitkin.index.cells.tables import CellTables
from bitkin.index.results import Neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment, merged_ids
from bitkin.index.rows.segment_slots import SegmentSlots
from bitkin.index.rows.snapshot import Snapshot
from bitkin.index.rows.stretches import Stretches, allowed_rows
from bitkin.kernels.blocks import read_only
from bitkin.rescoring.cells.scan import EstimateRuns
from bitkin.rescoring.estimate import NO_CORRECTIONS, CodedRows, Corrections
from bitkin.rescoring.estimate_scan import QUERY_BITS, EstimateRows
from bitkin.rescoring.exact import VectorsInPlace
from bitkin.rescoring.row_scorer import EstimateScorer

NO_ROW_IDS = np.empty(0, dtype=np.int64)
_NO_SLOTS = NO_ROW_IDS


class RowReader(Protocol):
    """Reads what is not in memory of rows, all as of one moment."""

    def find(self, condition: Condition | None) -> Ids:
        """Return the row ids, ascending, of rows whose undeclared metadata matches."""

    def vectors(self, row_ids: Ids, n_features: int) -> Batch:
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
    metadata: EncodedMetadata | None = None
    """Of n rows; None where they have none."""
    epoch: CollectionEpoch | None = None
    """Whose hasher made the codes; None is the current one."""


@dataclass(frozen=True, eq=False, slots=True)
class KeptRows:
    """Vectors and corrections by slot, and metadata, as far as memory has them; those of removed
    rows until they are compacted.
    """

    vectors: KeptVectors | None
    corrections: Column | None
    slots: RowSlots = field(default_factory=RowSlots)
    n_slots: int = 0
    """Slots used."""
    by_segment: SegmentSlots = field(default_factory=SegmentSlots)
    """Slots that searches have looked up, of snapshots that hold these rows."""
    metadata: RowMetadata | None = None
    """None where no row has any, and where all of it is in a database."""

    @property
    def has_slots(self) -> bool:
        """Whether vectors or corrections are kept beside codes."""
        return not (self.vectors is None and self.corrections is None)

    @property
    def n_held(self) -> int:
        """How many rows were written, those replaced or removed counted until their space is given
        back.
        """
        return max(self.n_slots, 0 if self.metadata is None else self.metadata.n_slots)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        of_vectors = 0 if self.vectors is None else self.vectors.nbytes
        of_corrections = 0 if self.corrections is None else self.corrections.array.nbytes
        of_metadata = 0 if self.metadata is None else self.metadata.nbytes
        of_slots = self.slots.nbytes + self.by_segment.nbytes
        return of_vectors + of_corrections + of_metadata + of_slots

    def with_rows(self, rows: NewRows, segments: Sequence[Segment]) -> KeptRows:
        """Return these rows and new ones; what was under the same ids is out of reach then.

        `segments` hold the codes of all of them already.
        """
        metadata = self._metadata_with(rows.row_ids, rows.metadata, segments)
        if not self.has_slots:
            return replace(self, metadata=metadata)
        vectors, corrections = self.vectors, self.corrections
        if vectors is not None and rows.vectors is not None:
            vectors = vectors.with_rows(rows.vectors)
        if corrections is not None:
            if rows.corrections is not None:
                corrections = corrections.with_pieces(rows.corrections)
            else:  # codes of an epoch that has none
                corrections = corrections.with_rows(_no_corrections(len(rows.row_ids)))
        # New rows always take new slots, so that snapshots in use keep theirs.
        stop = self.n_slots + len(rows.row_ids)
        slots = self.slots.with_rows(rows.row_ids, np.arange(self.n_slots, stop))
        by_segment = self.by_segment.after(segments, slots)
        return KeptRows(vectors, corrections, slots, stop, by_segment, metadata)

    def with_metadata(
        self, row_ids: Ids, written: EncodedMetadata, segments: Sequence[Segment]
    ) -> KeptRows:
        """Return these rows, some of them with other metadata; `segments` hold all rows."""
        return replace(self, metadata=self._metadata_with(row_ids, written, segments))

    def _metadata_with(
        self, row_ids: Ids, written: EncodedMetadata | None, segments: Sequence[Segment]
    ) -> RowMetadata | None:
        known = self.metadata
        if known is None:
            return None
        if known.n_slots == 0 and not known.columns.fields:
            if written is None:  # nothing is held for rows until the first has metadata
                return known
            known = known.with_rows(merged_ids(segments), None)
        return known.with_rows(row_ids, written)

    def with_corrections(self, row_ids: Ids, corrections: Corrections) -> KeptRows:
        """Return these rows, some of them with other corrections."""
        if self.corrections is None:
            return self
        # a copy, since snapshots in use read the old ones
        array = self.corrections.rows.copy()
        array[self.slots.lookup(row_ids)] = corrections
        return replace(self, corrections=Column(array, self.n_slots))

    def ready_for(self, epoch: CollectionEpoch) -> KeptRows:
        """Return these rows, with room for the corrections of an epoch that makes some."""
        if epoch.encoder.scorer is None or self.corrections is not None:
            return self
        return replace(self, corrections=Column(_no_corrections(self.n_slots), self.n_slots))

    def keep_only(self, row_ids: Ids, renumbered: Ids) -> KeptRows:
        """Return some rows alone, under new row ids."""
        metadata = None if self.metadata is None else self.metadata.keep_only(row_ids, renumbered)
        if not self.has_slots:
            return replace(self, metadata=metadata)
        old = self.slots.lookup(row_ids)
        vectors = None if self.vectors is None else self.vectors.take(old)
        corrections = None
        if self.corrections is not None:
            corrections = Column(self.corrections.array[old], len(old))
        slots = RowSlots.in_order(renumbered)
        return KeptRows(vectors, corrections, slots, len(old), metadata=metadata)


NOTHING_KEPT = KeptRows(None, None)


def _no_corrections(n: int) -> Corrections:
    return np.zeros((n, 2), dtype=np.float32)


@dataclass(frozen=True, eq=False, slots=True)
class CollectionSnapshot:
    """Everything a collection is at one moment. It never changes, so a search needs no lock.

    Rows of earlier epochs are snapshots of their own in `older`, as long as there are any; what is
    said here of codes is of the current epoch alone, and so is `len`.
    """

    epoch: CollectionEpoch
    """The current one: its hasher encodes new rows."""
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
    older: tuple[CollectionSnapshot, ...] = ()
    """Rows of earlier epochs, without what is kept of them beside codes: see `parts`."""
    version: int = 0
    """Of a collection in a folder: how many writes its database had."""
    reading: RowReader | None = None
    """What reads vectors and metadata as of this moment, where they are not in memory."""
    _all_rows: list[EstimateRows] = field(default_factory=list, init=False, repr=False)
    _all_runs: list[list[EstimateRuns]] = field(default_factory=list, init=False, repr=False)
    _cell_lanes: list[CellLane | None] = field(default_factory=list, init=False, repr=False)
    _lane_rows: list[LaneRows | None] = field(default_factory=list, init=False, repr=False)
    _parts: list[tuple[CollectionSnapshot, ...]] = field(
        default_factory=list, init=False, repr=False
    )

    @classmethod
    def of_epoch(
        cls, epoch: CollectionEpoch, ids: CollectionIds, kept: KeptRows, next_id: int = 0
    ) -> CollectionSnapshot:
        """Return a snapshot whose current epoch, a new one, has no rows."""
        return cls(
            epoch,
            epoch.index,
            Snapshot(epoch.index.spec, epoch.fingerprint, (), next_id),
            ids,
            kept,
            metric=epoch.settings.metric,
            later=epoch.later,
            estimates=epoch.estimates,
        )

    def __len__(self) -> int:
        return len(self.coded)

    @property
    def parts(self) -> tuple[CollectionSnapshot, ...]:
        """The rows of every epoch by themselves, the current one first."""
        if not self.older:
            return (self,)
        if not self._parts:  # made once, since a snapshot never changes
            every = (self.alone(), *self.older)
            bound = (replace(one, ids=self.ids, kept=self.kept, reading=None) for one in every)
            self._parts.append(tuple(bound))
        return tuple(part.read_by(self.reading) for part in self._parts[0])

    def alone(self) -> CollectionSnapshot:
        """Return the rows of the current epoch without those of others, and what is kept of rows
        beside codes left out.
        """
        return replace(self, older=(), kept=NOTHING_KEPT, reading=None)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of all epochs."""
        segments = self.coded.segments
        for part in self.older:
            segments += part.coded.segments
        return segments

    @property
    def n_rows(self) -> int:
        """How many rows there are, of all epochs."""
        return len(self.coded) + sum(len(part.coded) for part in self.older)

    @property
    def next_id(self) -> int:
        """The row id that comes next."""
        return max(self.coded.next_id, *(part.coded.next_id for part in self.older), 0)

    def row_ids(self) -> Ids:
        """Return the row ids of all epochs, ascending."""
        row_ids = self.coded.ids()
        if not self.older:
            return row_ids
        return np.sort(np.concatenate([row_ids, *(part.coded.ids() for part in self.older)]))

    def present(self, row_ids: Ids) -> Flags:
        """Tell for every row id whether it is there, in whatever epoch."""
        there = self.coded.present(row_ids)
        for part in self.older:
            there |= part.coded.present(row_ids)
        return there

    def codes(self, row_ids: Ids) -> Codes:
        """Return the codes of rows that are there, in that order. Where they are of several epochs,
        whose codes do not compare, it is what the current hasher makes of their vectors, or, where
        none are kept, codes that compare with no others.
        """
        for part in (self, *self.older):
            if part.coded.present(row_ids).all():
                return part.coded.codes(row_ids)
        if self.kept.vectors is not None:
            return self.epoch.encoder.encode_rows(self.vectors(row_ids), None).codes
        spec = self.coded.spec  # of all epochs, since no other hasher can take over without vectors
        words = np.zeros((len(row_ids), spec.bits_per_symbol, spec.plane_words), dtype=np.uint64)
        empty = np.zeros(len(row_ids), dtype=np.bool_)
        for part in (self, *self.older):
            here = part.coded.present(row_ids)
            some = part.coded.codes(row_ids[here])
            words[here] = some.words
            empty[here] = False if some.empty is None else some.empty
        return Codes(words, spec, empty=empty, fingerprint="codes of several epochs")

    @property
    def has_metadata(self) -> bool:
        """Whether rows may have metadata."""
        kept = self.kept.metadata
        return self.reading is not None or (kept is not None and kept.n_slots > 0)

    def metadata(self, row_ids: Ids) -> list[dict[str, Any]] | None:
        """Return the metadata of rows that are there, in that order; None where no row has any."""
        if self.reading is not None:
            return self.reading.metadata(row_ids)
        kept = self.kept.metadata
        return None if kept is None or kept.n_slots == 0 else kept.documents(row_ids)

    def matching(self, condition: Condition) -> Ids:
        """Return the row ids, ascending, of rows whose metadata matches."""
        kept, reading = self.kept.metadata, self.reading
        if kept is None and reading is not None:
            return reading.find(condition)
        if kept is None or kept.n_slots == 0:
            return self.row_ids()[: None if matches(condition, {}) else 0]
        found = kept.find(condition, None if reading is None else reading.find)
        return found[self.present(found)]

    def read_by(self, reading: RowReader | None) -> CollectionSnapshot:
        """Return the same snapshot, with what reads its rows; what was made once of all rows is
        shared.
        """
        # by name and not by `replace`, which takes as long as reading several rows
        same = object.__new__(CollectionSnapshot)
        for name in self.__slots__:
            object.__setattr__(same, name, getattr(self, name))
        object.__setattr__(same, "reading", reading)
        return same

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, vectors, corrections and ids, room for more rows included."""
        of_codes = sum(segment.nbytes for segment in self.segments)
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
            # a scan reads a row's words once for every bit of a query
            rows = self.coded.allowed(allow, len(queries) * QUERY_BITS)
            return self._with_corrections(rows)
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
            return self.reading.vectors(row_ids, self.kept.vectors.n_features)
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
        """Return vectors of rows that are there where they stand, or read them; None where they are
        sparse.
        """
        if self.reading is not None:
            return self._read_vectors(row_ids)
        return self.vectors_in_slots(self.kept.slots.slots_of(row_ids))

    def vectors_in_slots(self, slots: Ids) -> VectorsInPlace | None:
        """Return what `vectors_in_place` does, for rows of which the slots are known."""
        vectors = self.kept.vectors
        if isinstance(vectors, DenseVectors):
            return VectorsInPlace(vectors.column.array, slots)
        if isinstance(vectors, ScaledVectors):
            return VectorsInPlace(vectors.steps.array, slots, vectors.scales.array)
        return None  # sparse, or none at all

    def _read_vectors(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return vectors that are read, each once and in order, whoever wants them."""
        if self.kept.vectors is None or self.kept.vectors.sparse:
            return None
        wanted, places = np.unique(row_ids, return_inverse=True)
        rows: Any = self.vectors(wanted)
        return VectorsInPlace(rows, places)
