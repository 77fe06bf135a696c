"""One recommendation: the trial, the contest, and the check of who won it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import scipy.sparse

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError, TargetNotReachedError
from bitkin.evaluate.recommending.candidates import list_codes
from bitkin.evaluate.recommending.checking import Check, Checked, settings_of
from bitkin.evaluate.recommending.contest import Contest
from bitkin.evaluate.recommending.recommendation import Recommendation
from bitkin.evaluate.recommending.settings import (
    CHOOSING_QUERIES,
    WIDEST_INTERVAL,
    RecommendSettings,
)
from bitkin.evaluate.recommending.watch import RecommendProgress, TimeIsUpError, Watch
from bitkin.evaluate.recommending.ways import Way
from bitkin.evaluate.recommending.wording import SearchFacts
from bitkin.evaluate.trials.measuring import KeptKind, kept_kinds
from bitkin.evaluate.trials.trial import draw_trial
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.io.vectors import open_vectors

_MOST_CHECKS = 4  # ways that fresh queries may refuse


class RecommendInterrupt(KeyboardInterrupt):
    """Ctrl-C while a recommendation was being found.

    Attributes
    ----------
    best : Recommendation or None
        The best so far.
    """

    def __init__(self, best: Recommendation | None) -> None:
        super().__init__()
        self.best = best


class RecommendRun:
    """What is to be found: made, then run once.

    Parameters
    ----------
    X, queries
        As `bitkin.recommend` takes them.
    settings : RecommendSettings
    progress : callable or None
    """

    def __init__(
        self,
        X: Any,
        queries: Any,
        settings: RecommendSettings,
        progress: Callable[[RecommendProgress], object] | None,
    ) -> None:
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"progress must be a function or None, got {progress!r}.")
        self._settings = settings
        self._watch = Watch(settings.time_limit, progress)
        self._complete = True
        self._source = open_vectors(X, name="X")
        trial = draw_trial(
            self._source,
            k=settings.k,
            metric=settings.metric,
            queries=queries,
            n_queries=settings.n_queries or 1,
            sample_rows=settings.sample_rows,
            random_state=settings.random_state,
        )
        self._trial = trial
        n_asked = int(trial.queries.shape[0])
        if n_asked < 2:
            whose = "queries" if trial.query_ids is None else "rows of X that are held out"
            raise InvalidInputError(
                f"queries must be at least 2, one to choose by and one to check with, got "
                f"{n_asked} {whose}. Give more rows, or more queries."
            )
        n_choosing = max(1, min(CHOOSING_QUERIES, n_asked // 3))
        choosing, checking = slice(0, n_choosing), slice(n_choosing, None)
        kinds = kept_kinds(trial)
        self._contest = Contest(
            trial.with_queries(choosing),
            list_codes(trial, settings),
            _of_queries(kinds, choosing),
            float(settings.recall),
            settings.max_bytes,
            self._watch,
        )
        self._check = Check(
            self._source,
            trial.with_queries(checking),
            _of_queries(kinds, checking),
        )

    def run(self) -> Recommendation:
        """Find a recommendation."""
        with warnings.catch_warnings():
            # of more bits than features, and the like: the figures say what comes of it
            warnings.simplefilter("ignore", UserWarning)
            try:
                self._measure(self._contest.run)
                found = self._conclude()
            except KeyboardInterrupt:
                raise RecommendInterrupt(self._conclude_at_once()) from None
        self._watch.finish()
        if found is None:
            raise TargetNotReachedError(self._explain_nothing(), None)
        if not found.reached:
            raise TargetNotReachedError(self._explain(found), found)
        return found

    def _measure(self, measure: Callable[[], None]) -> None:
        """Let the contest measure until it is through, or time is up."""
        if not self._complete:
            return
        try:
            measure()
        except TimeIsUpError:
            self._complete = False

    def _conclude_at_once(self) -> Recommendation | None:
        """Return the best so far; None where nothing was measured, or on another Ctrl-C."""
        self._complete = False
        try:
            return self._conclude() if self._contest.tried else None
        except KeyboardInterrupt:
            return None

    def _conclude(self) -> Recommendation | None:
        """Return the best way that fresh queries confirm; where there is none, the one that finds
        most.
        """
        contest, target = self._contest, float(self._settings.recall)
        for _ in range(_MOST_CHECKS):
            found = self._check_first(contest.choose)
            if found is None:
                break
            way, checked = found
            if checked.recall >= target:
                return self._recommend(way, checked)
            contest.refuse(way)
            # The queries that chose flattered it, and may flatter others as much: what they miss
            # has to shrink as what the fresh ones missed has to.
            shrink = (1.0 - target) / (1.0 - checked.recall)
            contest.bar = 1.0 - (1.0 - max(contest.bar, way.sure)) * shrink
            self._measure(contest.extend)
        found = self._check_first(contest.most)
        return None if found is None else self._recommend(*found)

    def _check_first(self, choose: Callable[[], Way | None]) -> tuple[Way, Checked] | None:
        """Check the way that is chosen. Where vectors cannot be kept so, as float16 ends at 65,504
        and a row of X that is near no query may not, it is chosen again without.
        """
        while (way := choose()) is not None:
            try:
                return way, self._check.run(way, self._contest.fitted(way))
            except InvalidInputError as error:
                if way.vectors is None:  # no hasher takes these rows
                    raise
                self._contest.leave_out(way.vectors, str(error))
                self._measure(self._contest.extend)
        return None

    def _recommend(self, way: Way, checked: Checked) -> Recommendation:
        settings, trial, contest = self._settings, self._trial, self._contest
        other = contest.runner_up(way)
        n_rows = int(self._source.shape[0] or 0)
        facts = SearchFacts(
            n_rows=n_rows,
            n_checked=len(checked.recalls),
            on_all=checked.on_all,
            n_sample=int(trial.rows.shape[0]),
            plain_bytes=_plain_bytes(trial.rows),
            model_bytes=_model_bytes(contest.fitted(way).hasher),
            exact_us=self._check.time_exact(checked.n_rows),
            search_us=checked.search_us,
            widest=WIDEST_INTERVAL,
        )
        return Recommendation(
            hasher=contest.fitted(way).hasher,
            chosen=way.measurement(),
            settings=settings_of(way, trial.metric),
            recall=checked.recall,
            interval=checked.interval,
            target=float(settings.recall),
            k=settings.k,
            max_bytes=settings.max_bytes,
            runner_up=None if other is None else other.measurement(),
            measurements=contest.measurements(),
            facts=self._facts(n_rows, checked),
            search_facts=facts,
            notes=self._notes(),
            command=settings.call,
            seconds=self._watch.seconds,
            complete=self._complete,
        )

    def _facts(self, n_rows: int, checked: Checked) -> dict[str, Any]:
        trial, settings = self._trial, self._settings
        return {
            "rows": n_rows,
            "columns": trial.n_features,
            "sample rows": int(trial.rows.shape[0]),
            "queries that chose": int(self._contest.trial.queries.shape[0]),
            "queries that checked": len(checked.recalls),
            "held out": trial.query_ids is not None,
            "k": trial.k,
            "metric": trial.metric,
            "recall wanted": float(settings.recall),
            "search, µs per query": round(checked.search_us, 1),
            "seed": settings.random_state,
            "seconds": round(self._watch.seconds, 1),
        }

    def _notes(self) -> tuple[str, ...]:
        dropped = self._contest.dropped
        left_out = "; ".join(f"{name}: {why}" for name, why in dropped.items())
        kinds = [f"No vectors as {kind}: {why}" for kind, why in self._contest.left_out.items()]
        return (
            "Recalls in the tables are of the queries that chose, those of the recommendation of "
            "others: the best of many looks better than it is by the figures that chose it.",
            "Of every method a few sizes were measured in full; what could not win was left out."
            + (f" Dropped after a look at few rows: {left_out}." if left_out else ""),
            *kinds,
        )

    def _explain(self, best: Recommendation) -> str:
        settings = self._settings
        under = "" if settings.max_bytes is None else f" in {settings.max_bytes:g} bytes a vector"
        hint = "Ask for less recall" + (
            "" if settings.max_bytes is None else ", or allow more bytes"
        )
        if not best.complete:
            under, hint = f"{under} within the time limit", "Allow more time"
        return (
            f"recall={settings.recall:g} was not reached{under}: the best found is "
            f"{best.recall:.3f}, by {best.chosen.name} in {best.bytes_per_vector:,.0f} bytes. "
            f"{hint}."
        )

    def _explain_nothing(self) -> str:
        contest, limit = self._contest, self._settings.max_bytes
        if contest.tried and limit is not None:
            smallest = min(code.code_bytes for code in contest.tried.values())
            return (
                f"max_bytes={limit:g} is less than any code takes: the smallest measured takes "
                f"{smallest:,.0f} bytes per vector. Allow more bytes."
            )
        first = next(iter(contest.failures.values()), None)
        why = "" if first is None else f", such as {first.method}: {first.error}"
        return f"no code could be measured on X{why}"


def _of_queries(kinds: dict[str, KeptKind], chosen: slice) -> dict[str, KeptKind]:
    return {
        name: KeptKind(kept.name, kept.bytes_per_vector, kept.order[chosen])
        for name, kept in kinds.items()
    }


def _plain_bytes(rows: Batch) -> float:
    if scipy.sparse.issparse(rows):
        return 8.0 * float(rows.nnz) / max(1, int(rows.shape[0])) + 8.0
    return 4.0 * float(rows.shape[1])


def _model_bytes(hasher: Hasher) -> float:
    if not isinstance(hasher, ProjectionHash):
        return 0.0  # what others keep does not grow with the columns
    model = hasher.model_
    return float(model.components.nbytes + (0 if model.mean is None else model.mean.nbytes))
