"""Tables that learned different rows from the same start, mixed into one: iterative parameter
mixing.

Every pass starts everywhere from the common weights w. Shard k, of n_k rows, ends with w_k. A
weight that no row of it moved would only have shrunk, to φ_k·w with φ_k = Π 1/(1 + α·η_t), so what
the shard has learned is δ_k = w_k − φ_k·w. With N = Σ n_k the next common weights are

    w ← (Σ n_k·φ_k / N)·w + Σ n_k·δ_k / Σ {n_k : δ_k ≠ 0}, weight by weight:

the mean of all w_k where all have moved the weight; where only some have, for its words came to
them alone, the mean over those, and the others do not hold it back. The average over the steps of a
pass is mixed in the same way, with means over steps in place of what the last step leaves:

    w̄ = (Σ n_k·φ̄_k / N)·w + Σ n_k·δ̄_k / Σ {n_k : δ_k ≠ 0},  δ̄_k = w̄_k − φ̄_k·w.

Predictions take the mean of the w̄ of the last half of the passes: mixed weights settle later than
those of one machine, and early ones would hold them back.

A shard takes the steps η_t of its own rows: t counts what it has learned itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels.heshing import HeshingTables
from bitkin.learn.heshing.sgd import (
    TrainingPlan,
    last_weights,
    loss_of,
    shrink_factors,
    summed_weights,
)

_ROUNDING = 1e-6
"""Of a weight: what moved by less has only shrunk."""


_EXTRA_PASSES = 0.25
"""Of the passes asked for, for every doubling of the shards."""


class AveragedWeights(NamedTuple):
    """Averages of the weights over the steps of some passes, added up."""

    total: npt.NDArray[np.float64]
    n_passes: int


class LearnedPart(NamedTuple):
    """What some shards have learned in a pass, which adds up: all sums are over shards, times their
    rows.
    """

    rows: int
    loss: float
    kept: float
    """Σ n_k·φ_k"""
    kept_on_average: float
    """The same for the means over steps."""
    moved: npt.NDArray[np.float64]
    """Σ n_k·δ_k"""
    moved_on_average: npt.NDArray[np.float64] | None
    """None where no average is kept."""
    movers: npt.NDArray[np.int64]
    """Σ {n_k : δ_k ≠ 0}"""


def compare_tables(
    common: npt.NDArray[np.float32],
    learned: HeshingTables,
    plan: TrainingPlan,
    n_rows: int,
    first_step: int,
) -> LearnedPart:
    """Return what a shard of so many rows has learned since the common weights, from its step
    `first_step` on.
    """
    start = common.astype(np.float64)
    factor, mean_factor = shrink_factors(plan, first_step, n_rows)
    moved = last_weights(learned) - factor * start
    unmoved = np.abs(moved) <= _ROUNDING * np.abs(start)
    moved[unmoved] = 0.0
    sums = summed_weights(learned)
    if sums is not None:
        # n_k times the mean over steps is the sum over steps
        sums -= n_rows * mean_factor * start
        sums[unmoved] = 0.0
    return LearnedPart(
        rows=n_rows,
        loss=loss_of(learned),
        kept=n_rows * factor,
        kept_on_average=n_rows * mean_factor,
        moved=n_rows * moved,
        moved_on_average=sums,
        movers=np.where(unmoved, 0, n_rows),
    )


def add_parts(parts: Iterable[LearnedPart]) -> LearnedPart:
    """Return what several have learned, added in the order given."""
    return reduce(_add_two, parts)


def mix_weights(common: npt.NDArray[np.float32], total: LearnedPart) -> npt.NDArray[np.float32]:
    """Return the next common weights, from what all shards have learned."""
    mixed = common * (total.kept / total.rows) + total.moved / np.maximum(total.movers, 1)
    return mixed.astype(np.float32)


def mix_averages(
    common: npt.NDArray[np.float32], total: LearnedPart
) -> npt.NDArray[np.float32] | None:
    """Return the average of the mixed weights over the steps of the pass that began with the common
    weights; None where no average is kept.
    """
    moved = total.moved_on_average
    if moved is None:
        return None
    mixed = common * (total.kept_on_average / total.rows) + moved / np.maximum(total.movers, 1)
    return mixed.astype(np.float32)


def add_average(
    before: AveragedWeights | None, common: npt.NDArray[np.float32], total: LearnedPart
) -> AveragedWeights | None:
    """Return the averages of the passes before with that of the pass that began with the common
    weights; None where none are kept.
    """
    average = mix_averages(common, total)
    if average is None:
        return None
    if before is None:
        return AveragedWeights(average.astype(np.float64), 1)
    return AveragedWeights(before.total + average, before.n_passes + 1)


def finish_mixed(
    common: npt.NDArray[np.float32], average: AveragedWeights | None
) -> npt.NDArray[np.float32]:
    """Return the weights to predict with: the mean of the averages, else the last ones."""
    if average is None:
        return common
    return (average.total / average.n_passes).astype(np.float32)


def first_averaged(n_passes: int) -> int:
    """Return the first pass, from 0, that the final average takes in; before it, that of a pass is
    its own.
    """
    return n_passes // 2


def count_passes(max_iter: int, n_shards: int) -> int:
    """Return how many passes come about as far as `max_iter` passes of one machine."""
    return math.ceil(max_iter * (1 + _EXTRA_PASSES * math.log2(n_shards)))


def _add_two(one: LearnedPart, other: LearnedPart) -> LearnedPart:
    averages = one.moved_on_average, other.moved_on_average
    return LearnedPart(
        rows=one.rows + other.rows,
        loss=one.loss + other.loss,
        kept=one.kept + other.kept,
        kept_on_average=one.kept_on_average + other.kept_on_average,
        moved=one.moved + other.moved,
        moved_on_average=(
            None if averages[0] is None or averages[1] is None else averages[0] + averages[1]
        ),
        movers=one.movers + other.movers,
    )
