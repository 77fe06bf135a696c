"""The slots of the rows of a segment, looked up once and handed on from change to change.

A slot is where something that is kept beside codes, such as corrections, stands for a row. A row
has the slot that it was written to for as long as it stays in its segment: an upsert writes another
row. So what was looked up for one version of a collection is right for the next ones, as far as
rows are still alive there, and only rows that were appended have to be added. It is not right for
an older version, in which a row may be alive that has been replaced since: that is why these are
handed on by the writer, and never back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Ids
from bitkin.index.rows.segment import Segment


class SlotTable(Protocol):
    """Says which slot an id has."""

    def first_in_order(self, ids: Ids, /) -> int | None:
        """Return the slot of the first of ascending ids where both they and their slots are known
        to be numbers without a gap; else None.
        """

    def slots_in_order(self, ids: Ids, /) -> Ids:
        """Return the slots of ascending ids. Ids that are not there have the slot of another."""


class _Known(NamedTuple):
    """The slots of the first `n` rows of a segment; those of dead rows may be any."""

    ids: Ids
    """Of the segment. Held so that no other array can take its place in memory."""
    slots: Ids
    """int64 (at least n). Only the one writer fills the room behind them."""
    n: int


class SegmentSlots:
    """The slots of rows of some segments, kept from when they are first asked for."""

    def __init__(self, known: Iterable[_Known] = ()) -> None:
        self._known = list(known)

    @property
    def nbytes(self) -> int:
        """Bytes held for slots."""
        return sum(known.slots.nbytes for known in self._known)

    def find(self, ids: Ids, segments: Sequence[Segment], slots: SlotTable) -> Ids | int:
        """Return the slots of ascending ids, at least one; where both are numbers without a gap,
        the first slot alone. Those of all rows of one of `segments` are kept.
        """
        first = slots.first_in_order(ids)
        if first is not None:
            return first
        known = self._of(ids)
        if known is not None and len(ids) <= known.n:
            return known.slots[: len(ids)]
        found = slots.slots_in_order(ids)
        # copies of rows that a filter leaves, and samples, are not seen again
        if any(segment.n == len(ids) and _same_rows(segment.ids, ids) for segment in segments):
            self._known.append(_Known(ids, found, len(ids)))
        return found

    def after(self, segments: Sequence[Segment], slots: SlotTable) -> SegmentSlots:
        """Return what is known of these segments, which come next, with rows that were appended.

        For the writer alone: it fills room that two of them would share.
        """
        following = []
        for segment in segments:
            known = self._of(segment.ids) if segment.n else None
            if known is not None:
                following.append(_with_rows(known, segment, slots))
        return SegmentSlots(following)

    def _of(self, ids: Ids) -> _Known | None:
        return next((known for known in self._known if _same_rows(known.ids, ids)), None)


def _with_rows(known: _Known, segment: Segment, slots: SlotTable) -> _Known:
    """Return the slots of all rows of the segment that this one has become."""
    if segment.n <= known.n:
        return known
    array = known.slots
    if len(array) < segment.n:
        array = np.empty(len(segment.ids), dtype=np.int64)
        array[: known.n] = known.slots[: known.n]
    array[known.n : segment.n] = slots.slots_in_order(segment.ids[known.n : segment.n])
    return _Known(segment.ids, array, segment.n)


def _same_rows(ids: Ids, others: Ids) -> bool:
    """Whether two arrays begin in the same place of memory, as all views of a segment's ids do."""
    here, there = ids.__array_interface__, others.__array_interface__
    return bool(here["data"][0] == there["data"][0])
