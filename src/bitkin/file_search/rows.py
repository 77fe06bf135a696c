"""The rows of an index in a file, with vectors and corrections in others: what the funnel
searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bitkin.arguments import ArgumentSpelling
from bitkin.checks import some_of
from bitkin.codes import Codes
from bitkin.errors import DuplicateIdError, InvalidInputError
from bitkin.index.rows import bitmap
from bitkin.index.rows.segment_slots import SegmentSlots
from bitkin.rescoring.corrections import require_squares
from bitkin.rescoring.estimate_scan import EstimateRows
from bitkin.rescoring.exact import VectorsInPlace
from bitkin.rescoring.shortlist import Shortlist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bitkin.arrays import Batch, Ids, Words
    from bitkin.index.base import RowIndex
    from bitkin.index.results import Neighbors
    from bitkin.index.rows.segment import Segment
    from bitkin.index.rows.stretches import Stretches
    from bitkin.io.vectors import VectorSource
    from bitkin.rescoring.estimate import Corrections

_ROWS_CHECKED_AT_ONCE = 1 << 16


class RowsById:
    """Which row of a file belongs to an id: its number, or the place of the id in a list.

    Parameters
    ----------
    ids : int64 (n_rows,) or None
        The id of every row; None where ids are row numbers.
    n_rows : int
        Of the file.
    index : RowIndex
        All of its ids must have a row.
    name : str
        Of the file.
    what : str
        What it has a row of.
    spelling : ArgumentSpelling
        How messages name arguments.
    """

    def __init__(
        self,
        ids: Ids | None,
        n_rows: int,
        index: RowIndex,
        name: str,
        what: str,
        spelling: ArgumentSpelling,
    ) -> None:
        argument = spelling.name("ids")
        if ids is not None and len(ids) != n_rows:
            raise InvalidInputError(
                f"{argument} must be one per row of {name}, got {len(ids)} for {n_rows} rows."
            )
        # the row of an id is found by bisection: rows in the order of their ids
        self._order = None if ids is None else np.argsort(ids, kind="stable")
        self._sorted = None if ids is None else ids[self._order]
        if self._sorted is not None and (self._sorted[1:] == self._sorted[:-1]).any():
            values, counts = np.unique(self._sorted, return_counts=True)
            raise DuplicateIdError(
                f"{argument} must give every row of {name} an id of its own, given more than once: "
                f"{some_of(values[counts > 1])}."
            )
        # now, and not when a query first finds such an id
        held = index.ids
        missing = (
            held[held >= n_rows] if self._sorted is None else held[~np.isin(held, self._sorted)]
        )
        if len(missing):
            raise InvalidInputError(
                f"{name} has {n_rows} rows, none of them for the ids {some_of(missing)} of the "
                f"index. Give the {what} of all that were encoded, and to {argument} the ids that "
                "the index was built with."
            )

        self._n_rows = n_rows

    def __call__(self, ids: Ids) -> Ids:
        """Return the rows of ids that are there."""
        if self._order is None or self._sorted is None:
            return ids  # ids are row numbers
        rows: Ids = self._order[np.searchsorted(self._sorted, ids)]
        return rows

    def first_in_order(self, ids: Ids) -> int | None:
        """Return the row of the first of ascending ids where all are row numbers without a gap;
        else None.
        """
        if self._order is not None or len(ids) == 0:
            return None
        stand_together = ids[-1] < self._n_rows and ids[-1] - ids[0] == len(ids) - 1
        return int(ids[0]) if stand_together else None

    def slots_in_order(self, ids: Ids) -> Ids:
        """Return the rows of ascending ids; ids that are not there get the row of another."""
        if self._order is None or self._sorted is None:
            return np.minimum(ids, self._n_rows - 1)
        return self._order[np.minimum(np.searchsorted(self._sorted, ids), self._n_rows - 1)]


class FileVectors:
    """Vectors of a file by id."""

    def __init__(
        self, source: VectorSource, ids: Ids | None, index: RowIndex, spelling: ArgumentSpelling
    ) -> None:
        self._rows_by_id = RowsById(ids, len(source), index, source.name, "vectors", spelling)
        self._source = source

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of ids that are there, in that order."""
        return self._source.gather(self._rows_by_id(row_ids))

    def gathered(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return the vectors of ids that are there, each read once and in the order of the file;
        None where they are not of a type that is measured so.
        """
        if self._source.sparse or self._source.dtype not in (np.float32, np.float16):
            return None
        wanted = Shortlist.from_ids(self._rows_by_id(row_ids)[None])
        return VectorsInPlace(self._source.gather(wanted.wanted), wanted.places[0])


class FileCorrections:
    """Corrections of a file by id."""

    def __init__(
        self,
        corrections: Corrections,
        ids: Ids | None,
        index: RowIndex,
        name: str,
        metric: str,
        spelling: ArgumentSpelling,
    ) -> None:
        self._rows_by_id = RowsById(ids, len(corrections), index, name, "corrections", spelling)
        self._make = spelling.command("save_corrections")
        self._metric = metric
        self._kept = corrections
        self._name = name
        self._are_checked = False
        self._by_segment = SegmentSlots()

    def corrections(self, ids: Ids) -> Corrections:
        """Return the corrections of ids that are there, in that order; all must be finite and, for
        l2, begin with a square.
        """
        rows = self._rows_by_id(ids)
        some: Corrections = np.asarray(self._kept[rows])  # reads these rows of the mapped file
        bad = ~np.isfinite(some).all(axis=1)
        if bad.any():
            at = int(bad.argmax())
            raise InvalidInputError(
                f"{self._name} must hold finite corrections, got {some[at, 0]} and {some[at, 1]} "
                f"in row {rows[at]}. Make them again with {self._make}."
            )
        if self._metric == "l2":
            require_squares(some, rows)
        return some

    def join(self, rows: Stretches, segments: Sequence[Segment]) -> EstimateRows:
        """Return rows with their corrections, as a scan by the estimate takes them; those of all
        rows that can be found are checked before the first scan. Which rows of the file are those
        of one of `segments` is looked up once.
        """
        if not self._are_checked:
            for stretch in rows.parts:
                for first in range(0, stretch.n, _ROWS_CHECKED_AT_ONCE):
                    last = min(first + _ROWS_CHECKED_AT_ONCE, stretch.n)
                    mask = stretch.mask if len(stretch.mask) else None
                    self.corrections(stretch.ids[first:last][bitmap.unpack(mask, first, last)])
        return EstimateRows.from_stretches(
            rows,
            self._kept,
            lambda ids: self._by_segment.find(ids, segments, self._rows_by_id),
        )

    def join_all(self, rows: Stretches, segments: Sequence[Segment]) -> EstimateRows:
        """Do as `join` with all rows: no later scan checks any of them again."""
        joined = self.join(rows, segments)
        self._are_checked = True
        return joined


class FileRows:
    """An index, and by id the vectors and corrections that its stages ask for.

    Parameters
    ----------
    index : RowIndex
    vectors : FileVectors or None
        None where no stage asks for vectors.
    corrections : FileCorrections or None
        None where no stage asks for them.
    """

    def __init__(
        self, index: RowIndex, vectors: FileVectors | None, corrections: FileCorrections | None
    ) -> None:
        self._index = index
        self._vectors = vectors
        self._corrections = corrections
        self._all_rows: EstimateRows | None = None

    def __len__(self) -> int:
        return len(self._index)

    @property
    def n_written(self) -> int:
        """How many rows there are: those of files are written once."""
        return len(self._index)

    def count_present(self, row_ids: Ids) -> int:
        """Return how many rows have one of these ids."""
        return int(self._index.snapshot.present(np.unique(row_ids)).sum())

    def looked_at(self, queries: Codes, allow: Ids | None) -> tuple[str, int]:
        """Return what a scan by the estimate looks at in words, and how many rows that are for all
        of these queries.
        """
        n_rows = len(self) if allow is None else self.count_present(allow)
        return "all rows", len(queries) * n_rows

    def count_compared(self, queries: Codes, k: int, allow: Ids | None, least: int) -> int:
        """Return how many rows `nearest` looks at for all of these queries."""
        snapshot, allowed = self._index.check_queries(queries, allow)
        return self._index.count_compared(snapshot, queries, k, allowed, least)

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes; at least `least`, if there are."""
        snapshot, allowed = self._index.check_queries(queries, allow)
        return self._index.nearest_in(snapshot, queries, k, allowed, least)

    def rows_to_estimate(self, queries: Codes, allow: Ids | None) -> EstimateRows:
        """Return all rows, or those allowed, as a scan by the estimate takes them."""
        snapshot, allowed = self._index.check_queries(queries, allow)
        rows = snapshot.whole if allowed is None else snapshot.allowed(allowed, len(queries))
        if self._corrections is None:  # codes that are scored by themselves
            return EstimateRows.without_corrections(rows)
        if allowed is not None:
            return self._corrections.join(rows, snapshot.segments)
        if self._all_rows is None:
            self._all_rows = self._corrections.join_all(rows, snapshot.segments)
        return self._all_rows

    def words(self, row_ids: Ids) -> Words:
        """Return the codes of ids, in that order, as uint64 (n, planes, words per plane)."""
        return self._index.codes(row_ids).words

    def corrections(self, row_ids: Ids) -> Corrections:
        """Return the corrections of ids, in that order."""
        if self._corrections is None:
            raise InvalidInputError("corrections must be given for stage estimate.")
        return self._corrections.corrections(row_ids)

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of ids, in that order."""
        if self._vectors is None:
            raise InvalidInputError("vectors must be given for stage exact.")
        return self._vectors.vectors(row_ids)

    def coded_in_place(self, row_ids: Ids) -> None:
        """Return nothing: what files hold is checked as it is gathered."""

    def vectors_in_place(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return the vectors of ids, gathered; None where they are not of a type that is measured
        so.
        """
        return None if self._vectors is None else self._vectors.gathered(row_ids)
