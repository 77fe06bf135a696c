"""Shingles: a text as the set of its short runs of words or characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bitkin import threads
from bitkin.checks import one_of, shown, whole_number
from bitkin.errors import InvalidInputError
from bitkin.sets.sets import Sets
from bitkin.sets.texts import Bytes, utf8

_SIZES = {"words": 3, "chars": 9}
_CHARACTERS_PER_PIECE = 1 << 19


def shingles(texts: Iterable[str], *, kind: str = "words", size: int | None = None) -> Sets:
    """Return the set of shingles of every text: its runs of `size` words or characters, each hashed
    to 64 bits.

    kind="words": words are what `str.split()` finds, runs of anything but white space (ASCII's and
    Unicode's, as in `str.isspace`), and a shingle is `size` of them with one space between, 3 by
    default. kind="chars": a shingle is `size` code points, white space included, 9 by default. A
    text of fewer words or characters gives one shingle, the whole of it; an empty one (for words
    also one of white space alone) gives the empty set. Nothing else is done to a text: lower it or
    strip its punctuation first where those should not count.

    The defaults suit near-duplicates. Changing one word in 30 leaves about 0.82 of Jaccard
    similarity between sets of 3 words, while unrelated texts share next to nothing. Smaller sizes
    forgive more edits and find more chance likeness; characters suit short texts, names, and
    languages that do not part words.

    A shingle is hashed over its UTF-8 bytes just as MinHash hashes a string, so encoding the sets
    returned here is encoding lists of the shingles themselves.

    Examples
    --------
    >>> import bitkin
    >>> texts = ["the cat sat on the mat", "the cat sat on the sofa", ""]
    >>> sets = bitkin.shingles(texts, kind="words", size=2)
    >>> sets.sizes().tolist()
    [5, 5, 0]
    >>> sets.jaccard_of_pairs([0, 0], [1, 2]).round(3).tolist()
    [0.667, 0.0]
    >>> hasher = bitkin.MinHash().fit()
    >>> two = [["the cat", "cat sat", "sat on", "on the", "the mat"]]
    >>> hasher.encode(sets[0]) == hasher.encode(two)
    True
    """
    kind, size = shingle_parameters(kind, size)
    pieces = threads.run(lambda piece: shingle_texts(piece, kind, size), cut_texts(texts))
    return Sets.concatenate(pieces)


def shingle_parameters(kind: Any, size: Any) -> tuple[str, int]:
    """Return the checked parameters, the size by kind where it is None."""
    kind = one_of(kind, "kind", ("words", "chars"))
    return kind, _SIZES[kind] if size is None else whole_number(size, "size", low=1, high=2**31 - 1)


def cut_texts(
    texts: Iterable[str], n_characters: int | None = None, n_texts: int | None = None
) -> Iterator[list[str]]:
    """Yield a few texts at a time: about `n_characters`, at most `n_texts`."""
    n_characters = _CHARACTERS_PER_PIECE if n_characters is None else n_characters
    n_texts = n_characters if n_texts is None else n_texts
    if isinstance(texts, (str, bytes)):
        raise InvalidInputError(
            f"texts must be a list of texts, got one: {shown(texts)}. Wrap it as [text]."
        )
    try:
        remaining = iter(texts)
    except TypeError:
        raise InvalidInputError(
            f"texts must be a list of texts, got {type(texts).__name__}."
        ) from None
    piece: list[str] = []
    first, held = 0, 0
    for text in remaining:
        if not isinstance(text, str):
            raise InvalidInputError(
                f"texts must be strings, got {shown(text)} at position {first + len(piece)}. "
                "Decode bytes first, and drop what is missing or make it an empty text."
            )
        piece.append(text)
        held += len(text)
        if held >= n_characters or len(piece) >= n_texts:
            yield piece
            first += len(piece)
            piece, held = [], 0
    if piece:
        yield piece


def keyed_shingles(texts: Iterable[str], key: int, *, kind: str, size: int) -> tuple[Sets, Sets]:
    """Return what `shingles` returns, and the same sets by a hash for which collisions can only be
    made by someone who knows `key`.

    `key` is a number below 2**61 − 1; two shingles of up to 7k bytes collide with a chance of k /
    2**61 over all keys.
    """
    pieces = threads.run(lambda piece: _hash_shingles(piece, kind, size, key), cut_texts(texts))
    return Sets.concatenate([one for one, _ in pieces]), Sets.concatenate(
        [keyed for _, keyed in pieces]
    )


def shingle_texts(texts: list[str], kind: str, size: int) -> Sets:
    """Return the sets of one piece of texts."""
    return _hash_shingles(texts, kind, size, None)[0]


def _hash_shingles(texts: list[str], kind: str, size: int, key: int | None) -> tuple[Sets, Sets]:
    """Return the sets of one piece of texts by the stable hash, and by the keyed one, which are no
    sets without a key.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.hashing.shingles import (
        count_characters_into,
        join_words_into,
        shingles_into,
    )

    encoded = [utf8(text) for text in texts]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    held = Bytes.copy_of(b"".join(encoded))
    counts = np.empty(len(texts), dtype=np.int64)
    if kind == "words":
        # Words with one space between: then a shingle is one run of bytes, as of characters.
        joined = Bytes(held.n_bytes)
        joined_offsets = np.empty_like(offsets)
        spaces = np.empty(int(np.diff(offsets).max(initial=0)) + 1, dtype=np.uint8)
        join_words_into(
            held.text, read_only(offsets), spaces, joined.buffer, joined_offsets, counts
        )
        held, offsets = joined, joined_offsets
    else:
        count_characters_into(held.text, read_only(offsets), counts)
    # n words or characters have n − size + 1 runs; fewer than `size` make one, and none make none.
    out_offsets = np.zeros_like(offsets)
    np.cumsum(np.where(counts < size, counts > 0, counts - size + 1), out=out_offsets[1:])
    members = np.empty(out_offsets[-1], dtype=np.uint64)
    keyed = np.empty(0 if key is None else out_offsets[-1], dtype=np.uint64)
    starts = np.empty(int(np.diff(offsets).max(initial=0)) + 2, dtype=np.int64)
    shingles_into(
        held.text,
        held.words,
        read_only(offsets),
        kind == "words",
        size,
        starts,
        np.uint64(key or 0),
        members,
        keyed,
        read_only(out_offsets),
    )
    keyed_offsets = np.zeros(1, dtype=np.int64) if key is None else out_offsets
    return Sets.from_parts(members, out_offsets), Sets.from_parts(keyed, keyed_offsets)
