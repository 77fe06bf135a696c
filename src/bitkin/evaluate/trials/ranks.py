"""Where the true neighbours of a query stand in the order of a stage, among all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.special

from bitkin import interrupts
from bitkin.arrays import Floats, Ids
from bitkin.collection.collection import Collection
from bitkin.evaluate.trials.measurement import OVERSAMPLES
from bitkin.evaluate.trials.scan_order import ScanOrder
from bitkin.evaluate.trials.trial import Trial

_KEPT_PER_ROW = 10  # by a collection's scan, for every one that the estimate returns
_QUERIES_AT_ONCE = 32  # whose near rows are measured by one search, for all of them


@dataclass(frozen=True, eq=False)
class NearRanks:
    """How many rows come before each of the near rows of a query, as far as the sample says.

    Attributes
    ----------
    near : float64 (q, m)
        Of the other near rows: counted. NaN where there is no such near row, infinite where no
        search finds it.
    sampled : float64 (q, m)
        Of the sample.
    share : float64 (q, 1)
        Of the rows that are not near, how many are in the sample: the chance of each to be counted.
    n_true : int
        The first of the near rows are what a search should find.
    """

    near: Floats
    sampled: Floats
    share: Floats
    n_true: int

    def listed(self, n: int) -> Floats:
        """Return how likely each near row is one of the first n rows, float64 (q, m); 0 where there
        is none.

        Where c rows of the sample come before a near row, N rows of all do, each of which was drawn
        with the chance p. To take c / p for N counts too many rows as listed where p is small: many
        that no row of the sample precedes have several before them. So N is taken as Bayes has it,
        for a prior ∝ N^(s − 1): N − c is negative binomial, NB(c + s, p), and c where p is 1.
        """
        left = n - self.near - self.sampled
        possible = left > 0.0  # not where it is NaN
        chance = scipy.special.betainc(
            np.where(possible, self.sampled, 0.0) + self._exponent(n),
            np.where(possible, left, 1.0),
            np.minimum(self.share, 1.0),
        )
        return np.where(possible, chance, 0.0)

    def _exponent(self, n: int) -> float:
        """Return the s of a power law N^s, by which the true rows before n grow with it: measured
        between about half and twice of n.

        With the prior above, the number of rows with up to c sampled ones before them grows like
        Γ(c + 1 + s) / Γ(c + 1), which is nearly (c + 3/4)^s.
        """
        true = self.sampled[:, : self.n_true]
        low = np.floor(n * float(self.share.mean()) / 2.0)
        high = 2.0 * low + 2.0
        n_low, n_high = int((true <= low).sum()), int((true <= high).sum())
        if n_low == 0:
            return 1.0
        grown = np.log(n_high / n_low) / np.log((high + 0.75) / (low + 0.75))
        return float(np.clip(grown, 0.01, 2.0))


class RowOrder(Protocol):
    """An order of rows by their distance from a query, over the sample and over near rows."""

    def search_sample(self, depth: int) -> tuple[Ids, npt.NDArray[Any]]:
        """Return places in the sample and distances of the first `depth` rows of every query; −1
        where there are fewer.
        """

    def measure_near(self, some: slice) -> Floats:
        """Return the distances of the near rows of some queries, float64 (q, m): infinite for rows
        that are not there, or that no search finds.
        """


@dataclass(frozen=True, eq=False)
class CollectionOrder:
    """The order of a stage of a collection, which holds the sample under ids from 0 on and the near
    rows that are not in it behind them, as `near_ids` has it.
    """

    trial: Trial
    collection: Collection
    stage: str

    def search_sample(self, depth: int) -> tuple[Ids, npt.NDArray[Any]]:
        """Return ids and distances of the first rows of the sample."""
        first = first_of(self.collection, self.stage)
        hits = self.collection.search(
            self.trial.queries,
            depth,
            stage=self.stage,
            allow=np.arange(self.trial.rows.shape[0]),
            **first,
        )
        return hits.ids, hits.distances

    def measure_near(self, some: slice) -> Floats:
        """Return the distances of the near rows of some queries."""
        ids = near_ids(self.trial)[some]
        rows = np.unique(ids[ids >= 0])
        distances = np.full(ids.shape, np.inf)
        if rows.size == 0:
            return distances
        # one search for all of these rows costs less than one per query for its own
        hits = self.collection.search(
            self.trial.queries[some],
            rows.size,
            stage=self.stage,
            allow=rows,
            **first_of(self.collection, self.stage),
        )
        for i, own in enumerate(ids):
            # empty rows are never found: they are behind all others
            found = hits.ids[i] >= 0
            by_row = np.full(rows.size, np.inf)
            by_row[np.searchsorted(rows, hits.ids[i][found])] = hits.distances[i][found]
            distances[i, own >= 0] = by_row[np.searchsorted(rows, own[own >= 0])]
        return distances


def rank_near_rows(trial: Trial, collection: Collection, stage: str) -> NearRanks:
    """Return how many rows come before each of the near rows in the order of a stage, as
    `rank_in_order` does; `collection` is what `CollectionOrder` takes.

    The stage "scan" is the estimate as far as it keeps rows for the exact stage.
    """
    order: RowOrder = (
        ScanOrder(trial, collection.hasher)
        if stage == "scan"
        else CollectionOrder(trial, collection, stage)
    )
    return rank_in_order(trial, order, collection.rows_measured(trial.k, OVERSAMPLES[-1]))


def rank_in_order(trial: Trial, order: RowOrder, deepest: int) -> NearRanks:
    """Return how many rows come before each of the near rows, as far as the first `deepest` of all.

    Rows at one distance are in the order of their numbers, as in a collection of all rows.
    """
    n_sample = int(trial.rows.shape[0])
    sample_ids, sample_distances = order.search_sample(depth_in_sample(trial, deepest))
    ids = near_ids(trial)
    near, sampled = np.full(trial.near.shape, np.nan), np.full(trial.near.shape, np.nan)
    share = np.ones((len(ids), 1))
    for start in range(0, len(ids), _QUERIES_AT_ONCE):
        interrupts.check()
        distances = order.measure_near(slice(start, start + _QUERIES_AT_ONCE))
        for i, own_distances in enumerate(distances, start):
            there = ids[i] >= 0
            own = ids[i][there]
            keys = _sortable(own_distances[there], trial.near_numbers[trial.near[i][there]])
            others = (sample_ids[i] >= 0) & ~np.isin(sample_ids[i], own)
            numbers = trial.row_numbers[sample_ids[i][others]]
            before = np.sort(_sortable(sample_distances[i][others], numbers))
            sampled[i, there] = np.searchsorted(before, keys)
            # a row with nothing to hash is never found, nor is any by such a query
            rank = np.searchsorted(np.sort(keys), keys)
            near[i, there] = np.where(np.isinf(own_distances[there]), np.inf, rank)
            n_others = n_sample - int((own < n_sample).sum())
            share[i] = n_others / max(1, trial.n_rows - own.size)
    return NearRanks(near, sampled, share, trial.k)


def depth_in_sample(trial: Trial, deepest: int) -> int:
    """Return how many rows of the sample tell the ranks of near rows up to `deepest` of all."""
    n_sample, n_near = int(trial.rows.shape[0]), int(trial.near.shape[1])
    # a row of the sample stands for that many; near rows are counted one by one
    weight = max(1.0, (trial.n_rows - n_near) / max(1, n_sample))
    return min(n_sample, int(deepest / weight) + n_near + 8)


def near_ids(trial: Trial) -> Ids:
    """Return the ids of near rows in a collection of the sample and of what is missing in it,
    int64 (q, m); −1 for none.
    """
    missing = trial.near_in_sample < 0
    ids = trial.near_in_sample.copy()
    ids[missing] = trial.rows.shape[0] + np.arange(int(missing.sum()))
    return np.where(trial.near >= 0, ids[trial.near], -1)


def first_of(collection: Collection, stage: str) -> dict[str, Any]:
    """Return the argument that lets a search begin with the estimate of all rows."""
    return {"first": "estimate"} if stage == "estimate" else {}


def _sortable(distances: npt.NDArray[Any], numbers: Ids) -> npt.NDArray[np.complex128]:
    """Return values that NumPy sorts by distance and then by number, as it does complex ones."""
    both = np.empty(len(distances), dtype=np.complex128)
    both.real, both.imag = distances, numbers
    return both


def recalls_of_ranks(
    ranks: NearRanks,
    kept_order: Ids | None = None,
    rows_per_oversample: int | None = None,
    oversamples: Sequence[int] = OVERSAMPLES,
    *,
    kept_by: NearRanks | None = None,
) -> Floats:
    """Return the recall of every query at each of the oversamples, from ranks of near rows whose
    first k are true.

    Without `kept_order`, the share of the true k among the first k · oversample rows. With it, the
    order of the near rows by the vectors as they are kept, the share of the true k among the k that
    come first in it of as many rows; `rows_per_oversample` replaces k in their number. `kept_by`
    are ranks in the order of what goes before and keeps ten times as many rows. A row counts by how
    likely it is listed.
    """
    k = ranks.n_true
    n_true = (~np.isnan(ranks.near[:, :k])).sum(axis=1)
    recalls = np.full((len(n_true), len(oversamples)), np.nan)
    for place, oversample in enumerate(oversamples):
        n = (rows_per_oversample or k) * oversample
        listed = ranks.listed(n)
        if kept_by is not None:
            listed = np.minimum(listed, kept_by.listed(n * _KEPT_PER_ROW))
        if kept_order is None:
            found = listed[:, :k].sum(axis=1)
        else:
            ordered = np.take_along_axis(listed, kept_order, 1)
            # what is left of k places when a row's turn comes
            left = k - (np.cumsum(ordered, axis=1) - ordered)
            chosen = np.minimum(ordered, np.maximum(left, 0.0))
            found = np.where(kept_order < k, chosen, 0.0).sum(axis=1)
        np.divide(found, n_true, out=recalls[:, place], where=n_true > 0)
    return recalls
