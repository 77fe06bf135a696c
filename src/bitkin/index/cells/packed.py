"""Cells without their runs: what a copy of an index keeps, so that it looks into the same cells and
finds the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitkin.index.cells.centres import Cells
from bitkin.index.cells.tables import CellMaker, CellTables, Centres, members_of, tables_from_cells
from bitkin.index.rows import bitmap
from bitkin.index.rows.growth import in_one_segment
from bitkin.index.rows.segment import Segment, merge_segments
from bitkin.index.rows.snapshot import Snapshot


@dataclass(frozen=True, eq=False, slots=True)
class PackedCells:
    """Which cell each of the first `n` rows of a segment is in; `unpack_cells` makes the runs."""

    n: int
    centres: Centres
    cells: Cells
    """uint32 (n,): of rows that cannot be found it means nothing."""

    @property
    def nbytes(self) -> int:
        """Bytes held, centres included, though segments may share them."""
        return self.cells.nbytes + self.centres.nbytes


def pack_cells(snapshot: Snapshot) -> Snapshot:
    """Return the live rows alone: in one segment or, where some are in cells, in as many segments
    as before, since rows outside of cells are to stay outside.
    """
    if not any(isinstance(segment.tables, CellTables) for segment in snapshot.segments):
        return in_one_segment(snapshot)
    segments = []
    for segment in snapshot.segments:
        packed = merge_segments((segment,), snapshot.spec)
        if isinstance(segment.tables, CellTables):
            _, cells = segment.tables.cells_of_rows()
            there = bitmap.unpack(segment.alive, 0, segment.n)[: segment.tables.n]
            kept = PackedCells(int(there.sum()), segment.tables.centres, cells[there])
            packed = replace(packed, tables=kept)
        segments.append(packed)
    return replace(snapshot, segments=tuple(segments))


def compact_cells(snapshot: Snapshot) -> Snapshot:
    """Return the live rows in one segment; they stay in cells that would be found again as they
    are: those of the very rows that are there, none of them removed or added since.
    """
    packed = in_one_segment(snapshot)
    if len(snapshot.segments) != 1:
        return packed
    segment = snapshot.segments[0]
    tables, n = segment.tables, len(snapshot)
    # as many rows may be others, in a copy that left removed rows out
    if not isinstance(tables, CellTables) or not tables.of_these_rows:
        return packed
    if not segment.n == tables.n == tables.centres.n_rows == n:
        return packed
    # rows of a segment are in order of id already, so those of the tables are the same after it
    return replace(packed, segments=(replace(packed.segments[0], tables=tables),))


def unpack_cells(snapshot: Snapshot, maker: CellMaker) -> Snapshot:
    """Return the snapshot with runs of the rows whose cells were packed."""
    if not any(isinstance(segment.tables, PackedCells) for segment in snapshot.segments):
        return snapshot
    return replace(snapshot, segments=tuple(_unpacked(s, maker) for s in snapshot.segments))


def _unpacked(segment: Segment, maker: CellMaker) -> Segment:
    packed = segment.tables
    if not isinstance(packed, PackedCells):
        return segment
    members = members_of(segment)
    members = members[: int(np.searchsorted(members, packed.n))]
    cells = packed.cells[members]
    tables = tables_from_cells(segment, members, cells, packed.centres, maker)
    return replace(segment, tables=replace(tables, n=packed.n))
