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

from bitkin.checks import one_of
from bitkin.closing import Closes
from bitkin.code_spec import WORD
from bitkin.codes import Codes
from bitkin.dedup.clusters import Clusters
from bitkin.dedup.duplicates import Duplicates
from bitkin.dedup.equal_sets import first_equals
from bitkin.dedup.hashing import TextHashing
from bitkin.dedup.linking import ComparedDocuments, link
from bitkin.dedup.spool import SetSpool
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import Rows
from bitkin.notices import warn_caller
from bitkin.sets.shingles import cut_texts

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
    warn_of_short_texts(found)
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
        self._hashing = TextHashing(
            threshold,
            shingle=shingle,
            size=size,
            n_hashes=n_hashes,
            lower=lower,
            strip_punctuation=strip_punctuation,
            normalize=normalize,
            random_state=random_state,
        )
        self.threshold, self.plan = self._hashing.threshold, self._hashing.plan
        self.shingle, self.size = self._hashing.shingle, self._hashing.size
        self.cleaning, self.n_hashes = self._hashing.cleaning, self._hashing.n_hashes
        self._codes: list[Codes] = []
        self._digests: list[npt.NDArray[np.uint64]] = []
        self._spool = SetSpool()
        self._ended: str | None = None  # why this takes no more texts and gives no answer

    def add(self, texts: Iterable[str]) -> None:
        """Take more texts; their numbers continue from those before."""
        self._require_open("add()")
        hashed = self._hashing.hash(texts)
        if not len(hashed.sets):
            return
        self._ended = "an earlier add() failed, and texts are missing"
        self._spool.append(hashed.sets)
        self._codes.append(hashed.codes)
        self._digests.append(hashed.digests)
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
        rows = np.flatnonzero((first_equal == np.arange(len(sets))) & (sets.sizes() > 0))
        documents = ComparedDocuments(rows, self._codes_of(rows), sets)
        linking = partial(link, documents, self.plan, self.threshold, progress=progress)
        linked = linking(every_pair=False)
        roots = np.arange(len(sets))
        roots[rows] = rows[linked.roots]
        clusters = Clusters.from_links(first_equal, roots, linked.parts)
        if every_pair:
            linked = linking(every_pair=True)
        return clusters.duplicates(
            self._hashing,
            sets.sizes(),
            sets.jaccard_of_pairs(clusters.cluster_of[clusters.dropped], clusters.dropped),
            every_pair=linked.parts if every_pair else None,
            n_compared=linked.n_compared,
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
        spec, origin = self._hashing.spec, self._hashing.fingerprint
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


def warn_of_short_texts(found: Duplicates) -> None:
    """Warn where most texts are too short for their shingles."""
    if found.advice is not None and 2 * found.n_one_shingle > len(found) - found.n_empty:
        warn_caller(found.advice)


def text_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of some megabytes of text."""
    return cut_texts(texts, _BATCH_CHARS, _BATCH_TEXTS)
