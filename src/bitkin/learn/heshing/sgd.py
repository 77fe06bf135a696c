"""Averaged stochastic gradient descent on hashed weights: passes over shuffled rows, one row a
step.

A step goes no farther than to where the loss of its row would be 0 (the implicit, or proximal,
method), so its first size needs no tuning and rows may have any scale; it falls with one over the
root of the steps taken. How far that is holds on average over hashes: where features of one row
share a bucket, a step may end a little before or beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Batch
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import Tables, Tree, learn_rows_into, work_for
from bitkin.learn.heshing.progress import Progress
from bitkin.learn.heshing.scoring import Scorer, beam_width, longest_row, rows_of
from bitkin.learn.heshing.tables import finished_weights, loss_of, new_tables, steps_of
from bitkin.randomness import Draws

_FIRST_STEP = 4.0  # over the mean squared length of a row: mostly cut short by the proximal limit
_CHUNK_ROWS = 4096
_CHUNK_NUMBERS = 1 << 22
_PATIENCE = 2  # passes without a better error before training stops early


@dataclass(frozen=True)
class Method:
    """How to learn, whatever the classes; see `HeshingClassifier`."""

    softmax: bool
    average: bool
    alpha: float
    mean_square: float
    """Of the lengths of rows."""
    intercept: float
    """The value of the constant feature; 0 where there is none."""

    @property
    def first_step(self) -> float:
        """The largest step."""
        return _FIRST_STEP / self.mean_square


@dataclass(frozen=True)
class Labelled:
    """Rows and their classes, by number."""

    batch: Batch
    classes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, numbers: npt.NDArray[np.int64]) -> Labelled:
        """Return some of the rows."""
        return Labelled(self.batch[numbers], self.classes[numbers])


def chunk_rows(batch: Batch) -> int:
    """Return how many rows to make ready at once."""
    return (
        _CHUNK_ROWS
        if issparse(batch)
        else max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // batch.shape[1]))
    )


def learn_in_order(
    tables: Tables,
    tree: Tree,
    method: Method,
    data: Labelled,
    order: npt.NDArray[np.int64],
    beam: int | None,
    told: Callable[[int], object] | None = None,
) -> None:
    """Learn rows `order` of `data`, one after another; `told` is called with the rows done."""
    factor = 1.0 / math.sqrt(len(tables.weights) + 1)
    step = chunk_rows(data.batch)
    for first in range(0, len(order), step):
        part = data.take(order[first : first + step])
        rows = rows_of(part.batch)
        learn_rows_into(
            rows,
            read_only(part.classes),
            tree,
            tables,
            method.softmax,
            method.alpha,
            method.first_step,
            method.average,
            factor,
            method.intercept,
            beam_width(tree, beam),
            work_for(len(tree.seeds), longest_row(rows)),
        )
        if told is not None:
            told(first + len(part))


@dataclass(frozen=True)
class Trained:
    """What training came to."""

    weights: npt.NDArray[np.float32]
    """To predict with: those after the last pass, or after the one with the least error on held-out
    rows.
    """
    steps: int
    """Taken until then."""
    losses: list[float]
    """Mean loss of a row, by pass, each row's before its step."""


def train(
    data: Labelled,
    tree: Tree,
    n_buckets: int,
    method: Method,
    *,
    max_iter: int,
    beam: int | None,
    seed: int,
    held_out: Labelled | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Learn in up to `max_iter` passes, each in an order of its own; fewer where the held-out error
    stops falling.

    The pass with the least error then counts, the earliest of equal ones.
    """
    tables = new_tables(int(tree.levels[-1]) + 1, n_buckets, average=method.average)
    draws = Draws(seed, "heshing order")
    losses: list[float] = []
    errors: list[float] = []
    best: tuple[npt.NDArray[np.float32], int] | None = None
    n = len(data)
    for number in range(max_iter):
        loss_before = loss_of(tables)

        def told(done: int, before: int = number * n) -> None:
            if progress is not None:
                progress(before + done, max_iter * n)

        learn_in_order(tables, tree, method, data, draws.permutation(n), beam, told)
        losses.append((loss_of(tables) - loss_before) / n)
        if held_out is not None:
            weights = finished_weights(tables)
            errors.append(error_of(weights, tree, method, held_out, beam))
            if errors[-1] < min(errors[:-1], default=math.inf):
                best = weights, steps_of(tables)
            if len(errors) - 1 - int(np.argmin(errors)) >= _PATIENCE:
                break
    if progress is not None and steps_of(tables) < max_iter * n:
        progress(max_iter * n, max_iter * n)
    weights, steps = best or (finished_weights(tables), steps_of(tables))
    return Trained(weights, steps, losses)


def error_of(
    weights: npt.NDArray[np.float32], tree: Tree, method: Method, data: Labelled, beam: int | None
) -> float:
    """Return the share of rows that these weights put into a wrong class."""
    scorer = Scorer(tree, weights, 1.0 / math.sqrt(len(weights) + 1), method.intercept)
    step = chunk_rows(data.batch)
    wrong = 0
    for first in range(0, len(data), step):
        part = data.take(np.arange(first, min(first + step, len(data))))
        best, _ = scorer.best(rows_of(part.batch), 1, beam)
        wrong += int((best[:, 0] != part.classes).sum())
    return wrong / max(1, len(data))
