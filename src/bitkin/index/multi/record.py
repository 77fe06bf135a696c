"""What searches of an index took so far, and whether the next ones look into tables or scan.

A search by tables that gives up has taken its time for nothing. So a few queries of the first batch
are looked up, and more only where that took less than a scan; where it did not, it is tried again
ever more rarely. No result depends on it.

Times are those of the calling thread's own work: a busy machine does not lengthen them, and where
other threads help, the caller's share becomes smaller as the waiting does.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from bitkin.index.multi.costs import LookupPace

_PAYS_BELOW = 0.9  # of the scan's time
# Lookups that are not much faster than that are left out once in a while, to time the scan again.
_CLEARLY_FASTER = 0.6
_SCAN_EVERY = 32  # batches
_TRIED_SHARE = 8  # one in so many queries of a batch
_LONGEST_PAUSE = 64  # batches that are scanned before lookups are tried again
_LEAST_WEIGHT = 0.1  # of the newest batch
_MOST_RATIO = 3.0  # times the scan: longer was an interruption
_MOST_OFF = 8.0  # times what was measured when the process began


class LookupChoice:
    """Whether batches of one kind are looked up: by what lookups took, in scans of the batch."""

    def __init__(self) -> None:
        self.pace = LookupPace()
        self.ratio = 1.0
        self.n_noted = 0
        self._pause = 1
        self._left = 0
        self._until_scan = 1

    @property
    def pays(self) -> bool:
        """Whether lookups took less time than the scan."""
        return self.n_noted > 0 and self.ratio < _PAYS_BELOW

    def n_to_look_up(self, n_queries: int) -> int:
        """Return how many queries of the next batch to look up first: all, some, or none."""
        if self.pays:
            if self.ratio > _CLEARLY_FASTER * _PAYS_BELOW:
                self._until_scan -= 1
                if self._until_scan < 0:
                    self._until_scan = _SCAN_EVERY
                    return 0
            return n_queries
        if self._left > 0:
            self._left -= 1
            return 0
        return max(1, n_queries // _TRIED_SHARE)

    def note(self, ratio: float) -> None:
        """Learn that looking up took so many times as long as scanning, the scan of what gave up
        included.
        """
        ratio = min(ratio, _MOST_RATIO)
        if self.n_noted == 1:
            # the first lookups read the tables into the cache, and may have compiled kernels
            self.ratio = min(self.ratio, ratio)
        else:
            self.ratio += max(_LEAST_WEIGHT, 1 / (self.n_noted + 1)) * (ratio - self.ratio)
        self.n_noted += 1
        if self.pays:
            self._pause = 1
        else:
            self._left = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)


class ScanPace:
    """How long scans of a kind take, in units of what is expected of them."""

    def __init__(self) -> None:
        self.factor: float | None = None

    def note(self, ratio: float) -> None:
        """Learn that a scan took so many times as long as expected."""
        if self.factor is None:
            self.factor = min(max(ratio, 1 / _MOST_OFF), _MOST_OFF)
        else:
            # Interruptions only lengthen: a shorter time says more, and a far longer one nothing.
            weight = 0.5 if ratio < self.factor else _LEAST_WEIGHT
            self.factor += weight * (min(ratio, 2 * self.factor) - self.factor)


class BatchKind(NamedTuple):
    """Batches that take about as long per query; sizes by powers of two."""

    n_queries: int
    n_rows: int
    depth: int
    """Neighbours per query, or the radius."""
    within_radius: bool
    filtered: bool


class LookupRecord:
    """What the searches of an index took, by kind of batch.

    Several threads may note at once: then one of them may be forgotten, which does no harm.
    """

    def __init__(self) -> None:
        self._choices: dict[tuple[int, ...], LookupChoice] = {}
        self._scans: dict[tuple[int, ...], ScanPace] = {}

    def choice(self, kind: BatchKind) -> LookupChoice:
        """Return what is known of batches of a kind."""
        key = _by_powers(kind)
        known = self._choices.get(key)
        return known if known is not None else self._choices.setdefault(key, LookupChoice())

    def note_scan(self, kind: BatchKind, nanoseconds: float, expected: float) -> None:
        """Learn how long a scan of that many queries took."""
        if kind.n_queries and expected > 0:
            self._scans.setdefault(_by_powers(kind), ScanPace()).note(nanoseconds / expected)

    def scan_factor(self, kind: BatchKind, like: BatchKind | None = None) -> float:
        """Return how many times as long as expected scans of a kind take; of an unknown kind, those
        of the kind `like`.
        """
        known = self._scans.get(_by_powers(kind))
        if known is None or known.factor is None:
            return 1.0 if like is None else self.scan_factor(like)
        return known.factor


def _by_powers(kind: BatchKind) -> tuple[int, int, int, bool, bool]:
    n_queries, n_rows, depth, within_radius, filtered = kind
    return (
        n_queries.bit_length(),
        n_rows.bit_length(),
        depth.bit_length(),
        within_radius,
        filtered,
    )


def clock() -> int:
    """Return the nanoseconds that this thread has worked."""
    return time.thread_time_ns()
