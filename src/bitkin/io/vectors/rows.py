"""Which numbers and shapes can be vectors: each check returns what it checked, or says what to do
instead.
"""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch
from bitkin.checks import are_offsets, require_unmasked, shown
from bitkin.errors import BitkinError, InvalidInputError
from bitkin.io.vectors.cells import vectors_in_cells

# CSR column numbers are int32 everywhere in bitkin.
MAX_COLUMNS = 2**31 - 1

_REFUSED = {
    "O": "Python objects (ragged rows, text, or missing values?)",
    "c": "complex numbers",
    "S": "text",
    "U": "text",
    "T": "text",
    "V": "records",
    "M": "dates",
    "m": "time spans",
}


def number_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return the type batches of `dtype` have: native byte order, bool as uint8."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        return dtype.newbyteorder("=")
    held = _REFUSED.get(dtype.kind, f"{dtype} numbers")
    raise InvalidInputError(
        f"{name} must hold integers or floats up to 64 bits, got {held}. Convert with astype first."
    )


def row_shape(
    shape: tuple[int, ...], name: str, error: type[BitkinError] = InvalidInputError
) -> tuple[int, int]:
    """Return `shape` as (n, d): n may be 0, d is at least 1 and below 2**31."""
    if len(shape) != 2:
        hint = " Wrap a single vector as [vector]." if len(shape) == 1 else ""
        if shape == (0,):
            hint = " No rows at all are np.empty((0, d))."
        raise InvalidInputError(
            f"{name} must have shape (n, d), one vector a row, got {shape}.{hint}"
        )
    n, d = int(shape[0]), int(shape[1])
    if n < 0 or not 1 <= d <= MAX_COLUMNS:
        raise error(
            f"{name} must have 1 to {MAX_COLUMNS} columns and no negative size, got shape {(n, d)}"
            f"{': its vectors are empty' if d == 0 else ''}."
        )
    return n, d


def is_in_memory(vectors: Any) -> bool:
    """Return whether these are an array, a sparse matrix, a data frame or rows in a list."""
    if isinstance(vectors, (list, tuple)):
        return not are_paths(vectors)
    return hasattr(vectors, "__array__") or issparse(vectors)


def are_paths(vectors: Any) -> bool:
    """Return whether this is a list of files rather than one of rows."""
    return (
        isinstance(vectors, (list, tuple))
        and len(vectors) > 0
        and all(isinstance(item, (str, os.PathLike)) for item in vectors)
    )


def as_rows(value: Any, name: str) -> Batch:
    """Return a matrix, array, data frame or nested list as a 2-D array or CSR array; big data is
    not copied.
    """
    rows = value if issparse(value) else _dense_rows(value, name)
    row_shape(rows.shape, name)
    number_dtype(rows.dtype, name)
    return given_csr(rows, name) if issparse(rows) else rows


def lone_as_row(vectors: Any) -> Any:
    """Return a lone vector as one row, and all else as it is; so also a column of arrays."""
    if isinstance(vectors, (list, tuple)):
        is_lone = bool(vectors) and isinstance(vectors[0], (Real, np.number, np.bool_))
        return [vectors] if is_lone else vectors
    if getattr(vectors, "ndim", 2) != 1 or getattr(vectors.dtype, "kind", "O") == "O":
        return vectors
    if issparse(vectors):
        return vectors.reshape(1, -1)
    return vectors[None] if isinstance(vectors, np.ndarray) else np.asarray(vectors)[None]


def checked_csr(matrix: Any) -> csr_array:
    """Return a sparse matrix as CSR, all its indices checked first, since SciPy's loops trust them.
    Raises ValueError.

    The check may narrow the index arrays of `matrix` itself.
    """
    if matrix.format in ("csr", "csc", "bsr"):
        if matrix.format == "bsr":
            _require_whole_blocks(matrix)
        matrix.check_format(full_check=False)  # which lets go of entries behind the last offset
        # SciPy subtracts neighbours, which overflows, and only where it counts entries.
        if not are_offsets(matrix.indptr, len(matrix.indices)):
            raise ValueError(
                "indptr must be a non-decreasing sequence from 0 to the number of indices"
            )
        matrix.check_format(full_check=True)
    if matrix.format == "dia":
        matrix = _without_outside(matrix)
    if is_half(matrix.dtype):
        matrix.data = matrix.data.astype(np.float32)
    return csr_array(matrix.tocsr())


def given_csr(matrix: Any, name: str) -> csr_array:
    """Return a caller's sparse matrix as CSR, all its indices checked; the matrix itself does not
    change.
    """
    try:
        return checked_csr(type(matrix)(matrix))
    except (ValueError, IndexError) as failure:
        raise InvalidInputError(f"{name} is not a valid sparse matrix: {failure}.") from failure


def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether this is float16, which some SciPy matrices can hold but none can copy."""
    return dtype.kind == "f" and dtype.itemsize == 2


def _require_whole_blocks(matrix: Any) -> None:
    """Raise unless a matrix of blocks is cut into whole ones: SciPy divides by their sides and
    drops the rest.
    """
    if matrix.data.ndim != 3 or 0 in matrix.data.shape[1:]:
        raise ValueError(
            f"blocks must have sides of 1 or more, got data of shape {matrix.data.shape}"
        )
    if any(size % side for size, side in zip(matrix.shape, matrix.data.shape[1:], strict=True)):
        raise ValueError(f"shape {matrix.shape} must be whole blocks of {matrix.data.shape[1:]}")


def _without_outside(matrix: Any) -> Any:
    """Return a matrix of diagonals without those that lie outside of it, whose offsets SciPy would
    compute with.
    """
    n, d = matrix.shape
    inside = (matrix.offsets > -n) & (matrix.offsets < d)
    if inside.all():
        return matrix
    return type(matrix)((matrix.data[inside], matrix.offsets[inside]), shape=matrix.shape)


def _dense_rows(value: Any, name: str) -> npt.NDArray[Any]:
    require_unmasked(value, name)
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        return _frame_rows(value, name)
    if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
        in_cells = vectors_in_cells(value, name)
        if in_cells is not None:
            return in_cells
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as failure:
        raise InvalidInputError(
            f"{name} cannot become a 2-D array, are its rows ragged? NumPy: {failure}"
        ) from failure


def _frame_rows(frame: Any, name: str) -> npt.NDArray[Any]:
    """Return the numbers of a pandas or polars data frame; neither is imported."""
    array: npt.NDArray[Any] = np.asarray(frame.to_numpy())
    if array.dtype.kind != "O":
        return array
    for column, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if getattr(dtype, "kind", "O") in "biuf":
            continue
        if vectors_in_cells(frame[column], f"{name}, column {shown(column)}") is not None:
            raise InvalidInputError(
                f"{name} must hold only numbers, got vectors in column {shown(column)}. Give that "
                f"column alone: {name}[{shown(column)}]."
            )
        raise InvalidInputError(
            f"{name} must hold only numbers, got {dtype} in column {shown(column)}. Drop that "
            "column."
        )
    # pandas' own nullable numbers arrive as objects; missing ones become NaN and are reported with
    # their row.
    return np.asarray(frame.to_numpy(dtype="float64", na_value=np.nan))
