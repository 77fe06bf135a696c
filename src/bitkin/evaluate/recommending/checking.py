"""The check: what a collection as it would be built finds for queries that had no part in choosing.

Whoever takes the best of many, at the smallest oversample that reaches a recall, has chosen by
chance too: on the queries that chose, it looks better than it is. So what is promised is measured
again, on others, and where it can be in a collection of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin import interrupts, threads
from bitkin.arrays import Floats, Ids
from bitkin.collection.collection import Collection
from bitkin.evaluate.intervals import interval
from bitkin.evaluate.recall_of_ids import recall
from bitkin.evaluate.recommending.ways import Way, mean_and_error
from bitkin.evaluate.trials.measuring import (
    EXACT_OVERSAMPLE,
    FittedMethod,
    KeptKind,
    time_per_query,
)
from bitkin.evaluate.trials.trial import Trial
from bitkin.evaluate.truth import nearest

MOST_BYTES = 1 << 29  # of a collection that is built for the check
_QUERIES_AT_ONCE = 64
_TAIL = 0.025  # of the interval, at either end
_MOST_LEFT_OUT = 0.01  # share of the rows that no query of a batch may find


@dataclass(frozen=True, eq=False)
class Checked:
    """What fresh queries say of a way to search.

    Attributes
    ----------
    recalls : float64 (q,)
        Of every fresh query.
    search_us : float
        CPU time per query of a batch, on as many rows as `n_rows`.
    n_rows : int
        That were searched: all, or those of the sample.
    on_all : bool
        Whether recall was measured in a collection of all rows, or is a prediction from the sample.
    """

    recalls: Floats
    search_us: float
    n_rows: int
    on_all: bool

    @property
    def recall(self) -> float:
        """Mean over the fresh queries."""
        return mean_and_error(self.recalls)[0]

    @property
    def interval(self) -> tuple[float, float]:
        """Where the recall of as many other fresh queries lies, with 95 % confidence."""
        kept = self.recalls[~np.isnan(self.recalls)]
        if len(kept) < 2:
            return (0.0, 1.0)
        low, high = interval(kept)
        mean = float(kept.mean())
        # both means are of n queries: their difference spreads √2 times as far as one of them
        wide = np.sqrt(2.0)
        low, high = mean - wide * (mean - low), mean + wide * (high - mean)
        # Few queries may be alike by chance. If a share p of all queries were of a kind that is not
        # among them, n without one would come with chance (1 − p)ⁿ; at the ends that is 2.5 %.
        alike = _TAIL ** (1.0 / len(kept))
        low, high = min(low, mean * alike), max(high, 1.0 - (1.0 - mean) * alike)
        return float(max(0.0, low)), float(min(1.0, high))


class Check:
    """Checks ways to search by the queries that had no part in choosing.

    Parameters
    ----------
    X
        All rows, as `recommend` takes them.
    trial : Trial
        With the fresh queries.
    kinds : dict of KeptKind
        Of the same queries.
    """

    def __init__(self, X: Any, trial: Trial, kinds: dict[str, KeptKind]) -> None:
        self._X = X
        self._trial = trial
        self._kinds = kinds
        self._near_all: Ids | None = None  # among all rows, which takes a pass over them

    def run(self, way: Way, fitted: FittedMethod) -> Checked:
        """Measure a way to search with a method as it has learned."""
        n_rows = self._trial.n_rows
        if n_rows * way.bytes_per_vector > MOST_BYTES:
            return self._predict(way, fitted)
        settings = settings_of(way, self._trial.metric)
        collection = Collection.create(None, fitted.hasher, **settings)
        n_all = len(collection.add(self._X))
        trial, k = self._trial, self._trial.k
        step = max(1, min(_QUERIES_AT_ONCE, int(n_all * _MOST_LEFT_OUT)))
        near = self._find_near(step, n_all)
        recalls = np.empty(len(near))
        for start in range(0, len(near), step):
            interrupts.check()
            some = slice(start, start + step)
            left_out = None if trial.query_ids is None else trial.query_ids[some]
            allow = None if left_out is None else np.delete(np.arange(n_all), left_out)
            found = collection.search(trial.queries[some], k, allow=allow).ids
            truth = near[some] if left_out is None else _drop(near[some], left_out, k)
            recalls[some] = recall(found, truth, details=True).values
        taken = time_per_query(trial.queries, lambda queries: collection.search(queries, k))
        return Checked(recalls, taken, n_all, on_all=True)

    def _find_near(self, step: int, n_all: int) -> Ids:
        """Return the true neighbours of the fresh queries among all rows: k where the queries were
        given, else as many more as a batch may leave out.

        Rows that are held out are part of what is built. Were they all left out of the check, it
        would search up to a fifth fewer rows, and find more than can be promised.
        """
        trial, k = self._trial, self._trial.k
        if trial.query_ids is None:
            return np.where(trial.near >= 0, trial.near_numbers[trial.near], -1)[:, :k]
        if self._near_all is None:
            wanted = min(n_all, k + step)
            self._near_all = nearest(self._X, trial.queries, wanted, trial.metric).ids
        return self._near_all

    def _predict(self, way: Way, fitted: FittedMethod) -> Checked:
        """Predict the recall on all rows from the sample."""
        kept = None if way.vectors is None else self._kinds[way.vectors]
        measured = fitted.on(self._trial).measure(way.stage, kept).at(way.oversample)
        n_sample = int(self._trial.rows.shape[0])
        return Checked(measured.per_query, measured.search_us, n_sample, on_all=False)

    def time_exact(self, n_rows: int) -> float:
        """Return the CPU µs per query of an exact search of so many rows, as long as it takes on
        the sample for each of them.
        """
        trial = self._trial
        with threads.alone():
            taken = time_per_query(
                trial.queries, lambda queries: nearest(trial.rows, queries, trial.k, trial.metric)
            )
        return taken * n_rows / max(1, int(trial.rows.shape[0]))


def _drop(near: Ids, left_out: Ids, k: int) -> Ids:
    """Return the first k of every row that are not left out; −1 where there are fewer."""
    drop = np.isin(near, left_out) | (near < 0)
    kept = np.argsort(drop, axis=1, kind="stable")[:, :k]
    return np.where(
        np.take_along_axis(drop, kept, 1), -1, np.take_along_axis(near, kept, 1)
    ).astype(np.int64)


def settings_of(way: Way, metric: str) -> dict[str, Any]:
    """Return what `Collection.create` is given beside the hasher."""
    estimates = way.stage != "codes" and way.code.best_stage == "estimate"
    return {
        "vectors": way.vectors,
        "metric": metric,
        "stage": way.stage,
        # before an estimate that comes last, as many as a collection keeps by itself
        "oversample": way.oversample if way.stage == "exact" else EXACT_OVERSAMPLE,
        "index": "flat",
        # recall was measured so; by itself a collection may begin with codes, and lose a little
        "first": "estimate" if estimates else None,
    }
