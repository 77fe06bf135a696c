"""Learning in one pass, row after row: every weight has a step of its own, which shrinks with what
is known of it.

The loss is the softmax's; with "hinge" it is log Σ exp(s_c + [c ≠ y]) − s_y, which bounds that
hinge from above and is smooth. A weight has a precision: that of the start, 30 · alpha, and the
curvature p·(1 − p)·x²/T of the loss in every row that moved it. A step is half of Newton's, half
the gradient over the precision. So a rare feature or a new class moves far, a well known one
hardly, and neither the scale of the features nor the number of rows to come has to be known.

Predictions take an average of the weights over about the last fifth of the rows, at most 2,000.

Features of narrow dense rows share a direction, their mean, along which the newest class would push
all others away, so such rows are centred by the mean of the rows so far.

A row more than 10 times as long as rows so far are, as centred, is pulled back to that before it
counts anywhere: one wild row would else be all that the means and the precisions know.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import (
    LEAST_DECAY,
    MOST_PRECISION,
    OnlineTables,
    learn_online_into,
    work_for,
)
from bitkin.learn.heshing.rows import longest_row, to_kernel_rows
from bitkin.learn.heshing.scoring import beam_width, path_factor
from bitkin.learn.heshing.sgd import LabelledRows, TrainingPlan, are_weights, chunk_rows

_START_ROWS = 30.0  # the start is as precise as the L2 penalty of so many rows would make it
_HINGE_MARGIN = 1.0
_MOST_CENTERED = 4096  # columns: centred rows have a value in each
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_LEAST_FILLED = 0.125  # share of the columns that the first row fills, for rows to be centred
_DECAY, _ROWS, _LOSS, _SQUARES, _LEARNED, _CENTERED = range(6)  # places in `OnlineTables.numbers`


def start_online(shape: tuple[int, int], first_rows: Batch, *, average: bool) -> OnlineTables:
    """Return tables of this shape that have learned nothing; the first row with a feature decides
    whether rows are centred.
    """
    n_features = int(first_rows.shape[1])
    is_centered = n_features <= _MOST_CENTERED and _starts_dense(first_rows)
    return OnlineTables(
        weights=np.zeros(shape, dtype=np.float32),
        precisions=np.zeros(shape, dtype=np.float32),
        sums=np.zeros(shape if average else (1, 1), dtype=np.float32),
        numbers=np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        feature_sums=np.zeros(n_features if is_centered else 0, dtype=np.float64),
    )


def copy_online(tables: OnlineTables) -> OnlineTables:
    """Return tables with memory of their own."""
    return OnlineTables._make(array.copy() for array in tables)


def deepen_online(tables: OnlineTables, n_levels: int) -> OnlineTables:
    """Return tables for so many levels below the root, which give the same scores; the same tables
    where they fit.
    """
    n_before = len(tables.weights)
    if n_levels == n_before:
        return tables
    # Scores are 1/√T times a sum over levels: weights grow by the root of the ratio of both T, and
    # what is known of them, a square of Ψ, shrinks by the ratio. New levels add 0.
    ratio = (n_levels + 1) / (n_before + 1)
    factor = np.float32(math.sqrt(ratio))
    more = ((0, n_levels - n_before), (0, 0))
    averaged = tables.sums.shape == tables.weights.shape
    return tables._replace(
        weights=np.pad(tables.weights * factor, more),
        precisions=np.pad(tables.precisions / np.float32(ratio), more),
        sums=np.pad(tables.sums * factor, more) if averaged else tables.sums,
    )


def finish_online(tables: OnlineTables) -> npt.NDArray[np.float32]:
    """Return the weights to predict with: the average where it is kept, else the last."""
    if tables.sums.shape != tables.weights.shape:
        return tables.weights.copy()
    # weights + decay · sums
    finished = tables.sums * np.float32(tables.numbers[_DECAY])
    finished += tables.weights
    return finished


def mean_of(tables: OnlineTables) -> npt.NDArray[np.float32] | None:
    """Return the mean of the rows met, which is subtracted from all rows; None where it is not."""
    if not tables.feature_sums.size:
        return None
    mean = tables.feature_sums / max(1.0, tables.numbers[_CENTERED])
    small: npt.NDArray[np.float32] = mean.astype(np.float32)
    return small


def rows_met(tables: OnlineTables) -> int:
    """Return how many rows were learned, those without a feature counted."""
    return int(tables.numbers[_ROWS])


def mean_square_of(tables: OnlineTables) -> float | None:
    """Return the mean squared length of the rows learned, as centred; None before the first."""
    n = tables.numbers[_LEARNED]
    return float(tables.numbers[_SQUARES] / n) if n else None


def are_possible_online(tables: OnlineTables) -> bool:
    """Tell whether learning could have left tables like these."""
    if not np.isfinite(tables.numbers).all():
        return False
    decay, met, loss, squares, learned, centered = tables.numbers.tolist()
    counts = (met, learned, centered)
    counted = all(count.is_integer() and 0 <= count <= met for count in counts)
    measured = loss >= 0 and squares >= 0 and (squares > 0) == (learned > 0)
    if not (counted and measured and LEAST_DECAY <= decay <= 1):
        return False
    return (
        are_weights(tables.weights)
        and all(np.isfinite(level).all() for level in tables.sums)
        and all(((level >= 0) & (level <= 2 * MOST_PRECISION)).all() for level in tables.precisions)
        # means in float32 of as many rows
        and bool((np.abs(tables.feature_sums) <= centered * _LARGEST_FLOAT32).all())
    )


def learn_online(
    tables: OnlineTables, plan: TrainingPlan, data: LabelledRows, *, own_alpha: bool
) -> None:
    """Learn all rows of `data`, one after another; without an alpha of its own the start follows
    the lengths of the rows.
    """
    method = plan.method
    start = _START_ROWS * (method.alpha if own_alpha else method.alpha / method.mean_square)
    chunk = chunk_rows(data.batch, dense=bool(tables.feature_sums.size))
    for first in range(0, len(data), chunk):
        part = data.take(np.arange(first, min(first + chunk, len(data))))
        rows = to_kernel_rows(part.batch)
        learn_online_into(
            rows,
            read_only(part.classes),
            plan.tree,
            tables,
            0.0 if method.softmax else _HINGE_MARGIN,
            start,
            not own_alpha,
            method.average,
            path_factor(tables.weights),
            method.intercept != 0.0,
            beam_width(plan.tree, plan.beam),
            # centred rows have a value in each column
            work_for(len(plan.tree.seeds), max(longest_row(rows), tables.feature_sums.size)),
        )


def _starts_dense(batch: Batch) -> bool:
    """Tell whether the first row with a feature has many."""
    rows = to_kernel_rows(batch)
    sizes = np.diff(rows.indptr)
    first = sizes[np.argmax(sizes > 0)] if len(sizes) else 0
    return bool(first >= _LEAST_FILLED * batch.shape[1])
