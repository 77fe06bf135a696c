"""Ids that are strings. Each gets a row number when it is first seen, and keeps it as long as this
object lives.

So the table only grows, and readers need no lock: an id that is not in a reader's snapshot, since
it came later or was removed before, has a number that is not there either.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import require_order, shown
from bitkin.errors import DuplicateIdError, InvalidInputError

Names = npt.NDArray[np.object_]


class StringIds:
    """Strings, numbered in the order in which they came."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._text_bytes = sum(map(sys.getsizeof, self._names))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """Bytes held for the strings and the table of their numbers."""
        return self._text_bytes + sys.getsizeof(self._names) + sys.getsizeof(self._numbers)

    def is_one(self, value: object) -> bool:
        """Whether a value can be an id."""
        return isinstance(value, str)

    def checked(self, ids: Any, name: str = "ids") -> Names:
        """Return ids as a 1-D array of strings, in the order given."""
        require_order(ids, name, any_order=True)
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise InvalidInputError(
                f"{name} must be a list of strings, got {shown(ids)}. Wrap a single id in a list."
            )
        listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        if not isinstance(listed, list):  # of an array without dimensions
            raise InvalidInputError(
                f"{name} must be 1-dimensional, got one {shown(listed)}. Wrap a single id in a "
                "list."
            )
        for position, value in enumerate(listed):
            if not isinstance(value, str):
                raise InvalidInputError(
                    f"{name} must be strings in a collection with ids='str', got {shown(value)} at "
                    f"position {position}."
                )
        # subclasses, such as NumPy's, become plain strings
        return _array_of(map(str, listed), len(listed))

    def given(self, n_rows: int, ids: Any) -> Names:
        """Return the ids that a caller gave for so many rows, all different; none can be made
        here.
        """
        if ids is None:
            raise InvalidInputError(
                "ids must be given, one string a row, in a collection with ids='str'."
            )
        names = self.checked(ids)
        if len(names) != n_rows:
            raise InvalidInputError(f"ids must be one a row, got {len(names)} for {n_rows} rows.")
        if len(set(names)) < n_rows:
            twice = [name for name, count in Counter(names).items() if count > 1]
            raise DuplicateIdError(f"ids must differ, given more than once: {some_ids(twice)}.")
        return names

    def numbers(self, ids: Names) -> Ids:
        """Return the row number of every id, −1 where it never came."""
        return np.fromiter((self._numbers.get(name, -1) for name in ids), np.int64, len(ids))

    def entered(self, ids: Names) -> Ids:
        """Return the row number of every id, a new one where it never came. For the writer
        alone.
        """
        for name in ids:
            if name not in self._numbers:
                # first, or a reader could learn a number that has no name yet
                self._names.append(name)
                self._numbers[name] = len(self._names) - 1
                self._text_bytes += sys.getsizeof(name)
        return self.numbers(ids)

    def of(self, numbers: Ids) -> Names:
        """Return the id of every row number; −1 is nobody, None."""
        names = self._names
        flat = (None if number < 0 else names[number] for number in numbers.reshape(-1).tolist())
        return _array_of(flat, numbers.size).reshape(numbers.shape)

    def only(self, numbers: Ids) -> tuple[StringIds, Ids]:
        """Return what is needed for some rows alone, in ascending order, and the numbers that they
        have then.
        """
        return StringIds(self.of(numbers)), np.arange(len(numbers))


def some_ids(ids: Any) -> str:
    """Write the first few ids for a message."""
    listed = list(ids)
    text = ", ".join(shown(value) if isinstance(value, str) else str(value) for value in listed[:5])
    return text if len(listed) <= 5 else f"{text} and {len(listed) - 5} more"


def _array_of(values: Iterable[Any], n: int) -> Names:
    array = np.empty(n, dtype=object)
    array[:] = list(values)
    return array
