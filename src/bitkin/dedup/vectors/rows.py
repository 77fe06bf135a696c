"""Rows of vectors to compare, held in memory without loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import Rows
from bitkin.io.vectors import VectorSource
from bitkin.memory import require_memory

_WHOLE_NUMBERS = 2**53  # up to here float64 holds every whole number

_LEAST = 2.0**-400  # sums of squares of such numbers, and of their inverses, keep their digits
_LEAST_32 = 2.0**-60  # the same, for products in float32


def read_rows(source: VectorSource) -> npt.NDArray[Any]:
    """Return all rows, as float32 where it holds every number of their type, else as float64."""
    from bitkin.hashers.wta.column_moments import exact_float_type

    if source.sparse:
        raise InvalidInputError(
            f"{source.name} must hold dense vectors, got sparse rows. For sets, MinHash and "
            "BandIndex find near-duplicates; or convert the rows to a dense array."
        )
    dtype = exact_float_type(source.dtype)
    n, d = source.shape
    if n is not None:
        require_memory(n * d * np.dtype(dtype).itemsize, source.name, "Give fewer rows at a time.")
    batches = []
    for first, batch in source.batches():
        _require_exact(batch, first, source.name)
        batches.append(np.array(batch, dtype=dtype))
    if not batches:
        return np.empty((0, d), dtype=dtype)
    return batches[0] if len(batches) == 1 else np.concatenate(batches)


def require_squares(rows: npt.NDArray[Any], name: str, threshold: float | None) -> npt.NDArray[Any]:
    """Return `rows` so that sums of squares neither overflow nor vanish: extreme float32 as
    float64, while extreme float64 is refused. `threshold` is that of l2, None for cosine.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    sizes = largest[largest > 0].astype(np.float64)
    if not len(sizes):
        return rows
    # l2 compares with the threshold, so that numbers far below it may vanish; cosine with the row
    low, high = float(sizes.min() if threshold is None else threshold), float(sizes.max())
    if rows.dtype == np.float32 and (low < _LEAST_32 or high > 1 / _LEAST_32):
        rows = rows.astype(np.float64)
    if low < _LEAST or high > 1 / _LEAST:
        got = f"{high:.3g}" if high > 1 / _LEAST else f"{low:.3g}"
        what = "got a threshold of" if threshold == low and low < _LEAST else "got rows of up to"
        raise InvalidInputError(
            f"{name} and the threshold of l2 must be between {_LEAST:.3g} and {1 / _LEAST:.3g}, "
            f"whose squares float64 holds, {what} {got}. Multiply all rows, and the threshold of "
            "l2, by one number."
        )
    return rows


def first_equals(rows: npt.NDArray[Any]) -> Rows:
    """Return for every row the first one with the same bytes."""
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    whole = np.ascontiguousarray(rows).view(f"V{rows.itemsize * rows.shape[1]}")[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    equals: Rows = first[inverse].astype(np.int64)
    return equals


def _require_exact(batch: Any, first: int, name: str) -> None:
    """Refuse whole numbers that float64 would round: rows would become equal that are not."""
    if batch.dtype.kind not in "iu" or batch.dtype.itemsize < 8 or not batch.size:
        return
    beyond = batch > _WHOLE_NUMBERS
    if batch.dtype.kind == "i":
        beyond |= batch < -_WHOLE_NUMBERS
    if beyond.any():
        row, column = np.argwhere(beyond)[0]
        raise InvalidInputError(
            f"{name} must hold whole numbers of at most 2**53, which float64 holds exactly, got "
            f"{batch[row, column]} at row {first + row}, column {column}. Subtract an offset from "
            "that column, or drop it if it holds ids."
        )
