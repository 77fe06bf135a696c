"""Who is told how far learning is: a function of rows, which may also listen while alpha is
chosen.
"""

from __future__ import annotations

from collections.abc import Callable

from bitkin.errors import InvalidInputError

Progress = Callable[[int, int], object]
"""Called with the rows learned and those to learn in all."""
Choosing = Callable[[int, int, int], object]
"""Called with the number of a trial, from 1, the rows it has learned and those it will."""


def choosing_of(progress: Progress | None) -> Choosing | None:
    """Return who is told of the search for alpha: the method `choosing_alpha` of `progress`, where
    it has one.
    """
    choosing: Choosing | None = getattr(progress, "choosing_alpha", None)
    if choosing is not None and not callable(choosing):
        raise InvalidInputError(f"progress.choosing_alpha must be a method, got {choosing!r}.")
    return choosing


def of_trial(choosing: Choosing | None, trial: int) -> Progress | None:
    """Return what one trial tells of itself."""
    return None if choosing is None else lambda learned, total: choosing(trial, learned, total)
