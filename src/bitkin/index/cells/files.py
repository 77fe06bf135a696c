"""Cells in a file: the centres, and beside every row the number of its cell.

The runs are not written: loading puts the rows into their cells again, which compares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Words
from bitkin.code_spec import CodeSpec, unused_bits
from bitkin.codes import spec_from_file
from bitkin.index.cells.centres import CellCentres, Cells, nearest_centres
from bitkin.index.cells.tables import CellTables, group_rows, members_of
from bitkin.index.rows import files
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.layout import damaged
from bitkin.io.reader import StoredFile
from bitkin.io.writer import TensorChunks
from bitkin.kernels.blocks import read_only

_ROWS_PER_PIECE = 1 << 16


def tensors_of(
    snapshot: Snapshot, centres: CellCentres | None
) -> dict[str, npt.NDArray[Any] | TensorChunks]:
    """Return the tensors of rows in order of id, and those of their cells where there are any."""
    tensors = files.tensors_of(snapshot)
    if centres is None:
        return tensors
    ids = snapshot.ids()

    def cells() -> Iterator[Cells]:
        yield _cells_in_order(snapshot, centres)

    return {
        **tensors,
        "centres": centres.words,
        "cells": TensorChunks(np.dtype(np.uint32), (len(ids),), cells),
    }


def _cells_in_order(snapshot: Snapshot, centres: CellCentres) -> Cells:
    """Return the cell of every live row, in order of id: 0 for rows that cannot be found."""
    ids = snapshot.ids()
    cells = np.zeros(len(ids), dtype=np.uint32)
    for segment in snapshot.segments:
        rows = members_of(segment)
        own = np.empty(segment.n, dtype=np.uint32)
        known = np.zeros(segment.n, dtype=bool)
        if isinstance(segment.tables, CellTables) and segment.tables.centres is centres:
            covered = slice(segment.tables.n)
            known[covered], own[covered] = segment.tables.cells_of_rows()
        unknown = rows[~known[rows]]
        for first in range(0, len(unknown), _ROWS_PER_PIECE):
            some = unknown[first : first + _ROWS_PER_PIECE]
            own[some] = nearest_centres(segment.words(some), centres)
        cells[np.searchsorted(ids, segment.ids[rows])] = own[rows]
    return cells


def centres_from(stored: StoredFile) -> tuple[CellCentres | None, Cells]:
    """Return the centres of a file, or None, and the cells of its rows; all of it is verified."""
    spec = spec_from_file(stored)
    shape = None, spec.bits_per_symbol, spec.plane_words
    words = stored.optional_tensor("centres", np.uint64, shape)
    cells = stored.optional_tensor("cells", np.uint32, (None,))
    trained = stored.parameter("trained_rows")
    none = words is None
    if (cells is None) != none or type(trained) is not int or (trained < 1) != none:
        raise damaged(stored.name, "has centres without cells, or cells without centres")
    if words is None or cells is None:
        return None, np.empty(0, dtype=np.uint32)
    if stored.mapped:
        stored.verify("centres", "cells")
    if len(words) == 0 or _has_unused_bits(words, spec):
        raise damaged(stored.name, "has centres that are no codes")
    if len(cells) and cells.max() >= len(words):
        raise damaged(stored.name, "has rows in cells that are not there")
    return CellCentres(read_only(words), trained), cells


def tables_from(
    stored: StoredFile, rows: Snapshot, centres: CellCentres | None, cells: Cells
) -> Snapshot:
    """Return the rows of a file, of one segment or none, in their cells."""
    if centres is None:
        return rows
    if len(cells) != len(rows):
        raise damaged(stored.name, f"has {len(cells)} cells for {len(rows)} rows")
    segments = []
    for segment in rows.segments:
        members = members_of(segment)
        tables = group_rows(segment, members, cells[members], centres)
        segments.append(replace(segment, tables=tables))
    return replace(rows, segments=tuple(segments))


def require_sound_centres(snapshot: Snapshot) -> None:
    """Raise where a centre has bits beyond its symbols."""
    for segment in snapshot.segments:
        centres = segment.tables.centres if isinstance(segment.tables, CellTables) else None
        if isinstance(centres, CellCentres) and _has_unused_bits(centres.words, snapshot.spec):
            raise damaged("the index in memory", "has centres that are no codes")


def _has_unused_bits(words: Words, spec: CodeSpec) -> bool:
    return bool((words[:, :, -1] & unused_bits(spec)).any())
