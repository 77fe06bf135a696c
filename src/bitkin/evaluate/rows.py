"""Rows to compare: a dense or CSR matrix, checked once, then read a block at a time.

Every value is finite. A CSR matrix has sorted columns without duplicates and never becomes dense as
a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import threads
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.columns import column_names
from bitkin.io.vectors.rows import as_rows

_PIECE = 2**18  # values read at a time: they stay in the cache for the second look


class Rows:
    """The rows of one argument.

    Attributes
    ----------
    n_rows, n_columns : int
        The shape.
    largest : float
        The largest absolute value.
    csr : scipy CSR or None
        The matrix, when it is sparse.
    feature_names : tuple or None
        Names of the columns, where they are those of a data frame.
    """

    def __init__(self, matrix: Any, name: str) -> None:
        is_sparse = scipy.sparse.issparse(matrix)
        held: Any = _canonical(matrix) if is_sparse else _dense(matrix, name)
        if held.ndim != 2:
            raise InvalidInputError(
                f"{name} must be 2-dimensional, got shape {held.shape}. Wrap one vector in a list."
            )
        if held.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"{name} must hold real numbers, got dtype {held.dtype}. Convert it to float32."
            )
        self.n_rows, self.n_columns = map(int, held.shape)
        self.feature_names = column_names(matrix)
        self.csr: Any = held if is_sparse else None
        self._dense: npt.NDArray[Any] | None = None if is_sparse else held
        self.largest = self._find_largest(name)

    def block(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as a dense array of their own type; a view where that is
        possible.
        """
        if self._dense is not None:
            return self._dense[start:stop]
        return self.csr[start:stop].toarray()  # type: ignore[no-any-return]

    def take(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return a dense float64 copy of the rows `ids`."""
        if self._dense is not None:
            return self._dense[ids].astype(np.float64, order="C")
        return self.csr[ids].toarray().astype(np.float64, copy=False)  # type: ignore[no-any-return]

    def take_csr(self, ids: npt.NDArray[np.int64]) -> Any:
        """Return a float64 CSR copy of the rows `ids`; the matrix must be sparse."""
        return self.csr[ids].astype(np.float64)

    def _find_largest(self, name: str) -> float:
        """Return the largest absolute value; raise where one is not finite."""
        if self._dense is None:
            values: npt.NDArray[Any] = self.csr.data
            step = _PIECE
        else:
            values = self._dense
            step = max(1, _PIECE // max(1, self.n_columns))

        def look(start: int) -> float:
            piece = values[start : start + step]
            if piece.size == 0:
                return 0.0
            largest = max(float(piece.max()), -float(piece.min()))
            # Not finite: NaN passes through `max`, an infinity is the largest of all.
            if not np.isfinite(largest):
                self._refuse(name, start, piece)
            return largest

        return max(threads.run(look, range(0, len(values), step)), default=0.0)

    def _refuse(self, name: str, start: int, piece: npt.NDArray[Any]) -> None:
        """Raise the error that names the first value of `piece` that is not finite."""
        at = np.unravel_index(int(np.argmin(np.isfinite(piece))), piece.shape)
        value = piece[at]
        if self._dense is not None:
            row, column = start + int(at[0]), int(at[1])
        else:
            place = start + int(at[0])
            offsets: npt.NDArray[Any] = self.csr.indptr
            row, column = (
                int(np.searchsorted(offsets, place, side="right")) - 1,
                int(self.csr.indices[place]),
            )
        raise InvalidInputError(
            f"{name} must hold finite numbers, got {value} in row {row}, column {column}. Drop or "
            "fill that row first."
        )


def _canonical(matrix: Any) -> Any:
    """Return `matrix` as CSR with sorted columns and without duplicates; the caller's matrix stays
    as it is.
    """
    csr = matrix.tocsr()
    if csr.dtype == np.longdouble:
        csr = csr.astype(np.float64)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _dense(matrix: Any, name: str) -> npt.NDArray[Any]:
    if isinstance(matrix, np.ma.MaskedArray) or hasattr(matrix, "dtypes"):
        # which knows what is missing, and names the column that holds no numbers
        matrix = as_rows(matrix, name)
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be a matrix, got rows of different lengths."
        ) from None
    # Wider floats gain nothing: distances are float64.
    return (
        array.astype(np.float64) if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array
    )
