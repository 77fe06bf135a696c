from __future__ import annotations

from typing import Any

import pytest

from bitkin.collection.metadata.filters import matches, parse_filter
from bitkin.errors import InvalidInputError
from bitkin.vector_stores.dict_filters import read_dict_filter

ROWS: list[dict[str, Any]] = [
    {"source": "x", "page": 1, "tags": ["a", "b"]},
    {"source": "y", "page": 2, "tags": ["b"]},
    {"source": "x", "page": 3},
    {"source": "z and x"},
    {},
]

# a filter, and the rows that it matches
CASES: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4]),
    ({"source": "x"}, [0, 2]),
    ({"source": ["x", "y"]}, [0, 1, 2]),
    ({"source": {"$eq": "x"}}, [0, 2]),
    ({"source": {"eq": "x"}}, [0, 2]),
    ({"source": {"$ne": "x"}}, [1, 3, 4]),
    ({"source": {"ne": "x"}}, [1, 3]),
    ({"source": {"$in": ["x", "y"]}}, [0, 1, 2]),
    ({"source": {"$nin": ["x", "y"]}}, [3, 4]),
    ({"source": {"$contains": "x"}}, [0, 2, 3]),
    ({"tags": {"$contains": "a"}}, [0]),
    ({"page": {"$exists": False}}, [3, 4]),
    ({"page": {"$gt": 1}}, [1, 2]),
    ({"page": {"$gte": 1, "$lt": 3}}, [0, 1]),
    ({"page": {"$gte": 1, "lte": 2, "$ne": 1}}, [1]),
    ({"page": {"$between": [2, 3]}}, [1, 2]),
    ({"page": {"$not": {"$gt": 1}}}, [0, 3, 4]),
    ({"source": "x", "page": {"$gt": 1}}, [2]),
    ({"$and": [{"source": "x"}, {"page": 1}]}, [0]),
    ({"and": [{"source": {"$ne": "x"}}, {"page": 2}]}, [1]),
    ({"$or": [{"source": "y"}, {"page": {"$gte": 3}}]}, [1, 2]),
    ({"$not": {"source": "x"}}, [1, 3, 4]),
    ({"not": {"$or": [{"source": "x"}, {"page": 2}]}}, [3, 4]),
    ({"$and": []}, [0, 1, 2, 3, 4]),
    ({"$or": []}, []),
    ({"$or": [{"$and": [{"source": "x"}, {"$not": {"page": 1}}]}, {"tags": {"$contains": "a"}}]},
     [0, 2]),
]  # fmt: skip


@pytest.mark.parametrize("given, expected", CASES, ids=[str(given) for given, _ in CASES])
def test_a_filter_matches(given: dict[str, Any], expected: list[int]) -> None:
    where = read_dict_filter(given)
    assert where is not None
    condition = parse_filter(where)
    assert [n for n, row in enumerate(ROWS) if matches(condition, row)] == expected


@pytest.mark.parametrize(
    "given, words",
    [
        (lambda document: True, "filter must be a dictionary, .* got a function"),
        ("source = 'x'", r"filter must be a dictionary, .* got \"source = 'x'\""),
        ({"$nor": [{"a": 1}]}, r"join conditions by \$and, \$or, \$not, got '\$nor'. Did you mean"),
        ({"$gte": 3}, r"The operators \$eq, .* stand under the name of a field"),
        ({"a": {"$gte": None}}, "filter: gte must have a number or a string, got None"),
        ({"a": None}, "filter: eq must have .* For rows whose field is missing"),
        ({"a": {"$like": "%x%"}}, r"got '\$like' under 'a'. A part of a text is found by '\$conta"),
        ({"a": {"$gtee": 3}}, r"got '\$gtee' under 'a'. Did you mean '\$gte'"),
        ({"a": {"gtee": 3}}, "filter must use the operators eq, .* got 'gtee'"),
        (
            {"a": {"$between": [1]}},
            r"filter: '\$between' must have two bounds, got \[1\] under 'a'",
        ),
        ({"$and": {"a": 1}}, r"filter: '\$and' must have a list of conditions, got {'a': 1}"),
        ({"$not": [{"a": 1}]}, r"filter: '\$not' must have one condition"),
        ({"$or": ["a"]}, "filter must have dictionaries as conditions, got 'a'"),
        ({"a": {}}, "filter must name an operator for 'a'"),
        ({3: 4}, "filter must have non-empty strings as keys, got 3"),
    ],
)
def test_what_is_no_filter_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_dict_filter(given)


def test_no_filter_is_none() -> None:
    assert read_dict_filter(None) is None
