"""What a batch is, and how batches are cut, joined and checked.

A batch is a C-contiguous 2-D array, or a CSR array with sorted, distinct int32 column numbers in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse, vstack

# A 2-D array or a csr_array; SciPy has no types, so neither has their union.
Batch: TypeAlias = Any
Span: TypeAlias = tuple[int, int]


def plain_batch(piece: Batch, dtype: np.dtype[Any]) -> Batch:
    """Return `piece` as a batch of `dtype`; the data is copied only where it must change."""
    if not issparse(piece):
        return np.ascontiguousarray(piece, dtype=dtype)
    if piece.dtype != dtype:
        piece = piece.astype(dtype)
    if piece.nnz < 2**31 and not piece.indices.dtype == piece.indptr.dtype == np.int32:
        parts = (piece.data, piece.indices.astype(np.int32), piece.indptr.astype(np.int32))
        piece = csr_array(parts, shape=piece.shape)
    if not piece.has_canonical_format:
        piece = piece.copy()
        piece.sum_duplicates()
    return piece


def csr_slice(matrix: csr_array, first: int, stop: int) -> csr_array:
    """Return rows `first` to `stop` of a CSR array as views of its data."""
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[stop])
    parts = (matrix.data[begin:end], matrix.indices[begin:end], matrix.indptr[first : stop + 1] - begin)
    return csr_array(parts, shape=(stop - first, matrix.shape[1]))


def row_slice(batch: Batch, first: int, stop: int) -> Batch:
    """Return rows `first` to `stop` of a batch, without copying the numbers."""
    if first == 0 and stop == batch.shape[0]:
        return batch
    return csr_slice(batch, first, stop) if issparse(batch) else batch[first:stop]


def stack(batches: list[Batch]) -> Batch:
    """Return the rows of one or more batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    if issparse(batches[0]):
        return vstack(batches, format="csr")
    return np.concatenate(batches)


def regroup(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Yield the same rows in batches of exactly `rows` rows; the last may be shorter."""
    held: list[Batch] = []
    n_held = 0
    for batch in batches:
        at = 0
        while at < batch.shape[0]:
            stop = min(batch.shape[0], at + rows - n_held)
            held.append(row_slice(batch, at, stop))
            n_held += stop - at
            at = stop
            if n_held == rows:
                yield stack(held)
                held, n_held = [], 0
    if held:
        yield stack(held)


def spans_over(rows: npt.NDArray[np.int64], gap: int) -> list[Span]:
    """Cover ascending, distinct row numbers with spans `(first, stop)`, joining those at most `gap` rows apart."""
    if len(rows) == 0:
        return []
    breaks = np.flatnonzero(np.diff(rows) > gap)
    firsts = rows[np.concatenate(([0], breaks + 1))]
    lasts = rows[np.concatenate((breaks, [len(rows) - 1]))]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def first_not_finite(batch: Batch) -> tuple[int, int, float] | None:
    """Return the row, column and value of the first NaN or infinity in a batch, or None.

    NaN and infinity survive a sum, so one fast pass clears almost every batch. The sum of good numbers may overflow
    too: only the search behind it decides.
    """
    numbers = batch.data if issparse(batch) else batch
    if numbers.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        # float16 overflows at 65504, after a handful of rows.
        total = np.add.reduce(numbers, axis=None, dtype=np.promote_types(numbers.dtype, np.float32))
    if np.isfinite(total):
        return None
    bad = ~np.isfinite(numbers).reshape(-1)
    at = int(np.argmax(bad))
    if not bad[at]:
        return None
    value = float(numbers.reshape(-1)[at])
    if issparse(batch):
        return int(np.searchsorted(batch.indptr, at, side="right")) - 1, int(batch.indices[at]), value
    return at // batch.shape[1], at % batch.shape[1], value
