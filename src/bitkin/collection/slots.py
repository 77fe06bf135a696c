"""Slots: where the vector of a row is kept. Rows that are replaced get a new slot, so that readers
keep the old one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitkin.arrays import Ids
from bitkin.collection.column import Column


@dataclass(frozen=True, eq=False, slots=True)
class _Run:
    """Row numbers in ascending order, and the slot of each."""

    numbers: Column
    slots: Column

    @classmethod
    def of(cls, numbers: Ids, slots: Ids) -> _Run:
        return cls(Column(numbers, len(numbers)), Column(slots, len(slots)))

    def find(self, wanted: Ids) -> Ids:
        """Return the slot of every row number, −1 where it is not here."""
        here = self.numbers.rows
        if int(here[-1]) - int(here[0]) == len(here) - 1:  # consecutive: no search is needed
            at = np.where((wanted >= here[0]) & (wanted <= here[-1]), wanted - here[0], -1)
            return np.where(at >= 0, self.slots.rows[at], -1)
        at = np.minimum(np.searchsorted(here, wanted), len(here) - 1)
        return np.where(here[at] == wanted, self.slots.rows[at], -1)


@dataclass(frozen=True, eq=False, slots=True)
class Slots:
    """The slot of every row number. Later runs overrule earlier ones; each is at most half as long
    as the one before.

    So a write of m rows costs m · log n comparisons on average, whatever the order of their
    numbers. Numbers of removed rows stay until everything is compacted: whether a row is there is
    for the index to say.
    """

    runs: tuple[_Run, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return sum(run.numbers.array.nbytes + run.slots.array.nbytes for run in self.runs)

    def of(self, numbers: Ids) -> Ids:
        """Return the slot of every row number, −1 where there is none."""
        if not self.runs:
            return np.full(len(numbers), -1, dtype=np.int64)
        found = self.runs[0].find(numbers)
        for run in self.runs[1:]:
            newer = run.find(numbers)
            found = np.where(newer >= 0, newer, found)
        return found

    def with_rows(self, numbers: Ids, slots: Ids) -> Slots:
        """Return the map with these rows too, each number once; the slots that they had are
        overruled.
        """
        if len(numbers) == 0:
            return self
        if not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers)
            numbers, slots = numbers[order], slots[order]
        runs = list(self.runs)
        if runs and runs[-1].numbers.rows[-1] < numbers[0]:
            runs[-1] = _Run(runs[-1].numbers.with_rows(numbers), runs[-1].slots.with_rows(slots))
        else:
            runs.append(_Run.of(numbers.copy(), slots.copy()))
        while len(runs) > 1 and runs[-2].numbers.n < 2 * runs[-1].numbers.n:
            runs[-2:] = [_merged(*runs[-2:])]
        return Slots(tuple(runs))


def _merged(before: _Run, after: _Run) -> _Run:
    both = np.concatenate([after.numbers.rows, before.numbers.rows])
    # of equal ones the first, which is the newer
    numbers, first = np.unique(both, return_index=True)
    return _Run.of(numbers, np.concatenate([after.slots.rows, before.slots.rows])[first])
