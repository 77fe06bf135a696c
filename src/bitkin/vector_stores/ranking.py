"""Distances as scores that are larger where texts are nearer, and a choice of hits that differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import is_number, shown
from bitkin.errors import InvalidInputError

_SIMILARITIES: dict[str, Callable[[float], float]] = {
    "cosine": lambda distance: 1.0 - distance,
    "l2": lambda distance: 1.0 / (1.0 + max(distance, 0.0)),
    "ip": lambda distance: -distance,
}
_RELEVANCES: dict[str, Callable[[float], float]] = {
    "cosine": lambda distance: min(max(1.0 - distance, 0.0), 1.0),
    "l2": _SIMILARITIES["l2"],
    "ip": lambda distance: 0.5 - 0.5 * distance / (1.0 + abs(distance)),
}


def similarity_of(metric: str) -> Callable[[float], float]:
    """Return what makes a similarity of a distance: the cosine, the inner product, or 1 / (1 + l2).

    Examples
    --------
    >>> similarity_of("cosine")(0.25), similarity_of("l2")(1.0), similarity_of("ip")(-3.0)
    (0.75, 0.5, 3.0)
    """
    return _SIMILARITIES[metric]


def relevance_of(metric: str) -> Callable[[float], float]:
    """Return what makes a number from 0 to 1 of a distance, larger where it is nearer: the cosine,
    0 where it is negative; 1 / (1 + l2); and (1 + ip / (1 + |ip|)) / 2, since an inner product has
    no scale of its own.

    Examples
    --------
    >>> relevance_of("cosine")(0.25), relevance_of("cosine")(1.5), relevance_of("ip")(-1.0)
    (0.75, 0.0, 0.75)
    """
    return _RELEVANCES[metric]


def choose_diverse(
    query: npt.NDArray[Any], vectors: npt.NDArray[Any], k: int, share: float
) -> tuple[list[int], list[float]]:
    """Return which k of some vectors are chosen by maximal marginal relevance, in order, and their
    scores then: `share` · cosine to the query − (1 − `share`) · the largest cosine to one that was
    chosen before. Ties go to the first.

    Examples
    --------
    >>> query, vectors = np.array([1.0, 0.1]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> choose_diverse(query, vectors, 2, 1.0)[0], choose_diverse(query, vectors, 2, 0.3)[0]
    ([0, 1], [0, 2])
    """
    if not len(vectors):
        return [], []
    units = _unit_rows(vectors)
    to_query = units @ _unit_rows(np.asarray(query).reshape(1, -1))[0]
    overlap = np.zeros(len(units))  # nothing is chosen yet
    chosen: list[int] = []
    scores: list[float] = []
    free = np.ones(len(units), dtype=np.bool_)
    while len(chosen) < min(k, len(units)):
        score = share * to_query - (1.0 - share) * overlap
        # the first is the nearest, whatever nearness counts later
        best = int(np.argmax(np.where(free, score if chosen else to_query, -np.inf)))
        to_best = units @ units[best]
        overlap = np.maximum(overlap, to_best) if chosen else to_best
        chosen.append(best)
        scores.append(float(score[best]))
        free[best] = False
    return chosen, scores


def check_share(share: Any, name: str) -> float:
    """Return how much nearness counts beside difference, a number from 0 to 1."""
    if not is_number(share) or math.isnan(share) or not 0 <= share <= 1:
        raise InvalidInputError(
            f"{name} must be a number from 0, where hits differ most, to 1, where they are "
            f"nearest, got {shown(share)}."
        )
    return float(share)


def _unit_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
