"""What a search by tables may cost before the scan is cheaper, in nanoseconds of the machine it was
measured on.

Only ratios matter, and those change little from machine to machine.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bitkin import threads

# A key looked up, an entry met, a row looked at (bench/sublinear.py).
COSTS = np.array([80.0, 3.0, 120.0])
_SCANNED_WORD = 0.17  # of a row, by many queries together
# read from memory, shared by queries that are scanned together; nothing where all fits the cache
_READ_WORD = 0.4
_CACHE_WORDS = 1 << 22
# Of the scan's cost: spent before the rest is estimated; the most that the rest may cost then; the
# most that is spent.
_SHARES = np.array([0.03, 0.7, 1.0])


def budgets(n_words: int, n_queries: int) -> npt.NDArray[np.float64]:
    """Return what a query over rows of so many words in all may spend, asked together with others.

    All threads scan a few queries together, while each query is looked up by one.
    """
    reading = _READ_WORD * min(1.0, n_words / _CACHE_WORDS) / math.sqrt(n_queries)
    workers = threads.get_threads()
    idle = n_queries / (workers * -(-n_queries // workers))
    shares: npt.NDArray[np.float64] = _SHARES * (n_words * (_SCANNED_WORD + reading) * idle)
    return shares
