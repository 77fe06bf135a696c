"""Small values that a user keeps with a collection: JSON among the settings of its database."""

from __future__ import annotations

import json
from typing import Any

from bitkin.checks import shown
from bitkin.collection.folder.store import FolderStore
from bitkin.errors import InvalidInputError

_PREFIX = "attribute."
_MOST_BYTES = 1 << 20


def read_attribute(store: FolderStore, name: str) -> Any:
    """Return the value under a name, None where there is none."""
    with store.database.read() as reading:
        return reading.setting(_checked(name))


def write_attribute(store: FolderStore, name: str, value: Any) -> None:
    """Keep a value under a name."""
    setting = _checked(name)
    try:
        text = json.dumps(value, allow_nan=False)
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        same, text = False, ""
    if not same or len(text) > _MOST_BYTES:
        raise InvalidInputError(
            f"value must be something that JSON holds as it is, of up to {_MOST_BYTES >> 20} MiB, "
            f"got {shown(value)}."
        )
    with store.database.write() as writing:
        writing.change_setting(setting, value)
        writing.commit()


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidInputError(f"name must be a string that can be printed, got {shown(name)}.")
    return _PREFIX + name
