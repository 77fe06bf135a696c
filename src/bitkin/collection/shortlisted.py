"""The vectors of a shortlist, read from where they are kept when and as far as a stage asks for
them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from bitkin.arrays import Batch, Ids
from bitkin.collection.kept import HasVectors
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.stored import StoredSource


class ShortlistedVectors(StoredSource):
    """Row i is the vector of row number `numbers[i]`."""

    def __init__(self, kept: HasVectors, numbers: Ids) -> None:
        super().__init__("vectors", (len(numbers), kept.n_features), kept.dtype, sparse=kept.sparse)
        self._kept = kept
        self._numbers = numbers

    def _pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        for first, stop in spans:
            for at in range(first, stop, rows):
                yield at, self._kept.vectors(self._numbers[at : min(stop, at + rows)])

    def _take(self, rows: Ids) -> Batch:
        return self._kept.vectors(self._numbers[rows])
