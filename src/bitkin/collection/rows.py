"""Rows by id: columns that grow at their end, and in which slot of them the newest version of a row
stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """The first `n` rows of an array.

    A column never changes. Its array may have room for more rows, which the one writer fills:
    readers of an older column never look beyond their own `n`. So only the newest column may be
    grown.
    """

    array: npt.NDArray[Any]
    n: int

    @classmethod
    def empty(cls, dtype: npt.DTypeLike, width: int | None = None) -> Self:
        """Return a column without rows, of numbers or of rows of so many numbers."""
        return cls(np.empty(0 if width is None else (0, width), dtype=dtype), 0)

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows, as a view."""
        return self.array[: self.n]

    def with_rows(self, rows: npt.NDArray[Any]) -> Column:
        """Return a column with these rows behind the others."""
        stop = self.n + len(rows)
        array = self.array
        if stop > len(array):
            # Room for an eighth more: at rest little is wasted, and every row is copied a bounded
            # number of times.
            array = np.empty((stop + stop // 8, *array.shape[1:]), dtype=array.dtype)
            array[: self.n] = self.rows
        array[self.n : stop] = rows
        return Column(array, stop)


@dataclass(frozen=True, eq=False, slots=True)
class _Run:
    """Row ids in ascending order, and the slot of each."""

    row_ids: Column
    slots: Column

    @classmethod
    def from_arrays(cls, row_ids: Ids, slots: Ids) -> _Run:
        """Return a run over these arrays."""
        return cls(Column(row_ids, len(row_ids)), Column(slots, len(slots)))

    def find(self, wanted: Ids) -> Ids:
        """Return the slot of every row id, −1 where it is not here."""
        here = self.row_ids.array[: self.row_ids.n]
        first, last = int(here[0]), int(here[-1])
        if last - first == len(here) - 1:  # consecutive: no search is needed
            if len(wanted) and first <= wanted.min() and wanted.max() <= last:
                found: Ids = self.slots.array[wanted - first]
                return found
            at = np.where((wanted >= first) & (wanted <= last), wanted - first, -1)
            return np.where(at >= 0, self.slots.rows[at], -1)
        # an id above all would fall behind the end; the comparison below says that it is not here
        at = np.minimum(np.searchsorted(here, wanted), len(here) - 1)
        return np.where(here[at] == wanted, self.slots.rows[at], -1)


@dataclass(frozen=True, eq=False, slots=True)
class RowSlots:
    """The slot of every row id. A row that is replaced gets a new slot, so readers keep the old
    one.

    Later runs overrule earlier ones; each is at most half as long as the one before. So a write of
    m rows costs m · log n comparisons on average, whatever the order of their ids. Ids of removed
    rows stay until everything is compacted: whether a row is there is for the index to say.
    """

    runs: tuple[_Run, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return sum(run.row_ids.array.nbytes + run.slots.array.nbytes for run in self.runs)

    def lookup(self, row_ids: Ids) -> Ids:
        """Return the slot of every row id, −1 where there is none."""
        if not self.runs:
            return np.full(len(row_ids), -1, dtype=np.int64)
        found = self.runs[0].find(row_ids)
        for run in self.runs[1:]:
            newer = run.find(row_ids)
            # later runs overrule earlier ones
            found = np.where(newer >= 0, newer, found)
        return found

    def with_rows(self, row_ids: Ids, slots: Ids) -> RowSlots:
        """Return the map with these rows too, each id once; the slots that they had are
        overruled.
        """
        if len(row_ids) == 0:
            return self
        if not (row_ids[1:] > row_ids[:-1]).all():
            order = np.argsort(row_ids)
            row_ids, slots = row_ids[order], slots[order]
        runs = list(self.runs)
        # ids above all in the last run, the usual case of ids made here: append, nothing is sorted
        if runs and runs[-1].row_ids.rows[-1] < row_ids[0]:
            runs[-1] = _Run(runs[-1].row_ids.with_rows(row_ids), runs[-1].slots.with_rows(slots))
        else:
            runs.append(_Run.from_arrays(row_ids.copy(), slots.copy()))
        # Merge until each run is at least twice as long as the next: at most log₂ n runs, and
        # every row is merged about log₂ n times, as in a log-structured merge tree.
        while len(runs) > 1 and runs[-2].row_ids.n < 2 * runs[-1].row_ids.n:
            runs[-2:] = [_merge(*runs[-2:])]
        return RowSlots(tuple(runs))


def _merge(before: _Run, after: _Run) -> _Run:
    """Return both runs as one, in which `after` overrules `before`."""
    both = np.concatenate([after.row_ids.rows, before.row_ids.rows])
    # np.unique takes the first of equal ids, which is the newer one.
    row_ids, first = np.unique(both, return_index=True)
    return _Run.from_arrays(row_ids, np.concatenate([after.slots.rows, before.slots.rows])[first])
