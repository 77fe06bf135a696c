"""Clusters: what links and equal sets make of documents, wherever they were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from bitkin.dedup.advice import advice_for
from bitkin.dedup.duplicates import Duplicates, find_closest_links
from bitkin.dedup.hashing import TextHashing
from bitkin.dedup.linking import Pairs, sort_pairs
from bitkin.index.bands.bands import Rows


@dataclass(frozen=True, eq=False, slots=True)
class Clusters:
    """Documents in clusters, and what joined them.

    Attributes
    ----------
    cluster_of : int64 (n,)
        The first document of every document's cluster.
    dropped : int64
        Documents that are not the first, ascending.
    equal : Pairs
        The first of equal sets with each of its copies.
    links : Pairs
        All pairs that joined, those of equal sets included.
    """

    cluster_of: Rows
    dropped: Rows
    equal: Pairs
    links: Pairs

    @classmethod
    def from_links(cls, first_equal: Rows, roots: Rows, parts: list[Pairs]) -> Self:
        """Make clusters of links among the first of equal sets.

        `first_equal`: per document the first with an equal set; `roots`: per document that is the
        first, the root of its cluster; `parts`: the links, emptied on the way.
        """
        numbers = np.arange(len(first_equal))
        copies = np.flatnonzero(first_equal != numbers)
        equal = Pairs(first_equal[copies], copies, np.ones(len(copies)))
        # A document leads to the first with its set, that one to the root of its cluster.
        cluster_of = roots[first_equal]
        parts.append(equal)
        return cls(cluster_of, np.flatnonzero(cluster_of != numbers), equal, sort_pairs(parts))

    def duplicates(
        self,
        hashing: TextHashing,
        sizes: Rows,
        jaccard: npt.NDArray[np.float64],
        *,
        every_pair: list[Pairs] | None,
        n_compared: int,
    ) -> Duplicates:
        """Return what was found about documents of `sizes` shingles, whose dropped ones are similar
        to the one kept by `jaccard`; with every pair of different sets, emptied on the way, where
        all were asked for.
        """
        like, like_jaccard = find_closest_links(len(self.cluster_of), self.links, self.dropped)
        pairs = self.links
        if every_pair is not None:
            every_pair.append(self.equal)
            pairs = sort_pairs(every_pair)
        return Duplicates(
            cluster_of=self.cluster_of,
            jaccard=jaccard,
            like=like,
            like_jaccard=like_jaccard,
            pairs=pairs,
            n_empty=int(np.count_nonzero(sizes == 0)),
            n_equal=len(self.equal.first),
            n_compared=n_compared,
            threshold=hashing.threshold,
            plan=hashing.plan,
            n_one_shingle=int(np.count_nonzero(sizes == 1)),
            advice=advice_for(sizes, hashing.threshold, hashing.shingle, hashing.size),
        )
