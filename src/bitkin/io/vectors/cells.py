"""A column whose cells are vectors: of a pandas or polars data frame, or a flat array of arrays.
Neither library is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import shown, some_of
from bitkin.errors import InvalidInputError


def vectors_in_cells(value: Any, name: str) -> npt.NDArray[Any] | None:
    """Return a column of vectors as rows, all of one length; None where `value` is something else,
    such as a column of numbers or a matrix.
    """
    cells = _cells_of(value)
    if cells is None or cells.ndim == 2:  # a column of arrays of a fixed length
        return cells
    first = next((at for at, cell in enumerate(cells) if not _is_missing(cell)), None)
    if first is None or not _is_vector(cells[first]):
        return None
    rows = [np.asarray(cell) for cell in cells]
    shape = rows[first].shape
    for at, row in enumerate(rows):
        if row.shape == shape and len(shape) == 1 and row.dtype.kind in "biuf":
            continue
        if row.ndim == 0:
            raise InvalidInputError(
                f"{name} must have a vector in every row, got {shown(cells[at])} at row {at}. Drop "
                "or fill such rows first."
            )
        if row.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"{name} must have vectors of numbers, got {shown(cells[at])} at row {at}."
            )
        raise InvalidInputError(
            f"{name} must have flat vectors of one length, got shape {row.shape} at row {at} and "
            f"{shape} at row {first}."
        )
    return np.stack(rows)


def pick_column(frame: Any, column: Any, name: str) -> npt.NDArray[Any]:
    """Return the vectors in one column of a data frame, by its name."""
    names = list(frame.columns)
    if column not in names:
        raise InvalidInputError(
            f"column must name a column of {name}, got {shown(column)}. It has "
            f"{some_of(names, shown)}."
        )
    if names.count(column) > 1:
        raise InvalidInputError(
            f"column must name one column of {name}, got {shown(column)}, which "
            f"{names.count(column)} have as their name."
        )
    rows = vectors_in_cells(frame[column], f"{name}, column {shown(column)}")
    if rows is None and len(frame) == 0:
        raise InvalidInputError(
            f"{name} has no rows: without one, the length of the vectors in column "
            f"{shown(column)} is not known."
        )
    if rows is None:
        raise InvalidInputError(
            f"column must name a column of vectors of {name}, got {shown(column)}, which holds "
            f"{frame[column].dtype}."
        )
    return rows


def _cells_of(value: Any) -> npt.NDArray[Any] | None:
    """Return the cells of what may be a column of vectors: objects (n,), or numbers (n, d)."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind == "O" and value.ndim == 1 else None
    if not hasattr(value, "to_numpy") or hasattr(value, "columns"):
        return None
    cells = np.asarray(value.to_numpy())
    return cells if cells.ndim == 2 or (cells.ndim == 1 and cells.dtype.kind == "O") else None


def _is_vector(cell: Any) -> bool:
    return isinstance(cell, (list, tuple)) or np.ndim(getattr(cell, "shape", None) or 0) == 1


def _is_missing(cell: Any) -> bool:
    """Tell whether a cell is None, or a NaN of any library: only those differ from themselves."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas.NA, and arrays, which are not one truth
        return not _is_vector(cell)
