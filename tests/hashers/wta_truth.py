"""Winner-take-all hashing in plain NumPy: one window, one row at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import WTAHash


def components(row: npt.NDArray[Any], hasher: WTAHash) -> npt.NDArray[np.float64]:
    """What every window compares: (n_hashes, window), products in float64 and in the order of their
    factors.
    """
    factors = standardized(row, hasher)[hasher._windows.features]
    with np.errstate(all="ignore"):
        product: npt.NDArray[np.float64] = np.multiply.accumulate(factors)[-1]
    product = np.where((factors == 0).any(axis=0), 0.0, product)
    if hasher._windows.weighted:
        product = product * [weight(features) for features in hasher._windows.features.T.tolist()]
    return product.reshape(hasher.spec_.n_symbols, hasher.window_)


def standardized(row: npt.NDArray[Any], hasher: WTAHash) -> npt.NDArray[np.float64]:
    """The row as it is compared: minus the centre, then times the factors."""
    arrays = hasher._standardizer.arrays()
    return (row.astype(np.float64) - arrays.get("centre", 0.0)) * arrays.get("factors", 1.0)


def weight(features: list[int]) -> float:
    """√(p! / ∏ aᵢ!) for the factors of one component."""
    repeats = math.prod(math.factorial(features.count(feature)) for feature in set(features))
    return math.sqrt(math.factorial(len(features)) / repeats)


def symbols(row: npt.NDArray[Any], hasher: WTAHash) -> list[int] | None:
    """The code of one row, or None where no window is filled."""
    parts = components(row, hasher)
    filled, winners = (parts != 0).any(axis=1), parts.argmax(axis=1)
    if not row.any() or not filled.any():
        return None
    return [symbol(i, filled, winners, hasher) for i in range(len(parts))]


def symbol(
    i: int, filled: npt.NDArray[np.bool_], winners: npt.NDArray[np.int64], hasher: WTAHash
) -> int:
    """The symbol of window i: its own winner, or that of the first filled window on its way, and C
    for every step.
    """
    alphabet, n = hasher.alphabet_size_, len(winners)
    if hasher._donors.densify is None:
        return int(winners[i]) % alphabet
    asked = [i, *hasher._donors.probes[:, i].tolist()]
    way = asked + [(asked[-1] + step) % n for step in range(1, n + 1)]
    constant = next(c for c in range(hasher.window_ + 1, 10**9) if np.gcd(c, alphabet) == 1)
    steps = next(step for step, window in enumerate(way) if filled[window])
    return int(winners[way[steps]] + constant * steps) % alphabet
