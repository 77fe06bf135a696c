"""Ids and metadata of any kind come back from a folder as they were given, or are refused; filters
answer as plain Python does, whatever was written before.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitkin import Collection
from bitkin.collection.metadata.filters import matches, parse_filter
from bitkin.errors import InvalidInputError, UnknownIdError
from tests.collection.killed import HASHER, POOL
from tests.collection.test_filters import FIELDS, condition, row

ODD_IDS = [
    "",
    " ",
    "../../etc/passwd",
    "/",
    "a\0b",
    "a",
    "a\0",
    "'",
    '"',
    "'; DROP TABLE rows; --",
    "%s",
    "?",
    ":name",
    "NULL",
    "0",
    "00",
    "0.0",
    "1e3",
    "é",
    "e\u0301",
    "😀" * 128,  # 512 bytes
    "x" * 512,
    "\n",
    "\ufeff",
    "\uffff",
    "A",
    "K",
    "\u212a",  # the sign of kelvin, K to whoever folds cases
    "ß",
    "SS",
]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_any_string_of_512_bytes_is_just_an_id(tmp_path: Path, checkpoint: bool) -> None:
    n = len(ODD_IDS)
    with Collection.create(tmp_path / "rows", HASHER, ids="str") as collection:
        collection.add(POOL[:n], ids=ODD_IDS, metadata=[{"i": i} for i in range(n)])
        if checkpoint:
            collection.checkpoint()
        backup = collection.backup(tmp_path / "backup")
    for path in (tmp_path / "rows", backup):
        with (
            Collection.open(path) as collection,
            Collection.open(path, read_only=True) as reader,
        ):
            for one in (collection, reader):
                assert one.ids.tolist() == ODD_IDS
                records = one.get(ODD_IDS[::-1])
                np.testing.assert_array_equal(records.vectors, POOL[:n][::-1])
                assert [one["i"] for one in records.metadata or []] == list(range(n))[::-1]
                assert one.search(POOL[:n], 1).ids[:, 0].tolist() == ODD_IDS
                allowed = one.search(POOL[:1], n, allow=ODD_IDS[::2])
                assert set(allowed.ids[0].tolist()) - {None} == set(ODD_IDS[::2])
                one.verify()
            collection.update_metadata(ODD_IDS, [{"i": -i} for i in range(n)])
            collection.remove(ODD_IDS[1::2])
            for one in (collection, reader):
                assert one.ids.tolist() == ODD_IDS[::2]
                assert [name in one for name in ODD_IDS] == [i % 2 == 0 for i in range(n)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 513, "at most 512 bytes"),
        ("😀" * 128 + "x", "at most 512 bytes"),
        ("é" * 257, "at most 512 bytes"),
        ("\ud800", "half of a surrogate pair"),
        ("a\udfff", "half of a surrogate pair"),
    ],
)
def test_an_id_that_cannot_be_kept_is_refused_everywhere(
    tmp_path: Path, name: str, words: str
) -> None:
    with Collection.create(tmp_path / "rows", HASHER, ids="str") as collection:
        collection.add(POOL[:1], ids=["there"])
        acts: list[Any] = [
            lambda: collection.add(POOL[:2], ids=["new", name]),
            lambda: collection.upsert(POOL[:2], ids=["new", name]),
        ]
        for act in acts:
            with pytest.raises(InvalidInputError, match=words):
                act()
        for act in (lambda: collection.remove([name]), lambda: collection.get([name])):
            with pytest.raises((InvalidInputError, UnknownIdError)):
                act()
        assert collection.ids.tolist() == ["there"]
        collection.verify()


KEPT: list[dict[str, Any]] = [
    {},
    {"$": 1, "$.a": 2, "a.b": 3, '"': 4, "'": 5, "[0]": 6, "a": {"b": 7}},
    {"key": 1, "Key": 2, "KEY": 3},
    {"é": 1, "e\u0301": 2},
    {"big": 2**63 - 1, "small": -(2**63), "real": 5e-324, "large": 1.7976931348623157e308},
    {"third": 1 / 3, "tenth": 0.1, "sum": 0.1 + 0.2, "int": 2**53 + 1, "float": 2.0**53},
    {"deep": [[[[{"a": [None, True, False, 0, 0.0, "", {}]}]]]]},
    {"long": "é" * 500_000},
    {"list": [1, 1.0, True, "1", None]},
    {"none": [None], "text": "NaN", "escaped": "\\u0000", "line": "a\nb\u2028c\x01"},
    {"emoji": "😀", "bom": "\ufeff", "last": "\uffff", "row_id": 5, "metadata": "x", "f0": 1},
    {"__proto__": 1, "rows": "'; DROP TABLE rows; --"},
]
REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"a": math.nan}, "finite"),
    ({"a": [math.inf]}, "finite"),
    ({"a": 2**63}, "between"),
    ({"a": {"b": -(2**63) - 1}}, "between"),
    ({"a": b"x"}, "None, a bool"),
    ({"a": {1, 2}}, "sorted"),
    ({"a": "\0"}, "NUL"),
    ({"a\0": 1}, "NUL"),
    ({"a": "\ud800"}, "lone surrogates"),
    ({"\udfff": 1}, "lone surrogates"),
    ({1: 1}, "non-empty strings"),
    ({"": 1}, "non-empty strings"),
    ({"a": "x" * (1 << 24)}, "16 MiB"),
]


def test_metadata_comes_back_exactly_after_the_folder_is_opened_again(tmp_path: Path) -> None:
    n = len(KEPT)
    with Collection.create(tmp_path / "rows", HASHER, fields={"a": int}) as collection:
        known = [{key: value for key, value in one.items() if key != "a"} for one in KEPT]
        collection.add(POOL[:n], metadata=known)
        for bad, words in REFUSED:
            given_ = {("b" if key == "a" else key): value for key, value in bad.items()}
            with pytest.raises(InvalidInputError, match=words):
                collection.add(POOL[:2], metadata=[{}, given_])
            with pytest.raises(InvalidInputError, match=words):
                collection.update_metadata([0], given_)
    with Collection.open(tmp_path / "rows") as collection:
        found = collection.get().metadata
        assert found == known
        assert repr(found) == repr(known)  # 1 is no 1.0 and no True, and keys keep their order
        hits = collection.search(POOL[:n], 1)
        assert hits.metadata is not None
        assert repr([one[0] for one in hits.metadata]) == repr(known)
        collection.verify()
        for i, one in enumerate(known):
            for key, value in one.items():
                if isinstance(value, (int, float, str)) and len(str(value)) < 1000:
                    assert i in collection.get(where={key: {"eq": value}}).ids


asked_rows = st.lists(row, min_size=1, max_size=8)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.integers(0, 9), asked_rows),
        st.tuples(st.just("update"), st.integers(0, 9), row),
        st.tuples(st.just("remove"), st.integers(0, 9), st.none()),
        st.tuples(st.sampled_from(["compact", "checkpoint", "open"]), st.just(0), st.none()),
    ),
    max_size=6,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    id_kind=st.sampled_from(["int", "str"]),
    declared=st.sets(st.sampled_from(sorted(FIELDS))),
    first=asked_rows,
    steps=changes,
    wheres=st.lists(condition, min_size=1, max_size=4),
)
def test_filters_answer_as_plain_python_after_any_writes(
    id_kind: str,
    declared: set[str],
    first: list[dict[str, Any]],
    steps: list[tuple[str, int, Any]],
    wheres: list[dict[str, Any]],
) -> None:
    folder = Path(tempfile.mkdtemp()) / "rows"
    fields = {name: FIELDS[name] for name in sorted(declared)}
    known: dict[Any, dict[str, Any]] = {}
    collection = Collection.create(folder, HASHER, ids=id_kind, fields=fields)
    reader = Collection.open(folder, read_only=True)
    try:
        for act, place, value in [("upsert", 0, first), *steps]:
            if act == "upsert":
                names = [_name(id_kind, place + i) for i in range(len(value))]
                collection.upsert(POOL[: len(names)], ids=names, metadata=value)
                known.update((n, _without_none(v)) for n, v in zip(names, value, strict=True))
            elif act == "update" and _name(id_kind, place) in known:
                name = _name(id_kind, place)
                collection.update_metadata([name], value)
                known[name] = _without_none({**known[name], **value})
            elif act == "remove" and _name(id_kind, place) in known:
                collection.remove([_name(id_kind, place)])
                del known[_name(id_kind, place)]
            elif act == "open":
                collection.close()
                collection = Collection.open(folder)
            elif act in ("compact", "checkpoint"):
                getattr(collection, act)()
        for where in wheres:
            parsed = parse_filter(where)
            wanted = {name for name, one in known.items() if matches(parsed, one)}
            for one in (collection, reader):
                assert one.count(where) == len(wanted)
                records = one.get(where=where)
                assert set(records.ids.tolist()) == wanted
                assert records.metadata == [
                    _in_order(known[name], fields) for name in records.ids.tolist()
                ]
                hits = one.search(POOL[:1], 99, where=where)
                assert {hit.id for hit in hits[0]} == wanted
        collection.verify()
        reader.verify()
    finally:
        collection.close()
        reader.close()
        shutil.rmtree(folder.parent)


def _name(id_kind: str, number: int) -> Any:
    return number if id_kind == "int" else f"n{number}"


def _without_none(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if value is not None}


def _in_order(one: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    """Return metadata as it is given back, which compares equal in any order."""
    return {**{key: one[key] for key in fields if key in one}, **one}
