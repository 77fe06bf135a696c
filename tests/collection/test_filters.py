"""`where`: plain Python, SQLite and columns give the same answer, and mistakes say what to do."""

from __future__ import annotations

import datetime
import json
import math
import sqlite3
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bitkin.arrays import Flags
from bitkin.collection.metadata.documents import encode_metadata, split_fields
from bitkin.collection.metadata.field_columns import FieldColumns, evaluate
from bitkin.collection.metadata.filters import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    matches,
    parse_filter,
    to_sql,
)
from bitkin.errors import InvalidInputError

FIELDS = {"year": "int", "score": "float", "free": "bool", "lang": "str"}
OTHER_KEYS = ["a", "a.b", 'q"uote', "o'brien", "$", "$.a", "[0]", "é", "🎈", " ", "\\", "\n", "--"]

INTS = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2020]
FLOATS = [0.0, -0.0, 1.0, 2.5, 0.1 + 0.2, 0.3, 2.0**53, 2.0**63, -(2.0**63), 1e300, 5e-324, 2020.0]
HUGE = [2**63, -(2**63) - 1, 2**64 + 1, 10**30, -(10**30), 10**400, -(10**400), math.inf, -math.inf]
TEXTS = ["", "a", "A", "ab", "b", "é", "e\u0301", "🎈", "\uffff", "rain", "it's", '"', "1", "true"]

stored_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
int64s = st.sampled_from(INTS) | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
reals = st.sampled_from(FLOATS) | st.floats(allow_nan=False, allow_infinity=False)
strings = st.sampled_from(TEXTS) | stored_text
stored_scalar = int64s | reals | strings | st.booleans()
stored_value = (
    st.none()
    | stored_scalar
    | st.lists(st.none() | stored_scalar | st.lists(stored_scalar, max_size=2), max_size=4)
    | st.dictionaries(st.sampled_from(["a", "b"]), stored_scalar, max_size=2)
)
exact_floats = reals | int64s.filter(lambda number: float(number) == number)
row = st.fixed_dictionaries(
    {},
    optional={
        "year": st.none() | int64s,
        "score": st.none() | exact_floats,
        "free": st.none() | st.booleans(),
        "lang": st.none() | strings,
        **dict.fromkeys(OTHER_KEYS, stored_value),
    },
)
asked_order = int64s | reals | st.sampled_from(HUGE) | strings
asked = asked_order | st.booleans()
operations = st.fixed_dictionaries(
    {},
    optional={
        "eq": asked,
        "ne": asked,
        "lt": asked_order,
        "lte": asked_order,
        "gt": asked_order,
        "gte": asked_order,
        "in": st.lists(asked, max_size=8),
        "contains": asked,
        "exists": st.booleans(),
    },
).filter(bool)
few_operations = st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]).flatmap(
    lambda operator: asked_order.map(lambda value: {operator: value})
)
comparison = st.dictionaries(
    st.sampled_from([*FIELDS, *OTHER_KEYS]),
    few_operations | operations | asked | st.lists(asked, max_size=4),
    max_size=2,
)
condition = st.recursive(
    comparison,
    lambda inner: (
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"or": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
        | st.builds(lambda one, other: {**one, "not": other}, comparison, inner)
    ),
    max_leaves=6,
)


def in_sqlite(found: Condition, rows: list[dict[str, Any]]) -> list[bool]:
    """What SQLite answers for rows, those without metadata as NULL."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE TABLE rows (row_id INTEGER PRIMARY KEY, metadata TEXT)")
        database.executemany(
            "INSERT INTO rows VALUES (?, ?)",
            [(i, encode_metadata(one, i) if one else None) for i, one in enumerate(rows)],
        )
        sql, parameters = to_sql(found)
        answers = database.execute(f"SELECT {sql} FROM rows ORDER BY row_id", parameters)
        answered = [answer for (answer,) in answers]
        assert set(answered) <= {0, 1}
        where = f"SELECT row_id FROM rows WHERE {sql} ORDER BY row_id"
        kept = [row_id for (row_id,) in database.execute(where, parameters)]
        assert kept == np.flatnonzero(answered).tolist()
        return list(map(bool, answered))
    finally:
        database.close()


def in_columns(found: Condition, rows: list[dict[str, Any]]) -> list[bool]:
    """What columns of the declared fields answer, together with SQLite for the rest."""
    split = [split_fields(one, FIELDS, i) for i, one in enumerate(rows)]
    columns = FieldColumns.empty(FIELDS).with_rows([values for values, _ in split])
    rest = [others for _, others in split]

    def json_mask(part: Condition) -> Flags:
        return np.array(in_sqlite(part, rest), dtype=np.bool_)

    return list(map(bool, evaluate(found, columns, len(rows), json_mask)))


@settings(max_examples=400)
@given(st.lists(row, max_size=7), condition)
@example([{"year": 2**53 + 1, "score": 2.0**53}], {"year": 2.0**53, "score": 2**53 + 1})
@example([{"a": 1e30}, {"a": 2**63 - 1}], {"a": {"lt": 10**30, "gt": -(10**400)}})
@example([{"a": [1, "x", True, None, [1]]}], {"a": {"contains": True}})
def test_python_sqlite_and_columns_give_the_same_answer(
    rows: list[dict[str, Any]], where: dict[str, Any]
) -> None:
    found = parse_filter(where)
    truth = [matches(found, one) for one in rows]
    assert in_sqlite(found, rows) == truth
    assert in_columns(found, rows) == truth


@settings(max_examples=200)
@given(st.lists(stored_scalar, min_size=1, max_size=12), asked_order)
def test_one_value_against_many_is_compared_exactly(values: list[Any], wanted: Any) -> None:
    rows = [{"a": value} for value in values]
    for operator in ("eq", "ne", "lt", "lte", "gt", "gte", "contains"):
        found = parse_filter({"a": {operator: wanted}})
        assert in_sqlite(found, rows) == [matches(found, one) for one in rows]
    found = parse_filter({"a": [wanted]})
    assert in_sqlite(found, rows) == [matches(found, one) for one in rows]


def test_every_pair_of_telling_values_is_compared_alike_everywhere() -> None:
    values = [*INTS, *FLOATS, *TEXTS, True, False]
    rows = [{"a": value} for value in values]
    rows += [{"year": value} for value in INTS]
    rows += [{"score": value} for value in FLOATS]
    rows += [{"lang": value} for value in TEXTS]
    rows += [{"free": value} for value in (True, False)]
    for wanted in [*values, *HUGE]:
        for operator in ("eq", "ne", "lt", "lte", "gt", "gte", "in", "contains"):
            if isinstance(wanted, bool) and operator in ("lt", "lte", "gt", "gte"):
                continue
            value = [wanted] if operator == "in" else wanted
            found = parse_filter({"or": [{key: {operator: value}} for key in ["a", *FIELDS]]})
            truth = [matches(found, one) for one in rows]
            assert in_sqlite(found, rows) == truth, (operator, wanted)
            assert in_columns(found, rows) == truth, (operator, wanted)


ROWS: list[dict[str, Any]] = [
    {"year": 2019, "title": "Summer rain", "tags": ["a", 1, True], "lang": "en"},
    {"year": 2020, "title": "rainbow", "tags": [], "lang": "fr"},
    {"year": 2021.5, "title": "RAIN", "tags": "abc", "lang": "de"},
    {"year": "2020", "title": None, "tags": [1.0, None, [2]]},
    {"year": True, "nested": {"year": 2020}},
    {"year": None},
    {},
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"year": 2020}, [1]),
        ({"year": "2020"}, [3]),
        ({"year": True}, [4]),
        ({"year": {"gte": 2020}}, [1, 2]),
        ({"year": {"gt": 2019, "lt": 2021}}, [1]),
        ({"year": {"ne": 2020}}, [0, 2, 3, 4]),
        ({"not": {"year": 2020}}, [0, 2, 3, 4, 5, 6]),
        ({"year": {"exists": True}}, [0, 1, 2, 3, 4]),
        ({"year": {"exists": False}}, [5, 6]),
        ({"not": {"year": {"exists": False}}}, [0, 1, 2, 3, 4]),
        ({"year": [2020, "2020", True]}, [1, 3, 4]),
        ({"year": {"in": (2019.0, 2021.5)}}, [0, 2]),
        ({"year": np.array([2019, 2020])}, [0, 1]),
        ({"year": {2019, "2020"}}, [0, 3]),
        ({"year": []}, []),
        ({"year": np.int64(2020)}, [1]),
        ({"year": {"lt": math.inf}}, [0, 1, 2]),
        ({"year": {"gt": ""}}, [3]),
        ({"title": {"contains": "rain"}}, [0, 1]),
        ({"title": {"contains": ""}}, [0, 1, 2]),
        ({"title": {"contains": 1}}, []),
        ({"tags": {"contains": "a"}}, [0, 2]),
        ({"tags": {"contains": 1}}, [0, 3]),
        ({"tags": {"contains": True}}, [0]),
        ({"tags": {"contains": 2}}, []),
        ({"tags": "a"}, []),
        ({"tags": {"ne": "abc"}}, [0, 1, 3]),
        ({"nested": {"ne": 1}}, [4]),
        ({"nested.year": 2020}, []),
        ({"year": 2020, "lang": "fr"}, [1]),
        ({"year": 2020, "lang": "en"}, []),
        ({"or": [{"year": 2020}, {"lang": "en"}]}, [0, 1]),
        ({"or": []}, []),
        ({"and": []}, [0, 1, 2, 3, 4, 5, 6]),
        ({"and": [{"year": {"gt": 0}}, {"not": {"lang": ["en", "fr"]}}]}, [2]),
    ],
)
def test_conditions_mean_what_the_module_says(where: dict[str, Any], expected: list[int]) -> None:
    found = parse_filter(where)
    assert [i for i, one in enumerate(ROWS) if matches(found, one)] == expected
    assert np.flatnonzero(in_sqlite(found, ROWS)).tolist() == expected


def test_a_condition_is_read_into_its_own_form() -> None:
    assert parse_filter({"a": 1}) == Leaf("a", "eq", 1)
    assert parse_filter({"a": {"gte": 1, "lt": 3}, "not": {"b": "x"}}) == And(
        (And((Leaf("a", "gte", 1), Leaf("a", "lt", 3))), Not(Leaf("b", "eq", "x")))
    )
    assert parse_filter({"or": [{"a": {"exists": np.True_}}]}) == Or((Leaf("a", "exists", True),))
    assert hash(parse_filter({"a": [1, "x", True]})) == hash(parse_filter({"a": [True, "x", 1]}))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (None, "where must be a dictionary.*got None"),
        ([{"a": 1}], "where must be a dictionary"),
        ({"": 1}, "non-empty strings as keys"),
        ({3: 1}, "non-empty strings as keys, got 3"),
        ({"a": {}}, "must name an operator for 'a'"),
        ({"a": {"gtee": 1}}, "got 'gtee' in {'a': {'gtee': 1}}. Did you mean 'gte'"),
        ({"a": {"$gte": 1}}, "Did you mean 'gte'"),
        ({"a": {">=": 1}}, "Did you mean 'gte'"),
        ({"a": {"name": "x"}}, "must use the operators eq, ne, .*got 'name'"),
        ({"a": {3: "x"}}, "must use the operators .*got 3"),
        ({"a": None}, "eq must have .*got None in {'a': None}. .*exists"),
        ({"a": {"ne": None}}, "ne must have .*exists"),
        ({"a": [1, None]}, "in must have .*exists"),
        ({"a": math.nan}, "NaN is never kept"),
        ({"a": {"lt": np.float32("nan")}}, "NaN is never kept"),
        ({"a": [math.nan]}, "NaN is never kept"),
        ({"a": {"lt": True}}, "Bools have no order"),
        ({"a": {"gte": [1]}}, "gte must have a number or a string, got \\[1\\]"),
        ({"a": {"eq": [1]}}, "eq must have a bool, a number or a string"),
        ({"a": {"in": "abc"}}, "in must have a list of values, got 'abc'"),
        ({"a": {"in": {"b": 1}}}, "in must have a list"),
        ({"a": [[1]]}, "in must have bools, numbers and strings, got \\[1\\]"),
        ({"a": {"exists": 1}}, "exists must have True or False, got 1"),
        ({"a": {"contains": ["x"]}}, "contains must have"),
        ({"a": b"x"}, "eq must have"),
        ({"a": "x\0"}, "NUL"),
        ({"a": ["\ud800"]}, "surrogates"),
        ({"a\0": 1}, "where must name fields without the NUL"),
        ({"a": datetime.date(2024, 1, 1)}, "Dates are kept as ISO text"),
        ({"and": {"a": 1}}, "'and' must have a list of conditions.*A field called 'and' cannot"),
        ({"or": 3}, "'or' must have a list .*cannot be filtered"),
        ({"not": [{"a": 1}]}, "'not' must have one condition.*cannot be filtered"),
        ({"and": [3]}, "where must be a dictionary.*got 3"),
        ({"$or": [{"a": 1}]}, "Did you mean 'or'"),
        ({"a": list(range(100_001))}, "at most 100,000 values of in"),
        ({"and": [{"a": 1}] * 10_001}, "at most 10,000 comparisons"),
    ],
)
def test_mistakes_are_named_and_shown(where: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        parse_filter(where)


def test_no_name_or_value_becomes_sql_text() -> None:
    evil = "x' OR 1=1; DROP TABLE rows; --"
    where = {evil: {"eq": evil, "ne": evil, "lt": evil, "contains": evil, "in": [evil, 987654]}}
    sql, parameters = to_sql(parse_filter({"not": where}))
    assert "DROP" not in sql
    assert "987654" not in sql
    assert sql.count("?") == len(parameters)


def test_a_condition_as_deep_and_as_wide_as_allowed_runs_in_sqlite() -> None:
    def nested(levels: int, wide: int) -> dict[str, Any]:
        if levels == 1:
            return {"a": {"contains": "x"}}
        inner = nested(levels - 1, wide)
        others: list[dict[str, Any]] = [{"a": {"contains": "y"}}] * wide
        word = "and" if levels % 2 else "or"
        return {word: [*others, inner]}

    found = parse_filter(nested(32, 310))
    assert in_sqlite(found, [{"a": ["x"]}, {}]) == [matches(found, {"a": ["x"]}), False]
    with pytest.raises(InvalidInputError, match="at most 32 levels"):
        parse_filter(nested(33, 1))

    # both arms of every level are deep
    def forked(levels: int) -> dict[str, Any]:
        if levels == 1:
            return {"a": {"ne": 1}}
        word = "and" if levels % 2 else "or"
        return {word: [forked(levels - 1), forked(levels - 1)]}

    found = parse_filter(forked(14))
    assert in_sqlite(found, [{"a": 2}, {"a": 1}]) == [True, False]
    # a deep spine, on top of a fork
    spine = forked(11)
    for level in range(21):
        word = "and" if level % 2 else "or"
        spine = {word: [{"a": {"ne": 1}}, {"not": spine} if level == 20 else spine]}
    with pytest.raises(InvalidInputError, match="at most 32 levels"):
        parse_filter(spine)
    found = parse_filter({"not": spine["or"][1]["not"]})
    assert in_sqlite(found, [{"a": 2}, {"a": 1}]) == [
        matches(found, {"a": 2}),
        matches(found, {"a": 1}),
    ]


def test_ten_thousand_comparisons_run_in_sqlite() -> None:
    for word in ("and", "or"):
        found = parse_filter({word: [{"a": {"contains": str(i)}} for i in range(10_000)]})
        assert in_sqlite(found, [{"a": "5"}, {"b": 1}]) == [word == "or", False]


def test_a_hundred_thousand_values_of_in_are_read_once_in_sqlite() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-(2**63), 2**63 - 1, 50_000).tolist()
    names = [f"é{i}" for i in range(50_000)]
    rows = [{"a": value} for value in [*numbers[:500], *names[:500], 1.5, "x", True]]
    found = parse_filter({"a": [*numbers, *names]})
    start = time.perf_counter()
    answers = in_sqlite(found, rows)
    assert answers == [True] * 1000 + [False] * 3
    # read per row, the lists would take minutes
    assert time.perf_counter() - start < 20


def test_what_the_values_of_in_become_is_json() -> None:
    _, parameters = to_sql(parse_filter({"a": [1, 2.5, 10**30, math.inf, "é", True]}))
    assert sorted(json.loads(parameters[1])) == [1, 2.5]
    assert json.loads(parameters[2]) == ["é"]
