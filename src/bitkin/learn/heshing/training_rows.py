"""Rows to learn, looked at once before anything is learned from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import stack
from bitkin.learn.heshing.scoring import rows_of


@dataclass(frozen=True)
class TrainingRows:
    """Rows that are finite in float32, and the mean squared length of those with a feature."""

    batch: Batch
    mean_square: float

    def __len__(self) -> int:
        return int(self.batch.shape[0])


def is_usable(mean_square: float) -> bool:
    """Tell whether rows of this mean squared length can be learned in float32."""
    return 1e-30 < mean_square < 1e30


def gathered(source: VectorSource) -> Batch:
    """Return all rows of a source, of an iterator too, in memory."""
    if source.shape[0] is not None:
        return source.gather(np.arange(len(source)))
    parts = [batch for _, batch in source.batches()]
    return stack(parts) if parts else np.empty((0, source.shape[1]), dtype=source.dtype)


def looked_at(batch: Batch) -> TrainingRows:
    """Return rows of an array or CSR array, not copied, once all numbers in them have proved
    good.
    """
    squares, n_filled = 0.0, 0
    for _, part in open_vectors(batch, name="X").batches():
        rows = rows_of(part)
        squares += float(np.square(rows.values, dtype=np.float64).sum())
        n_filled += int((np.diff(rows.indptr) > 0).sum())
    mean_square = squares / n_filled if n_filled else 1.0
    if not is_usable(mean_square):
        raise InvalidInputError(
            f"X must have rows of a length between 1e-15 and 1e15, got {mean_square**0.5:.3g}. "
            "Scale the data."
        )
    return TrainingRows(batch, mean_square)
