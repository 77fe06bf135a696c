"""Rows of a collection in cells: around vectors where it keeps them dense, around codes otherwise.

A search looks into the cells whose centres are nearest to the query, by whatever stage comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch, FloatRows, Ids, Words
from bitkin.codes import Codes
from bitkin.hashers.projection.training import prepare_rows
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.cells.centres import Cells
from bitkin.index.cells.counting import count_in_cells
from bitkin.index.cells.filters import probes_under_filter, scan_pays
from bitkin.index.cells.search import segments_of
from bitkin.index.cells.tables import (
    FEWEST_OF_LARGE,
    LARGE,
    Beside,
    CellMaker,
    CellTables,
    Centres,
    CodeCells,
    RunContents,
)
from bitkin.index.cells.vector_centres import VectorCentres, find_vector_centres, measure_probes
from bitkin.index.results import Neighbors
from bitkin.index.rows.segment import Segment
from bitkin.rescoring.cells.residuals import ResidualCentres
from bitkin.rescoring.cells.scan import EstimateCells, InsideQueries
from bitkin.rescoring.estimate import CodedRows, Corrections
from bitkin.rescoring.exact import VectorsInPlace
from bitkin.rescoring.funnel import Funnel
from bitkin.rescoring.row_scorer import EstimateScorer

if TYPE_CHECKING:
    from bitkin.collection.snapshot import CollectionSnapshot

_SAMPLE_BYTES = 1 << 28
_FEWEST_PROBES, _USUAL_NEIGHBORS = 4, 10  # where cells say how many hold the nearest ten
_CODED_BYTES = 1 << 25  # of rows that are coded at a time, as float64
_GROWTH = 1.5  # times as many rows as centres were found for: where those lie is asked


class Wanted(NamedTuple):
    """What a search wants of every query."""

    k: int
    """Rows that are returned, and must be found in cells, or all rows are gone over."""
    keep: int
    """Rows that the first stage keeps."""

    @classmethod
    def by(cls, funnel: Funnel) -> Wanted:
        """Return what a funnel wants."""
        return cls(funnel.steps[-1].keep, funnel.steps[0].keep)


@dataclass(frozen=True, slots=True)
class VectorCells:
    """Cells around vectors, the means of their rows."""

    seed: int
    metric: str
    vectors: Callable[[Ids], Batch]
    """Of rows by id."""
    estimates: EstimateScorer | None
    """What codes of residuals are made by; None where runs hold the codes of whole rows."""
    corrections: Callable[[Ids], Beside] | None
    """Of whole rows by id, where they have some."""
    cells_per_root = 4
    rows_per_cell = 24

    def find_centres(
        self, segments: Sequence[Segment], drawn: Sequence[Ids], n_cells: int, n_rows: int
    ) -> VectorCentres:
        """Find up to `n_cells` centres of the rows `drawn` from each segment, of `n_rows` rows."""
        ids = np.concatenate(
            [segment.ids[rows] for segment, rows in zip(segments, drawn, strict=True)]
        )
        width = self.vectors(ids[:1]).shape[1]
        fewer = max(1, -(-4 * width * len(ids) // _SAMPLE_BYTES))
        sample = directed(self.vectors(ids[::fewer]), self.metric)
        by_product = self.metric == "ip"
        found = find_vector_centres(sample, n_cells, n_rows, self.seed, by_product=by_product)
        found = replace(found, probes=measure_probes(found, sample, self.seed))
        if self.estimates is None:
            return found
        model = self.estimates.scorer.model
        return ResidualCentres.around(found, model, self.metric, self.estimates.query_bits)

    def assign(self, segment: Segment, rows: Ids, centres: VectorCentres) -> Cells:
        """Return the cell of every one of some rows."""
        cells = np.empty(len(rows), dtype=np.uint32)
        width = centres.vectors.shape[1]
        step = max(1, _SAMPLE_BYTES // (8 * width))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            vectors = self.vectors(segment.ids[rows[some]])
            cells[some] = centres.assign(directed(vectors, self.metric))
        return cells

    def split(
        self, segment: Segment, rows: Ids, cells: Cells, centres: VectorCentres
    ) -> VectorCentres:
        """Split no cell: where one grows, all centres are found again (`is_lopsided`), since codes
        of its rows depend on them.
        """
        return centres

    def is_lopsided(self, segments: Sequence[Segment], centres: VectorCentres) -> bool:
        """Whether half as many rows as there were came since, and a cell holds many times the usual
        number: every query that looks into it pays for that.
        """
        tables = [s.tables for s in segments if isinstance(s.tables, CellTables)]
        counts = sum(some.arrays.bounds[:, 1] for some in tables if some.centres is centres)
        n_rows = int(np.sum(counts))
        if n_rows < _GROWTH * centres.n_rows:
            return False
        return bool(np.max(counts) > max(FEWEST_OF_LARGE, LARGE * n_rows / len(centres)))

    def contents(
        self, segment: Segment, rows: Ids, cells: Cells, centres: VectorCentres
    ) -> RunContents:
        """Return codes of what is left of some rows, where those are made; else the corrections of
        whole rows, if there are any.
        """
        ids = segment.ids[rows]
        if not isinstance(centres, ResidualCentres):
            return RunContents(None, None if self.corrections is None else self.corrections(ids))
        words: list[Words] = []
        beside: list[Beside] = []
        step = max(1, _CODED_BYTES // (8 * centres.vectors.shape[1]))
        for first in range(0, len(ids), step):
            some = slice(first, first + step)
            vectors = directed(self.vectors(ids[some]), self.metric)
            codes, numbers = centres.encode(vectors, cells[some])
            words.append(codes)
            beside.append(numbers)
        return RunContents(np.concatenate(words), np.concatenate(beside))


def directed(vectors: Batch, metric: str) -> FloatRows:
    """Return vectors as cells are found for them: float32, of length 1 under cosine."""
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if metric == "cosine":
        # in float64, in which squares of float32 neither overflow nor vanish
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
        rows = (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return rows


def cell_maker(snapshot: CollectionSnapshot, index: CellIndex) -> CellMaker:
    """Return what makes cells of a collection's rows."""
    kept = snapshot.kept
    corrections = None if kept.corrections is None else snapshot.corrections
    if kept.vectors is None or kept.vectors.sparse:
        return CodeCells(index.seed, corrections)
    return VectorCells(
        index.seed, snapshot.metric, snapshot.vectors, snapshot.estimates, corrections
    )


def rows_in_cells(
    snapshot: CollectionSnapshot,
    batch: Batch,
    codes: Codes,
    allow: Ids | None,
    probes: int | None,
    wanted: Wanted,
) -> CellRows | None:
    """Return the rows in cells that a batch of queries looks at by codes of whole rows; None where
    there are no such cells, or where going over all rows allowed costs less.
    """
    found = _cells_for(snapshot, len(codes), allow, probes, wanted)
    if found is None or isinstance(found.centres, ResidualCentres):
        return None
    if isinstance(found.centres, VectorCentres):
        if batch is None:  # codes alone, which centres cannot be compared with
            return None
        chosen = found.centres.choose(directed(_dense(batch), snapshot.metric), found.probes)
        cells = _by_segment(snapshot, chosen)
    else:
        cells = found.way.choose_cells(snapshot.coded, codes, found.probes)
    return CellRows(snapshot, found.way, cells, len(found.centres), wanted.k)


def rows_by_residuals(
    snapshot: CollectionSnapshot,
    batch: Batch,
    name: str,
    first: int,
    allow: Ids | None,
    probes: int | None,
    wanted: Wanted,
) -> CellRows | None:
    """Return what `rows_in_cells` does, for rows that are coded by what is left of them; None also
    where a query is not finite. `first` is the number of the first query in the source called
    `name`.
    """
    found = _cells_for(snapshot, batch.shape[0], allow, probes, wanted)
    if found is None or not isinstance(found.centres, ResidualCentres):
        return None
    queries = np.ascontiguousarray(prepare_rows(_dense(batch), False, name, first))
    asked = found.centres.ask(queries, found.probes)
    if asked is None:
        return None
    cells, inside = _by_segment(snapshot, asked[0]), asked[1]
    return CellRows(snapshot, found.way, cells, len(found.centres), wanted.k, inside)


def probes_for(
    snapshot: CollectionSnapshot,
    n_queries: int,
    allow: Ids | None,
    probes: int | None,
    wanted: Wanted,
) -> int | None:
    """Return how many cells each of some queries looks into; None where they look at all rows."""
    found = _cells_for(snapshot, n_queries, allow, probes, wanted)
    return None if found is None else found.probes


class _FoundCells(NamedTuple):
    """What a search in cells begins with."""

    way: CellIndex
    centres: Centres
    probes: int


def _cells_for(
    snapshot: CollectionSnapshot,
    n_queries: int,
    allow: Ids | None,
    probes: int | None,
    wanted: Wanted,
) -> _FoundCells | None:
    """Return the cells of a collection; None where there are none yet, or where going over all rows
    allowed costs less.
    """
    index = snapshot.index
    if not isinstance(index, CellIndex):
        return None
    centres = _centres_of(snapshot)
    if centres is None:
        return None
    n_allowed = len(snapshot) if allow is None else snapshot.coded.count_allowed(allow)
    n_probes = probes
    if n_probes is None:
        n_probes = _probes_for(index, centres, len(snapshot), n_allowed, wanted)
    probed = len(snapshot) * min(1.0, n_probes / len(centres))
    if allow is not None and scan_pays(n_allowed, probed, n_queries):
        return None
    return _FoundCells(index, centres, n_probes)


def _centres_of(snapshot: CollectionSnapshot) -> Centres | None:
    """Return the centres of a collection's cells, if there are any yet."""
    known = (s.tables for s in snapshot.coded.segments if isinstance(s.tables, CellTables))
    return next((tables.centres for tables in known), None)


def usual_probes(index: CellIndex, centres: Centres) -> int:
    """Return how many cells a search for ten neighbours looks into that names no number."""
    if index.chooses_probes and isinstance(centres, VectorCentres) and centres.probes is not None:
        return max(_FEWEST_PROBES, centres.probes)
    return index.probes


def _probes_for(
    index: CellIndex, centres: Centres, n_rows: int, n_allowed: int, wanted: Wanted
) -> int:
    """Return how many cells a search looks into that names no number: more where it wants more
    than ten neighbours or a filter leaves a share, since those lie farther apart, and so many that
    they hold twice the rows that are to be measured.
    """
    usual = usual_probes(index, centres)
    if not index.chooses_probes:
        return probes_under_filter(usual, n_allowed, n_rows)
    spread = probes_under_filter(usual, n_allowed, n_rows * max(1, wanted.k / _USUAL_NEIGHBORS))
    holding = -(-2 * wanted.keep * len(centres) // max(1, n_allowed))
    return max(spread, holding)


def _by_segment(snapshot: CollectionSnapshot, cells: Ids) -> list[Ids]:
    """Return the cells of every query for each segment that has rows: none where it has none."""
    return [
        cells if isinstance(segment.tables, CellTables) else cells[:, :0]
        for segment in snapshot.coded.segments
        if segment.n
    ]


def describe_index(snapshot: CollectionSnapshot) -> str:
    """Say in a few words how codes of a collection are searched."""
    index = snapshot.index
    name = type(index).__name__
    if not isinstance(index, CellIndex):
        return name
    centres = _centres_of(snapshot)
    if centres is None:
        return f"{name} of no cells yet" + (
            "" if index.chooses_probes else f", probes={index.probes}"
        )
    return f"{name} of {len(centres):,} cells, probes={usual_probes(index, centres)}"


def _dense(batch: Any) -> Any:
    return batch.toarray() if hasattr(batch, "toarray") else batch


@dataclass(frozen=True, eq=False, slots=True)
class CellRows:
    """The rows of a collection as some queries look at them: those in the cells of each."""

    snapshot: CollectionSnapshot
    index: CellIndex
    cells: list[Ids]
    """int64 (q, probes) for each segment that has rows."""
    n_cells: int
    least: int
    """Rows that a query must find in its cells, or go over all of them."""
    inside: InsideQueries | None = None
    """The queries, where rows are coded by what is left of them."""

    @property
    def n_probed(self) -> int:
        """Cells that each query looks into."""
        return max(int(some.shape[1]) for some in self.cells)

    def __len__(self) -> int:
        return len(self.snapshot)

    def looked_at(self, queries: Sized, allow: Ids | None) -> tuple[str, int]:
        """Return what the first stage looks at in words, and how many rows that are for all of
        these queries.
        """
        counts = count_in_cells(segments_of(self.snapshot.coded, allow), self.cells)
        n_rows = len(self) if allow is None else min(len(self), len(allow))
        short = int((counts < min(self.least, n_rows)).sum())  # which go over all rows
        everything = len(self) if allow is None else self.snapshot.count_present(allow)
        return "rows in cells", int(counts.sum()) + short * everything

    def count_compared(self, queries: Codes, k: int, allow: Ids | None, least: int) -> int:
        """Return how many rows `nearest` looks at for all of these queries."""
        coded = self.snapshot.coded
        return self.index.count_compared(coded, queries, k, allow, least, self.cells)

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes, in its cells."""
        coded = self.snapshot.coded
        return self.index.nearest_in_cells(coded, queries, k, allow, least, self.cells)

    def rows_to_estimate(self, queries: Sized, allow: Ids | None) -> EstimateCells:
        """Return the rows in cells as the estimate takes them."""
        n_rows = len(self) if allow is None else min(len(self), len(allow))
        everything = partial(self.snapshot.rows_to_estimate, queries, allow)
        parts = self.snapshot.runs_to_estimate(allow)
        return EstimateCells(parts, self.cells, n_rows, self.least, everything, self.inside)

    def words(self, row_ids: Ids) -> Words:
        """Return the codes of rows that are there."""
        return self.snapshot.words(row_ids)

    def corrections(self, row_ids: Ids) -> Corrections:
        """Return the corrections of rows that are there."""
        return self.snapshot.corrections(row_ids)

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there."""
        return self.snapshot.vectors(row_ids)

    def coded_in_place(self, row_ids: Ids) -> CodedRows | None:
        """Return codes and corrections of rows where they stand."""
        return self.snapshot.coded_in_place(row_ids)

    def vectors_in_place(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return vectors of rows where they stand."""
        return self.snapshot.vectors_in_place(row_ids)
