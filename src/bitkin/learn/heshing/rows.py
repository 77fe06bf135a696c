"""Rows as kernels take them, and rows to learn, which are checked once before anything is learned
from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import finite_batches
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import stack
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import HeshingRows


@dataclass(frozen=True)
class TrainingRows:
    """Rows that are finite in float32, and the mean squared length of those with a feature."""

    batch: Batch
    mean_square: float


def to_kernel_rows(batch: Batch) -> HeshingRows:
    """Return finite rows as kernels take them; a sparse matrix and its dense copy give the same."""
    sparse = csr_array(prepare_rows(batch, normalize=False))
    if issparse(batch) and not sparse.data.all():
        # A stored zero is no feature: a dense row would not have it.
        sparse = sparse.copy()
        sparse.eliminate_zeros()
    return HeshingRows(
        indptr=read_only(sparse.indptr.astype(np.int64, copy=False)),
        features=read_only(sparse.indices.astype(np.int32, copy=False).view(np.uint32)),
        values=read_only(sparse.data),
    )


def longest_row(rows: HeshingRows) -> int:
    """Return the number of features in the longest row."""
    return int(np.diff(rows.indptr).max(initial=0))


def is_usable(mean_square: float) -> bool:
    """Tell whether rows of this mean squared length can be learned in float32."""
    return 1e-30 < mean_square < 1e30


def gather_rows(source: VectorSource) -> Batch:
    """Return all rows of a source, of an iterator too, in memory."""
    if source.shape[0] is not None:
        return source.gather(np.arange(len(source)))
    parts = [batch for _, batch in source.batches()]
    return stack(parts) if parts else np.empty((0, source.shape[1]), dtype=source.dtype)


def measure_rows(batch: Batch) -> TrainingRows:
    """Check that all numbers of an array or CSR array are finite, and return the rows, not copied,
    with their mean squared length.
    """
    squares = 0.0
    n_filled = 0
    for _, part in finite_batches(batch, "X"):  # which raises for NaN and infinity
        rows = to_kernel_rows(part)
        squares += float(np.square(rows.values, dtype=np.float64).sum())
        n_filled += int((np.diff(rows.indptr) > 0).sum())
    # Σ ‖x‖² over the rows with a feature; 1 where none has any, so that nothing is divided by 0.
    mean_square = squares / n_filled if n_filled else 1.0
    if not is_usable(mean_square):
        raise InvalidInputError(
            f"X must have rows of a length between 1e-15 and 1e15, got {mean_square**0.5:.3g}. "
            "Scale the data."
        )
    return TrainingRows(batch, mean_square)
