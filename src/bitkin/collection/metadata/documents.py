"""Metadata of rows: what may be kept, and how it is written.

A row's metadata is a dictionary. It is kept exactly or refused: what `decode_metadata` returns
equals what `encode_metadata` was given, but for tuples, which become lists, and NumPy's numbers,
which become Python's. Keys are non-empty strings; values are None, bools, whole numbers of 64 bits,
finite floats, strings, and lists and dictionaries of such values. Fields that are declared have one
kind each and are held apart from the rest.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitkin.checks import one_of, shown
from bitkin.errors import CorruptFileError, InvalidInputError

FIELD_KINDS = ("int", "float", "bool", "str")
CONNECTIVES = ("and", "or", "not")  # words of a filter, which no declared field may be called
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
_MOST_FIELDS = 64
_MOST_BYTES = 1 << 24  # of a row's JSON
_MOST_LEVELS = 64  # of dictionaries and lists, the row itself included
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ALWAYS_PLAIN = frozenset({str, bool, type(None)})


class EncodedMetadata(NamedTuple):
    """Metadata of rows as it is kept."""

    fields: Sequence[tuple[Any, ...]]
    """Values of declared fields, in order, None where missing."""
    rest: Sequence[str | None]
    """JSON of what is not declared."""


def encode_documents(rows: Sequence[dict[str, Any]], fields: dict[str, str]) -> EncodedMetadata:
    """Return checked dictionaries as they are kept; raise for what cannot be kept exactly. A key
    with None is left out.
    """
    texts: list[str | None] = []
    values: list[tuple[Any, ...]] = []
    for row, one in enumerate(rows):
        declared, rest = split_fields(one, fields, row)
        if None in rest.values():
            rest = {key: value for key, value in rest.items() if value is not None}
        values.append(declared)
        texts.append(encode_metadata(rest, row) if rest else None)
    return EncodedMetadata(values, texts)


def check_metadata(metadata: Any, n_rows: int, name: str = "metadata") -> list[dict[str, Any]]:
    """Return one dictionary per row, in the order of the rows; what is in them is not checked yet.

    Accepts None for rows without any, a lone row's dictionary, a list of dictionaries or None, and
    a pandas data frame, whose missing cells are left out.
    """
    if metadata is None:
        return [{} for _ in range(n_rows)]
    if _is_frame(metadata):
        rows = _frame_rows(metadata, name)
    elif isinstance(metadata, dict):
        if n_rows != 1:
            raise InvalidInputError(
                f"{name} must be a list of {n_rows:,} dictionaries, one per row, got one "
                f"dictionary: {shown(metadata)}."
            )
        rows = [metadata]
    elif isinstance(metadata, (list, tuple)):
        rows = [_row_or_empty(one, row, name) for row, one in enumerate(metadata)]
    else:
        raise InvalidInputError(
            f"{name} must be a list with one dictionary per row or a pandas data frame, got "
            f"{shown(metadata)}. Give list({name}) where it is iterable."
        )
    if len(rows) != n_rows:
        raise InvalidInputError(
            f"{name} must have one dictionary per row, got {len(rows):,} for {n_rows:,} rows. "
            "Give None or {} for a row without any."
        )
    return rows


def _row_or_empty(one: Any, row: int, name: str) -> dict[str, Any]:
    if one is None:
        return {}
    if not isinstance(one, dict):
        raise InvalidInputError(
            f"{name} of row {row} must be a dictionary or None, got {shown(one)}."
        )
    return one


def _is_frame(value: Any) -> bool:
    """Tell whether `value` is a pandas data frame, without loading pandas."""
    return type(value).__name__ == "DataFrame" and (
        type(value).__module__.split(".")[0] == "pandas"
    )


def _frame_rows(frame: Any, name: str) -> list[dict[str, Any]]:
    """Return the rows of a pandas data frame; missing cells (None, NaN, NaT, NA) are left out."""
    labels = list(frame.columns)
    if len(set(labels)) != len(labels):
        raise InvalidInputError(f"{name} must have no two columns of one name, got {labels}.")
    rows: list[dict[str, Any]] = [{} for _ in range(len(frame))]
    for label in labels:
        cells, missing = frame[label].tolist(), frame[label].isna().tolist()
        for one, cell, gone in zip(rows, cells, missing, strict=True):
            if not gone:
                one[label] = cell
    return rows


def encode_metadata(one: dict[str, Any], row: int) -> str:
    """Return a row's metadata as compact JSON, keys in the order given; raise for what cannot be
    kept exactly. `row` is for messages.
    """
    text = _ENCODER.encode(one if _is_plain(one) else _plain_copy(one, row))
    try:
        n_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        _refuse_bad_text(one, row)
        raise
    if n_bytes > _MOST_BYTES:
        raise InvalidInputError(
            f"metadata of row {row} must be at most {_MOST_BYTES >> 20} MiB of JSON, got "
            f"{n_bytes:,} bytes. Keep large values elsewhere and their address here."
        )
    # A NUL is written so, and so is a backslash followed by u0000, which is fine.
    if "\\u0000" in text:
        _refuse_bad_text(one, row)
    return text


def decode_metadata(text: str | None) -> dict[str, Any]:
    """Return the metadata that was written as `text`; None stands for none."""
    if text is None:
        return {}
    try:
        one = json.loads(text)
    except (ValueError, RecursionError):
        one = None
    if not isinstance(one, dict):
        raise CorruptFileError(f"metadata must be a JSON object, got {shown(text)}.")
    return one


def _is_plain(one: dict[str, Any]) -> bool:
    """Tell at once whether a row holds nothing but plain scalars, as most do."""
    if type(one) is not dict:
        return False
    for key, value in one.items():
        if type(key) is not str or not key:
            return False
        kind = type(value)
        if kind is int:
            if not INT64_MIN <= value <= INT64_MAX:
                return False
        elif kind is float:
            if not math.isfinite(value):
                return False
        elif kind not in _ALWAYS_PLAIN:
            return False
    return True


class _Budget:
    """How many more values fit in a row, whatever they are: lists that hold one another many times
    become far more JSON than they have memory.
    """

    def __init__(self) -> None:
        self.left = _MOST_BYTES // 2  # every value is a character and a comma at least


_Path = tuple[Any, ...]


def _plain_copy(one: dict[str, Any], row: int) -> dict[str, Any]:
    """Return a row with Python's plain types alone; raise where that changes a value."""
    if not isinstance(one, dict):
        raise InvalidInputError(f"metadata of row {row} must be a dictionary, got {shown(one)}.")
    return _plain_dict(one, row, (), _Budget())


def _plain_dict(value: dict[Any, Any], row: int, path: _Path, budget: _Budget) -> dict[str, Any]:
    _enter(value, row, path, budget)
    plain = {}
    for key, item in value.items():
        if not isinstance(key, str) or not key:
            raise InvalidInputError(
                f"metadata of row {row} must have non-empty strings as keys, got "
                f"{shown(key)}{_inside(path)}. Write it as a string."
            )
        plain[str.__str__(key)] = _plain_value(item, row, (*path, key), budget)
    return plain


def _plain_value(value: Any, row: int, path: _Path, budget: _Budget) -> Any:
    if isinstance(value, dict):
        return _plain_dict(value, row, path, budget)
    if isinstance(value, (list, tuple)):
        _enter(value, row, path, budget)
        return [_plain_value(item, row, (*path, place), budget) for place, item in enumerate(value)]
    return _plain_scalar(value, row, path)


def _plain_scalar(value: Any, row: int, path: _Path) -> bool | int | float | str | None:
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        return str.__str__(value)
    if is_whole(value):
        number = int(value)
        if not INT64_MIN <= number <= INT64_MAX:
            raise _refusal(
                value, row, path, "between -2**63 and 2**63 - 1", "Write it as a string or a float."
            )
        return number
    if isinstance(value, (float, np.floating)):
        real = float(value)
        if not math.isfinite(real):
            raise _refusal(
                value, row, path, "finite", "Leave the key out, or give None, where it is missing."
            )
        if real != value:  # a longdouble
            raise _refusal(value, row, path, "a number that float64 holds", "Round it first.")
        return real
    raise _refusal(
        value, row, path, "None, a bool, a number, a string, a list or a dictionary", _advice(value)
    )


def is_whole(value: Any) -> bool:
    """Tell whether `value` is a whole number, Python's or NumPy's; bools are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def _advice(value: Any) -> str:
    if isinstance(value, (datetime.date, datetime.time, np.datetime64)):
        return "Write dates as ISO text, such as '2024-05-01'."
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return "Write durations as a number of seconds."
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "Decode it, or write it as base64 or hexadecimal text."
    if isinstance(value, (set, frozenset)):
        return "Give a list: sorted(value)."
    if isinstance(value, np.ndarray):
        return "Give a list: value.tolist()."
    if isinstance(value, Mapping):
        return "Give a dictionary: dict(value)."
    return "Write it as a string or a number."


def _enter(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...], row: int, path: _Path, budget: _Budget
) -> None:
    """Raise where a dictionary or list is nested too deeply, or where there are too many values."""
    if len(path) >= _MOST_LEVELS:
        raise InvalidInputError(
            f"metadata of row {row} must be nested at most {_MOST_LEVELS} levels deep, got more "
            f"under {shown(path[0])}. Write the inner part as JSON text."
        )
    budget.left -= len(value)
    if budget.left < 0:
        raise InvalidInputError(
            f"metadata of row {row} must be at most {_MOST_BYTES >> 20} MiB of JSON, got more than "
            f"{_MOST_BYTES // 2:,} values. Keep large values elsewhere and their address here."
        )


def _inside(path: _Path) -> str:
    return f" in {_spell(path)}" if path else ""


def _spell(path: _Path) -> str:
    """Return the keys and places that lead to a value, as Python writes them."""
    first, *others = map(shown, path[:4])
    return first + "".join(f"[{place}]" for place in others) + ("[...]" if len(path) > 4 else "")


def _refusal(value: Any, row: int, path: _Path, wanted: str, advice: str) -> InvalidInputError:
    return InvalidInputError(
        f"metadata of row {row}: {_spell(path)} must be {wanted}, got {_shown_with_type(value)}. "
        f"{advice}"
    )


def _shown_with_type(value: Any) -> str:
    text, kind = shown(value), type(value).__name__
    known = isinstance(value, (bool, int, float, str)) or kind in text
    return text if known else f"{text}, which is {kind}"


def _refuse_bad_text(value: Any, row: int, path: _Path = ()) -> None:
    """Raise where a string, as a key or a value, holds what cannot be kept."""
    if isinstance(value, dict):
        for key, item in value.items():
            if fault := text_fault(key):
                raise InvalidInputError(
                    f"metadata of row {row} must have keys without {fault}, got "
                    f"{shown(key)}{_inside(path)}. Take it out."
                )
            _refuse_bad_text(item, row, (*path, key))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            _refuse_bad_text(item, row, (*path, place))
    elif isinstance(value, str) and (fault := text_fault(value)):
        raise _refusal(value, row, path, f"text without {fault}", "Take it out.")


def text_fault(text: str) -> str | None:
    """Return what a string holds that cannot be kept; None where it is fine."""
    if "\0" in text:
        return "the NUL character, at which SQLite would cut it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "lone surrogates, which UTF-8 cannot write"
    return None


def check_fields(fields: Any) -> dict[str, str]:
    """Return declared fields as names and kinds ("int", "float", "bool" or "str"), in order; the
    Python types themselves may stand for their names. None declares none.
    """
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise InvalidInputError(
            'fields must be a dictionary of names and kinds, such as {"year": "int"}, got '
            f"{shown(fields)}."
        )
    if len(fields) > _MOST_FIELDS:
        raise InvalidInputError(
            f"fields must be at most {_MOST_FIELDS}, got {len(fields):,}. Others may be given as "
            "metadata all the same: they can be filtered too, only slower."
        )
    checked = {}
    for name, kind in fields.items():
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"fields must have non-empty names, got {shown(name)}.")
        if fault := text_fault(name):
            raise InvalidInputError(f"fields must have names without {fault}, got {shown(name)}.")
        if name in CONNECTIVES:
            raise InvalidInputError(
                f"fields must not be called {name!r}, which means something else in a filter. "
                "Choose another name."
            )
        word = kind.__name__ if kind in (int, float, bool, str) else kind
        checked[str.__str__(name)] = one_of(word, f"fields[{shown(name)}]", FIELD_KINDS)
    return checked


def split_fields(
    one: dict[str, Any], fields: dict[str, str], row: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the values of declared fields, in order and None where missing, and the rest of a
    row's metadata.
    """
    if not fields:
        return (), one
    values = tuple(
        [
            value
            if (value := one.get(name)) is None or _IS_PLAIN[kind](value)
            else _field_value(value, name, kind, row)
            for name, kind in fields.items()
        ]
    )
    if one.keys() <= fields.keys():
        return values, {}
    return values, {key: value for key, value in one.items() if key not in fields}


# Most values are of Python's own types, and kept as they are.
_IS_PLAIN: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int and INT64_MIN <= value <= INT64_MAX,
    "float": lambda value: type(value) is float and math.isfinite(value),
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str and value.isascii() and "\0" not in value,
}


def _field_value(value: Any, name: str, kind: str, row: int) -> Any:
    if kind == "str":
        if isinstance(value, str):
            if fault := text_fault(value):
                raise _refusal(value, row, (name,), f"text without {fault}", "Take it out.")
            return str.__str__(value)
    elif kind == "bool":
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
    elif kind == "int":
        if is_whole(value):
            return _plain_scalar(value, row, (name,))
    elif is_whole(value):
        return _exact_float(value, name, row)
    elif isinstance(value, (float, np.floating)):
        return _plain_scalar(value, row, (name,))
    raise InvalidInputError(
        f"metadata of row {row}: {shown(name)} is declared {kind}, got {_shown_with_type(value)}."
        f"{_field_advice(value, kind)}"
    )


def _field_advice(value: Any, kind: str) -> str:
    if kind == "int" and isinstance(value, (float, np.floating)):
        return (
            " Give int(value); in a pandas data frame, whole numbers with gaps need "
            '.astype("Int64").'
        )
    if kind == "str" and isinstance(value, (datetime.date, datetime.time, np.datetime64)):
        return f" {_advice(value)}"
    return f" Give {kind}(value), or None where it is missing."


def _exact_float(value: Any, name: str, row: int) -> float:
    whole = int(value)
    try:
        if float(whole) == whole:
            return float(whole)
    except OverflowError:
        pass
    raise _refusal(
        value,
        row,
        (name,),
        "a number that float64 holds, as the field is declared float",
        "Declare it int, or round it first.",
    )
