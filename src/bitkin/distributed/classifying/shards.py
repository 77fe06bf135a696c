"""Shards: the rows that one virtual machine learns, a group of neighbouring pieces, and what the
workers do with them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.distributed.classifying.pieces import LabelledPiece
from bitkin.distributed.cluster import block
from bitkin.io.vectors.batch import stack
from bitkin.kernels.heshing import HeshingTables
from bitkin.learn.heshing.held_out import HELD_OUT_SHARE, search_alpha, split_rows
from bitkin.learn.heshing.mixing import LearnedPart, add_parts, compare_tables
from bitkin.learn.heshing.rows import measure_rows
from bitkin.learn.heshing.sgd import LabelledRows, TrainingPlan, start_tables
from bitkin.learn.heshing.training import (
    TrainingResult,
    count_wrong,
    learn_pass,
    train,
)


class Shard(NamedTuple):
    """Rows to learn, and those held out for early stopping, if any."""

    learned: LabelledRows
    held_out: LabelledRows | None


class ShardFacts(NamedTuple):
    """What the client knows of a shard."""

    n_learned: int
    n_held_out: int
    class_counts: npt.NDArray[np.int64]
    """Of the rows to learn."""


def group_pieces(counts: Sequence[int], n_shards: int) -> list[list[int]]:
    """Return the numbers of the pieces of every shard: neighbours, of about equally many rows
    together. A piece is never cut, so there may be fewer shards.
    """
    total = sum(counts)
    groups: dict[int, list[int]] = {}
    for number, (count, stop) in enumerate(zip(counts, accumulate(counts), strict=True)):
        # the shard that the middle row of the piece falls in; whole numbers, so never rounded
        groups.setdefault((2 * stop - count) * n_shards // (2 * total), []).append(number)
    return [groups[shard] for shard in sorted(groups)]


@block
def join_pieces(pieces: list[LabelledPiece]) -> LabelledPiece:
    """Return the rows of some pieces together, and their labels."""
    if len(pieces) == 1:
        return pieces[0]
    labels = [label for piece in pieces for label in piece.labels]
    return LabelledPiece(stack([piece.rows for piece in pieces]), labels)


@block
def measure_lengths(joined: LabelledPiece) -> tuple[float, int]:
    """Return Σ ‖x‖² and how many rows have a feature."""
    measured = measure_rows(joined.rows)
    return measured.squares, measured.n_filled


@block
def number_rows(joined: LabelledPiece, places: dict[Hashable, int]) -> LabelledRows:
    """Return rows and their classes by number."""
    classes = [places[label] for label in joined.labels]
    return LabelledRows(joined.rows, np.array(classes, dtype=np.int32))


@block
def take_rows(rows: LabelledRows, row_numbers: npt.NDArray[np.int64]) -> LabelledRows:
    """Return some of the rows of a shard."""
    return rows.take(row_numbers)


@block
def try_alphas(
    parts: list[LabelledRows], order: npt.NDArray[np.int64], plan: TrainingPlan
) -> float:
    """Return the strength chosen on the sampled rows of all shards."""
    batch = parts[0].batch if len(parts) == 1 else stack([part.batch for part in parts])
    sample = LabelledRows(batch, np.concatenate([part.classes for part in parts]))
    return search_alpha(plan, sample, order)


@block
def split_shard(rows: LabelledRows, seed: int, number: int, *, early_stopping: bool) -> Shard:
    """Put rows aside where training may stop early."""
    if not early_stopping:
        return Shard(rows, None)
    learned, held_out = split_rows(
        rows,
        HELD_OUT_SHARE,
        seed,
        f"early stopping, shard {number}" if number else "early stopping",
    )
    return Shard(learned, held_out if len(held_out) else None)


@block
def describe_shard(shard: Shard, n_classes: int) -> ShardFacts:
    """Return what the client has to know of a shard."""
    n_held_out = 0 if shard.held_out is None else len(shard.held_out)
    class_counts = np.bincount(shard.learned.classes, minlength=n_classes)
    return ShardFacts(len(shard.learned), n_held_out, class_counts)


@block
def train_alone(shard: Shard, plan: TrainingPlan) -> TrainingResult[npt.NDArray[np.float32]]:
    """Learn the only shard there is, as one machine does."""
    return train(plan, shard.learned, shard.held_out)


@block
def learn_shard(
    shard: Shard,
    common: npt.NDArray[np.float32],
    plan: TrainingPlan,
    iteration: int,
    number: int,
) -> HeshingTables:
    """Return what a pass over a shard makes of the common weights."""
    n = len(shard.learned)
    # a copy: other tasks have the same weights
    tables = start_tables(common.copy(), steps=iteration * n, average=plan.method.average)
    learn_pass(tables, plan, shard.learned, iteration, shard=number)
    return tables


@block
def compare_shards(
    learned: list[HeshingTables],
    common: npt.NDArray[np.float32],
    plan: TrainingPlan,
    iteration: int,
    counts: list[int],
) -> LearnedPart:
    """Return what some shards, of so many rows, have learned in a pass, added in their order."""
    return add_parts(
        compare_tables(common, tables, plan, n, iteration * n)
        for tables, n in zip(learned, counts, strict=True)
    )


@block
def add_shards(parts: list[LearnedPart]) -> LearnedPart:
    """Return what some parts have learned, added in their order."""
    return add_parts(parts)


@block
def count_errors(shard: Shard, weights: npt.NDArray[np.float32], plan: TrainingPlan) -> int:
    """Return how many held-out rows of a shard are put into a wrong class."""
    return 0 if shard.held_out is None else count_wrong(weights, plan, shard.held_out)
