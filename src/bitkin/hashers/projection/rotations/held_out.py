"""Rows that a rotation does not learn from: how many of their nearest rows are found by codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import interrupts, threads
from bitkin.arrays import Batch, Floats, Ids
from bitkin.hashers.projection.rotations.base import Projected
from bitkin.hashers.projection.rotations.itq import scale_into_range
from bitkin.memory import require_memory

_FIRST_QUERIES = 512  # enough where one rotation is clearly the better one
_FEW_QUERIES = 256
_MOST_QUERIES = 4096  # a difference of 0.01 is then about four standard errors
_QUERY_NUMBERS = 1 << 24  # of queries before the projection: 128 MB
_QUERIES_AT_ONCE = 256
_DATABASE = 8192
_DATABASE_NUMBERS = 1 << 22  # of rows that are compared with the queries at a time: 32 MB
_FEWEST_ROWS = 64
_NEIGHBORS = 10
_ERRORS = 3  # standard errors between what is measured and what may be true
_CLOSE = 0.01  # a difference that does not matter


class Gain(NamedTuple):
    """By how much more of the true neighbours one rotation finds than another, and the standard
    error of that.
    """

    mean: float
    error: float

    @property
    def certain(self) -> bool:
        """Whether what seems better is so, or is not worse by more than 0.01."""
        return abs(self.mean) + _CLOSE >= _ERRORS * self.error

    @property
    def hopeless(self) -> bool:
        """Whether it is behind by more than 0.01 for certain."""
        return self.mean + _ERRORS * self.error < -_CLOSE


class _Queries(NamedTuple):
    """Projected queries, the places of the nearest rows of each, and which share of these the first
    rotation finds.
    """

    rows: npt.NDArray[np.float32]
    nearest: Ids
    found_at_first: Floats


class HeldOutRows:
    """A quarter of up to 4,096 rows, 1,024 of up to 8,192, an eighth of more, up to 4,096: queries
    that compare rotations.

    A rotation's score is the share of the 10 nearest rows of a query, by the distance between rows
    before the projection, that are among the best 100 of up to 8,192 rows by their codes. First 512
    queries are asked, and all of them where those leave open which rotation is better: what ITQ
    gains on one query over a random rotation has a standard deviation of 0.11 to 0.19 (64 and 128
    bits, three data sets), so that 512 of them leave an error of up to 0.008.

    Rows that ITQ learned from cannot be the queries: on those it seems up to 0.027 better than it
    is (four data sets, 1,000 and 4,000 rows).

    Parameters
    ----------
    projected : Projected
        At least 64 rows.
    start : float64 (c, c)
        What other rotations are compared with.

    Attributes
    ----------
    learning : float32 (n, c)
        The rows that are not held out.
    """

    def __init__(self, projected: Projected, start: Floats) -> None:
        rows = scale_into_range(projected.rows)[0]
        n, width = rows.shape
        # Rows before the projection: what is far off the projection's subspace decides, too, which
        # are near, and may not be the same for long rows and short ones.
        self._original = rows.__getitem__ if projected.original is None else projected.original
        some = self._original(_spread(n, _FEWEST_ROWS)[0])
        count = min(n // 4, max(1024, n // 8), _MOST_QUERIES)
        count = min(count, max(_FEWEST_ROWS, _QUERY_NUMBERS // _numbers_per_row(some)))
        held, others = _spread(n, count)
        size = min(len(others), _DATABASE, max(_FEWEST_ROWS, _DATABASE_NUMBERS // width))
        require_memory(
            _bytes_needed(len(others), size, width, count, some),
            f"A comparison of rotations of {width:,} bits",
            "Use fewer bits, or rotation='random'.",
        )
        self._searched = others[_spread(len(others), size)[0]]
        # Each part is spread over all rows, as neighbours in a file are often alike.
        asked, left = _spread(count, min(count, _FIRST_QUERIES))
        self._places = (held[asked], held[left])
        self._start = start
        self._rows = rows
        self._queries: list[_Queries] = []
        self.learning: npt.NDArray[np.float32] = rows[others]

    def compare(self, rotation: Floats) -> Gain:
        """Return the gain of a rotation over the first, by the first queries."""
        return _gain(self._gains(0, rotation))

    def compare_closely(self, rotation: Floats) -> Gain:
        """Return the gain of a rotation over the first, by all queries where the first ones leave
        it open.
        """
        gains = self._gains(0, rotation)
        if not _gain(gains).certain and len(self._places[1]):
            gains = np.concatenate([gains, self._gains(1, rotation)])
        return _gain(gains)

    def favours(self, rotation: Floats) -> bool:
        """Tell whether a learned rotation is to be preferred to the first; with few queries, also
        where it is behind by less than a standard error.
        """
        gain, are_few = self.compare_closely(rotation), len(self._places[0]) < _FEW_QUERIES
        return gain.mean > (-gain.error if are_few else 0.0)

    def _gains(self, part: int, rotation: Floats) -> Floats:
        while len(self._queries) <= part:
            self._queries.append(self._ask(self._places[len(self._queries)]))
        queries = self._queries[part]
        return self._found(queries.rows, queries.nearest, rotation) - queries.found_at_first

    def _ask(self, places: Ids) -> _Queries:
        """Find the nearest rows of queries, and how many of them the first rotation finds."""
        rows, nearest = self._rows[places], self._nearest(places)
        return _Queries(rows, nearest, self._found(rows, nearest, self._start))

    def _nearest(self, places: Ids) -> Ids:
        """Return the places of each query's nearest rows among those searched."""
        queries = self._original(places).astype(np.float64)
        ids: Ids = np.zeros((len(places), 0), dtype=np.int64)
        apart: Floats = np.zeros((len(places), 0))
        step = max(1, _DATABASE_NUMBERS // _numbers_per_row(queries))
        for at in range(0, len(self._searched), step):
            rows = self._original(self._searched[at : at + step]).astype(np.float64)
            more = [
                _nearest_among(queries[one : one + _QUERIES_AT_ONCE], rows)
                for one in range(0, len(places), _QUERIES_AT_ONCE)
            ]
            # the nearest of all are among the nearest so far and those of the next rows
            ids = np.hstack([ids, np.vstack([one[0] for one in more]) + at])
            apart = np.hstack([apart, np.vstack([one[1] for one in more])])
            kept = np.argsort(apart, axis=1, kind="stable")[:, :_NEIGHBORS]
            ids = np.take_along_axis(ids, kept, axis=1)
            apart = np.take_along_axis(apart, kept, axis=1)
        return ids

    def _found(self, queries: npt.NDArray[np.float32], nearest: Ids, rotation: Floats) -> Floats:
        """Return which share of the nearest rows of each query is among the best by codes."""
        small = rotation.astype(np.float32)
        with threads.blas_in_one_thread():
            database = _signs(self._rows[self._searched] @ small)
            return np.concatenate(
                [
                    _share_found(_signs(queries[at:stop] @ small), database, nearest[at:stop])
                    for at in range(0, len(queries), _QUERIES_AT_ONCE)
                    for stop in (at + _QUERIES_AT_ONCE,)
                ]
            )


def _spread(n: int, count: int) -> tuple[Ids, Ids]:
    """Return `count` of n places, evenly spaced, and the others."""
    chosen = np.arange(count, dtype=np.int64) * n // max(1, count)
    return chosen, np.delete(np.arange(n, dtype=np.int64), chosen)


def _gain(gains: Floats) -> Gain:
    return Gain(float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains))))


def _numbers_per_row(rows: Batch) -> int:
    """Return how many numbers a row holds, on average where it is sparse."""
    numbers: int = -(-rows.nnz // rows.shape[0]) if issparse(rows) else rows.shape[1]
    return max(1, numbers)


def _nearest_among(queries: Batch, rows: Batch) -> tuple[Ids, Floats]:
    """Return the places of the nearest rows x of every query q, and ‖q − x‖² but for ‖q‖², which
    is the same for all rows.
    """
    interrupts.check()
    with threads.blas_in_one_thread():
        if issparse(rows):
            squares = np.asarray(rows.multiply(rows).sum(axis=1))
            products = (queries @ rows.T).toarray()
        else:
            squares, products = np.einsum("ij,ij->i", rows, rows), queries @ rows.T
    products *= -2.0
    products += squares.reshape(1, -1)
    count = min(_NEIGHBORS, products.shape[1])
    nearest = np.argpartition(products, count - 1, axis=1)[:, :count].copy()  # lets go of the rest
    return nearest, np.take_along_axis(products, nearest, axis=1)


def _share_found(
    queries: npt.NDArray[np.float32], database: npt.NDArray[np.float32], nearest: Ids
) -> Floats:
    """Return the share of the nearest rows that are among the best by codes; of rows that tie for
    the last places, such a share as there are places.
    """
    interrupts.check()
    best = min(100, max(2 * _NEIGHBORS, len(database) // 20))
    apart = queries @ database.T
    # of signs ±1, n_bits − ⟨a, b⟩ is twice the number of bits that differ
    np.negative(apart, out=apart)
    last = np.partition(apart, best - 1, axis=1)[:, best - 1 : best]
    closer, level = (apart < last).sum(axis=1), (apart == last).sum(axis=1)
    found = np.take_along_axis(apart, nearest, axis=1)
    hits = (found < last).sum(axis=1) + (found == last).sum(axis=1) * (best - closer) / level
    return np.asarray(hits / nearest.shape[1], dtype=np.float64)


def _bytes_needed(n_learning: int, n_searched: int, n_bits: int, count: int, some: Batch) -> int:
    """Return what is held at most: the rows to learn from, the queries, and the larger of what
    finding the true neighbours takes and what comparing codes takes. `some` is some rows of theirs.
    """
    per_row = _numbers_per_row(some)
    numbers = count * per_row + min(_DATABASE_NUMBERS, n_searched * per_row)
    # queries and rows in float32 and float64, with the columns of sparse ones; distances, their
    # order and, of sparse ones, the columns once more
    each, pair = (28, 32) if issparse(some) else (12, 17)
    truth = each * numbers + pair * _QUERIES_AT_ONCE * n_searched
    # rows searched: themselves, rotated, their signs; agreements, in order, and which are best
    codes = 12 * n_searched * n_bits + 12 * _QUERIES_AT_ONCE * n_searched
    return 4 * (n_learning + count) * n_bits + max(truth, codes)


def _signs(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.where(rows >= 0, np.float32(1), np.float32(-1))
