"""Rows of one width, one after another in a file: read at their offsets, never mapped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.io.stable import StableFile, Stamp
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.stored import StoredSource

# A seek and a read cost about as much as reading this much more.
SEEK_BYTES = 16_384


class Readable(Protocol):
    """Bytes that fill arrays from an offset."""

    def read_into(self, offset: int, out: npt.NDArray[Any]) -> None:
        """Fill the C-contiguous array `out` from byte `offset` on."""


class FixedRows(StoredSource):
    """Rows of `width` bytes from byte `offset` on."""

    def __init__(
        self,
        path: Path,
        stamp: Stamp,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        *,
        offset: int,
        width: int,
        batch_rows: int | None = None,
    ) -> None:
        super().__init__(str(path), shape, dtype, batch_rows=batch_rows)
        self.gap = max(1, SEEK_BYTES // width)
        self._path = path
        self._stamp = stamp
        self._offset = offset
        self._width = width

    def _open(self) -> AbstractContextManager[Readable]:
        return StableFile(self._path, self._stamp)

    @abstractmethod
    def _blank(self, n: int) -> npt.NDArray[Any]:
        """Return an array of `n` rows of `width` bytes, to be read into."""

    @abstractmethod
    def _vectors(self, read: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
        """Return the vectors of the rows read, the first of which is row `first`."""

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield rows as they are read from their offsets."""
        with self._open() as file:
            for first, stop in spans:
                for at in range(first, stop, rows):
                    read = self._blank(min(stop, at + rows) - at)
                    file.read_into(self._offset + at * self._width, read)
                    yield at, self._vectors(read, at)
