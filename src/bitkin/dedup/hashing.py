"""Hashing: texts → the sets that are compared, the codes that find whom to compare, and digests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import one_of, whole_number
from bitkin.codes import Codes
from bitkin.dedup.cleaning import TextCleaning
from bitkin.dedup.equal_sets import set_digests
from bitkin.hashers.minhash.minhash import MAX_HASHES, MinHash
from bitkin.index.bands.bands import choose_bands, similarity_threshold
from bitkin.randomness import Draws, resolve_seed
from bitkin.sets.sets import Sets
from bitkin.sets.shingles import keyed_shingles, shingle_parameters

_KEY_BITS = 24  # a band key shorter than this would meet by chance too often


class HashedTexts(NamedTuple):
    """What is kept of texts."""

    sets: Sets
    """Their shingles by the keyed hash, each once, ascending."""
    codes: Codes
    digests: npt.NDArray[np.uint64]
    """Of the sets."""


class TextHashing:
    """How texts become what is compared, the same for all texts of a run; parameters are those of
    `DuplicateFinder`, checked here.

    It pickles, its key included.
    """

    def __init__(
        self,
        threshold: float = 0.8,
        *,
        shingle: str = "words",
        size: int | None = None,
        n_hashes: int = 128,
        lower: bool = False,
        strip_punctuation: bool = False,
        normalize: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.threshold = similarity_threshold(threshold)
        self.shingle, self.size = shingle_parameters(
            one_of(shingle, "shingle", ("words", "chars")), size
        )
        self.cleaning = TextCleaning.from_options(lower, strip_punctuation, normalize)
        self.n_hashes = whole_number(n_hashes, "n_hashes", low=1, high=MAX_HASHES)
        self.plan = choose_bands(self.threshold, self.n_hashes)
        bits = next(bits for bits in (8, 16, 32) if bits * self.plan.rows >= _KEY_BITS)
        self._hasher = MinHash(
            self.n_hashes, bits_per_symbol=bits, method="fast-similarity", random_state=random_state
        ).fit()
        # Codes come from the stable hash, so that results do; what is compared comes from a hash
        # with a fresh key, so that nobody can write texts that only look alike.
        self._key = int(Draws(resolve_seed(None), "dedup shingles").below(2**61 - 1, 1)[0])

    @property
    def spec(self) -> Any:
        """The shape of the codes."""
        return self._hasher.spec_

    @property
    def fingerprint(self) -> Any:
        """What the codes know their hasher by."""
        return self._hasher.fingerprint_

    def hash(self, texts: Iterable[str]) -> HashedTexts:
        """Return what is kept of `texts`."""
        texts = self.cleaning.clean_all(texts)
        shingles, keyed = keyed_shingles(texts, self._key, kind=self.shingle, size=self.size)
        keyed = keyed.unique()
        return HashedTexts(keyed, self._hasher.encode(shingles), set_digests(keyed))
