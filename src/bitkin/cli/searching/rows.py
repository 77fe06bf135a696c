"""The rows of an index in a file, with vectors and corrections in others: what the funnel searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.codes import Codes
from bitkin.collection.shortlisted import ShortlistedVectors
from bitkin.errors import InvalidInputError
from bitkin.index.snapshot import some_of

if TYPE_CHECKING:
    from bitkin.index.estimate import Corrections
    from bitkin.index.results import Neighbors
    from bitkin.index.row_index import RowIndex
    from bitkin.index.segment import Ids
    from bitkin.io.vectors import VectorSource
    from bitkin.io.vectors.batch import Batch


class RowsOfIds:
    """Which row of a file belongs to an id: its number, or the place of the id in a list.

    Parameters
    ----------
    ids : int64 (n_rows,) or None
        The id of every row; None where ids are row numbers.
    n_rows : int
        Of the file.
    index : RowIndex
        All of its ids must have a row.
    name : str
        Of the file.
    """

    def __init__(self, ids: Ids | None, n_rows: int, index: RowIndex, name: str) -> None:
        if ids is not None and len(ids) != n_rows:
            raise InvalidInputError(f"--ids must be one a row of {name}, got {len(ids)} for {n_rows} rows.")
        self._order = None if ids is None else np.argsort(ids, kind="stable")
        self._sorted = None if ids is None else ids[self._order]
        held = index.ids
        missing = held[held >= n_rows] if self._sorted is None else held[~np.isin(held, self._sorted)]
        if len(missing):
            raise InvalidInputError(
                f"{name} has {n_rows} rows, none of them for the ids {some_of(missing)} of the index. Give the vectors "
                "that were encoded, and to --ids the ids that the index was built with."
            )

    def __call__(self, ids: Ids) -> Ids:
        """Return the rows of ids that are there."""
        if self._order is None or self._sorted is None:
            return ids
        rows: Ids = self._order[np.searchsorted(self._sorted, ids)]
        return rows


class FileVectors:
    """Vectors of a file by id."""

    def __init__(self, source: VectorSource, ids: Ids | None, index: RowIndex) -> None:
        self._rows_of = RowsOfIds(ids, len(source), index, source.name)
        self._source = source
        self.n_features, self.dtype, self.sparse = source.shape[1], source.dtype, source.sparse

    def vectors(self, numbers: Ids) -> Batch:
        """Return the vectors of ids that are there, in that order."""
        return self._source.gather(self._rows_of(numbers))


class FileRows:
    """An index, and by id the vectors and corrections that its stages ask for.

    Parameters
    ----------
    index : RowIndex
    vectors : FileVectors or None
        None where no stage asks for vectors.
    corrections : float32 (n, 2) or None
        None where no stage asks for them.
    rows_of : RowsOfIds or None
        Which row of the corrections belongs to an id.
    """

    def __init__(self, index: RowIndex, vectors: Any, corrections: Any, rows_of: Any) -> None:
        self._index = index
        self._vectors = vectors
        self._corrections = corrections
        self._rows_of = rows_of

    def __len__(self) -> int:
        return len(self._index)

    def nearest(self, queries: Codes, k: int, allow: Ids | None) -> Neighbors:
        """Return the k nearest rows of every query by codes."""
        return self._index.search(queries, k, allow=allow)

    def codes(self, numbers: Ids) -> Codes:
        """Return the codes of ids, in that order."""
        return self._index.codes(numbers)

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the corrections of ids, in that order."""
        corrections: Corrections = np.asarray(self._corrections[self._rows_of(numbers)])
        return corrections

    def vectors(self, numbers: Ids) -> VectorSource:
        """Return the vectors of ids, in that order, to be read as far as they are needed."""
        return ShortlistedVectors(self._vectors, numbers)
