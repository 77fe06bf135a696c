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
        for _, batch in self.source.batches():
            yield prepared(batch, self.normalize, self.source.name)


def training_vectors(source: VectorSource, *, center: bool, normalize: bool) -> TrainingVectors:
    """Return the rows of `source` with their mean, found in one pass when it is needed."""
    if not center:
        return TrainingVectors(source, normalize, None)
    total, n = np.zeros(source.shape[1]), 0
    for batch in TrainingVectors(source, normalize, None).batches():
        total += np.asarray(batch.sum(axis=0, dtype=np.float64)).reshape(-1)
        n += batch.shape[0]
    if n == 0:
        raise InvalidInputError(f"{source.name} has no rows. Give at least one row to fit.")
    return TrainingVectors(source, normalize, total / n)


def prepared(batch: Any, normalize: bool, name: str = "X") -> Any:
    """Return a batch as float32, its rows scaled to length 1 when asked; a zero row stays zero."""
    small = batch
    if batch.dtype != np.float32:
        with np.errstate(over="ignore"):
            small = batch.astype(np.float32)
        found = first_not_finite(small) if batch.dtype.itemsize > 4 and batch.dtype.kind == "f" else None
        if found is not None and np.isfinite(batch[found[0], found[1]]):
            row, column, _ = found
            raise InvalidInputError(
                f"{name} must fit float32, got {batch[row, column]} at row {row} of a batch, column {column}. "
                "Scale the data down."
            )
    if not normalize:
        return small
    if issparse(small):
        lengths = np.sqrt(small.multiply(small).sum(axis=1, dtype=np.float64)).reshape(-1)
        factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
        data = small.data * np.repeat(factors, np.diff(small.indptr))
        return csr_array((data, small.indices, small.indptr), shape=small.shape)
    lengths = np.sqrt(np.einsum("ij,ij->i", small, small, dtype=np.float64))
    factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
    return small * factors[:, None]
