"""Rows held out to measure on: for early stopping, and for `alpha="auto"`, the L2 strength with the
least error on them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bitkin.learn.heshing.sgd import LabelledRows, TrainingPlan
from bitkin.learn.heshing.training import AlphaProgress, Progress, measure_error, train
from bitkin.randomness import Draws

USUAL_ALPHA = 1e-4
"""For rows of length 1; the right strength grows with the square of their length."""

HELD_OUT_SHARE = 0.1
"""Of the rows, for early stopping."""

_STRENGTHS = (1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, USUAL_ALPHA, 3e-4, 1e-3, 3e-3, 1e-2)
_TRIAL_ROWS = 20_000  # at most: enough for a choice among strengths a factor of 3 apart
_TRIAL_PASSES = 5  # at most
_TRIAL_SHARE = 0.2  # of the rows of a trial, held out


def split_rows(
    data: LabelledRows, share: float, seed: int, purpose: str, most: int | None = None
) -> tuple[LabelledRows, LabelledRows]:
    """Return the rows to learn and those held out, drawn at random from at most `most` rows in all.

    Rows are put aside evenly along the classes, so that each gives its share, at most half, to
    within one row. Classes of one row keep it; where there are no others, nothing is held out.
    Every purpose has draws of its own.
    """
    order = draw_order(len(data), seed, purpose, most)
    return split_in_order(data, order, share)


def draw_order(
    n_rows: int, seed: int, purpose: str, most: int | None = None
) -> npt.NDArray[np.int64]:
    """Return at most `most` of the row numbers, in random order, without room for all of them."""
    draws = Draws(seed, f"heshing held out for {purpose}")
    return draws.permutation_head(n_rows, n_rows if most is None else min(most, n_rows))


def split_in_order(
    data: LabelledRows, order: npt.NDArray[np.int64], share: float
) -> tuple[LabelledRows, LabelledRows]:
    """Return the rows of `order` to learn and those held out; see `split_rows`."""
    classes = data.classes[order]
    order = order[np.argsort(classes, kind="stable")]
    several = np.bincount(classes)[data.classes[order]] > 1
    n_several = int(several.sum())
    n_held = max(1, round(share * n_several)) if n_several else 0
    # Places (i + ½) · n_several / n_held, rounded down: equally far apart in the rows sorted by
    # class, so every class meets its share of them.
    places = np.flatnonzero(several)[
        ((np.arange(n_held) + 0.5) * n_several / max(1, n_held)).astype(np.int64)
    ]
    held = np.zeros(len(order), dtype=np.bool_)
    held[places] = True
    return data.take(np.sort(order[~held])), data.take(np.sort(order[held]))


def draw_trial_rows(n_rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that `choose_alpha` needs of so many, in the order it takes
    them.
    """
    return draw_order(n_rows, seed, "alpha", _TRIAL_ROWS)


def choose_alpha(
    plan: TrainingPlan, data: LabelledRows, progress: AlphaProgress | None = None
) -> float:
    """Return the strength to use, searched downhill from the usual one in steps of about three.

    Strengths are learned with fewer passes than the model will make, and of equal ones the larger
    is taken. `progress` is called for every trial.
    """
    return search_alpha(plan, data, draw_trial_rows(len(data), plan.seed), progress)


def search_alpha(
    plan: TrainingPlan,
    data: LabelledRows,
    order: npt.NDArray[np.int64],
    progress: AlphaProgress | None = None,
) -> float:
    """Return the strength to use, tried on the rows of `order`; see `choose_alpha`."""
    grid = [strength * plan.method.mean_square for strength in _STRENGTHS]
    start = _STRENGTHS.index(USUAL_ALPHA)
    learned, held_out = split_in_order(data, order, _TRIAL_SHARE)
    if not len(held_out):
        return grid[start]

    trials = itertools.count(1)

    def error(place: int) -> float:
        trial = replace(
            plan,
            method=replace(plan.method, alpha=grid[place]),
            max_iter=min(plan.max_iter, _TRIAL_PASSES),
        )
        weights = train(trial, learned, progress=_trial_progress(progress, next(trials))).weights
        return measure_error(weights, trial, held_out)

    best, least = start, error(start)
    # Toward stronger penalties first, then toward weaker ones where no stronger one was better:
    # the error is taken to have one valley.
    for direction in (1, -1):
        place = best + direction
        while 0 <= place < len(grid):
            found = error(place)
            if found > least or (found == least and direction < 0):
                break
            best, least, place = place, found, place + direction
        if best != start:
            break
    return grid[best]


def _trial_progress(progress: AlphaProgress | None, trial: int) -> Progress | None:
    """Return what to call while a trial learns."""
    return None if progress is None else lambda learned, total: progress(trial, learned, total)
