"""CellIndex: nearest codes in the few cells whose centres are nearest to the query."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import whole_number
from bitkin.choices import MOST_CELLS
from bitkin.code_spec import CodeSpec, require_spec
from bitkin.codes import Codes
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.index.base import RowIndex
from bitkin.index.cells.centres import CellCentres, sample_rows
from bitkin.index.cells.counting import count_in_cells
from bitkin.index.cells.files import centres_from, require_sound_centres, tables_from, tensors_of
from bitkin.index.cells.filters import probes_under_filter, scan_pays
from bitkin.index.cells.lone import LoneSearch
from bitkin.index.cells.packed import compact_cells, pack_cells, unpack_cells
from bitkin.index.cells.search import CellSearch, ReadyRows, segments_of
from bitkin.index.cells.tables import (
    CellMaker,
    CellTables,
    Centres,
    CodeCells,
    cell_tables,
    members_of,
)
from bitkin.index.flat import scan_nearest
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, require_fitting
from bitkin.index.rows.files import parameters_of, rows_from
from bitkin.index.rows.growth import with_tables
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.reader import StoredFile
from bitkin.io.writer import write_file
from bitkin.kernels.blocks import read_only
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.index.cells.tuning import CellTuning

USUAL_PROBES = 16
FEWEST_ROWS = 1 << 14  # are scanned in the time that centres would take
_FEW_OUTSIDE = 1 << 11  # rows of a segment that are scanned rather than put into cells
_SHARE_OUTSIDE = 64  # of a growing segment, at most: they are compared with every query
_MOST_ROWS = 2**32 - 1  # row numbers have 32 bits
_USUAL_ROWS = 100  # of a cell, at least: its last tile is half empty
_GROWTH = 4  # times as many rows: centres are found again


class CellIndex(RowIndex):
    """The nearest codes in the `probes` cells whose centres are nearest to the query.

    Rows lie in cells, each beside the nearest of many centres, and the rows of a cell are one run
    of memory. A query is compared with the centres and then with all rows of the nearest cells, so
    that of a million rows some ten thousand are looked at; nearest rows in other cells are missed.
    `tune` chooses `probes` for a recall that is wanted; with as many probes as cells nothing is
    missed. A query that finds fewer than k rows is answered by a scan, and so is a filter that
    leaves few rows; under one that leaves more, more cells are looked into.

    Centres are found on a sample of the rows once there are enough, by k-means with the most
    frequent symbols of a cell's rows as its centre. Rows added later go to the cell of the nearest
    centre; some newest ones are in no cell yet and are compared with every query. A cell that grows
    to many times the usual size is split. Centres are found again when there are four times as many
    rows, and by `compact()` where rows came or went since.

    Any number of threads may search while others add and remove, as in every index.

    Parameters
    ----------
    spec : CodeSpec
        The shape of the codes.
    n_cells : int or "auto"
        Cells wanted; some may be split later, and there are fewer where many rows are equal. "auto"
        takes eight times the square root of the number of rows, with 100 rows per cell at least,
        from 16,384 rows on, and scans fewer rows than that. A number takes effect from four rows
        per cell on.
    probes : int or "auto"
        Cells that a query looks into; `search` may be given another number. "auto" is 16; in a
        collection whose cells lie around vectors it is as many as hold 0.99 of the ten nearest rows
        of a sample, found together with the centres, at least 4, and more for more neighbours.
    random_state : int or None
        The seed of the sample and of the first centres: the same rows and seed give the same cells.

    Notes
    -----
    The runs hold the codes a second time: an index takes twice the bytes of its codes, and 4 per
    row. Files keep the centres and the cell of every row, 4 bytes each; loading makes the runs
    again from them, without comparing anything.

    Examples
    --------
    >>> import bitkin, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> families = rng.integers(0, 2, (40, 64))[rng.integers(0, 40, 2000)]
    >>> noise = rng.random((2000, 64)) < 0.1
    >>> codes = bitkin.Codes.from_symbols(families ^ noise, bits_per_symbol=1)
    >>> index = bitkin.CellIndex(codes.spec, n_cells=50, probes=5)
    >>> len(index.add(codes))
    2000
    >>> found = index.search(codes[:5], k=3)
    >>> found.ids[:, 0].tolist(), found.distances[:, 0].tolist()
    ([0, 1, 2, 3, 4], [0, 0, 0, 0, 0])
    >>> (index.count_candidates(codes[:5]) < 500).all()
    np.True_
    """

    def __init__(
        self,
        spec: CodeSpec,
        n_cells: int | str = "auto",
        *,
        probes: int | str = "auto",
        random_state: int | None = 0,
    ) -> None:
        require_spec(spec)
        self._wanted_cells = _checked_cells(n_cells)
        self._wanted_probes: int | str = "auto"
        self._probes = USUAL_PROBES
        if not (isinstance(probes, str) and probes == "auto"):
            self._wanted_probes = self._probes = _checked_probes(probes)
        self._seed = resolve_seed(random_state)
        self._ready: tuple[Snapshot, ReadyRows] | None = None
        self._lone: LoneSearch | None = None
        self._asked_alone: tuple[int, int] | None = None
        super().__init__(spec)

    @classmethod
    def tune(
        cls,
        codes: Codes,
        recall: float = 0.95,
        *,
        k: int = 10,
        queries: Codes | None = None,
        n_cells: int | str = "auto",
        random_state: int | None = 0,
    ) -> CellTuning:
        """Choose `probes` that find a share `recall` of the true k nearest, and say what to expect
        of them.

        An index of all `codes` is built and searched with up to 1,000 `queries`; by default, rows
        of `codes` that are then not in it. The truth comes from `FlatIndex`. The fewest probes that
        reach the recall on one half of the queries are chosen, and more where the other half needs
        more; recall, its interval, rows scanned and time are those of the other half. More rows
        than here mean more cells: tune again once there are many times as many.

        Examples
        --------
        >>> import bitkin, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> families = rng.integers(0, 2, (40, 64))[rng.integers(0, 40, 2000)]
        >>> noise = rng.random((2000, 64)) < 0.1
        >>> codes = bitkin.Codes.from_symbols(families ^ noise, bits_per_symbol=1)
        >>> tuning = bitkin.CellIndex.tune(codes, recall=0.8, n_cells=50)
        >>> tuning.recall > 0.7, tuning.candidates < 0.3
        (True, True)
        >>> index = tuning.build()
        >>> len(index.add(codes))
        2000
        """
        from bitkin.index.cells.tuning import tune_probes

        return tune_probes(codes, recall, k, queries, n_cells, random_state)

    @property
    def n_cells(self) -> int:
        """Cells there are; 0 while there are so few rows that they are scanned."""
        centres = _newest_centres(self._snapshot)
        return 0 if centres is None else len(centres)

    @property
    def probes(self) -> int:
        """Cells that a query looks into; may be set, for all searches that begin later."""
        return self._probes

    @probes.setter
    def probes(self, probes: int) -> None:
        self._wanted_probes = self._probes = _checked_probes(probes)

    @property
    def chooses_probes(self) -> bool:
        """Whether cells are to say how many of them a query looks into, where they know it."""
        return self._wanted_probes == "auto"

    def search(
        self,
        queries: Codes,
        k: int,
        *,
        allow: npt.ArrayLike | None = None,
        probes: int | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of every query in its nearest cells, nearest first, ties by
        lower id.

        A query that finds fewer than k there is answered by a scan of all rows. Empty rows are
        never returned and empty queries find nothing. `allow` lists the ids that may be returned:
        others are passed over; ids in it that are not in the index do no harm. `probes` cells are
        looked into, by default those of the index. Where `allow` leaves a share s of the rows,
        1 / √s times as many are, which keeps the recall, or its rows are all compared where that
        takes no longer.
        """
        wanted, lone = self._probes if probes is None else probes, self._lone
        if lone and allow is None and lone.answers(self._snapshot, queries, k, wanted):
            found = lone.nearest(queries)
            if found is not None:
                return found
        k, n_probes = whole_number(k, "k", low=1, high=2**31 - 1), _checked_probes(wanted)
        snapshot, allowed = self.check_queries(queries, allow)
        require_fitting(len(queries), k)
        if len(queries) == 1 and allow is None:
            self._make_lone_ready(snapshot, k, n_probes)
        return self._nearest(snapshot, queries, k, allowed, k, n_probes)

    def search_radius(
        self,
        queries: Codes,
        radius: int,
        *,
        allow: npt.ArrayLike | None = None,
        probes: int | None = None,
    ) -> RaggedNeighbors:
        """Return the rows at most `radius` symbols away from every query that are in its nearest
        cells, nearest first, ties by lower id.

        With as many `probes` as there are cells these are all rows within the radius.
        """
        radius = whole_number(radius, "radius", low=0)
        n_probes = self._probes if probes is None else _checked_probes(probes)
        snapshot, allowed = self.check_queries(queries, allow)
        reach = min(radius, self.spec.n_symbols)
        return self._within_radius(snapshot, queries, reach, allowed, n_probes)

    def count_candidates(
        self, queries: Codes, *, probes: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Return how many rows are compared with every query in cells and outside of them, dead
        ones included: int64 (n_queries,).
        """
        n_probes = self._probes if probes is None else _checked_probes(probes)
        snapshot, _ = self.check_queries(queries, None)
        asked = np.flatnonzero(~queries.empty_rows())
        counts = np.zeros(len(queries), dtype=np.int64)
        counts[asked] = self._begin(snapshot, queries[asked], None, n_probes).count_rows()
        return counts

    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest rows in the nearest cells of every query; the scan helps where they
        are fewer than `least`.
        """
        return self._nearest(snapshot, queries, k, allow, least, self._probes)

    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return the rows within `radius` in the nearest cells of every query."""
        return self._within_radius(snapshot, queries, radius, allow, self._probes)

    def count_compared(
        self,
        snapshot: Snapshot,
        queries: Codes,
        k: int,
        allow: Ids | None,
        least: int,
        cells: list[Ids] | None = None,
    ) -> int:
        """Return how many rows are compared with all of these queries: those that are allowed in
        their cells and in none, and all that are allowed with a query that finds too few of them.
        `cells` are those that were chosen elsewhere, if they were.
        """
        every = super().count_compared
        asked = np.flatnonzero(~queries.empty_rows())
        queries = queries[asked]
        probes = self._probes
        if cells is not None:
            probes = max(some.shape[1] for some in cells)
            cells = [some[asked] for some in cells]
        elif allow is not None:
            probes = probes_under_filter(probes, snapshot.count_allowed(allow), len(snapshot))
        if _is_scanned(snapshot, len(queries), allow, probes) or (
            cells is None and _code_centres(snapshot) is None
        ):
            return every(snapshot, queries, k, allow, least)
        if cells is None:
            cells = self.choose_cells(snapshot, queries, probes)
        counts = count_in_cells(segments_of(snapshot, allow), cells)
        short = queries[np.flatnonzero(counts < min(k, least))]
        return int(counts.sum()) + every(snapshot, short, k, allow, least)

    def prepare(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with nearly all rows in cells, once there are enough for centres."""
        return self.prepare_by(snapshot, CodeCells(self._seed))

    def prepare_by(self, snapshot: Snapshot, maker: CellMaker) -> Snapshot:
        """Return the snapshot with nearly all rows in cells that are made like this."""
        # of rows that will hardly be asked for again
        self._ready = self._lone = self._asked_alone = None
        _require_row_numbers(snapshot)
        unpacked = unpack_cells(snapshot, maker)
        if unpacked is not snapshot:  # a copy, which finds what the index finds that it is of
            return unpacked
        n_rows, fewest = len(snapshot), self._fewest_rows()
        few = min(_FEW_OUTSIDE, fewest // 2)
        centres, prepared = _newest_centres(snapshot), snapshot
        if centres is not None and not self._outgrown(centres, n_rows, maker):
            prepared = _put_into_cells(snapshot, centres, maker, few)
            if not maker.is_lopsided(prepared.segments, centres):
                return prepared
        # rows in many small segments, which get no cells, need no centres
        if n_rows < fewest or max(segment.n for segment in snapshot.segments) <= few:
            return prepared
        found = self._find_centres(snapshot, maker)
        if found is None:
            return prepared
        segments = tuple(replace(segment, tables=None) for segment in snapshot.segments)
        prepared = _put_into_cells(replace(snapshot, segments=segments), found, maker, few)
        return _with_own_centres(prepared)

    def pack(self, snapshot: Snapshot) -> Snapshot:
        """Return the live rows of a snapshot, each in the cell that it was in."""
        return pack_cells(snapshot)

    def compacted(self, snapshot: Snapshot) -> Snapshot:
        """Return the live rows in one segment: in their cells where those were found for just these
        rows, else in none, so that centres are found again.
        """
        return compact_cells(snapshot)

    @property
    def seed(self) -> int:
        """The seed of the sample and of the first centres."""
        return self._seed

    def choose_cells(
        self, snapshot: Snapshot, queries: Codes, probes: int | None = None
    ) -> list[Ids]:
        """Return the cells whose centres are nearest by codes, in no order, int64 (q, probes) for
        each segment of the snapshot that has rows.
        """
        return self._begin(snapshot, queries, None, probes or self._probes).choose()

    def nearest_in_cells(
        self,
        snapshot: Snapshot,
        queries: Codes,
        k: int,
        allow: Ids | None,
        least: int,
        cells: list[Ids],
    ) -> Neighbors:
        """Return the k nearest rows in cells that were chosen elsewhere; the scan helps where they
        are fewer than `least`.
        """
        probes = max((some.shape[1] for some in cells), default=0)
        return self._nearest(snapshot, queries, k, allow, least, probes, cells)

    def _rows_of(self, snapshot: Snapshot, allow: Ids | None) -> ReadyRows:
        """Return the rows of a snapshot as a search takes them; all of them are made ready once."""
        if allow is not None:
            return ReadyRows.from_snapshot(snapshot, allow)
        ready = self._ready
        if ready is None or ready[0] is not snapshot:
            ready = snapshot, ReadyRows.from_snapshot(snapshot)
            self._ready = ready
        return ready[1]

    def _make_lone_ready(self, snapshot: Snapshot, k: int, probes: int) -> None:
        """Make lone searches like this one ready from the second on: one alone is done sooner."""
        ready, before = self._rows_of(snapshot, None), self._asked_alone
        self._asked_alone = k, probes
        if before == (k, probes) and k <= ready.n_rows and not ready.by_vectors:
            self._lone = LoneSearch(snapshot, ready, k, probes)

    def _begin(
        self, snapshot: Snapshot, queries: Codes, allow: Ids | None, probes: int
    ) -> CellSearch:
        """Start a search for queries of which none is empty."""
        ready, words = self._rows_of(snapshot, allow), read_only(queries.words)
        return CellSearch(ready.segments, snapshot.spec, ready.n_rows, probes, words)

    def _nearest(
        self,
        snapshot: Snapshot,
        queries: Codes,
        k: int,
        allow: Ids | None,
        least: int,
        probes: int,
        cells: list[Ids] | None = None,
    ) -> Neighbors:
        if queries.empty is not None:
            found = no_neighbors(len(queries), k, snapshot.spec.n_symbols + 1, np.int32)
            asked = np.flatnonzero(~queries.empty)
            found.ids[asked], found.distances[asked] = self._nearest(
                snapshot, queries[asked], k, allow, least, probes,
                None if cells is None else [some[asked] for some in cells],
            )  # fmt: skip
            return found
        if allow is not None:
            if cells is None:
                probes = probes_under_filter(probes, snapshot.count_allowed(allow), len(snapshot))
            if _is_scanned(snapshot, len(queries), allow, probes):
                return scan_nearest(snapshot, queries, k, allow)
        ready = self._rows_of(snapshot, allow)
        if ready.by_vectors and cells is None:
            return scan_nearest(snapshot, queries, k, allow)
        words = read_only(queries.words)
        search = CellSearch(ready.segments, snapshot.spec, ready.n_rows, probes, words, cells)
        found, fewest = search.nearest(k)
        if fewest < min(k, least):
            short = np.flatnonzero(found.ids[:, min(k, least) - 1] < 0)
            found.ids[short], found.distances[short] = scan_nearest(
                snapshot, queries[short], k, allow
            )
        return found

    def _within_radius(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None, probes: int
    ) -> RaggedNeighbors:
        asked = np.flatnonzero(~queries.empty_rows())
        some = queries if len(asked) == len(queries) else queries[asked]
        search = self._begin(snapshot, some, allow, probes)
        return search.within_radius(asked, len(queries), radius)

    def _fewest_rows(self) -> int:
        """Return from how many rows on there are cells."""
        if self._wanted_cells == "auto":
            return FEWEST_ROWS
        return min(FEWEST_ROWS, 4 * int(self._wanted_cells))

    def _cells_for(self, n_rows: int, maker: CellMaker) -> int:
        if self._wanted_cells != "auto":
            return int(self._wanted_cells)
        wanted = maker.cells_per_root * math.isqrt(n_rows)
        return min(MOST_CELLS, wanted, max(1, n_rows // _USUAL_ROWS))

    def _outgrown(self, centres: Centres, n_rows: int, maker: CellMaker) -> bool:
        """Whether there are so many more rows than when centres were found that better ones, or
        more, are worth their time.
        """
        if n_rows < _GROWTH * centres.n_rows:
            return False
        wanted = self._cells_for(n_rows, maker)
        few_sampled = centres.n_rows < maker.rows_per_cell * wanted
        return few_sampled or wanted > self._cells_for(centres.n_rows, maker)

    def _find_centres(self, snapshot: Snapshot, maker: CellMaker) -> Centres | None:
        """Find centres on a sample of all rows that can be found; None where there are none."""
        n_cells = self._cells_for(len(snapshot), maker)
        members = [members_of(segment) for segment in snapshot.segments]
        ends = np.cumsum([len(rows) for rows in members])
        if len(ends) == 0 or ends[-1] == 0:
            return None
        drawn = sample_rows(int(ends[-1]), maker.rows_per_cell * n_cells, self._seed)
        here = []
        for rows, end in zip(members, ends, strict=True):
            before = end - len(rows)
            here.append(rows[drawn[(drawn >= before) & (drawn < end)] - before])
        return maker.find_centres(snapshot.segments, here, n_cells, len(snapshot))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        cells = f"{self.n_cells:,} cells" if self.n_cells else "no cells yet"
        return f"CellIndex({len(self):,} codes, {self.spec}, {cells}, {settings})"

    def _settings(self) -> dict[str, Any]:
        return {
            "n_cells": self._wanted_cells,
            "probes": self._wanted_probes,
            "random_state": self._seed,
        }

    @classmethod
    def _from_settings(cls, stored: StoredFile, spec: CodeSpec) -> Self:
        try:
            return cls(
                spec,
                stored.parameter("n_cells"),
                probes=stored.parameter("probes"),
                random_state=stored.parameter("random_state"),
            )
        except InvalidInputError as error:
            raise CorruptFileError(
                f"{stored.name} has impossible settings of cells: {error}"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ready": None, "_lone": None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all codes in order of id, the centres and the cell of every row to `path`: aside
        first, then in place at once.
        """
        snapshot = self._snapshot
        centres = _code_centres(snapshot)
        parameters = {**parameters_of(snapshot), **self._settings()}
        parameters["trained_rows"] = 0 if centres is None else centres.n_rows
        write_file(
            path,
            type(self).__name__,
            parameters,
            snapshot.fingerprint,
            tensors_of(snapshot, centres),
        )

    @classmethod
    def from_stored(cls, stored: StoredFile) -> Self:
        """Return the index that a file holds."""
        centres, cells = centres_from(stored)
        rows = rows_from(stored)
        index = cls._from_settings(stored, rows.spec)
        index.adopt(tables_from(stored, rows, centres, cells))
        return index

    def verify(self) -> None:
        """Check everything that can be checked, mapped files included; raise CorruptFileError on
        the first flaw.
        """
        super().verify()
        require_sound_centres(self._snapshot)


def _checked_cells(n_cells: Any) -> int | str:
    if isinstance(n_cells, str):
        if n_cells != "auto":
            raise InvalidInputError(f'n_cells must be a whole number or "auto", got {n_cells!r}.')
        return n_cells
    return whole_number(n_cells, "n_cells", low=1, high=MOST_CELLS)


def _checked_probes(probes: Any) -> int:
    """Return a number of cells to look into."""
    return whole_number(probes, "probes", low=1, high=2**31 - 1)


def _is_scanned(snapshot: Snapshot, n_queries: int, allow: Ids | None, probes: int) -> bool:
    """Whether a filter leaves so few rows that all of them are compared."""
    if allow is None:
        return False
    return scan_pays(snapshot.count_allowed(allow), _probed_rows(snapshot, probes), n_queries)


def _put_into_cells(snapshot: Snapshot, centres: Centres, maker: CellMaker, few: int) -> Snapshot:
    """Return the snapshot with nearly all rows in the cells of these centres; up to `few` of a
    segment may be in none.
    """
    return with_tables(
        snapshot,
        lambda segment: cell_tables(segment, centres, maker),
        few,
        share_outside=_SHARE_OUTSIDE,
        whole=True,
    )


def _with_own_centres(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a mark on all tables that their centres were found from its rows."""
    segments = (
        replace(segment, tables=replace(segment.tables, of_these_rows=True))
        if isinstance(segment.tables, CellTables)
        else segment
        for segment in snapshot.segments
    )
    return replace(snapshot, segments=tuple(segments))


def _newest_centres(snapshot: Snapshot) -> Centres | None:
    """Return the centres that were found last, or None; where cells were split since, those after
    it.
    """
    known = [s.tables.centres for s in snapshot.segments if isinstance(s.tables, CellTables)]
    return max(known, key=lambda centres: (centres.n_rows, len(centres)), default=None)


def _code_centres(snapshot: Snapshot) -> CellCentres | None:
    """Return the newest centres, which are codes in an index of its own, or None."""
    centres = _newest_centres(snapshot)
    return centres if isinstance(centres, CellCentres) else None


def _probed_rows(snapshot: Snapshot, probes: int) -> float:
    """Return about how many rows are in so many cells, infinity where there are no cells."""
    centres = _newest_centres(snapshot)
    return math.inf if centres is None else len(snapshot) * min(1.0, probes / len(centres))


def _require_row_numbers(snapshot: Snapshot) -> None:
    """Refuse more rows than there are row numbers; segments may be merged later."""
    n = sum(segment.n for segment in snapshot.segments)
    if n > _MOST_ROWS:
        raise InvalidInputError(
            f"a CellIndex holds at most {_MOST_ROWS:,} rows, removed ones included, got {n:,}. Use "
            "several indexes."
        )
