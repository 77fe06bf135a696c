"""Declared fields by slot, and the row id of every slot: how a filter becomes a list of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bitkin.arrays import Ids
from bitkin.collection.metadata.field_columns import FieldColumns, evaluate
from bitkin.collection.metadata.filters import Condition
from bitkin.collection.rows import Column, RowSlots


@dataclass(frozen=True, eq=False, slots=True)
class SlotFields:
    """Declared fields of rows, one slot per row that was written. They never change, and only the
    newest may be grown.
    """

    columns: FieldColumns
    row_ids: Column
    """Of every slot; a row that was replaced has several, of which the last one counts."""

    @classmethod
    def empty(cls, fields: dict[str, str]) -> Self:
        """Return the fields of no rows."""
        return cls(FieldColumns.empty(fields), Column.empty(np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.columns.nbytes + self.row_ids.array.nbytes

    def with_rows(self, row_ids: Ids, values: Sequence[tuple[Any, ...]]) -> SlotFields:
        """Return these fields and those of more rows behind them."""
        return SlotFields(self.columns.with_rows(values), self.row_ids.with_rows(row_ids))

    def take(self, slots: Ids, row_ids: Ids) -> SlotFields:
        """Return those of some slots alone, under other row ids."""
        return SlotFields(self.columns.take(slots), Column(row_ids, len(row_ids)))

    def find(
        self, condition: Condition, slots: RowSlots, find_others: Callable[[Condition], Ids]
    ) -> Ids:
        """Return the row ids, ascending, of rows that match, removed ones among them;
        `find_others` finds rows by metadata that is not declared.
        """
        n = self.row_ids.n

        def mask_of_others(part: Condition) -> Any:
            found = slots.lookup(find_others(part))
            mask = np.zeros(n, dtype=bool)
            mask[found[found >= 0]] = True
            return mask

        places = np.flatnonzero(evaluate(condition, self.columns, n, mask_of_others))
        found: Ids = self.row_ids.rows[places]
        found = found[slots.lookup(found) == places]  # not what a row was before it was replaced
        return np.sort(found)
