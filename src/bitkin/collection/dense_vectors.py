"""Vectors kept as float32 or float16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from bitkin.arrays import Batch, Ids
from bitkin.collection.column import Column
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.training import prepared
from bitkin.io.vectors.batch import first_not_finite

_STEPS = 64  # that the largest number of a row has at least, wherever it is kept in a smaller type


@dataclass(frozen=True, eq=False, slots=True)
class DenseVectors:
    """One row of numbers a slot."""

    column: Column
    sparse = False

    @classmethod
    def empty(cls, dtype: np.dtype[Any], n_features: int) -> Self:
        """Return no vectors yet."""
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

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch as dense rows of the type that is kept; numbers beyond it are refused."""
        return narrowed(dense_float32(batch, name, first), self.dtype, name, first)

    def with_rows(self, batch: Batch) -> DenseVectors:
        """Return these vectors and an accepted batch behind them."""
        return DenseVectors(self.column.with_rows(batch))

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""
        return self.column.array[slots]

    def taken(self, slots: Ids) -> DenseVectors:
        """Return those in some slots alone."""
        return DenseVectors(Column(self.gather(slots), len(slots)))


def dense_float32(batch: Batch, name: str, first: int) -> Batch:
    """Return a batch as dense rows of float32; numbers beyond that are refused."""
    small = prepared(batch, False, name, first)
    return small.toarray() if issparse(small) else small


def narrowed(batch: Batch, dtype: np.dtype[Any], name: str, first: int) -> Batch:
    """Return dense float32 rows in a smaller type; numbers beyond its range are refused."""
    with np.errstate(over="ignore"):
        small = batch.astype(dtype, copy=False)
    found = None if small is batch else first_not_finite(small)
    if found is not None:
        row, column, _ = found
        raise InvalidInputError(
            f"{name} must fit {dtype}, which ends at {np.finfo(dtype).max}, got "
            f"{batch[row, column]} at row "
            f"{first + row}, column {column}. Scale the data down, or keep vectors='float32'."
        )
    if small is not batch:
        _require_digits(batch, small, name, first)
    return small


def _require_digits(batch: Batch, small: Batch, name: str, first: int) -> None:
    """Raise for a row that loses more than int8 steps would: numbers below the range of `small`
    become 0.
    """
    largest = np.abs(batch).max(axis=1, initial=0.0)
    lost = np.flatnonzero(
        (largest > 0) & (largest < np.finfo(small.dtype).smallest_subnormal * _STEPS)
    )
    if len(lost):
        raise InvalidInputError(
            f"{name} must have larger numbers to be kept as {small.dtype}, which takes steps of "
            f"{np.finfo(small.dtype).smallest_subnormal:.1e}: the largest of row {first + lost[0]} "
            "is "
            f"{largest[lost[0]]}. Scale the data up, set such rows to 0, or keep vectors='float32'."
        )
