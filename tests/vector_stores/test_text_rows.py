from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.vector_stores.text_rows import TextRow, check_text_key, read_row, write_row

HASHER = bitkin.ProjectionHash(64, projection="random", rotation=None, normalize=True)

ODD = [
    {},
    {"page": 3, "score": 1.5, "title": "ä ☂", "seen": True},
    {"none": None, "other": 1},
    {"nested": {"a": [1, {"b": None}], "empty": {}, "list": []}},
    {"tags": [], "langs": ["en", "fr"]},
    {"nan": float("nan"), "inf": float("-inf")},
    {"large": 2**80, "least": -(2**63), "most": 2**63 - 1},
    {"nul": "a\0b", "surrogate": "\ud800", "deep": {"x": ["\0"]}},
    {"": "no name", "with\0nul": 1},
    {"text": "mine", "_node": {"a": 1}, "_kept_aside": [1], "_ref_doc_id": None},
    {"\\u0000": "\\u0000 is text with a backslash"},
]


@pytest.mark.parametrize("metadata", ODD, ids=lambda one: ",".join(map(repr, one)) or "nothing")
@pytest.mark.parametrize("text", ["", "rain", "with \0 and \ud800", '{"metadata": 1}'])
def test_a_text_and_its_metadata_come_back_as_they_were(
    text: str, metadata: dict[str, Any]
) -> None:
    collection = bitkin.Collection.create(None, HASHER.fit(np.eye(2, 4)), ids="str")
    row = write_row(text, metadata, "text")
    collection.upsert(np.ones((1, 4)), ids=["a"], metadata=[row])
    kept = collection.get(["a"]).metadata
    assert kept is not None
    back = read_row("a", kept[0], "text")
    assert back.text == text
    # NaN equals nothing, and an order of keys is not kept
    assert repr(sorted(back.metadata.items())) == repr(sorted(metadata.items()))
    assert back.ours == {}


def test_what_stands_aside_does_not_hide_the_rest_from_filters() -> None:
    row = write_row("rain", {"page": 3, "author": None, "text": "mine"}, "text")
    assert row == {
        "page": 3,
        "text": "rain",
        "_kept_aside": '{"metadata": {"author": null, "text": "mine"}}',
    }


def test_another_key_may_hold_texts() -> None:
    row = write_row("rain", {"text": "mine"}, "body")
    assert row == {"text": "mine", "body": "rain"}
    assert read_row("a", row, "body") == TextRow("a", "rain", {"text": "mine"}, {})


def test_what_no_json_holds_is_left_for_the_collection_to_refuse() -> None:
    day = datetime.date(2024, 5, 1)
    assert write_row("rain", {"day": day}, "text") == {"day": day, "text": "rain"}
    with pytest.raises(InvalidInputError, match="under 'text' must be values that JSON can hold"):
        write_row("rain", {"text": day}, "text")


def test_a_row_without_a_text_is_told_where_texts_may_be() -> None:
    with pytest.raises(InvalidInputError, match=r"'text', under which the row 'a' has None. Text"):
        read_row("a", {"body": "rain", "page": 3}, "text")
    with pytest.raises(InvalidInputError, match=r"text_key must be .* under which the row 'a' has"):
        read_row("a", {"text": 3}, "text")


@pytest.mark.parametrize("aside", ["{", "[]", 3, '{"metadata": []}'])
def test_what_somebody_else_wrote_aside_is_refused(aside: Any) -> None:
    with pytest.raises(CorruptFileError, match="row 'a' must have what bitkin wrote under"):
        read_row("a", {"text": "rain", "_kept_aside": aside}, "text")


@pytest.mark.parametrize("key", ["", None, 3, "a\0b", "_node", "_kept_aside"])
def test_a_text_key_that_cannot_be_one_is_refused(key: Any) -> None:
    with pytest.raises(InvalidInputError, match="text_key must be a name that metadata can have"):
        check_text_key(key)


def test_what_stands_aside_is_plain_json() -> None:
    row = write_row("a\0b", {"n": 2**80}, "text")
    assert json.loads(row["_kept_aside"]) == {"metadata": {"n": 2**80}, "text": "a\0b"}
    assert row.keys() == {"_kept_aside"}
