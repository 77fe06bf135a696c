"""What tunings of indexes have in common: rows and queries, the interval of a recall, times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.errors import InvalidInputError
from bitkin.randomness import Draws

FEWEST_CODES = 200
_MOST_QUERIES = 1000
_FEWEST_QUERIES = 20
_NORMAL_95 = 1.96


class Expectations(Protocol):
    """What a tuning expects of its settings."""

    @property
    def recall(self) -> float:
        """Share of the true k nearest that are found."""

    @property
    def interval(self) -> tuple[float, float]:
        """Where the recall of more queries is."""

    @property
    def candidates(self) -> float:
        """Rows looked at, as a share of all."""

    @property
    def microseconds(self) -> float:
        """Time per query."""

    @property
    def scan_microseconds(self) -> float:
        """The same for a scan."""

    @property
    def k(self) -> int:
        """Neighbours asked for."""

    @property
    def n_rows(self) -> int:
        """Rows that were searched in."""


def expectations(tuning: Expectations) -> str:
    """Write in a line what a tuning expects, as its repr shows it."""
    low, high = tuning.interval
    return (
        f"recall@{tuning.k} {tuning.recall:.3f} ({low:.3f} to {high:.3f}), "
        f"{100 * tuning.candidates:.3g} % of {tuning.n_rows:,} rows, "
        f"{tuning.microseconds:.3g} µs per query (a scan: {tuning.scan_microseconds:.3g})"
    )


def rows_and_queries(
    codes: Codes, queries: Codes | None, most: int, seed: int, what: str
) -> tuple[Codes, Codes]:
    """Return up to `most` rows and queries, none of them empty and no row among the queries.

    `what` is tuned: "bands" or "cells".
    """
    usable = np.flatnonzero(~codes.empty_rows())
    if len(usable) < FEWEST_CODES:
        raise InvalidInputError(
            f"codes must have at least {FEWEST_CODES} rows that are not empty, got {len(usable)}. "
            f"So few need no {what}."
        )
    drawn = usable[Draws(seed, f"tuning of {what}").permutation(len(usable))]
    if queries is None:
        n_queries = min(_MOST_QUERIES, len(usable) // 4)
        return codes[np.sort(drawn[n_queries:][:most])], codes[drawn[:n_queries]]
    require_comparable(codes.spec, codes.fingerprint, require_codes(queries, "queries"), "queries")
    asked = np.flatnonzero(~queries.empty_rows())
    if len(asked) < _FEWEST_QUERIES:
        raise InvalidInputError(
            f"queries must be at least {_FEWEST_QUERIES} that are not empty, got {len(asked)}."
        )
    order = Draws(seed, f"queries for tuning of {what}").permutation(len(asked))[:_MOST_QUERIES]
    return codes[np.sort(drawn[:most])], queries[asked[order]]


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share of `n` that are each found or not."""
    z2 = _NORMAL_95**2
    # (p + z²/2n) / (1 + z²/n) ± z/(1 + z²/n) · √(p(1 − p)/n + z²/4n²)
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = _NORMAL_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def least_seconds(work: Callable[[], object]) -> float:
    """Return the least of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
