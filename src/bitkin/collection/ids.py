"""Ids as a caller knows them, whole numbers or strings, and the row ids that they stand for.

Inside, rows are known by row ids, int64. Ids that are whole numbers are row ids themselves. A
string gets a row id when it is first seen, and keeps it as long as its table lives. So the table
only grows, and readers need no lock: a string that is not in a reader's snapshot, because it came
later or was removed before, has a row id that is not there either.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import id_array, require_order, shown, some_of
from bitkin.errors import DuplicateIdError, InvalidInputError
from bitkin.index.rows.ids import given_ids, is_id

Names = npt.NDArray[np.object_]
_MOST_ID_BYTES = 512  # of an id that is stored


class CollectionIds(Protocol):
    """How ids, as a caller knows them, and row ids belong together."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def __len__(self) -> int:
        """Return how many ids are held here, those of removed rows included."""

    def is_id(self, value: object) -> bool:
        """Whether a value can be an id."""

    def check(self, ids: Any, name: str = "ids") -> npt.NDArray[Any]:
        """Return ids as a 1-D array, in the order given."""

    def check_new(self, n_rows: int, ids: Any) -> npt.NDArray[Any] | None:
        """Return the ids that a caller gave for so many rows, all different; None where they are to
        be made here.

        It may run any code of the caller's, so it comes before the writer's lock is taken.
        """

    def row_ids(self, ids: npt.NDArray[Any]) -> Ids:
        """Return the row id of every id, −1 where it cannot be there."""

    def register(self, ids: npt.NDArray[Any]) -> Ids:
        """Return the row id of every id, a new one where it never came. For the writer alone."""

    def from_row_ids(self, row_ids: Ids) -> npt.NDArray[Any]:
        """Return the id of every row id, and the padding of this kind of ids for −1."""

    def keep_only(self, row_ids: Ids) -> tuple[CollectionIds, Ids]:
        """Return the ids of some rows alone, in ascending order, and the row ids that they have
        then.
        """


class IntegerIds:
    """Whole numbers from 0 to 2**63 − 1: they are row ids themselves."""

    nbytes = 0

    def __len__(self) -> int:
        return 0  # none is held here

    def is_id(self, value: object) -> bool:
        """Whether a value can be an id."""
        return is_id(value)

    def check(self, ids: Any, name: str = "ids") -> Ids:
        """Return ids as a 1-D array, in the order given."""
        return id_array(ids, name, any_order=True)

    def check_new(self, n_rows: int, ids: Any) -> Ids | None:
        """Return the ids that a caller gave for so many rows, all different; None where none were
        given.
        """
        return given_ids(n_rows, ids)

    def row_ids(self, ids: Ids) -> Ids:
        """Return the row id of every id."""
        return ids

    def register(self, ids: Ids) -> Ids:
        """Return the row id of every id, a new one where it never came. For the writer alone."""
        return ids

    def from_row_ids(self, row_ids: Ids) -> Ids:
        """Return the id of every row id; −1, the padding, stays."""
        return row_ids

    def keep_only(self, row_ids: Ids) -> tuple[IntegerIds, Ids]:
        """Return the ids of some rows alone, in ascending order, and the row ids that they have
        then.
        """
        return self, row_ids


class StringIds:
    """Strings, numbered in the order in which they came."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._row_ids = {name: row_id for row_id, name in enumerate(self._names)}
        self._text_bytes = sum(map(sys.getsizeof, self._names))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """Bytes held for the strings and the table of their row ids."""
        return self._text_bytes + sys.getsizeof(self._names) + sys.getsizeof(self._row_ids)

    def is_id(self, value: object) -> bool:
        """Whether a value can be an id."""
        return isinstance(value, str)

    def check(self, ids: Any, name: str = "ids") -> Names:
        """Return ids as a 1-D array of strings, in the order given; a lone string is one id."""
        require_order(ids, name, any_order=True)
        if isinstance(ids, str):
            ids = [ids]
        if isinstance(ids, bytes) or not isinstance(ids, Iterable):
            raise InvalidInputError(
                f"{name} must be strings in a collection with ids='str', got {shown(ids)}."
            )
        listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        if not isinstance(listed, list):  # of an array without dimensions
            listed = [listed]
        for position, value in enumerate(listed):
            if not isinstance(value, str):
                raise InvalidInputError(
                    f"{name} must be strings in a collection with ids='str', got {shown(value)} at "
                    f"position {position}."
                )
        # subclasses, such as NumPy's, become plain strings
        return _array_of(map(str, listed), len(listed))

    def check_new(self, n_rows: int, ids: Any) -> Names:
        """Return the ids that a caller gave for so many rows, all different; none can be made
        here.
        """
        if ids is None:
            raise InvalidInputError(
                "ids must be given, one string a row, in a collection with ids='str'."
            )
        names = self.check(ids)
        if len(names) != n_rows:
            raise InvalidInputError(f"ids must be one a row, got {len(names)} for {n_rows} rows.")
        require_different(names)
        return names

    def row_ids(self, ids: Names) -> Ids:
        """Return the row id of every id, −1 where it never came."""
        # a dict may be read while the one writer adds to it
        return np.fromiter((self._row_ids.get(name, -1) for name in ids), np.int64, len(ids))

    def register(self, ids: Names) -> Ids:
        """Return the row id of every id, a new one where it never came. For the writer alone."""
        for name in ids:
            if name not in self._row_ids:
                # first, or a reader could learn a row id that has no name yet
                self._names.append(name)
                self._row_ids[name] = len(self._names) - 1
                self._text_bytes += sys.getsizeof(name)
        return self.row_ids(ids)

    def from_row_ids(self, row_ids: Ids) -> Names:
        """Return the id of every row id; −1, the padding, becomes None."""
        names = self._names
        flat = (None if row_id < 0 else names[row_id] for row_id in row_ids.reshape(-1).tolist())
        return _array_of(flat, row_ids.size).reshape(row_ids.shape)

    def keep_only(self, row_ids: Ids) -> tuple[StringIds, Ids]:
        """Return the ids of some rows alone, in ascending order, and the row ids that they have
        then.
        """
        return StringIds(self.from_row_ids(row_ids)), np.arange(len(row_ids))


class StoredStringIds(StringIds):
    """Strings whose row ids are those of a database: they keep them, and there may be gaps."""

    def __init__(
        self, names: Iterable[str] = (), row_ids: Iterable[int] = (), next_id: int = 0
    ) -> None:
        self._name_of = dict(zip(row_ids, names, strict=True))
        self._row_ids = {name: row_id for row_id, name in self._name_of.items()}
        self._text_bytes = sum(map(sys.getsizeof, self._row_ids))
        self._next_id = next_id

    def __len__(self) -> int:
        return len(self._name_of)

    @property
    def nbytes(self) -> int:
        """Bytes held for the strings and the tables of their row ids."""
        return self._text_bytes + sys.getsizeof(self._name_of) + sys.getsizeof(self._row_ids)

    def check(self, ids: Any, name: str = "ids") -> Names:
        """Return ids as a 1-D array of strings that a database can keep."""
        checked = super().check(ids, name)
        for one in checked:
            if not one.isascii():
                try:
                    length = len(one.encode())
                except UnicodeEncodeError:
                    raise InvalidInputError(
                        f"{name} must be valid Unicode, got {shown(one)}, which has half of a "
                        "surrogate pair."
                    ) from None
            else:
                length = len(one)
            if length > _MOST_ID_BYTES:
                raise InvalidInputError(
                    f"{name} must have at most {_MOST_ID_BYTES} bytes as UTF-8, got one of "
                    f"{length:,}: {shown(one[:40])}… Keep long keys in the metadata."
                )
        return checked

    def register(self, ids: Names) -> Ids:
        """Return the row id of every id, a new one where it never came. For the writer alone."""
        for name in ids:
            if name not in self._row_ids:
                self.enter(name, self._next_id)
        return self.row_ids(ids)

    def enter(self, name: str, row_id: int) -> None:
        """Let a name have a row id, as the database says. For the writer alone."""
        # first, or a reader could learn a row id that has no name yet
        self._name_of[row_id] = name
        self._row_ids[name] = row_id
        self._next_id = max(self._next_id, row_id + 1)
        self._text_bytes += sys.getsizeof(name)

    def with_stored(self, names: Sequence[str], row_ids: Sequence[int]) -> StoredStringIds:
        """Return the table with names that have row ids in the database. It is this one, unless
        another row id belongs to one of the names here: whoever reads older rows needs that.
        """
        known = map(self._row_ids.get, names)
        moved = any(old is not None and old != new for old, new in zip(known, row_ids, strict=True))
        table = self
        if moved:
            table = StoredStringIds(self._row_ids, self._row_ids.values(), self._next_id)
        for name, row_id in zip(names, row_ids, strict=True):
            table.enter(name, row_id)
        return table

    def start_at(self, next_id: int) -> None:
        """Give no row id below this one any more: rows that were removed had them, and a reader may
        know their names.
        """
        self._next_id = max(self._next_id, next_id)

    def from_row_ids(self, row_ids: Ids) -> Names:
        """Return the id of every row id; −1, the padding, becomes None."""
        flat = map(self._name_of.get, row_ids.reshape(-1).tolist())
        return _array_of(flat, row_ids.size).reshape(row_ids.shape)

    def keep_only(self, row_ids: Ids) -> tuple[StoredStringIds, Ids]:
        """Return the ids of some rows alone, which keep their row ids."""
        names = self.from_row_ids(row_ids)
        return StoredStringIds(names, row_ids.tolist(), self._next_id), row_ids


def require_different(ids: npt.NDArray[Any]) -> None:
    """Raise where an id is given twice."""
    if len(set(ids.tolist())) < len(ids):
        twice = [one for one, count in Counter(ids.tolist()).items() if count > 1]
        raise DuplicateIdError(f"ids must differ, given more than once: {list_some_ids(twice)}.")


def list_some_ids(ids: Any) -> str:
    """Write the first few ids for a message, strings in quotes."""
    return some_of(ids, lambda one: shown(one) if isinstance(one, str) else str(one))


def _array_of(values: Iterable[Any], n: int) -> Names:
    array = np.empty(n, dtype=object)
    array[:] = list(values)
    return array
