"""`alpha="auto"`: the L2 strength with the least error on rows held out for the purpose."""

from __future__ import annotations

import itertools
from dataclasses import replace

from bitkin.kernels.heshing import Tree
from bitkin.learn.heshing.held_out import split_rows
from bitkin.learn.heshing.progress import Choosing, of_trial
from bitkin.learn.heshing.sgd import Labelled, Method, error_of, train

USUAL_ALPHA = 1e-4
"""For rows of length 1; the right strength grows with the square of their length."""

_STEPS = (1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, USUAL_ALPHA, 3e-4, 1e-3, 3e-3, 1e-2)
_MOST_ROWS = 20_000  # for a choice among strengths a factor of 3 apart
_SHARE = 0.2
_MOST_PASSES = 5


def choose_alpha(
    data: Labelled,
    tree: Tree,
    n_buckets: int,
    method: Method,
    *,
    max_iter: int,
    beam: int | None,
    seed: int,
    choosing: Choosing | None = None,
) -> float:
    """Return the strength to use, looked for downhill from the usual one in steps of about three.

    Strengths are learned with fewer passes than the model will make, and of equal ones the larger
    is taken. `choosing` is told of every trial.
    """
    grid = [step * method.mean_square for step in _STEPS]
    start = _STEPS.index(USUAL_ALPHA)
    learned, held_out = split_rows(data, _SHARE, seed, "alpha", _MOST_ROWS)
    if not len(held_out):
        return grid[start]

    trials = itertools.count(1)

    def error(place: int) -> float:
        told = of_trial(choosing, next(trials))
        strength = replace(method, alpha=grid[place])
        passes = min(max_iter, _MOST_PASSES)
        trained = train(
            learned, tree, n_buckets, strength, max_iter=passes, beam=beam, seed=seed, progress=told
        )
        return error_of(trained.weights, tree, strength, held_out, beam)

    best, least = start, error(start)
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
