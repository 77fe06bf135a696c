"""Normalized discounted cumulative gain: how much of what is relevant comes early, where some rows
are more relevant than others.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.evaluate.per_query import PerQuery, mean_of_queries
from bitkin.evaluate.ranking import NOTHING_TRUE, check_graded_ranking, pieces_of, rank_groups

_PAIRS_PER_PIECE = 2**20  # ranked by one thread at a time


@overload
def ndcg(
    distances: Any, relevance: Any, k: int | None = None, *, details: Literal[False] = False
) -> float: ...
@overload
def ndcg(
    distances: Any, relevance: Any, k: int | None = None, *, details: Literal[True]
) -> PerQuery: ...
@overload
def ndcg(
    distances: Any, relevance: Any, k: int | None = None, *, details: bool
) -> float | PerQuery: ...
def ndcg(
    distances: Any, relevance: Any, k: int | None = None, *, details: bool = False
) -> float | PerQuery:
    """Return the mean, over the queries, of the normalized discounted cumulative gain (NDCG) of the
    ranking by distance.

    The gain is the sum of relevance / log₂(rank + 1), divided by what the best order would have: 1
    where the most relevant rows come first.

    Parameters
    ----------
    distances : whole numbers or floats, (q, n), or a file of them
        Smaller ranks first. Rows at one distance may come in any order: the result is the mean over
        all of them.
    relevance : numbers from 0, or booleans, (q, n), an array or a SciPy sparse matrix, or a file
        How relevant each row is, such as the number of labels it shares with the query. What counts
        exponentially is given as `2.0**grade - 1`. A query with nothing above 0 is left out.
    k : int, optional
        Look at the first k ranks only; at all by default.
    details : bool, default False
        Return the figure of every query instead, see `PerQuery`: for intervals, and to know how
        many were left out.

    Examples
    --------
    >>> from bitkin.evaluate import ndcg
    >>> round(ndcg([[1, 2, 3]], [[1, 0, 3]]), 4)
    0.6885
    >>> ndcg([[7, 7]], [[True, False]], k=1)
    0.5
    """
    table, grades = check_graded_ranking(distances, relevance)
    n = table.shape[1]
    at = n if k is None else min(n, whole_number(k, "k", low=1))
    # the sum of discounts of the ranks before r, at place r
    sums = np.zeros(n + 1)
    np.cumsum(1.0 / np.log2(np.arange(2, at + 2)), out=sums[1 : at + 1])
    sums[at + 1 :] = sums[at]
    results = threads.run(
        lambda piece: _gains(table[piece], grades[piece], sums), pieces_of(table, _PAIRS_PER_PIECE)
    )
    result = mean_of_queries(
        np.concatenate([np.empty(0), *results]),
        "relevance " + NOTHING_TRUE.format(what="row above 0", n=len(table)),
    )
    return result if details else result.mean


def _gains(distances: npt.NDArray[Any], relevance: Any, sums: Floats) -> Floats:
    """Return the expected gain of every query, NaN where nothing is relevant."""
    groups = rank_groups(distances)
    truth = scipy.sparse.csr_matrix(relevance)
    out = np.full(len(distances), np.nan)
    for query, own in enumerate(groups):
        entries = slice(truth.indptr[query], truth.indptr[query + 1])
        # Scaled to 1 at most, which changes no ratio, so that no sum overflows.
        grades = truth.data[entries].astype(np.float64)
        largest = grades.max(initial=0.0)
        if largest == 0.0:
            continue
        grades /= largest
        counts = np.bincount(own)
        found = np.bincount(own[truth.indices[entries]], weights=grades, minlength=len(counts))
        found, counts = found[counts > 0], counts[counts > 0]
        # Every row of a group of ties is at each of its ranks with the same chance: its mean
        # relevance meets the sum of the discounts from one group's end to the next.
        ends = np.concatenate([[0], np.cumsum(counts)])
        gain = (found / counts) @ np.diff(sums[ends])
        best = np.sort(grades)[::-1] @ np.diff(sums[: len(grades) + 1])
        out[query] = gain / best
    return out
