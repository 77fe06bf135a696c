"""How good a ranking by distance is, against the truth. Rows at one distance have no order of their
own: every figure is the expectation over all orders in which they may come.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import threads
from bitkin.arrays import Floats, Ids
from bitkin.checks import id_array, is_number, shown
from bitkin.errors import InvalidInputError
from bitkin.evaluate.per_query import PerQuery, mean_of_queries
from bitkin.evaluate.ranking import NOTHING_TRUE, check_ranking, pieces_of, rank_groups
from bitkin.evaluate.tables import DISTANCES, read_relevance, read_table
from bitkin.kernels.search.precision import average_precision_into

_PAIRS_PER_PIECE = 2**20  # ranked by one thread at a time


class PrecisionRecall(NamedTuple):
    """Precision and recall of the first rows of a ranking, means over the queries."""

    ranks: Ids
    """int64 (m,): how many rows are looked at, ascending."""
    precision: Floats
    """float64 (m,): the share of those rows that are relevant."""
    recall: Floats
    """float64 (m,): the share of the relevant rows that are among them."""


class PrecisionRecallPerQuery(NamedTuple):
    """Precision and recall of the first rows of the ranking of every query."""

    ranks: Ids
    """int64 (m,): how many rows are looked at, ascending."""
    precision: Floats
    """float64 (q, m): the share of those rows that are relevant; NaN for a query left out."""
    recall: Floats
    """float64 (q, m): the share of the relevant rows that are among them; NaN likewise."""
    n_left_out: int
    """How many queries have nothing relevant."""


@overload
def mean_average_precision(
    distances: Any, relevant: Any, *, details: Literal[False] = False
) -> float: ...
@overload
def mean_average_precision(
    distances: Any, relevant: Any, *, details: Literal[True]
) -> PerQuery: ...
@overload
def mean_average_precision(distances: Any, relevant: Any, *, details: bool) -> float | PerQuery: ...
def mean_average_precision(
    distances: Any, relevant: Any, *, details: bool = False
) -> float | PerQuery:
    """Return the mean, over the queries, of the average precision of the ranking by distance.

    Parameters
    ----------
    distances : whole numbers or floats, (q, n), or a file of them
        Smaller ranks first. Rows at one distance may come in any order: the result is the mean over
        all of them.
    relevant : booleans, (q, n), an array or a SciPy sparse matrix, or a file of them
        What should rank first, such as `radius_truth` or `same_label` return. A query with nothing
        relevant is left out.
    details : bool, default False
        Return the average precision of every query instead, see `PerQuery`: for intervals, and to
        know how many were left out.

    Examples
    --------
    >>> from bitkin.evaluate import mean_average_precision
    >>> mean_average_precision([[0, 1, 2]], [[True, False, True]])
    0.8333333333333333
    >>> mean_average_precision([[7, 7]], [[True, False]])
    0.75
    """
    table, truth = check_ranking(distances, relevant)
    results = threads.run(
        lambda piece: _average_precisions(table[piece], truth[piece]),
        pieces_of(table, _PAIRS_PER_PIECE),
    )
    result = mean_of_queries(
        np.concatenate([np.empty(0), *results]),
        "relevant " + NOTHING_TRUE.format(what="row", n=len(table)),
    )
    return result if details else result.mean


@overload
def precision_recall(
    distances: Any, relevant: Any, *, ranks: Any = None, details: Literal[False] = False
) -> PrecisionRecall: ...
@overload
def precision_recall(
    distances: Any, relevant: Any, *, ranks: Any = None, details: Literal[True]
) -> PrecisionRecallPerQuery: ...
@overload
def precision_recall(
    distances: Any, relevant: Any, *, ranks: Any = None, details: bool
) -> PrecisionRecall | PrecisionRecallPerQuery: ...
def precision_recall(
    distances: Any, relevant: Any, *, ranks: Any = None, details: bool = False
) -> PrecisionRecall | PrecisionRecallPerQuery:
    """Return precision and recall of the first 1, 2, … rows of the ranking by distance, means over
    the queries.

    Parameters
    ----------
    distances : whole numbers or floats, (q, n), or a file of them
        Smaller ranks first. Rows at one distance may come in any order: the result is the mean over
        all of them.
    relevant : booleans, (q, n), an array or a SciPy sparse matrix, or a file of them
        What should rank first. A query with nothing relevant is left out.
    ranks : whole numbers from 1 to n, ascending, optional
        At which ranks, such as `[10, 100]`; at all by default.
    details : bool, default False
        Return the curves of every query instead of their means, and how many queries were left
        out.

    Examples
    --------
    >>> from bitkin.evaluate import precision_recall
    >>> curve = precision_recall([[0, 1, 2]], [[True, False, True]])
    >>> curve.precision.round(2).tolist(), curve.recall.tolist()
    ([1.0, 0.5, 0.67], [0.5, 0.5, 1.0])
    >>> precision_recall([[7, 7]], [[True, False]], ranks=[1]).precision.tolist()
    [0.5]
    """
    table, truth = check_ranking(distances, relevant)
    at = _check_ranks(ranks, table.shape[1])
    results = threads.run(
        lambda piece: _expected_hits(table[piece], truth[piece], at, summed=not details),
        pieces_of(table, _PAIRS_PER_PIECE),
    )
    n_relevant = np.concatenate([np.empty(0), *(counts for counts, _, _ in results)])
    asked = int((n_relevant > 0).sum())
    if asked == 0:
        raise InvalidInputError("relevant " + NOTHING_TRUE.format(what="row", n=len(table)))
    hits = np.concatenate([found for _, found, _ in results])
    shares = np.concatenate([found for _, _, found in results])
    if details:
        return PrecisionRecallPerQuery(at, hits / at, shares, len(table) - asked)
    return PrecisionRecall(at, hits.sum(axis=0) / at / asked, shares.sum(axis=0) / asked)


def error_at_recall(distances: Any, relevant: Any, *, recall: float = 0.95) -> float:
    """Return the share of irrelevant pairs that are accepted together with a given share of the
    relevant ones: the false match rate of one threshold for all pairs.

    Parameters
    ----------
    distances : whole numbers or floats, (n,) or (q, n), or a file of them
        Of pairs; all queries are taken together. Where only some of the pairs at one distance are
        needed, they are taken in any order: the result is the mean over all of them.
    relevant : booleans of the same shape, an array or a SciPy sparse matrix, or a file of them
        Which pairs match. One threshold holds for all queries, so that a query without a match is
        not left out: what it should not have accepted counts.
    recall : float, above 0 and up to 1, default 0.95
        The share of relevant pairs that must be accepted; of n of them, the next whole number.

    Examples
    --------
    >>> from bitkin.evaluate import error_at_recall
    >>> error_at_recall([1, 2, 3, 4, 5, 6], [True, False, True, True, False, False], recall=0.6)
    0.3333333333333333
    >>> error_at_recall([4, 4, 4], [True, False, False])
    0.5
    """
    if not is_number(recall) or not 0 < recall <= 1:
        raise InvalidInputError(
            f"recall must be a number above 0 and up to 1, got {shown(recall)}."
        )
    distances, relevant = read_table(distances, DISTANCES), read_relevance(relevant)
    if not scipy.sparse.issparse(relevant):
        # pairs in a row are one query
        distances, relevant = (
            [values] if np.ndim(values) == 1 else values for values in (distances, relevant)
        )
    table, truth = check_ranking(distances, relevant)
    flags = truth.toarray() if scipy.sparse.issparse(truth) else truth
    values, groups = np.unique(table.reshape(-1), return_inverse=True)
    counts = np.bincount(groups, minlength=len(values))
    hits = np.bincount(groups[flags.reshape(-1)], minlength=len(values))
    n_relevant = int(hits.sum())
    n_other = table.size - n_relevant
    if n_relevant == 0 or n_other == 0:
        raise InvalidInputError(
            "relevant must have pairs of both kinds, got "
            f"{n_relevant} that match and {n_other} that do not."
        )
    needed = least_count(float(recall), n_relevant)
    # the group of equal distances that holds the last pair needed
    group = int(np.searchsorted(np.cumsum(hits), needed))
    still = needed - int(hits[:group].sum())
    others = counts - hits
    # In a random order of r relevant and o others, still · o / (r + 1) others come before the
    # relevant pair number `still`.
    accepted = others[:group].sum() + still * others[group] / (hits[group] + 1)
    return float(accepted / n_other)


def least_count(share: float, n: int) -> int:
    """Return the smallest whole number that is at least this share of n, but for rounding: 0.95 of
    20 is 19.
    """
    return max(1, math.ceil(share * n * (1 - 1e-12)))


def _check_ranks(ranks: Any, n: int) -> Ids:
    if ranks is None:
        return np.arange(1, n + 1)
    at = id_array(ranks, "ranks")
    if len(at) == 0 or at[0] < 1 or at[-1] > n or not (at[1:] > at[:-1]).all():
        raise InvalidInputError(
            f"ranks must be whole numbers from 1 to {n}, the rows of a query, ascending, got "
            f"{at.tolist()[:5]}."
        )
    return at


def _expected_hits(
    distances: npt.NDArray[Any], relevant: Any, ranks: Ids, *, summed: bool
) -> tuple[Floats, Floats, Floats]:
    """Return how many rows are relevant for every query; and for every query the expected number of
    relevant rows up to every rank, and their share of all, NaN where nothing is relevant.

    `summed`: one row instead, the sum over the queries that have any.
    """
    groups = rank_groups(distances)
    truth = scipy.sparse.csr_matrix(relevant)
    n_relevant = np.diff(truth.indptr).astype(np.float64)
    shape = (1 if summed else len(distances), len(ranks))
    hits, shares = (np.full(shape, 0.0 if summed else np.nan) for _ in range(2))
    for query in np.flatnonzero(n_relevant):
        own = groups[query]
        columns = truth.indices[truth.indptr[query] : truth.indptr[query + 1]]
        counts = np.bincount(own)
        found = np.bincount(own[columns], minlength=len(counts))[counts > 0]
        # Of a group of n rows with r relevant ones, i rows have i · r / n on average: a straight
        # line from one group's end to the next.
        ends = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        expected = np.interp(ranks, ends, np.concatenate([[0], np.cumsum(found)]))
        if summed:
            hits[0] += expected
            shares[0] += expected / n_relevant[query]
        else:
            hits[query] = expected
            shares[query] = expected / n_relevant[query]
    return n_relevant, hits, shares


def _average_precisions(distances: npt.NDArray[Any], relevant: Any) -> npt.NDArray[np.float64]:
    """Return the expected average precision of every row, NaN where nothing is relevant."""
    out = np.empty(len(distances), dtype=np.float64)
    groups = rank_groups(distances)
    truth = scipy.sparse.csr_matrix(relevant)
    # work arrays of the kernel, one count per group of equal distances
    n_groups = int(groups.max(initial=-1)) + 1
    counts, hits = np.empty(n_groups, dtype=np.int64), np.empty(n_groups, dtype=np.int64)
    offsets, columns = (
        truth.indptr.astype(np.int64, copy=False),
        truth.indices.astype(np.int64, copy=False),
    )
    average_precision_into(groups, offsets, columns, counts, hits, out)
    return out
