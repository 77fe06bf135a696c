"""Declared fields in memory: one column per field, one slot per row, in the order of writing.

Columns never change. They grow at their end, like a `Column`, and what is missing has a mark of its
own: numbers a flag or NaN, bools and strings the code −1. A filter is a few passes over arrays;
strings are looked at once per distinct value.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Flags, Ids
from bitkin.checks import are_offsets
from bitkin.collection.metadata.filters import (
    COMPARE,
    And,
    Choices,
    Condition,
    Leaf,
    Not,
    Or,
    compare_as_float,
    compare_as_int,
    exact_float,
    is_number,
)
from bitkin.collection.rows import Column
from bitkin.errors import CorruptFileError

_FEW_CODES = 4  # that are compared one by one, which is quicker than a table of all codes


class _FieldColumn(Protocol):
    """The values of one field by slot. It never changes, and only the newest may be grown."""

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""

    def with_rows(self, values: Sequence[Any]) -> Self:
        """Return the column with these values behind the others."""

    def take(self, slots: Ids) -> Self:
        """Return the values of some slots alone, in that order."""

    def values_in(self, slots: Ids) -> list[Any]:
        """Return the values of some slots as Python has them, None where there is none."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` takes, as views where that is possible."""

    def present(self) -> Flags:
        """Tell for every slot whether it has a value."""

    def matching(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison other than `exists` and `ne`."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the column that `arrays` was called of; raise where they contradict."""


@dataclass(frozen=True, eq=False, slots=True)
class _Ints:
    """Whole numbers, and whether they are there."""

    values: Column = field(default_factory=lambda: Column.empty(np.int64))
    there: Column = field(default_factory=lambda: Column.empty(np.bool_))

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.values.array.nbytes + self.there.array.nbytes

    def with_rows(self, values: Sequence[Any]) -> _Ints:
        """Return the column with these values behind the others."""
        numbers, there = _split_ints(values)
        return _Ints(self.values.with_rows(numbers), self.there.with_rows(there))

    def take(self, slots: Ids) -> _Ints:
        """Return the values of some slots alone, in that order."""
        return _Ints(_taken(self.values, slots), _taken(self.there, slots))

    def values_in(self, slots: Ids) -> list[Any]:
        """Return the values of some slots as Python has them, None where there is none."""
        flags = self.there.rows[slots].tolist()
        pairs = zip(self.values.rows[slots].tolist(), flags, strict=True)
        return [number if is_there else None for number, is_there in pairs]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` takes."""
        return {"values": self.values.rows, "present": self.there.rows}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> _Ints:
        """Return the column that `arrays` was called of."""
        values = _stored(arrays, "values", np.int64)
        there = _stored(arrays, "present", np.bool_)
        if len(values) != len(there):
            raise CorruptFileError("a field's numbers and flags must be equally many.")
        return cls(_whole(values), _whole(there))

    def present(self) -> Flags:
        """Tell for every slot whether it has a value."""
        return self.there.rows

    def matching(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison."""
        values, wanted = self.values.rows, leaf.value
        if isinstance(wanted, Choices):
            asked = [compare_as_int("eq", number) for number in wanted.numbers]
            whole = [number for operator, number in asked if operator == "eq"]
            found: Flags = np.isin(values, np.array(whole, dtype=np.int64))
        elif leaf.operator == "contains" or not is_number(wanted):
            return np.zeros(len(values), dtype=np.bool_)
        else:
            operator, number = compare_as_int(leaf.operator, wanted)
            found = COMPARE[operator](values, np.int64(number))
        found &= self.there.rows
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Floats:
    """Numbers, NaN where there is none."""

    values: Column = field(default_factory=lambda: Column.empty(np.float64))

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.values.array.nbytes

    def with_rows(self, values: Sequence[Any]) -> _Floats:
        """Return the column with these values behind the others."""
        return _Floats(self.values.with_rows(_with_nan(values)))

    def take(self, slots: Ids) -> _Floats:
        """Return the values of some slots alone, in that order."""
        return _Floats(_taken(self.values, slots))

    def values_in(self, slots: Ids) -> list[Any]:
        """Return the values of some slots as Python has them, None where there is none."""
        return [None if number != number else number for number in self.values.rows[slots].tolist()]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` takes."""
        return {"values": self.values.rows}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> _Floats:
        """Return the column that `arrays` was called of."""
        return cls(_whole(_stored(arrays, "values", np.float64)))

    def present(self) -> Flags:
        """Tell for every slot whether it has a value."""
        there: Flags = ~np.isnan(self.values.rows)
        return there

    def matching(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison; NaN matches none."""
        values, wanted = self.values.rows, leaf.value
        if isinstance(wanted, Choices):
            exact = [exact_float(number) for number in wanted.numbers]
            kept = np.array([real for real in exact if real is not None], dtype=np.float64)
            chosen: Flags = np.isin(values, kept)
            return chosen
        if leaf.operator == "contains" or not is_number(wanted):
            return np.zeros(len(values), dtype=np.bool_)
        operator, real = compare_as_float(leaf.operator, wanted)
        found: Flags = COMPARE[operator](values, real)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Bools:
    """1 and 0, −1 where there is none."""

    codes: Column = field(default_factory=lambda: Column.empty(np.int8))

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.codes.array.nbytes

    def with_rows(self, values: Sequence[Any]) -> _Bools:
        """Return the column with these values behind the others."""
        return _Bools(self.codes.with_rows(_bool_codes(values)))

    def take(self, slots: Ids) -> _Bools:
        """Return the values of some slots alone, in that order."""
        return _Bools(_taken(self.codes, slots))

    def values_in(self, slots: Ids) -> list[Any]:
        """Return the values of some slots as Python has them, None where there is none."""
        return [None if code < 0 else bool(code) for code in self.codes.rows[slots].tolist()]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` takes."""
        return {"codes": self.codes.rows}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> _Bools:
        """Return the column that `arrays` was called of."""
        codes = _stored(arrays, "codes", np.int8)
        _require_codes(codes, 2)
        return cls(_whole(codes))

    def present(self) -> Flags:
        """Tell for every slot whether it has a value."""
        there: Flags = self.codes.rows >= 0
        return there

    def matching(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison."""
        wanted = leaf.value
        if isinstance(wanted, Choices):
            asked = sorted(map(int, wanted.bools))
        else:
            asked = [int(wanted)] if leaf.operator == "eq" and isinstance(wanted, bool) else []
        return _has_code(self.codes.rows, asked)


class _TextTable:
    """Distinct strings, each with its place among them. It only grows, so that columns share it:
    none has a code of strings that came after it.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts: list[str] = []
        self.codes: dict[str, int] = {}
        self._text_bytes = 0
        for text in texts:
            self.code(text)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._text_bytes + sys.getsizeof(self.texts) + sys.getsizeof(self.codes)

    def code(self, text: str) -> int:
        """Return the place of a string, which is added where it is new."""
        code = self.codes.get(text)
        if code is None:
            code = len(self.texts)
            # Readers look into `codes` first: no string is there before it is in `texts`.
            self.texts.append(text)
            self.codes[text] = code
            self._text_bytes += sys.getsizeof(text) + sys.getsizeof(code)
        return code

    def encode(self, values: Sequence[Any]) -> npt.NDArray[np.int32]:
        """Return the code of every value, −1 for None."""
        known = self.codes.get
        codes = [-1 if value is None else known(value, -1) for value in values]
        encoded = np.array(codes, dtype=np.int32)
        for place in np.flatnonzero(encoded < 0).tolist():
            if values[place] is not None:
                encoded[place] = self.code(values[place])
        return encoded


@dataclass(frozen=True, eq=False, slots=True)
class _Texts:
    """Strings as codes into a table of distinct ones, −1 where there is none."""

    codes: Column = field(default_factory=lambda: Column.empty(np.int32))
    table: _TextTable = field(default_factory=_TextTable)
    n_texts: int = 0
    """How many strings of the table may have a code here."""

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return self.codes.array.nbytes + self.table.nbytes

    def with_rows(self, values: Sequence[Any]) -> _Texts:
        """Return the column with these values behind the others."""
        codes = self.table.encode(values)
        return _Texts(self.codes.with_rows(codes), self.table, len(self.table.texts))

    def take(self, slots: Ids) -> _Texts:
        """Return the values of some slots alone, with a table of their strings alone."""
        codes = self.codes.rows[slots]
        used = np.unique(codes)
        used = used[used >= 0]
        table = _TextTable([self.table.texts[code] for code in used.tolist()])
        # the last entry is that of −1
        new_codes = np.full(self.n_texts + 1, -1, dtype=np.int32)
        new_codes[used] = np.arange(len(used), dtype=np.int32)
        return _Texts(_whole(new_codes[codes]), table, len(used))

    def values_in(self, slots: Ids) -> list[Any]:
        """Return the values of some slots as Python has them, None where there is none."""
        texts = self.table.texts
        return [None if code < 0 else texts[code] for code in self.codes.rows[slots].tolist()]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` takes: codes, the strings as UTF-8 and where each begins."""
        texts = [text.encode() for text in self.table.texts[: self.n_texts]]
        offsets = np.array([0, *itertools.accumulate(map(len, texts))], dtype=np.int64)
        letters = np.frombuffer(b"".join(texts), dtype=np.uint8)
        return {"codes": self.codes.rows, "texts": letters, "offsets": offsets}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> _Texts:
        """Return the column that `arrays` was called of."""
        codes = _stored(arrays, "codes", np.int32)
        letters = _stored(arrays, "texts", np.uint8)
        offsets = _stored(arrays, "offsets", np.int64)
        if not are_offsets(offsets, len(letters)):
            raise CorruptFileError("a field's strings must begin where the one before ends.")
        whole, ends = letters.tobytes(), offsets.tolist()
        try:
            texts = [whole[start:stop].decode() for start, stop in itertools.pairwise(ends)]
        except UnicodeDecodeError:
            raise CorruptFileError("a field's strings must be UTF-8.") from None
        _require_codes(codes, len(texts))
        table = _TextTable(texts)
        if len(table.texts) != len(texts):
            raise CorruptFileError("a field's distinct strings must differ.")
        return cls(_whole(codes), table, len(texts))

    def present(self) -> Flags:
        """Tell for every slot whether it has a value."""
        there: Flags = self.codes.rows >= 0
        return there

    def matching(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison."""
        return _has_code(self.codes.rows, self._matching_codes(leaf), self.n_texts)

    def _matching_codes(self, leaf: Leaf) -> list[int]:
        """Return the codes of all strings that match, each looked at once."""
        wanted = leaf.value
        if isinstance(wanted, Choices):
            found = [self.table.codes.get(text, -1) for text in wanted.strings]
            return [code for code in found if 0 <= code < self.n_texts]
        if not isinstance(wanted, str):
            return []
        if leaf.operator == "eq":
            code = self.table.codes.get(wanted, -1)
            return [code] if 0 <= code < self.n_texts else []
        texts = self.table.texts[: self.n_texts]
        if leaf.operator == "contains":
            return [code for code, text in enumerate(texts) if wanted in text]
        compare = COMPARE[leaf.operator]
        return [code for code, text in enumerate(texts) if compare(text, wanted)]


_KINDS: dict[str, type[_FieldColumn]] = {
    "int": _Ints,
    "float": _Floats,
    "bool": _Bools,
    "str": _Texts,
}


@dataclass(frozen=True, eq=False, slots=True)
class FieldColumns:
    """The values of all declared fields by slot.

    They never change. Only the newest may be grown, by one writer at a time; readers of older ones
    keep theirs. Values are those that `split_fields` returns.
    """

    fields: dict[str, str]
    """Names and kinds, in order."""
    columns: tuple[_FieldColumn, ...]
    n: int
    """How many slots there are."""

    @classmethod
    def empty(cls, fields: dict[str, str]) -> Self:
        """Return columns without rows for fields as `check_fields` returns them."""
        return cls(dict(fields), tuple(_KINDS[kind]() for kind in fields.values()), 0)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows and strings included."""
        return sum(column.nbytes for column in self.columns)

    def with_rows(self, values: Sequence[tuple[Any, ...]]) -> FieldColumns:
        """Return these columns and more rows behind theirs."""
        if len(values) == 0:
            return self
        columns = tuple(
            column.with_rows([row[place] for row in values])
            for place, column in enumerate(self.columns)
        )
        return FieldColumns(self.fields, columns, self.n + len(values))

    def take(self, slots: Ids) -> FieldColumns:
        """Return some slots alone, in that order, without room for more."""
        columns = tuple(column.take(slots) for column in self.columns)
        return FieldColumns(self.fields, columns, len(slots))

    def documents(self, slots: Ids) -> list[dict[str, Any]]:
        """Return what some slots have, one dictionary each; what is missing is left out."""
        found: list[dict[str, Any]] = [{} for _ in range(len(slots))]
        for name, column in zip(self.fields, self.columns, strict=True):
            for one, value in zip(found, column.values_in(slots), strict=True):
                if value is not None:
                    one[name] = value
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays, by names such as "0.codes": the place of the field,
        since its own name may be anything.
        """
        return {
            f"{place}.{name}": array
            for place, column in enumerate(self.columns)
            for name, array in column.arrays().items()
        }

    @classmethod
    def from_arrays(cls, fields: dict[str, str], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the columns that `arrays` was called of, whose arrays are borrowed; raise where
        they contradict each other.
        """
        columns = []
        for place, kind in enumerate(fields.values()):
            start = f"{place}."
            own = {
                key.removeprefix(start): array
                for key, array in arrays.items()
                if key.startswith(start)
            }
            columns.append(_KINDS[kind].from_arrays(own))
        sizes = [len(column.present()) for column in columns]
        if len(set(sizes)) > 1:
            raise CorruptFileError(f"fields must have equally many values, got {sizes}.")
        return cls(dict(fields), tuple(columns), sizes[0] if sizes else 0)

    def mask(self, leaf: Leaf) -> Flags:
        """Tell for every slot whether it matches a comparison of a declared field; a new array."""
        column = self.columns[list(self.fields).index(leaf.field)]
        if leaf.operator == "exists":
            there = column.present()
            return there.copy() if leaf.value else ~there
        if leaf.operator == "ne":
            differs: Flags = column.present() & ~column.matching(Leaf(leaf.field, "eq", leaf.value))
            return differs
        return column.matching(leaf)


def evaluate(
    condition: Condition,
    columns: FieldColumns,
    n: int,
    json_mask: Callable[[Condition], Flags],
) -> Flags:
    """Tell for each of `n` slots whether it matches a condition.

    Declared fields are compared in their columns. `json_mask` does the same for conditions on other
    metadata alone: it is called for parts that are as large as possible, and not where the declared
    fields have decided already.
    """
    if not _names_declared(condition, columns.fields):
        if isinstance(condition, (And, Or)) and not condition.parts:
            return np.full(n, isinstance(condition, And), dtype=np.bool_)
        return json_mask(condition)
    if isinstance(condition, Leaf):
        return columns.mask(condition)
    if isinstance(condition, Not):
        return ~evaluate(condition.part, columns, n, json_mask)
    joins_all = isinstance(condition, And)
    join = np.logical_and if joins_all else np.logical_or
    found: Flags = np.full(n, joins_all, dtype=np.bool_)
    for part in _declared_first(condition, columns.fields):
        # False decides an "and" and True an "or", wherever all slots have it
        if not found.any() if joins_all else found.all():
            break
        join(found, evaluate(part, columns, n, json_mask), out=found)
    return found


def _names_declared(condition: Condition, fields: dict[str, str]) -> bool:
    """Tell whether some comparison is of a declared field."""
    if isinstance(condition, Leaf):
        return condition.field in fields
    parts = (condition.part,) if isinstance(condition, Not) else condition.parts
    return any(_names_declared(part, fields) for part in parts)


def _declared_first(condition: And | Or, fields: dict[str, str]) -> list[Condition]:
    """Return the parts of a condition, those without declared fields together as the last one."""
    declared: list[Condition] = []
    others: list[Condition] = []
    for part in condition.parts:
        (declared if _names_declared(part, fields) else others).append(part)
    # columns alone before parts that need `json_mask` themselves
    declared.sort(key=lambda part: _names_others(part, fields))
    if not others:
        return declared
    if len(others) == 1:
        return [*declared, others[0]]
    return [*declared, And(tuple(others)) if isinstance(condition, And) else Or(tuple(others))]


def _names_others(condition: Condition, fields: dict[str, str]) -> bool:
    """Tell whether some comparison is of a field that is not declared."""
    if isinstance(condition, Leaf):
        return condition.field not in fields
    parts = (condition.part,) if isinstance(condition, Not) else condition.parts
    return any(_names_others(part, fields) for part in parts)


def _split_ints(values: Sequence[Any]) -> tuple[Ids, Flags]:
    if None not in values:
        return np.array(values, dtype=np.int64), np.ones(len(values), dtype=np.bool_)
    there = np.array([value is not None for value in values], dtype=np.bool_)
    numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
    return numbers, there


def _with_nan(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    if None not in values:
        return np.array(values, dtype=np.float64)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _bool_codes(values: Sequence[Any]) -> npt.NDArray[np.int8]:
    return np.array([-1 if value is None else value for value in values], dtype=np.int8)


def _has_code(codes: npt.NDArray[Any], wanted: list[int], n_codes: int = 2) -> Flags:
    """Tell for every slot whether its code is one of those wanted."""
    if len(wanted) > _FEW_CODES:
        table = np.zeros(n_codes + 1, dtype=np.bool_)  # the last entry is that of −1
        table[wanted] = True
        looked_up: Flags = table[codes]
        return looked_up
    found: Flags = np.zeros(len(codes), dtype=np.bool_)
    for code in wanted:
        found |= codes == code
    return found


def _taken(column: Column, slots: Ids) -> Column:
    return _whole(column.rows[slots])


def _whole(array: npt.NDArray[Any]) -> Column:
    return Column(array, len(array))


def _stored(
    arrays: dict[str, npt.NDArray[Any]], name: str, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Return a stored array of the one type and shape it may have."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != 1:
        got = "none" if array is None else f"{array.dtype} of shape {array.shape}"
        raise CorruptFileError(
            f"a field's {name} must be 1-dimensional and {np.dtype(dtype)}, got {got}."
        )
    return array


def _require_codes(codes: npt.NDArray[Any], n_codes: int) -> None:
    if len(codes) and (codes.min() < -1 or codes.max() >= n_codes):
        raise CorruptFileError(f"a field's codes must be between -1 and {n_codes - 1}.")
