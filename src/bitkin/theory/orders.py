"""Orders of features: in how many ways two vectors agree on which of two features is the larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.theory._arguments import Integers, check_vector_pair


def pairwise_order(x: npt.ArrayLike, y: npt.ArrayLike) -> int:
    """Count the pairs of features that `x` and `y` put in the same order (WTA, Eq. 1); a tie in
    either is no order.

    Examples
    --------
    >>> pairwise_order([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1])
    6
    """
    return int(rank_agreement(x, y).sum())


def rank_agreement(x: npt.ArrayLike, y: npt.ArrayLike) -> Integers:
    """Return for every feature i how many features are below it in both vectors: int64 Rᵢ (WTA, Eq.
    2 to 4).

    Examples
    --------
    >>> rank_agreement([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1])
    array([2, 1, 0, 1, 2, 0])
    """
    x, y = check_vector_pair(x, y)
    return below_in_both(ranks_of(x), ranks_of(y))


def below_in_both(x_ranks: Integers, y_ranks: Integers) -> Integers:
    """Count for every i the j with x_j < x_i and y_j < y_i, in O(n log n).

    In the order of x only those before i can count, and of equals in x the larger y comes first, so
    that none before i is below it in y. Equal y are ordered the same way. What is left is to
    count, in a permutation, the smaller values before each: values are split by their bits from the
    highest on, and at the bit where two values part the one without it is smaller.
    """
    n = len(x_ranks)
    order = np.lexsort((-y_ranks, x_ranks))
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((-np.arange(n), y_ranks[order]))] = np.arange(n)
    smaller = np.zeros(n, dtype=np.int64)  # by value
    # sorted by the bits seen so far, and where those are equal in order of appearance
    values = rank
    for bit in range(n.bit_length() - 1, -1, -1):
        high = (values >> bit & 1).astype(bool)
        # of the group, in value and in place alike: no value is missing
        start = (values >> (bit + 1)) << (bit + 1)
        lows_before = np.cumsum(~high) - ~high
        lows = lows_before - lows_before[start]  # of the same group
        smaller[values[high]] += lows[high]
        highs = np.arange(n) - start - lows
        regrouped = np.empty_like(values)
        regrouped[start + np.where(high, (1 << bit) + highs, lows)] = values
        values = regrouped
    out = np.empty(n, dtype=np.int64)
    out[order] = smaller[rank]
    return out


def count_above(ranks: Integers) -> Integers:
    """Count for every one how many are above it."""
    return len(ranks) - np.searchsorted(np.sort(ranks), ranks, side="right")


def ranks_of(vector: npt.NDArray[Any]) -> Integers:
    """Return the number of different smaller values: the order of `vector`, free of its type and
    its rounding.
    """
    return np.unique(vector, return_inverse=True)[1].astype(np.int64, copy=False)
