"""Linking: candidates from bands, compared exactly, join documents to clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.codes import Codes
from bitkin.dedup.estimate import Estimate
from bitkin.index.bands.bands import BandPlan, Buckets, Rows, new_pairs
from bitkin.sets.sets import Sets

_PAIRS_PER_PIECE = 1024  # enough for a thread, few enough to share out evenly


class Pairs(NamedTuple):
    """Pairs of documents, the lower one first, in ascending order."""

    first: Rows
    second: Rows
    jaccard: npt.NDArray[np.float64]

    def chosen(self, which: Rows | npt.NDArray[np.bool_] | slice) -> Pairs:
        """Return some of the pairs, by their places or a mask."""
        return Pairs(self.first[which], self.second[which], self.jaccard[which])

    @classmethod
    def concatenate(cls, parts: Sequence[Pairs]) -> Pairs:
        """Put several after one another, in the order they have."""
        none = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(part.first for part in parts)]),
            np.concatenate([none, *(part.second for part in parts)]),
            np.concatenate([np.empty(0), *(part.jaccard for part in parts)]),
        )


class ComparedDocuments(NamedTuple):
    """Documents to compare: none empty, and no two with equal sets."""

    rows: Rows
    """Their numbers, ascending."""
    codes: Codes
    """One row per document to compare."""
    sets: Sets
    """Of all documents."""


class LinkResult(NamedTuple):
    """What linking found among sets that are all different."""

    roots: Rows
    """The first row of every row's cluster."""
    parts: list[Pairs]
    """Pairs of documents at or above the threshold, in no order: those that joined two clusters, or
    all.
    """
    n_compared: int
    """Candidates that were compared exactly."""


def link(
    documents: ComparedDocuments,
    plan: BandPlan,
    threshold: float,
    *,
    every_pair: bool,
    progress: Callable[[int], None] | None = None,
) -> LinkResult:
    """Join all pairs that share a band and have a Jaccard similarity of at least `threshold`.

    `roots` of the result count the documents compared. With `every_pair` all such pairs are found;
    else those within a cluster are skipped, which leaves the clusters as they are. Candidates whose
    codes say that they are far below the threshold are not compared (`bitkin.dedup.estimate`).
    `progress` is called with the number of bands done.
    """
    linker = Linker(documents, plan, threshold, every_pair=every_pair)
    found: list[Pairs] = []
    for band in range(plan.bands):
        found += linker.link_band(band)
        if progress is not None:
            progress(band + 1)
    return LinkResult(linker.roots(), found, linker.n_compared)


class Linker:
    """Joins documents band by band.

    `parents` is a forest that some of the documents are joined in already, each by its row (see
    `bitkin.kernels.search.bands`), and is changed; none are by default.
    """

    def __init__(
        self,
        documents: ComparedDocuments,
        plan: BandPlan,
        threshold: float,
        *,
        every_pair: bool,
        parents: Rows | None = None,
    ) -> None:
        self._documents = documents
        self._plan = plan
        self._threshold = threshold
        self._every_pair = every_pair
        self._sizes = documents.sets.sizes()[documents.rows]
        # A forest of disjoint sets: `parents` leads from every document to the root of its cluster.
        self._parents = np.arange(len(documents.rows)) if parents is None else parents
        self._estimate = Estimate(threshold, plan, documents.codes.spec)
        self.n_compared = 0

    def link_band(self, band: int, buckets: Buckets | None = None) -> list[Pairs]:
        """Return the pairs of documents that this band finds, and no band before it: those that
        joined two clusters, in the order of `order_of_pairs`, or all.
        """
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.search.bands import unite_into

        rows, codes, sets = self._documents
        found: list[Pairs] = []
        # |A ∩ B| ≤ min(|A|, |B|) and |A ∪ B| ≥ max(|A|, |B|), so J ≤ min / max: pairs whose sizes
        # are farther apart than the threshold are left out unseen.
        for first, second in new_pairs(
            codes,
            self._plan,
            band,
            parents=None if self._every_pair else self._parents,
            sizes=self._sizes,
            ratio=self._threshold,
            buckets=buckets,
        ):
            worth = self._estimate.worth_comparing(codes, self._sizes, first, second)
            first, second = first[worth], second[worth]
            jaccard = jaccard_from(self._threshold, sets, rows[first], rows[second])
            self.n_compared += len(first)
            similar = jaccard > 0  # what is below the threshold comes as 0
            first, second, jaccard = first[similar], second[similar], jaccard[similar]
            joined = np.empty(len(first), dtype=np.bool_)
            unite_into(self._parents, read_only(first), read_only(second), joined)
            pairs = Pairs(rows[first], rows[second], jaccard)
            pairs = pairs if self._every_pair else pairs.chosen(joined)
            if len(pairs.first):
                found.append(pairs)
        return found

    def roots(self) -> Rows:
        """Return the first row of every row's cluster."""
        from bitkin.kernels.search.bands import roots_into

        roots = np.empty_like(self._parents)
        roots_into(self._parents, roots)
        return roots


def sort_pairs(parts: list[Pairs]) -> Pairs:
    """Put pairs from several places in order; `parts` is emptied on the way, so that pairs are
    hardly held twice.
    """
    n = sum(len(part.first) for part in parts)
    pairs = Pairs(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.float64))
    stop = n
    while parts:
        part = parts.pop()
        start = stop - len(part.first)
        for column, values in zip(pairs, part, strict=True):
            column[start:stop] = values
        stop = start
    order = np.lexsort((pairs.second, pairs.first))
    for column in pairs:
        column[:] = column[order]
    return pairs


def jaccard_from(
    threshold: float, sets: Sets, first: Rows, second: Rows
) -> npt.NDArray[np.float64]:
    """Return the exact Jaccard similarity of pairs of sets that are not empty, or 0 where it is
    below `threshold`.

    Like `Sets.jaccard_of_pairs`, but most of the members of sets that are too different are never
    read.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.hashing.set_pairs import similar_pairs_into

    members, offsets = read_only(sets.members), read_only(sets.offsets)
    out = np.empty(len(first), dtype=np.float64)

    def compare(start: int) -> None:
        which = slice(start, start + _PAIRS_PER_PIECE)
        similar_pairs_into(
            members,
            offsets,
            read_only(first[which]),
            read_only(second[which]),
            threshold,
            out[which],
        )

    threads.run(compare, range(0, len(first), _PAIRS_PER_PIECE))
    return out
