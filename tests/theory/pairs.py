"""Pairs of vectors, and what looking at every window of them in every order gives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

A = (10, 5, 2, 6, 12, 3)
B = (4, 5, 10, 2, 3, 1)


def agreement_truth(x: Any, y: Any) -> npt.NDArray[np.int64]:
    """Count, for every feature, those below it in both."""
    x, y = np.asarray(x), np.asarray(y)
    below: npt.NDArray[np.int64] = ((x[None] < x[:, None]) & (y[None] < y[:, None])).sum(axis=1)
    return below


def windows_truth(x: Any, y: Any, window: int) -> tuple[float, float]:
    """Look at every window in every order; return the collision probability of WTA, and the good
    kernel.
    """
    same = same_and_filled = not_both_empty = 0
    for picked in itertools.permutations(range(len(x)), window):
        a, b = [x[i] for i in picked], [y[i] for i in picked]
        equal = a.index(max(a)) == b.index(max(b))
        same += equal
        same_and_filled += equal and any(a) and any(b)
        not_both_empty += any(a) or any(b)
    return same / math.perm(len(x), window), same_and_filled / max(not_both_empty, 1)


def small_pairs(
    values: st.SearchStrategy[int], most: int = 6
) -> st.SearchStrategy[tuple[list[int], list[int], int]]:
    """Two vectors of one length up to `most`, and a window."""

    def of_length(n: int) -> st.SearchStrategy[tuple[list[int], list[int], int]]:
        vector = st.lists(values, min_size=n, max_size=n)
        return st.tuples(vector, vector, st.integers(1, n))

    return st.integers(1, most).flatmap(of_length)


with_ties_and_zeros = small_pairs(st.sampled_from([-2, -1, 0, 0, 0, 1, 2]))
without_ties = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.permutations(range(-2, n - 2)), st.permutations(range(-2, n - 2)), st.integers(1, n)
    )
)
