"""Passes over shuffled rows, until there have been enough or the held-out error stops falling: over
rows in memory, or wherever else they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bitkin.kernels.heshing import HeshingTables
from bitkin.learn.heshing.rows import to_kernel_rows
from bitkin.learn.heshing.scoring import ClassScorer
from bitkin.learn.heshing.sgd import (
    LabelledRows,
    TrainingPlan,
    chunk_rows,
    finish_weights,
    learn_rows,
    start_tables,
)
from bitkin.randomness import Draws

Progress = Callable[[int, int], object]
"""Called with the rows learned and those to learn in all."""
AlphaProgress = Callable[[int, int, int], object]
"""Called with the number of a trial, from 1, the rows it has learned and those it will."""
Report = Callable[[int], object]
"""Called with the rows of a pass that are done."""
Weights = TypeVar("Weights")

_PATIENCE = 2  # passes without a better error before training stops early


@dataclass(frozen=True)
class TrainingResult(Generic[Weights]):
    """What training came to."""

    weights: Weights
    """To predict with: those after the last pass, or after the one with the least error on held-out
    rows.
    """
    steps: int
    """Rows learned until then, repeats counted."""
    losses: list[float]
    """Mean loss per row, by pass, each row's before its step."""


class PassLearner(Protocol[Weights]):
    """Rows, wherever they are, and the tables that learn them."""

    @property
    def n_rows(self) -> int:
        """Rows that a pass learns."""

    @property
    def holds_out(self) -> bool:
        """Whether there are rows to measure errors on."""

    def learn_pass(self, iteration: int, report: Report | None) -> float:
        """Learn all rows once more, in a new order; return the sum of the losses."""

    def finish(self) -> Weights:
        """Return the weights to predict with now."""

    def error(self, weights: Weights) -> float:
        """Return the share of held-out rows that are put into a wrong class."""


class LearnerHere:
    """Rows in memory, learned in one thread."""

    def __init__(
        self, plan: TrainingPlan, data: LabelledRows, held_out: LabelledRows | None = None
    ) -> None:
        self.n_rows = len(data)
        self.holds_out = held_out is not None
        self._plan, self._data, self._held_out = plan, data, held_out
        n_levels = int(plan.tree.levels[-1]) + 1
        zeros = np.zeros((n_levels, plan.n_buckets), dtype=np.float32)
        self._tables = start_tables(zeros, average=plan.method.average)

    def learn_pass(self, iteration: int, report: Report | None) -> float:
        """Learn all rows once more, in a new order; return the sum of the losses."""
        return learn_pass(self._tables, self._plan, self._data, iteration, report=report)

    def finish(self) -> npt.NDArray[np.float32]:
        """Return the weights to predict with now."""
        return finish_weights(self._tables)

    def error(self, weights: npt.NDArray[np.float32]) -> float:
        """Return the share of held-out rows that are put into a wrong class."""
        return 0.0 if self._held_out is None else measure_error(weights, self._plan, self._held_out)


def train(
    plan: TrainingPlan,
    data: LabelledRows,
    held_out: LabelledRows | None = None,
    progress: Progress | None = None,
) -> TrainingResult[npt.NDArray[np.float32]]:
    """Learn rows in memory; see `make_passes`."""
    return make_passes(LearnerHere(plan, data, held_out), plan.max_iter, progress)


def make_passes(
    learner: PassLearner[Weights], max_iter: int, progress: Progress | None
) -> TrainingResult[Weights]:
    """Learn in up to `max_iter` passes, each in an order of its own; fewer where the held-out error
    stops falling.

    The pass with the least error then counts, the earliest of equal ones.
    """
    losses: list[float] = []
    errors: list[float] = []
    best: tuple[Weights, int] | None = None
    n = learner.n_rows
    n_in_all = max_iter * n
    for iteration in range(max_iter):
        report: Report | None = None
        if progress is not None:
            report = _report_from(progress, iteration * n, n_in_all)
        losses.append(learner.learn_pass(iteration, report) / n)
        if learner.holds_out:
            weights = learner.finish()
            errors.append(learner.error(weights))
            # strictly less: of equal passes the earliest counts
            if errors[-1] < min(errors[:-1], default=math.inf):
                best = weights, len(losses) * n
            if len(errors) - 1 - int(np.argmin(errors)) >= _PATIENCE:
                break
    if progress is not None and len(losses) < max_iter:  # stopped early: the rest is done too
        progress(n_in_all, n_in_all)
    weights, steps = best or (learner.finish(), len(losses) * n)
    return TrainingResult(weights, steps, losses)


def learn_pass(
    tables: HeshingTables,
    plan: TrainingPlan,
    data: LabelledRows,
    iteration: int,
    *,
    shard: int = 0,
    report: Report | None = None,
) -> float:
    """Learn all rows once, in the order that this pass has in this shard, and return the sum of the
    losses. One machine is shard 0.
    """
    draws = Draws(plan.seed, f"heshing order, shard {shard}" if shard else "heshing order")
    for _ in range(iteration):  # those of earlier passes: far faster than a pass
        draws.words(len(data))
    return learn_rows(tables, plan, data, draws.permutation(len(data)), report)


def measure_error(
    weights: npt.NDArray[np.float32], plan: TrainingPlan, data: LabelledRows
) -> float:
    """Return the share of rows that these weights put into a wrong class."""
    return count_wrong(weights, plan, data) / max(1, len(data))


def count_wrong(weights: npt.NDArray[np.float32], plan: TrainingPlan, data: LabelledRows) -> int:
    """Return how many rows these weights put into a wrong class."""
    scorer = ClassScorer(plan.tree, weights, plan.method.intercept)
    chunk = chunk_rows(data.batch)
    n_wrong = 0
    for first in range(0, len(data), chunk):
        part = data.take(np.arange(first, min(first + chunk, len(data))))
        best, _ = scorer.best(to_kernel_rows(part.batch), 1, plan.beam)
        n_wrong += int((best[:, 0] != part.classes).sum())
    return n_wrong


def _report_from(progress: Progress, n_before: int, n_in_all: int) -> Report:
    """Return what to call while a pass learns."""
    return lambda n_done: progress(n_before + n_done, n_in_all)
