"""How many directions data can give, and what to say where more are asked for."""

from __future__ import annotations

import numpy as np

from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.memory import physical_memory

VISIBLE = 2.0**-40
"""A direction is visible where the variance along it is above this share of the mean of ‖x‖².

Codes are made in float32: where rows differ by less than 2⁻²⁰ of their length, bits would be noise.
"""

_INSTEAD = "ask for fewer bits, or use projection='random', which takes any number"


def require_features(n_features: int, n_bits: int, method: str) -> None:
    """Raise unless there are as many features as bits."""
    if n_bits > n_features:
        raise InvalidInputError(
            f"n_bits must be at most n_features = {n_features} for {method}, got {n_bits}: there "
            "are no more "
            f"directions at right angles. Instead {_INSTEAD}."
        )


def require_rows(n_rows: int, n_bits: int, *, center: bool) -> None:
    """Raise unless so many rows, centred or not, span as many directions as there are bits."""
    most = n_rows - center
    if n_bits > most:
        raise InvalidInputError(
            f"n_bits must be at most {most} where n_samples = {n_rows}, got {n_bits}: so few rows "
            "do not vary along "
            f"more directions. Give more rows, {_INSTEAD}."
        )


def require_visible(variances: Floats, mean_square: float, n_bits: int, where: str = "X") -> None:
    """Raise unless rows vary along all directions by more than float32 can lose; see `VISIBLE`."""
    rank = int(np.count_nonzero(variances > VISIBLE * mean_square))
    if rank < n_bits:
        raise InvalidInputError(
            f"n_bits must be at most {rank}, got {n_bits}: the rows of {where} vary along {rank} "
            "directions only, "
            "by more than 2**-20 of their length (constant or repeated columns, repeated rows, or "
            "a mean far larger "
            f"than the spread?). Drop or centre such columns, {_INSTEAD}."
        )


def require_memory(needed: int, what: str, instead: str) -> None:
    """Raise unless this machine has `needed` bytes: `what` takes them, `instead` is what to do
    about it.
    """
    memory = physical_memory()
    if needed > memory:
        raise InvalidInputError(
            f"{what} does not fit in memory: it takes {needed / 1e9:,.3g} GB, there are "
            f"{memory / 1e9:,.3g} GB. "
            f"{instead}"
        )


def require_square(side: int, what: str, instead: str) -> None:
    """Raise unless `what` can be solved, by a dense matrix of `side` × `side` and what goes with
    it.
    """
    # sums, the matrix made of them, and what the solver needs
    require_memory(24 * side * side, what, instead)
