"""Hierarchical feature hashing: what collisions lose, how exact hashed inner products are, how many
buckets that takes.

The paper's letters: d features, m buckets per level, T levels with the root's, Ψ(x, y) the hashed
pair of a vector and a class. `HeshingClassifier` keeps no table for the root, which is common to
all classes: what it loses is that of T = n_levels − 1, the rows of its `weights_`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.theory._arguments import check_above_zero, check_vector_pair

_MAX_WHOLE = 2**53  # float64 holds every whole number up to it


class ProductMoments(NamedTuple):
    """Mean and variance of a random number."""

    mean: float
    variance: float


def expected_feature_loss(d: int, m: int, T: int, *, exact: bool = False) -> float:
    """Return how many of `d` features of a vector lose their bucket to others on all `T` levels, on
    average at most.

    A feature is lost where every hash of a path puts it into one bucket with another (Theorem 2).
    The paper's bound is d · ((d − 1) / m)ᵀ, here never above d; `exact` gives the expectation
    itself, d · (1 − (1 − 1/m)ᵈ⁻¹)ᵀ. For a `HeshingClassifier` T is the `n_levels` of its taxonomy −
    1, since it has no table for the root.

    Examples
    --------
    >>> round(expected_feature_loss(130_000, 2**20, T=5), 2)
    3.81
    >>> round(expected_feature_loss(130_000, 2**20, T=5, exact=True), 2)
    2.8
    """
    d = whole_number(d, "d", low=1, high=_MAX_WHOLE)
    m = whole_number(m, "m", low=1, high=_MAX_WHOLE)
    T = whole_number(T, "T", low=1, high=_MAX_WHOLE)
    if not exact:
        return d * min((d - 1) / m, 1.0) ** T
    if m == 1:
        return float(d if d > 1 else 0)
    # 1 − (1 − 1/m)ᵈ⁻¹: the chance that another feature has the same bucket
    met = -math.expm1((d - 1) * math.log1p(-1 / m))
    return float(d * met**T)


def buckets_for(epsilon: float, delta: float, T: int) -> int:
    """Return Theorem 1's number of buckets per level: 288 · log(6 / δ) / (ε² · T), rounded up.

    With so many, ⟨Ψ(x, y), Ψ(x′, y)⟩ of two unit vectors is farther than `epsilon` from ⟨x, x′⟩
    with a chance of at most `delta`, provided that no component is above `largest_component(m,
    delta, T)`. The bound is loose: see `hashed_product` for what to expect.

    Examples
    --------
    >>> buckets_for(epsilon=0.1, delta=0.05, T=5)
    27576
    """
    epsilon = check_above_zero(epsilon, "epsilon", below=1)
    delta = check_above_zero(delta, "delta", below=1)
    T = whole_number(T, "T", low=1, high=_MAX_WHOLE)
    return math.ceil(288 * math.log(6 / delta) / epsilon / epsilon / T)


def largest_component(m: int, delta: float, T: int) -> float:
    """Return the largest |xⱼ| of a unit vector for which Theorem 1 holds: √(3T / (8m · log(6m /
    δ))).

    Examples
    --------
    >>> round(largest_component(27576, delta=0.05, T=5), 4)  # at least 220,788 nonzeros
    0.0021
    """
    m = whole_number(m, "m", low=1, high=_MAX_WHOLE)
    delta = check_above_zero(delta, "delta", below=1)
    T = whole_number(T, "T", low=1, high=_MAX_WHOLE)
    return math.sqrt(3 * T / (8 * m * math.log(6 * m / delta)))


def hashed_product(
    x: npt.ArrayLike, y: npt.ArrayLike, m: int, T: int, *, shared: int | None = None
) -> ProductMoments:
    """Return mean and variance of ⟨Ψ(x, a), Ψ(y, b)⟩ for classes a and b with `shared` levels in
    common, default all.

    A level in common, the root's always, adds ⟨x, y⟩ / T to the mean, and (‖x‖²‖y‖² + ⟨x, y⟩² − 2 Σ
    x²y²) / (m · T²) to the variance; one where the nodes differ adds 0 and ‖x‖²‖y‖² / (m · T²).
    Theorem 1 is about `shared` = T only.

    Examples
    --------
    >>> mean, variance = hashed_product([0.6, 0.8], [1, 0], m=64, T=4, shared=2)
    >>> round(mean, 6), round(variance, 6)
    (0.3, 0.003203)
    """
    a, b = (vector.astype(np.float64) for vector in check_vector_pair(x, y))
    m = whole_number(m, "m", low=1, high=_MAX_WHOLE)
    T = whole_number(T, "T", low=1, high=_MAX_WHOLE)
    shared = T if shared is None else whole_number(shared, "shared", low=1, high=T)
    # With s levels in common: mean s·⟨x, y⟩/T, and variances of levels add up.
    product, squares = float(a @ b), float((a @ a) * (b @ b))
    in_common = squares + product**2 - 2 * float((a * a) @ (b * b))
    return ProductMoments(
        product * shared / T, (shared * in_common + (T - shared) * squares) / (m * T * T)
    )
