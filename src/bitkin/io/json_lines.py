"""Texts in JSON lines files: one object a line, its text in one field; plain or packed as .gz.

Blank lines hold no document.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from bitkin.checks import shown
from bitkin.errors import InvalidInputError
from bitkin.io.line_files import Document, LineFiles, decode_line, missing_field

_JSON_SPACE = b" \t\r\n"
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}

_decoder = json.JSONDecoder()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, n in counts.items() if n > 1)
        raise ValueError(f"the key {shown(twice)} stands {counts[twice]} times in one object")
    return members


_strict_decoder = json.JSONDecoder(object_pairs_hook=_members)


class JsonLines(LineFiles):
    r"""Documents of several files, read as one. Parameters are those of `DocumentFiles`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.jsonl"
    >>> _ = path.write_text('{"text": "one", "id": 7}\n{"text": "two", "id": 8}\n')
    >>> [(d.text, d.line, d.id) for d in JsonLines([path], id_field="id").documents()]
    [('one', 1, 7), ('two', 2, 8)]
    """

    def documents(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield every document in order; `progress` is told the bytes read, out of `n_bytes`."""
        for file, line, record in self.records(progress):
            try:
                text = member(record, self.field, "field")
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
        for file, line, data in self.numbered_lines(progress):
            found = True
            try:
                content = data.removeprefix(codecs.BOM_UTF8) if line == 1 else data
                record = parse_record(content, "a JSON object with a field for the text")
            except InvalidInputError as flaw:
                raise self.located(flaw, file, line) from None
            yield file, line, record
        if not found:
            raise self.no_documents("Every line must hold one JSON object.")


def parse_record(
    data: bytes, wanted: str = "a JSON object", *, keys_once: bool = False
) -> dict[str, Any]:
    """Return the object that a line holds; raise an error that says what is wrong with it, and with
    `keys_once` where a key stands twice, of which JSON readers keep one or the other.
    """
    decoder = _strict_decoder if keys_once else _decoder
    text = decode_line(data.strip(_JSON_SPACE))
    try:
        # raw_decode instead of json.loads: one object made once, and no search for leading space
        record, end = decoder.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error.msg} at column {error.colno}.") from None
    # a number of thousands of digits, thousands of brackets
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"JSON that cannot be read: {error}.") from None
    if not isinstance(record, dict):
        raise InvalidInputError(f"must be {wanted}, got {in_words(record)}.")
    return record


def member(record: dict[str, Any], field: str, option: str | None = None) -> Any:
    """Return a field of an object, or raise an error that lists those it has, and by which argument
    another one is named.
    """
    if field in record:
        return record[field]
    raise missing_field(field, list(record), option=option)


def _id(record: dict[str, Any], field: str) -> Any:
    value = member(record, field, "id_field")
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
