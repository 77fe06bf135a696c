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
_MOST_RANGES = 32  # of row ids without a gap; more are held one by one


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
class _Ranges:
    """Row ids in few ranges without a gap, in slots that are so too: only their ends are held."""

    firsts: Ids
    """Row ids at which ranges begin, ascending."""
    lasts: Ids
    shifts: Ids
    """Slot − row id in every range."""

    @property
    def n(self) -> int:
        """How many row ids there are."""
        return int((self.lasts - self.firsts + 1).sum())

    @property
    def last(self) -> int:
        """The last row id."""
        return int(self.lasts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.firsts.nbytes + self.lasts.nbytes + self.shifts.nbytes

    def arrays(self) -> tuple[Ids, Ids]:
        """Return all row ids, and the slot of each."""
        counts = self.lasts - self.firsts + 1
        before = np.cumsum(counts) - counts
        row_ids = np.arange(int(counts.sum())) + np.repeat(self.firsts - before, counts)
        return row_ids, row_ids + np.repeat(self.shifts, counts)

    def with_rows(self, row_ids: Ids, slots: Ids) -> _Ranges | _Run:
        """Return the run with rows behind its own, whose ids are larger."""
        more = _as_ranges(row_ids, slots)
        if more is None or len(self.firsts) + len(more.firsts) > _MOST_RANGES:
            return _Run(*map(_column, self.arrays())).with_rows(row_ids, slots)
        # the first range of the new ones may go on with the last of ours
        joins = int(more.firsts[0] == self.lasts[-1] + 1 and more.shifts[0] == self.shifts[-1])
        return _Ranges(
            np.concatenate([self.firsts, more.firsts[joins:]]),
            np.concatenate([self.lasts[: len(self.lasts) - joins], more.lasts]),
            np.concatenate([self.shifts, more.shifts[joins:]]),
        )

    def find(self, wanted: Ids) -> Ids:
        """Return the slot of every row id, −1 where it is not here."""
        at = np.maximum(np.searchsorted(self.firsts, wanted, side="right") - 1, 0)
        here = (wanted >= self.firsts[at]) & (wanted <= self.lasts[at])
        return np.where(here, wanted + self.shifts[at], -1)


@dataclass(frozen=True, eq=False, slots=True)
class _Run:
    """Row ids in ascending order, and the slot of each."""

    row_ids: Column
    slots: Column

    @property
    def n(self) -> int:
        """How many row ids there are."""
        return self.row_ids.n

    @property
    def last(self) -> int:
        """The last row id."""
        return int(self.row_ids.array[self.n - 1])

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.row_ids.array.nbytes + self.slots.array.nbytes

    def arrays(self) -> tuple[Ids, Ids]:
        """Return all row ids, and the slot of each."""
        return self.row_ids.rows, self.slots.rows

    def with_rows(self, row_ids: Ids, slots: Ids) -> _Run:
        """Return the run with rows behind its own, whose ids are larger."""
        return _Run(self.row_ids.with_rows(row_ids), self.slots.with_rows(slots))

    def find(self, wanted: Ids) -> Ids:
        """Return the slot of every row id, −1 where it is not here."""
        here = self.row_ids.rows
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

    runs: tuple[_Ranges | _Run, ...] = ()

    @classmethod
    def in_order(cls, row_ids: Ids) -> Self:
        """Return the map in which ascending row ids have the slots 0, 1, 2 and so on."""
        if len(row_ids) and row_ids[-1] - row_ids[0] == len(row_ids) - 1:  # without a gap
            first = row_ids[:1].copy()
            return cls((_Ranges(first, row_ids[-1:].copy(), -first),))
        return cls(cls().with_rows(row_ids, np.arange(len(row_ids))).runs)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return sum(run.nbytes for run in self.runs)

    def slots_of(self, row_ids: Ids) -> Ids:
        """Return the slot of every row id, all of which have one."""
        run = self.runs[0] if len(self.runs) == 1 else None
        if isinstance(run, _Ranges) and len(run.firsts) == 1:
            slots: Ids = row_ids + run.shifts[0]
            return slots
        return self.lookup(row_ids)

    def first_in_order(self, row_ids: Ids) -> int | None:
        """Return the slot of the first of ascending row ids where both they and their slots are
        numbers without a gap, which takes no time; else None.
        """
        if len(self.runs) == 1 and len(row_ids) and isinstance(self.runs[0], _Ranges):
            run, first, last = self.runs[0], int(row_ids[0]), int(row_ids[-1])
            at = int(np.searchsorted(run.firsts, first, side="right")) - 1
            if at >= 0 and last <= run.lasts[at] and last - first == len(row_ids) - 1:
                return first + int(run.shifts[at])
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
        if runs and runs[-1].last < row_ids[0]:
            runs[-1] = runs[-1].with_rows(row_ids, slots)
        else:
            runs.append(_new_run(row_ids.copy(), slots.copy()))
        # Merge until each run is at least twice as long as the next: at most log₂ n runs, and
        # every row is merged about log₂ n times, as in a log-structured merge tree.
        while len(runs) > 1 and runs[-2].n < 2 * runs[-1].n:
            runs[-2:] = [_merge(*runs[-2:])]
        return RowSlots(tuple(runs))


def _as_ranges(row_ids: Ids, slots: Ids) -> _Ranges | None:
    """Return ascending row ids and their slots as ranges, where those are few."""
    gaps = np.flatnonzero((np.diff(row_ids) != 1) | (np.diff(slots) != 1))
    if len(gaps) >= _MOST_RANGES:
        return None
    begins, ends = np.concatenate([[0], gaps + 1]), np.concatenate([gaps, [len(row_ids) - 1]])
    return _Ranges(row_ids[begins], row_ids[ends], slots[begins] - row_ids[begins])


def _new_run(row_ids: Ids, slots: Ids) -> _Ranges | _Run:
    """Return ascending row ids and their slots as a run, which takes the arrays."""
    return _as_ranges(row_ids, slots) or _Run(_column(row_ids), _column(slots))


def _column(numbers: Ids) -> Column:
    return Column(numbers, len(numbers))


def _merge(before: _Ranges | _Run, after: _Ranges | _Run) -> _Ranges | _Run:
    """Return both runs as one, in which `after` overrules `before`."""
    (old_ids, old_slots), (new_ids, new_slots) = before.arrays(), after.arrays()
    # np.unique takes the first of equal ids, which is the newer one.
    row_ids, first = np.unique(np.concatenate([new_ids, old_ids]), return_index=True)
    return _new_run(row_ids, np.concatenate([new_slots, old_slots])[first])
