"""Bands: codes cut into runs of symbols, so that rows with many equal symbols share one run in all
likelihood.

Rows that agree in every symbol of a band share that band's key, and so its bucket. Of two rows
whose symbols are each equal with chance s, the chance that at least one of b bands of r symbols
agrees is 1 − (1 − sʳ)ᵇ: the S-curve, flat near 0, steep around (1 / b)^(1 / r), flat near 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import theory
from bitkin.checks import whole_number
from bitkin.codes import Codes, require_codes
from bitkin.errors import InvalidInputError

# of pairs spread evenly below the threshold, the most that may become candidates
FALSE_ALARMS = 0.4

_GRID = 1000  # similarities at which rates are averaged
_PAIRS_AT_ONCE = 1 << 16

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BandPlan:
    """How codes are cut: `bands` bands of `rows` symbols each, from the first symbol on.

    Examples
    --------
    >>> plan = choose_bands(0.8, n_symbols=128)
    >>> plan
    BandPlan(bands=25, rows=5)
    >>> round(plan.probability(0.8), 5), round(plan.probability(0.1), 5)
    (0.99995, 0.00025)
    >>> f"{plan.miss_rate(0.8):.1e} {plan.false_alarm_rate(0.8):.2f}"
    '2.9e-06 0.40'
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        for name in ("bands", "rows"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, low=1))

    @property
    def n_symbols(self) -> int:
        """Symbols in all bands together."""
        return self.bands * self.rows

    def probability(self, similarity: Any) -> Any:
        """Return the chance that two rows with this chance of an equal symbol share a band; arrays
        give arrays.
        """
        return theory.band_probability(similarity, self.bands, self.rows)

    def miss_rate(self, threshold: float) -> float:
        """Return the share of pairs that no band finds, of pairs spread evenly from `threshold` to
        1.
        """
        low = similarity_threshold(threshold)
        # no band agrees with chance (1 − s^r)^b, averaged over s from the threshold to 1
        return float(np.mean(1.0 - self.probability(low + (1.0 - low) * _grid())))

    def false_alarm_rate(self, threshold: float) -> float:
        """Return the share of pairs that some band finds, of pairs spread evenly from 0 to
        `threshold`.
        """
        return float(np.mean(self.probability(similarity_threshold(threshold) * _grid())))


def choose_bands(
    threshold: float, n_symbols: int, *, false_alarms: float = FALSE_ALARMS
) -> BandPlan:
    """Return the plan that misses least at or above `threshold`, with at most `false_alarms` below
    it.

    Both rates are averages over similarities spread evenly (`BandPlan.miss_rate`,
    `false_alarm_rate`). Candidates are compared exactly later, so a false alarm costs a comparison
    while a miss is final: misses are made as few as the budget allows. Where no plan keeps within
    it, one band of all symbols has the fewest false alarms.
    """
    similarity_threshold(threshold)
    n_symbols = whole_number(n_symbols, "n_symbols", low=1)
    # Longer bands, of which there are fewer, agree less often at every similarity: the first within
    # the budget is best.
    for rows in range(1, n_symbols + 1):
        plan = BandPlan(n_symbols // rows, rows)
        if plan.false_alarm_rate(threshold) <= false_alarms:
            break
    return plan


def band_keys(codes: Codes, plan: BandPlan, band: int) -> npt.NDArray[np.uint64]:
    """Return one key a row for one band: uint64 (n,). Equal symbols, equal keys.

    Up to 64 bits a band, different symbols get different keys; beyond, a hash that may rarely
    coincide.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.search.bands import band_keys_into

    _require_plan(codes, plan)
    band = whole_number(band, "band", low=0, high=plan.bands - 1)
    keys = np.empty(len(codes), dtype=np.uint64)
    band_keys_into(read_only(codes.words), band * plan.rows, plan.rows, keys)
    return keys


@dataclass(frozen=True, eq=False, slots=True)
class Buckets:
    """Rows that share a key, where at least two do: bucket b is `members[starts[b] : starts[b] +
    counts[b]]`.

    Buckets stand in the order of their keys, members in ascending order. The rank of a member is
    its place in its bucket, also where members before it have been left out since.
    """

    members: Rows
    starts: Rows
    counts: Rows
    keys: npt.NDArray[np.uint64]
    ranks: Rows

    @classmethod
    def of_keys(cls, keys: npt.NDArray[np.uint64], rows: Rows) -> Buckets:
        """Group `rows`, which ascend, by their keys."""
        keys = keys[rows]
        # not stable, which is three times as fast; few rows are left to put in order
        order = np.argsort(keys)
        keys = keys[order]
        shared = np.zeros(len(rows), dtype=np.bool_)
        shared[1:] = keys[1:] == keys[:-1]
        # a row shares its key with the one before it or with the one after it
        shared[:-1] |= shared[1:]
        members, keys = rows[order[shared]], keys[shared]
        members = members[np.lexsort((members, keys))]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
        counts = np.diff(np.append(starts, len(keys)))
        ranks = np.arange(len(members)) - np.repeat(starts, counts)
        return cls(members, starts, counts, keys[starts], ranks)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Buckets:
        """Return some of the buckets."""
        return Buckets(
            self.members, self.starts[which], self.counts[which], self.keys[which], self.ranks
        )


def candidate_pairs(codes: Codes, plan: BandPlan) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of rows that share at least one band, each pair once, some at a time.

    A chunk is two int64 arrays, the lower row first. Empty rows share nothing.

    Examples
    --------
    >>> codes = Codes.from_symbols([[1, 2, 3, 4], [1, 2, 0, 0], [5, 2, 3, 4]], bits_per_symbol=3)
    >>> [(a.tolist(), b.tolist()) for a, b in candidate_pairs(codes, BandPlan(bands=2, rows=2))]
    [([0], [1]), ([0], [2])]
    """
    for band in range(_require_plan(codes, plan).bands):
        yield from new_pairs(codes, plan, band)


def new_pairs(
    codes: Codes,
    plan: BandPlan,
    band: int,
    *,
    parents: Rows | None = None,
    sizes: Rows | None = None,
    ratio: float = 0.0,
    buckets: Buckets | None = None,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of rows that share this band and none before it, some at a time.

    With `parents` (see `bitkin.kernels.search.bands`) pairs within one component are left out, and
    the caller joins components between chunks: then the components come out as if all pairs had
    been looked at, but m rows that are all alike cost about m pairs instead of m² / 2. With
    `sizes`, pairs where one is smaller than `ratio` times the other are left out. `buckets`, where
    they are known, are those of the band.

    Notes
    -----
    A bucket is worked off by pivots: members are taken in ascending order, each paired with all
    later ones of other components. The first of a bucket are taken in the first round, the next
    two in the second, then four and so on, of all buckets before the next round: most of a bucket
    is joined by its first pivot. A chunk holds pairs of one round, and is at most as long as there
    are members, or 65,536 pairs.

    So pairs come in an order that depends on the codes alone: by band, round, key, pivot and other
    row (`order_of_pairs`). Pairs that join two components, joined in that order, are the spanning
    forest that Kruskal's algorithm finds for it, whichever pairs within components are left out,
    and however the buckets are shared out: an edge that is not in the forest of some of the edges
    closes a cycle of earlier ones there, so it is not in the forest of all edges either.

    m rows in one bucket that are *not* joined take m² / 2 comparisons, since any two may be alike:
    time, not memory.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.search.bands import bucket_pairs_into

    if buckets is None:
        buckets = Buckets.of_keys(band_keys(codes, plan, band), np.flatnonzero(~codes.empty_rows()))
    if parents is None:
        parents = np.arange(len(codes))
    sizes = read_only(np.ones(len(codes), dtype=np.int64) if sizes is None else sizes)
    words = read_only(codes.words)
    taken = np.zeros(len(buckets.starts), dtype=np.int64)
    below = 1  # the rank at which the round ends
    while len(buckets.starts):
        room = max(_PAIRS_AT_ONCE, int(buckets.counts.sum()))
        others = np.empty(buckets.counts.max(), dtype=np.int64)
        bucket = 0
        while bucket < len(buckets.starts):
            first, second = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            found, bucket = bucket_pairs_into(
                words,
                band,
                plan.rows,
                sizes,
                float(ratio),
                parents,
                read_only(buckets.members),
                read_only(buckets.ranks),
                read_only(buckets.starts),
                read_only(buckets.counts),
                taken,
                bucket,
                below,
                others,
                first,
                second,
            )
            if found:
                yield first[:found], second[:found]
        unfinished = taken < buckets.counts
        buckets, taken = buckets.chosen(unfinished), taken[unfinished]
        below = 2 * below + 1


def order_of_pairs(
    bands: Rows, keys: npt.NDArray[np.uint64], ranks: Rows, others: Rows
) -> npt.NDArray[np.int64]:
    """Return the order in which `new_pairs` yields pairs, whatever it leaves out: int64 (pairs,).

    A pair is given by its band, the key of its bucket, the rank of its lower row there, and its
    higher row.
    """
    # the round in which rank r is taken: ⌊log2(r + 1)⌋
    rounds = np.frexp(ranks + 1.0)[1]
    return np.lexsort((others, ranks, keys, rounds, bands))


def similarity_threshold(value: Any, name: str = "threshold") -> float:
    """Return `value` as a similarity above 0, up to 1."""
    number = float(value) if isinstance(value, (int, float, np.floating, np.integer)) else math.nan
    if isinstance(value, (bool, np.bool_)) or not 0.0 < number <= 1.0:
        raise InvalidInputError(f"{name} must be a number above 0 and up to 1, got {value!r}.")
    return number


def _require_plan(codes: Codes, plan: BandPlan) -> BandPlan:
    require_codes(codes, "codes")
    if not isinstance(plan, BandPlan):
        raise InvalidInputError(
            f"plan must be a BandPlan, got {plan!r}. Make one with choose_bands."
        )
    if plan.n_symbols > codes.spec.n_symbols:
        raise InvalidInputError(
            f"plan must need at most the {codes.spec.n_symbols} symbols of the codes, got "
            f"{plan.bands} bands of {plan.rows}."
        )
    return plan


def _grid() -> npt.NDArray[np.float64]:
    return (np.arange(_GRID) + 0.5) / _GRID
