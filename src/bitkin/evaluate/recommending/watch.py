"""How far a recommendation is: what is reported on the way, and when time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from bitkin import interrupts


class RecommendProgress(NamedTuple):
    """What `recommend` tells its `progress` function.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    >>> told = []
    >>> _ = bitkin.recommend(X, recall=0.5, methods="pca × random", bits=16, progress=told.append)
    >>> told[0].doing, told[-1].share
    ('pca × random, 16 bits', 1.0)
    """

    share: float
    """Of the work that is to be expected, how much is done: 0 to 1."""
    seconds_left: float | None
    """About so many more; None until something was measured."""
    doing: str
    """What was just finished, such as "pca × itq, 128 bits"."""


class TimeIsUpError(Exception):
    """The time limit has passed; what was measured by then counts."""


class Watch:
    """Counts what is done, and raises where the work is to end.

    Parameters
    ----------
    time_limit : float or None
        Seconds.
    progress : callable or None
        Called with a `RecommendProgress`, by one thread at a time.
    """

    def __init__(
        self, time_limit: float | None, progress: Callable[[RecommendProgress], object] | None
    ) -> None:
        self._progress = progress
        self._limit = time_limit
        self._began = time.perf_counter()
        self._done, self._expected = 0.0, 1.0
        self._share = 0.0
        self._measuring_since: float | None = None
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    def expect(self, work: float) -> None:
        """Say how much work is still to come, in units of one code measured in full."""
        with self._lock:
            if self._measuring_since is None:
                self._measuring_since = time.perf_counter()
            self._expected = self._done + work

    def count(self, work: float, doing: str) -> None:
        """Say that some work is done."""
        with self._lock:
            self._done += work
            self._expected = max(self._expected, self._done)
            # never back, though more may turn out to be needed
            self._share = max(self._share, min(0.99, self._done / self._expected))
            if self._progress is not None:
                self._progress(RecommendProgress(self._share, self._seconds_left(), doing))

    def finish(self) -> None:
        """Say that all is done."""
        if self._progress is not None:
            self._progress(RecommendProgress(1.0, 0.0, "done"))

    def check(self) -> None:
        """Let a signal through, and raise where time is up."""
        interrupts.check()
        if self._limit is not None and self.seconds > self._limit:
            raise TimeIsUpError

    def _seconds_left(self) -> float | None:
        if self._measuring_since is None or self._done == 0.0:
            return None
        taken = time.perf_counter() - self._measuring_since
        return taken * (1.0 / max(self._share, 1e-3) - 1.0)
