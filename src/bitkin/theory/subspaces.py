"""Subspaces: what directions lose of the data, and what the Nystrom paper promises they lose at
most.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.theory._arguments import check_above_zero, check_dense_rows, check_indices


def projection_error(X: npt.ArrayLike, directions: npt.ArrayLike) -> float:
    """Return ‖X − X · D · Dᵀ‖_F, what `directions` D (m, k) lose of the rows of `X` (n, m). Centre
    X first.

    It is the left side of `nystrom_error_bound`, measured. For orthonormal directions of PCA it is
    ‖X − X_k‖_F.

    Examples
    --------
    >>> projection_error([[3.0, 4.0], [1.0, 0.0]], [[1.0], [0.0]])
    4.0
    """
    rows, axes = check_dense_rows(X, "X"), check_dense_rows(directions, "directions")
    if len(axes) != rows.shape[1]:
        raise InvalidInputError(
            f"directions must have {rows.shape[1]} rows, one a feature of X, got {len(axes)}."
        )
    return float(np.linalg.norm(rows - rows @ axes @ axes.T))


def nystrom_error_bound(
    X: npt.ArrayLike,
    samples: npt.ArrayLike,
    features: npt.ArrayLike,
    k: int,
    *,
    truncate: float,
    delta: float = 0.1,
) -> float:
    """Return Theorem 2 of NYSTROM: with probability 1 − `delta` the `projection_error` is at most
    this.

    For the modified method with uniform sampling: ‖X − X_k‖_F + √(n·ε₁(1 + η₁)) · maxᵢ‖xᵢ‖ +
    (m·ε₂(1 + η₂) + E) · ‖X‖₂, with the smallest ε that the theorem allows, ε₁ = 2·√(k/c) and ε₂ =
    1/(γ·√r). It is never below ‖X‖_F / γ, and 10³ to 10⁷ times ‖X‖_F on real data: it says how the
    error falls as samples grow, not how large it is.

    Parameters
    ----------
    X : (n, m)
        All rows (the paper's X, transposed), centred as they are to be hashed.
    samples : whole numbers (c,)
        Which rows were sampled, none twice.
    features : whole numbers (r,)
        Which features of them were sampled, none twice.
    k : int
        Number of directions.
    truncate : float
        The paper's γ.
    delta : float, default 0.1
        Chance that the bound does not hold.

    Examples
    --------
    >>> X = np.diag([4.0, 2.0, 1.0])
    >>> bound = nystrom_error_bound(X, [0, 1, 2], [0, 1, 2], k=1, truncate=0.1)
    >>> round(bound, 1), round(projection_error(X, [[1.0], [0.0], [0.0]]), 3)
    (89.0, 2.236)
    """
    rows = check_dense_rows(X, "X")
    n, m = rows.shape
    chosen_rows = check_indices(samples, "samples", n)
    chosen_features = check_indices(features, "features", m)
    c, r = len(chosen_rows), len(chosen_features)
    k = whole_number(k, "k", low=1, high=min(c, r))
    gamma = check_above_zero(truncate, "truncate")
    chance = check_above_zero(delta, "delta", below=1.0)
    sampled = rows[chosen_rows] * np.sqrt(n / c)
    inner = sampled[:, chosen_features] * np.sqrt(m / r)
    # ‖S‖₁·‖S‖∞, which is at least ‖S‖₂²: the theorem keeps inner values σ² ≥ γ times this.
    norms = np.abs(sampled).sum(axis=0).max() * np.abs(sampled).sum(axis=1).max()
    all_values, sampled_values, inner_values = (
        np.linalg.svd(part, compute_uv=False) for part in (rows, sampled, inner)
    )
    if norms == 0:
        raise InvalidInputError(
            "samples must name rows that are not all zero: the bound divides by their norm."
        )
    kept = int(np.count_nonzero(inner_values[:k] ** 2 >= gamma * norms))
    # η₁ = √(log(4/δ)·α(c, n − c)/c) and η₂ = √(2·log(4/δ)·α(r, m − r)/r): what sampling without
    # replacement adds.
    eta_samples = np.sqrt(np.log(4 / chance) * _spread_of_sample(c, n - c) / c)
    eta_features = np.sqrt(2 * np.log(4 / chance) * _spread_of_sample(r, m - r) / r)
    # E = √2·‖S − S_k‖_F / (√γ·‖S‖₂) + √(k − kept): what the sample and the truncation leave out.
    lost = np.sqrt(2.0) * np.linalg.norm(sampled_values[k:]) / (
        np.sqrt(gamma) * sampled_values[0]
    ) + np.sqrt(k - kept)
    # √(n·ε₁(1 + η₁))·max‖xᵢ‖ with ε₁ = 2√(k/c), and (m·ε₂(1 + η₂) + E)·‖X‖₂ with ε₂ = 1/(γ√r).
    by_samples = (
        np.sqrt(n * 2 * np.sqrt(k / c) * (1 + eta_samples)) * np.linalg.norm(rows, axis=1).max()
    )
    by_features = (m / (gamma * np.sqrt(r)) * (1 + eta_features) + lost) * all_values[0]
    return float(np.linalg.norm(all_values[k:]) + by_samples + by_features)


def _spread_of_sample(u: int, v: int) -> float:
    """Return the paper's α(u, v) for `u` drawn and `v` left."""
    return u * v / (u + v - 0.5) / (1 - 1 / (2 * max(u, v)))
