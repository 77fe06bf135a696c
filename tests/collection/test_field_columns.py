"""Declared fields in memory, against a list of rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin.arrays import Flags
from bitkin.collection.metadata.field_columns import FieldColumns, evaluate
from bitkin.collection.metadata.filters import Condition, Leaf, matches, parse_filter
from bitkin.errors import CorruptFileError

FIELDS = {"year": "int", "score": "float", "free": "bool", "lang": "str"}
WHERES: list[dict[str, Any]] = [
    {"year": {"gte": 3}},
    {"year": {"ne": 2}},
    {"year": [1, 2.0, 7]},
    {"year": {"exists": False}},
    {"score": {"lt": 0.5}},
    {"score": {"ne": 0.25}},
    {"score": {"exists": True}},
    {"free": True},
    {"free": {"ne": True}},
    {"free": [True, False]},
    {"lang": "é"},
    {"lang": {"ne": "é"}},
    {"lang": {"gt": "b"}},
    {"lang": {"contains": "b"}},
    {"lang": ["", "b", "ab", "🎈", "é", "none"]},
    {"lang": {"exists": False}},
]

values = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4),
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.25, 0.5]),
    st.none() | st.booleans(),
    st.none() | st.sampled_from(["", "a", "b", "ab", "é", "🎈"]),
)
Rows = list[tuple[Any, ...]]


def some_rows(n: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    texts = ["", "a", "b", "ab", "é", "🎈", "bb", None]
    return [
        (
            None if rng.random() < 0.2 else int(rng.integers(0, 8)),
            None if rng.random() < 0.2 else float(rng.integers(0, 8)) / 8,
            [None, True, False][rng.integers(3)],
            texts[rng.integers(len(texts))],
        )
        for _ in range(n)
    ]


def check(columns: FieldColumns, rows: Rows) -> None:
    """Columns answer every filter as the rows would."""
    assert columns.n == len(rows)
    dicts = [dict(zip(FIELDS, one, strict=True)) for one in rows]
    for where in WHERES:
        leaf = parse_filter(where)
        assert isinstance(leaf, Leaf)
        mask = columns.mask(leaf)
        assert mask.dtype == np.bool_
        assert mask.tolist() == [matches(leaf, one) for one in dicts], where


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65])
def test_columns_answer_as_the_rows_would(n: int) -> None:
    rows = some_rows(n)
    columns = FieldColumns.empty(FIELDS).with_rows(rows)
    check(columns, rows)
    slots = np.random.default_rng(1).permutation(n)[: n // 2]
    check(columns.take(slots), [rows[slot] for slot in slots])
    check(FieldColumns.from_arrays(FIELDS, columns.arrays()), rows)


@given(st.lists(st.tuples(st.sampled_from(["grow", "take"]), st.lists(values, max_size=6))))
def test_older_columns_stay_what_they_were(writes: list[tuple[str, Rows]]) -> None:
    columns, rows = FieldColumns.empty(FIELDS), list[tuple[Any, ...]]()
    history = [(columns, list(rows))]
    for kind, new in writes:
        if kind == "grow":
            columns, rows = columns.with_rows(new), rows + new
        else:
            slots = np.arange(len(rows))[::-1][: len(new)]
            columns, rows = columns.take(slots), [rows[slot] for slot in slots.tolist()]
        history.append((columns, list(rows)))
    for kept, held in history:
        check(kept, held)
        check(FieldColumns.from_arrays(FIELDS, kept.arrays()), held)


def test_columns_grown_again_after_a_failed_write_have_the_second_rows() -> None:
    first, lost, second = some_rows(7), some_rows(9, 1), some_rows(5, 2)
    columns = FieldColumns.empty(FIELDS).with_rows(first)
    columns.with_rows([*lost, (1, 1.0, True, "lost")])
    grown = columns.with_rows(second)
    check(columns, first)
    check(grown, first + second)
    assert not grown.mask(Leaf("lang", "eq", "lost")).any()


def test_rows_added_one_by_one_are_seldom_moved() -> None:
    columns, seen = FieldColumns.empty(FIELDS), set[int]()
    kept = []  # so that no address is used twice
    for row in some_rows(2000):
        columns = columns.with_rows([row])
        array = columns.arrays()["0.values"].base
        if id(array) not in seen:
            seen.add(id(array))
            kept.append(array)
    assert len(seen) < 80
    assert columns.nbytes < 2000 * 40


def test_stored_arrays_are_plain_and_may_be_read_only() -> None:
    rows = some_rows(65)
    arrays = FieldColumns.empty(FIELDS).with_rows(rows).arrays()
    for array in arrays.values():
        assert array.dtype.kind in "iufb"
        array.flags.writeable = False
    columns = FieldColumns.from_arrays(FIELDS, arrays)
    more = some_rows(3, 1)
    check(columns.with_rows([]), rows)
    check(columns.with_rows(more), rows + more)
    check(columns, rows)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("0.values", lambda a: a.astype(np.int32), "values must be 1-dimensional and int64"),
        ("0.present", lambda a: a[1:], "equally many"),
        ("1.values", lambda a: a[1:], "fields must have equally many values"),
        ("2.codes", lambda a: a + 3, "codes must be between -1 and 1"),
        ("3.codes", lambda a: a - 1, "codes must be between"),
        ("3.texts", lambda a: a | 0x80, "must be UTF-8"),
        ("3.texts", lambda a: a[1:], "begin where the one before ends"),
        ("3.offsets", lambda a: a[::-1], "begin where the one before ends"),
        ("3.offsets", lambda a: np.insert(a, 1, [0, 0]), "must differ"),
        ("3.texts", None, "got none"),
    ],
)
def test_stored_arrays_that_contradict_each_other_are_refused(
    name: str, change: Callable[[Any], Any] | None, words: str
) -> None:
    arrays = FieldColumns.empty(FIELDS).with_rows(some_rows(65)).arrays()
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    with pytest.raises(CorruptFileError, match=words):
        FieldColumns.from_arrays(FIELDS, arrays)


def test_columns_without_fields_count_their_rows() -> None:
    columns = FieldColumns.empty({}).with_rows([(), (), ()])
    assert columns.n == 3
    assert columns.take(np.array([1])).n == 1
    assert columns.arrays() == {}
    assert columns.nbytes == 0


def test_a_mask_is_a_new_array() -> None:
    columns = FieldColumns.empty(FIELDS).with_rows(some_rows(9))
    for where in WHERES:
        leaf = parse_filter(where)
        assert isinstance(leaf, Leaf)
        before = columns.mask(leaf).tolist()
        columns.mask(leaf)[:] ^= True
        assert columns.mask(leaf).tolist() == before


def test_a_hundred_thousand_values_of_in_are_found() -> None:
    n = 100_000
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(2**63), 2**63 - 1, n).tolist()
    rows: Rows = [(one, one / 2**70, True, str(one)) for one in numbers[::2]]
    rows += [(5, 0.5, None, "x"), (None, None, None, None)]
    columns = FieldColumns.empty(FIELDS).with_rows(rows)
    expected = [True] * (n // 2) + [False, False]
    for where in (
        {"year": numbers},
        {"score": [one / 2**70 for one in numbers]},
        {"lang": [str(one) for one in numbers]},
    ):
        leaf = parse_filter(where)
        assert isinstance(leaf, Leaf)
        assert columns.mask(leaf).tolist() == expected


def test_parts_without_declared_fields_are_asked_together_and_only_where_needed() -> None:
    rows = some_rows(65)
    columns = FieldColumns.empty(FIELDS).with_rows(rows)
    asked: list[Condition] = []

    def json_mask(part: Condition) -> Flags:
        asked.append(part)
        even: Flags = np.arange(65) % 2 == 0
        return even

    where: dict[str, Any] = {"a": 1, "year": {"gte": 0}, "or": [{"b": 1}, {"not": {"c": 2}}]}
    mask = evaluate(parse_filter(where), columns, 65, json_mask)
    assert asked == [parse_filter({"a": 1, "or": where["or"]})]
    there = [one[0] is not None and i % 2 == 0 for i, one in enumerate(rows)]
    assert mask.tolist() == there

    asked.clear()
    assert not evaluate(parse_filter({"a": 1, "year": -1}), columns, 65, json_mask).any()
    either = {"or": [{"a": 1}, {"not": {"year": -1}}]}
    assert evaluate(parse_filter(either), columns, 65, json_mask).all()
    assert evaluate(parse_filter({}), columns, 65, json_mask).all()
    assert not evaluate(parse_filter({"or": []}), columns, 65, json_mask).any()
    assert asked == []


def test_a_million_rows_are_filtered_in_milliseconds() -> None:
    n = 1_000_000
    rng = np.random.default_rng(4)
    columns = FieldColumns.from_arrays(
        FIELDS,
        {
            "0.values": rng.integers(0, 100, n),
            "0.present": np.ones(n, dtype=np.bool_),
            "1.values": rng.random(n),
            "2.codes": rng.integers(-1, 2, n).astype(np.int8),
            "3.codes": rng.integers(-1, 2, n).astype(np.int32),
            "3.texts": np.frombuffer(b"enfr", dtype=np.uint8),
            "3.offsets": np.array([0, 2, 4]),
        },
    )
    for where in ({"year": 7}, {"score": {"lt": 0.01}}, {"free": True}, {"lang": {"gte": "f"}}):
        leaf = parse_filter(where)
        assert isinstance(leaf, Leaf)
        times = []
        for _ in range(7):
            start = time.perf_counter()
            columns.mask(leaf)
            times.append(time.perf_counter() - start)
        # a loop over rows would take a hundred times as long; about 0.001 on a quiet machine
        assert min(times) < 0.01, where
