"""Columns whose cells are vectors, as data frames keep embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import bitkin
from bitkin import Collection, HeshingClassifier, MinHash, ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest
from bitkin.io import open_vectors

X = np.random.default_rng(0).standard_normal((60, 7)).astype(np.float32)
TEXTS = [f"text {i}" for i in range(60)]


def frame() -> Any:
    return pandas.DataFrame({"text": TEXTS, "embedding": list(X)})


class Column:
    """A column as polars has it: lists become objects, arrays of one length a matrix."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def to_numpy(self) -> Any:
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._array, dtype=dtype)


def objects(rows: list[Any]) -> Any:
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


FORMS: list[Callable[[Any], Any]] = [
    lambda X: pandas.Series(list(X)),
    lambda X: pandas.Series(X.tolist(), index=np.arange(len(X))[::-1]),
    lambda X: pandas.Series([tuple(row) for row in X.tolist()]),
    lambda X: objects(list(X)),
    lambda X: Column(objects(list(X))),
    lambda X: Column(X),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_column_of_vectors_is_as_good_as_a_matrix(form: Callable[[Any], Any]) -> None:
    hasher = ProjectionHash(4, rotation="random").fit(X)
    again = ProjectionHash(4, rotation="random").fit(form(X))
    assert again.encode(form(X)) == hasher.encode(X)
    assert again.n_features_in_ == 7
    assert not hasattr(again, "feature_names_in_")
    assert np.array_equal(again.transform(form(X)), hasher.transform(X))
    collection = Collection.create(None, hasher)
    collection.add(form(X))
    assert np.array_equal(collection.get(np.arange(60)).vectors, X)
    assert collection.search(form(X[:3]), 1).ids.tolist() == [[0], [1], [2]]
    assert np.array_equal(nearest(form(X), X[:5], 3).ids, nearest(X, X[:5], 3).ids)
    with open_vectors(form(X), batch_rows=25) as source:
        assert np.array_equal(np.concatenate([batch for _, batch in source.batches()]), X)
    batches = open_vectors(iter([form(X[:9]), form(X[9:])]))
    assert np.array_equal(np.concatenate([batch for _, batch in batches.batches()]), X)


def test_a_column_is_picked_by_its_name() -> None:
    with open_vectors(frame(), column="embedding", batch_rows=7) as source:
        assert source.shape == (60, 7)
        assert source.feature_names is None
        assert source.gather([59, 3]).tolist() == X[[59, 3]].tolist()
    hasher = ProjectionHash(4).fit(open_vectors(frame(), column="embedding"))
    assert hasher.encode(frame()["embedding"]) == hasher.encode(X)


def test_a_classifier_learns_from_a_column() -> None:
    labels = ["a.a" if row[0] > 0 else "a.b" for row in X]
    model = HeshingClassifier(n_buckets=256, max_iter=2).fit(frame()["embedding"], labels)
    assert model.predict(frame()["embedding"]).tolist() == model.predict(X).tolist()


def test_lists_are_still_sets_for_minhash() -> None:
    sets = pandas.Series([[1, 2, 3], [2, 3], []])
    codes = MinHash(8).fit().encode(sets)
    assert codes == MinHash(8).fit().encode([[1, 2, 3], [2, 3], []])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*X[:3], None, *X[3:5]], "must have a vector in every row, got None at row 3"),
        ([None, *X[:3]], "must have a vector in every row, got None at row 0"),
        ([*X[:3], float("nan")], "must have a vector in every row, got nan at row 3"),
        ([*X[:3], 7], "must have a vector in every row, got 7 at row 3"),
        ([*X[:3], X[3][:6]], r"one length, got shape \(6,\) at row 3 and \(7,\) at row 0"),
        ([X[:2], X[2:4]], r"flat vectors of one length, got shape \(2, 7\) at row 0"),
        ([[1.0, None], [2.0, 3.0]], r"vectors of numbers, got \[1.0, None\] at row 0"),
        ([["a", "b"], ["c", "d"]], r"vectors of numbers, got \['a', 'b'\] at row 0"),
    ],
)
def test_cells_that_are_no_vectors_are_named(rows: list[Any], says: str) -> None:
    column = pandas.Series(rows, dtype=object)
    with pytest.raises(InvalidInputError, match=says):
        ProjectionHash(2).fit(column)
    with pytest.raises(InvalidInputError, match=says):
        ProjectionHash(2).fit(X).encode(column)
    with pytest.raises(InvalidInputError, match=says):
        open_vectors(column)
    with pytest.raises(InvalidInputError, match=says):
        open_vectors(pandas.DataFrame({"e": column}), column="e")


def test_a_frame_with_vectors_in_it_says_how_to_give_them() -> None:
    only = frame()[["embedding"]]
    for ask in (ProjectionHash(2).fit, open_vectors, bitkin.SignHash().fit):
        with pytest.raises(InvalidInputError, match=r"vectors in column 'embedding'. Give that"):
            ask(only)
    with pytest.raises(InvalidInputError, match=r"in column 'text'\. Drop that column"):
        open_vectors(frame())


def test_columns_that_cannot_be_picked() -> None:
    with pytest.raises(InvalidInputError, match=r"got 'emb'\. It has 'text', 'embedding'"):
        open_vectors(frame(), column="emb")
    with pytest.raises(InvalidInputError, match="a column of vectors of source, got 'text'"):
        open_vectors(frame(), column="text")
    twice = pandas.concat([frame(), frame()], axis=1)
    with pytest.raises(InvalidInputError, match="'text', which 2 have as their name"):
        open_vectors(twice, column="text")
    with pytest.raises(InvalidInputError, match="dataset means nothing for a data frame"):
        open_vectors(frame(), column="embedding", dataset="x")
    with pytest.raises(InvalidInputError, match="column means nothing for vectors in memory"):
        open_vectors(X, column="embedding")


def test_a_column_of_texts_is_refused() -> None:
    hasher = ProjectionHash(2).fit(X)
    for texts in (pandas.Series(TEXTS), pandas.Series(TEXTS, dtype=object)):
        with pytest.raises(InvalidInputError):
            hasher.encode(texts)
        with pytest.raises(InvalidInputError):
            open_vectors(texts)


def test_an_empty_column_says_so() -> None:
    none = pandas.DataFrame({"v": pandas.Series([], dtype=object)})
    with pytest.raises(InvalidInputError, match="has no rows: without one, the length of the vec"):
        open_vectors(none, column="v")
    with pytest.raises(InvalidInputError, match="X has no rows"):
        bitkin.ProjectionHash(4).fit(none["v"])
    with pytest.raises(InvalidInputError, match=r"got shape \(2, 0\): its vectors are empty"):
        open_vectors(pandas.DataFrame({"v": [[], []]}), column="v")
