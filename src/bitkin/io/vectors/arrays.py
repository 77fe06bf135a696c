"""Vectors already in memory: arrays, sparse matrices and whatever turns into one."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Batch
from bitkin.io.vectors.batch import Span, row_slice
from bitkin.io.vectors.rows import number_dtype
from bitkin.io.vectors.stored import StoredSource


class ArraySource(StoredSource):
    """A 2-D array or CSR array, checked by `as_rows`; it is never copied whole."""

    def __init__(self, array: Batch, name: str, batch_rows: int | None = None) -> None:
        n, d = array.shape
        sparse = issparse(array)
        row_bytes = array.nnz * (array.dtype.itemsize + 4) / max(1, n) + 4 if sparse else None
        dtype = number_dtype(array.dtype, name)
        super().__init__(
            name, (n, d), dtype, sparse=sparse, row_bytes=row_bytes, batch_rows=batch_rows
        )
        self._array = array

    def _pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        for first, stop in spans:
            for at in range(first, stop, rows):
                yield at, row_slice(self._array, at, min(stop, at + rows))

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        return self._array[rows]
