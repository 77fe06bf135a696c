"""A text and its metadata as the metadata of a row, and back, equal to what was given.

The text is under a key that the caller may choose. A row's own metadata stands beside it, under its
own names, so that filters find it. What a collection cannot keep as it is (None, an empty list,
NaN, text with NUL, a name that is taken) is kept as JSON under `ASIDE`: it comes back, and to a
filter it is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bitkin.checks import shown
from bitkin.collection.metadata.documents import (
    INT64_MAX,
    INT64_MIN,
    encode_metadata,
    text_fault,
)
from bitkin.errors import CorruptFileError, InvalidInputError

TEXT_KEY = "text"
"""Where texts are, unless the caller says otherwise."""
ASIDE = "_kept_aside"
"""What no key of a row can hold as it is."""
SOURCE = "_ref_doc_id"
"""The document that a node of LlamaIndex was cut from."""
NODE = "_node"
"""What else a node of LlamaIndex knows, as JSON."""
RESERVED = frozenset({ASIDE, SOURCE, NODE})


class TextRow(NamedTuple):
    """What is known of one text."""

    id: str
    text: str
    metadata: dict[str, Any]
    """What the caller gave, and nothing of ours."""
    ours: dict[str, Any]
    """What this package keeps for itself: `SOURCE` and `NODE`, where they are there."""


def check_text_key(text_key: Any) -> str:
    """Return the key of the texts; raise where it cannot be one."""
    if (
        not isinstance(text_key, str)
        or not text_key
        or text_fault(text_key)
        or text_key in RESERVED
    ):
        raise InvalidInputError(
            f"text_key must be a name that metadata can have, other than "
            f"{', '.join(sorted(RESERVED))}, got {shown(text_key)}. Give the key that holds texts, "
            "such as 'text'."
        )
    return text_key


def write_row(
    text: str, metadata: Mapping[str, Any], text_key: str, ours: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a collection keeps of a text and its metadata.

    Examples
    --------
    >>> write_row("rain", {"page": 3, "author": None}, "text")
    {'page': 3, 'text': 'rain', '_kept_aside': '{"metadata": {"author": null}}'}
    """
    row: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    for key, value in metadata.items():
        taken = key == text_key or key in RESERVED
        if (taken or not _is_kept(key, value)) and _survives_json({key: value}):
            aside[key] = value
        elif taken:
            raise InvalidInputError(
                f"metadata under {key!r} must be values that JSON can hold, got {shown(value)}."
            )
        else:  # where it cannot be kept at all, the collection says why
            row[key] = value
    kept: dict[str, Any] = {"metadata": aside} if aside else {}
    if text_fault(text):
        kept["text"] = text
    else:
        row[text_key] = text
    if kept:
        row[ASIDE] = json.dumps(kept)
    row.update(ours or {})
    return row


def read_row(id: str, row: Mapping[str, Any], text_key: str) -> TextRow:
    """Return the text and metadata that `write_row` made a row of.

    Examples
    --------
    >>> read_row("a", {"page": 3, "text": "rain"}, "text")
    TextRow(id='a', text='rain', metadata={'page': 3}, ours={})
    """
    metadata = {key: value for key, value in row.items() if key not in RESERVED}
    text = metadata.pop(text_key, None)
    if ASIDE in row:
        aside = _read_aside(id, row[ASIDE])
        metadata.update(aside.get("metadata", {}))
        text = aside.get("text", text)
    if not isinstance(text, str):
        holders = [key for key, value in metadata.items() if isinstance(value, str)]
        found = f" Text is under {_list_keys(holders)}." if holders else ""
        raise InvalidInputError(
            f"text_key must be the key that holds the texts of the collection, got {text_key!r}, "
            f"under which the row {shown(id)} has {shown(text)}.{found}"
        )
    return TextRow(id, text, metadata, {key: row[key] for key in (SOURCE, NODE) if key in row})


def _read_aside(id: str, text: Any) -> dict[str, Any]:
    try:
        aside = json.loads(text)
    except (TypeError, ValueError):
        aside = None
    if not isinstance(aside, dict) or not isinstance(aside.get("metadata", {}), dict):
        raise CorruptFileError(
            f"the row {shown(id)} must have what bitkin wrote under {ASIDE!r}, got {shown(text)}. "
            "Write the row again."
        )
    return aside


def _is_kept(key: Any, value: Any) -> bool:
    """Tell whether a collection keeps an entry as it is, or refuses it for its key."""
    if not isinstance(key, str):
        return True  # refused with a message
    if not key or text_fault(key):
        return False
    kind = type(value)
    if kind is str:
        return not text_fault(value)
    if kind is bool:
        return True
    if kind is int:
        return bool(INT64_MIN <= value <= INT64_MAX)
    if kind is float:
        return math.isfinite(value)
    if value is None or (kind is list and not value):
        return False
    try:
        encode_metadata({key: value}, 0)
    except InvalidInputError:
        return False
    return True


def _survives_json(entry: dict[Any, Any]) -> bool:
    """Tell whether JSON holds an entry so that it comes back the same, NaN too."""
    try:
        return bool(repr(json.loads(json.dumps(entry))) == repr(entry))
    except (TypeError, ValueError, RecursionError):
        return False


def _list_keys(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(keys)[:5]))
