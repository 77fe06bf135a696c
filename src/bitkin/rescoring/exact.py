"""Distances of shortlisted rows from stored vectors, in float64: only those rows are ever read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch, FloatRows, Floats, Ids
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors
from bitkin.io.vectors import VectorSource
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.nearest_rows import ROWS_TOGETHER, nearest_rows_into
from bitkin.kernels.search.ranking import widen_halves_into
from bitkin.rescoring.pair_distances import METRIC_CODES, Exponents, Measured, pair_distances
from bitkin.rescoring.shortlist import Shortlist, nearest_first

Gather = Callable[[Ids], Batch]
"""Returns the vectors of some rows, each wanted once and in ascending order."""


class VectorsInPlace(NamedTuple):
    """Vectors where they stand, or gathered where they stand in another form, and which of them are
    wanted.
    """

    rows: npt.NDArray[Any]
    """(n, n_features), of which only the wanted ones may be read: floats, or int8 steps."""
    places: Ids
    """int64 (m,), or as many for each of several queries, one behind the other."""
    scales: FloatRows | None = None
    """float32 (n,): the step of every row, where those are what is kept."""

    def gathered(self) -> VectorsInPlace:
        """Return the rows that are wanted alone, as floats."""
        rows, everyone = self.rows[self.places], np.arange(len(self.places))
        if self.scales is not None:
            rows = rows * self.scales[self.places][:, None]
        return VectorsInPlace(rows, everyone)


_QUERIES_PER_PIECE = 16  # measured by one thread at a time
_LONG_ROW = 1 << 16  # whose sums in float32 say too little
_NUMBERS_AT_ONCE = 1 << 23  # of stored rows, held at a time
_LEAST_EXPONENT = -4096  # below the power of two of any product
_NUMBERS_PER_PIECE = 1 << 17  # compared by one thread at a time: they stay in its cache
_SPARSE_ROWS_PER_PIECE = 512


def nearest_by_vectors(
    ids: Ids,
    rows: Ids,
    gather: Gather,
    queries: Batch,
    metric: str,
    k: int,
    scale: Floats | None = None,
    *,
    in_place: VectorsInPlace | None = None,
) -> Neighbors:
    """Return the best k of every query, nearest first, ties by lower id.

    Id `ids[i, j]` is row `rows[i, j]`; both are −1 for no match. l2 is not squared; cosine is 1 −
    cosine, 1 from a row of zeros; ip is negated. `scale`, one per row, multiplies rows. Distances
    beyond float64 rank by what they are, and are reported as infinity or 0. Rows
    may be given `in_place`, those of one query after those of another, with −1 behind the last one
    of a query: then nothing is gathered, nor scaled.
    """
    found = None
    if in_place is not None:
        found = _nearest_in_place(ids, in_place, queries, metric, k)
    if found is not None:
        return found
    if in_place is None or (in_place.places < 0).any():
        measured = _exact_distances(rows, gather, queries, metric, scale)
    else:
        measured = _distances_in_place(in_place, queries, metric)
    if measured.exponents is None:
        return nearest_first(ids, measured.values, k)
    # No power of two brings all distances of a query into the range of float64: rank them first.
    ranks = _ranks(measured.values, measured.exponents)
    best = nearest_first(ids, ranks, k)
    # Equal distances share a rank, so a table from rank to distance turns the best ranks back.
    by_rank = np.full(ranks.shape, np.inf)
    queries, columns = np.nonzero(np.isfinite(ranks))
    by_rank[queries, ranks[queries, columns].astype(np.int64)] = measured.times_power(0)[
        queries, columns
    ]
    found = np.isfinite(best.distances)
    best.distances[found] = by_rank[np.nonzero(found)[0], best.distances[found].astype(np.int64)]
    return best


def _nearest_in_place(
    ids: Ids, in_place: VectorsInPlace, queries: Batch, metric: str, k: int
) -> Neighbors | None:
    """Return the best k of queries in float32, in one call each; None for other types, and where
    sums leave the range of float64.
    """
    rows, places, scales = in_place
    stored = stored_for_kernels(rows, scales)
    if stored is None or not (
        isinstance(queries, np.ndarray) and queries.dtype == np.float32 and queries.dtype.isnative
    ):
        return None
    n_queries, m = ids.shape
    found = Neighbors(np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k)))
    ids, queries, places = read_only(ids), read_only(queries), read_only(places.reshape(ids.shape))

    def measure(first: int) -> int:
        some = slice(first, first + _QUERIES_PER_PIECE)
        arguments: Any = (
            *stored, places[some], ids[some], queries[some], METRIC_CODES[metric],
            *measuring_room(rows.shape[1], m), found.distances[some], found.ids[some],
        )  # fmt: skip
        return int(nearest_rows_into(*arguments))

    if n_queries <= _QUERIES_PER_PIECE:
        return None if n_queries and measure(0) else found
    return None if sum(threads.run(measure, range(0, n_queries, _QUERIES_PER_PIECE))) else found


def stored_for_kernels(
    rows: npt.NDArray[Any], scales: FloatRows | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint16], FloatRows] | None:
    """Return rows, halves and scales as `nearest_rows_into` takes them, of which two are empty;
    None of other types, and of rows so long that sums in float32 say too little.
    """
    is_known = rows.dtype in (np.float32, np.float16, np.int8) and rows.dtype.isnative
    if not is_known or rows.shape[1] > _LONG_ROW:
        return None
    no_scales = np.empty(0, dtype=np.float32) if scales is None else scales
    if rows.dtype == np.float16:
        nothing = np.empty((0, rows.shape[1]), dtype=np.float32)
        return read_only(nothing), read_only(rows.view(np.uint16)), read_only(no_scales)
    no_halves = np.empty((0, rows.shape[1]), dtype=np.uint16)
    return read_only(rows), read_only(no_halves), read_only(no_scales)


def measuring_room(n_features: int, m: int) -> tuple[FloatRows, FloatRows, Floats, Floats]:
    """Return what `nearest_rows_into` works in for m rows per query."""
    near = np.empty((ROWS_TOGETHER, n_features), dtype=np.float32)
    return near, read_only(near), np.empty(8), np.empty(m)


def _ranks(values: Floats, exponents: Exponents) -> Floats:
    """Return the rank of values · 2**exponents in each row, the same for equal ones; infinity
    stays.
    """
    there = np.isfinite(values)
    # x = m · 2^e with ½ ≤ |m| < 1. Ordered by sign(m) · (e − least), then by m: negative numbers
    # first, 0 between, and within one sign and exponent the mantissa decides.
    mantissas, sizes = np.frexp(np.where(there, values, 0.0))
    # A number below 0 is the smaller the larger its power of two is.
    sizes = np.sign(mantissas) * (sizes + exponents - _LEAST_EXPONENT)
    sizes[~there] = np.inf
    # the last key is the first to decide
    order = np.lexsort((mantissas, sizes))
    sizes, mantissas = (
        np.take_along_axis(sizes, order, axis=1),
        np.take_along_axis(mantissas, order, axis=1),
    )
    differs = (sizes[:, 1:] != sizes[:, :-1]) | (mantissas[:, 1:] != mantissas[:, :-1])
    ranks = np.zeros(values.shape)
    # the rank is how many different values come before
    np.put_along_axis(ranks, order[:, 1:], np.cumsum(differs, axis=1).astype(np.float64), axis=1)
    ranks[~there] = np.inf
    return ranks


def _exact_distances(
    rows: Ids, gather: Gather, queries: Batch, metric: str, scale: Floats | None
) -> Measured:
    """Return the distance of query i from row `rows[i, k]`: (q, m), infinity where that is −1."""
    if len(rows) == 1 and rows.size and rows[0].min() >= 0:
        # one query, all of whose rows are there: all of them are measured, in their order
        shortlist = Shortlist.from_ids(rows)
        stored = gather(shortlist.wanted)
        if scale is not None:
            stored = _scale_rows(stored, scale[shortlist.wanted], shortlist.wanted)
        return _distances_in_place(VectorsInPlace(stored, shortlist.places[0]), queries, metric)
    out = np.full(rows.shape, np.inf)
    exponents: Exponents | None = None
    # so many queries that the rows of all their shortlists fit, even if none is shared
    step = max(1, _NUMBERS_AT_ONCE // max(1, rows.shape[1] * queries.shape[1]))
    for first in range(0, len(rows), step):
        some = slice(first, first + step)
        shortlist = Shortlist.from_ids(rows[some])
        stored = gather(shortlist.wanted)
        if scale is not None:
            stored = _scale_rows(stored, scale[shortlist.wanted], shortlist.wanted)
        query_of, columns = np.nonzero(shortlist.places >= 0)
        row_of = shortlist.places[query_of, columns]
        measured = measure_pairs(stored, row_of, queries[some], query_of, metric)
        out[first + query_of, columns] = measured.values
        if measured.exponents is not None:
            exponents = np.zeros(rows.shape, dtype=np.intc) if exponents is None else exponents
            exponents[first + query_of, columns] = measured.exponents
    return Measured(out, exponents)


def _distances_in_place(in_place: VectorsInPlace, queries: Batch, metric: str) -> Measured:
    """Return the distance of every query from as many rows as there are for each: (q, m)."""
    n_queries = queries.shape[0]
    query_of = np.repeat(np.arange(n_queries), len(in_place.places) // n_queries)
    if in_place.scales is not None:
        in_place = in_place.gathered()
    values, powers = measure_pairs(in_place.rows, in_place.places, queries, query_of, metric)
    shape = n_queries, -1
    return Measured(values.reshape(shape), None if powers is None else powers.reshape(shape))


def require_scale(scale: Any, source: VectorSource) -> Floats | None:
    """Return a scale per row, from one number or as many as there are rows; None stays None."""
    if scale is None:
        return None
    if source.sparse:
        raise InvalidInputError(
            "scale must be left out for sparse vectors: multiply their values instead."
        )
    try:
        numbers = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("scale must be a number, or one a row of vectors.") from None
    if numbers.shape not in ((), (len(source),)):
        raise InvalidInputError(
            f"scale must be one number, or one a row of vectors, which has {len(source)}, got "
            f"shape {numbers.shape}."
        )
    if not np.isfinite(numbers).all():
        raise InvalidInputError(
            f"scale must be finite, got {numbers[~np.isfinite(numbers)].flat[0]}."
        )
    return np.broadcast_to(numbers, len(source))


def _scale_rows(rows: Batch, scales: Floats, row_ids: Ids) -> Batch:
    """Return every row times its scale; what overflows is refused."""
    with np.errstate(over="ignore"):
        scaled = rows * scales[:, None]
    finite = np.isfinite(scaled).all(axis=1)
    if not finite.all():
        row = row_ids[int(np.argmin(finite))]
        raise InvalidInputError(
            f"vectors times scale must be finite, got inf in row {row}. Give smaller numbers, or a "
            "smaller scale."
        )
    return scaled


def measure_pairs(rows: Batch, row_of: Ids, queries: Batch, query_of: Ids, metric: str) -> Measured:
    """Return the distance of row `row_of[i]` from query `query_of[i]`, for all i."""
    out = np.empty(len(row_of))
    sparse = issparse(rows) and issparse(queries)
    wide_queries = _as_float64(queries, sparse)
    step = _SPARSE_ROWS_PER_PIECE if sparse else max(1, _NUMBERS_PER_PIECE // max(1, rows.shape[1]))

    # rows that kernels read as they are, wherever they stand
    in_place = not sparse and _is_read_as_it_is(rows)

    def measure(first: int) -> Exponents | None:
        some = slice(first, first + step)
        stored, at = rows, row_of[some]
        if not in_place:
            stored, at = _widened(rows[at], sparse), np.arange(len(at))
        out[some], exponents = pair_distances(stored, at, wide_queries, query_of[some], metric)
        return exponents

    pieces = range(0, len(out), step)
    found = threads.run(measure, pieces) if len(pieces) > 1 else list(map(measure, pieces))
    if all(exponents is None for exponents in found):
        return Measured(out, None)
    every = np.zeros(len(out), dtype=np.intc)
    for first, exponents in zip(pieces, found, strict=True):
        if exponents is not None:
            every[first : first + step] = exponents
    return Measured(out, every)


def _is_read_as_it_is(rows: Any) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and rows.dtype in (np.float32, np.float64)
        and rows.dtype.isnative
        and rows.flags.c_contiguous
    )


def _widened(rows: Any, sparse: bool) -> Any:
    """Return a copy of rows in a type that kernels read: float16 becomes float32, exactly."""
    if rows.dtype != np.float16 or issparse(rows):
        return _as_float64(rows, sparse)
    wide = np.empty(rows.shape, dtype=np.float32)
    native = np.ascontiguousarray(rows, dtype=np.float16)
    widen_halves_into(read_only(native.view(np.uint16)), wide)
    return wide


def _as_float64(batch: Batch, sparse: bool) -> Any:
    """Return a batch in float64: CSR where both sides are, else dense."""
    if issparse(batch) and not sparse:
        batch = batch.toarray()
    return batch.astype(np.float64) if sparse else np.ascontiguousarray(batch, dtype=np.float64)
