"""What memory knows of the metadata of rows, and how a filter becomes a list of rows.

Declared fields are columns. The rest is JSON: here for a collection in memory, in the database for
one in a folder. Rows stand in slots of their own, since metadata may change without its row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bitkin.arrays import Flags, Ids
from bitkin.collection.metadata.documents import EncodedMetadata, decode_metadata
from bitkin.collection.metadata.field_columns import FieldColumns, evaluate
from bitkin.collection.metadata.filters import Condition, matches
from bitkin.collection.rows import Column, RowSlots


@dataclass(frozen=True, eq=False, slots=True)
class TextColumn:
    """The first `n` of a list of texts, None where there is none. It never changes; only the newest
    may be grown, in the list that it shares with older ones.
    """

    texts: list[str | None] = field(default_factory=list)
    n: int = 0
    text_bytes: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.text_bytes + sys.getsizeof(self.texts)

    def with_rows(self, more: Sequence[str | None]) -> TextColumn:
        """Return the column with more texts behind the others."""
        del self.texts[self.n :]  # of a write that failed
        self.texts.extend(more)
        added = sum(sys.getsizeof(text) for text in more if text is not None)
        return TextColumn(self.texts, self.n + len(more), self.text_bytes + added)

    def take(self, slots: Ids) -> TextColumn:
        """Return the texts of some slots alone."""
        return TextColumn().with_rows([self.texts[slot] for slot in slots.tolist()])


@dataclass(frozen=True, eq=False, slots=True)
class RowMetadata:
    """Metadata of rows, one slot for every time that it was written. It never changes, and only the
    newest may be grown.
    """

    columns: FieldColumns
    row_ids: Column
    """Of every slot; a row that was written again has several, of which the last one counts."""
    slots: RowSlots
    texts: TextColumn | None
    """JSON of what is not declared; None where a database has it."""

    @classmethod
    def empty(cls, fields: dict[str, str], *, has_texts: bool) -> Self:
        """Return the metadata of no rows."""
        texts = TextColumn() if has_texts else None
        return cls(FieldColumns.empty(fields), Column.empty(np.int64), RowSlots(), texts)

    @classmethod
    def from_columns(cls, columns: FieldColumns, row_ids: Ids) -> Self:
        """Return declared fields of rows in the order of their ascending row ids."""
        slots = RowSlots.in_order(row_ids)
        return cls(columns, Column(row_ids, len(row_ids)), slots, None)

    @property
    def n_slots(self) -> int:
        """Slots used."""
        return self.row_ids.n

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        held = self.columns.nbytes + self.row_ids.array.nbytes + self.slots.nbytes
        return held if self.texts is None else held + self.texts.nbytes

    def with_rows(self, row_ids: Ids, written: EncodedMetadata | None) -> RowMetadata:
        """Return this and what was written of some rows, each given once, in the place of what they
        had before; None is nothing at all.
        """
        if len(row_ids) == 0:
            return self
        if written is None:
            nothing = (None,) * len(self.columns.fields)
            written = EncodedMetadata([nothing] * len(row_ids), [None] * len(row_ids))
        new_slots = np.arange(self.n_slots, self.n_slots + len(row_ids))
        return RowMetadata(
            self.columns.with_rows(written.fields),
            self.row_ids.with_rows(row_ids),
            self.slots.with_rows(row_ids, new_slots),
            None if self.texts is None else self.texts.with_rows(written.rest),
        )

    def keep_only(self, row_ids: Ids, renumbered: Ids) -> RowMetadata:
        """Return some rows alone, under new row ids, which ascend."""
        if self.n_slots == 0:  # no row has had any yet, nor may a copy share what will come
            return RowMetadata.empty(self.columns.fields, has_texts=self.texts is not None)
        old = self.slots.lookup(row_ids)
        return RowMetadata(
            self.columns.take(old),
            Column(renumbered, len(renumbered)),
            RowSlots.in_order(renumbered),
            None if self.texts is None else self.texts.take(old),
        )

    def documents(self, row_ids: Ids) -> list[dict[str, Any]]:
        """Return the metadata of rows, declared fields first, where JSON of the rest is here."""
        slots = self.slots.lookup(row_ids)
        declared = self.columns.documents(slots)
        texts = [] if self.texts is None else self.texts.texts
        for slot, one in zip(slots.tolist(), declared, strict=True):
            if texts and texts[slot] is not None:
                one.update(decode_metadata(texts[slot]))
        return declared

    def find(
        self, condition: Condition, find_others: Callable[[Condition], Ids] | None = None
    ) -> Ids:
        """Return the row ids, ascending, of rows that match, removed ones among them;
        `find_others` finds rows by metadata that is not declared, where that is in a database.
        """
        n = self.n_slots

        def mask_of_others(part: Condition) -> Flags:
            if find_others is not None:
                return self._mask_of(find_others(part))
            texts: Iterable[str | None] = [] if self.texts is None else self.texts.texts[:n]
            return np.fromiter((matches(part, decode_metadata(text)) for text in texts), bool, n)

        places = np.flatnonzero(evaluate(condition, self.columns, n, mask_of_others))
        found: Ids = self.row_ids.rows[places]
        found = found[self.slots.lookup(found) == places]  # not what was written before
        in_order = bool((found[1:] > found[:-1]).all())  # as rows are that were never replaced
        return found if in_order else np.sort(found)

    def _mask_of(self, row_ids: Ids) -> Flags:
        mask = np.zeros(self.n_slots, dtype=np.bool_)
        slots = self.slots.lookup(row_ids)
        mask[slots[slots >= 0]] = True
        return mask
