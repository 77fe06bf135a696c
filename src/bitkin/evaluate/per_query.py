"""A figure for every query, from which the mean of a metric is taken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.evaluate.intervals import interval


class PerQuery(NamedTuple):
    """What a metric returns with `details=True`: a figure for every query, and their mean.

    Examples
    --------
    >>> from bitkin.evaluate import recall
    >>> found = recall([[3, 1], [5, 6], [7, 8]], [[1, 2], [5, -1], [-1, -1]], details=True)
    >>> found.values
    array([0.5, 1. , nan])
    >>> found.mean, found.n_left_out
    (0.75, 1)
    """

    values: Floats
    """float64 (q,): NaN for a query that is left out, because nothing is relevant for it or there
    is nothing to rank."""
    mean: float
    """Over the other queries."""
    n_left_out: int
    """How many queries are left out."""

    def interval(
        self, *, confidence: float = 0.95, n_resamples: int = 2000, random_state: int | None = 0
    ) -> tuple[float, float]:
        """Return a confidence interval of the mean, see `bitkin.evaluate.interval`."""
        return interval(
            self.values,
            confidence=confidence,
            n_resamples=n_resamples,
            random_state=random_state,
        )


def mean_of_queries(values: Floats, nothing: str) -> PerQuery:
    """Return the figures of queries, NaN where one is left out, with their mean; raise an error
    that says `nothing` where none is left.
    """
    asked = ~np.isnan(values)
    if not asked.any():
        raise InvalidInputError(nothing)
    return PerQuery(values, float(values[asked].mean()), int((~asked).sum()))
