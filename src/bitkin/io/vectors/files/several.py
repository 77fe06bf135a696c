"""Several files read as one, in the order given."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import accumulate

import numpy as np

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import Span, first_changed
from bitkin.io.vectors.stored import StoredSource


class SeveralSources(StoredSource):
    """The rows of several stored sources, one source after another; types widen to one that holds
    all.
    """

    def __init__(self, sources: Sequence[StoredSource], batch_rows: int | None = None) -> None:
        head = sources[0]
        for other in sources[1:]:
            if other.shape[1] != head.shape[1]:
                raise InvalidInputError(
                    f"Files read as one must have the same number of columns: {head.name} has "
                    f"{head.shape[1]}, {other.name} has {other.shape[1]}."
                )
            if other.sparse != head.sparse:
                raise InvalidInputError(
                    f"Files read as one must be all dense or all sparse: {head.name} and "
                    f"{other.name} differ."
                )
        name = f"{head.name} and {len(sources) - 1} more"
        dtype = np.result_type(*(source.dtype for source in sources))
        # What the files themselves hold a row decides, so that one file and its halves get the same
        # batches.
        rows = max(
            1,
            sum(source.batch_rows * len(source) for source in sources)
            // max(1, sum(map(len, sources))),
        )
        super().__init__(
            name,
            (sum(map(len, sources)), head.shape[1]),
            dtype,
            sparse=head.sparse,
            batch_rows=rows if batch_rows is None else batch_rows,
        )
        self.gap = max(source.gap for source in sources)
        self._sources = list(sources)
        self._firsts = [0, *accumulate(map(len, sources))]

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield the pieces of one file after another."""
        todo: list[list[Span]] = [[] for _ in self._sources]
        for first, stop in spans:
            for which in range(self._which(first), len(todo)):
                begin, end = self._firsts[which], self._firsts[which + 1]
                if begin >= stop:
                    break
                if max(first, begin) < min(stop, end):
                    todo[which].append((max(first, begin) - begin, min(stop, end) - begin))
        for which, own_spans in enumerate(todo):
            if own_spans:
                with closing(self._sources[which].pieces(own_spans, rows)) as pieces:
                    for at, piece in pieces:
                        yield self._firsts[which] + at, self._widened(piece, which, at)

    def _widened(self, piece: Batch, which: int, at: int) -> Batch:
        """Return a piece of one source, from its row `at` on, in the type that holds all: most do,
        float64 may not.
        """
        wide = piece.astype(self.dtype, copy=False)
        changed = first_changed(piece, wide)
        if changed is not None:
            row, column, value = changed
            raise InvalidInputError(
                f"{self._sources[which].name} must fit {self.dtype}, the type that all files read "
                f"as one have, got {value!s} at row {at + row}, column {column}. Convert the files "
                "to one type first."
            )
        return wide

    def _which(self, row: int) -> int:
        # Files without rows share their first row with the next one: the last of them holds it.
        return bisect_right(self._firsts, row) - 1

    def _place(self, row: int) -> tuple[str, int]:
        which = self._which(row)
        return self._sources[which].name, row - self._firsts[which]
