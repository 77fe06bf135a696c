"""Averaged stochastic gradient descent on hashed weights, one row per step.

Step t has the size η_t = η₀ / √(1 + α·η₀·t), with η₀ = 4 / mean ‖x‖². It goes no farther than to
where the loss of its row would be 0 (the implicit, or proximal, method), so η₀ needs no tuning and
rows may have any scale. How far that is holds on average over hashes: where features of one row
share a bucket, a step may end a little before or beyond.

After every step weights shrink by 1 / (1 + α·η_t), the L2 penalty. Tables keep them as `scale` ·
`weights`, so that this is one product, and the sum of the weights after all steps as `sums` +
`carried` · `weights`, so that the average needs no pass over the table per step either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Batch
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import LEAST_SCALE, HeshingTables, Tree, learn_rows_into, work_for
from bitkin.learn.heshing.rows import longest_row, to_kernel_rows
from bitkin.learn.heshing.scoring import beam_width, path_factor

_FIRST_STEP = 4.0  # over the mean squared length of a row: mostly cut short by the proximal limit
_CHUNK_ROWS = 4096
_CHUNK_STEPS = 1 << 16
_CHUNK_VALUES = 1 << 22  # of dense rows

# rows of a length of 1e-15, the shortest there are, leave some of 1e21
_LARGEST_WEIGHT = np.float32(2.0**100)
_SCALE, _CARRIED, _AVERAGED, _STEPS, _LOSS = range(5)  # places in `HeshingTables.numbers`


@dataclass(frozen=True)
class LearningMethod:
    """How to learn, whatever the classes; see `HeshingClassifier`."""

    softmax: bool
    average: bool
    alpha: float
    mean_square: float
    """Of the lengths of rows."""
    intercept: float
    """The value of the constant feature; 0 where there is none."""


@dataclass(frozen=True)
class TrainingPlan:
    """All that decides what is learned from given rows."""

    tree: Tree
    n_buckets: int
    """Weights of a level."""
    method: LearningMethod
    beam: int | None
    """How many nodes of a level to continue with; None for all."""
    max_iter: int
    seed: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled, read-only as before: for arrays that can be written kernels
        would be compiled again.
        """
        tree = Tree._make(read_only(array) for array in state["tree"])
        self.__dict__.update(state, tree=tree)


@dataclass(frozen=True)
class LabelledRows:
    """Rows and their classes, by number."""

    batch: Batch
    classes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, row_numbers: npt.NDArray[np.int64]) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.batch[row_numbers], self.classes[row_numbers])


def start_tables(
    weights: npt.NDArray[np.float32], *, steps: int = 0, average: bool
) -> HeshingTables:
    """Return tables that continue from these weights after so many steps; their average starts
    here.
    """
    sums = np.zeros(weights.shape if average else (1, 1), dtype=np.float32)
    return HeshingTables(weights, sums, np.array([1.0, 0.0, 0.0, steps, 0.0]))


def last_weights(tables: HeshingTables) -> npt.NDArray[np.float64]:
    """Return the weights after the last step."""
    return tables.weights * np.float64(tables.numbers[_SCALE])


def summed_weights(tables: HeshingTables) -> npt.NDArray[np.float64] | None:
    """Return the sum of the weights after every step since the average started; None where it is
    not kept.
    """
    weights, sums, numbers = tables
    if sums.shape != weights.shape:
        return None
    return sums + np.float64(numbers[_CARRIED]) * weights


def shrink_factors(plan: TrainingPlan, first_step: int, n_steps: int) -> tuple[float, float]:
    """Return by how much the penalty alone shrinks a weight in some steps, and the mean of what is
    left after each of them.
    """
    alpha, first = plan.method.alpha, _FIRST_STEP / plan.method.mean_square
    factor, total = 1.0, 0.0
    for start in range(first_step, first_step + n_steps, _CHUNK_STEPS):
        t = np.arange(start, min(start + _CHUNK_STEPS, first_step + n_steps), dtype=np.float64)
        # as the kernel does: w / (1 + α·η_t), with η_t = η₀ / √(1 + α·η₀·t)
        left = factor * np.cumprod(1.0 / (1.0 + alpha * first / np.sqrt(1.0 + alpha * first * t)))
        factor, total = float(left[-1]), total + float(left.sum())
    return factor, total / max(1, n_steps)


def copy_tables(tables: HeshingTables) -> HeshingTables:
    """Return tables with memory of their own."""
    return HeshingTables(tables.weights.copy(), tables.sums.copy(), tables.numbers.copy())


def deepen_tables(tables: HeshingTables, n_levels: int) -> HeshingTables:
    """Return tables for so many levels below the root, which give the same scores; the same tables
    where they fit.
    """
    weights, sums, numbers = tables
    if n_levels == len(weights):
        return tables
    # Scores are 1/√T times a sum over levels. T grows to n_levels + 1, so the weights grow by the
    # root of the ratio, and new levels add 0.
    factor = np.float32(math.sqrt((n_levels + 1) / (len(weights) + 1)))
    more = ((0, n_levels - len(weights)), (0, 0))
    all_sums = np.pad(sums * factor, more) if sums.shape == weights.shape else sums
    return HeshingTables(np.pad(weights * factor, more), all_sums, numbers.copy())


def finish_weights(tables: HeshingTables) -> npt.NDArray[np.float32]:
    """Return the weights to predict with: the average of those after every step where it is kept,
    else the last.
    """
    weights, sums, numbers = tables
    if sums.shape != weights.shape or not numbers[_AVERAGED]:
        return weights * np.float32(numbers[_SCALE])
    # (carried · weights + sums) / steps averaged
    finished = weights * np.float32(numbers[_CARRIED])
    finished += sums  # in place: tables may be large
    finished *= np.float32(1.0 / numbers[_AVERAGED])
    return finished


def steps_of(tables: HeshingTables) -> int:
    """Return how many rows were learned, repeats counted."""
    return int(tables.numbers[_STEPS])


def loss_of(tables: HeshingTables) -> float:
    """Return the sum of all losses, each as it was before its step."""
    return float(tables.numbers[_LOSS])


def are_possible(tables: HeshingTables) -> bool:
    """Tell whether learning could have left tables like these."""
    if not np.isfinite(tables.numbers).all():
        return False
    scale, carried, averaged, steps, loss = tables.numbers.tolist()
    counted = averaged.is_integer() and steps.is_integer() and 0 <= averaged <= steps and loss >= 0
    # Carried is a sum of one scale per averaged step, and no scale is above 1.
    scaled = LEAST_SCALE <= scale <= 1 and 0 <= carried <= averaged * (1 + 1e-9)
    return (
        counted
        and scaled
        and are_weights(tables.weights)
        and all(np.isfinite(level).all() for level in tables.sums)
    )


def are_weights(weights: npt.NDArray[np.float32]) -> bool:
    """Tell whether learning could have left weights like these: finite, and far from where float32
    ends.
    """
    return all((np.abs(level) <= _LARGEST_WEIGHT).all() for level in weights)


def learn_rows(
    tables: HeshingTables,
    plan: TrainingPlan,
    data: LabelledRows,
    order: npt.NDArray[np.int64],
    report: Callable[[int], object] | None = None,
) -> float:
    """Learn rows `order` of `data`, one after another, and return the sum of their losses, each as
    it was before its step; `report` is called with the rows done.
    """
    method = plan.method
    loss_before = float(tables.numbers[_LOSS])
    chunk = chunk_rows(data.batch)
    for first in range(0, len(order), chunk):
        part = data.take(order[first : first + chunk])
        rows = to_kernel_rows(part.batch)
        learn_rows_into(
            rows,
            read_only(part.classes),
            plan.tree,
            tables,
            method.softmax,
            method.alpha,
            _FIRST_STEP / method.mean_square,
            method.average,
            path_factor(tables.weights),
            method.intercept,
            beam_width(plan.tree, plan.beam),
            work_for(len(plan.tree.seeds), longest_row(rows)),
        )
        if report is not None:
            report(first + len(part))
    return float(tables.numbers[_LOSS]) - loss_before


def chunk_rows(batch: Batch, *, dense: bool = False) -> int:
    """Return how many rows to prepare at once; `dense` where sparse ones become dense."""
    if issparse(batch) and not dense:
        return _CHUNK_ROWS
    return max(1, min(_CHUNK_ROWS, _CHUNK_VALUES // int(batch.shape[1])))
