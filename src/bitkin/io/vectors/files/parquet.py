"""Vectors in .parquet files: one list column, every list a row. Needs pyarrow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.io.stable import StableFile, Stamp, failure_is_corruption
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.files.parquet_sizes import announced_by
from bitkin.io.vectors.limits import load_extra, require_honest_size
from bitkin.io.vectors.rows import number_dtype, row_shape
from bitkin.io.vectors.stored import StoredSource


class ParquetRows(StoredSource):
    """The lists of one column of a .parquet file, read a batch at a time."""

    def __init__(
        self, path: Path, column: str | None = None, batch_rows: int | None = None
    ) -> None:
        name = str(path)
        with open_parquet(path) as (parquet, file):
            self._stamp = file.stamp
            self._column = _list_column(parquet.schema_arrow, column, name)
            groups = [
                parquet.metadata.row_group(i).num_rows
                for i in range(parquet.metadata.num_row_groups)
            ]
            kind = parquet.schema_arrow.field(self._column).type
            require_honest_lists(file, self._column, kind)
            # after the sizes are known to be honest: this reads the first row
            d = _dimension(parquet, self._column, kind, name)
        shape = row_shape((sum(groups), d), name)
        super().__init__(
            name, shape, number_dtype(_numpy_type(kind.value_type), name), batch_rows=batch_rows
        )
        # A row group is only read from its start.
        self.gap = max([1, *groups])
        self._path = path
        self._firsts = [0, *accumulate(groups)]

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield the lists of the column, one row group after another."""
        with open_parquet(self._path, self._stamp) as (parquet, file):
            for first, stop in spans:
                # the row group that holds row `first`
                group = bisect_right(self._firsts, first) - 1
                at = self._firsts[group]
                groups = list(range(group, len(self._firsts) - 1))
                for lists in parquet.iter_batches(rows, row_groups=groups, columns=[self._column]):
                    file.require_unchanged()
                    begin, at = at, at + lists.num_rows
                    if at > first:
                        # rows of the group before those wanted are read and dropped
                        skip = max(0, first - begin)
                        wanted = lists.column(0).slice(skip, min(at, stop) - begin - skip)
                        yield begin + skip, self._vectors(wanted, begin + skip)
                    if at >= stop:
                        break

    def _vectors(self, lists: Any, first: int) -> npt.NDArray[Any]:
        """Return an Arrow array of lists as a 2-D array; `first` is the number of its first row."""
        d = self.shape[1]
        where = f"{self.name}, column {self._column!r}"
        if lists.null_count:
            row = first + int(np.argmax(np.asarray(lists.is_null())))
            raise InvalidInputError(
                f"{where} must have a list in every row, got null in row {row}."
            )
        lengths = np.asarray(lists.value_lengths())
        if (lengths != d).any():
            at = int(np.argmax(lengths != d))
            raise InvalidInputError(
                f"{where} must have lists of {d}, as in row 0, got {lengths[at]} in row "
                f"{first + at}."
            )
        # lists of one length, so their numbers side by side are the rows
        values = lists.flatten()
        if values.null_count:
            at = int(np.argmax(np.asarray(values.is_null())))
            raise InvalidInputError(
                f"{where} must have numbers only, got null in row {first + at // d}, column "
                f"{at % d}."
            )
        return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(lists), d)


@contextmanager
def open_parquet(path: Path, stamp: Stamp | None = None) -> Iterator[tuple[Any, StableFile]]:
    """Give a reader of a .parquet file, and the file, which must stay as it was."""
    arrow = load_extra("pyarrow", ".parquet")
    reader = load_extra("pyarrow.parquet", ".parquet")
    with (
        StableFile(path, stamp) as file,
        failure_is_corruption(path, arrow.ArrowException, OSError, ValueError),
    ):
        # A small buffer and no reading ahead: else a whole column of a row group, perhaps of the
        # file, is in memory.
        parquet = reader.ParquetFile(file.buffered, buffer_size=2**20, pre_buffer=False)
        try:
            yield parquet, file
        finally:
            parquet.close()


def _list_column(schema: Any, column: str | None, name: str) -> str:
    kinds: dict[str, Any] = {field.name: field.type for field in schema}
    lists = [key for key, kind in kinds.items() if _is_list(kind)]
    if column is None and len(lists) == 1:
        return lists[0]
    if column is None:
        raise InvalidInputError(
            f"{name} must have one list column, got {len(lists)}. Name one with column=; it has "
            f"{list(kinds)}."
        )
    if column not in lists:
        found = f"a column of {kinds[column]}" if column in kinds else "no such column"
        raise InvalidInputError(
            f"column must name a list column of {name}, got {column!r}: {found}. It has {lists}."
        )
    return column


def _is_list(kind: Any) -> bool:
    types = load_extra("pyarrow", ".parquet").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _numpy_type(kind: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return np.dtype(object)
    return dtype


def require_honest_lists(file: StableFile, column: str, kind: Any) -> None:
    """Raise where the lists of a column, or a page of them, are out of proportion to the file."""
    announced = announced_by(file, column)
    width = _numpy_type(kind.value_type).itemsize
    for n_bytes in (announced.n_values * width, announced.largest_page):
        require_honest_size(n_bytes, file.stamp.size, f"{file.path}, column {column!r}")


def _dimension(parquet: Any, column: str, kind: Any, name: str) -> int:
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    for lists in parquet.iter_batches(1, columns=[column]):
        if lists.num_rows and lists.column(0).null_count == 0:
            return int(lists.column(0).value_lengths()[0].as_py())
        if lists.num_rows:
            raise InvalidInputError(
                f"{name}, column {column!r} must have a list in every row, got null in row 0."
            )
    raise InvalidInputError(
        f"{name} has no rows: without one the length of its lists is not known."
    )
