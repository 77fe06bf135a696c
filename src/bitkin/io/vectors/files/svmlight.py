"""Sparse vectors in svmlight text (.svm, .svmlight, .libsvm, also packed as .gz), parsed a batch at
a time.

One pass at opening counts rows and columns and notes where every 1024th row begins, so that any row
is found by reading at most 1023 others.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch
from bitkin.checks import whole_number
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import StableFile, Stamp, failure_is_corruption
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.files.svmlight_lines import MAX_LINE, RowBuilder, column_range, features_of
from bitkin.io.vectors.rows import MAX_COLUMNS
from bitkin.io.vectors.stored import StoredSource

STRIDE = 1024
# A batch takes at most so many times its usual size, where all its rows are as long as the longest
_MAX_GROWTH = 64


class Survey(NamedTuple):
    """What the pass at opening found."""

    path: Path
    stamp: Stamp
    n_rows: int
    n_bytes: int
    most_entries: int
    """Of a row."""
    lowest: int | None
    highest: int | None
    marks: list[tuple[int, int]]
    """(byte, line number) where rows 0, 1024, 2048, … begin, or the blank lines before them."""


def open_svmlight(
    paths: Sequence[Path],
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    batch_rows: int | None = None,
) -> list[SvmlightRows]:
    """Open svmlight files that belong together: they share the number of columns and the number of
    the first one.
    """
    if zero_based not in (True, False, "auto"):
        raise InvalidInputError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    surveys = [_survey(path) for path in paths]
    lowest = min((survey.lowest for survey in surveys if survey.lowest is not None), default=0)
    # an index 0 anywhere proves that columns are counted from 0; else 1 is the custom
    from_zero = lowest == 0 if zero_based == "auto" else bool(zero_based)
    first_column = 0 if from_zero else 1
    widest = max(surveys, key=lambda survey: -1 if survey.highest is None else survey.highest)
    needed = 0 if widest.highest is None else widest.highest + 1 - first_column
    if n_features is None and needed == 0:
        raise InvalidInputError(
            f"{paths[0]} has no index:value pair: its width is not known. Give n_features=."
        )
    d = (
        needed
        if n_features is None
        else whole_number(n_features, "n_features", low=1, high=MAX_COLUMNS)
    )
    if d < needed:
        raise InvalidInputError(f"n_features must be at least {needed} for {widest.path}, got {d}.")
    return [SvmlightRows(survey, d, first_column, batch_rows) for survey in surveys]


class SvmlightRows(StoredSource):
    """The rows of one svmlight file, as CSR of float64."""

    gap = STRIDE

    def __init__(
        self, survey: Survey, n_columns: int, first_column: int, batch_rows: int | None = None
    ) -> None:
        # Twelve bytes in memory for an entry that takes about as much as text. Long lines may come
        # one after another: a batch of them is not to be many times larger than it should.
        row_bytes = max(
            survey.n_bytes / max(1, survey.n_rows), 12 * survey.most_entries / _MAX_GROWTH
        )
        shape = (survey.n_rows, n_columns)
        dtype = np.dtype(np.float64)
        name = str(survey.path)
        super().__init__(
            name, shape, dtype, sparse=True, row_bytes=row_bytes, batch_rows=batch_rows
        )
        self._survey = survey
        self._first_column = first_column

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield parsed lines."""
        survey = self._survey
        builder = RowBuilder(self.shape[1], self._first_column)
        with _open_text(survey.path, survey.stamp) as (text, file):
            for first, stop in spans:
                # from the nearest mark at or before the row; lines
                # in between are passed over unparsed
                row = first // STRIDE * STRIDE
                offset, line_number = survey.marks[first // STRIDE]
                text.seek(offset)
                for where, _, features in _content(text, self.name, line_number):
                    if row >= first:
                        builder.add(features, where)
                    row += 1
                    # before rows leave: those of a file that changed meanwhile must not
                    if len(builder) == rows or row == stop:
                        file.require_unchanged()
                        yield row - len(builder), builder.take()
                    if row == stop:
                        break


def _survey(path: Path) -> Survey:
    n_rows = 0
    most_entries = 0
    lowest: int | None = None
    highest: int | None = None
    marks = [(0, 1)]
    with _open_text(path) as (text, file):
        for where, (begin, line_number), features in _content(text, str(path)):
            if n_rows % STRIDE == 0 and n_rows:
                marks.append((begin, line_number))
            n_rows += 1
            if features:
                first, last = column_range(features, where)
                most_entries = max(most_entries, features.count(b":"))
                lowest = first if lowest is None else min(lowest, first)
                highest = last if highest is None else max(highest, last)
        n_bytes = text.tell()
        file.require_unchanged()
        return Survey(path, file.stamp, n_rows, n_bytes, most_entries, lowest, highest, marks)


def _content(
    text: IO[bytes], name: str, line_number: int = 1
) -> Iterator[tuple[str, tuple[int, int], bytes]]:
    """Yield what names a line in messages, its place (byte, line number) and its features, for
    lines with content.
    """
    offset = text.tell()
    while line := text.readline(MAX_LINE):
        where = f"{name}, line {line_number}"
        # readline stops there, so a line without an end cannot fill memory
        if len(line) == MAX_LINE:
            raise CorruptFileError(f"{where} is longer than {MAX_LINE} bytes.")
        features = features_of(line, where)
        if features is not None:
            yield where, (offset, line_number), features
        offset += len(line)
        line_number += 1


@contextmanager
def _open_text(path: Path, stamp: Stamp | None = None) -> Iterator[tuple[Any, StableFile]]:
    with (
        StableFile(path, stamp) as file,
        failure_is_corruption(path, OSError, EOFError, zlib.error),
    ):
        if path.suffix.lower() != ".gz":
            yield file.buffered, file
            return
        with gzip.GzipFile(fileobj=file.buffered) as unpacked:
            yield unpacked, file
