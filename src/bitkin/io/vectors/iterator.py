"""Vectors that come once: an iterator or generator of batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Batch
from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import bytes_per_row, first_changed, plain_batch, row_slice
from bitkin.io.vectors.columns import Columns, column_names, require_columns
from bitkin.io.vectors.rows import as_rows, number_dtype
from bitkin.io.vectors.source import VectorSource

_END = object()


class IteratorSource(VectorSource):
    """Batches of an iterator, in the order they come, once.

    The first batch is fetched at once: it sets the number of columns, the type, and dense or sparse
    for all. What comes out is a copy: an iterator may refill one array for every batch, and a
    caller may keep the batches.
    """

    def __init__(self, batches: Iterator[Any], name: str, batch_rows: int | None = None) -> None:
        head = next(batches, _END)
        if head is _END:
            raise InvalidInputError(
                f"{name} is an iterator without a single batch: how wide its rows are is not known."
            )
        first = as_rows(head, f"{name}, batch 0")
        sparse = issparse(first)
        dtype = number_dtype(first.dtype, name)
        super().__init__(
            name,
            (None, first.shape[1]),
            dtype,
            sparse=sparse,
            row_bytes=bytes_per_row(first),
            batch_rows=batch_rows,
        )
        self.feature_names = column_names(head)
        self._names, self._named = self.feature_names, 0  # of the first batch that has names
        self._wanted: list[tuple[Columns | None, str | None]] = []
        self._given = batches
        self._head = first
        self._spent = False

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` as they come, split where longer than `rows`, once."""
        self._require_open()
        rows = self.batch_rows if rows is None else whole_number(rows, "rows", low=1)
        start = whole_number(start, "start", low=0)
        if self._spent:
            raise InvalidInputError(
                f"{self.name} is an iterator and was read already: it gives its batches once. "
                "Open an array or a file to read it again."
            )
        self._spent = True
        return self._read(rows, start)

    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Refuse: an iterator cannot go back."""
        raise InvalidInputError(
            f"{self.name} is an iterator: its rows come once and cannot be picked by number. Open "
            "an array or a file."
        )

    def require_columns(self, wanted: Columns | None, other: str | None = None) -> None:
        """Raise where the first batch has names other than `wanted`; where a later one has, reading
        it does.
        """
        super().require_columns(wanted, other)
        self._wanted.append((wanted, other))

    def close(self) -> None:
        """End the source, and the generator behind it."""
        super().close()
        if hasattr(self._given, "close"):
            self._given.close()

    def _read(self, rows: int, start: int) -> Iterator[tuple[int, Batch]]:
        end = 0
        # The head is not kept here once it is read: it may be as large as memory allows.
        head, self._head = self._head, None
        for number, given in enumerate(chain([head], self._given)):
            self._require_names(given, number)
            batch = self._fitting(given, number, end)
            begin, end = end, end + batch.shape[0]
            self._require_finite(batch, range(begin, end), number)
            for at in range(max(begin, start), end, rows):
                # Piece by piece, for a batch may be as large as memory allows.
                yield at, row_slice(batch, at - begin, min(end, at + rows) - begin).copy()
        if end < start:
            raise InvalidInputError(
                f"start must be at most {end}, the rows {self.name} gave, got {start}."
            )

    def _require_names(self, given: Any, number: int) -> None:
        """Raise where a batch is a data frame with other columns than an earlier one, or than what
        it is for.
        """
        names = column_names(given) if number else None  # what is left of the head is an array
        if names is None:
            return
        name = f"{self.name}, batch {number}"
        for wanted, other in self._wanted:
            require_columns(names, wanted, name, other)
        if self._names is None:
            self._names, self._named = names, number
        require_columns(names, self._names, name, f"batch {self._named}")

    def _fitting(self, given: Any, number: int, first: int) -> Batch:
        """Return one given batch, which starts at row `first`, with the columns and type of the
        first.
        """
        name = f"{self.name}, batch {number}"
        batch = as_rows(given, name)
        if batch.shape[1] != self.shape[1]:
            raise InvalidInputError(
                f"{name} must have {self.shape[1]} columns like batch 0, got {batch.shape[1]}."
            )
        if issparse(batch) != self.sparse:
            raise InvalidInputError(
                f"{name} must be {'sparse' if self.sparse else 'dense'} like batch 0."
            )
        if not np.can_cast(number_dtype(batch.dtype, name), self.dtype, "same_kind"):
            raise InvalidInputError(
                f"{name} must fit {self.dtype}, the type of batch 0, got {batch.dtype}. "
                f"{self._advice(batch)}"
            )
        # a float64 too large for float32 turns infinite, which is reported
        with np.errstate(over="ignore"):
            kept = batch.astype(self.dtype, copy=False)
        changed = first_changed(batch, kept)
        if changed is not None:
            row, column, value = changed
            raise InvalidInputError(
                f"{name} must fit {self.dtype}, the type of batch 0, got {value!s} at row "
                f"{first + row}, column {column}, which {self.dtype} cannot hold. "
                f"{self._advice(batch)}"
            )
        return plain_batch(kept, self.dtype)

    def _advice(self, batch: Batch) -> str:
        """Say which type the batches should have had from the start, where one holds all of
        both.
        """
        both = np.result_type(self.dtype, batch.dtype)
        kind = f"as {both}" if both != self.dtype else "as one type that holds all numbers"
        return f"The first batch decides the type: give all batches {kind} from the start."
