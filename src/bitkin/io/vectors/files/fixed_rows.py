"""Rows of one width, one after another in a file: read at their offsets, never mapped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.io.stable import StableFile, Stamp
from bitkin.io.vectors.batch import Span, spans_over
from bitkin.io.vectors.stored import StoredSource

# A seek and a read cost about as much as reading this much more.
SEEK_BYTES = 16_384
_PICKED_BYTES = 1 << 19  # of rows, the wanted among which are picked from the cache
_MOST_READ_OVER = 2  # rows read per row that is wanted; beyond, seeking is cheaper after all


class Readable(Protocol):
    """Bytes that fill arrays from an offset."""

    def read_into(self, offset: int, out: npt.NDArray[Any]) -> None:
        """Fill the C-contiguous array `out` from byte `offset` on."""


class FixedRows(StoredSource):
    """Rows of `width` bytes from byte `offset` on."""

    _has_offsets: ClassVar[bool] = True
    """Whether every row can be read by itself, at its own offset."""

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
    def _vectors(self, read: npt.NDArray[Any], number_of: Callable[[int], int]) -> npt.NDArray[Any]:
        """Return the vectors of the rows read; `number_of` tells which row of the file the i-th of
        them is.
        """

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield rows as they are read from their offsets."""
        with self._open() as file:
            for first, stop in spans:
                for at in range(first, stop, rows):
                    read = self._blank(min(stop, at + rows) - at)
                    file.read_into(self._offset + at * self._width, read)
                    yield at, self._vectors(read, at.__add__)

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Return ascending, distinct rows, read in that order."""
        if not self._has_offsets:
            return super()._take(rows)
        out = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        at_once = max(1, min(self.batch_rows, _PICKED_BYTES // self._width))
        spans = _Spans.over(rows, self.gap, at_once)
        if spans.lengths.sum() > _MOST_READ_OVER * len(rows):
            spans = _Spans.over(rows, 1, at_once)
        with StableFile(self._path, self._stamp) as file:
            blank = self._blank(0)
            is_plain = (blank.dtype, blank.shape[1]) == (out.dtype, out.shape[1])
            if is_plain and spans.lengths.sum() == len(rows):
                self._read(file, spans, out)
                return out
            done = 0
            room = self._blank(min(at_once, int(spans.lengths.sum())))
            # so many at a time that they stay in a cache until the wanted ones are picked
            for some in spans.groups(at_once):
                ends = np.cumsum(some.lengths)
                here = room[: ends[-1]]
                self._read(file, some, here)
                # row r of the file was read to place r − shift
                shifts = some.firsts - (ends - some.lengths)
                vectors = self._vectors(here, partial(_row_at, ends, shifts))
                stop = int(np.searchsorted(rows, some.firsts[-1] + some.lengths[-1]))
                wanted = rows[done:stop]
                spans_of = np.searchsorted(some.firsts, wanted, side="right") - 1
                picked = wanted - shifts[spans_of]
                if vectors.dtype == out.dtype:
                    # all are there; without "clip" NumPy would copy twice
                    np.take(vectors, picked, axis=0, out=out[done:stop], mode="clip")
                else:
                    out[done:stop] = vectors[picked]
                done = stop
        return out

    def _read(self, file: StableFile, spans: _Spans, out: npt.NDArray[Any]) -> None:
        """Read spans to an array, one behind the other."""
        offsets = (self._offset + spans.firsts * self._width).tolist()
        sizes = (spans.lengths * self._width).tolist()
        file.read_spans_into(zip(offsets, sizes, strict=True), out)


class _Spans(NamedTuple):
    """Runs of rows that are read in one go each: `lengths[i]` rows from `firsts[i]` on."""

    firsts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    @classmethod
    def over(cls, rows: npt.NDArray[np.int64], gap: int, most: int) -> _Spans:
        """Cover ascending, distinct rows, those at most `gap` apart by one span, but none by one of
        more than `most` rows.
        """
        ranges = np.array(spans_over(rows, gap), dtype=np.int64).reshape(-1, 2)
        firsts, lengths = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
        n_parts = -(-lengths // most)
        if (n_parts > 1).any():
            part = np.arange(n_parts.sum()) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
            firsts = np.repeat(firsts, n_parts) + most * part
            lengths = np.minimum(most, np.repeat(lengths, n_parts) - most * part)
        return cls(firsts, lengths)

    def groups(self, most: int) -> Iterator[_Spans]:
        """Yield spans of at most `most` rows together, one group after another."""
        ends = np.cumsum(self.lengths)
        first, before = 0, 0
        while first < len(ends):
            last = int(np.searchsorted(ends, before + most, side="right"))
            yield _Spans(self.firsts[first:last], self.lengths[first:last])
            first, before = last, int(ends[last - 1])


def _row_at(ends: npt.NDArray[np.int64], shifts: npt.NDArray[np.int64], place: int) -> int:
    """Return which row of the file was read to a place."""
    return place + int(shifts[np.searchsorted(ends, place, side="right")])
