"""Sources that know their rows by number and can be read again: everything but an iterator.

A file says how spans of its rows are read; an array in memory is one already.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch
from bitkin.checks import id_array, whole_number
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.vectors.batch import (
    Span,
    bytes_per_row,
    plain_batch,
    regroup,
    row_slice,
    spans_over,
    stack,
)
from bitkin.io.vectors.rows import number_dtype
from bitkin.io.vectors.source import VectorSource


class StoredSource(VectorSource):
    """Vectors that stay where they are: a subclass only says how spans of rows are read."""

    gap = 1
    """Wanted rows at most this far apart are read in one go: cheaper than seeking."""

    @abstractmethod
    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield `(first_row, piece)` of at most `rows` rows for ascending, disjoint spans; no piece
        leaves its span.

        A piece has the right number of columns; its type and layout may still be those of the file.
        """

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` from row `start`, every batch but the last of exactly `rows`
        rows.
        """
        self._require_open()
        rows = self.batch_rows if rows is None else whole_number(rows, "rows", low=1)
        start = whole_number(start, "start", low=0, high=len(self))
        return self._checked_batches(rows, start)

    def _checked_batches(self, rows: int, start: int) -> Iterator[tuple[int, Batch]]:
        n = len(self)
        at = start
        spans = [(start, n)] if start < n else []
        with closing(self.pieces(spans, rows)) as pieces:
            whole = regroup((plain_batch(piece, self.dtype) for _, piece in pieces), rows)
            for number, batch in enumerate(whole, start // rows):
                here = range(at, at + batch.shape[0])
                self._require_finite(batch, here, number)
                at = here.stop
                yield here.start, batch
        if at != n:
            raise CorruptFileError(f"{self.name} must have {n} rows by its header, got {at}.")

    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Return the given rows in the given order, repeats included."""
        self._require_open()
        wanted = id_array(row_numbers, "row_numbers")
        if len(wanted) and wanted.max() >= len(self):
            raise InvalidInputError(
                f"row_numbers must be below {len(self)}, the rows of {self.name}, got "
                f"{wanted.max()}."
            )
        # read each row once, in file order; then bring them
        # into the order asked for, repeats included
        rows, order = np.unique(wanted, return_inverse=True)
        found = plain_batch(self._take(rows), self.dtype)
        self._require_finite(found, rows)
        return found if np.array_equal(rows, wanted) else plain_batch(found[order], self.dtype)

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Return ascending, distinct rows."""
        parts: list[Batch] = [self._no_rows()]
        out = np.empty((0 if self.sparse else len(rows), self.shape[1]), dtype=self.dtype)
        done = 0
        with closing(self.pieces(spans_over(rows, self.gap), self.batch_rows)) as pieces:
            for first, piece in pieces:
                # the wanted rows that this piece holds are rows[done:stop]
                stop = int(np.searchsorted(rows, first + piece.shape[0]))
                picked = piece[rows[done:stop] - first]
                if self.sparse:
                    parts.append(picked)
                else:
                    out[done:stop] = picked
                done = stop
        if done != len(rows):
            raise CorruptFileError(
                f"{self.name} ended before row {rows[done]}, but must have {len(self)} rows."
            )
        return stack(parts) if self.sparse else out

    def _no_rows(self) -> Batch:
        shape = (0, self.shape[1])
        return (
            csr_array(shape, dtype=self.dtype) if self.sparse else np.empty(shape, dtype=self.dtype)
        )


class ArraySource(StoredSource):
    """A 2-D array or CSR array, checked by `as_rows`; it is never copied whole."""

    def __init__(self, array: Batch, name: str, batch_rows: int | None = None) -> None:
        super().__init__(
            name,
            array.shape,
            number_dtype(array.dtype, name),
            sparse=issparse(array),
            row_bytes=bytes_per_row(array),
            batch_rows=batch_rows,
        )
        self._array = array

    def _checked_batches(self, rows: int, start: int) -> Iterator[tuple[int, Batch]]:
        # Rows in memory are cut where batches end: nothing has to be read, joined or counted.
        n = len(self)
        for first in range(start, n, rows):
            stop = min(n, first + rows)
            batch = plain_batch(row_slice(self._array, first, stop), self.dtype)
            self._require_finite(batch, range(first, stop), first // rows)
            yield first, batch

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield slices of the array."""
        for first, stop in spans:
            for at in range(first, stop, rows):
                yield at, row_slice(self._array, at, min(stop, at + rows))

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        return self._array[rows]
