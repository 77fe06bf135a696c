"""How vectors are kept for the exact stage: float32 or float16, int8 with a scale, or sparse.

Vectors stand in slots, which `rows.py` finds by row id. All kinds grow at their end, like a
`Column`, and never change otherwise. What is kept of a batch are its `Parts`: one array per column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch, FloatRows, Ids
from bitkin.collection.rows import Column, Pieces
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors.batch import first_not_finite, plain_batch

Parts: TypeAlias = tuple[npt.NDArray[Any], ...]

KINDS = ("float32", "float16", "int8", "csr")
# Steps that the largest number of a row has at least, wherever it is kept in a smaller type.
_LEAST_STEPS = 64
_LARGEST_STEP = 127  # of int8, on either side of 0
_SMALLEST_SCALE = np.float32(2.0**-141)  # float32 keeps smaller ones with less than 8 bits


class StagedVectors:
    """Accepted batches on their way into a store."""

    def __init__(self) -> None:
        self.columns: list[Pieces] = []
        """One per part, none before the first batch."""

    def append(self, parts: Parts) -> None:
        """Hold what was accepted of one more batch."""
        if not self.columns:
            self.columns = [Pieces() for _ in parts]
        for column, part in zip(self.columns, parts, strict=True):
            column.append(part)


class KeptVectors(Protocol):
    """Vectors by slot. They never change, and only the newest may be grown."""

    @property
    def n_features(self) -> int:
        """Length of a vector."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what `gather` returns."""

    @property
    def sparse(self) -> bool:
        """Whether `gather` returns CSR."""

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""

    def accept(self, batch: Batch, name: str, first: int) -> Parts:
        """Return what is kept of a batch; raise where it cannot be kept so."""

    def with_rows(self, staged: StagedVectors) -> Self:
        """Return these vectors and accepted batches behind them; none are left in `staged`."""

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""

    def take(self, slots: Ids) -> Self:
        """Return those in some slots alone, in that order and to the last bit, without room for
        more.
        """


def no_vectors(kind: str, n_features: int) -> KeptVectors:
    """Return an empty store of vectors of a kind."""
    if kind == "csr":
        return SparseVectors.empty(n_features)
    if kind == "int8":
        return ScaledVectors.empty(n_features)
    return DenseVectors.empty(np.dtype(kind), n_features)


@dataclass(frozen=True, eq=False, slots=True)
class DenseVectors:
    """Vectors kept as float32 or float16: one row of numbers per slot."""

    column: Column
    sparse = False

    @classmethod
    def empty(cls, dtype: np.dtype[Any], n_features: int) -> Self:
        """Return an empty store."""
        return cls(Column.empty(dtype, n_features))

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return int(self.column.array.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self.column.array.dtype

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.column.array.nbytes

    def accept(self, batch: Batch, name: str, first: int) -> Parts:
        """Return a batch as dense rows of the type that is kept; numbers beyond it are refused."""
        return (_narrow(_as_float32(batch, name, first), self.dtype, name, first),)

    def with_rows(self, staged: StagedVectors) -> DenseVectors:
        """Return these vectors and accepted batches behind them."""
        if not staged.columns:
            return self
        (rows,) = staged.columns
        return DenseVectors(self.column.with_pieces(rows))

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""
        return self.column.array[slots]

    def take(self, slots: Ids) -> DenseVectors:
        """Return those in some slots alone."""
        return DenseVectors(Column(self.gather(slots), len(slots)))


@dataclass(frozen=True, eq=False, slots=True)
class ScaledVectors:
    """Vectors kept as int8: whole numbers from −127 to 127; times the scale of their slot, they are
    the vector to within half the scale.
    """

    steps: Column
    scales: Column
    dtype = np.dtype(np.float32)
    sparse = False

    @classmethod
    def empty(cls, n_features: int) -> Self:
        """Return an empty store."""
        return cls(Column.empty(np.int8, n_features), Column.empty(np.float32))

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return int(self.steps.array.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.steps.array.nbytes + self.scales.array.nbytes

    def accept(self, batch: Batch, name: str, first: int) -> Parts:
        """Return the steps and scales of a batch; rows whose largest step is beyond float32 are
        refused.
        """
        rows = _as_float32(batch, name, first)
        scales = _scales_of(rows)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(scales * np.float32(_LARGEST_STEP)))
        if len(bad):
            row = int(bad[0])
            column = int(np.abs(rows[row]).argmax())
            raise InvalidInputError(
                f"{name} must stay below {np.finfo(np.float32).max} when rounded to int8 steps, "
                f"got {rows[row, column]} at row {first + row}, column {column}. Scale the data "
                "down, or keep vectors='float32'."
            )
        # a subnormal scale has few digits itself, and every
        # number of the row would inherit that error
        lost = np.flatnonzero((scales < _SMALLEST_SCALE) & rows.any(axis=1))
        if len(lost):
            row = int(lost[0])
            raise InvalidInputError(
                f"{name} must have larger numbers to be kept as int8 steps, got "
                f"{np.abs(rows[row]).max()} as the largest of row {first + row}. Scale the data "
                "up, or keep vectors='float32'."
            )
        return _round_to_steps(rows, scales), scales

    def with_rows(self, staged: StagedVectors) -> ScaledVectors:
        """Return these vectors and accepted batches behind them."""
        if not staged.columns:
            return self
        steps, scales = staged.columns
        return ScaledVectors(self.steps.with_pieces(steps), self.scales.with_pieces(scales))

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order: steps times scales."""
        return self.steps.array[slots] * self.scales.array[slots][:, None]

    def take(self, slots: Ids) -> ScaledVectors:
        """Return those in some slots alone."""
        n = len(slots)
        return ScaledVectors(
            Column(self.steps.array[slots], n), Column(self.scales.array[slots], n)
        )


@dataclass(frozen=True, eq=False, slots=True)
class SparseVectors:
    """Vectors kept as CSR, float32: slot s holds `values[ends[s] : ends[s + 1]]`, in `columns` of
    the same places.
    """

    n_features: int
    values: Column
    columns: Column
    ends: Column
    dtype = np.dtype(np.float32)
    sparse = True

    @classmethod
    def empty(cls, n_features: int) -> Self:
        """Return an empty store."""
        ends = Column.empty(np.int64).with_rows(np.zeros(1, dtype=np.int64))
        return cls(n_features, Column.empty(np.float32), Column.empty(np.int32), ends)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return sum(column.array.nbytes for column in (self.values, self.columns, self.ends))

    def accept(self, batch: Batch, name: str, first: int) -> Parts:
        """Return the values, columns and counts per row of a batch in float32; numbers beyond that
        are refused.
        """
        small = prepare_rows(batch, False, name, first)
        rows = plain_batch(small if issparse(small) else csr_array(small), self.dtype)
        return rows.data, rows.indices, np.diff(rows.indptr).astype(np.int64)

    def with_rows(self, staged: StagedVectors) -> SparseVectors:
        """Return these vectors and accepted batches behind them."""
        if not staged.columns:
            return self
        values, columns, counts = staged.columns
        # ends of the new rows, counted from the values that are there already
        ends = self.ends.rows[-1] + np.cumsum(np.concatenate(list(counts.drain())))
        return SparseVectors(
            self.n_features,
            self.values.with_pieces(values),
            self.columns.with_pieces(columns),
            self.ends.with_rows(ends),
        )

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""
        begins = self.ends.array[slots]
        counts = self.ends.array[slots + 1] - begins
        ends = np.concatenate([[0], np.cumsum(counts)])
        # Entry t of the result belongs to slot s with ends[s] ≤ t < ends[s + 1], and is stored at
        # begins[s] + (t − ends[s]).
        places = np.repeat(begins - ends[:-1], counts) + np.arange(ends[-1])
        parts = (self.values.array[places], self.columns.array[places], ends)
        return plain_batch(csr_array(parts, shape=(len(slots), self.n_features)), self.dtype)

    def take(self, slots: Ids) -> SparseVectors:
        """Return those in some slots alone."""
        rows = self.gather(slots)
        columns = (rows.data, rows.indices, rows.indptr.astype(np.int64))
        return SparseVectors(self.n_features, *(Column(column, len(column)) for column in columns))


def _as_float32(batch: Batch, name: str, first: int) -> Batch:
    """Return a batch as dense rows of float32; numbers beyond that are refused."""
    small = prepare_rows(batch, False, name, first)
    return small.toarray() if issparse(small) else small


def _narrow(batch: Batch, dtype: np.dtype[Any], name: str, first: int) -> Batch:
    """Return dense float32 rows in a smaller type; numbers beyond its range are refused."""
    with np.errstate(over="ignore"):
        small = batch.astype(dtype, copy=False)
    if small is batch:
        return small
    largest = np.abs(batch).max(axis=1, initial=0.0)
    # what is not above the largest number of a type is none of its infinities
    within = bool((largest <= np.finfo(dtype).max).all())
    found = None if within else first_not_finite(small)
    if found is not None:
        row, column, _ = found
        raise InvalidInputError(
            f"{name} must fit {dtype}, which ends at {np.finfo(dtype).max}, got "
            f"{batch[row, column]} at row {first + row}, column {column}. Scale the data down, or "
            "keep vectors='float32'."
        )
    _require_digits(largest, dtype, name, first)
    return small


def _require_digits(largest: FloatRows, dtype: np.dtype[Any], name: str, first: int) -> None:
    """Raise for a row that loses more than int8 steps would: numbers below the range of a type
    become 0. `largest` are the largest magnitudes of rows.
    """
    # near zero a type has even steps, its smallest subnormal: a row needs 64 of them at least
    lost = np.flatnonzero(
        (largest > 0) & (largest < np.finfo(dtype).smallest_subnormal * _LEAST_STEPS)
    )
    if len(lost):
        raise InvalidInputError(
            f"{name} must have larger numbers to be kept as {dtype}, which takes steps of "
            f"{np.finfo(dtype).smallest_subnormal:.1e}: the largest of row {first + lost[0]} "
            f"is {largest[lost[0]]}. Scale the data up, set such rows to 0, or keep "
            "vectors='float32'."
        )


def _round_to_steps(batch: FloatRows, scales: FloatRows) -> npt.NDArray[np.int8]:
    """Return rows as whole numbers of steps, each as long as its row's scale; a row of zeros has
    the scale 0.
    """
    steps = np.zeros(batch.shape, dtype=np.float32)
    # x ≈ scale · round(x / scale), off by at most scale / 2 = max|x| / 254
    np.divide(batch, scales[:, None], out=steps, where=scales[:, None] > 0)
    # the quotient of the largest number may round to just above 127
    np.rint(steps, out=steps)
    return np.clip(steps, -_LARGEST_STEP, _LARGEST_STEP, out=steps).astype(np.int8)


def _scales_of(batch: FloatRows) -> FloatRows:
    """Return the step of every row."""
    scales: FloatRows = (np.abs(batch).max(axis=1, initial=0.0) / np.float32(_LARGEST_STEP)).astype(
        np.float32
    )
    return scales
