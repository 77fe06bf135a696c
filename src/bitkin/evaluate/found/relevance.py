"""Which of the rows that were found are relevant, and how many relevant ones there are in all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.errors import InvalidInputError
from bitkin.input_files import read_ids

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FoundRelevance:
    """What is relevant among the rows found for q queries, at most m for each.

    Attributes
    ----------
    relevant : bool (q, m)
        False for padding.
    n_relevant : int64 (q,)
        How many rows are relevant in all, found or not; 0 leaves a query out.
    n_rows : int or None
        How many rows there are to be found; None where that is not known.
    """

    relevant: Flags
    n_relevant: Ids
    n_rows: int | None


class RowIds:
    """Which row has which id: those in a file of ids, or the row numbers themselves."""

    def __init__(self, n_rows: int, where: str, ids_file: Path | None) -> None:
        self.n_rows = n_rows
        self._where = where
        self._file = ids_file
        self._ids = np.arange(n_rows) if ids_file is None else read_ids(ids_file)
        if len(self._ids) != n_rows:
            raise InvalidInputError(
                f"{ids_file} must hold one id per row, got {len(self._ids):,} for the {n_rows:,} "
                f"rows of {where}."
            )
        self._order = np.argsort(self._ids, kind="stable")
        self._sorted = self._ids[self._order]
        twice = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(twice):
            raise InvalidInputError(
                f"{ids_file} must hold distinct ids, got {self._sorted[twice[0]]} twice."
            )

    def ids_of(self, rows: Ids) -> Ids:
        """Return the ids of rows; −1 stays −1."""
        is_row = rows >= 0
        ids: Ids = np.full(rows.shape, -1, dtype=np.int64)
        if is_row.any() and int(rows.max()) >= self.n_rows:
            raise InvalidInputError(
                f"{self._file} must hold an id for every row that {self._where} names, got "
                f"{self.n_rows:,} ids and row {rows.max()}. It goes with row numbers, not with ids."
            )
        ids[is_row] = self._ids[rows[is_row]]
        return ids

    def rows_of(self, ids: Ids, found: Path) -> Ids:
        """Return the rows of ids that were found; −1 stays −1. An id that no row has is an
        error.
        """
        rows: Ids = np.full(ids.shape, -1, dtype=np.int64)
        is_id = ids >= 0
        own = ids[is_id]
        at = np.minimum(np.searchsorted(self._sorted, own), max(0, self.n_rows - 1))
        is_known = self._sorted[at] == own if self.n_rows else np.zeros(len(own), dtype=bool)
        if not is_known.all():
            unknown = own[~is_known][0]
            place = self._where if self._file is None else self._file
            hint = " Give --ids where ids are not 0, 1, 2, …" if self._file is None else ""
            raise InvalidInputError(
                f"{found} must hold ids of the {self.n_rows:,} rows of {place}, got {unknown}."
                f"{hint}"
            )
        rows[is_id] = self._order[at]
        return rows


def mark_neighbors(found: Ids, true: Ids, n_rows: int | None) -> FoundRelevance:
    """Mark the found ids that are among the true ones of their query; −1 is none."""
    both = np.concatenate([found.reshape(-1), true.reshape(-1)])
    every, places = np.unique(both, return_inverse=True)
    # one number for every pair of query and id
    first = np.arange(len(found))[:, None] * len(every)
    of_found = first + places[: found.size].reshape(found.shape)
    of_true = first + places[found.size :].reshape(true.shape)
    relevant = np.isin(of_found, of_true[true >= 0]) & (found >= 0)
    return FoundRelevance(relevant, (true >= 0).sum(axis=1), n_rows)


def mark_relevant(rows: Ids, truth: Any) -> FoundRelevance:
    """Mark the found rows that a CSR matrix of booleans, (queries, rows), says are relevant; its
    columns are sorted and distinct.
    """
    relevant = np.zeros(rows.shape, dtype=bool)
    for query, own in enumerate(rows):
        columns = truth.indices[truth.indptr[query] : truth.indptr[query + 1]]
        if len(columns):
            at = np.minimum(np.searchsorted(columns, own), len(columns) - 1)
            relevant[query] = columns[at] == own
    n_relevant = np.diff(truth.indptr).astype(np.int64)
    return FoundRelevance(relevant, n_relevant, int(truth.shape[1]))
