"""What tells whether rows are the same as before: a digest of their numbers, in little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import plain_batch, row_slice, rows_per_batch
from bitkin.io.vectors.rows import number_dtype

_PIECE_BYTES = 2**20  # by one thread
_SPARSE_ROWS = 4096  # at a time, however many entries they have


def digest_rows(rows: ComparedRows | VectorSource) -> str:
    """Return a digest that rows share exactly when they hold the same numbers of the same type in
    the same order, sparse or dense alike on both sides.

    An array in any memory order, a file of its rows, and several files of them have one digest;
    float32 rows and their float64 copy have not, nor have sparse rows and their dense copy. The
    source must be one that can be read again.
    """
    if isinstance(rows, ComparedRows):
        n_columns, dtype, sparse = rows.n_columns, number_dtype(rows.matrix.dtype, ""), rows.sparse
    else:
        n_columns, dtype, sparse = rows.shape[1], rows.dtype, rows.sparse
    # Digests are of batches, so that these must depend on nothing but the shape and the type.
    step = _SPARSE_ROWS if sparse else rows_per_batch(n_columns * dtype.itemsize)
    whole = hashlib.blake2b(digest_size=32)
    n_rows = 0
    for batch in _batches_of(rows, step, dtype):
        n_rows += batch.shape[0]
        for part in _parts_of(batch):
            for digest in _digest_pieces(part):
                whole.update(digest)
    whole.update(repr((n_rows, n_columns, dtype.str, sparse)).encode())
    return whole.hexdigest()


def _batches_of(
    rows: ComparedRows | VectorSource, step: int, dtype: np.dtype[Any]
) -> Iterator[Batch]:
    if isinstance(rows, ComparedRows):
        for start in range(0, rows.n_rows, step):
            stop = min(start + step, rows.n_rows)
            batch = row_slice(rows.matrix, start, stop)
            # the indices of a plain batch are int32, in which columns beyond become others
            yield batch.astype(dtype) if _is_wide(batch) else plain_batch(batch, dtype)
    else:
        for _, batch in rows.batches(step):
            yield batch


def _parts_of(batch: Batch) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays that make a batch, indices of one type whoever made it."""
    if not issparse(batch):
        return (batch,)
    kind = np.int64 if _is_wide(batch) else np.int32
    return batch.indptr.astype(np.int64), batch.indices.astype(kind, copy=False), batch.data


def _is_wide(batch: Batch) -> bool:
    """Tell whether columns of sparse rows are beyond the range of int32; no source has so many."""
    return bool(issparse(batch)) and int(batch.shape[1]) >= 2**31


def _digest_pieces(values: npt.NDArray[Any]) -> list[bytes]:
    """Return digests of a contiguous array, a piece at a time, and of its size."""
    view = values.reshape(-1).view(np.uint8)

    def digest(start: int) -> bytes:
        return hashlib.blake2b(view[start : start + _PIECE_BYTES].data, digest_size=32).digest()

    found = threads.run(digest, range(0, len(view), _PIECE_BYTES))
    return [len(view).to_bytes(8, "little"), *found]
