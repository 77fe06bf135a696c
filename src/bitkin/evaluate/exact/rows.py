"""Rows to compare: a dense or CSR matrix in memory, checked once, then looked at a block at a time.

Every value is finite. A CSR matrix has sorted columns without duplicates and never becomes dense as
a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import threads
from bitkin.arrays import Batch, Floats, Ids
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import first_not_finite, stack
from bitkin.io.vectors.cells import vectors_in_cells
from bitkin.io.vectors.columns import column_names
from bitkin.io.vectors.rows import are_paths, as_rows, given_csr

_VALUES_PER_PIECE = 2**18  # read at a time: they stay in the cache for the second look


class ComparedRows:
    """The rows of one argument.

    Attributes
    ----------
    matrix : array or scipy CSR
        The rows as they were given, in their own type.
    n_rows, n_columns : int
        The shape.
    largest : float
        The largest absolute value.
    sparse : bool
        Whether the matrix is CSR.
    feature_names : tuple or None
        Names of the columns, where they are those of a data frame.
    """

    def __init__(self, matrix: Any, name: str) -> None:
        self.feature_names = column_names(matrix)
        if isinstance(matrix, (VectorSource, Iterator, str, os.PathLike)) or are_paths(matrix):
            source = open_vectors(matrix, name=name)
            name, self.feature_names = source.name, source.feature_names
            matrix = _read_all(source)
        self.matrix: Any = _to_matrix(matrix, name)
        self.n_rows, self.n_columns = map(int, self.matrix.shape)
        self.sparse = issparse(self.matrix)
        self.largest = _largest_value(self.matrix, name)

    def block(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as a dense array of their own type; a view where that is
        possible.
        """
        rows: Any = self.matrix[start:stop]
        return rows.toarray() if self.sparse else rows  # type: ignore[no-any-return]

    def take(self, ids: Ids) -> Floats:
        """Return a dense float64 copy of the rows `ids`."""
        rows: Any = self.matrix[ids]
        dense = rows.toarray() if self.sparse else rows
        return dense.astype(np.float64, order="C")  # type: ignore[no-any-return]


def _read_all(source: VectorSource) -> Batch:
    """Return all rows of a source."""
    batches = [batch for _, batch in source.batches()]
    if batches:
        return stack(batches)
    shape = (0, source.shape[1])
    return csr_array(shape, dtype=source.dtype) if source.sparse else np.empty(shape, source.dtype)


def _to_matrix(given: Any, name: str) -> Batch:
    """Return what the caller gave as an array or as canonical CSR; the caller's stays as it is."""
    if issparse(given):
        matrix: Any = given_csr(given, name)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        in_cells = vectors_in_cells(given, name)
        if in_cells is not None:
            given = in_cells
        elif isinstance(given, np.ma.MaskedArray) or hasattr(given, "columns"):
            # which knows what is missing, and names the column that holds no numbers
            given = as_rows(given, name)
        try:
            matrix = np.asarray(given)
        except ValueError:
            raise InvalidInputError(
                f"{name} must be a matrix, got rows of different lengths."
            ) from None
    if matrix.ndim != 2:
        raise InvalidInputError(
            f"{name} must be 2-dimensional, got shape {matrix.shape}. Wrap one vector in a list."
        )
    if matrix.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must hold real numbers, got dtype {matrix.dtype}. Convert it to float32."
        )
    # Wider floats gain nothing: distances are float64.
    is_wide = matrix.dtype.kind == "f" and matrix.dtype.itemsize > 8
    return matrix.astype(np.float64) if is_wide else matrix


def _largest_value(matrix: Batch, name: str) -> float:
    """Return the largest absolute value; raise where one is not finite."""
    values = matrix.data if issparse(matrix) else matrix
    per_row = 1 if issparse(matrix) else max(1, matrix.shape[1])
    step = max(1, _VALUES_PER_PIECE // per_row)

    def largest_of(start: int) -> float:
        piece = values[start : start + step]
        if piece.size == 0:  # rows without a column
            return 0.0
        return max(float(piece.max()), -float(piece.min()))

    # NaN passes through all maxima, and an infinity is the largest of all.
    found = threads.run(largest_of, range(0, len(values), step))
    largest = float(np.max(found, initial=0.0))
    if not np.isfinite(largest):
        _refuse_not_finite(matrix, name)
    return largest


def _refuse_not_finite(matrix: Batch, name: str) -> None:
    """Raise the error that names the first value that is not finite."""
    place = first_not_finite(matrix)
    if place is not None:
        row, column, value = place
        raise InvalidInputError(
            f"{name} must hold finite numbers, got {value} in row {row}, column {column}. Drop or "
            "fill that row first."
        )
