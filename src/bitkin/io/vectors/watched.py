"""A source that says how far it has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.io.vectors.source import VectorSource


class WatchedSource(VectorSource):
    """Another source's rows; `report` is told the number of rows read so far in a pass, batch by
    batch.
    """

    def __init__(self, source: VectorSource, report: Callable[[int], None]) -> None:
        super().__init__(
            source.name,
            source.shape,
            source.dtype,
            sparse=source.sparse,
            batch_rows=source.batch_rows,
        )
        self.feature_names = source.feature_names
        self._source = source
        self._report = report

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield the other source's batches."""
        for first, batch in self._source.batches(rows, start):
            yield first, batch
            self._report(first + batch.shape[0])

    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Return the other source's rows."""
        return self._source.gather(row_numbers)
