"""Promises that every hasher of sets keeps, in every form that sets come in; scikit-learn knows
matrices only.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import bitkin
from bitkin import Codes, Sets
from bitkin.errors import InvalidInputError
from bitkin.io import open_vectors
from bitkin.sets import members as module
from tests.contracts.hashers import instances, takes_lists_as_sets

HASHERS = [clone(hasher) for hasher in instances() if takes_lists_as_sets(hasher)]
each_hasher = pytest.mark.parametrize("hasher", HASHERS, ids=repr)


class Level(IntEnum):
    BELOW = -1
    LOW = 3
    HIGH = 8


def lists_of_numbers(n: int = 60, high: int = 50, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, high, rng.integers(0, 12)).tolist() for _ in range(n)]


def as_matrix(lists: list[list[int]], n_columns: int = 50) -> Any:
    X = np.zeros((len(lists), n_columns))
    for row, members in enumerate(lists):
        X[row, members] = 1 + row
    return X


def as_sets(lists: list[list[int]]) -> Sets:
    return Sets(
        np.array([m for one in lists for m in one], dtype=np.uint64),
        np.cumsum([0, *map(len, lists)]),
    )


def objects(values: list[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@each_hasher
def test_every_form_of_the_same_sets_gets_the_same_codes(hasher: Any) -> None:
    lists = lists_of_numbers()
    X = as_matrix(lists)
    codes = hasher.fit().encode(lists)
    assert codes.fingerprint == hasher.fingerprint_
    assert codes.empty_rows().tolist() == [not one for one in lists]
    arrays = [np.array(one, dtype=np.int64) for one in lists]
    forms: list[Any] = [
        as_sets(lists),
        tuple(map(tuple, lists)),
        [set(one) for one in lists],
        [frozenset(one) for one in lists],
        [dict.fromkeys(one).keys() for one in lists],
        (iter(one) for one in lists),
        iter(lists),
        arrays,
        [one.astype(np.uint8) for one in arrays],
        [one.astype(np.uint64) if i % 2 else one for i, one in enumerate(arrays)],
        [one if i % 2 else one.tolist() for i, one in enumerate(arrays)],
        [list(one) for one in arrays],
        [np.array(one) for one in lists],  # float64 where empty
        objects(lists),
        X,
        X.astype(bool),
        scipy.sparse.csr_matrix(X),
        scipy.sparse.coo_array(X),
        open_vectors(X, batch_rows=7),
    ]
    for form in forms:
        assert hasher.encode(form) == codes
    assert np.array_equal(hasher.transform(lists), codes.symbols())
    assert hasher.transform(lists).dtype == hasher.spec_.symbol_dtype


@each_hasher
def test_kinds_of_int_are_the_numbers_they_are(hasher: Any) -> None:
    codes = hasher.fit().encode([[3, 8], [8]])
    assert hasher.encode([[Level.LOW, Level.HIGH], [Level.HIGH]]) == codes
    assert hasher.encode([[Level.LOW, np.uint8(8)], [8]]) == codes


@each_hasher
def test_data_frames_and_series(hasher: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    lists = lists_of_numbers()
    codes = hasher.fit().encode(lists)
    assert hasher.encode(pandas.DataFrame(as_matrix(lists))) == codes
    assert hasher.encode(pandas.Series(lists)) == codes


@each_hasher
@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.text(max_size=20), max_size=6), max_size=6))
def test_every_form_of_strings(hasher: Any, lists: list[list[str]]) -> None:
    codes = hasher.fit().encode(lists)
    assert len(codes) == len(lists)
    assert hasher.encode([set(one) for one in lists]) == codes
    assert hasher.encode([tuple(reversed(one)) for one in lists]) == codes
    assert hasher.encode([objects(one) for one in lists]) == codes
    assert hasher.encode(iter(one) for one in lists) == codes


@each_hasher
def test_arrays_of_strings(hasher: Any) -> None:
    lists = [["red", "green"], [], ["blau", "grün"], ["a\0b", "a", "b"]]
    codes = hasher.fit().encode(lists)
    assert hasher.encode([np.array(one, dtype=str) for one in lists]) == codes
    assert hasher.encode([one if i % 2 else np.array(one) for i, one in enumerate(lists)]) == codes
    assert len(np.unique(hasher.encode([["a\0b"], ["a", "b"]]).to_bytes(), axis=0)) == 2


@each_hasher
@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65])
def test_any_number_of_sets_gives_the_rows_of_the_whole(hasher: Any, n: int) -> None:
    lists = lists_of_numbers(80)
    strings = [[str(member) for member in one] for one in lists]
    hasher.fit()
    for form in (lists, strings, as_sets(lists), as_matrix(lists)):
        assert hasher.encode(form[:n]) == hasher.encode(form)[:n]
        assert hasher.transform(form[:n]).shape == (n, hasher.spec_.n_symbols)


@each_hasher
def test_threads_and_pieces_change_nothing(
    hasher: Any, few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.hashers.minhash import minhash

    lists = lists_of_numbers(300, high=10**6)
    strings = [[f"s{member}" for member in one] for one in lists]
    hasher.fit()
    expected = hasher.encode(lists), hasher.encode(strings)
    for n_threads, members, sets in ((1, 50, 11), (2, 7, 1), (3, 1, 100), (2, 10**6, 10**6)):
        bitkin.set_threads(n_threads)
        monkeypatch.setattr(module, "_MEMBERS_PER_PIECE", members)
        monkeypatch.setattr(module, "_SETS_AT_ONCE", sets)
        monkeypatch.setattr(minhash, "_MEMBERS_PER_PIECE", members)
        assert (
            hasher.encode(lists)
            == hasher.encode(as_sets(lists))
            == hasher.encode(iter(lists))
            == expected[0]
        )
        assert hasher.encode(strings) == expected[1]


@each_hasher
def test_a_stream_of_sets_is_read_as_it_is_encoded(
    hasher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETS_AT_ONCE", 10)

    def failing() -> Iterator[list[int]]:
        yield from [[1]] * 1000
        yield ["no number"]  # type: ignore[list-item]

    with pytest.raises(InvalidInputError, match="'no number' in set 1000 among numbers"):
        hasher.fit().encode(failing())


@each_hasher
def test_a_stream_may_fill_one_set_again_and_again(hasher: Any) -> None:
    lists = [[i, i + 1, i + 7] for i in range(50)]

    def refilled(buffer: Any, fill: Callable[[Any, list[int]], object]) -> Iterator[Any]:
        for members in lists:
            fill(buffer, members)
            yield buffer

    def refill_set(buffer: set[int], members: list[int]) -> None:
        buffer.clear()
        buffer.update(members)

    want = hasher.fit().encode(lists)
    assert (
        hasher.encode(
            refilled(np.empty(3, dtype=np.int64), lambda array, row: np.copyto(array, row))
        )
        == want
    )
    assert (
        hasher.encode(refilled([0, 0, 0], lambda one, row: one.__setitem__(slice(None), row)))
        == want
    )
    assert hasher.encode(refilled(set(), refill_set)) == want
    pairs = [(row, member) for row, members in enumerate(lists) for member in members]
    # a group is gone as soon as the next one is asked for
    groups = groupby(pairs, key=lambda pair: pair[0])
    assert hasher.encode((member for _, member in group) for _, group in groups) == want


@each_hasher
@pytest.mark.parametrize("X", [None, [[1, 2], []], Sets([1], [0, 1]), [["a"]], []], ids=repr)
def test_it_is_fitted_on_nothing_or_on_sets(hasher: Any, X: Any, tmp_path: Path) -> None:
    lists = lists_of_numbers()
    fitted = clone(hasher).fit() if X is None else clone(hasher).fit(X)
    codes = hasher.fit(as_matrix(lists)).encode(lists)
    assert fitted.encode(lists) == codes
    assert not hasattr(fitted, "n_features_in_")
    assert len(fitted.get_feature_names_out()) == fitted.spec_.n_symbols
    fitted.save(tmp_path / "model")
    for back in (
        bitkin.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
    ):
        assert back.encode(lists) == codes
        assert back.encode(as_matrix(lists)) == codes
        assert not hasattr(back, "n_features_in_")
        assert repr(back) == repr(fitted)
    fitted.require_features(open_vectors(np.ones((2, 77))))


@each_hasher
def test_a_new_fit_forgets_the_columns_of_the_last(hasher: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    hasher.fit(pandas.DataFrame({"a": [1.0], "b": [0.0]}))
    assert hasher.n_features_in_ == 2
    assert hasher.encode(pandas.DataFrame({"a": [1.0], "b": [0.0]})) == hasher.encode([[0]])
    hasher.fit([[1]])
    assert not hasattr(hasher, "feature_names_in_")
    assert len(hasher.encode(np.ones((1, 3)))) == 1


@each_hasher
def test_it_ends_a_pipeline_that_makes_sets(hasher: Any) -> None:
    pipeline = make_pipeline(FunctionTransformer(bitkin.shingles), hasher)
    texts = ["to be or not to be", "", "that is the question"]
    symbols = pipeline.fit(texts).transform(texts)
    assert np.array_equal(symbols, hasher.encode_texts(texts).symbols())


@each_hasher
def test_it_must_be_fitted_first(hasher: Any) -> None:
    fresh = clone(hasher)
    codes = Codes.from_symbols([[0] * 3], 1)
    calls: list[Callable[[], Any]] = [
        lambda: fresh.encode([[1]]),
        lambda: fresh.encode(Sets([1], [0, 1])),
        lambda: fresh.transform([[1]]),
        lambda: fresh.encode_texts(["a"]),
        lambda: fresh.jaccard(codes, codes),
        lambda: fresh.jaccard_error(codes, codes),
        lambda: fresh.require_features(open_vectors(np.ones((1, 1)))),
        lambda: fresh.save("nowhere"),
    ]
    for call in calls:
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call()


WRONG_SETS = [
    (
        "abc",
        r"X must be a list of sets, got one str: 'abc'. Wrap a single set of strings"
        r" as \[\[...\]\]",
    ),
    (b"abc", "X must be a list of sets, got one bytes"),
    (["abc", "def"], r"got 'abc' at position 0. Wrap .* cut texts into sets with bitkin.shingles"),
    ([["abc"], "def"], "got 'def' at position 1"),
    ([[1], b"def"], "got b'def' at position 1"),
    ([1, 2, 3], r"got 1 at position 0. Wrap a single set as \[X\]"),
    ({1, 2, 3}, r"X must be a list of sets, got set. Wrap a single set as \[X\]"),
    ({1: 2}, "X must be a list of sets, got dict"),
    (5, "X must be a list of sets, got int"),
    ([[1], None], r"got None at position 1. .* an empty set is \[\]"),
    ([[1], {1: 2}], r"got \{1: 2\} at position 1"),
    ([[1], np.ones((2, 2), int)], r"flat sets, got an array of shape \(2, 2\) at position 1"),
    ([[1], np.array(3)], r"flat sets, got an array of shape \(\) at position 1"),
    (bytearray(b"abc"), "X must be a list of sets, got one bytearray"),
    ([[1], bytearray(b"def")], r"got bytearray\(b'def'\) at position 1"),
    ([[1], memoryview(b"def")], "got <memory at .*> at position 1"),
    (
        [[1], np.array(["2020-01-01"], "M8[ns]")],
        r"X has an array of datetime64\[ns\] at position 1. Members must be",
    ),
    ([np.array([5], "m8[ns]")], r"X has an array of timedelta64\[ns\] at position 0"),
]
WRONG_MEMBERS = [
    (
        [[3], [2, -1]],
        r"X has the member -1 in set 1. Members must be all strings, or all whole numbers"
        r" from 0 to",
    ),
    ([[3], [2**64]], "X has the member 18446744073709551616 in set 1"),
    ([[3], [1.0]], "X has the member 1.0 in set 1, a float. A matrix must be an array, not a list"),
    ([[float("nan")]], "X has the member nan in set 0, a float"),
    ([[3], [None]], "X has the member None in set 1"),
    ([[3], [True]], "X has the member True in set 1"),
    ([[3], [b"a"]], "X has the member b'a' in set 1"),
    ([[3], [[4]]], r"X has the member \[4\] in set 1"),
    ([[3], [(4, 5)]], r"X has the member \(4, 5\) in set 1"),
    ([[3], ["a"]], "X has the member 'a' in set 1 among numbers"),
    ([[], ["a", 3]], "X has the member 3 in set 1 among strings"),
    ([["a"], [3]], "X has the member 3 in set 1 among strings"),
    ([["a"], [None]], "X has the member None in set 1"),
    ([["a"], np.array([3])], "X has the member .*3.* in set 1 among strings"),
    ([np.array([3]), np.array(["a"])], "X has the member .*'a'.* in set 1 among numbers"),
    ([np.array([3]), np.array([2, -1])], "X has the member .*-1.* in set 1"),
    ([np.array([-3], np.int8)], "X has the member .*-3.* in set 0"),
    ([np.array([3]), np.array([1.5])], "X has the member .*1.5.* in set 1, a float"),
    ([np.array([True])], "X has the member .*True.* in set 0"),
    ([[10**5000]], "X has the member a number of 16,610 bits in set 0"),
    ([[-(10**5000)]], "X has the member a number of 16,610 bits in set 0"),
    ([[3], [[10**5000]]], "X has the member a list in set 1"),
    ([[1, np.timedelta64(5, "s")]], "X has the member .*timedelta64.* in set 0"),
    ([[1, Level.HIGH], [Level.BELOW]], "X has the member <Level.BELOW: -1> in set 1"),
]


@each_hasher
@pytest.mark.parametrize(("X", "words"), WRONG_SETS, ids=[words for _, words in WRONG_SETS])
def test_what_is_no_list_of_sets_is_one_clear_error(hasher: Any, X: Any, words: str) -> None:
    hasher.fit()
    for call in (hasher.encode, hasher.transform):
        with pytest.raises(InvalidInputError, match=words):
            call(X)


@each_hasher
@pytest.mark.parametrize(("X", "words"), WRONG_MEMBERS, ids=[words for _, words in WRONG_MEMBERS])
def test_what_is_no_member_is_one_clear_error(hasher: Any, X: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        hasher.fit().encode(X)


@each_hasher
def test_encode_needs_sets_and_fit_looks_at_their_form(hasher: Any) -> None:
    with pytest.raises(InvalidInputError, match="X must be a list of sets, got NoneType"):
        hasher.fit().encode(None)
    for wrong in ("abc", 5, {1, 2}):
        with pytest.raises(InvalidInputError, match="X must be a list of sets"):
            clone(hasher).fit(wrong)
    with pytest.raises(
        InvalidInputError, match=r"X must have two dimensions, .* Reshape your data"
    ):
        hasher.encode(np.array([1, 2, 3]))
    with pytest.raises(InvalidInputError, match="NaN at row 1, column 2"):
        hasher.encode(scipy.sparse.csr_array(np.array([[0, 1.0, 0], [1, 0, np.nan]])))
