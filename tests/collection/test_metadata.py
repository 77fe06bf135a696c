"""What metadata may be: kept exactly, or refused with a reason."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin.collection.metadata.documents import (
    check_fields,
    check_metadata,
    decode_metadata,
    encode_metadata,
    split_fields,
)
from bitkin.errors import CorruptFileError, InvalidInputError

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
keys = texts.filter(bool)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def same(value: Any, other: Any) -> bool:
    """Equal in value, type, order of keys and sign of zero."""
    return repr(value) == repr(other)


@given(st.dictionaries(keys, values, max_size=5))
def test_metadata_comes_back_exactly(one: dict[str, Any]) -> None:
    text = encode_metadata(one, 0)
    assert same(decode_metadata(text), one)
    assert text == json.dumps(one, ensure_ascii=False, separators=(",", ":"))


def test_text_that_looks_like_an_escaped_nul_is_kept() -> None:
    one = {"a": "\\u0000", "b\\u0000": ["\\\\u0000"]}
    assert decode_metadata(encode_metadata(one, 0)) == one


def test_numpy_scalars_and_tuples_become_plain() -> None:
    one = {
        np.str_("a"): np.int64(-7),
        "b": np.float32(0.1),
        "c": np.bool_(True),
        "d": (np.uint8(3), np.str_("x"), np.float64(2.5)),
        "e": {"f": np.float16(1.5)},
    }
    plain = {"a": -7, "b": float(np.float32(0.1)), "c": True, "d": [3, "x", 2.5], "e": {"f": 1.5}}
    assert same(decode_metadata(encode_metadata(one, 0)), plain)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "finite, got nan. Leave the key out"),
        (-math.inf, "finite, got -inf"),
        (np.float32("nan"), "finite"),
        (2**63, "between -2\\*\\*63 and 2\\*\\*63 - 1, got 9223372036854775808"),
        (-(2**63) - 1, "Write it as a string or a float"),
        pytest.param(10**5000, "a number of 16,610 bits", id="long"),
        (np.uint64(2**64 - 1), "between"),
        (b"abc", "base64"),
        (datetime.date(2024, 5, 1), "Write dates as ISO text"),
        (datetime.datetime(2024, 5, 1), "Write dates as ISO text"),
        (pd.Timestamp("2024-05-01"), "Write dates as ISO text"),
        (np.datetime64("2024-05-01"), "Write dates as ISO text"),
        (np.timedelta64(3, "s"), "number of seconds"),
        ({1, 2}, "Give a list: sorted"),
        (np.arange(3), "tolist"),
        (object(), "must be None, a bool, a number, a string, a list or a dictionary"),
        (1j, "which is complex"),
        ("a\0b", "text without the NUL character"),
        ("\ud800", "text without lone surrogates"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_row_and_key(value: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"metadata of row 12: 'key' .*{words}"):
        encode_metadata({"fine": 1, "key": value}, 12)
    with pytest.raises(InvalidInputError, match=r"row 3: 'key'\['in'\]\[1\] "):
        encode_metadata({"key": {"in": [0, value]}}, 3)


@pytest.mark.parametrize("key", ["", 3, None, ("a",), "a\0", "\udfff"])
def test_keys_are_non_empty_strings(key: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"row 5 must have .*keys"):
        encode_metadata({key: 1}, 5)
    with pytest.raises(InvalidInputError, match=r"keys.*in 'outer'"):
        encode_metadata({"outer": {key: 1}}, 5)


def test_64_levels_are_kept_and_65_refused() -> None:
    deep: Any = 1
    for _ in range(63):
        deep = [deep]
    assert decode_metadata(encode_metadata({"a": deep}, 0)) == {"a": deep}
    with pytest.raises(InvalidInputError, match="at most 64 levels"):
        encode_metadata({"a": [deep]}, 0)
    circle: list[Any] = []
    circle += [circle, circle]
    with pytest.raises(InvalidInputError, match="at most 64 levels"):
        encode_metadata({"a": circle}, 0)


def test_a_row_has_at_most_16_mib() -> None:
    room = 2**24 - len('{"a":""}')
    assert len(encode_metadata({"a": "x" * room}, 0)) == 2**24
    with pytest.raises(InvalidInputError, match="row 9 must be at most 16 MiB"):
        encode_metadata({"a": "x" * (room + 1)}, 9)
    with pytest.raises(InvalidInputError, match="at most 16 MiB"):
        encode_metadata({"a": "é" * (room // 2 + 1)}, 9)


def test_lists_that_hold_each_other_many_times_are_refused_at_once() -> None:
    many: list[Any] = [1]
    for _ in range(60):
        many = [many, many]
    with pytest.raises(InvalidInputError, match="at most 16 MiB"):
        encode_metadata({"a": many}, 0)


def test_a_megabyte_of_text_is_kept() -> None:
    one = {"a": "é🎈\n" * 250_000}
    assert decode_metadata(encode_metadata(one, 0)) == one


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_what_is_no_json_object_is_a_damaged_file(text: str) -> None:
    with pytest.raises(CorruptFileError, match="must be a JSON object"):
        decode_metadata(text)


def test_no_metadata_is_an_empty_dictionary_per_row() -> None:
    assert decode_metadata(None) == {}
    assert check_metadata(None, 3) == [{}, {}, {}]
    assert check_metadata(None, 0) == check_metadata([], 0) == []
    assert check_metadata([None, {"a": 1}], 2) == [{}, {"a": 1}]
    assert check_metadata(({"a": 1},), 1) == check_metadata({"a": 1}, 1) == [{"a": 1}]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"a": 1}, "a list of 2 dictionaries"),
        ([{}], "got 1 for 2 rows"),
        ([{}, {}, {}], "got 3 for 2 rows"),
        ([{}, 7], "of row 1 must be a dictionary or None, got 7"),
        ("ab", "a list with one dictionary per row"),
        (iter([{}, {}]), "list\\(notes\\)"),
    ],
)
def test_metadata_has_one_dictionary_per_row(metadata: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"notes .*{words}"):
        check_metadata(metadata, 2, "notes")


def test_missing_cells_of_a_data_frame_are_left_out() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "real": [0.5, math.nan, -0.0],
            "text": ["a", None, ""],
            "when": [pd.NaT, pd.Timestamp("2024-05-01"), pd.NaT],
            "list": [[1], [], None],
            "flag": [True, False, True],
        },
        index=[7, 7, 9],
    )
    rows = check_metadata(frame, 3)
    assert rows == [
        {"whole": 1, "real": 0.5, "text": "a", "list": [1], "flag": True},
        {"when": pd.Timestamp("2024-05-01"), "list": [], "flag": False},
        {"whole": 3, "real": -0.0, "text": "", "flag": True},
    ]
    encode_metadata(rows[0], 0)
    with pytest.raises(InvalidInputError, match=r"row 1: 'when'.*ISO"):
        encode_metadata(rows[1], 1)


def test_a_data_frame_has_distinct_columns_and_as_many_rows() -> None:
    with pytest.raises(InvalidInputError, match="no two columns of one name"):
        check_metadata(pd.DataFrame([[1, 2]], columns=["a", "a"]), 1)
    with pytest.raises(InvalidInputError, match="got 1 for 2 rows"):
        check_metadata(pd.DataFrame({"a": [1]}), 2)
    with pytest.raises(InvalidInputError, match="non-empty strings as keys, got 0"):
        encode_metadata(check_metadata(pd.DataFrame([[5]]), 1)[0], 0)


def test_fields_are_declared_by_names_or_types() -> None:
    declared = {"year": int, "lang": "str", "score": float, "free": bool, "s": str}
    kinds = {"year": "int", "lang": "str", "score": "float", "free": "bool", "s": "str"}
    assert check_fields(declared) == kinds
    assert check_fields(None) == check_fields({}) == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (["year"], "a dictionary of names and kinds"),
        ({"year": "integer"}, "fields\\['year'\\] must be one of .*Did you mean 'int'"),
        ({"year": "float64"}, "Did you mean 'float'"),
        ({"year": None}, "got None"),
        ({"year": list}, "got <class 'list'>"),
        ({"year": []}, "got \\[\\]"),
        ({"": "int"}, "non-empty names"),
        ({3: "int"}, "non-empty names, got 3"),
        ({"a\0": "int"}, "NUL"),
        ({"not": "int"}, "must not be called 'not'"),
        ({str(i): "int" for i in range(65)}, "at most 64, got 65"),
    ],
)
def test_other_fields_are_refused(fields: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        check_fields(fields)


FIELDS = {"i": "int", "f": "float", "b": "bool", "s": "str"}


def test_declared_fields_are_split_from_the_rest() -> None:
    one = {"x": [1], "s": np.str_("é"), "i": np.int16(-3), "f": 2, "b": np.bool_(False), "y": None}
    split, rest = split_fields(one, FIELDS, 0)
    assert same(split, (-3, 2.0, False, "é"))
    assert rest == {"x": [1], "y": None}
    assert len(one) == 6
    assert split_fields({"i": None}, FIELDS, 0) == ((None, None, None, None), {})
    assert split_fields(one, {}, 0) == ((), one)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ({"i": True}, "'i' is declared int, got True"),
        ({"i": 3.0}, "Int64"),
        ({"i": "3"}, "Give int\\(value\\)"),
        ({"i": 2**63}, "'i' must be between"),
        ({"f": True}, "'f' is declared float, got True"),
        ({"f": math.nan}, "'f' must be finite"),
        ({"f": 2**53 + 1}, "a number that float64 holds"),
        ({"f": 10**400}, "a number that float64 holds"),
        ({"b": 1}, "'b' is declared bool, got 1"),
        ({"s": 1}, "'s' is declared str, got 1"),
        ({"s": "a\0"}, "NUL"),
        ({"s": "\ud800"}, "surrogates"),
        ({"s": datetime.date(2024, 5, 1)}, "ISO text"),
        ({"s": ["a"]}, "'s' is declared str, got \\['a'\\]"),
    ],
)
def test_declared_fields_have_their_kind(one: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"row 4: .*{words}"):
        split_fields(one, FIELDS, 4)
