"""What a stream is told once, when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError

Epochs = int | float | str | None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a live model learns and when its epochs begin: parameters of the hasher, as they were
    when it started.
    """

    center: bool
    normalize: bool
    seed: int
    refresh: int
    epochs: Epochs


def refresh_count(value: Any) -> int:
    """Return the number of vectors between two refreshed rotations."""
    return whole_number(value, "refresh", low=1, high=2**62)


def epochs_rule(value: Any) -> Epochs:
    """Return when epochs begin: "request", a number of vectors, a share of the variance, or None
    for never.
    """
    if value is None or (isinstance(value, str) and value == "request"):
        return value
    if isinstance(value, (float, np.floating)) and 0 < value < 1:
        return float(value)
    if (
        isinstance(value, (int, np.integer))
        and not isinstance(value, (bool, np.bool_))
        and 1 <= value < 2**62
    ):
        return int(value)
    raise InvalidInputError(
        "epochs must be 'request', a whole number of vectors from 1 on, a share of the variance "
        "that may be lost "
        f"between 0 and 1, or None, got {value!r}."
    )
