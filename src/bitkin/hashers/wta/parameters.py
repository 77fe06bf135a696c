"""The parameters of WTAHash: checked, and written down for files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bitkin.checks import one_of, shown, whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.wta.windows import LAYOUTS
from bitkin.randomness import resolve_seed

_MAX_HASHES = 2**24
MAX_ALPHABET = 2**32
FILLERS = ("rotation", "optimal")
"""The ways to fill empty windows."""


def require_parameters(given: Mapping[str, Any], n_features: int) -> None:
    """Raise unless these are parameters for rows of so many features."""
    whole_number(given["n_hashes"], "n_hashes", low=1, high=_MAX_HASHES)
    whole_number(given["degree"], "degree", low=1, high=64)
    if not _is_flag(given["coefficients"]):
        raise InvalidInputError(
            f"coefficients must be True or False, got {shown(given['coefficients'])}."
        )
    densify = given["densify"]
    if densify is not None and densify not in ("auto", *FILLERS):
        raise InvalidInputError(
            f"densify must be 'auto', 'rotation', 'optimal' or None, got {shown(densify)}."
        )
    if given["alphabet_size"] is not None:
        whole_number(given["alphabet_size"], "alphabet_size", low=2, high=MAX_ALPHABET)
    one_of(given["layout"], "layout", LAYOUTS)
    for name in ("center", "scale"):
        if not _is_flag(given[name]) and not _is_auto(given[name]):
            raise InvalidInputError(
                f"{name} must be True, False or 'auto', got {shown(given[name])}."
            )
    one_of(given["output"], "output", ("symbols", "onehot"))
    resolve_seed(given["random_state"])
    if n_features < 2:
        raise InvalidInputError(
            f"X must have at least 2 features to compare, got {n_features} feature(s)."
        )
    window = given["window"]
    if _is_auto(window):
        return
    if isinstance(window, str):
        raise InvalidInputError(f"window must be a whole number or 'auto', got {shown(window)}.")
    whole_number(window, "window", low=2)


def json_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them."""
    return {
        name: value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        for name, value in given.items()
    }


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
