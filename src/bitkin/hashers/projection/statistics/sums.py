"""Sums over rows that round alike, however the rows are cut into batches and however many threads
there are.

Sums round differently when they are grouped differently. So rows are gathered into chunks that
begin at fixed row numbers (`RowChunks`), whole chunks are added up one after another, and matrix
products are cut into tiles whose size depends on the matrix alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import threads
from bitkin.arrays import Batch, Floats
from bitkin.io.vectors.batch import row_slice, stack

_CHUNK_NUMBERS = 1 << 21  # 16 MB in float64
_SPARSE_CHUNK_ROWS = 1 << 14
_PIECE_ROWS = 256  # copied by one thread at a time
_DENSE_ENOUGH = 0.02  # share of nonzeros from which a dense product is the quicker one
_ORIGIN_ROWS = 63
_TILE = 400  # columns: large enough for BLAS, several of them for several threads
_PIECE_NUMBERS = 1 << 20  # an 8 MB piece of an operand


class RowChunks:
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
        # The lower median of each column over up to 63 rows, evenly spaced from first to last: one
        # of the column's own numbers.
        count = min(self._held, _ORIGIN_ROWS)
        middle = (count - 1) // 2
        some = self._dense[np.arange(count) * self._held // count]
        median: Floats = np.partition(some, middle, axis=0)[middle]
        return median

    def set_origin(self, origin: npt.NDArray[np.float64]) -> None:
        """Set the origin for good, before any row is held."""
        self._origin = origin.copy()

    def push(self, rows: Batch) -> Iterator[Any]:
        """Yield the chunks that `rows` complete. Each is overwritten by the next."""
        size = _SPARSE_CHUNK_ROWS if issparse(rows) else self._rows
        if self._held and rows.shape[0] and issparse(rows) != bool(self._sparse):
            yield from self._release()
        at = 0
        while at < rows.shape[0]:
            stop = min(rows.shape[0], at + size - self._held)
            self._hold(row_slice(rows, at, stop))
            at = stop
            if self._held == size:
                yield from self._release()

    def rest(self) -> Iterator[Any]:
        """Yield what is held, without letting go of it."""
        if self._sparse:
            yield from self._sparse_chunks(stack(self._sparse))
        elif self._held and self._dense is not None:
            yield self._dense[: self._held] - self.origin

    def _release(self) -> Iterator[Any]:
        """Yield what is held, and hold nothing any more."""
        origin = self._origin = self.origin
        if self._sparse:
            yield from self._sparse_chunks(stack(self._sparse))
        elif self._dense is not None:
            chunk = self._dense[: self._held]
            if origin.any():

                def subtract(which: slice) -> None:
                    np.subtract(chunk[which], origin, out=chunk[which])

                starts = range(0, len(chunk), _PIECE_ROWS)
                threads.run(subtract, [slice(at, at + _PIECE_ROWS) for at in starts])
            yield chunk
        self._sparse, self._held = [], 0

    def _hold(self, rows: Batch) -> None:
        if issparse(rows):
            self._sparse.append(rows.astype(np.float64))
        else:
            if self._dense is None:
                self._dense = np.empty((self._rows, self.n_features))
            room = self._dense[self._held : self._held + len(rows)]

            def copy(which: slice) -> None:
                np.copyto(room[which], rows[which])

            starts = range(0, len(rows), _PIECE_ROWS)
            threads.run(copy, [slice(at, at + _PIECE_ROWS) for at in starts])
        self._held += rows.shape[0]

    def _sparse_chunks(self, rows: csr_array) -> Iterator[Any]:
        origin = self.origin
        if not origin.any() and rows.nnz < _DENSE_ENOUGH * rows.shape[0] * rows.shape[1]:
            yield rows
            return
        for first in range(0, rows.shape[0], self._rows):
            yield row_slice(rows, first, min(first + self._rows, rows.shape[0])).toarray() - origin


def add_products(products: Floats, chunk: Any, sums: Floats | None = None) -> None:
    """Add chunkᵀ · chunk to the tiles on and above the diagonal of `products`, and the sums of the
    columns to `sums`; the tiles below are left to `mirror`. A chunk is dense or CSR.
    """
    if issparse(chunk):
        products += (chunk.T @ chunk).toarray()
        if sums is not None:
            sums += column_sums(chunk)
        return

    def add_tile(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        products[rows, columns] += chunk[:, rows].T @ chunk[:, columns]
        if rows == columns and sums is not None:
            sums[columns] += chunk[:, columns].sum(axis=0)

    with threads.blas_in_one_thread():
        threads.run(add_tile, _upper_tiles(len(products)))


def mirror(products: Floats) -> None:
    """Fill the tiles below the diagonal from those above: `products` is exactly symmetric then."""
    for rows, columns in _upper_tiles(len(products)):
        if rows == columns:
            square = products[rows, columns]
            below = np.tril_indices(len(square), -1)
            square[below] = square.T[below]
        else:
            products[columns, rows] = products[rows, columns].T


def upper_times(products: Floats, right: Floats) -> Floats:
    """Return S · right for the symmetric S whose tiles on and above the diagonal are those of
    `products`.
    """
    out = np.zeros(right.shape)
    with threads.blas_in_one_thread():
        for rows, columns in _upper_tiles(len(products)):
            if rows == columns:
                # of a tile on the diagonal only the upper triangle is sure to be filled
                upper = np.triu(products[rows, columns])
                out[rows] += (upper + np.triu(upper, 1).T) @ right[rows]
            else:
                # a tile above the diagonal stands for its mirror image too
                out[rows] += products[rows, columns] @ right[columns]
                out[columns] += products[rows, columns].T @ right[rows]
    return out


def row_pieces(n_rows: int, width: int) -> list[slice]:
    """Cut rows into pieces of about 8 MB in float64, each worth a thread."""
    step = max(64, _PIECE_NUMBERS // max(1, width))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def entry_sums(positions: npt.NDArray[Any], numbers: npt.NDArray[Any], size: int) -> Floats:
    """Add up `numbers` by their positions, 0 … `size` − 1, in float64 and in the order given."""
    return np.bincount(positions, numbers, size).astype(np.float64, copy=False)


def column_sums(rows: Any) -> Floats:
    """Add up rows in float64, one after another: CSR rows and their dense copy round alike."""
    if issparse(rows):
        return entry_sums(rows.indices, rows.data, rows.shape[1])
    sums: Floats = rows.sum(axis=0, dtype=np.float64)
    return sums


def _upper_tiles(size: int) -> list[tuple[slice, slice]]:
    """Return the tiles on and above the diagonal of a square matrix, as rows and columns."""
    count = -(-size // _TILE)
    edges = [size * i // count for i in range(count + 1)] if count else []
    spans = [slice(first, stop) for first, stop in pairwise(edges)]
    return [(spans[i], spans[j]) for j in range(count) for i in range(j + 1)]
