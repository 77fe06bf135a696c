"""The tables of a model while it learns: weights, what their average needs, and how far it has
come.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bitkin.kernels.heshing import LEAST_SCALE, Tables

# rows of a length of 1e-15, the shortest there are, leave some of 1e21
_LARGEST_WEIGHT = np.float32(2.0**100)
_SCALE, _CARRIED, _AVERAGED, _STEPS, _LOSS = range(5)


def new_tables(n_levels: int, n_buckets: int, *, average: bool) -> Tables:
    """Return tables of zeros for the levels below the root."""
    return resumed_tables(np.zeros((n_levels, n_buckets), dtype=np.float32), 0, average=average)


def resumed_tables(weights: npt.NDArray[np.float32], steps: int, *, average: bool) -> Tables:
    """Return tables that go on from these weights after so many steps; an average starts anew."""
    sums = np.zeros(weights.shape if average else (1, 1), dtype=np.float32)
    return Tables(weights, sums, np.array([1.0, 0.0, 0.0, steps, 0.0]))


def are_possible(tables: Tables) -> bool:
    """Tell whether learning could have left tables like these."""
    if not np.isfinite(tables.numbers).all():
        return False
    scale, carried, averaged, steps, loss = tables.numbers.tolist()
    counted = averaged.is_integer() and steps.is_integer() and 0 <= averaged <= steps and loss >= 0
    scaled = LEAST_SCALE <= scale <= 1 and 0 <= carried <= averaged * (1 + 1e-9)  # a sum of scales
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


def copied(tables: Tables) -> Tables:
    """Return tables with memory of their own."""
    return Tables(tables.weights.copy(), tables.sums.copy(), tables.numbers.copy())


def finished_weights(tables: Tables) -> npt.NDArray[np.float32]:
    """Return the weights to predict with: the average of those after every step where it is kept,
    else the last.
    """
    weights, sums, numbers = tables
    if sums.shape != weights.shape or not numbers[_AVERAGED]:
        return weights * np.float32(numbers[_SCALE])
    finished = weights * np.float32(numbers[_CARRIED])
    finished += sums  # in place: tables may be large
    finished *= np.float32(1.0 / numbers[_AVERAGED])
    return finished


def deepened(tables: Tables, n_levels: int) -> Tables:
    """Return tables for so many levels below the root, the same scores coming from them; the same
    where they fit.
    """
    weights, sums, numbers = tables
    if n_levels == len(weights):
        return tables
    # against 1/√T, which has become less
    factor = np.float32(math.sqrt((n_levels + 1) / (len(weights) + 1)))
    more = ((0, n_levels - len(weights)), (0, 0))
    kept = np.pad(sums * factor, more) if sums.shape == weights.shape else sums
    return Tables(np.pad(weights * factor, more), kept, numbers.copy())


def steps_of(tables: Tables) -> int:
    """Return how many rows were learned, repeats counted."""
    return int(tables.numbers[_STEPS])


def loss_of(tables: Tables) -> float:
    """Return the sum of all losses, each as it was before its step."""
    return float(tables.numbers[_LOSS])
