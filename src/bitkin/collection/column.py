"""Columns: arrays that grow at their end while others go on reading what was there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt


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
