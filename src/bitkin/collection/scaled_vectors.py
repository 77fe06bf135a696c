"""Vectors kept as int8, with one scale a vector: a quarter of the space, and an error of at most
half a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch, Ids
from bitkin.collection.column import Column
from bitkin.collection.dense_vectors import dense_float32
from bitkin.errors import InvalidInputError

_MOST = 127
_SMALLEST_STEP = np.float32(2.0**-141)  # float32 keeps smaller ones with less than 8 bits


@dataclass(frozen=True, eq=False, slots=True)
class ScaledVectors:
    """A slot holds whole numbers from −127 to 127; times its scale, they are the vector to within
    half the scale.
    """

    steps: Column
    scales: Column
    dtype = np.dtype(np.float32)
    sparse = False

    @classmethod
    def empty(cls, n_features: int) -> Self:
        """Return no vectors yet."""
        return cls(Column.empty(np.int8, n_features), Column.empty(np.float32))

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return int(self.steps.array.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.steps.array.nbytes + self.scales.array.nbytes

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch as dense rows of float32; rows whose largest step is beyond that are
        refused.
        """
        rows = dense_float32(batch, name, first)
        scales = _scales(rows)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(scales * np.float32(_MOST)))
        if len(bad):
            row = int(bad[0])
            column = int(np.abs(rows[row]).argmax())
            raise InvalidInputError(
                f"{name} must stay below {np.finfo(np.float32).max} when rounded to int8 steps, "
                "got "
                f"{rows[row, column]} at row {first + row}, column {column}. Scale the data down, "
                "or keep "
                "vectors='float32'."
            )
        lost = np.flatnonzero((scales < _SMALLEST_STEP) & rows.any(axis=1))
        if len(lost):
            row = int(lost[0])
            raise InvalidInputError(
                f"{name} must have larger numbers to be kept as int8 steps, got "
                f"{np.abs(rows[row]).max()} as the "
                f"largest of row {first + row}. Scale the data up, or keep vectors='float32'."
            )
        return rows

    def with_rows(self, batch: Batch) -> ScaledVectors:
        """Return these vectors and an accepted batch behind them."""
        steps, scales = _in_steps(batch)
        return ScaledVectors(self.steps.with_rows(steps), self.scales.with_rows(scales))

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order: steps times scales."""
        return self.steps.array[slots] * self.scales.array[slots][:, None]

    def taken(self, slots: Ids) -> ScaledVectors:
        """Return those in some slots alone."""
        n = len(slots)
        return ScaledVectors(
            Column(self.steps.array[slots], n), Column(self.scales.array[slots], n)
        )


def _in_steps(batch: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[Any]]:
    """Return rows as whole numbers and a scale each; a row of zeros has the scale 0."""
    scales = _scales(batch)
    steps = np.zeros(batch.shape, dtype=np.float32)
    np.divide(batch, scales[:, None], out=steps, where=scales[:, None] > 0)
    return np.clip(np.rint(steps), -_MOST, _MOST).astype(np.int8), scales


def _scales(batch: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the step of every row."""
    scales: npt.NDArray[np.float32] = (
        np.abs(batch).max(axis=1, initial=0.0) / np.float32(_MOST)
    ).astype(np.float32)
    return scales
