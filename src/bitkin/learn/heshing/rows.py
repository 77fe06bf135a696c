"""Rows as kernels take them, and rows to learn, which are checked once before anything is learned
from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import finite_batches
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import stack
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import ROUNDING, HeshingRows

_LEAST, _MOST = 1e-30, 1e30  # mean squared lengths that float32 can learn from


@dataclass(frozen=True)
class TrainingRows:
    """Rows that are finite in float32, and the mean squared length of those with a feature."""

    batch: Batch
    mean_square: float
    squares: float
    """Σ ‖x‖²"""
    n_filled: int
    """Rows with a feature."""


def to_kernel_rows(batch: Batch) -> HeshingRows:
    """Return finite rows as kernels take them; a sparse matrix and its dense copy give the same."""
    small = prepare_rows(batch, normalize=False)
    if not issparse(small):
        return _take_dense(np.asarray(small))
    sparse = csr_array(small)
    if not sparse.data.all():
        # A stored zero is no feature: a dense row would not have it.
        sparse = sparse.copy()
        sparse.eliminate_zeros()
    return HeshingRows(
        indptr=read_only(sparse.indptr.astype(np.int64, copy=False)),
        features=read_only(sparse.indices.astype(np.int32, copy=False).view(np.uint32)),
        values=read_only(sparse.data),
    )


def _take_dense(rows: npt.NDArray[np.float32]) -> HeshingRows:
    """Return the features of dense rows; SciPy, which looks for them one by one, takes five times
    as long.
    """
    n, d = rows.shape
    columns = np.broadcast_to(np.arange(d, dtype=np.uint32), rows.shape)
    is_feature = rows != 0
    if is_feature.all():
        indptr = np.arange(0, n * d + 1, d, dtype=np.int64) if d else np.zeros(n + 1, np.int64)
        return HeshingRows(
            read_only(indptr),
            read_only(columns.ravel()),
            read_only(np.ascontiguousarray(rows.ravel())),
        )
    sizes = np.count_nonzero(is_feature, axis=1)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return HeshingRows(
        read_only(indptr), read_only(columns[is_feature]), read_only(rows[is_feature])
    )


def filled_rows(batch: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Tell which of some dense rows have a feature."""
    return np.asarray((batch != 0).any(axis=1))


def center_rows(batch: Batch, mean: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return rows less `mean`, dense; a row without a feature stays one."""
    small = prepare_rows(batch, normalize=False)
    dense = np.asarray(small.toarray() if issparse(small) else small)
    centered = subtract_mean(dense, mean)
    centered[~filled_rows(dense)] = 0
    return centered


def subtract_mean(rows: npt.NDArray[np.float32], mean: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return `rows` − `mean` in float32; what rounding alone could leave is 0."""
    apart = rows - mean
    apart[np.abs(apart) <= ROUNDING * np.abs(mean)] = 0
    small: npt.NDArray[np.float32] = apart.astype(np.float32, copy=False)
    return small


def refuse_texts(X: Any) -> None:
    """Raise where X is texts, one per row, and say what to make of them."""
    first = X
    if (
        isinstance(X, (list, tuple, np.ndarray))
        and (not isinstance(X, np.ndarray) or X.ndim)
        and len(X)
    ):
        first = X[0]
        if isinstance(first, (list, tuple, np.ndarray)) and len(first) == 1:
            first = first[0]  # a single column
    elif getattr(X, "ndim", None) == 1 and hasattr(X, "iloc") and len(X):
        first = X.iloc[0]  # of a column of a data frame
    if isinstance(first, (str, bytes)):
        raise InvalidInputError(
            f"X must be rows of numbers, got texts, the first of them {first[:40]!r}. Turn them "
            "into rows by bitkin.text_features(texts), to fit and to predict; on the command line, "
            "`bitkin classify` reads texts itself."
        )


def longest_row(rows: HeshingRows) -> int:
    """Return the number of features in the longest row."""
    return int(np.diff(rows.indptr).max(initial=0))


def is_usable(mean_square: float) -> bool:
    """Tell whether rows of this mean squared length can be learned in float32."""
    return _LEAST < mean_square < _MOST


def gather_rows(source: VectorSource) -> Batch:
    """Return all rows of a source, of an iterator too, in memory."""
    if source.shape[0] is not None:
        return source.gather(np.arange(len(source)))
    parts = [batch for _, batch in source.batches()]
    return stack(parts) if parts else np.empty((0, source.shape[1]), dtype=source.dtype)


def measure_rows(batch: Batch) -> TrainingRows:
    """Check that all numbers of an array or CSR array are finite, and return the rows, not copied,
    with their lengths.
    """
    squares = 0.0
    n_filled = 0
    for _, part in finite_batches(batch, "X"):  # which raises for NaN and infinity
        rows = to_kernel_rows(part)
        squares += float(np.square(rows.values, dtype=np.float64).sum())
        n_filled += int((np.diff(rows.indptr) > 0).sum())
    return TrainingRows(batch, to_mean_square(squares, n_filled), squares, n_filled)


def to_mean_square(squares: float, n_filled: int) -> float:
    """Return the mean squared length of rows with a feature, that can be learned; 1 where none has
    any, so that nothing is divided by 0.
    """
    mean_square = squares / n_filled if n_filled else 1.0
    if not _LEAST < mean_square < _MOST:
        raise InvalidInputError(
            f"X must have rows of a length between 1e-15 and 1e15, got {mean_square**0.5:.3g}. "
            "Scale the data."
        )
    return mean_square
