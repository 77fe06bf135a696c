"""The rows of a segment in cells: every cell's rows one after the other, in tiles of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Flags, Ids, Words
from bitkin.index.cells.centres import (
    ROWS_PER_CELL,
    CellCentres,
    Cells,
    find_centres,
    nearest_centres,
    sample_rows,
)
from bitkin.index.cells.vector_centres import VectorCentres
from bitkin.index.rows import bitmap
from bitkin.index.rows.segment import Segment
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import TILE, fill_runs_into

_ROWS_PER_PIECE = 1 << 16
# A cell of so many times the usual rows is split: it costs every query that much more.
LARGE = 8
FEWEST_OF_LARGE = 8 * TILE
_MOST_PARTS = 64


class RunArrays(NamedTuple):
    """Runs as kernels take them."""

    runs: Words
    """uint64 (tiles, planes, words, 64)."""
    bounds: Ids
    """int64 (n_cells, 2): the first tile of every cell, and how many rows it has."""
    rows: Cells
    """uint32 (64 · tiles,): which row of the segment is where."""


Centres = CellCentres | VectorCentres
Beside = npt.NDArray[np.float32]


class RunContents(NamedTuple):
    """What runs hold of some rows."""

    words: Words | None
    """uint64 (n, planes, words), None for the codes of the segment."""
    beside: Beside | None
    """float32 (n, 2): what scores need, if anything."""


class CellMaker(Protocol):
    """Finds centres of rows, and the cell of every row: by codes (`CodeCells`), or by more that is
    known of rows.
    """

    cells_per_root: int
    """Cells, as a multiple of the square root of the number of rows."""
    rows_per_cell: int
    """Of the sample that centres are found from."""

    def find_centres(
        self, segments: Sequence[Segment], drawn: Sequence[Ids], n_cells: int, n_rows: int
    ) -> Centres:
        """Find up to `n_cells` centres of the rows `drawn` from each segment, of `n_rows` rows."""

    def assign(self, segment: Segment, rows: Ids, centres: Any) -> Cells:
        """Return the cell of every one of some rows."""

    def split(self, segment: Segment, rows: Ids, cells: Cells, centres: Any) -> Centres:
        """Split cells that are far larger than the usual; `cells` are changed to those after."""

    def is_lopsided(self, segments: Sequence[Segment], centres: Any) -> bool:
        """Whether rows that came since lie so unevenly around centres that new ones are to be
        found.
        """

    def contents(self, segment: Segment, rows: Ids, cells: Cells, centres: Any) -> RunContents:
        """Return what runs hold of some rows, which are in these cells."""


@dataclass(frozen=True, slots=True)
class CodeCells:
    """Cells around codes, the most frequent symbols of their rows."""

    seed: int
    corrections: Callable[[Ids], Beside] | None = None
    """Of rows by id, where they have some that scores need."""
    cells_per_root = 8
    rows_per_cell = ROWS_PER_CELL

    def find_centres(
        self, segments: Sequence[Segment], drawn: Sequence[Ids], n_cells: int, n_rows: int
    ) -> CellCentres:
        """Find up to `n_cells` centres of the rows `drawn` from each segment, of `n_rows` rows."""
        words = [segment.words(rows) for segment, rows in zip(segments, drawn, strict=True)]
        return find_centres(np.concatenate(words), n_cells, n_rows, self.seed)

    def assign(self, segment: Segment, rows: Ids, centres: CellCentres) -> Cells:
        """Return the cell of every one of some rows."""
        return nearest_centres(segment.words(rows), centres)

    def split(self, segment: Segment, rows: Ids, cells: Cells, centres: CellCentres) -> CellCentres:
        """Split cells that are far larger than the usual; `cells` are changed to those after."""
        return _split_large(segment, rows, cells, centres, self.seed)

    def is_lopsided(self, segments: Sequence[Segment], centres: CellCentres) -> bool:
        """Return False: cells that grow are split."""
        return False

    def contents(
        self, segment: Segment, rows: Ids, cells: Cells, centres: CellCentres
    ) -> RunContents:
        """Return the corrections of some rows, if there are any, beside their own codes."""
        if self.corrections is None:
            return RunContents(None, None)
        return RunContents(None, self.corrections(segment.ids[rows]))


@dataclass(frozen=True, eq=False, slots=True)
class CellTables:
    """The cells of the first `n` rows of a segment; rows that were dead or empty then are left
    out.
    """

    n: int
    centres: Centres
    arrays: RunArrays
    beside: Beside | None = None
    """float32 (tiles, 2, 64): what scores need of every row, where they need any."""
    of_these_rows: bool = False
    """Whether the centres were found from the very rows of the snapshot that this is of; what is
    made of rows that came later, or read from a file, cannot know.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held, centres included, though segments may share them."""
        beside = 0 if self.beside is None else self.beside.nbytes
        return sum(array.nbytes for array in self.arrays) + beside + self.centres.nbytes

    @property
    def residual(self) -> bool:
        """Whether runs hold codes of what is left of rows, not those of the segment."""
        return isinstance(self.centres, VectorCentres) and self.centres.residual

    def cells_of_rows(self) -> tuple[Flags, Cells]:
        """Return for each of the first `n` rows whether it is in a cell, and in which."""
        counts = self.arrays.bounds[:, 1]
        cells = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        rows = self.arrays.rows[_places(self.arrays.bounds)]
        known, by_row = np.zeros(self.n, dtype=bool), np.zeros(self.n, dtype=np.uint32)
        known[rows], by_row[rows] = True, cells
        return known, by_row


@cache
def no_cells(n_planes: int, n_words: int) -> CellTables:
    """Return the tables of no row, for codes of so many planes and words."""
    bounds = read_only(np.empty((0, 2), dtype=np.int64))
    runs = read_only(np.empty((0, n_planes, n_words, TILE), dtype=np.uint64))
    centres = CellCentres(read_only(np.empty((0, n_planes, n_words), dtype=np.uint64)), 0)
    rows = read_only(np.empty(0, dtype=np.uint32))
    return CellTables(0, centres, RunArrays(runs, bounds, rows))


def cell_tables(segment: Segment, centres: Centres, maker: CellMaker) -> CellTables:
    """Put the rows of a segment into cells; those of cells that it was in before stay there."""
    members = members_of(segment)
    cells = np.empty(len(members), dtype=np.uint32)
    new = np.ones(len(members), dtype=bool)
    if isinstance(segment.tables, CellTables) and segment.tables.centres is centres:
        known, before = segment.tables.cells_of_rows()
        covered = int(np.searchsorted(members, segment.tables.n))
        new[:covered] = ~known[members[:covered]]
        cells[:covered] = before[members[:covered]]
    unknown = np.flatnonzero(new)
    for first in range(0, len(unknown), _ROWS_PER_PIECE):
        some = unknown[first : first + _ROWS_PER_PIECE]
        cells[some] = maker.assign(segment, members[some], centres)
    centres = maker.split(segment, members, cells, centres)
    return tables_from_cells(segment, members, cells, centres, maker)


def tables_from_cells(
    segment: Segment, members: Ids, cells: Cells, centres: Centres, maker: CellMaker
) -> CellTables:
    """Put some rows of a segment, ascending, into the cells that are given for them."""
    tables = group_rows(segment, members, cells, centres)
    return _with_contents(tables, segment, maker)


def _with_contents(tables: CellTables, segment: Segment, maker: CellMaker) -> CellTables:
    """Put into runs what their maker wants them to hold."""
    runs, bounds, rows = tables.arrays
    places = _places(bounds)
    cells = np.repeat(np.arange(len(bounds), dtype=np.uint32), bounds[:, 1])
    beside = None
    for first in range(0, len(places), _ROWS_PER_PIECE):
        at = places[first : first + _ROWS_PER_PIECE]
        some = rows[at].astype(np.int64), cells[first : first + _ROWS_PER_PIECE]
        words, here = maker.contents(segment, *some, tables.centres)
        if words is not None:
            if not runs.flags.writeable:
                runs = runs.copy()
            runs[at // TILE, :, :, at % TILE] = words
        if here is not None:
            if beside is None:
                beside = np.zeros((len(runs), 2, TILE), dtype=np.float32)
            beside[at // TILE, :, at % TILE] = here
    arrays = RunArrays(read_only(runs), bounds, rows)
    return replace(tables, arrays=arrays, beside=None if beside is None else read_only(beside))


def _places(bounds: Ids) -> Ids:
    """Return where the rows of all cells are: 64 · first tile of the cell, and the number in it."""
    starts, counts = bounds.T
    before = np.cumsum(counts) - counts
    places: Ids = np.repeat(TILE * starts - before, counts) + np.arange(int(counts.sum()))
    return places


def members_of(segment: Segment) -> Ids:
    """Return the rows of a segment that can be found."""
    return np.flatnonzero(bitmap.unpack(segment.searchable, 0, segment.n))


def group_rows(segment: Segment, members: Ids, cells: Cells, centres: Centres) -> CellTables:
    """Copy some rows of a segment, ascending, into runs by their cells."""
    counts = np.bincount(cells, minlength=len(centres))
    n_tiles = -(-counts // TILE)
    starts = np.cumsum(n_tiles) - n_tiles
    total = int(n_tiles.sum())
    runs = np.zeros((total, *segment.tiles.shape[1:3], TILE), dtype=np.uint64)
    rows = np.zeros(total * TILE, dtype=np.uint32)
    following = TILE * starts
    tiles, members, cells = read_only(segment.tiles), read_only(members), read_only(cells)

    def fill(first: int) -> None:
        some = slice(first, first + _ROWS_PER_PIECE)
        fill_runs_into(tiles, members[some], cells[some], following, runs, rows)

    for first in range(0, len(members), _ROWS_PER_PIECE):
        threads.run(fill, [first])  # one after the other, and interrupts come in between
    bounds = np.stack([starts, counts], axis=1)
    arrays = RunArrays(read_only(runs), read_only(bounds), read_only(rows))
    return CellTables(segment.n, centres, arrays)


def _split_large(
    segment: Segment, members: Ids, cells: Cells, centres: CellCentres, seed: int
) -> CellCentres:
    """Split the cells that are far larger than the usual; `cells` are changed to those after."""
    counts = np.bincount(cells, minlength=len(centres))
    usual = max(FEWEST_OF_LARGE // LARGE, len(members) // len(centres))
    added, words = len(centres), [centres.words]
    changed = centres.words.copy()
    for cell in np.flatnonzero(counts > LARGE * usual).tolist():
        here = np.flatnonzero(cells == cell)
        n_parts = min(_MOST_PARTS, -(-len(here) // usual))
        some = here[sample_rows(len(here), n_parts * ROWS_PER_CELL, seed)]
        parts = find_centres(segment.words(members[some]), n_parts, len(here), seed)
        if len(parts) == 1:  # all rows are equal
            continue
        numbers = np.arange(added - 1, added - 1 + len(parts), dtype=np.uint32)
        numbers[0] = cell  # the first takes the place of the whole
        for first in range(0, len(here), _ROWS_PER_PIECE):
            rows = here[first : first + _ROWS_PER_PIECE]
            cells[rows] = numbers[nearest_centres(segment.words(members[rows]), parts)]
        changed[cell] = parts.words[0]
        words.append(parts.words[1:])
        added += len(parts) - 1
    if added == len(centres):
        return centres
    return CellCentres(read_only(np.concatenate([changed, *words[1:]])), centres.n_rows)
