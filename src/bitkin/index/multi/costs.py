"""What a scan and a lookup cost on this machine, measured where they run.

Only the choice between the two depends on it, never a result. A scan is timed once per process and
width of codes, in about two milliseconds; how fast lookups are is learned from the lookups
themselves, by every index for itself.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.index.flat import scan_nearest
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels._kernel import JIT_DISABLED

# Nanoseconds on a Xeon of 2021: a key looked up, an entry met, a row looked at, and each of its
# words, which lie apart from each other. Their ratios change little from machine to machine;
# `LookupPace` learns the rest.
_KEY_COST, _ENTRY_COST, _ROW_COST, _WORD_COST = 80.0, 3.0, 60.0, 60.0
_TIMED_ROWS = 1 << 16  # at most: of few rows too many are candidates
_TIMED_WORDS = (1 << 21) - 1  # so few are scanned in the calling thread alone
_TIMINGS = 4  # of which the shortest counts: the machine may be busy
_LEAST_TIMED = 5e4  # nanoseconds of lookups; less says little
_LEARNING_RATE = 0.2
_MOST_OFF = 8.0  # times: farther off was an interruption, or a kernel being compiled


class ScanCosts(NamedTuple):
    """Nanoseconds per word of a row."""

    compare: float
    """By many queries together."""
    read: float
    """From memory, shared by queries that are scanned together; nothing where all fits the
    cache.
    """


ASSUMED_COSTS = ScanCosts(compare=0.17, read=0.4)
_measured: dict[tuple[int, ...], ScanCosts] = {}


def scan_costs(segment: Segment, snapshot: Snapshot) -> ScanCosts:
    """Return what a scan of codes of this width costs here; measured on the rows of a segment the
    first time.
    """
    if JIT_DISABLED:  # plain Python says nothing about machine code
        return ASSUMED_COSTS
    shape = segment.tiles.shape[1:3]
    known = _measured.get(shape)
    if known is None:
        known = _measured[shape] = _measure(segment, snapshot)
    return known


def _measure(segment: Segment, snapshot: Snapshot) -> ScanCosts:
    n_rows = min(_TIMED_ROWS, _TIMED_WORDS // (4 * segment.words_per_row))
    n_together = _TIMED_WORDS // (n_rows * segment.words_per_row)
    rows = np.linspace(0, segment.n - 1, n_together).astype(np.int64)
    queries = Codes.from_parts(segment.words(rows), snapshot.spec, None, None)
    compare = _nanoseconds_per_word(segment, snapshot, queries, n_rows)
    alone = _nanoseconds_per_word(
        segment, snapshot, queries[:1], _TIMED_WORDS // segment.words_per_row
    )
    return ScanCosts(compare, max(0.0, alone - compare))


def _nanoseconds_per_word(
    segment: Segment, snapshot: Snapshot, queries: Codes, n_rows: int
) -> float:
    """Return the nanoseconds that a scan of some rows takes per word and query."""
    n = min(segment.n, n_rows)
    some = Snapshot(snapshot.spec, segments=(Segment(segment.tiles, segment.ids, n=n, n_alive=n),))
    scan_nearest(some, queries[:1], 1, None)  # compiles, if need be
    best = np.inf
    for _ in range(_TIMINGS):
        start = time.thread_time_ns()
        scan_nearest(some, queries, 1, None)
        best = min(best, time.thread_time_ns() - start)
    return max(best, 1.0) / (n * segment.words_per_row * len(queries))


def lookup_costs(words_per_row: int) -> npt.NDArray[np.float64]:
    """Return the nanoseconds of a key, an entry and a row on the machine named above."""
    return np.array([_KEY_COST, _ENTRY_COST, _ROW_COST + _WORD_COST * words_per_row])


class LookupPace:
    """How long lookups take, in units of `lookup_costs`: learned from those that were timed.

    Several threads may note at once: then one of them may be forgotten, which does no harm.
    """

    def __init__(self) -> None:
        self.factor = 1.0

    def note(self, expected: float, nanoseconds: float) -> None:
        """Learn how long lookups took that were expected to take `expected` nanoseconds."""
        if expected < _LEAST_TIMED:
            return
        ratio = nanoseconds / expected
        if 1 / _MOST_OFF < ratio < _MOST_OFF:
            self.factor += _LEARNING_RATE * (ratio - self.factor)
