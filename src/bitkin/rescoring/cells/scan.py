"""Rows in the cells that were chosen for every query by the estimate, or by other scores, and those
that are in no cell yet.

Runs hold codes of whole rows, as a scan of all rows takes them, or of what is left of rows once
their centre is taken away, for which queries are prepared otherwise (`ResidualCentres`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bitkin import threads
from bitkin.arrays import Floats, Ids
from bitkin.index.cells.search import SegmentRows
from bitkin.index.cells.tables import RunArrays
from bitkin.index.results import Neighbors, no_neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.cells import TILE
from bitkin.kernels.search.estimate_scan import scan_estimates_into, scan_runs_into
from bitkin.kernels.vector_cells.residual_scan import scan_residuals_into
from bitkin.rescoring.estimate import Corrections
from bitkin.rescoring.estimate_scan import (
    EstimateRows,
    EstimateStretch,
    QuantizedQueries,
    scan_estimates,
    scan_room,
    scan_widths,
)
from bitkin.rescoring.scan_parts import candidate_pool, pool_room

_POOL_BYTES = 1 << 20  # of candidates, of all queries that look into cells at once
_FEW_QUERIES = 16  # are not shared out: a thread costs as much as it saves


class EstimateRuns(NamedTuple):
    """The rows of a segment in cells, and those in none: what kernels take."""

    arrays: RunArrays
    corrections: Corrections
    """float32 (tiles, 2, 64): of the row at every place of the runs; of none where scores need no
    corrections.
    """
    ids: Ids
    n: int
    """Rows of the segment."""
    mask: Bitmap
    tail: EstimateStretch | None
    """Rows that are in no cell."""

    @classmethod
    def from_segment(cls, rows: SegmentRows, stretch: EstimateStretch) -> EstimateRuns:
        """Join a segment in cells with its rows as a scan takes them."""
        tables = rows.tables
        beside = tables.beside
        if beside is None:  # no row is in a cell, or scores need nothing beside codes
            beside = np.empty((0, 2, TILE), dtype=np.float32)
        tail = None
        if tables.n < rows.n:
            block = tables.n // BLOCK
            mask = _from_row(rows.mask, tables.n, stretch.last)
            tail = stretch._replace(first=block, mask=mask)
        return cls(tables.arrays, read_only(beside), rows.ids, rows.n, rows.mask, tail)


class InsideQueries(NamedTuple):
    """Queries as rows in cells are compared with them."""

    quantized: QuantizedQueries
    constants: Floats | None
    """float64 (q, probes): what is known of a query and a cell, where rows are coded by what is
    left of them; None where codes in runs are those of whole rows.
    """

    def between(self, first: int, last: int) -> InsideQueries:
        """Return the queries `first` … `last`."""
        constants = None if self.constants is None else self.constants[first:last]
        return InsideQueries(self.quantized.between(first, last), constants)


class EstimateCells(NamedTuple):
    """Rows in cells as the estimate takes them, and the cells of every query."""

    parts: list[EstimateRuns]
    cells: list[Ids]
    """int64 (q, probes) for each part."""
    n_rows: int
    """At least as many as can be found."""
    least: int
    """Rows that a query must find in its cells, or go over all of them."""
    everything: Callable[[], EstimateRows]
    """All rows, for queries that find too few."""
    inside: InsideQueries | None = None
    """The queries for codes of residuals; None where runs hold the codes of whole rows."""

    def take(self, some: Ids) -> EstimateCells:
        """Return what some of the queries look at, by codes of whole rows."""
        return self._replace(cells=[chosen[some] for chosen in self.cells], inside=None)


def scan_cells(
    rows: EstimateCells, outside: Callable[[], QuantizedQueries], k: int, *, has_small: bool
) -> Neighbors:
    """Return the best k rows of every query in its cells and in none, as `scan_estimates` does of
    all; a query that finds too few there goes over all rows.

    `outside` makes the queries that codes of whole rows are compared with, where there are such.
    """
    has_tails = any(part.tail is not None for part in rows.parts)
    others = outside() if rows.inside is None or has_tails else None
    asked = rows.inside or InsideQueries(others or outside(), None)

    def scan(first: int, last: int, cells: list[Ids], reach: int) -> Neighbors:
        return _scan_runs(
            rows.parts,
            cells,
            asked.between(first, last),
            None if others is None else others.between(first, last),
            reach,
            has_small,
        )

    def scan_all(everything: EstimateRows, short: Ids) -> Neighbors:
        again = QuantizedQueries(*(read_only(part[short]) for part in others or outside()))
        return scan_estimates(everything, again, k, has_small=has_small)

    return best_in_cells(rows, len(asked.quantized.totals), k, scan, scan_all)


def best_in_cells(
    rows: EstimateCells,
    n_queries: int,
    k: int,
    scan: Callable[[int, int, list[Ids], int], Neighbors],
    scan_all: Callable[[EstimateRows, Ids], Neighbors],
) -> Neighbors:
    """Return the best k rows of every query in its cells and in none, by threads; a query that
    finds too few there goes over all rows.

    `scan` is given the `first` and `last` of some queries, the cells of those, and how many rows to
    keep; `scan_all` all rows, and the queries that go over them. Scores are float64.
    """
    found, reach = no_neighbors(n_queries, k), min(k, rows.n_rows)
    if n_queries == 0 or reach == 0:
        return found
    step = max(1, _POOL_BYTES // (16 * pool_room(reach)))
    if n_queries > _FEW_QUERIES:
        step = min(step, -(-n_queries // threads.get_threads()))

    def scan_some(first: int) -> None:
        last = min(first + step, n_queries)
        best = scan(first, last, [chosen[first:last] for chosen in rows.cells], reach)
        found.ids[first:last, :reach], found.distances[first:last, :reach] = best

    threads.run(scan_some, range(0, n_queries, step))
    short = np.flatnonzero(found.ids[:, min(reach, rows.least) - 1] < 0)
    if len(short):
        found.ids[short], found.distances[short] = scan_all(rows.everything(), short)
    return found


def _scan_runs(
    parts: list[EstimateRuns],
    cells: list[Ids],
    inside: InsideQueries,
    outside: QuantizedQueries | None,
    k: int,
    has_small: bool,
) -> Neighbors:
    """Search all parts for some queries, in one pool of candidates."""
    queries, constants = inside
    n_queries, n_bits, n_words = queries.planes.shape
    best = np.empty((n_queries, k)), np.empty((n_queries, k), dtype=np.int64)
    widths = scan_widths(n_bits, n_words)
    pool = candidate_pool(n_queries, k)
    weights = np.empty(TILE, dtype=np.int32)
    for i, (part, chosen) in enumerate(zip(parts, cells, strict=True)):
        first, last = i == 0, i == len(parts) - 1
        ends = first, last and part.tail is None
        rows = *part.arrays, part.corrections, part.ids, part.mask, chosen
        if constants is None:
            scan_runs_into(
                *rows, has_small, *queries, *widths, *ends, weights, np.empty((3, TILE)),
                np.empty(TILE), *pool, *best,
            )  # fmt: skip
        else:
            scan_residuals_into(
                *rows, constants, *queries, *widths, *ends, weights,
                np.empty(TILE, dtype=np.float32), *pool, *best,
            )  # fmt: skip
        if part.tail is not None and outside is not None:
            scan_estimates_into(
                *part.tail, has_small, *outside, *widths, False, last,
                *scan_room(part.tail, n_queries, k)[:5], *pool, *best,
            )  # fmt: skip
    return Neighbors(best[1], best[0])


def _from_row(mask: Bitmap, row: int, n_blocks: int) -> Bitmap:
    """Return a mask without the rows before one; blocks before its own are anything."""
    words = mask.copy() if len(mask) else np.full(8 * n_blocks, ~np.uint64(0))
    first = row // BLOCK * 8
    words[first : row // 64] = 0
    words[row // 64] &= ~np.uint64(0) << np.uint64(row % 64)
    return read_only(words)
