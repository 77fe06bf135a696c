"""How long the last searches took."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

_KEPT = 500  # of the last searches
_SHARES = (50, 90, 99)


class Latencies:
    """The milliseconds of the last searches, and how many there were in all.

    Examples
    --------
    >>> latencies = Latencies()
    >>> for ms in (1.0, 2.0, 9.0):
    ...     latencies.add(ms)
    >>> latencies.summary()["ms"]["p50"]
    2.0
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_KEPT)
        self._count = 0
        self._batches = self._queries = 0

    def add(self, milliseconds: float) -> None:
        """Note one search."""
        self._recent.append(milliseconds)
        self._count += 1

    def add_batch(self, n_queries: int) -> None:
        """Note that so many queries were searched in one call."""
        self._batches += 1
        self._queries += n_queries

    def summary(self) -> dict[str, Any]:
        """Return the count, percentiles and the last times, as JSON holds them."""
        recent = list(self._recent)
        values = np.percentile(recent, _SHARES).tolist() if recent else [None] * len(_SHARES)
        named = {
            f"p{share}": None if value is None else round(value, 3)
            for share, value in zip(_SHARES, values, strict=True)
        }
        mean = round(self._queries / self._batches, 2) if self._batches else None
        return {
            "count": self._count,
            "ms": named,
            "recent_ms": [round(one, 3) for one in recent],
            "batch_mean": mean,
        }
