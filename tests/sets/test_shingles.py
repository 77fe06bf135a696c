from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.sets import shingles as module
from bitkin.sets.shingles import keyed_shingles
from bitkin.sets.texts import hash_strings
from tests.hashers.minhash_truth import hash_of_string, shingles_of_text

WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028])
)
WHITE_SPACE += "\u2029\u202f\u205f\u3000"
# Close to white space in bytes, but none.
NO_SPACE = (
    "\x00\x08\x0e\x1b!\x84\x86\x9f\xa1\xc2"
    "\u1681\u167f\u1fff\u200b\u2027\u202a\u202e\u2030\u205e\u2060\u3001é漢🦊"
)
texts = st.text(
    alphabet=st.sampled_from("ab \né漢🦊" + WHITE_SPACE + NO_SPACE), max_size=60
) | st.text(max_size=30)


def expected_sets(texts: list[str], kind: str, size: int) -> list[set[int]]:
    return [set(map(hash_of_string, shingles_of_text(text, kind, size))) for text in texts]


def as_sets(sets: bitkin.Sets) -> list[set[int]]:
    return [set(one.tolist()) for one in sets]


def test_white_space_is_what_python_says() -> None:
    assert {c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()} == set(WHITE_SPACE)


@settings(deadline=None, max_examples=200)
@given(st.lists(texts, max_size=6), st.sampled_from(["words", "chars"]), st.integers(1, 6))
def test_shingles_are_those_of_plain_python(texts: list[str], kind: str, size: int) -> None:
    sets = bitkin.shingles(texts, kind=kind, size=size)
    assert as_sets(sets) == expected_sets(texts, kind, size)
    lists = [shingles_of_text(text, kind, size) for text in texts]
    assert sets.sizes().tolist() == list(map(len, lists))
    hasher = bitkin.MinHash(16).fit()
    assert (
        hasher.encode(sets)
        == hasher.encode(lists)
        == hasher.encode_texts(texts, kind=kind, size=size)
    )


@pytest.mark.parametrize("space", WHITE_SPACE)
def test_every_white_space_parts_words_and_is_dropped_at_the_ends(space: str) -> None:
    text = f"{space}one{space}{space}two three{space}"
    assert bitkin.shingles([text], size=2) == bitkin.shingles(["one two three"], size=2)


def test_long_and_many_texts_of_every_length(
    monkeypatch: pytest.MonkeyPatch, few_threads: None
) -> None:
    rng = np.random.default_rng(0)
    words = ["a", "be", "sea", "漢字", "straße", "x" * 17, "y" * 40]
    texts = [" ".join(words[i] for i in rng.integers(0, len(words), n)) for n in [*range(60), 2000]]
    for kind, size in (("words", 3), ("chars", 9), ("words", 1), ("chars", 1), ("chars", 33)):
        whole = bitkin.shingles(texts, kind=kind, size=size)
        assert as_sets(whole) == expected_sets(texts, kind, size)
        for n_threads, characters in ((1, 50), (2, 700), (3, 1)):
            bitkin.set_threads(n_threads)
            monkeypatch.setattr(module, "_CHARACTERS_PER_PIECE", characters)
            pieces = bitkin.shingles(iter(texts), kind=kind, size=size)
            assert np.array_equal(pieces.members, whole.members)
            assert np.array_equal(pieces.offsets, whole.offsets)


def test_short_and_empty_texts() -> None:
    sets = bitkin.shingles(
        ["", " \n\t", "one", "one two", " one\ttwo  three "], kind="words", size=3
    )
    assert sets.sizes().tolist() == [0, 0, 1, 1, 1]
    assert sets.members.tolist() == [
        hash_of_string(text) for text in ("one", "one two", "one two three")
    ]
    sets = bitkin.shingles(["", " ", "né", "née"], kind="chars", size=3)
    assert sets.sizes().tolist() == [0, 1, 1, 1]
    assert sets.members.tolist() == [hash_of_string(text) for text in (" ", "né", "née")]
    assert len(bitkin.shingles([])) == 0


def test_sizes_by_default() -> None:
    text = "the quick brown fox jumps over the lazy dog"
    assert bitkin.shingles([text]) == bitkin.shingles([text], kind="words", size=3)
    assert bitkin.shingles([text], kind="chars") == bitkin.shingles([text], kind="chars", size=9)


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=40), max_size=5), max_size=5))
def test_strings_are_hashed_as_in_plain_python(sets: list[list[str]]) -> None:
    flat = [string for strings in sets for string in strings]
    assert hash_strings(sets, len(flat)).tolist() == list(map(hash_of_string, flat))


@pytest.mark.parametrize(
    "length", [0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 1000]
)
def test_every_length_of_string(length: int) -> None:
    strings = [
        "x" * length,
        "é" * length,
        "ab" * length,
        "🦊" * length,
        "x" * length + "\0",
        "\0" * length,
    ]
    assert hash_strings([strings[:4]], 4).tolist() == list(map(hash_of_string, strings[:4]))
    assert hash_strings([strings], 6).tolist() == list(map(hash_of_string, strings))


def test_golden_hashes_of_strings() -> None:
    golden = {
        "": 16805508684852343222,
        "a": 10153820089803312511,
        "hello world": 13138911822006503957,
        "straße 漢字 🦊": 16308409317538730801,
        "the quick brown fox jumps over the lazy dog": 17169595528765082908,
    }
    assert (
        dict(zip(golden, hash_strings([list(golden)], len(golden)).tolist(), strict=True)) == golden
    )


def test_lone_surrogates_are_hashed_and_not_refused() -> None:
    strings = ["\ud800", "\udfff x", "ok"]
    assert hash_strings([strings], 3).tolist() == list(map(hash_of_string, strings))
    assert as_sets(bitkin.shingles(strings, kind="chars", size=2)) == expected_sets(
        strings, "chars", 2
    )


def test_every_bit_of_a_string_moves_every_bit_of_its_hash_half_the_time() -> None:
    rng = np.random.default_rng(0)
    for length in (3, 8, 12, 24):
        plain = rng.integers(1, 128, (400, length)).astype(np.uint8)
        for bit in range(0, 7 * length, 5):
            flipped = plain.copy()
            flipped[:, bit // 7] ^= np.uint8(1 << bit % 7)
            pairs = [[row.tobytes().decode() for row in rows] for rows in (plain, flipped)]
            a, b = (hash_strings([strings], 400) for strings in pairs)
            moved = np.unpackbits((a ^ b).view(np.uint8).reshape(400, 8), axis=1).mean(axis=0)
            # five standard deviations of 400 tosses
            assert np.abs(moved - 0.5).max() < 5 * 0.5 / 20


def test_hashes_of_many_strings_are_all_different() -> None:
    strings = [f"{a} {b}" for a in range(500) for b in range(500)]
    assert len(np.unique(hash_strings([strings], len(strings)))) == len(strings)


@pytest.mark.parametrize(
    ("texts", "keywords", "words"),
    [
        (
            "one text",
            {},
            r"texts must be a list of texts, got one: 'one text'. Wrap it as \[text\]",
        ),
        (b"bytes", {}, "texts must be a list of texts, got one"),
        (5, {}, "texts must be a list of texts, got int"),
        (None, {}, "texts must be a list of texts, got NoneType"),
        (["a", None], {}, "texts must be strings, got None at position 1. Decode bytes first"),
        ([b"a"], {}, "texts must be strings, got b'a' at position 0"),
        ([["a"]], {}, r"texts must be strings, got \['a'\] at position 0"),
        (["a"], {"kind": "lines"}, "kind must be one of 'words', 'chars', got 'lines'"),
        (["a"], {"size": 0}, "size must be between 1 and"),
        (["a"], {"size": 2.5}, "size must be a whole number, got 2.5"),
    ],
)
def test_wrong_input_is_one_clear_error(texts: Any, keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        bitkin.shingles(texts, **keywords)
    with pytest.raises(InvalidInputError, match=words):
        bitkin.MinHash(8).fit().encode_texts(texts, **keywords)


@settings(deadline=None, max_examples=60)
@given(
    st.text(max_size=60),
    st.integers(0, 2**61 - 2) | st.sampled_from([0, 1, 2**61 - 2]),
    st.integers(1, 9),
)
def test_the_keyed_hash_is_a_polynomial_at_a_secret_point(text: str, key: int, size: int) -> None:
    def polynomial(data: bytes) -> int:
        value = len(data)
        for i in range(0, len(data), 7):
            value = (value * key + int.from_bytes(data[i : i + 7], "little")) % (2**61 - 1)
        return value

    texts = [text, "", text + "x"]
    stable, keyed = keyed_shingles(texts, key, kind="chars", size=size)
    assert stable == bitkin.shingles(texts, kind="chars", size=size)
    truth = [
        [polynomial(one.encode()) for one in shingles_of_text(text, "chars", size)]
        for text in texts
    ]
    assert [one.tolist() for one in keyed] == truth


def test_what_collides_under_the_stable_hash_does_not_under_a_key() -> None:
    stable, keyed = keyed_shingles(
        ["3YB rHA ZuFM7HsX", "GcW REM ST!Iqbm+"], 2**60 + 12345, kind="words", size=3
    )
    assert stable[0] == stable[1]
    assert keyed[0] != keyed[1]
