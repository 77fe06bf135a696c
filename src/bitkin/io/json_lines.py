"""Texts in JSON lines files: one object a line, its text in one field; plain or packed as .gz.

Blank lines hold no document. A missing newline at the end of a file is no flaw. Files are read
twice (texts, then the lines to keep), and must be the same both times.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import StableFile, failure_is_corruption, stamp_of

MAX_LINE = 2**30

_BUFFER = 1 << 20
_LINES_BETWEEN_NEWS = 256
_GZIP = b"\x1f\x8b"
_JSON_SPACE = b" \t\r\n"
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}

_decoder = json.JSONDecoder()


class Document(NamedTuple):
    """One document, and where it stands."""

    text: str
    file: int
    """Number of the file, from 0."""
    line: int
    """Number of the line, from 1."""
    id: Any
    """Value of the id field; None where no field was named."""


class JsonLines:
    r"""Documents of several files, read as one.

    Parameters
    ----------
    paths : list of paths
        Regular files; a name that ends in .gz is unpacked.
    field : str, default "text"
        The field that holds the text.
    id_field : str, optional
        A field that names the document in reports.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.jsonl"
    >>> _ = path.write_text('{"text": "one", "id": 7}\n{"text": "two", "id": 8}\n')
    >>> [(d.text, d.line, d.id) for d in JsonLines([path], id_field="id").documents()]
    [('one', 1, 7), ('two', 2, 8)]
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        field: str = "text",
        *,
        id_field: str | None = None,
    ) -> None:
        if isinstance(paths, (str, os.PathLike)) or not paths:
            raise InvalidInputError(f"paths must be a list of at least one path, got {paths!r}.")
        self.paths = [Path(path) for path in paths]
        self.field = field
        self.id_field = id_field
        self._stamps = [stamp_of(path) for path in self.paths]

    @property
    def n_bytes(self) -> int:
        """Bytes of all files as they are stored."""
        return sum(stamp.size for stamp in self._stamps)

    def documents(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield every document in order; `progress` is told the bytes read, out of `n_bytes`."""
        for file, line, record in self.records(progress):
            try:
                text = member(record, self.field)
                if not isinstance(text, str):
                    raise InvalidInputError(
                        f"field {self.field!r} must be a string, got {in_words(text)}."
                    )
                name = None if self.id_field is None else _id(record, self.id_field)
            except InvalidInputError as flaw:
                raise self.located(flaw, file, line) from None
            yield Document(text, file, line, name)

    def records(
        self, progress: Callable[[int], None] | None = None
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield number of the file, number of the line and the whole object of every document in
        order.
        """
        found = False
        for file, line, data in self._lines(progress):
            found = True
            try:
                record = _parsed(data.removeprefix(codecs.BOM_UTF8) if line == 1 else data)
            except InvalidInputError as flaw:
                raise self.located(flaw, file, line) from None
            yield file, line, record
        if not found:
            names = ", ".join(map(str, self.paths))
            raise InvalidInputError(f"{names}: no documents. Every line must hold one JSON object.")

    def located(self, flaw: InvalidInputError, file: int, line: int) -> InvalidInputError:
        """Return an error that says where its flaw is."""
        return InvalidInputError(f"{self.paths[file]}, line {line}: {flaw}")

    def lines(self, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Yield the line of every document in order, byte for byte, its newline included."""
        return (data for _, _, data in self._lines(progress))

    def _lines(self, progress: Callable[[int], None] | None) -> Iterator[tuple[int, int, bytes]]:
        """Yield number of the file, number of the line and the line, for lines that are not
        blank.
        """
        before = 0
        for file, (path, stamp) in enumerate(zip(self.paths, self._stamps, strict=True)):
            with StableFile(path, stamp) as stable, _unpacked(path, stable) as stream:
                number = 0
                while data := stream.readline(MAX_LINE):
                    number += 1
                    if len(data) == MAX_LINE:
                        raise CorruptFileError(
                            f"{path}, line {number} is longer than {MAX_LINE} bytes."
                        )
                    # place in the packed file, so that shares of `n_bytes` are right for .gz too
                    if progress is not None and number % _LINES_BETWEEN_NEWS == 0:
                        progress(before + stable.buffered.tell())
                    if number == 1 and data.startswith(_GZIP) and stream is stable.buffered:
                        raise CorruptFileError(
                            f"{path} is packed by gzip. Give it a name that ends in .gz."
                        )
                    # a file may begin with a byte order mark, which is no content
                    if (data.removeprefix(codecs.BOM_UTF8) if number == 1 else data).strip():
                        yield file, number, data
                stable.require_unchanged()
            before += stamp.size
            if progress is not None:
                progress(before)


@contextmanager
def _unpacked(path: Path, stable: StableFile) -> Iterator[Any]:
    with failure_is_corruption(path, OSError, EOFError, zlib.error):
        if path.suffix.lower() != ".gz":
            yield stable.buffered
            return
        # GzipFile reads lines in Python; a reader around it does so in C.
        with (
            gzip.GzipFile(fileobj=stable.buffered) as packed,
            io.BufferedReader(packed, _BUFFER) as stream,
        ):
            yield stream


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        text = data.strip(_JSON_SPACE).decode()
        # raw_decode instead of json.loads: one object made once, and no search for leading space
        record, end = _decoder.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not UTF-8 at byte {error.start}. Convert the file to UTF-8."
        ) from None
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error.msg} at column {error.colno}.") from None
    # a number of thousands of digits, thousands of brackets
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"JSON that cannot be read: {error}.") from None
    if not isinstance(record, dict):
        raise InvalidInputError(
            f"must be a JSON object with a field for the text, got {in_words(record)}."
        )
    return record


def member(record: dict[str, Any], field: str) -> Any:
    """Return a field of an object, or raise an error that lists those it has."""
    if field in record:
        return record[field]
    fields = ", ".join(map(repr, list(record)[:8])) + (", …" if len(record) > 8 else "")
    raise InvalidInputError(f"no field {field!r}. It has {fields or 'no fields'}.")


def _id(record: dict[str, Any], field: str) -> Any:
    value = member(record, field)
    try:
        # Python reads NaN and 1e999, which no report can hold
        if isinstance(value, (float, list, dict)):
            json.dumps(value, allow_nan=False)
    except ValueError:
        raise InvalidInputError(
            f"field {field!r} must be an id that JSON can hold, got NaN or Infinity."
        ) from None
    return value


def in_words(value: Any) -> str:
    """Say what kind of JSON a value is."""
    return _KINDS.get(type(value), f"the number {value!r}")
