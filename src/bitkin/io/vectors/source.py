"""The promise every source of vectors keeps, whatever it reads from."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.closing import Closes
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import first_not_finite, not_finite, rows_per_batch
from bitkin.io.vectors.columns import Columns, require_columns

State = TypeVar("State")


class VectorSource(Closes, ABC):
    """Rows of vectors, read a batch at a time; made by `open_vectors`.

    A batch is a C-contiguous 2-D array in native byte order, or a SciPy CSR array with sorted,
    distinct int32 columns. Every number in it is finite: a NaN or an infinity is an
    `InvalidInputError` that names file, batch, row and column. A batch of an array in memory may be
    a view of it, so do not write to a batch.

    Files are opened when reading begins and closed when it ends; between two passes none is held. A
    file must stay as it was when the source was made, or reading ends with a `CorruptFileError`.

    Attributes
    ----------
    name : str
        What messages call the source: its file, or the argument it was.
    shape : tuple of (int or None, int)
        Rows and columns; the rows of an iterator are None.
    dtype : numpy.dtype
        Type of every batch.
    sparse : bool
        Whether batches are CSR.
    batch_rows : int
        Rows of a batch unless `batches` is told otherwise; by default as many as make about 8 MB.
    feature_names : tuple of str or None
        Names of the columns, where the vectors are a data frame or an iterator of such. A fitted
        estimator refuses others than those it was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from bitkin.io.vectors import open_vectors
    >>> with open_vectors(np.arange(10.0).reshape(5, 2)) as source:
    ...     for first, batch in source.batches(rows=2):
    ...         print(first, batch.tolist())
    0 [[0.0, 1.0], [2.0, 3.0]]
    2 [[4.0, 5.0], [6.0, 7.0]]
    4 [[8.0, 9.0]]
    >>> source.shape, len(source), source.sparse
    ((5, 2), 5, False)
    """

    feature_names: Columns | None = None

    in_parts: ClassVar[bool] = False
    """Whether rows are in several places, so that `fold` begins a state in each of them."""

    def __init__(
        self,
        name: str,
        shape: tuple[int | None, int],
        dtype: np.dtype[Any],
        *,
        sparse: bool = False,
        row_bytes: float | None = None,
        batch_rows: int | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.sparse = sparse
        if batch_rows is None:
            batch_rows = rows_per_batch(row_bytes or shape[1] * dtype.itemsize)
        self.batch_rows = batch_rows
        self._closed = False

    @abstractmethod
    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` in order from row `start`, at most `rows` rows per batch.

        Stored vectors come in batches of exactly `rows` rows, the last one shorter, across files
        too. An iterator's batches are split but never joined, so that a live stream is not delayed,
        and its first `start` rows are dropped.
        """

    @abstractmethod
    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Return the given rows in the given order, repeats included, all in memory at once.

        A file is read once, forwards, whatever the order. An iterator cannot go back:
        `InvalidInputError`.
        """

    def fold(
        self,
        start: Callable[[], State],
        update: Callable[[State, int, Batch], State],
        merge: Callable[[State, State], State],
    ) -> State:
        """Read all rows once, and return what `update(state, first_row, batch)` makes of them.

        Here every batch goes into the one state that `start()` made. Where rows are in several
        places (`in_parts`), each has a state of its own, and `merge(state, state)` returns that of
        two neighbours. So all three have to be picklable; an update may change the state that it
        is given, a merge neither of the two.
        """
        state = start()
        for first, batch in self.batches():
            state = update(state, first, batch)
        return state

    def read_through(self) -> int:
        """Read all rows for the sake of those that are not finite, and return how many there
        are.
        """
        n_rows: int = self.fold(int, _count_rows, operator.add)
        return n_rows

    def require_columns(self, wanted: Columns | None, other: str | None = None) -> None:
        """Raise where the columns have other names than `wanted`, those of `other`; by default, of
        what was fitted.
        """
        require_columns(self.feature_names, wanted, self.name, other)

    def __len__(self) -> int:
        if self.shape[0] is None:
            raise InvalidInputError(
                f"{self.name} is an iterator: how many rows it has is not known before its end."
            )
        return self.shape[0]

    def close(self) -> None:
        """End the source: reading it afterwards is an error. Closing twice is fine."""
        self._closed = True

    def __repr__(self) -> str:
        kind = "sparse" if self.sparse else "dense"
        shape = f"{self.shape[0]} × {self.shape[1]}"
        return f"<{type(self).__name__} {self.name}: {shape} {kind} {self.dtype}>"

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"{self.name} is closed. Open it again with open_vectors.")

    def _place(self, row: int) -> tuple[str, int]:
        """Return the name of the file (or argument) that holds `row`, and its number there."""
        return self.name, row

    def _require_finite(
        self, batch: Batch, rows: range | npt.NDArray[np.int64], batch_number: int | None = None
    ) -> None:
        """Raise for the first NaN or infinity; `rows` are the numbers of the batch's rows."""
        found = first_not_finite(batch)
        if found is None:
            return
        position, column, value = found
        row = int(rows[position])
        name, row_there = self._place(row)
        whole = f" (row {row} of all files)" if name != self.name else ""
        raise not_finite(value, name, f"row {row_there}{whole}", column, batch_number)


def _count_rows(n_rows: int, _: int, batch: Batch) -> int:
    return n_rows + int(batch.shape[0])


class WatchedSource(VectorSource):
    """Another source's rows; after every batch, `report` is called with the number of rows read so
    far in the pass.
    """

    def __init__(self, source: VectorSource, report: Callable[[int], None]) -> None:
        super().__init__(
            source.name,
            source.shape,
            source.dtype,
            sparse=source.sparse,
            batch_rows=source.batch_rows,
        )
        self.feature_names = source.feature_names
        self._source = source
        self._report = report

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield the other source's batches."""
        for first, batch in self._source.batches(rows, start):
            yield first, batch
            self._report(first + batch.shape[0])

    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Return the other source's rows."""
        return self._source.gather(row_numbers)
