"""Texts as rows: against counting words and pairs in Python, and whatever the texts are cut
into.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import bitkin
from bitkin.data.icd10cm import load_icd10cm
from bitkin.errors import InvalidInputError
from bitkin.learn.texts import TEXT_COLUMNS, text_features
from bitkin.sets import shingles
from bitkin.sets.texts import hash_strings

TEXTS = [
    "The cat sat on the mat; the cat sat.",
    "",
    "?!",
    "Straße, naïve_3 élan",
    "one",
    "a b a b a",
]


def truth(text: str) -> dict[int, float]:
    """Column -> value of one text, by counting."""
    words = re.findall(r"\w+", text.lower())
    found = Counter([*words, *(f"{a} {b}" for a, b in itertools.pairwise(words))])
    hashes = hash_strings([list(found)], len(found)).tolist()
    weights = {
        ((h >> 32) * TEXT_COLUMNS) >> 32: 1 + log(n)
        for h, n in zip(hashes, found.values(), strict=True)
    }
    length = sqrt(sum(weight**2 for weight in weights.values()))
    return {column: weight / length for column, weight in weights.items()}


def as_dict(row: Any) -> dict[int, float]:
    return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_a_row_holds_the_words_and_pairs_of_its_text(text: str) -> None:
    assert as_dict(text_features([text])[[0]]) == pytest.approx(truth(text))


def test_rows_are_canonical_float32_of_length_one_or_empty() -> None:
    X = text_features(TEXTS)
    assert (X.shape, X.dtype, X.indices.dtype) == ((6, TEXT_COLUMNS), np.float32, np.int32)
    assert X.has_canonical_format
    assert np.sqrt(X.power(2).sum(axis=1)) == pytest.approx([1, 0, 0, 1, 1, 1])
    assert text_features([]).shape == (0, TEXT_COLUMNS)


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(0, 8))
def test_every_text_has_its_own_row_wherever_it_stands(texts: list[str], cut: int) -> None:
    whole = text_features(texts)
    for part, rows in ((texts[:cut], whole[:cut]), (texts[cut:], whole[cut:])):
        alone = text_features(part)
        assert np.array_equal(alone.indptr, rows.indptr)
        assert np.array_equal(alone.indices, rows.indices)
        assert np.array_equal(alone.data, rows.data)


def test_pieces_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text_features(TEXTS)
    monkeypatch.setattr(shingles, "_CHARACTERS_PER_PIECE", 5)
    assert (text_features(TEXTS) != whole).nnz == 0


@pytest.mark.parametrize(
    "texts, words",
    [("one text", "Wrap it as"), ([b"bytes"], "must be strings"), ([None], "at position 0")],
)
def test_what_is_no_text_is_one_clear_error(texts: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        text_features(texts)


def test_the_diagnoses_that_ship_are_whole_and_no_sibling_of_a_held_out_code_is_learned() -> None:
    texts, paths, held_out = load_icd10cm()
    assert len(texts) == len(paths) == len(held_out) == 46_881
    assert [len({path[: level + 1] for path in paths}) for level in range(3)] == [22, 285, 1918]
    assert len({path[2] for path in paths}) == 1918
    assert {path for path, out in zip(paths, held_out, strict=True) if not out} == set(paths)
    assert 0.15 < np.mean(held_out) < 0.25


def test_a_classifier_learns_the_diagnoses_of_a_chapter() -> None:
    texts, paths, held_out = (np.array(part, dtype=object) for part in load_icd10cm())
    out = held_out.astype(bool)
    eyes = np.array([path[0] == "7" for path in paths])
    labels = np.array([path[2] for path in paths])
    tree = bitkin.Taxonomy.from_paths([tuple(path) for path in paths[eyes]])
    model = bitkin.HeshingClassifier(tree, n_buckets=2**14, alpha=1e-6, max_iter=5)
    model.fit(text_features(texts[eyes & ~out]), labels[eyes & ~out])
    assert model.score(text_features(texts[eyes & out]), labels[eyes & out]) > 0.8


@pytest.mark.parametrize(
    "texts",
    [
        ["a text", "another"],
        ("a text", "another"),
        np.array(["a text", "another"]),
        np.array(["a text", "another"], dtype=object),
        [["a text"], ["another"]],
        [b"a text", b"another"],
        "a text",
    ],
    ids=["list", "tuple", "array", "objects", "column", "bytes", "one"],
)
def test_a_classifier_says_what_to_do_with_texts(texts: Any) -> None:
    X = bitkin.text_features(["a text", "another"])
    model = bitkin.HeshingClassifier(n_buckets=16, alpha=1e-3, max_iter=1).fit(X, [0, 1])
    words = r"X must be rows of numbers, got texts, .* b?'a text'\. .* by bitkin\.text_features"
    for ask in (
        lambda: clone(model).fit(texts, [0, 1]),
        lambda: clone(model).partial_fit(texts, [0, 1]),
        lambda: model.predict(texts),
        lambda: model.decision_function(texts),
        lambda: model.score(texts, [0, 1]),
    ):
        with pytest.raises(InvalidInputError, match=words):
            ask()


def test_a_column_of_texts_is_refused_like_a_list() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    with pytest.raises(InvalidInputError, match="got texts, the first of them 'a text'"):
        bitkin.HeshingClassifier().fit(pandas.Series(["a text", "another"]), [0, 1])
