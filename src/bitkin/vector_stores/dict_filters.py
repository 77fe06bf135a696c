"""`filter=` as LangChain's users write it, as the `where` of a collection.

Both forms may be mixed: `{"source": "x"}` and `{"year": {"gte": 2020}}` are conditions of bitkin,
`{"year": {"$gte": 2020}}` and `{"$or": [...]}` mean what they mean in MongoDB. There a missing
value is not equal to anything, and in no list: `$ne` and `$nin` match it, `ne` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bitkin.checks import shown, suggest
from bitkin.collection.metadata.filters import parse_filter
from bitkin.errors import InvalidInputError

_SAME = {f"${name}": name for name in ("eq", "gt", "gte", "lt", "lte", "in", "contains", "exists")}
_NEGATED = {"$ne": "eq", "$nin": "in"}
_OPERATORS = (*_SAME, *_NEGATED, "$between", "$not")
_CONNECTIVES = ("$and", "$or", "$not")


def read_dict_filter(given: Any) -> dict[str, Any] | None:
    """Return a filter as `where`; raise for what is none. None stays None.

    Examples
    --------
    >>> read_dict_filter({"source": "x", "$or": [{"page": {"$gt": 3}}, {"page": {"$nin": [0, 1]}}]})
    {'and': [{'source': 'x'}, {'or': [{'page': {'gt': 3}}, {'not': {'page': {'in': [0, 1]}}}]}]}
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        what = "a function" if callable(given) else shown(given)
        raise InvalidInputError(
            "filter must be a dictionary, such as {'source': 'x'} or {'page': {'$gte': 3}}, got "
            f"{what}."
        )
    where = _read(given)
    try:
        parse_filter(where)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("where", "filter", 1)) from None
    return where


def _read(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"filter must have dictionaries as conditions, got {shown(given)}.")
    return _join([_read_entry(key, value) for key, value in given.items()])


def _read_entry(key: Any, value: Any) -> dict[str, Any]:
    word = key.removeprefix("$") if isinstance(key, str) else key
    if word in ("and", "or") and isinstance(value, (list, tuple)):
        return {word: [_read(part) for part in value]}
    if word == "not" and isinstance(value, Mapping):
        return {"not": _read(value)}
    if isinstance(key, str) and key.startswith("$"):
        if key in _CONNECTIVES:
            wanted = "one condition, a dictionary" if key == "$not" else "a list of conditions"
            raise InvalidInputError(f"filter: {key!r} must have {wanted}, got {shown(value)}.")
        raise InvalidInputError(
            f"filter must join conditions by {', '.join(_CONNECTIVES)}, got {key!r}."
            f"{_suggest(key, _CONNECTIVES)} The operators {', '.join(_OPERATORS)} stand under the "
            "name of a field."
        )
    if not isinstance(value, Mapping) or not value:
        return {key: value}
    return _join([_read_operator(key, name, item) for name, item in value.items()])


def _read_operator(field: Any, name: Any, value: Any) -> dict[str, Any]:
    if not isinstance(name, str) or not name.startswith("$"):
        return {field: {name: value}}
    if name in _SAME:
        return {field: {_SAME[name]: value}}
    if name in _NEGATED:
        return {"not": {field: {_NEGATED[name]: value}}}
    if name == "$not":
        return {"not": _read_entry(field, value)}
    if name == "$between":
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise InvalidInputError(
                f"filter: '$between' must have two bounds, got {shown(value)} under {shown(field)}."
            )
        return {field: {"gte": value[0], "lte": value[1]}}
    raise InvalidInputError(
        f"filter must use the operators {', '.join(_OPERATORS)}, got {name!r} under "
        f"{shown(field)}.{_suggest(name, _OPERATORS)}"
    )


def _suggest(name: str, choices: tuple[str, ...]) -> str:
    if "like" in name or "regex" in name or "text" in name:
        return " A part of a text is found by '$contains', upper and lower case being different."
    return suggest(name, choices)


def _join(parts: list[dict[str, Any]]) -> dict[str, Any]:
    if len(parts) == 1:
        return parts[0]
    return {"and": parts} if parts else {}
