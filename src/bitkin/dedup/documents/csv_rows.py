"""Texts in CSV files: a header, then one document per row, which may go over several lines."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any

from bitkin.errors import InvalidInputError
from bitkin.io.line_files import MAX_LINE, Document, LineFiles, decode_line

Line = tuple[int, int, bytes]
Row = tuple[int, int, list[str], bytes]


class CsvRows(LineFiles):
    """Rows of several CSV files that have the same header; blank lines are no rows. `delimiter`
    stands between columns; other parameters are those of `DocumentFiles`.
    """

    keeps_blank_lines = True  # within quotes they are text

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        field: str = "text",
        *,
        id_field: str | None = None,
        names: Sequence[str] | None = None,
        delimiter: str = ",",
    ) -> None:
        super().__init__(paths, field, id_field=id_field, names=names)
        self.delimiter = delimiter

    def documents(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield every document in order; `progress` is told the bytes read, out of `n_bytes`."""
        found = False
        for file, line, values, _ in self._rows(progress):
            found = True
            try:
                text = self._value(values, self.field)
                name = None if self.id_field is None else self._value(values, self.id_field)
            except InvalidInputError as flaw:
                raise self.located(flaw, file, line) from None
            yield Document(text, file, line, name)
        if not found:
            raise self.no_documents("A CSV file has a header and then one row per document.")

    def lines(self, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Yield the bytes of every row but the header, line ends included."""
        return (data for _, _, _, data in self._rows(progress))

    def _rows(self, progress: Callable[[int], None] | None) -> Iterator[Row]:
        """Yield file, first line, values and bytes of every row; `header` is set on the way."""
        # closed here, also by an error: it holds the file open
        with closing(self.numbered_lines(progress)) as lines:
            yield from self._rows_of(lines)

    def _rows_of(self, lines: Iterator[Line]) -> Iterator[Row]:
        self._columns: list[str] = []
        taken: list[Line] = []  # lines of the row that is being read
        by_file = groupby(lines, key=itemgetter(0))
        for file, numbered in by_file:

            def decoded(file: int = file, numbered: Iterator[Line] = numbered) -> Iterator[str]:
                for line in numbered:
                    taken.append(line)
                    content = line[2].removeprefix(codecs.BOM_UTF8) if line[1] == 1 else line[2]
                    try:
                        yield decode_line(content)
                    except InvalidInputError as flaw:
                        raise self.located(flaw, file, line[1]) from None

            reader = csv.reader(decoded(), delimiter=self.delimiter, strict=True)
            is_header = True
            while (values := self._next_row(reader, taken, file)) is not None:
                data = b"".join(line for _, _, line in taken)
                first_line = taken[0][1]
                taken.clear()
                if not values:  # a blank line
                    continue
                if is_header:
                    self._set_header(values, data, file, first_line)
                    is_header = False
                else:
                    yield file, first_line, values, data

    def _next_row(self, reader: Iterator[list[str]], taken: list[Line], file: int) -> Any:
        # Python refuses longer fields than 128 KiB unless told otherwise, for the whole process: so
        # only while a row is read.
        limit = csv.field_size_limit()
        csv.field_size_limit(max(limit, MAX_LINE))
        try:
            return next(reader, None)
        except csv.Error as error:
            flaw = InvalidInputError(f"not CSV: {error}.")
            raise self.located(flaw, file, taken[0][1]) from None
        finally:
            csv.field_size_limit(limit)

    def _set_header(self, columns: list[str], data: bytes, file: int, line: int) -> None:
        if file == 0:
            self._columns = columns
            self.header = data if data.endswith(b"\n") else data + b"\n"
        wanted = [name for name in (self.field, self.id_field) if name is not None]
        try:
            self.require_fields(columns)
        except InvalidInputError as absent:
            no_header = InvalidInputError(
                f"{absent} The first line of a CSV file is its header; where it is a text already, "
                "write one above it."
            )
            raise self.located(no_header, file, line) from None
        flaw = None
        if twice := [name for name in wanted if columns.count(name) > 1]:
            flaw = (
                f"{columns.count(twice[0])} columns {twice[0]!r}, so which one is meant is "
                "unknown. Rename all but one."
            )
        elif columns != self._columns:
            flaw = (
                f"a header unlike that of {self.names[0]}. Files that are read as one have the "
                "same columns."
            )
        if flaw is not None:
            raise self.located(InvalidInputError(flaw), file, line)

    def _value(self, values: list[str], column: str) -> str:
        if len(values) != len(self._columns):
            raise InvalidInputError(
                f"{len(values)} values, where the header has {len(self._columns)} columns."
            )
        return values[self._columns.index(column)]
