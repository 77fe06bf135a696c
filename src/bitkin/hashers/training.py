"""What projections and rotations learn from: rows on demand, centred and normalized as the hasher asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import first_not_finite


@dataclass(frozen=True, eq=False, slots=True)
class TrainingVectors:
    """The rows to fit. Batches come in float32 and are normalized; the mean is left to the learner to subtract."""

    source: VectorSource
    normalize: bool
    mean: npt.NDArray[np.float64] | None
    """Mean of the (normalized) rows; None where the hasher does not centre."""

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.source.shape[1]

    def batches(self) -> Iterator[Any]:
        """Yield float32 arrays or CSR arrays."""
        for first, batch in self.source.batches():
            yield prepared(batch, self.normalize, self.source.name, first)


def training_vectors(source: VectorSource, *, center: bool, normalize: bool) -> TrainingVectors:
    """Return the rows of `source` with their mean, found in one pass that also looks at every number.

    The mean is rounded to float32: so sums that differ in the last bit, by batches or by being sparse, give one model.
    """
    total, n = np.zeros(source.shape[1]), 0
    for batch in TrainingVectors(source, normalize, None).batches():
        total += _column_sums(batch)
        n += batch.shape[0]
    if n == 0:
        raise InvalidInputError(f"{source.name} has no rows. Give at least one row to fit.")
    mean = (total / n).astype(np.float32).astype(np.float64) if center else None
    return TrainingVectors(source, normalize, mean)


def prepared(batch: Any, normalize: bool, name: str = "X", first: int = 0) -> Any:
    """Return a batch as float32, its rows scaled to length 1 when asked; a zero row stays zero."""
    small = batch
    if batch.dtype != np.float32:
        with np.errstate(over="ignore"):
            small = batch.astype(np.float32)
        found = first_not_finite(small) if batch.dtype.itemsize > 4 and batch.dtype.kind == "f" else None
        if found is not None and np.isfinite(batch[found[0], found[1]]):
            row, column, _ = found
            raise InvalidInputError(
                f"{name} must fit float32, got {batch[row, column]} at row {first + row}, column {column}. "
                "Scale the data down."
            )
    return _unit_rows(small) if normalize else small


def _column_sums(batch: Any) -> npt.NDArray[np.float64]:
    """Add up rows in float64, one after another: a sparse batch and its dense copy round alike."""
    if issparse(batch):
        return np.bincount(batch.indices, batch.data, batch.shape[1]).astype(np.float64, copy=False)
    sums: npt.NDArray[np.float64] = batch.sum(axis=0, dtype=np.float64)
    return sums


def _unit_rows(batch: Any) -> Any:
    """Divide rows by their lengths, in float64: squares of float32 numbers leave the range of float32."""
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
