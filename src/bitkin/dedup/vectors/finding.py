"""Near-duplicate vectors: candidates by sign codes, compared exactly, put in clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin.arrays import Floats
from bitkin.checks import is_number, one_of, shown, whole_number
from bitkin.dedup.duplicates import Clustered, find_closest_links
from bitkin.dedup.linking import sort_pairs
from bitkin.dedup.vectors.candidates import find_candidates
from bitkin.dedup.vectors.comparison import VectorComparison, VectorLinking
from bitkin.dedup.vectors.rows import first_equals, read_rows, require_squares
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import Rows
from bitkin.io.vectors import open_vectors
from bitkin.randomness import resolve_seed

_METRICS = ("cosine", "l2")
_COSINE_THRESHOLD = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class DuplicateVectors(Clustered):
    """Near-duplicates among n vectors, numbered from 0.

    Clusters, and what of them is kept, are as in `Duplicates`.

    Attributes
    ----------
    cluster_of : int64 (n,)
        The kept row of every row's cluster; itself where it is kept.
    kept, dropped : int64
        Both ascending.
    measure : float64 (dropped,)
        Cosine similarity, or l2 distance, of every dropped row to the one kept for it.
    like, like_measure : int64 and float64 (dropped,)
        The nearest row that it was joined by, and how near: within the threshold.
    first, second, pair_measure : int64, int64, float64 (pairs,)
        Pairs within the threshold: those that joined clusters, or with `pairs="all"` all found,
        where equal rows are represented by the first of them.
    n_zero : int
        Rows of zeros, for cosine: they are similar to nothing, and kept.
    n_equal : int
        Rows dropped because an earlier one is equal to the last bit.
    n_compared : int
        Pairs that were compared one by one: candidates, without those that a matrix product ruled
        out.
    metric, threshold, n_bits
        As they were given.
    """

    unit = "vectors"

    cluster_of: Rows
    measure: Floats
    like: Rows
    like_measure: Floats
    first: Rows
    second: Rows
    pair_measure: Floats
    n_zero: int
    n_equal: int
    n_compared: int
    metric: str
    threshold: float
    n_bits: int


def find_duplicate_vectors(
    vectors: Any,
    threshold: float | None = None,
    *,
    metric: str = "cosine",
    n_bits: int = 256,
    pairs: str = "links",
    random_state: int | None = 0,
    progress: Callable[[int], None] | None = None,
) -> DuplicateVectors:
    """Find clusters of vectors within a threshold of each other.

    No pair beyond the threshold is ever joined: candidates come from codes, and are compared
    exactly. Of pairs right at the threshold 1 in 10,000 is missed, and far fewer of closer ones.
    Time grows with the square of the rows, at the speed of codes: 32 bytes per row instead of the
    row itself.

    Parameters
    ----------
    vectors : 2-D array, data frame, path, list of paths or VectorSource
        Dense rows, held in memory as float32 where that holds them exactly, else (float64, and
        integers of 32 bits or more) as float64. Integers beyond 2**53 are refused,
        and numbers whose squares float64 does not hold.
    threshold : float, optional
        For metric="cosine" the least cosine similarity of near-duplicates, 0.95 by default, for
        "l2" the largest distance, which has no default.
    metric : {"cosine", "l2"}, default "cosine"
        Cosine leaves lengths aside: a row and its double are equal, and zeros are like nothing.
    n_bits : int, default 256
        Bits of a code. More leave fewer pairs to compare, and take longer to search.
    pairs : {"links", "all"}, default "links"
        Which pairs the result lists; clusters are the same.
    random_state : int or None, default 0
        The seed of the directions.
    progress : callable, optional
        Called with the number of rows done.

    Examples
    --------
    >>> import bitkin, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> X[7] = 3 * X[2]
    >>> X[50] = X[2] + 0.05
    >>> found = bitkin.dedup.find_duplicate_vectors(X)
    >>> found
    DuplicateVectors(100 vectors, 98 kept, 1 cluster)
    >>> found.clusters, found.measure.round(4).tolist()
    ([array([ 2,  7, 50])], [1.0, 0.9991])
    >>> bitkin.dedup.find_duplicate_vectors(X, 0.3, metric="l2").dropped
    array([50])
    """
    one_of(metric, "metric", _METRICS)
    threshold = vector_threshold(threshold, metric)
    n_bits = whole_number(n_bits, "n_bits", low=64, high=4096)
    every_pair = one_of(pairs, "pairs", ("links", "all")) == "all"
    rows = read_rows(open_vectors(vectors, name="vectors"))
    rows = require_squares(rows, "vectors", None if metric == "cosine" else threshold)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    zero = (lengths == 0) & (metric == "cosine")
    first_equal = first_equals(rows)
    first_equal[zero] = np.flatnonzero(zero)
    compared = np.flatnonzero((first_equal == np.arange(len(rows))) & ~zero)
    copies = np.flatnonzero(first_equal != np.arange(len(rows)))
    comparison = VectorComparison(rows, lengths, metric, threshold)
    linking = VectorLinking(len(rows), comparison, every_pair=every_pair)
    # scores rise with likeness: a cosine, or minus a distance
    equal_score = np.full(len(copies), 1.0 if metric == "cosine" else 0.0)
    linking.join(first_equal[copies], copies, equal_score)
    seed = resolve_seed(random_state)
    if len(compared):
        for pair in find_candidates(rows, compared, comparison, n_bits, seed, progress):
            linking.compare(*pair)
    cluster_of = linking.roots()
    dropped = np.flatnonzero(cluster_of != np.arange(len(rows)))
    links, found = sort_pairs(linking.links), sort_pairs(linking.parts)
    like, like_score = find_closest_links(len(rows), links, dropped)
    sign = 1.0 if metric == "cosine" else -1.0
    return DuplicateVectors(
        cluster_of=cluster_of,
        measure=sign * comparison.scores(cluster_of[dropped], dropped),
        like=like,
        like_measure=sign * like_score,
        first=found.first,
        second=found.second,
        pair_measure=sign * found.jaccard,
        n_zero=int(np.count_nonzero(zero)),
        n_equal=len(copies),
        n_compared=linking.n_compared,
        metric=metric,
        threshold=threshold,
        n_bits=n_bits,
    )


def vector_threshold(threshold: Any, metric: str) -> float:
    """Return the checked threshold of a metric, by default that of cosine."""
    if threshold is None and metric == "cosine":
        return _COSINE_THRESHOLD
    if threshold is None:
        raise InvalidInputError(
            'threshold must be given for metric="l2": the largest distance of near-duplicates.'
        )
    high = 1.0 if metric == "cosine" else np.inf
    if not is_number(threshold) or not 0 < threshold <= high or not np.isfinite(threshold):
        bound = "above 0 and up to 1" if metric == "cosine" else "above 0 and finite"
        raise InvalidInputError(
            f"threshold must be {bound} for metric={metric!r}, got {shown(threshold)}."
        )
    return float(threshold)
