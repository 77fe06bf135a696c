"""Duplicates: which documents to keep, and what was found about the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bitkin.dedup.linking import Pairs
from bitkin.index.bands.bands import BandPlan, Rows


class Clustered:
    """Documents or vectors in clusters, the first of each kept; `cluster_of` says which."""

    unit: ClassVar[str]
    """What they are."""
    cluster_of: Rows
    n_equal: int
    n_compared: int

    def __repr__(self) -> str:
        clusters = "1 cluster" if len(self.clusters) == 1 else f"{len(self.clusters):,} clusters"
        what = f"{len(self):,} {self.unit}, {len(self.kept):,} kept"
        return f"{type(self).__name__}({what}, {clusters})"

    def __len__(self) -> int:
        return len(self.cluster_of)

    @cached_property
    def kept(self) -> Rows:
        """What to keep."""
        return np.flatnonzero(self.cluster_of == np.arange(len(self)))

    @cached_property
    def dropped(self) -> Rows:
        """What an earlier one stands for."""
        return np.flatnonzero(self.cluster_of != np.arange(len(self)))

    @cached_property
    def clusters(self) -> list[Rows]:
        """Clusters of at least two, each ascending, in the order of their first members."""
        members = np.concatenate([np.unique(self.cluster_of[self.dropped]), self.dropped])
        members = members[np.lexsort((members, self.cluster_of[members]))]
        cuts = np.flatnonzero(np.diff(self.cluster_of[members])) + 1
        return np.split(members, cuts) if len(members) else []


@dataclass(frozen=True, eq=False, repr=False)
class Duplicates(Clustered):
    """Near-duplicates among n documents, numbered from 0 in the order they came.

    A cluster is what pairs at or above the threshold connect, also by way of others: two documents
    of one cluster may be less similar than the threshold. The first document of a cluster is kept,
    the others are dropped.

    Attributes
    ----------
    cluster_of : int64 (n,)
        The kept document of every document's cluster; itself where it is kept.
    kept, dropped : int64
        Both ascending.
    jaccard : float64 (dropped,)
        Exact similarity of every dropped document to the one kept for it.
    like, like_jaccard : int64 and float64 (dropped,)
        The reason: the most similar document that it was joined by, and the similarity, at or above
        the threshold; the same whatever `pairs` is.
    pairs : Pairs
        Pairs at or above the threshold: those that joined clusters, or with `pairs="all"` all that
        were found, where documents with equal shingles are represented by the first of them.
    n_empty : int
        Documents without a shingle. They are similar to nothing, and kept.
    n_equal : int
        Documents dropped because an earlier one has the same shingles.
    n_compared : int
        Pairs of candidates that were compared exactly; others were far too different by their
        codes.
    threshold : float
    plan : BandPlan
    n_one_shingle : int
        Documents with a single shingle: they are similar to documents with the same one only.
    advice : str or None
        What to try where most texts are too short for the shingles and the threshold.
    """

    unit = "documents"

    cluster_of: Rows
    jaccard: npt.NDArray[np.float64]
    like: Rows
    like_jaccard: npt.NDArray[np.float64]
    pairs: Pairs
    n_empty: int
    n_equal: int
    n_compared: int
    threshold: float
    plan: BandPlan
    n_one_shingle: int = 0
    advice: str | None = None


def find_closest_links(
    n: int, pairs: Pairs, documents: Rows
) -> tuple[Rows, npt.NDArray[np.float64]]:
    """Return for each of `documents`, which all are in some pair, the partner most similar to it,
    and how similar.
    """
    one = np.concatenate([pairs.first, pairs.second])
    other = np.concatenate([pairs.second, pairs.first])
    jaccard = np.concatenate([pairs.jaccard, pairs.jaccard])
    # Sorted by document, then most similar first: the first of a document's pairs is the answer.
    order = np.lexsort((other, -jaccard, one))
    place = np.zeros(n, dtype=np.int64)
    begins = np.flatnonzero(np.diff(one[order], prepend=-1))
    place[one[order][begins]] = order[begins]
    return other[place[documents]], jaccard[place[documents]]
