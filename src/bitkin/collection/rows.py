"""Rows by id: columns that grow at their end, rows on their way there, and in which slot the newest
version of a row stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids

# Blocks of this size come from the system and go back to it at once: glibc keeps what is smaller
# than 32 MB for later.
_BLOCK_BYTES = 1 << 26


class Pieces:
    """Rows on their way into a column: arrays one behind another, which are let go one by one when
    they are copied.
    """

    def __init__(self) -> None:
        self._blocks: list[npt.NDArray[Any]] = []
        self._small: list[npt.NDArray[Any]] = []  # arrays that are no block yet
        self._small_bytes = 0
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Hold more rows, which must not change from now on."""
        self._small.append(rows)
        self._small_bytes += rows.nbytes
        self._n += len(rows)
        if self._small_bytes >= _BLOCK_BYTES:
            self._blocks.append(self._take_small())

    def drain(self) -> Iterator[npt.NDArray[Any]]:
        """Yield all rows in order, each array gone from here before it comes."""
        waiting = [*self._blocks, *self._small][::-1]
        self._blocks, self._small, self._small_bytes, self._n = [], [], 0, 0
        while waiting:
            yield waiting.pop()

    def _take_small(self) -> npt.NDArray[Any]:
        small, self._small, self._small_bytes = self._small, [], 0
        return small[0] if len(small) == 1 else np.concatenate(small)


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
        array = self._with_room(len(rows)).array
        array[self.n : stop] = rows
        return Column(array, stop)

    def with_pieces(self, pieces: Pieces) -> Column:
        """Return a column with the rows of all pieces behind the others; none are left in
        `pieces`.
        """
        column = self._with_room(len(pieces))
        for rows in pieces.drain():
            column = column.with_rows(rows)
        return column

    def _with_room(self, n: int) -> Column:
        stop = self.n + n
        if stop <= len(self.array):
            return self
        # Room for an eighth more: at rest little is wasted, and every row is copied a bounded
        # number of times.
        array = np.empty((stop + stop // 8, *self.array.shape[1:]), dtype=self.array.dtype)
        array[: self.n] = self.rows
        return Column(array, self.n)


@dataclass(frozen=True, eq=False, slots=True)
class _Run:
    """Row ids in ascending order, and the slot of each."""

    row_ids: Column
    slots: Column
    shift: int | None
    """Slot − row id, where that is the same for all."""

    @classmethod
    def from_arrays(cls, row_ids: Ids, slots: Ids) -> _Run:
        """Return a run over these arrays."""
        shift = _common_shift(row_ids, slots)
        return cls(Column(row_ids, len(row_ids)), Column(slots, len(slots)), shift)

    def with_rows(self, row_ids: Ids, slots: Ids) -> _Run:
        """Return the run with rows behind its own, whose ids are larger."""
        shift = self.shift if self.shift == _common_shift(row_ids, slots) else None
        return _Run(self.row_ids.with_rows(row_ids), self.slots.with_rows(slots), shift)

    @property
    def consecutive(self) -> bool:
        """Whether row ids are numbers without a gap, so that none has to be searched for."""
        here, n = self.row_ids.array, self.row_ids.n
        return bool(here[n - 1] - here[0] == n - 1)

    def find(self, wanted: Ids) -> Ids:
        """Return the slot of every row id, −1 where it is not here."""
        here = self.row_ids.array[: self.row_ids.n]
        first, last = int(here[0]), int(here[-1])
        if self.consecutive:
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

    def slots_of(self, row_ids: Ids) -> Ids:
        """Return the slot of every row id, all of which have one."""
        if len(self.runs) != 1 or not self.runs[0].consecutive:
            return self.lookup(row_ids)
        run = self.runs[0]
        slots: Ids = run.slots.array[row_ids - run.row_ids.array[0]]
        return slots

    def first_in_order(self, row_ids: Ids) -> int | None:
        """Return the slot of the first of ascending row ids where both they and their slots are
        numbers without a gap, which takes no time; else None.
        """
        if len(self.runs) == 1 and len(row_ids):
            [run], first, last = self.runs, int(row_ids[0]), int(row_ids[-1])
            held = run.row_ids.rows
            inside = held[0] <= first and last <= held[-1]
            if run.shift is not None and inside and last - first == len(row_ids) - 1:
                return first + run.shift
        return None

    def slots_in_order(self, row_ids: Ids) -> Ids:
        """Return the slots of ascending row ids. Ids that are not there have the slot of another
        row.
        """
        return np.maximum(self.lookup(row_ids), 0)

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
        if len(row_ids) > 1 and not (row_ids[1:] > row_ids[:-1]).all():
            order = np.argsort(row_ids)
            row_ids, slots = row_ids[order], slots[order]
        runs = list(self.runs)
        # ids above all in the last run, the usual case of ids made here: append, nothing is sorted
        if runs and runs[-1].row_ids.rows[-1] < row_ids[0]:
            runs[-1] = runs[-1].with_rows(row_ids, slots)
        else:
            runs.append(_Run.from_arrays(row_ids.copy(), slots.copy()))
        # Merge until each run is at least twice as long as the next: at most log₂ n runs, and
        # every row is merged about log₂ n times, as in a log-structured merge tree.
        while len(runs) > 1 and runs[-2].row_ids.n < 2 * runs[-1].row_ids.n:
            runs[-2:] = [_merge(*runs[-2:])]
        return RowSlots(tuple(runs))


def _common_shift(row_ids: Ids, slots: Ids) -> int | None:
    """Return slot − row id where that is the same for all."""
    shift = int(slots[0] - row_ids[0])
    return shift if bool((slots - row_ids == shift).all()) else None


def _merge(before: _Run, after: _Run) -> _Run:
    """Return both runs as one, in which `after` overrules `before`."""
    both = np.concatenate([after.row_ids.rows, before.row_ids.rows])
    # np.unique takes the first of equal ids, which is the newer one.
    row_ids, first = np.unique(both, return_index=True)
    return _Run.from_arrays(row_ids, np.concatenate([after.slots.rows, before.slots.rows])[first])
