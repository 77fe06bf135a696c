"""Dense vectors in .npy files, read a batch at a time in either memory order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.errors import CorruptFileError
from bitkin.io.stable import StableFile, Stamp
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.files.fixed_rows import FixedRows
from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, NpyHeader, read_npy_header
from bitkin.io.vectors.rows import number_dtype, row_shape
from bitkin.io.vectors.stored import StoredSource


def open_npy(path: Path, batch_rows: int | None = None) -> StoredSource:
    """Open an .npy file of shape (n, d)."""
    with StableFile(path) as file:
        stamp = file.stamp
        header = read_npy_header(file.read(0, PREFIX_BYTES), stamp.size, str(path))
    kind = FortranRows if header.fortran_order else NpyRows
    return kind(path, stamp, header, batch_rows)


class NpyRows(FixedRows):
    """An .npy array in C order: its rows follow one another."""

    def __init__(
        self, path: Path, stamp: Stamp, header: NpyHeader, batch_rows: int | None = None
    ) -> None:
        n, d = row_shape(header.shape, str(path), CorruptFileError)
        dtype = number_dtype(header.dtype, str(path))
        width = d * header.dtype.itemsize
        super().__init__(
            path, stamp, (n, d), dtype, offset=header.offset, width=width, batch_rows=batch_rows
        )
        self._stored = header.dtype

    def _blank(self, n: int) -> npt.NDArray[Any]:
        return np.empty((n, self.shape[1]), dtype=self._stored)

    def _vectors(self, read: npt.NDArray[Any], number_of: Callable[[int], int]) -> npt.NDArray[Any]:
        return read


class FortranRows(NpyRows):
    """An .npy array in Fortran order: its columns follow one another, so a batch is one short read
    per column.
    """

    _has_offsets = False

    def __init__(
        self, path: Path, stamp: Stamp, header: NpyHeader, batch_rows: int | None = None
    ) -> None:
        super().__init__(path, stamp, header, batch_rows)
        self.gap = max(1, self.batch_rows // 2)

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield rows put together from their columns."""
        n, d = len(self), self.shape[1]
        with self._open() as file:
            for first, stop in spans:
                for at in range(first, stop, rows):
                    # number i of column j is number j·n + i of the file
                    columns = np.empty((d, min(stop, at + rows) - at), dtype=self._stored)
                    for j in range(d):
                        file.read_into(
                            self._offset + (j * n + at) * self._stored.itemsize, columns[j]
                        )
                    yield at, columns.T
