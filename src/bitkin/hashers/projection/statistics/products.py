"""Matrix products in float64, cut into pieces that do not depend on the number of threads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Floats

_TILE = 400  # columns: large enough for BLAS, several of them for several threads
_BLOCK_NUMBERS = 1 << 20  # an 8 MB piece of an operand


def add_products(total: Floats, chunk: Floats) -> None:
    """Add chunkᵀ · chunk to the tiles on and above the diagonal of `total`; the rest is left to
    `mirror`.
    """

    def tile(corner: tuple[slice, slice]) -> None:
        rows, columns = corner
        total[rows, columns] += chunk[:, rows].T @ chunk[:, columns]

    with threads.blas_in_one_thread():
        threads.run(tile, _upper_tiles(len(total)))


def add_column_sums(total: Floats, chunk: Floats) -> None:
    """Add the sums of the columns of `chunk` to `total`, row after row."""

    def piece(columns: slice) -> None:
        total[columns] += chunk[:, columns].sum(axis=0)

    threads.run(piece, [columns for rows, columns in _upper_tiles(len(total)) if rows == columns])


def mirror(total: Floats) -> None:
    """Fill the tiles below the diagonal from those above, so that `total` is exactly symmetric."""
    for rows, columns in _upper_tiles(len(total)):
        if rows == columns:
            square = total[rows, columns]
            below = np.tril_indices(len(square), -1)
            square[below] = square.T[below]
        else:
            total[columns, rows] = total[rows, columns].T


def upper_times(total: Floats, right: Floats) -> Floats:
    """Return S · right for the symmetric S whose tiles on and above the diagonal are those of
    `total`.
    """
    out = np.zeros(right.shape)
    with threads.blas_in_one_thread():
        for rows, columns in _upper_tiles(len(total)):
            if rows == columns:
                upper = np.triu(total[rows, columns])
                out[rows] += (upper + np.triu(upper, 1).T) @ right[rows]
            else:
                out[rows] += total[rows, columns] @ right[columns]
                out[columns] += total[rows, columns].T @ right[rows]
    return out


def row_pieces(n_rows: int, width: int) -> list[slice]:
    """Cut rows into pieces of about 8 MB in float64, each worth a thread."""
    step = max(64, _BLOCK_NUMBERS // max(1, width))
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
    count = -(-size // _TILE)
    edges = [size * i // count for i in range(count + 1)] if count else []
    spans = [slice(first, stop) for first, stop in pairwise(edges)]
    return [(spans[i], spans[j]) for j in range(count) for i in range(j + 1)]
