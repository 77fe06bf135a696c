"""What projections and rotations learn from: rows on demand, centred and normalized as the hasher
asks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch, Ids
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.moments import RowMean, RowMoments
from bitkin.hashers.projection.statistics.row_sample import RowSample, sample_row_numbers
from bitkin.hashers.projection.statistics.scatter_sketch import ScatterSketch
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import first_not_finite

State = TypeVar("State")
Statistics = TypeVar("Statistics", RowMean, RowMoments, ScatterSketch)

_GATHER_BYTES = 1 << 24
_NORMAL = 2.0**-126  # float32 loses digits of what is smaller


class TrainingVectors:
    """The rows to fit, in float32 and normalized; centring is left to the learner, which may not
    read all of them.

    Parameters
    ----------
    source : VectorSource
        Where the rows come from.
    center, normalize : bool
        As the hasher has them.
    key : int
        What decides which rows are sampled; see `RowSample`.
    sample_rows : int, default 0
        How many rows a rotation wants to look at afterwards. Those of an iterator are kept while it
        is read.

    Attributes
    ----------
    n_rows : int or None
        How many rows there are; None for an iterator.
    n_features : int
        Length of a row.
    rereadable : bool
        Whether rows can be read twice, and by number.
    sparse : bool
        Whether batches are CSR.
    """

    def __init__(
        self, source: VectorSource, *, center: bool, normalize: bool, key: int, sample_rows: int = 0
    ) -> None:
        self.source = source
        self.center = center
        self.normalize = normalize
        self.key = key
        self.sample_rows = sample_rows
        self.n_rows, self.n_features = source.shape
        self.rereadable = self.n_rows is not None
        self.sparse = source.sparse
        self._kept: RowSample | None = None
        if sample_rows and not self.rereadable:
            self._kept = RowSample(key, sample_rows)

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Yield the number of the first row and a float32 array or CSR array. Copy what is to
        outlive the next one.
        """
        n = 0
        for first, batch in self.source.batches():
            rows = prepare_rows(batch, self.normalize, self.source.name, first)
            if self._kept is not None:
                self._kept.update(first, rows)
            n = first + batch.shape[0]
            yield first, rows
        if n == 0:
            raise InvalidInputError(
                f"{self.source.name} has no rows. Give at least one row to fit."
            )

    def fold(
        self,
        start: Callable[[], State],
        update: Callable[[State, int, Batch], State],
        merge: Callable[[State, State], State],
    ) -> State:
        """Return what `update` makes of all rows, wherever they are; see `VectorSource.fold`."""
        if self.source.in_parts:
            prepared = PreparedUpdate(update, self.normalize, self.source.name)
            return self.source.fold(start, prepared, merge)
        state = start()
        for first, rows in self.batches():
            state = update(state, first, rows)
        return state

    def statistics(self, start: Callable[[], Statistics]) -> Statistics:
        """Return statistics of all rows, wherever they are: `start()` gives those of no row, which
        have `update(rows)` and `merge(others)`.
        """
        if self.source.in_parts:
            merged: Statistics = self.fold(start, _add_rows, merge_statistics)
            return merged
        found = start()
        for _, rows in self.batches():
            found.update(rows)
        return found

    def gather(self, row_numbers: npt.NDArray[np.int64]) -> Batch:
        """Return rows by number, in that order."""
        return prepare_rows(
            self.source.gather(row_numbers), self.normalize, self.source.name, row_numbers
        )

    def sample(
        self, size: int | float, at_least: int = 0, at_most: int | None = None
    ) -> tuple[Batch, npt.NDArray[np.int64], int]:
        """Return a uniform sample of so many rows, or of such a share: the rows, their numbers and
        the count of all.

        No other row is read where rows can be read by number.
        """
        if self.n_rows is not None:
            numbers = sample_row_numbers(self.n_rows, self.key, size, at_least, at_most)
            return self.gather(numbers), numbers, self.n_rows
        sample = RowSample(self.key, size, at_least, at_most)
        for first, batch in self.batches():
            sample.update(first, batch)
        return sample.rows, sample.row_numbers, sample.n

    def sample_batches(self) -> Iterator[Batch]:
        """Yield the `sample_rows` rows for a rotation, in order; of an iterator, after it was
        read.
        """
        if self._kept is not None:
            yield self._kept.rows
        elif self.n_rows is not None and self.n_rows <= self.sample_rows:
            for first, batch in self.source.batches():  # no copies, where all are wanted
                yield prepare_rows(batch, self.normalize, self.source.name, first)
        elif self.n_rows is not None:
            numbers = self._sampled_numbers
            step = max(1, _GATHER_BYTES // (4 * self.n_features))
            if self.sparse:
                step = max(step, self.source.batch_rows)
            for first in range(0, len(numbers), step):
                yield self.gather(numbers[first : first + step])

    def sampled(self, positions: npt.NDArray[np.int64]) -> Batch:
        """Return some of the rows that `sample_batches` yields, by their places among them."""
        if self._kept is not None:
            return self._kept.rows[positions]
        if self.n_rows is None or self.n_rows <= self.sample_rows:
            return self.gather(positions)
        return self.gather(self._sampled_numbers[positions])

    @functools.cached_property
    def _sampled_numbers(self) -> Ids:
        """Numbers of the rows for a rotation: every row's number is hashed for them, so once."""
        if self.n_rows is None:  # an iterator has none to choose from
            return np.empty(0, dtype=np.int64)
        return sample_row_numbers(self.n_rows, self.key, self.sample_rows)

    def mean_of_all(self) -> RowMean:
        """Read every row once and return their mean."""
        return self.statistics(partial(RowMean, self.n_features))


@dataclass(frozen=True, slots=True)
class PreparedUpdate(Generic[State]):
    """An update of statistics by rows that are prepared as for training, picklable."""

    update: Callable[[State, int, Batch], State]
    normalize: bool
    name: str

    def __call__(self, state: State, first: int, batch: Batch) -> State:
        """Prepare the rows, then update."""
        return self.update(state, first, prepare_rows(batch, self.normalize, self.name, first))


def _add_rows(statistics: Any, _: int, rows: Batch) -> Any:
    return statistics.update(rows)


def merge_statistics(some: Any, more: Any) -> Any:
    """Return the statistics of both sets of rows."""
    return some.merge(more)


def round_mean(mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a mean on the grid of float32.

    So sums that differ in the last bit, by being merged or sparse, give one model nearly always.
    """
    return mean.astype(np.float32).astype(np.float64)


def prepare_rows(
    batch: Batch, normalize: bool, name: str = "X", first: int | npt.NDArray[np.int64] = 0
) -> Batch:
    """Return a batch as float32, its rows scaled to length 1 when asked; a zero row stays zero.

    `name` and `first`, the number of its first row or of every row, are for messages.
    """
    small = batch if batch.dtype == np.float32 else _narrow(batch, name, first)
    return _unit_rows(small) if normalize else small


def _narrow(batch: Batch, name: str, first: int | npt.NDArray[np.int64]) -> Batch:
    """Return a batch as float32; rows that are not finite there, or that all but vanish, are
    refused.
    """
    loses = batch.dtype.kind == "f" and batch.dtype.itemsize > 4
    with np.errstate(over="ignore"):
        small = batch.astype(np.float32)
    found = first_not_finite(small) if loses else None
    if found is not None and np.isfinite(batch[found[0], found[1]]):
        row, column, _ = found
        number = first + row if isinstance(first, int) else first[row]
        raise InvalidInputError(
            f"{name} must fit float32, got {batch[row, column]} at row {number}, column {column}. "
            "Scale the data down."
        )
    lost = _first_vanished(batch, small) if loses and found is None else None
    if lost is not None:
        number = first + lost if isinstance(first, int) else first[lost]
        raise InvalidInputError(
            f"{name} must fit float32: row {number} all but vanishes in float32, which ends at "
            f"{np.finfo(np.float32).smallest_subnormal:.1e}. Scale the data up, or set such rows "
            "to 0."
        )
    return small


def _first_vanished(batch: Any, small: Any) -> int | None:
    """Return the first row that lost more than 2⁻⁹ of its largest number in float32."""
    # Few rows are small enough to be looked at, so whole batches pay for one sum per row and no
    # more.
    suspects = _short_rows(batch, small)
    if not len(suspects):
        return None
    batch, small = batch[suspects], small[suspects]
    if issparse(batch):
        rows = np.repeat(np.arange(batch.shape[0]), np.diff(batch.indptr))
        largest, lost = np.zeros(batch.shape[0]), np.zeros(batch.shape[0])
        np.maximum.at(largest, rows, np.abs(batch.data))
        np.maximum.at(lost, rows, np.abs(batch.data - small.data))
    else:
        largest = np.abs(batch).max(axis=1, initial=0.0)
        lost = np.abs(batch - small).max(axis=1, initial=0.0)
    vanished = np.flatnonzero(lost > largest * 2.0**-9)
    return int(suspects[vanished[0]]) if len(vanished) else None


def _short_rows(batch: Any, small: Any) -> npt.NDArray[np.intp]:
    """Return which rows may have lost digits in float32, ascending; rows of zeros have none to
    lose.
    """
    if issparse(small):
        # the row of an entry is the last one that begins at or before it
        entries = np.flatnonzero((np.abs(small.data) < _NORMAL) & (batch.data != 0))
        return np.unique(np.searchsorted(small.indptr, entries, side="right") - 1)
    with np.errstate(over="ignore"):
        # A row with a square sum of 2⁻¹²⁶ or more has an
        # entry far above where float32 loses digits.
        squares = np.einsum("ij,ij->i", small, small)
    short = np.flatnonzero(~(squares >= _NORMAL))
    held: npt.NDArray[np.intp] = short[batch[short].any(axis=1)]
    return held


def _unit_rows(batch: Any) -> Any:
    """Divide rows by their lengths, in float64: squares of float32 numbers leave the range of
    float32.
    """
    numbers = batch.data if issparse(batch) else batch.reshape(-1)
    counts = np.diff(batch.indptr) if issparse(batch) else np.full(len(batch), batch.shape[1])
    rows = np.repeat(np.arange(len(counts)), counts)
    wide = numbers.astype(np.float64)
    lengths = np.sqrt(np.bincount(rows, weights=wide * wide, minlength=len(counts)))
    lengths[lengths == 0] = 1.0
    unit = (wide / lengths[rows]).astype(np.float32)
    if issparse(batch):
        return csr_array((unit, batch.indices, batch.indptr), shape=batch.shape)
    return unit.reshape(batch.shape)
