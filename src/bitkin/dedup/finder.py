"""Finding near-duplicate texts: shingles → MinHash codes → bands → pairs compared exactly →
clusters.

In memory are the codes (128 bytes per text by default, twice that for a moment) and about 60 bytes
per text besides; the shingles wait in a temporary file, 8 bytes each. Results depend on the texts
and the parameters alone, not on batches, threads, or the key that shingles are hashed with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import one_of, whole_number
from bitkin.closing import Closes
from bitkin.code_spec import WORD
from bitkin.codes import Codes
from bitkin.dedup.advice import advice_for
from bitkin.dedup.cleaning import TextCleaning
from bitkin.dedup.duplicates import Duplicates, find_closest_links
from bitkin.dedup.equal_sets import first_equals, set_digests
from bitkin.dedup.linking import ComparedDocuments, Pairs, link, sort_pairs
from bitkin.dedup.spool import SetSpool
from bitkin.errors import InvalidInputError
from bitkin.hashers.minhash.minhash import MAX_HASHES, MinHash
from bitkin.index.bands.bands import Rows, choose_bands, similarity_threshold
from bitkin.notices import warn_caller
from bitkin.randomness import Draws, resolve_seed
from bitkin.sets.shingles import cut_texts, keyed_shingles, shingle_parameters

_KEY_BITS = 24  # a band key shorter than this would meet by chance too often
_BATCH_CHARS = 1 << 22
_BATCH_TEXTS = 1 << 14


def find_duplicates(
    texts: Iterable[str],
    threshold: float = 0.8,
    *,
    shingle: str = "words",
    size: int | None = None,
    n_hashes: int = 128,
    lower: bool = False,
    strip_punctuation: bool = False,
    normalize: bool = False,
    pairs: str = "links",
    random_state: int | None = 0,
) -> Duplicates:
    """Find clusters of texts whose shingle sets have a Jaccard similarity of at least `threshold`.

    See `DuplicateFinder` for the parameters. Texts may come from a generator, such as the documents
    of `open_documents`: they are not kept. Where most texts are too short for the shingles, a
    warning says what to try.

    Examples
    --------
    >>> import bitkin
    >>> texts = ["the quick brown fox jumps over the lazy dog", "something else", "",
    ...          "the quick brown fox jumps over the lazy dog again"]
    >>> found = bitkin.dedup.find_duplicates(texts, threshold=0.8)
    >>> found
    Duplicates(4 documents, 3 kept, 1 cluster)
    >>> found.kept.tolist(), found.dropped.tolist(), found.jaccard.tolist()
    ([0, 1, 2], [3], [0.875])
    """
    options: dict[str, Any] = {
        "shingle": shingle,
        "size": size,
        "n_hashes": n_hashes,
        "lower": lower,
        "strip_punctuation": strip_punctuation,
        "normalize": normalize,
        "random_state": random_state,
    }
    one_of(pairs, "pairs", ("links", "all"))
    with DuplicateFinder(threshold, **options) as finder:
        for batch in text_batches(texts):
            finder.add(batch)
        found = finder.find(pairs=pairs)
    if found.advice is not None and 2 * found.n_one_shingle > len(found) - found.n_empty:
        warn_caller(found.advice)
    return found


class DuplicateFinder(Closes):
    """Takes texts batch by batch, then finds the near-duplicates among all of them.

    Parameters
    ----------
    threshold : float, default 0.8
        Jaccard similarity of shingle sets from which two texts are near-duplicates.
    shingle : {"words", "chars"}, default "words"
        What a text is cut into: runs of `size` words or of `size` characters.
    size : int, optional
        3 for words, 9 for characters.
    n_hashes : int, default 128
        Symbols of a MinHash code. More miss less and take longer.
    lower, strip_punctuation, normalize : bool, default False
        Compare texts without case; without punctuation; in Unicode's form NFKC and with single
        spaces. See `TextCleaning`.
    random_state : int or None, default 0

    Attributes
    ----------
    plan : BandPlan
        Bands and rows, chosen from the threshold.

    Examples
    --------
    >>> with DuplicateFinder(threshold=0.5) as finder:
    ...     finder.add(["a b c d", "e f g h"])
    ...     finder.add(["a b c d", "a b c d e"])
    ...     finder.find().clusters
    [array([0, 2, 3])]
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
        self._codes: list[Codes] = []
        self._digests: list[npt.NDArray[np.uint64]] = []
        self._spool = SetSpool()
        self._ended: str | None = None  # why this takes no more texts and gives no answer

    def add(self, texts: Iterable[str]) -> None:
        """Take more texts; their numbers continue from those before."""
        self._require_open("add()")
        texts = self.cleaning.clean_all(texts)
        shingles, keyed = keyed_shingles(texts, self._key, kind=self.shingle, size=self.size)
        if not len(shingles):
            return
        keyed = keyed.unique()
        codes, digests = self._hasher.encode(shingles), set_digests(keyed)
        self._ended = "an earlier add() failed, and texts are missing"
        self._spool.append(keyed)
        self._codes.append(codes)
        self._digests.append(digests)
        self._ended = None

    def find(
        self, *, pairs: str = "links", progress: Callable[[int], None] | None = None
    ) -> Duplicates:
        """Return the near-duplicates among all texts added, once; `progress` is called with
        how many of `plan.bands` are done.

        `pairs="links"` gives the pairs that joined clusters, `"all"` every pair found: of m texts
        that are all alike about m² / 2 pairs, where the links are m − 1. Texts with equal shingles
        are paired with the first of them only, which stands for them in other pairs. All else is
        the same: clusters and reasons come from the links, and all pairs, if asked for, are
        gathered by a second pass, for which `progress` starts again.
        """
        every_pair = one_of(pairs, "pairs", ("links", "all")) == "all"
        self._require_open("find()")
        self._ended = "find() gives its answer once"
        sets = self._spool.sets()
        first_equal = first_equals(sets, np.concatenate([np.empty(0, np.uint64), *self._digests]))
        self._digests = []
        # Only the first of equal sets is compared; its copies join its cluster at J = 1.
        original = first_equal == np.arange(len(sets))
        copies = np.flatnonzero(~original)
        equal = Pairs(first_equal[copies], copies, np.ones(len(copies)))
        rows = np.flatnonzero(original & (sets.sizes() > 0))
        documents = ComparedDocuments(rows, self._codes_of(rows), sets)
        linking = partial(link, documents, self.plan, self.threshold, progress=progress)
        linked = linking(every_pair=False)
        # A document leads to the first with its set, that one to the root of its cluster.
        cluster_of = np.arange(len(sets))
        cluster_of[rows] = rows[linked.roots]
        cluster_of = cluster_of[first_equal]
        dropped = np.flatnonzero(cluster_of != np.arange(len(sets)))
        found = sort_pairs([equal, *linked.parts])
        like, like_jaccard = find_closest_links(len(sets), found, dropped)
        if every_pair:
            linked = linking(every_pair=True)
            linked.parts.append(equal)
            found = sort_pairs(linked.parts)
        return Duplicates(
            cluster_of=cluster_of,
            jaccard=sets.jaccard_of_pairs(cluster_of[dropped], dropped),
            like=like,
            like_jaccard=like_jaccard,
            pairs=found,
            n_empty=int(np.count_nonzero(sets.sizes() == 0)),
            n_equal=len(copies),
            n_compared=linked.n_compared,
            threshold=self.threshold,
            plan=self.plan,
            n_one_shingle=int(np.count_nonzero(sets.sizes() == 1)),
            advice=advice_for(sets.sizes(), self.threshold, self.shingle, self.size),
        )

    def _require_open(self, what: str) -> None:
        if self._ended is not None:
            raise InvalidInputError(
                f"{what} cannot be: {self._ended}. Add the texts to a new DuplicateFinder."
            )

    def _codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, which ascend, and free all others on the way: they are never
        held twice.
        """
        parts, self._codes = self._codes[::-1], []
        spec, origin = self._hasher.spec_, self._hasher.fingerprint_
        words = np.empty((len(rows), spec.bits_per_symbol, spec.plane_words), dtype=WORD)
        first, done = 0, 0
        while parts:
            part = parts.pop()
            stop = int(np.searchsorted(rows, first + len(part)))
            words[done:stop] = part.words[rows[done:stop] - first]
            first, done = first + len(part), stop
        words.flags.writeable = False
        return Codes(words, spec, fingerprint=origin)

    def close(self) -> None:
        """Delete the temporary file."""
        self._ended = "this one is closed"
        self._codes, self._digests = [], []
        self._spool.close()


def text_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of some megabytes of text."""
    return cut_texts(texts, _BATCH_CHARS, _BATCH_TEXTS)
