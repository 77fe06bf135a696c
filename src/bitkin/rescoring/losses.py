"""Winner-take-all codes scored by a query whose components are known: what it loses where another
component won.

The `losses` of a hasher are rounded to whole levels of a few bits, so that a scan over bit planes
adds them up: about as well ranked as by the losses themselves, for a few times the cost of counting
symbols that differ. No number beside the code is needed. A score says how a row ranks, and is not a
distance between vectors: it is reported as the share of what a code drawn at random would lose, 0
for the query's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bitkin import threads
from bitkin.arrays import Batch, Floats, Ids, Words
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.index.results import Neighbors, no_neighbors
from bitkin.index.scan_parts import ScanPart
from bitkin.kernels.blocks import read_only, wide_tile_rows
from bitkin.kernels.search.cells import TILE
from bitkin.kernels.search.losses import (
    MOST_PLANES,
    NEAR_ROWS,
    best_losses_into,
    polynomials_into,
    scan_loss_runs_into,
    scan_losses_into,
    terms_into,
)
from bitkin.rescoring.cells.scan import EstimateCells, EstimateRuns, best_in_cells
from bitkin.rescoring.estimate import CodedRows
from bitkin.rescoring.estimate_scan import EstimateRows, EstimateStretch
from bitkin.rescoring.scan_parts import candidate_pool, scan_best

LEVEL_BITS = 3  # of a loss: within 0.011 of the recall of losses that are not rounded
MOST_LEVEL_BITS = 8
N_TERMS = 4  # symbols per place that have a loss of their own, in large alphabets
MOST_SYMBOLS = 1 << 12  # of an alphabet: a query has a loss for every symbol at every place
_LOSSES_AT_ONCE = 1 << 22  # 16 MB
_MOST_UNROLLED = 64  # coefficients of all bits and words in one step; beyond, LLVM makes no vectors
_PAIRS_PER_PIECE = 1 << 14  # scored by one thread at a time
_FARTHER = 2**31 - 1


class LossQueries(NamedTuple):
    """What a hasher makes of queries: their codes, and tables of levels as kernels take them."""

    codes: Codes
    tables: tuple[Words, Words]
    """Polynomials and nothing, or terms and gains; see `kernels.search.losses`."""
    bases: Ids
    units: Floats
    """float64 (q,): what a level counts in distances as they are reported."""

    def take(self, some: slice | Ids) -> LossQueries:
        """Return some of the queries."""
        tables = read_only(self.tables[0][some]), read_only(self.tables[1][some])
        return LossQueries(
            self.codes[some], tables, read_only(self.bases[some]), read_only(self.units[some])
        )


@dataclass(frozen=True, eq=False, slots=True)
class LossScorer:
    """Scores codes of one hasher; nothing of it ever changes."""

    hasher: WTAHash
    level_bits: int = LEVEL_BITS
    """To which losses are rounded."""
    needs_corrections = False
    ranks_only = True

    def __post_init__(self) -> None:
        if self.hasher.spec_.n_symbols << self.level_bits > _FARTHER:
            raise InvalidInputError(
                f"hasher must have fewer than {_FARTHER >> self.level_bits:,} hashes for losses of "
                f"{self.level_bits} bits, got n_hashes={self.hasher.spec_.n_symbols:,}."
            )
        if self.hasher.alphabet_size_ > MOST_SYMBOLS:
            raise InvalidInputError(
                f"hasher must have an alphabet of at most {MOST_SYMBOLS:,} symbols for losses, got "
                f"alphabet_size_ = {self.hasher.alphabet_size_:,}. Give it a smaller alphabet_size."
            )

    @property
    def spec(self) -> CodeSpec:
        """Of the codes that it scores."""
        return self.hasher.spec_

    @property
    def fingerprint(self) -> str:
        """Of the hasher that made them."""
        return self.hasher.fingerprint_

    def prepare_queries(self, batch: Batch, name: str = "queries") -> LossQueries:
        """Return the codes of a batch of queries, and what they lose at every symbol."""
        codes = self.hasher.encode_batch(batch, name, 0)
        n_queries, n_planes, n_words = codes.words.shape
        n_symbols = self.hasher.alphabet_size_
        bases, totals = np.zeros(n_queries, dtype=np.int64), np.empty(n_queries)
        if n_planes <= MOST_PLANES:
            shapes = (n_words, self.level_bits, 1 << n_planes), (0, 0, 0)
        else:
            shapes = (n_words, N_TERMS, n_planes), (n_words, N_TERMS, self.level_bits)
        tables = tuple(np.zeros((n_queries, *shape), dtype=np.uint64) for shape in shapes)
        step = max(1, _LOSSES_AT_ONCE // (codes.spec.n_symbols * n_symbols))
        for begin in range(0, n_queries, step):
            some = slice(begin, begin + step)
            losses = read_only(self.hasher.batch_losses(batch[some]))
            if n_planes <= MOST_PLANES:
                levels = np.empty(1 << n_planes, dtype=np.int64)
                polynomials_into(losses, levels, tables[0][some], totals[some])
            else:
                best = np.empty(N_TERMS, dtype=np.int64)
                terms_into(
                    losses, best, tables[0][some], tables[1][some], bases[some], totals[some]
                )
        units = np.divide(1.0, totals, out=np.zeros(n_queries), where=totals > 0)
        return LossQueries(
            codes,
            (read_only(tables[0]), read_only(tables[1])),
            read_only(bases),
            read_only(units),
        )

    def scan(self, rows: EstimateRows | EstimateCells, queries: LossQueries, k: int) -> Neighbors:
        """Return the best k of all rows, or of those in cells, for every query, ties by lower id,
        with the distances that are reported.
        """
        scan: Callable[[Any, LossQueries, int], Neighbors] = self._scan_all
        if isinstance(rows, EstimateCells):
            scan = self._scan_cells
        if queries.codes.empty is None:
            return scan(rows, queries, k)
        found = no_neighbors(len(queries.codes), k)
        asked = np.flatnonzero(~queries.codes.empty)
        if isinstance(rows, EstimateCells):
            rows = rows.take(asked)
        found.ids[asked], found.distances[asked] = scan(rows, queries.take(asked), k)
        return found

    def reported(self, found: Neighbors) -> Neighbors:
        """Return the same with float32 distances."""
        return Neighbors(found.ids, found.distances.astype(np.float32))

    def _scan_all(self, rows: EstimateRows, queries: LossQueries, k: int) -> Neighbors:
        n_queries, n_planes, n_words = queries.codes.words.shape

        def scan(part: ScanPart, reach: int) -> Neighbors:
            return _scan_part(
                part.stretches, queries.take(slice(part.first, part.last)), reach, self.level_bits
            )

        cost = n_words * self.level_bits * n_planes
        return scan_best(rows.parts, n_queries, cost, k, rows.n_rows, scan)

    def _scan_cells(self, rows: EstimateCells, queries: LossQueries, k: int) -> Neighbors:
        def scan(first: int, last: int, cells: list[Ids], reach: int) -> Neighbors:
            some = queries.take(slice(first, last))
            return _scan_runs(rows.parts, cells, some, reach, self.level_bits)

        def scan_all(everything: EstimateRows, short: Ids) -> Neighbors:
            return self._scan_all(everything, queries.take(short), k)

        return best_in_cells(rows, len(queries.codes), k, scan, scan_all)

    def nearest(self, queries: LossQueries, rows: CodedRows, ids: Ids, k: int) -> Neighbors:
        """Return the best k of a shortlist for every query, as `scan` does; `ids`, int64 (q, m), is
        what its rows are called, −1 for no match.
        """
        n_queries, n_planes, n_words = queries.codes.words.shape
        found = no_neighbors(n_queries, k)
        tiles, places, ids = read_only(rows.tiles), read_only(rows.places), read_only(ids)

        def rank(first: int) -> None:
            some = slice(first, min(first + step, n_queries))
            taken = queries.take(some)
            best = _room_for_best(len(taken.bases), k)
            unit = np.zeros((n_planes, n_words, NEAR_ROWS), dtype=np.uint64)
            best_losses_into(
                tiles,
                places[some],
                ids[some],
                taken.tables,
                taken.bases,
                self.level_bits,
                *_widths(n_planes, n_words, self.level_bits),
                np.int32(_FARTHER),
                unit,
                read_only(unit),
                np.empty(NEAR_ROWS, dtype=np.int32),
                *best,
            )
            found.ids[some], found.distances[some] = _reported(taken, *best)

        step = max(1, _PAIRS_PER_PIECE // max(1, ids.shape[1]))
        threads.run(rank, range(0, n_queries, step))
        return found


def _scan_part(
    stretches: list[EstimateStretch], queries: LossQueries, k: int, n_bits: int
) -> Neighbors:
    """Search one piece."""
    n_queries, n_planes, n_words = queries.codes.words.shape
    best = _room_for_best(n_queries, k)
    work = *_room_for_units(stretches[0]), *candidate_pool(n_queries, k, np.int32)
    widths = _widths(n_planes, n_words, n_bits)
    for i, stretch in enumerate(stretches):
        first, last = i == 0, i == len(stretches) - 1
        scan_losses_into(
            *stretch[:6],  # codes without corrections
            queries.tables,
            queries.bases,
            n_bits,
            *widths,
            first,
            last,
            np.int32(_FARTHER),
            *work,
            *best,
        )
    return _reported(queries, *best)


def _scan_runs(
    parts: list[EstimateRuns], cells: list[Ids], queries: LossQueries, k: int, n_bits: int
) -> Neighbors:
    """Search the cells of some queries, and the rows in none, in one pool of candidates."""
    n_queries, n_planes, n_words = queries.codes.words.shape
    best, pool = _room_for_best(n_queries, k), candidate_pool(n_queries, k, np.int32)
    asked = queries.tables, queries.bases, n_bits, *_widths(n_planes, n_words, n_bits)
    farther, scores = np.int32(_FARTHER), np.empty(TILE, dtype=np.int32)
    for i, (part, chosen) in enumerate(zip(parts, cells, strict=True)):
        first, last, tail = i == 0, i == len(parts) - 1, part.tail
        scan_loss_runs_into(
            *part.arrays, part.ids, part.mask, chosen, *asked, first, last and tail is None,
            farther, scores, *pool, *best,
        )  # fmt: skip
        if tail is not None:
            scan_losses_into(
                *tail[:6], *asked, False, last, farther, *_room_for_units(tail), *pool, *best
            )
    return _reported(queries, *best)


def _room_for_units(stretch: EstimateStretch) -> tuple[Words, Words, Words]:
    """Return what `scan_losses_into` works in: room for tiles side by side where they are narrow,
    and for the scores of a unit.
    """
    _, n_planes, n_words, tile = stretch.tiles.shape
    n_lanes = tile if tile >= NEAR_ROWS else wide_tile_rows(n_planes, n_words)
    wide = np.empty((1, n_planes, n_words, 0 if n_lanes == tile else n_lanes), dtype=np.uint64)
    return wide, read_only(wide), np.empty(n_lanes, dtype=np.int32)


def _room_for_best(n_queries: int, k: int) -> tuple[Words, Ids]:
    return np.empty((n_queries, k), dtype=np.int32), np.empty((n_queries, k), dtype=np.int64)


def _reported(queries: LossQueries, scores: Words, ids: Ids) -> Neighbors:
    """Return scores as distances, infinite where nothing was found."""
    distances = np.where(ids >= 0, scores * queries.units[:, None], np.inf)
    return Neighbors(ids, distances)


Widths = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@cache
def _widths(n_planes: int, n_words: int, n_bits: int) -> Widths:
    """Return `ps`, `ws`, `bs` and `ts` for planes of so many words, and levels of `n_bits`."""
    if n_planes > MOST_PLANES:
        return (0,) * n_planes, (0,), (0,) * n_bits, (0,) * N_TERMS
    most_bits = max(1, _MOST_UNROLLED >> n_planes)
    bits = _largest_divisor(n_bits, most_bits)
    words = _largest_divisor(n_words, max(1, most_bits // bits))
    return (0,) * n_planes, (0,) * words, (0,) * bits, ()


def _largest_divisor(n: int, most: int) -> int:
    return max(part for part in range(1, min(n, most) + 1) if n % part == 0)
