"""A uniform sample of rows that does not depend on how, or where, the rows are read."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import stack

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_HASHED_AT_ONCE = 1 << 20


class RowSample:
    """The rows whose numbers have the smallest keyed hashes: `size` of all rows seen, none twice.

    Every row has the same chance. Which rows are chosen depends on their numbers, the key and how
    many rows there are: not on batches or their order, and keeping the smallest is an associative
    `merge`.

    Parameters
    ----------
    key : int
        Any 64-bit number; another key, another sample.
    size : int or float
        How many rows (all where there are fewer), or, as a float up to 1.0, which share of them.
    at_least : int, default 0
        The fewest rows a share stands for.
    at_most : int or None, default None
        The most rows a share stands for.

    Notes
    -----
    How many rows a share stands for is known at the end only. Until then somewhat more are kept:
    eight standard deviations more, so that no row is missed.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.hashers.projection.statistics import RowSample
    >>> X = np.arange(10.0).reshape(10, 1)
    >>> sample = RowSample(key=7, size=3).update(0, X)
    >>> sample.row_numbers
    array([0, 2, 9])
    >>> RowSample(7, 3).update(4, X[4:]).merge(RowSample(7, 3).update(0, X[:4])).rows.ravel()
    array([0., 2., 9.])
    """

    def __init__(
        self, key: int, size: int | float, at_least: int = 0, at_most: int | None = None
    ) -> None:
        self.key = key
        self.size = size
        self.at_least = at_least
        self.at_most = at_most
        self.n = 0
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._rows: list[Batch] = []
        self._highest = np.uint64(2**64 - 1)

    def update(self, first: int, rows: Batch) -> Self:
        """Take in rows, the first of which is row number `first`; no row may come twice."""
        self.n += rows.shape[0]
        numbers = np.arange(first, first + rows.shape[0], dtype=np.int64)
        wanted = np.flatnonzero(row_hashes(numbers, self.key) <= self._highest)
        if len(wanted):
            self._numbers.append(numbers[wanted])
            self._rows.append(rows[wanted])  # a copy
        self._drop_surplus()
        return self

    def merge(self, other: RowSample) -> RowSample:
        """Return the sample of both sets of rows together."""
        mine, theirs = ((one.key, one.size, one.at_least, one.at_most) for one in (self, other))
        if mine != theirs:
            raise InvalidInputError(
                f"other must be a sample of the same key and size, {mine}, got {theirs}."
            )
        both = RowSample(*mine)
        both.n = self.n + other.n
        both._numbers, both._rows = self._numbers + other._numbers, self._rows + other._rows
        both._drop_surplus()
        return both

    @property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """Numbers of the rows chosen, ascending: int64."""
        numbers = self._kept_numbers()
        return np.sort(numbers[_smallest(numbers, self.key, self._count())])

    @property
    def rows(self) -> Any:
        """The rows chosen, in the order of their numbers."""
        if not self._rows:
            raise InvalidInputError("A sample of no rows has none to give: update it first.")
        numbers = self._kept_numbers()
        chosen = _smallest(numbers, self.key, self._count())
        order = chosen[np.argsort(numbers[chosen])]
        rows = stack(self._rows)
        if not np.array_equal(order, np.arange(len(numbers))):
            rows = rows[order]
        if not isinstance(self.size, float):  # of a share, more rows may be wanted later
            self._numbers, self._rows = [numbers[order]], [rows]
        return rows

    def _count(self) -> int:
        return row_count(self.n, self.size, self.at_least, self.at_most)

    def _kept_numbers(self) -> npt.NDArray[np.int64]:
        return np.concatenate([np.empty(0, dtype=np.int64), *self._numbers])

    def _drop_surplus(self) -> None:
        """Drop rows that cannot be chosen any more, once they are as many as those that can."""
        room = _capacity(self.n, self.size, self.at_least, self.at_most)
        numbers = self._kept_numbers()
        if len(numbers) <= 2 * room:
            return
        chosen = _smallest(numbers, self.key, room)
        # Later rows with a larger hash cannot be chosen (see `_capacity`): they are not even kept.
        self._highest = row_hashes(numbers[chosen], self.key).max()
        self._numbers, self._rows = [numbers[chosen]], [stack(self._rows)[chosen]]


def sample_row_numbers(
    n: int, key: int, size: int | float, at_least: int = 0, at_most: int | None = None
) -> npt.NDArray[np.int64]:
    """Return the ascending row numbers that a `RowSample` of rows 0 … `n` − 1 ends with, without
    reading a row.
    """
    count = row_count(n, size, at_least, at_most)
    if count >= n:
        return np.arange(n, dtype=np.int64)
    numbers = np.empty(0, dtype=np.int64)
    for first in range(0, n, _HASHED_AT_ONCE):
        more = np.arange(first, min(first + _HASHED_AT_ONCE, n), dtype=np.int64)
        numbers = np.concatenate([numbers, more])
        # the smallest of all are among the smallest so far and the next piece
        numbers = numbers[_smallest(numbers, key, count)]
    return np.sort(numbers)


def row_count(n: int, size: int | float, at_least: int = 0, at_most: int | None = None) -> int:
    """Return how many of `n` rows a count or a share stands for."""
    if not isinstance(size, float):
        return min(n, size)
    wanted = round(size * n) if at_most is None else min(at_most, round(size * n))
    return min(n, max(at_least, wanted))


def row_hashes(numbers: npt.NDArray[np.int64], key: int) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of every row number, different for different numbers: SplitMix64 from
    the key on.
    """
    # An odd factor, xor with a shift: every step can be undone, so no two numbers get one hash.
    hashed = numbers.astype(np.uint64) * _ODD + np.uint64(key)
    for shift, factor in zip((30, 27), _MIX, strict=True):
        hashed = (hashed ^ (hashed >> np.uint64(shift))) * factor
    return hashed ^ (hashed >> np.uint64(31))


def _capacity(n: int, size: int | float, at_least: int, at_most: int | None) -> int:
    """Return how many rows to keep after `n`, so that none of the final sample is missed."""
    if not isinstance(size, float):
        return size
    # Of n rows about size·n will be among the final sample, a binomial count whose standard
    # deviation is below √(size·n): with eight of those more, none is missed.
    expected = size * n
    kept = math.ceil(expected + 8 * math.sqrt(expected) + 64)
    return max(at_least, kept if at_most is None else min(at_most, kept))


def _smallest(numbers: npt.NDArray[np.int64], key: int, count: int) -> npt.NDArray[np.int64]:
    """Return the positions of the `count` numbers with the smallest hashes, in any order."""
    if count >= len(numbers):
        return np.arange(len(numbers))
    # no two hashes are equal, so which `count` are smallest is not a matter of chance
    return np.argpartition(row_hashes(numbers, key), count)[:count]
