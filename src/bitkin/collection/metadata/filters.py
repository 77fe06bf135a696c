"""`where`: conditions on metadata, read once, then evaluated in Python, NumPy or SQLite.

A condition is a dictionary: `{"year": {"gte": 2020}, "lang": ["en", "fr"]}`. Several keys, and
several operators under one key, all must hold. A bare value means `eq`, a list means `in`. "and"
and "or" take a list of conditions, "not" takes one; fields of these names cannot be filtered. Names
are whole keys of a row: "a.b" is the key with a dot in it, and nothing reaches into a nested
dictionary.

What matches:

- A field that is absent or None is missing. It matches no operator, not even `ne`, but for
  `exists: False`. "not" turns the answer round, so it matches rows whose field is missing.
- Numbers are compared with numbers, exactly: 2**53 + 1 is not 2.0**53. Strings are compared with
  strings, by code point. Bools equal bools, have no order, and never equal numbers.
- Values of different types never match, except that `ne` matches a value of another type.
- `contains` looks for a part of a string, upper and lower case being different, or for an equal
  element of a list.

SQLite answers the same, with one reservation: it reads decimal numbers itself. What is asked goes
the same way as what is kept, so equal numbers stay equal; a build of SQLite whose reading is not
correctly rounded could take two different floats for one where they differ in the last bit. The
database must be UTF-8, as it is by default: in UTF-16 strings have another order.
"""

from __future__ import annotations

import heapq
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bitkin.checks import shown, suggest
from bitkin.collection.metadata.documents import (
    CONNECTIVES,
    INT64_MAX,
    INT64_MIN,
    is_whole,
    text_fault,
)
from bitkin.errors import InvalidInputError

Scalar: TypeAlias = bool | int | float | str
OPERATORS = ("eq", "ne", "lt", "lte", "gt", "gte", "in", "contains", "exists")

_ORDERS = ("lt", "lte", "gt", "gte")
_SIGNS = {"eq": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
# What other languages write for our operators.
_OTHER_SIGNS = {
    "=": "eq",
    "==": "eq",
    "!=": "ne",
    "<>": "ne",
    "<": "lt",
    "<=": "lte",
    "le": "lte",
    ">": "gt",
    ">=": "gte",
    "ge": "gte",
    "like": "contains",
}
_MOST_LEVELS = 32
_MOST_LEAVES = 10_000
_MOST_CHOICES = 100_000
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Choices:
    """The values of `in`, by type: in one Python set True and 1 would be the same."""

    bools: frozenset[bool]
    numbers: frozenset[int | float]
    strings: frozenset[str]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison: a field, one of `OPERATORS`, and the value, which is `Choices` for "in", a
    bool for "exists", a number or string for an order, and a scalar otherwise.
    """

    field: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without any, it does."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds; without any, it does not."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition


Condition: TypeAlias = And | Or | Not | Leaf


def parse_filter(where: Any) -> Condition:
    """Return a condition in its own form; raise for what is none. An empty dictionary matches
    every row.
    """
    return _Parser().read(where, 1)


class _Parser:
    """Reads one `where`, and counts what is in it."""

    def __init__(self) -> None:
        self._leaves = 0
        self._choices = 0

    def read(self, where: Any, level: int) -> Condition:
        """Return a condition that lies `level` levels deep."""
        if level > _MOST_LEVELS:
            raise InvalidInputError(
                f"where must be nested at most {_MOST_LEVELS} levels deep, got more, around "
                f"{shown(where)}."
            )
        if not isinstance(where, dict):
            raise InvalidInputError(
                'where must be a dictionary, such as {"year": {"gte": 2020}}, got '
                f"{shown(where)}."
            )
        inner = level + (len(where) > 1)
        return _join([self._read_entry(key, value, inner) for key, value in where.items()])

    def _read_entry(self, key: Any, value: Any, level: int) -> Condition:
        if not isinstance(key, str) or not key:
            raise InvalidInputError(
                f"where must have non-empty strings as keys, got {shown(key)} in "
                f"{shown({key: value})}."
            )
        if key == "not":
            if not isinstance(value, dict):
                raise _connective_error(key, value, "one condition, a dictionary")
            return Not(self.read(value, level + 1))
        if key in CONNECTIVES:
            if not isinstance(value, (list, tuple)):
                raise _connective_error(key, value, "a list of conditions")
            parts = tuple(self.read(part, level + 1) for part in value)
            return And(parts) if key == "and" else Or(parts)
        if fault := text_fault(key):
            raise InvalidInputError(f"where must name fields without {fault}, got {shown(key)}.")
        if not isinstance(value, dict):
            operator = "in" if _is_listing(value) else "eq"
            return self._read_leaf(key, operator, value, {key: value})
        if not value:
            raise InvalidInputError(
                f"where must name an operator for {shown(key)}, got {{}}. Give one of "
                f'{", ".join(OPERATORS)}, such as {{"exists": True}}.'
            )
        return _join(
            [self._read_leaf(key, name, item, {key: value}) for name, item in value.items()]
        )

    def _read_leaf(self, field: str, operator: Any, value: Any, part: Any) -> Leaf:
        if operator not in OPERATORS:
            raise InvalidInputError(
                f"where must use the operators {', '.join(OPERATORS)}, got {shown(operator)} in "
                f"{shown(part)}.{_suggest_operator(operator)}"
            )
        self._leaves += 1
        if self._leaves > _MOST_LEAVES:
            raise InvalidInputError(
                f"where must have at most {_MOST_LEAVES:,} comparisons, got more. Many values of "
                'one field go into one {"in": [...]}.'
            )
        return Leaf(
            str.__str__(field), str.__str__(operator), self._read_value(operator, value, part)
        )

    def _read_value(self, operator: str, value: Any, part: Any) -> Any:
        if operator == "in":
            return self._read_choices(value, part)
        if operator == "exists":
            if not isinstance(value, (bool, np.bool_)):
                raise _value_error(operator, value, part, "True or False")
            return bool(value)
        if operator in _ORDERS:
            wanted = "a number or a string"
            if isinstance(value, (bool, np.bool_)):
                raise _value_error(operator, value, part, wanted, "Bools have no order: use eq.")
            return _read_scalar(value, operator, part, wanted)
        return _read_scalar(value, operator, part, "a bool, a number or a string")

    def _read_choices(self, value: Any, part: Any) -> Choices:
        if not _is_listing(value):
            raise _value_error("in", value, part, "a list of values")
        values = value.tolist() if isinstance(value, np.ndarray) else list(value)
        self._choices += len(values)
        if self._choices > _MOST_CHOICES:
            raise InvalidInputError(
                f"where must have at most {_MOST_CHOICES:,} values of in, got "
                f"{self._choices:,} or more. Ask in several parts."
            )
        scalars = [_read_scalar(item, "in", part, "bools, numbers and strings") for item in values]
        return Choices(
            frozenset(item for item in scalars if isinstance(item, bool)),
            frozenset(item for item in scalars if not isinstance(item, bool | str)),
            frozenset(item for item in scalars if isinstance(item, str)),
        )


def _join(parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _is_listing(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, (list, tuple, set, frozenset))


def _read_scalar(value: Any, operator: str, part: Any, wanted: str) -> Scalar:
    """Return a value as Python's own type; raise where it is no scalar that metadata may hold."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        if fault := text_fault(value):
            raise _value_error(operator, value, part, f"text without {fault}")
        return str.__str__(value)
    if is_whole(value):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            raise _value_error(
                operator, value, part, wanted, 'NaN is never kept: use {"exists": False}.'
            )
        if float(value) != value:  # a longdouble
            raise _value_error(operator, value, part, "a number that float64 holds")
        return float(value)
    advice = ""
    if value is None:
        advice = 'For rows whose field is missing use {"exists": False}.'
    elif isinstance(value, dict) and isinstance(part, dict):
        # {"$or": [{...}, {...}]}, as other databases write it
        word = str(next(iter(part))).lstrip("$").lower()
        advice = f"Did you mean {word!r}?" if word in CONNECTIVES else ""
    elif hasattr(value, "isoformat"):
        advice = "Dates are kept as ISO text, which is in the order of time: compare with that."
    raise _value_error(operator, value, part, wanted, advice)


def _value_error(
    operator: str, value: Any, part: Any, wanted: str, advice: str = ""
) -> InvalidInputError:
    message = f"where: {operator} must have {wanted}, got {shown(value)} in {shown(part)}."
    return InvalidInputError(f"{message} {advice}".rstrip())


def _connective_error(key: str, value: Any, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        f"where: {key!r} must have {wanted}, got {shown(value)}. A field called {key!r} cannot be "
        "filtered."
    )


def _suggest_operator(name: Any) -> str:
    if not isinstance(name, str):
        return ""
    word = name.strip().lstrip("$").lower()
    if word in OPERATORS or word in _OTHER_SIGNS:
        return f" Did you mean {_OTHER_SIGNS.get(word, word)!r}?"
    return suggest(word, OPERATORS)


def is_number(value: Any) -> bool:
    """Tell whether a value of metadata is a number, which bools are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same_type(value: Any, other: Scalar) -> bool:
    """Tell whether a value of metadata may equal a scalar: both bools, both numbers or both
    strings.
    """
    if isinstance(other, bool):
        return isinstance(value, bool)
    return isinstance(value, str) if isinstance(other, str) else is_number(value)


def matches(condition: Condition, metadata: dict[str, Any]) -> bool:
    """Tell whether a row matches, by its whole metadata as `decode_metadata` returns it."""
    if isinstance(condition, Leaf):
        return _leaf_matches(condition, metadata.get(condition.field))
    if isinstance(condition, Not):
        return not matches(condition.part, metadata)
    if isinstance(condition, And):
        return all(matches(part, metadata) for part in condition.parts)
    return any(matches(part, metadata) for part in condition.parts)


def _leaf_matches(leaf: Leaf, value: Any) -> bool:
    wanted = leaf.value
    if leaf.operator == "exists":
        return (value is not None) is wanted
    if value is None:
        return False
    if leaf.operator == "in":
        return is_chosen(value, wanted)
    if leaf.operator == "contains":
        if isinstance(value, str):
            return isinstance(wanted, str) and wanted in value
        return isinstance(value, (list, tuple)) and any(_equal(item, wanted) for item in value)
    if leaf.operator == "ne":
        return not _equal(value, wanted)
    return same_type(value, wanted) and COMPARE[leaf.operator](value, wanted)


def is_chosen(value: Any, choices: Choices) -> bool:
    """Tell whether a value that is there equals one of the values of `in`."""
    if isinstance(value, bool):
        return value in choices.bools
    if isinstance(value, str):
        return value in choices.strings
    return is_number(value) and value in choices.numbers


def _equal(value: Any, wanted: Scalar) -> bool:
    return same_type(value, wanted) and bool(value == wanted)


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda value, wanted: value == wanted,
    "lt": lambda value, wanted: value < wanted,
    "lte": lambda value, wanted: value <= wanted,
    "gt": lambda value, wanted: value > wanted,
    "gte": lambda value, wanted: value >= wanted,
}
"""How values of one type are compared, one by one or as arrays."""


def exact_float(number: int | float) -> float | None:
    """Return a number as the finite float that equals it, None where there is none."""
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    try:
        return float(number) if float(number) == number else None
    except OverflowError:
        return None


def compare_as_float(operator: str, number: int | float) -> tuple[str, float]:
    """Return the comparison with a finite float that answers the same for every number that may be
    kept: finite floats, and integers of 64 bits where `number` is none of those.

    Where no float equals the number, it lies between two neighbours, and the numbers below it are
    those up to the lower one.
    """
    exact = exact_float(number)
    if exact is not None:
        return operator, exact
    if operator == "eq":
        return "gt", _LARGEST  # never
    below, above = _neighbours(number)
    if operator in ("lt", "lte"):
        return ("lt", -_LARGEST) if below == -math.inf else ("lte", below)
    return ("gt", _LARGEST) if above == math.inf else ("gte", above)


def _neighbours(number: int | float) -> tuple[float, float]:
    """Return the floats next to a number that no finite float equals, below and above."""
    if number > _LARGEST:
        return _LARGEST, math.inf
    if number < -_LARGEST:
        return -math.inf, -_LARGEST
    near = float(number)
    if near > number:
        return math.nextafter(near, -math.inf), near
    return near, math.nextafter(near, math.inf)


def compare_as_int(operator: str, number: int | float) -> tuple[str, int]:
    """Return the comparison with an integer of 64 bits that answers the same for all of these."""
    never, always = ("lt", INT64_MIN), ("gte", INT64_MIN)
    if number > INT64_MAX:
        return always if operator in ("lt", "lte") else never
    if number < INT64_MIN:
        return always if operator in ("gt", "gte") else never
    whole = math.floor(number)
    if whole == number:
        return operator, whole
    if operator == "eq":
        return never
    return ("lte", whole) if operator in ("lt", "lte") else ("gte", whole + 1)


# From here on: SQL. Every name and value of a user is a bound parameter.


def to_sql(condition: Condition) -> tuple[str, list[Any]]:
    """Return a condition as an SQL expression, which is 0 or 1, over the column `metadata`, and its
    parameters.

    The column holds JSON as `encode_metadata` writes it, or NULL for none.
    """
    fragment = _fragment(condition, negated=False)
    return fragment.sql, fragment.parameters


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A piece of SQL, its parameters, and how much of the parser's stack it takes."""

    sql: str
    parameters: list[Any]
    height: int = 0


def _fragment(condition: Condition, *, negated: bool) -> _Fragment:
    """Return SQL for a condition or for its opposite, in which only leaves are negated."""
    if isinstance(condition, Not):
        return _fragment(condition.part, negated=not negated)
    if isinstance(condition, Leaf):
        sql, parameters = _leaf_sql(condition)
        return _Fragment(f"NOT {sql}" if negated else sql, parameters)
    # not (a and b) is (not a) or (not b), and the other way round
    joins_all = isinstance(condition, And) is not negated
    parts = [_fragment(part, negated=negated) for part in condition.parts]
    if not parts:
        return _Fragment("1" if joins_all else "0", [])
    return _join_sql(parts, "AND" if joins_all else "OR")


def _join_sql(parts: list[_Fragment], word: str) -> _Fragment:
    """Return parts joined two by two, the lowest first.

    SQLite allows expressions 1,000 levels deep and a parser stack of 100: a chain of 10,000 parts
    is too deep, and so are many brackets that open behind an operand, which take three places each
    instead of one. So the tree is balanced, and of two parts the higher one stands first.
    """
    heap = [(part.height, place, part) for place, part in enumerate(parts)]
    heapq.heapify(heap)
    place = len(parts)
    while len(heap) > 1:
        low, high = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        joined = _Fragment(
            f"({high.sql} {word} {low.sql})",
            high.parameters + low.parameters,
            max(high.height + 1, low.height + 3),
        )
        heapq.heappush(heap, (joined.height, place, joined))
        place += 1
    return heap[0][2]


def _leaf_sql(leaf: Leaf) -> tuple[str, list[Any]]:
    """Return a test of the one item of a row that has the leaf's name, if there is any."""
    test, values = _item_sql(leaf)
    exists = f"EXISTS (SELECT 1 FROM json_each(metadata) AS item WHERE item.key = ? AND {test})"
    if leaf.operator == "exists" and not leaf.value:
        exists = f"NOT {exists}"
    return exists, [leaf.field, *values]


def _item_sql(leaf: Leaf) -> tuple[str, list[Any]]:
    if leaf.operator == "exists":
        return "item.type <> 'null'", []
    if leaf.operator == "in":
        return _choices_sql(leaf.value)
    if leaf.operator == "contains":
        return _contains_sql(leaf.value)
    if leaf.operator == "ne":
        test, values = _compare_sql("eq", leaf.value, "item")
        return f"item.type <> 'null' AND NOT ({test})", values
    return _compare_sql(leaf.operator, leaf.value, "item")


def _compare_sql(operator: str, value: Scalar, item: str) -> tuple[str, list[Any]]:
    """Return the comparison of an item, `item` or `element`, with a value of its own type."""
    if isinstance(value, bool):
        return f"{item}.type = '{'true' if value else 'false'}'", []
    if isinstance(value, str):
        return f"{item}.type = 'text' AND {item}.value {_SIGNS[operator]} ?", [value]
    if not (isinstance(value, int) and INT64_MIN <= value <= INT64_MAX):
        operator, value = compare_as_float(operator, value)
    # SQLite reads the number as it reads those that are kept, and compares integers with reals
    # exactly.
    test = f"{item}.value {_SIGNS[operator]} json_extract(?, '$')"
    return f"{item}.type IN ('integer', 'real') AND {test}", [json.dumps(value)]


def _choices_sql(choices: Choices) -> tuple[str, list[Any]]:
    tests: list[str] = []
    values: list[Any] = []
    one_of_them = "item.value IN (SELECT value FROM json_each(?))"
    if choices.numbers:
        tests.append(f"item.type IN ('integer', 'real') AND {one_of_them}")
        # a number that is neither kept as an integer nor as a float equals none that is kept
        kept = [number for number in choices.numbers if _may_be_kept(number)]
        values.append(json.dumps(kept))
    if choices.strings:
        tests.append(f"item.type = 'text' AND {one_of_them}")
        values.append(json.dumps(list(choices.strings), ensure_ascii=False))
    tests += [f"item.type = '{'true' if value else 'false'}'" for value in choices.bools]
    return (f"({' OR '.join(tests)})" if tests else "0"), values


def _may_be_kept(number: int | float) -> bool:
    is_int64 = isinstance(number, int) and INT64_MIN <= number <= INT64_MAX
    return is_int64 or exact_float(number) is not None


def _contains_sql(value: Scalar) -> tuple[str, list[Any]]:
    equal, values = _compare_sql("eq", value, "element")
    # Whatever order SQLite tests things in, json_each never sees a value that is no array.
    array = "CASE item.type WHEN 'array' THEN item.value ELSE '[]' END"
    test = f"EXISTS (SELECT 1 FROM json_each({array}) AS element WHERE {equal})"
    if not isinstance(value, str):
        return test, values
    return f"(item.type = 'text' AND instr(item.value, ?) > 0 OR {test})", [value, *values]
