"""What a batch is, and how batches are cut, joined and checked.

A batch is a C-contiguous 2-D array, or a CSR array with sorted, distinct int32 column numbers in
every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse, vstack

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError

Span: TypeAlias = tuple[int, int]

BATCH_BYTES = 8_000_000
"""About how large a batch is, unless a caller says otherwise."""


def rows_per_batch(row_bytes: float) -> int:
    """Return how many rows of so many bytes make a batch of about `BATCH_BYTES`."""
    return max(1, int(BATCH_BYTES / max(1.0, row_bytes)))


def is_one_batch(rows: Batch) -> bool:
    """Return whether rows in memory are no more than a source would give as one batch."""
    return rows.shape[0] == 1 or bool(rows.shape[0] <= rows_per_batch(bytes_per_row(rows)))


def bytes_per_row(rows: Batch) -> float:
    """Return how many bytes a row of an array takes, or of a CSR array on average."""
    n, d = rows.shape
    if not issparse(rows):
        return float(d * rows.dtype.itemsize)
    # Per entry its number and an int32 column, per row an int32 offset.
    return float(rows.nnz * (rows.dtype.itemsize + 4) / max(1, n) + 4)


def plain_batch(piece: Batch, dtype: np.dtype[Any]) -> Batch:
    """Return `piece` as a batch of `dtype`; the data is copied only where it must change."""
    if not issparse(piece):
        return np.ascontiguousarray(piece, dtype=dtype)
    if piece.dtype != dtype:
        piece = piece.astype(dtype)
    # one type of index for all: kernels would be compiled again for another
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
    parts = (
        matrix.data[begin:end],
        matrix.indices[begin:end],
        matrix.indptr[first : stop + 1] - begin,
    )
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
    """Cover ascending, distinct row numbers with spans `(first, stop)`, joining those at most `gap`
    rows apart.
    """
    if len(rows) == 0:
        return []
    # A span ends at every gap that is too wide, and the next one begins behind it.
    breaks = np.flatnonzero(np.diff(rows) > gap)
    firsts = rows[np.concatenate(([0], breaks + 1))]
    lasts = rows[np.concatenate((breaks, [len(rows) - 1]))]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def first_not_finite(batch: Batch) -> tuple[int, int, float] | None:
    """Return the row, column and value of the first NaN or infinity in a batch, or None.

    NaN and infinity survive a sum, so one fast pass clears almost every batch. The sum of good
    numbers may overflow too: only the search behind it decides.
    """
    numbers = batch.data if issparse(batch) else batch
    if numbers.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        # float16 overflows at 65504, after a handful of rows.
        total = np.add.reduce(numbers, axis=None, dtype=np.promote_types(numbers.dtype, np.float32))
    if np.isfinite(total):
        return None
    # the sum may have overflowed without any bad number: look at each
    bad = ~np.isfinite(numbers).reshape(-1)
    at = int(np.argmax(bad))
    if not bad[at]:
        return None
    return *_place(batch, at), float(numbers.reshape(-1)[at])


def require_finite(batch: Batch, name: str, batch_number: int | None = None) -> Batch:
    """Return `batch`, whose rows count from 0, when all its numbers are finite."""
    found = first_not_finite(batch)
    if found is not None:
        row, column, value = found
        raise not_finite(value, name, f"row {row}", column, batch_number)
    return batch


def not_finite(
    value: float, name: str, row: str, column: int, batch_number: int | None = None
) -> InvalidInputError:
    """Return the error for a NaN or an infinity, with the place where it was found."""
    number = "" if batch_number is None else f", batch {batch_number}"
    return InvalidInputError(
        f"{name}: {name_not_finite(value)} at {row}, column {column}{number}. Every value must be "
        "finite; drop or replace such rows first."
    )


def name_not_finite(value: float) -> str:
    """Return how messages call a number that is not finite."""
    if np.isnan(value):
        return "NaN"
    return "infinity" if value > 0 else "-infinity"


def first_changed(batch: Batch, kept: Batch) -> tuple[int, int, Any] | None:
    """Return the row, column and value of the first number that is not the same in `kept`, or None.

    `kept` is `batch` cast to another type. What is not finite in it is skipped here: it is reported
    as such elsewhere.
    """
    if batch.dtype == kept.dtype or _holds_all(kept.dtype, batch.dtype):
        return None
    numbers, cast = (batch.data, kept.data) if issparse(batch) else (batch, kept)
    changed = ~_equal(numbers, cast).reshape(-1)
    at = int(np.argmax(changed)) if changed.size else 0
    if not changed.size or not changed[at]:
        return None
    return *_place(batch, at), numbers.reshape(-1)[at]


def _holds_all(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Return whether `wide` can hold every number of `narrow`. NumPy calls 64-bit integers to
    float64 safe, which they are not.
    """
    return np.can_cast(narrow, wide, "safe") and not (
        narrow.kind in "iu" and narrow.itemsize == 8 and wide.kind == "f"
    )


def _equal(numbers: npt.NDArray[Any], cast: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where numbers of one type and their casts to another are the same, or the cast is not
    finite.
    """
    if cast.dtype.kind != "f":
        bounds = np.iinfo(cast.dtype)
        return np.asarray((numbers >= bounds.min) & (numbers <= bounds.max))
    if numbers.dtype.kind == "f":
        return np.asarray((cast == numbers) | ~np.isfinite(cast))
    # The largest integers round up to a float beyond their type, for which casting back is
    # undefined: floats from 2^bits (2^(bits − 1) if signed) on are no equal of any integer.
    beyond = 2.0 ** (8 * numbers.dtype.itemsize - (numbers.dtype.kind == "i"))
    with np.errstate(invalid="ignore"):
        back = cast.astype(numbers.dtype)
    return np.asarray(((cast < beyond) & (back == numbers)) | ~np.isfinite(cast))


def _place(batch: Batch, at: int) -> tuple[int, int]:
    """Return row and column of number `at` of a batch, as it lies in memory."""
    if issparse(batch):
        return int(np.searchsorted(batch.indptr, at, side="right")) - 1, int(batch.indices[at])
    return at // batch.shape[1], at % batch.shape[1]
