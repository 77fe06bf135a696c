"""Ids in every form that people hold them, and messages about values of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas
import pytest

from bitkin import Codes, Collection, EpochIndex, FlatIndex, ProjectionHash, Taxonomy, rescore
from bitkin.checks import id_array, one_of, shown, whole_number
from bitkin.errors import BitkinError, DuplicateIdError, InvalidInputError, UnknownIdError, cut_text
from bitkin.io.vectors.columns import require_columns

CODES = Codes.from_symbols([[0, 1], [1, 0], [1, 1]], 1)
LONG = "long" * 10**6


def filled() -> FlatIndex:
    index = FlatIndex(CODES.spec)
    index.add(CODES)
    return index


class Numbers:
    """Something that NumPy does not look into."""


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.array([1, None], dtype=object), "must be whole numbers, got None at position 1"),
        (np.array([1, 2.0], dtype=object), r"must be whole numbers, got 2\.0 at position 1"),
        (np.array([1, True], dtype=object), "must be whole numbers, got True at position 1"),
        (
            np.array([1, 2**64], dtype=object),
            r"must be from 0 to 2\*\*63 - 1, got 18446744073709551616",
        ),
        ([1, 10**5000], r"must be from 0 to 2\*\*63 - 1, got a number of 16,610 bits"),
        (np.array([2, -1], dtype=object), "must be 0 or more, got -1 at position 1"),
        (
            np.array([1, LONG], dtype=object),
            r"must be whole numbers, got 'longlong.*\.\.\. at position 1",
        ),
        ([LONG], r"must be whole numbers, got <U.* such as (np.str_\()?'longlong.*\.\.\.\."),
        (np.ma.array([1, 2], mask=[False, True]), r"has masked entries\. Fill them first"),
        (
            pandas.array([1, None], dtype="Int64"),
            "must be whole numbers, got (<NA>|NaN) at position 1",
        ),
        (iter([1, 2]), "must be a list or an array of whole numbers, got <list_iterator"),
        (
            {1: "a", 2: "b"}.keys(),
            r"must be a list or an array of whole numbers, got dict_keys\(\[1, 2\]\)",
        ),
        (
            {1: "a"},
            "must be (in the order of the rows|a list, a set or an array of ids), got a dict.* "
            "Give ",
        ),
        (Numbers(), "must be a list or an array of whole numbers, got <tests"),
        ({1, "a"}, "must be"),
    ],
)
def test_ids_that_are_no_whole_numbers_are_named(ids: Any, words: str) -> None:
    index = filled()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("ids", lambda: index.add(CODES[:2], ids=ids)),
        ("ids", lambda: index.upsert(CODES[:2], ids)),
        ("ids", lambda: index.remove(ids)),
        ("ids", lambda: index.codes(ids)),
        ("allow", lambda: index.search(CODES, 1, allow=ids)),
        ("ids", lambda: rescore([[1]], [[0.0]], stage="exact", vectors=[[0.0], [1.0]], ids=ids)),
        ("allow", lambda: EpochIndex().search([[0.0]], 1, allow=ids)),
        ("ids", lambda: EpochIndex().remove(ids)),
    ]
    for name, call in calls:
        with pytest.raises(InvalidInputError, match=f"^{name} {words}") as caught:
            call()
        assert len(str(caught.value)) < 300
    assert index.ids.tolist() == [0, 1, 2]
    with pytest.raises(InvalidInputError, match=words):
        id_array(ids, any_order=True)


def test_whole_numbers_are_ids_whatever_holds_them() -> None:
    for ids in (
        [5, 3],
        (5, 3),
        range(5, 1, -2),
        np.array([5, 3], dtype=object),
        np.array([np.int8(5), np.uint64(3)], dtype=object),
        np.ma.array([5, 3], mask=[False, False]),
        pandas.Series([5, 3]),
        pandas.array([5, 3], dtype="Int64"),
    ):
        assert id_array(ids).tolist() == [5, 3]
        assert id_array(ids).dtype == np.int64


def test_a_set_of_ids_is_taken_only_where_their_order_does_not_matter() -> None:
    index = filled()
    for ids in ({0, 1}, frozenset({0, 1})):
        for call in (
            lambda ids=ids: index.add(CODES[:2], ids=ids),
            lambda ids=ids: index.codes(ids),
        ):
            with pytest.raises(
                InvalidInputError, match=f"ids must be in the order .*got a {type(ids).__name__}"
            ):
                call()
        assert index.search(CODES[2:], 3, allow=ids).ids.tolist() == [[0, 1, -1]]  # type: ignore[arg-type]
    index.remove({0, 1})  # type: ignore[arg-type]
    assert index.ids.tolist() == [2]


def test_masked_numbers_are_refused_where_codes_and_shortlists_are_made() -> None:
    masked = np.ma.array([[0, 1]], mask=[[False, True]])
    with pytest.raises(InvalidInputError, match="symbols has masked entries"):
        Codes.from_symbols(masked, 1)
    with pytest.raises(InvalidInputError, match="data has masked entries"):
        Codes.from_bytes(masked.astype(np.uint8), 16)
    with pytest.raises(InvalidInputError, match="hits has masked entries"):
        rescore(masked, [[0.0]], stage="exact", vectors=[[0.0], [1.0]])


def named(*ids: str) -> Collection:
    X = np.random.default_rng(0).standard_normal((20, 4))
    collection = Collection.create(None, ProjectionHash(2).fit(X), ids="str")
    collection.add(X[: len(ids)], ids=list(ids))
    return collection


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (
            UnknownIdError,
            "ids must be in the collection; not there: 'longlong",
            lambda: named("a").remove([LONG]),
        ),
        (
            DuplicateIdError,
            "ids must differ, given more than once: 'longlong",
            lambda: named(LONG, LONG),
        ),
        (
            InvalidInputError,
            "ids must be strings .* got b'longlong",
            lambda: named("a").get(LONG.encode()),
        ),
        (
            InvalidInputError,
            "ids must be a list, a set .* got a dict",
            lambda: named("a").remove({"a": LONG}),
        ),
        (
            InvalidInputError,
            "got b'longlong.* at position 1",
            lambda: named("a").remove(["a", LONG.encode()]),
        ),
        (InvalidInputError, "metric must be one of .* got 'longlong", lambda: EpochIndex(LONG)),
        (
            InvalidInputError,
            "k must be a whole number, got 'longlong",
            lambda: filled().search(CODES, LONG),  # type: ignore[arg-type]
        ),
        (
            InvalidInputError,
            "labels must be strings of parts",
            lambda: Taxonomy.from_labels([f"{LONG}..b"]),
        ),
        (
            InvalidInputError,
            "paths must lead to each class once",
            lambda: Taxonomy.from_paths([(LONG, "a"), ("a",)]),
        ),
        (
            InvalidInputError,
            "sep must be a string",
            lambda: Taxonomy.from_labels(["a"], sep=[LONG]),  # type: ignore[arg-type]
        ),
    ],
)
def test_a_message_is_short_whatever_it_is_about(
    error: type[Exception], words: str, call: Callable[[], Any]
) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert len(str(caught.value)) < 5000
    assert len(repr(caught.value)) < 10_000


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    message = str(InvalidInputError(f"name must be short, got {LONG}. Shorten it."))
    assert message.startswith("name must be short, got longlong")
    assert message.endswith("longlong. Shorten it.")
    assert " … 3,996,037 characters left out … " in message
    assert len(message) < 4100
    for kind in BitkinError.__subclasses__():
        assert str(kind("whole")) == "whole"
        assert len(str(kind(LONG))) < 4100


def test_values_are_shown_as_python_writes_them_and_cut() -> None:
    assert shown("a'b") == repr("a'b")
    assert shown("x" * 58) == repr("x" * 58)
    assert shown("x" * 59) == "'" + "x" * 56 + "..."
    assert len(shown(list(range(10**5)))) == 60
    assert shown([10**5000]) == "a list"
    with pytest.raises(InvalidInputError, match=r"n must be at least 1, got a number of .* bits"):
        whole_number(-(10**5000), "n", low=1)
    with pytest.raises(InvalidInputError, match=r"kind must be one of 'a', 'b', got \['a'\]"):
        one_of(["a"], "kind", ("a", "b"))


def test_a_dictionary_of_ids_is_refused_by_its_order_only_where_order_matters() -> None:
    index, given = filled(), cast(Any, {1: 2})
    in_order = (
        r"ids must be in the order of the rows, got a dict, which has no such order\. Give a list"
    )
    for call in (lambda: index.add(CODES[:1], ids=given), lambda: index.codes(given)):
        with pytest.raises(InvalidInputError, match=in_order):
            call()
    with pytest.raises(
        InvalidInputError,
        match=r"^allow must be a list, a set .*, got a dict\. Give list\(allow\) for its keys",
    ):
        index.search(CODES, 1, allow=given)
    with pytest.raises(
        InvalidInputError,
        match=r"^ids must be a list, a set .*, got a dict\. Give list\(ids\) for its keys",
    ):
        index.remove(given)


def test_text_is_cut_by_one_rule() -> None:
    assert cut_text("a" * 60, 60) == "a" * 60
    assert cut_text("a" * 61, 60) == "a" * 57 + "..."
    assert cut_text("ab" * 50, 60, 4) == "ab" * 28 + " … 40 characters left out … abab"
    assert shown("a" * 61) == "'" + "a" * 56 + "..."
    with pytest.raises(InvalidInputError, match=rf"\n- {'a' * 57}\.\.\.\n"):
        require_columns(("a" * 61,), ("b",), "X")
