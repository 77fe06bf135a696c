"""Rows on their way into sums: gathered into chunks that begin at fixed row numbers, whatever the
batches are.

Sums round differently when they are grouped differently. Adding up whole chunks, one after another,
makes the result depend on the sequence of rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.io.vectors.batch import row_slice, stack

_CHUNK_NUMBERS = 1 << 21  # 16 MB in float64
_SPARSE_ROWS = 1 << 14
_PIECE_ROWS = 256
_DENSE_ENOUGH = 0.02  # share of nonzeros from which a dense product is the quicker one
_ORIGIN_ROWS = 63


class Chunks:
    """Holds the rows of a chunk that is not full yet.

    A chunk is float64, less `origin`, or CSR in float64 as it is; CSR chunks that are dense enough
    are handed out in dense pieces of bounded size.

    Parameters
    ----------
    n_features : int
        Length of a row.
    shifted : bool
        Whether the origin is the median of up to 63 rows of the first chunk, feature by feature,
        where that is dense; else it is zero. Numbers about a median are small where all rows are
        alike, and exactly zero in a constant column; a few rows far from all others do not move it;
        and being one of the numbers, it is whole where they are.
    """

    def __init__(self, n_features: int, *, shifted: bool) -> None:
        self.n_features = n_features
        self.shifted = shifted
        self._origin: npt.NDArray[np.float64] | None = None
        self._rows = int(np.clip(_CHUNK_NUMBERS // n_features, 64, 4096))
        self._dense: npt.NDArray[np.float64] | None = None
        self._sparse: list[csr_array] = []
        self._held = 0

    @property
    def origin(self) -> npt.NDArray[np.float64]:
        """What is subtracted: float64 (n_features,). It may change until the first chunk is
        full.
        """
        if self._origin is not None:
            return self._origin
        if not self.shifted or self._sparse or not self._held or self._dense is None:
            return np.zeros(self.n_features)
        return _median_row(self._dense[: self._held])

    def set_origin(self, origin: npt.NDArray[np.float64]) -> None:
        """Set the origin for good, before any row is held."""
        self._origin = origin.copy()

    def push(self, rows: Batch) -> Iterator[Any]:
        """Yield the chunks that `rows` complete. Each is overwritten by the next."""
        size = _SPARSE_ROWS if issparse(rows) else self._rows
        if self._held and rows.shape[0] and issparse(rows) != bool(self._sparse):
            yield from self._let_go()
        at = 0
        while at < rows.shape[0]:
            stop = min(rows.shape[0], at + size - self._held)
            self._hold(row_slice(rows, at, stop))
            at = stop
            if self._held == size:
                yield from self._let_go()

    def rest(self) -> Iterator[Any]:
        """Yield what is held, without letting go of it."""
        if self._sparse:
            yield from self._sparse_chunks(stack(self._sparse))
        elif self._held and self._dense is not None:
            yield self._dense[: self._held] - self.origin

    def _let_go(self) -> Iterator[Any]:
        origin = self._origin = self.origin
        if self._sparse:
            yield from self._sparse_chunks(stack(self._sparse))
        elif self._dense is not None:
            chunk = self._dense[: self._held]
            if origin.any():
                _by_pieces(
                    lambda which: np.subtract(chunk[which], origin, out=chunk[which]), len(chunk)
                )
            yield chunk
        self._sparse, self._held = [], 0

    def _hold(self, rows: Batch) -> None:
        if issparse(rows):
            self._sparse.append(rows.astype(np.float64))
        else:
            if self._dense is None:
                self._dense = np.empty((self._rows, self.n_features))
            room = self._dense[self._held : self._held + len(rows)]
            _by_pieces(lambda which: np.copyto(room[which], rows[which]), len(rows))
        self._held += rows.shape[0]

    def _sparse_chunks(self, rows: csr_array) -> Iterator[Any]:
        origin = self.origin
        if not origin.any() and rows.nnz < _DENSE_ENOUGH * rows.shape[0] * rows.shape[1]:
            yield rows
            return
        for first in range(0, rows.shape[0], self._rows):
            yield row_slice(rows, first, min(first + self._rows, rows.shape[0])).toarray() - origin


def _median_row(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the lower median of each column over rows from beginning to end, which is one of its
    numbers.
    """
    count = min(len(rows), _ORIGIN_ROWS)
    middle = (count - 1) // 2
    row: npt.NDArray[np.float64] = np.partition(
        rows[np.arange(count) * len(rows) // count], middle, axis=0
    )[middle]
    return row


def _by_pieces(work: Callable[[slice], Any], n_rows: int) -> None:
    threads.run(
        lambda first: work(slice(first, first + _PIECE_ROWS)), range(0, n_rows, _PIECE_ROWS)
    )
