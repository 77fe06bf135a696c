"""One clear line for what cannot be, or not yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from bitkin import CodeSpec, Collection, FlatIndex, MinHash, ProjectionHash, SignHash, WTAHash
from bitkin.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.hashers.projection.projections import Nystrom
from tests.collection.model import rows_like

X = rows_like(60, 9)
HASHER = ProjectionHash(8).fit(X)


def _with_rows() -> FlatIndex:
    index = FlatIndex(HASHER.spec_)
    index.add(HASHER.encode(X))
    return index


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"path": ""}, "path must name a folder, got ''"),
        (
            {"fields": {"year": "date"}},
            r"fields\['year'\] must be one of 'int', 'float', 'bool', 'str', got 'date'",
        ),
        (
            {"hasher": ProjectionHash(8)},
            r"hasher must be fitted, got ProjectionHash\(n_bits=8\).*Call its fit",
        ),
        (
            {"hasher": "pca"},
            "hasher must be a fitted ProjectionHash, SignHash, WTAHash or MinHash, got str",
        ),
        (
            {"vectors": "float64"},
            "'float16', 'int8', 'csr' or None, got 'float64'. Did you mean 'float32'",
        ),
        ({"vectors": np.float16}, "got <class 'numpy.float16'>. Did you mean 'float16'"),
        ({"vectors": "none"}, "got 'none'. Did you mean None"),
        ({"metric": "L2"}, "metric must be one of 'l2', 'cosine', 'ip', got 'L2'"),
        ({"ids": "uuid"}, "ids must be one of 'int', 'str', got 'uuid'"),
        (
            {"stage": "best"},
            "stage must be one of 'codes', 'estimate', 'exact' or None, got 'best'",
        ),
        ({"oversample": 0}, "oversample must be between 1 and 2147483647, got 0"),
        ({"oversample": 2.5}, "oversample must be a whole number, got 2.5"),
        (
            {"index": "tree"},
            "index must be one of 'flat', 'multi', 'bands', 'cells', 'auto', got 'tree'",
        ),
        (
            {"index": FlatIndex(CodeSpec(9))},
            r"index must be for codes of 8 × 1-bit, .* got Flat.*Write FlatIndex\(hasher\.spec_",
        ),
        ({"index": _with_rows()}, r"index must have no rows: .* got FlatIndex\(60 codes"),
        ({"index": FlatIndex}, r"got the class FlatIndex\. Write FlatIndex\(hasher\.spec_\)"),
        ({"index": "ivf"}, "got 'ivf'. Did you mean 'cells'"),
        (
            {"probes": 32},
            r"probes is a setting of an index.*CellIndex\(hasher\.spec_, probes=32\), or .* search",
        ),
        ({"band_bits": 8}, r"Write index=bitkin\.BandIndex\(hasher\.spec_, band_bits=8\)\."),
        (
            {"vectors": None, "stage": "exact"},
            "stage must not be 'exact' in a collection with vectors=None",
        ),
        (
            {"hasher": MinHash(8).fit(X), "stage": "estimate"},
            "stage must not be 'estimate'.*got MinHash",
        ),
        (
            {"hasher": WTAHash(8, 2, alphabet_size=5000).fit(X), "stage": "estimate"},
            "stage must not be 'estimate'.*at most 4,096 symbols.*alphabet_size_ = 5,000",
        ),
        (
            {"hasher": MinHash(8).fit()},
            "vectors must be None for a MinHash that was fitted without a matrix",
        ),
    ],
    ids=lambda value: "",
)
def test_what_a_collection_cannot_be_made_with(settings: dict[str, Any], says: str) -> None:
    wanted: dict[str, Any] = {"path": None, "hasher": HASHER} | settings
    with pytest.raises(InvalidInputError, match=says):
        Collection.create(wanted.pop("path"), wanted.pop("hasher"), **wanted)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"queries": X[:2, None]}, r"queries must have shape \(n, d\)"),
        ({"queries": X[:, :8]}, "queries has 8 features, but ProjectionHash is expecting 9"),
        ({"queries": np.full((1, 9), np.nan)}, "queries: NaN at row 0, column 0"),
        ({"stage": "exactly"}, "stage must be one of"),
        ({"oversample": -1}, "oversample must be between 1"),
        ({"where": {"year": {"near": 1999}}}, "where must use the operators eq, ne, .*got 'near'"),
        (
            {"allow": np.ones(len(X), dtype=bool)},
            r"allow must be whole numbers, got bool\. A mask says nothing .*flatnonzero\(mask\)",
        ),
    ],
    ids=lambda value: "",
)
def test_what_a_collection_cannot_be_asked(question: dict[str, Any], says: str) -> None:
    collection = Collection.create(None, HASHER)
    collection.add(X)
    wanted: dict[str, Any] = {"queries": X[:2], "k": 3} | question
    with pytest.raises(InvalidInputError, match=says):
        collection.search(wanted.pop("queries"), wanted.pop("k"), **wanted)


def test_a_stage_that_is_not_possible_says_why() -> None:
    skewed = ProjectionHash(
        4, projection=Nystrom(samples=1.0, features=0.9, orthonormalize=False)
    ).fit(X)
    collection = Collection.create(None, skewed)
    collection.add(X)
    assert collection.search(X[:1], 1).ids.tolist() == [[0]]
    with pytest.raises(InvalidInputError, match=r"stage must not be 'estimate'.*orthonormal"):
        collection.search(X[:1], 1, stage="estimate")
    without = Collection.create(None, HASHER, vectors=None)
    with pytest.raises(InvalidInputError, match="which keeps none to measure"):
        without.search(X[:1], 1, stage="exact")


def test_what_names_cannot_be() -> None:
    collection = Collection.create(None, HASHER, ids="str")
    for ids, says in (
        (None, "ids must be given, one string a row"),
        ("ab", "ids must be one a row, got 1 for 2 rows"),
        (np.array("ab"), "ids must be one a row, got 1 for 2 rows"),
        (b"ab", "ids must be strings in a collection with ids='str', got b'ab'"),
        ([1, 2], "ids must be strings in a collection with ids='str', got 1 at position 0"),
        (["a", None], "got None at position 1"),
        (["a", "b", "c"], "ids must be one a row, got 3 for 2 rows"),
        (7, "ids must be strings in a collection with ids='str', got 7"),
        ([["a", "b"]], "got \\['a', 'b'\\] at position 0"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            collection.add(X[:2], ids=ids)
    with pytest.raises(DuplicateIdError, match="ids must differ, given more than once: 'a'"):
        collection.add(X[:2], ids=["a", "a"])
    collection.add(X[:2], ids=["a", ""])
    with pytest.raises(DuplicateIdError, match=r"already in the collection: 'a'\. Use upsert"):
        collection.add(X[:2], ids=["a", "b"])
    assert "b" not in collection
    with pytest.raises(UnknownIdError, match="not there: 'b', 'c', 'd', 'e', 'f' and 1 more"):
        collection.remove(["b", "c", "d", "e", "f", "a", "g"])
    with pytest.raises(InvalidInputError, match=r"allow must be strings .* got b'a'"):
        collection.search(X[:1], 1, allow=b"a")
    assert collection.search(X[:1], 2, allow=["a", "zebra"]).ids.tolist() == [["a", None]]
    assert collection.search(X[:1], 2, allow=[]).ids.tolist() == [[None, None]]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_without_an_order_are_refused_where_rows_have_one(kind: str) -> None:
    collection = Collection.create(None, HASHER, ids=kind)
    names: list[Any] = [0, 1, 2] if kind == "int" else ["a", "b", "c"]
    for ids in (set(names), frozenset(names), dict.fromkeys(names)):
        for write in (collection.add, collection.upsert):
            with pytest.raises(
                InvalidInputError,
                match=f"ids must be in the order of the rows, got a {type(ids).__name__},.*a list",
            ):
                write(X[:3], ids=ids)
    assert len(collection) == 0
    collection.add(X[:3], ids=dict.fromkeys(names).keys() if kind == "str" else names)
    assert collection.search(X[:1], 3, allow=set(names[:2])).ids[0, 2] in (-1, None)
    assert set(collection.get(set(names)).ids.tolist()) == set(names)
    collection.remove(frozenset(names[:2]))
    assert collection.ids.tolist() == names[2:]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_dictionary_is_no_list_of_ids_and_the_message_says_how_to_give_its_keys(
    kind: str,
) -> None:
    collection = Collection.create(None, HASHER, ids=kind)
    names: list[Any] = [0, 1, 2] if kind == "int" else ["a", "b", "c"]
    collection.add(X[:3], ids=names)
    given = dict.fromkeys(names)
    for call in (collection.remove, collection.get):
        with pytest.raises(
            InvalidInputError, match=r"^ids must be .*, got a dict\. Give list\(ids\) for its keys"
        ):
            call(given)
    with pytest.raises(
        InvalidInputError, match=r"^allow must be .*, got a dict\. Give list\(allow\) for its keys"
    ):
        collection.search(X[:1], 1, allow=given)
    collection.remove(list(given))
    assert len(collection) == 0


def test_sets_have_no_vectors() -> None:
    hasher = MinHash(8).fit((X > 1).astype(np.float32))
    collection = Collection.create(None, hasher)
    with pytest.raises(InvalidInputError, match="vectors must be a matrix, got sets"):
        collection.add([[1, 2], [3]])
    collection.add((X > 1).astype(np.float32))
    with pytest.raises(
        InvalidInputError, match="queries must be a matrix for stage='exact', got sets"
    ):
        collection.search([[1, 2]], 1)
    assert collection.search([[1, 2]], 1, stage="codes").ids.shape == (1, 1)


def test_a_hasher_in_the_place_of_the_path_is_told() -> None:
    hasher = SignHash(8).fit()
    with pytest.raises(InvalidInputError, match=r"Collection\.create\(None, hasher\), got a Sign"):
        Collection.create(hasher)
    with pytest.raises(InvalidInputError, match=r"Collection\.create\(None, hasher\)"):
        Collection.create(hasher, None)
    for given in ((), (hasher,), (None, hasher), (hasher, "l2", "float32")):
        with pytest.raises(InvalidInputError, match=r"made by bitkin\.Collection\.create\(None"):
            Collection(*given)
    with pytest.raises(InvalidInputError, match=r"made by bitkin\.Collection\.create\(None"):
        Collection(hasher, metric="cosine", vectors=None)


@pytest.mark.parametrize(("kind", "one", "other"), [("int", 4, 9), ("str", "ab", "c")])
def test_a_lone_vector_and_a_lone_id_are_one_row(kind: str, one: Any, other: Any) -> None:
    collection = Collection.create(None, HASHER, ids=kind)
    assert collection.add(X[0], ids=one).tolist() == [one]
    assert collection.add(X[1].tolist(), ids=[other]).tolist() == [other]
    assert collection.upsert(X[2], ids=one).tolist() == [one]
    records = collection.get(one)
    assert records.ids.tolist() == [one]
    assert np.array_equal(records.vectors, X[2:3])
    assert collection.search(X[1], 2, allow=other).ids[0, 0] == other
    collection.remove(one)
    assert collection.ids.tolist() == [other]
    for vectors, says in (
        (X[0, :5], "5 features"),
        (X[0, 0], r"vectors must"),
        (X[:2, None], r"vectors must have shape \(n, d\)"),
        (X[:2].ravel(), "18 features"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            collection.add(vectors, ids=one)
        assert len(collection) == 1


def test_records_are_shown_in_one_line() -> None:
    collection = Collection.create(None, HASHER)
    collection.add(X)
    assert repr(collection.get(3)).startswith("Records(1 ids, float32 vectors (1, 9), Codes(1 row")
    without = Collection.create(None, HASHER, vectors=None)
    without.add(X)
    assert "no vectors" in repr(without.get([1, 2]))


def test_queries_of_zeros_are_warned_of_under_cosine_unless_they_find_nothing() -> None:
    queries = X[:4].copy()
    queries[2] = 0
    for hasher in (HASHER, SignHash().fit(X)):
        collection = Collection.create(None, hasher, metric="cosine")
        collection.add(X / np.linalg.norm(X, axis=1, keepdims=True))
        for stage in ("codes", "estimate", "exact"):
            with pytest.warns(
                UserWarning, match=r"not be all zeros under .* zeros in row 2: they h"
            ):
                collection.search(queries, 3, stage=stage)
            with pytest.warns(UserWarning, match=r"zeros in row 0"):
                collection.search(csr_array(queries[2:3]), 3, stage=stage)
        with pytest.warns(UserWarning, match=r"zeros in row 0"):
            collection.search(queries[2], 3)
        collection.search(queries[:2], 3)  # no warning, which would be an error here
    by_length = Collection.create(None, HASHER)
    by_length.add(X)
    by_length.search(queries, 3)
    winners = Collection.create(None, WTAHash(8, 4, center=False).fit(X), metric="cosine")
    winners.add(X)
    assert (winners.search(queries, 3).ids[2] == -1).all()


def test_an_argument_that_create_does_not_have_is_named() -> None:
    others: Any = {"oversampling": 3}
    with pytest.raises(TypeError, match=r"argument 'oversampling'\. Did you mean 'oversample'"):
        Collection.create(None, HASHER, **others)
