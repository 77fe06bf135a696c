"""How well two rankings of the same rows agree: rank correlations, a figure for every query."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.evaluate.per_query import PerQuery, mean_of_queries
from bitkin.evaluate.ranking import check_distances, rank_groups

_NOTHING_RANKED = (
    "a and b must rank rows, got {n} queries in each of which one of them has no two different "
    "distances: there is nothing to compare."
)


@overload
def kendall(a: Any, b: Any, *, details: Literal[False] = False) -> float: ...
@overload
def kendall(a: Any, b: Any, *, details: Literal[True]) -> PerQuery: ...
@overload
def kendall(a: Any, b: Any, *, details: bool) -> float | PerQuery: ...
def kendall(a: Any, b: Any, *, details: bool = False) -> float | PerQuery:
    """Return the mean, over the queries, of Kendall's τ-b between two rankings of the same rows.

    Of the pairs of rows that both rank, τ is the share ranked alike less the share ranked the other
    way round; τ-b makes up for pairs that are tied in one of them. 1 is the same ranking, −1 the
    opposite, 0 none of both.

    Parameters
    ----------
    a, b : whole numbers or floats, (q, n), or files of them
        Two distances of the same n rows from every query, such as those of codes and of vectors.
    details : bool, default False
        Return the figure of every query instead, see `PerQuery`. A query for which all distances of
        `a` or of `b` are equal ranks nothing and is left out.

    Examples
    --------
    >>> from bitkin.evaluate import kendall
    >>> round(kendall([[1, 2, 3, 4]], [[0.1, 0.2, 0.4, 0.3]]), 6)
    0.666667
    """
    values = kendall_values(a, b)
    result = mean_of_queries(values, _NOTHING_RANKED.format(n=len(values)))
    return result if details else result.mean


def kendall_values(a: Any, b: Any) -> Floats:
    """Return Kendall's τ-b for every query, NaN where one of both ranks nothing."""
    return _measure_queries(a, b, _tau_b)


@overload
def spearman(a: Any, b: Any, *, details: Literal[False] = False) -> float: ...
@overload
def spearman(a: Any, b: Any, *, details: Literal[True]) -> PerQuery: ...
@overload
def spearman(a: Any, b: Any, *, details: bool) -> float | PerQuery: ...
def spearman(a: Any, b: Any, *, details: bool = False) -> float | PerQuery:
    """Return the mean, over the queries, of Spearman's ρ between two rankings of the same rows: the
    correlation of their ranks, where rows at one distance share the mean of their ranks.

    Parameters
    ----------
    a, b : whole numbers or floats, (q, n), or files of them
        Two distances of the same n rows from every query, such as those of codes and of vectors.
    details : bool, default False
        Return the figure of every query instead, see `PerQuery`. A query for which all distances of
        `a` or of `b` are equal ranks nothing and is left out.

    Examples
    --------
    >>> from bitkin.evaluate import spearman
    >>> round(spearman([[1, 2, 3, 4]], [[0.1, 0.2, 0.4, 0.3]]), 6)
    0.8
    """
    values = spearman_values(a, b)
    result = mean_of_queries(values, _NOTHING_RANKED.format(n=len(values)))
    return result if details else result.mean


def spearman_values(a: Any, b: Any) -> Floats:
    """Return Spearman's ρ for every query, NaN where one of both ranks nothing."""
    return _measure_queries(a, b, _rho)


def _measure_queries(
    a: Any, b: Any, measure: Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32]], float]
) -> Floats:
    first, second = _check_both(a, b)
    values: Floats = np.full(len(first), np.nan)
    for query, (own, other) in enumerate(zip(first, second, strict=True)):
        if _ranks_apart(own) and _ranks_apart(other):
            values[query] = measure(own, other)
    return values


def _rho(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> float:
    """Return the correlation of ranks, for numbers from 0."""
    x, y = _centred_ranks(a), _centred_ranks(b)
    rho = float((x @ y) / np.sqrt((x @ x) * (y @ y)))
    return min(1.0, max(-1.0, rho))  # rounding aside


def _tau_b(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> float:
    """Return (pairs in the same order − pairs in the opposite one) / √(pairs not tied in a · pairs
    not tied in b), for numbers from 0.
    """
    n_pairs = len(a) * (len(a) - 1) // 2
    tied_a, tied_b = _count_tied(a), _count_tied(b)
    both = a.astype(np.int64) * (int(b.max()) + 1) + b
    tied_both = _count_tied(np.unique(both, return_inverse=True)[1])
    # Sorted by a, and by b among equals: what still stands in the wrong order is opposite.
    opposite = _count_inversions(b[np.argsort(both, kind="stable")])
    same = n_pairs - tied_a - tied_b + tied_both - opposite
    tau = (same - opposite) / math.sqrt((n_pairs - tied_a) * (n_pairs - tied_b))
    return min(1.0, max(-1.0, tau))  # rounding aside


def _count_tied(groups: npt.NDArray[Any]) -> int:
    """Return how many pairs of rows are in one group."""
    counts = np.bincount(groups)
    return int((counts * (counts - 1) // 2).sum())


def _count_inversions(values: npt.NDArray[np.int32]) -> int:
    """Return how many pairs stand with the larger number first; numbers count from 0.

    Two numbers differ first at one of their bits, from the top: at each bit, among those that agree
    in all bits above it, every 1 before a 0 is such a pair.
    """
    inversions = 0
    for bit in reversed(range(int(values.max()).bit_length())):
        ones = (values >> bit) & 1
        above = values >> (bit + 1)  # ascending: sorted below, at the bit before
        starts = np.flatnonzero(np.diff(above, prepend=-1))
        ones_so_far = np.cumsum(ones, dtype=np.int64)
        ones_before = (ones_so_far - ones)[starts]
        lengths = np.diff(starts, append=len(values))
        inversions += int(((ones_so_far - np.repeat(ones_before, lengths)) * (1 - ones)).sum())
        values = values[np.argsort(values >> bit, kind="stable")]
    return inversions


def _check_both(a: Any, b: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return both rankings with distances as small whole numbers in the same order."""
    first, second = check_distances(a, "a"), check_distances(b, "b")
    if first.shape != second.shape:
        raise InvalidInputError(
            f"a and b must have one shape, a row per query, got {first.shape} and {second.shape}."
        )
    return rank_groups(first), rank_groups(second)


def _ranks_apart(groups: npt.NDArray[np.int32]) -> bool:
    return bool(groups.size) and bool(groups.min() < groups.max())


def _centred_ranks(groups: npt.NDArray[np.int32]) -> Floats:
    """Return the rank of every row less the mean of all ranks, ties sharing theirs."""
    counts = np.bincount(groups)
    # the middle of a group's ranks, counted from 0, is (first + last) / 2 = end − (count + 1) / 2
    middle = np.cumsum(counts) - (counts + 1) / 2
    ranks: Floats = (middle - (len(groups) - 1) / 2)[groups]
    return ranks
