"""All rows by the estimate, with the query in a few bits: a first stage that knows what the query
knows.

Codes alone compare signs. Here the real-valued query, rounded to some bits, and the corrections of
every row take part, so that rows come in nearly the order of the full estimate, for a few times the
cost of comparing codes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats, Ids, Words
from bitkin.index.results import Neighbors
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.stretches import Stretches
from bitkin.index.scan_parts import ScanPart
from bitkin.kernels.blocks import BLOCK, read_only, wide_tile_rows
from bitkin.kernels.search.estimate_scan import quantize_queries_into, scan_estimates_into
from bitkin.rescoring.estimate import NO_CORRECTIONS, Corrections, PreparedQueries
from bitkin.rescoring.scan_parts import candidate_pool, scan_best

QUERY_BITS = 4
MOST_QUERY_BITS = 8
_MOST_UNROLLED = 32  # words × bits of the query in one step; more would only slow the compiler down
_IN_ORDER = read_only(np.empty(0, dtype=np.int64))


class QuantizedQueries(NamedTuple):
    """Queries in a few bits each, as kernels take them; see `kernels.search.estimate_scan`."""

    planes: Words
    """uint64 (q, bits, words per code): signs, then magnitudes from the lowest bit up."""
    totals: Ids
    """int64 (q,): Σ |l|."""
    terms: Floats
    """float64 (q, 4): constant, onto, root and factor, the step of the rounding in the factor."""

    @classmethod
    def from_prepared(cls, queries: PreparedQueries, n_bits: int) -> QuantizedQueries:
        """Round queries to `n_bits` each."""
        n_queries, _, n_words = queries.codes.words.shape
        planes = np.empty((n_queries, n_bits, n_words), dtype=np.uint64)
        totals, steps = np.empty(n_queries, dtype=np.int64), np.empty(n_queries)
        sizes = np.empty(queries.projected.shape[1], dtype=np.int32)
        quantize_queries_into(read_only(queries.projected), sizes, planes, totals, steps)
        terms = queries.terms.copy()
        terms[:, 3] *= steps
        return cls(read_only(planes), read_only(totals), read_only(terms))

    def between(self, first: int, last: int) -> QuantizedQueries:
        """Return the queries `first` … `last`."""
        some = slice(first, last)
        return QuantizedQueries(self.planes[some], self.totals[some], self.terms[some])


class EstimateStretch(NamedTuple):
    """Blocks `first` … `last` of a segment of `n` rows with what the estimate needs: what the
    kernel takes first.
    """

    tiles: Words
    ids: Ids
    first: int
    last: int
    n: int
    mask: Bitmap
    corrections: Corrections
    slots: Ids
    """Which of the corrections are those of a row; none where they stand in the order of rows."""


class EstimateRows(NamedTuple):
    """All rows of a scan by the estimate, or by other scores, which may need no corrections."""

    parts: list[EstimateStretch]
    n_rows: int
    """At least as many as can be returned."""

    @classmethod
    def without_corrections(cls, rows: Stretches) -> EstimateRows:
        """Take codes alone."""
        parts = [EstimateStretch(*part, NO_CORRECTIONS, _IN_ORDER) for part in rows.parts]
        return cls(parts, rows.n_rows)

    @classmethod
    def from_stretches(
        cls, rows: Stretches, corrections: Corrections, slots_of: Callable[[Ids], Ids | int]
    ) -> EstimateRows:
        """Join rows and their corrections; `slots_of` tells which of these stand for some ids, as a
        number where they stand one behind the other from there on. Ids of removed rows may have any
        slot.
        """
        parts = []
        for stretch in rows.parts:
            slots = slots_of(stretch.ids[: stretch.n])
            if isinstance(slots, int):
                here, slots = corrections[slots : slots + stretch.n], _IN_ORDER
            else:
                here = corrections
            parts.append(EstimateStretch(*stretch, read_only(here), read_only(slots)))
        return cls(parts, rows.n_rows)


def scan_estimates(
    rows: EstimateRows, queries: QuantizedQueries, k: int, *, has_small: bool
) -> Neighbors:
    """Return the best k rows of every query with their scores, float64, ties by lower id.

    With `has_small`, which l2 has, corrections below 0 stand for their squares.
    """
    n_queries, n_bits, n_words = queries.planes.shape

    def scan(part: ScanPart, reach: int) -> Neighbors:
        some = queries.between(part.first, part.last)
        return _scan(part.stretches, some, reach, has_small)

    return scan_best(rows.parts, n_queries, n_words * n_bits, k, rows.n_rows, scan)


def _scan(
    stretches: list[EstimateStretch], queries: QuantizedQueries, k: int, has_small: bool
) -> Neighbors:
    """Search one piece."""
    n_queries, n_bits, n_words = queries.planes.shape
    found = Neighbors(np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k)))
    work = scan_room(stretches[0], n_queries, k)
    for i, stretch in enumerate(stretches):
        first, last = i == 0, i == len(stretches) - 1
        scan_estimates_into(
            *stretch, has_small, *queries, *scan_widths(n_bits, n_words), first, last, *work,
            found.distances, found.ids,
        )  # fmt: skip
    return found


def scan_room(
    stretch: EstimateStretch, n_queries: int, k: int
) -> tuple[Words, Words, npt.NDArray[np.int32], Floats, Floats, Floats, Ids, Floats, Ids, Ids]:
    """Return the room that `scan_estimates_into` works in, up to what it finds."""
    tile, n_words = stretch.tiles.shape[3], stretch.tiles.shape[2]
    n_lanes = tile if tile == BLOCK else wide_tile_rows(1, n_words)
    wide = np.empty((1, 1, n_words, 0 if n_lanes == tile else n_lanes), dtype=np.uint64)
    return (
        wide,
        read_only(wide),
        np.empty(n_lanes, dtype=np.int32),
        np.empty((3, n_lanes)),
        np.empty(n_lanes),
        *candidate_pool(n_queries, k),
    )


@cache
def scan_widths(n_bits: int, n_words: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return `bs` and `ws` for codes of `n_words` words and queries of `n_bits` bits."""
    most = max(1, _MOST_UNROLLED // n_bits)
    step = max(words for words in range(1, min(most, n_words) + 1) if n_words % words == 0)
    return (0,) * n_bits, (0,) * step
