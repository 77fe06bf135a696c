"""Texts that differ in case, punctuation and the writing of characters only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.dedup import TextCleaning, find_duplicates
from bitkin.dedup.advice import advice_for, similarity_after_one_change
from bitkin.errors import InvalidInputError


@pytest.mark.parametrize(
    "options, text, cleaned",
    [
        ({}, " A,  b! ", " A,  b! "),
        ({"lower": True}, "STRASSE Straße", "strasse strasse"),
        ({"strip_punctuation": True}, "Don't -- stop_it (now)!", "Dont stop it now"),
        ({"strip_punctuation": True}, "«Ça va?» l’été… 5€", "Ça va lété 5€"),
        ({"normalize": True}, "ﬁne\u00a0\n  １２ e\u0301", "fine 12 é"),
        ({"normalize": True}, "plain  text\n", "plain text"),
        ({"strip_punctuation": True}, "...!", ""),
    ],
)
def test_texts_as_they_are_compared(options: dict[str, bool], text: str, cleaned: str) -> None:
    assert TextCleaning(**options).clean(text) == cleaned


def test_ascii_and_other_texts_lose_the_same_signs() -> None:
    cleaning = TextCleaning(strip_punctuation=True)
    signs = "".join(map(chr, range(32, 127)))
    assert cleaning.clean(signs + " é") == cleaning.clean(signs) + " é"


def planted(seed: int = 0, n: int = 120) -> tuple[list[str], list[str]]:
    """Texts, and copies with other case and punctuation."""
    rng = np.random.default_rng(seed)
    texts, copies = [], []
    for _ in range(n):
        words = [f"w{number}" for number in rng.integers(0, 3000, 40)]
        texts.append(" ".join(words))
        changed = [word.upper() if rng.random() < 0.1 else word for word in words]
        marks = ["" if rng.random() > 0.1 else rng.choice(list(",.;!")) for _ in words]
        changed = [word + mark for word, mark in zip(changed, marks, strict=True)]
        copies.append("  ".join(changed))
    return texts, copies


def test_planted_changes_of_case_and_punctuation_are_all_found_when_they_do_not_count() -> None:
    texts, copies = planted()
    n = len(texts)

    def share_found(**options: Any) -> float:
        found = find_duplicates([*texts, *copies], 0.8, **options)
        return float(np.mean(found.cluster_of[n:] == np.arange(n)))

    assert share_found() < 0.2
    assert share_found(lower=True) < 0.9
    assert share_found(lower=True, strip_punctuation=True) == 1.0
    assert share_found(lower=True, strip_punctuation=True, normalize=True) == 1.0


def test_a_finder_cleans_batch_by_batch_and_refuses_what_is_no_text() -> None:
    with bitkin.dedup.DuplicateFinder(lower=True) as finder:
        finder.add(["One two three four"])
        finder.add(iter(["ONE two three FOUR", ""]))
        with pytest.raises(InvalidInputError, match="texts must be strings, got 5 at position 0"):
            finder.add([5])  # type: ignore[list-item]
        with pytest.raises(InvalidInputError, match="texts must be a list of texts, got one"):
            finder.add("abc")
        assert finder.find().cluster_of.tolist() == [0, 0, 2]
    for name in ("lower", "strip_punctuation", "normalize"):
        with pytest.raises(InvalidInputError, match=f"{name} must be True or False, got 'yes'"):
            find_duplicates([], **{name: "yes"})  # type: ignore[arg-type]


def test_what_one_change_leaves() -> None:
    words = [f"w{i}" for i in range(20)]
    changed = [*words[:9], "x", *words[10:]]
    sets = bitkin.shingles([" ".join(words), " ".join(changed)])
    left = similarity_after_one_change(18, 3)
    assert sets.jaccard_of_pairs([0], [1])[0] == pytest.approx(left) == 15 / 21
    assert similarity_after_one_change(1, 3) == 0.0


def test_advice_for_short_texts() -> None:
    short = [f"a{i} b{i} c{i} d{i} e{i}" for i in range(30)]
    found = find_duplicates(short)
    assert found.advice is not None
    assert "half have at most 3 shingles of 3 words" in found.advice
    assert "shingles of 1 word or shingles of 5 characters" in found.advice
    assert find_duplicates(short, shingle="words", size=1, threshold=0.6).advice is None
    assert find_duplicates([" ".join(short)] * 30).advice is None
    assert find_duplicates(short, threshold=1.0).advice is None
    assert find_duplicates(short[:3]).advice is None
    advice = advice_for(np.full(50, 18), 0.8, "words", 3)
    assert advice is not None
    assert "a threshold of 0.7 or" in advice
    assert advice_for(np.full(50, 1), 0.8, "chars", 1) is None


def test_texts_shorter_than_a_shingle_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="Most texts are short: half have at most 1 shingle of 3"):
        found = find_duplicates([f"word {i}" for i in range(30)])
    assert found.n_one_shingle == 30
