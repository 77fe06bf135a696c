"""Rows of a stream: dense, float32, normalized where the hasher normalizes, and without those that
cannot be learned from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Batch, Flags, Words
from bitkin.code_spec import WORD
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import all_finite
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors.batch import BATCH_BYTES, first_not_finite, name_not_finite, row_slice
from bitkin.notices import warn_caller

FloatRows = npt.NDArray[np.float32]
Maker = TypeVar("Maker")  # whatever made some codes


def stream_rows(batch: Batch, normalize: bool) -> Iterator[tuple[FloatRows, Flags | None]]:
    """Yield blocks of a batch as rows to learn from, and which of the block's rows these are; None:
    all of them.

    Left out is what has numbers that are not finite in float32.
    """
    step = _block_rows(batch)
    for first in range(0, batch.shape[0], step):
        rows = _float32(row_slice(batch, first, min(first + step, batch.shape[0])))
        usable: Flags | None = None
        if not _finite(rows):
            usable = np.asarray(np.isfinite(rows).all(axis=1))
            rows = rows[usable]
        yield (prepare_rows(rows, True) if normalize else rows), usable


def fits_one_block(batch: Batch) -> bool:
    """Whether `stream_rows` yields all of a batch at once."""
    return bool(batch.shape[0] <= _block_rows(batch))


def require_finite(batch: Batch, position: int) -> None:
    """Raise for the first row with a number that is not finite in float32; `position` is that of
    the first row.
    """
    numbers = batch.data if issparse(batch) else batch
    with np.errstate(over="ignore"):
        found = first_not_finite(batch if numbers.dtype == np.float32 else batch.astype(np.float32))
    if found is None:
        return
    row, column, _ = found
    value = batch[row, column]
    what = f"{value} is beyond float32" if np.isfinite(value) else name_not_finite(float(value))
    raise InvalidInputError(
        f"X: {what} at row {row}, column {column}, vector {position + row:,} of the stream. "
        "Nothing of it was learned. Drop such vectors first, or leave out strict=True to have them "
        "skipped and counted."
    )


class SkippedVectors:
    """Counts vectors that were left out, and warns of the first.

    Parameters
    ----------
    warn : bool, default True
        Whether to warn; without, whoever keeps the codes sees the empty ones.
    """

    def __init__(self, *, warn: bool = True) -> None:
        self._warn = warn

    def count(self, usable: Flags) -> int:
        """Return how many vectors cannot be used."""
        if self._warn:
            self._warn = False
            warn_caller(
                "Vectors that are not finite in float32 were skipped: nothing is learned from them "
                "and their codes are empty. `n_skipped_` counts them; strict=True makes them an "
                "error."
            )
        return int(np.count_nonzero(~usable))


def align_with_rows(
    parts: list[tuple[Maker, Words]], usable: Flags | None, last: tuple[Maker, Words]
) -> Iterator[tuple[Maker, Words, Flags | None]]:
    """Yield parts with rows of zeros, marked empty, where vectors were left out.

    Such a row belongs to the epoch at its time, however the stream is cut: where an epoch ended
    with the vector before, to the next. `last` is the epoch after all rows, with no words.
    """
    if usable is None:
        yield from ((model, words, None) for model, words in parts)
        return
    if not parts or parts[-1][0] is not last[0]:
        parts = [*parts, last]
    # places[i] is the row of the batch that the i-th usable vector came from
    places = np.flatnonzero(usable)
    first, done = 0, 0
    for part, (model, words) in enumerate(parts):
        done += len(words)
        # By its place, not by its model: where nothing was learned in an epoch, the next one has
        # the same.
        stop = len(usable) if part == len(parts) - 1 else int(places[done - 1]) + 1
        if stop > first:
            whole = np.zeros((stop - first, words.shape[1]), dtype=WORD)
            whole[usable[first:stop]] = words
            yield model, whole, ~usable[first:stop]
        first = stop


def as_one_row(x: Any) -> Any:
    """Return a vector as a batch of one row."""
    row = as_batch(x, "x")
    if row.shape[0] != 1:
        raise InvalidInputError(
            f"x must be one vector, (n_features,) or (1, n_features), got {row.shape}. Use "
            "sketch_stream for many."
        )
    return row


def as_batch(item: Any, name: str = "vectors") -> Any:
    """Return one item of a stream, a vector or a batch, with two dimensions."""
    if not isinstance(item, np.ndarray) and (issparse(item) or hasattr(item, "columns")):
        return item
    try:
        array = np.asanyarray(item)  # a masked array stays one, and is refused
    except ValueError:
        raise InvalidInputError(
            f"{name} must hold numbers, all rows of one length, got something else."
        ) from None
    if array.ndim not in (1, 2):
        raise InvalidInputError(
            f"{name} must be vectors (n_features,) or batches (n, n_features), got {array.shape}."
        )
    return array.reshape(1, -1) if array.ndim == 1 else array


def _block_rows(batch: Batch) -> int:
    return max(1, BATCH_BYTES // (4 * int(batch.shape[1])))


def _finite(rows: FloatRows) -> bool:
    """Whether all numbers are finite; for a single vector, its product with itself tells so in a
    fifth of the time.
    """
    return all_finite(rows) if len(rows) == 1 else first_not_finite(rows) is None


def _float32(rows: Any) -> FloatRows:
    if type(rows) is np.ndarray and rows.dtype == np.float32 and rows.flags.c_contiguous:
        return rows
    dense = rows.toarray() if issparse(rows) else rows
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(dense, dtype=np.float32)
