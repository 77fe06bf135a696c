"""Rows on their way into sums: gathered into chunks that begin at fixed row numbers, whatever the batches are.

Sums round differently when they are grouped differently. Adding up whole chunks, one after another, makes the result
depend on the sequence of rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import threads
from bitkin.io.vectors.batch import Batch, row_slice, stack

_CHUNK_NUMBERS = 1 << 21  # 16 MB in float64
_SPARSE_ROWS = 1 << 14
_PIECE_ROWS = 256
_DENSE_ENOUGH = 0.02  # share of nonzeros from which a dense product is the quicker one


class Chunks:
    """Holds the rows of a chunk that is not full yet.

    A chunk is float64, less `origin`, or CSR in float64 as it is; CSR chunks that are dense enough are handed out in
    dense pieces of bounded size. The origin is the first row where rows are dense and `shifted`, and zero otherwise:
    numbers about it are small where all rows are alike, and exactly zero in a constant column.
    """

    def __init__(self, n_features: int, *, shifted: bool) -> None:
        self.n_features = n_features
        self.shifted = shifted
        self.origin = np.zeros(n_features)
        self._begun = False
        self._rows = int(np.clip(_CHUNK_NUMBERS // n_features, 64, 4096))
        self._dense: npt.NDArray[np.float64] | None = None
        self._sparse: list[csr_array] = []
        self._held = 0

    def move_origin(self, origin: npt.ArrayLike) -> None:
        """Set the origin, before any row is held."""
        self._begun = True
        self.origin[:] = origin

    def push(self, rows: Batch) -> Iterator[Any]:
        """Yield the chunks that `rows` complete. Each is overwritten by the next."""
        if not self._begun and rows.shape[0]:
            self.move_origin(rows[0] if self.shifted and not issparse(rows) else 0.0)
        size = _SPARSE_ROWS if issparse(rows) else self._rows
        if self._held and issparse(rows) != bool(self._sparse):
            yield from self.rest()
            self._sparse, self._held = [], 0
        at = 0
        while at < rows.shape[0]:
            stop = min(rows.shape[0], at + size - self._held)
            self._hold(row_slice(rows, at, stop))
            at = stop
            if self._held == size:
                yield from self.rest()
                self._sparse, self._held = [], 0

    def rest(self) -> Iterator[Any]:
        """Yield what is held, without letting go of it."""
        if self._sparse:
            yield from self._sparse_chunks(stack(self._sparse))
        elif self._held and self._dense is not None:
            yield self._dense[: self._held]

    def _hold(self, rows: Batch) -> None:
        if issparse(rows):
            self._sparse.append(rows.astype(np.float64))
        else:
            if self._dense is None:
                self._dense = np.empty((self._rows, self.n_features))
            self._fill(self._dense[self._held : self._held + len(rows)], rows)
        self._held += rows.shape[0]

    def _fill(self, out: npt.NDArray[np.float64], rows: npt.NDArray[Any]) -> None:
        def piece(first: int) -> None:
            which = slice(first, first + _PIECE_ROWS)
            np.subtract(rows[which], self.origin, out=out[which])

        threads.run(piece, range(0, len(rows), _PIECE_ROWS))

    def _sparse_chunks(self, rows: csr_array) -> Iterator[Any]:
        if not self.origin.any() and rows.nnz < _DENSE_ENOUGH * rows.shape[0] * rows.shape[1]:
            yield rows
            return
        for first in range(0, rows.shape[0], self._rows):
            yield row_slice(rows, first, min(first + self._rows, rows.shape[0])).toarray() - self.origin
