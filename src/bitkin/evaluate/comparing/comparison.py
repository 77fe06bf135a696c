"""A comparison: the trial, what is to be measured on it, and the report that comes of it."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bitkin import threads
from bitkin._version import __version__
from bitkin.errors import InvalidInputError
from bitkin.evaluate.comparing.baselines import Baseline, choose_baselines, import_faiss
from bitkin.evaluate.comparing.details import BestCode, ShownAs, find_spectrum
from bitkin.evaluate.comparing.faiss_trial import FaissTrial
from bitkin.evaluate.comparing.report import Report
from bitkin.evaluate.comparing.running import Check, Progress, TaskRun, TrialTask
from bitkin.evaluate.comparing.settings import ComparisonSettings
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.measuring import (
    KeptKind,
    failed,
    kept_kinds,
    measure_method,
)
from bitkin.evaluate.trials.methods import CodeMethod, find_methods, takes_minutes
from bitkin.evaluate.trials.trial import Trial, draw_trial, require_sets
from bitkin.io.vectors import open_vectors

_RECALL_OF_BEST = 0.95  # of the code whose bits and losses are shown


class Comparison:
    """What is to be measured: made, then run once.

    Parameters
    ----------
    X, queries
        As `bitkin.compare` takes them.
    settings : ComparisonSettings
    """

    def __init__(self, X: Any, queries: Any, settings: ComparisonSettings) -> None:
        self._began = time.perf_counter()
        self.settings = settings
        source = open_vectors(X, name="X")
        settings.check_rows(source.shape[0], source.shape[1], sparse=source.sparse)
        require_sets(settings.metric, sparse=source.sparse)
        self.baselines: list[Baseline] = choose_baselines(
            settings.baselines, settings.bits, source.shape[1], sparse=source.sparse
        )
        # before the truth is looked for, which takes a while: a name may be wrong
        self.methods: list[CodeMethod] = find_methods(
            settings.methods,
            settings.bits,
            sparse=source.sparse,
            metric=settings.metric,
            random_state=settings.random_state,
        )
        wanted = settings.choose_kinds(sparse=source.sparse)
        self.trial: Trial = draw_trial(
            source,
            k=settings.k,
            metric=settings.metric,
            queries=queries,
            n_queries=settings.n_queries,
            sample_rows=settings.sample_rows,
            random_state=settings.random_state,
        )
        self.kinds: dict[str, KeptKind] = kept_kinds(self.trial, wanted) if wanted else {}
        self.tasks: list[TrialTask] = self._list_tasks()

    def _list_tasks(self) -> list[TrialTask]:
        last = self.settings.stages[-1]
        tasks = [
            TrialTask(method.name, method.n_bits, last, partial(self._measure, method))
            for method in self.methods
        ]
        if self.baselines:
            rows = FaissTrial(self.trial)
            tasks += [
                TrialTask(
                    one.name,
                    one.n_bits,
                    one.stage,
                    partial(rows.measure, one),
                    work=one.work,
                    ours=False,
                )
                for one in self.baselines
            ]
        return tasks

    def _measure(self, method: CodeMethod, check: Check) -> list[Measurement]:
        if self.settings.methods is None and takes_minutes(method.hasher, self.trial.n_features):
            reason = InvalidInputError(
                f"it follows every row, minutes for {self.trial.n_features:,} columns; name it in "
                "methods to try it."
            )
            return [failed(method.name, method.n_bits, self.settings.stages[-1], reason)]
        return measure_method(self.trial, method, self.settings.stages, self.kinds, check)

    def run(self, progress: Progress | None = None) -> Report:
        """Measure everything, and return the report."""
        run = TaskRun(self.tasks, self.settings.threads, self.settings.time_limit, progress)
        with warnings.catch_warnings():
            # of more bits than features, and the like: the figures say what comes of it
            warnings.simplefilter("ignore", UserWarning)
            results = run.run()
            spectrum, best = find_spectrum(self.trial.rows), self._find_best(results)
        shown = ShownAs(self.settings.picture_shape, self.settings.texts)
        return Report(
            measurements=[measured for some in results for measured in some],
            facts=self._facts(),
            notes=self._notes(),
            command=self.settings.call + '.to_html("report.html")',
            spectrum=spectrum,
            code=None if best is None else best.statistics(),
            hard_queries=() if best is None else best.hard_queries(shown),
        )

    def _find_best(self, results: Sequence[Sequence[Measurement]]) -> BestCode | None:
        """Return the smallest code that finds nearly everything, else the one that finds most."""
        found = [
            (one.cheapest_at(_RECALL_OF_BEST), one, method)
            for method, some in zip(self.methods, results, strict=False)  # ours come first
            for one in some
            if one.error is None
        ]
        reached = [(good, method) for good, _, method in found if good is not None]
        if reached:
            # not the quickest of equal ones: clocks would choose what the report shows
            good, method = min(
                reached, key=lambda pair: (pair[0].bytes_per_vector, -pair[0].recall)
            )
        elif found:
            _, good, method = max(found, key=lambda triple: triple[1].recall)
        else:
            return None
        return BestCode(self.trial, method, good)

    def _facts(self) -> dict[str, Any]:
        import llvmlite.binding as llvm

        trial, settings = self.trial, self.settings
        versions = (
            f"bitkin {__version__}, python {platform.python_version()}, numpy {np.__version__}"
        )
        if self.baselines:
            versions += f", faiss {import_faiss().__version__}"
        return {
            "rows": trial.n_rows + (0 if trial.query_ids is None else len(trial.query_ids)),
            "columns": trial.n_features,
            "sample rows": int(trial.rows.shape[0]),
            "queries": int(trial.queries.shape[0]),
            "held out": trial.query_ids is not None,
            "k": trial.k,
            "metric": trial.metric,
            "seed": settings.random_state,
            "seconds": round(time.perf_counter() - self._began, 1),
            "threads": settings.threads or threads.get_threads(),
            "machine": f"{llvm.get_host_cpu_name()}, {platform.machine()}, {os.cpu_count()} cores",
            "versions": versions,
        }

    def _notes(self) -> tuple[str, ...]:
        trial = self.trial
        n_sample, n_queries = int(trial.rows.shape[0]), int(trial.queries.shape[0])
        asked = (
            f"{n_queries:,} rows were held out as queries, which no method sees and no query finds."
            if trial.query_ids is not None
            else f"{n_queries:,} of the given queries were asked."
        )
        notes = [
            f"Methods learned from {n_sample:,} of {trial.n_rows:,} rows, drawn at random. {asked}",
            "Recall is the share of the true nearest that a search finds, as it is to be expected "
            "on all rows: the true neighbours of every query were found among all rows by an exact "
            "search and put beside the sample, of which every row stands for "
            f"{trial.n_rows / n_sample:.3g}. Intervals are of a bootstrap over the queries.",
            "Times are CPU times of one thread: of the fit on the sample, per row encoded, and per "
            "query of a batch that searches the sample, so the last one grows with the rows. Bytes "
            "per vector are those of everything that a search needs, without the model; ours have "
            "8 bytes of an id among them, and those of FAISS none.",
        ]
        if self.baselines:
            notes.append(
                "Graphs of FAISS (HNSW) are measured among the rows of the sample alone, which is "
                "easier than among all; their oversample is efSearch / k."
            )
        return tuple(notes)
