"""Theorem 2 of the Nystrom paper, and the error it bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import Nystrom
from bitkin.randomness import Draws
from tests.hashers.sources import decaying, training


def test_the_error_of_principal_directions_is_the_tail_of_the_spectrum() -> None:
    X = decaying(200, 15).astype(np.float64)
    X -= X.mean(axis=0)
    values, axes = np.linalg.svd(X, full_matrices=False)[1:]
    assert np.isclose(theory.projection_error(X, axes[:4].T), np.linalg.norm(values[4:]))
    assert np.isclose(theory.projection_error(X, axes.T), 0.0, atol=1e-9)
    assert np.isclose(theory.projection_error(X, np.zeros((15, 1))), np.linalg.norm(X))


@pytest.mark.parametrize(("c", "r"), [(20, 9), (60, 9), (20, 12), (60, 12)])
@pytest.mark.parametrize("gamma", [1e-6, 0.01, 0.9])
def test_the_bound_is_the_formula(c: int, r: int, gamma: float) -> None:
    X = decaying(60, 12).astype(np.float64)
    n, m, k, delta = 60, 12, 3, 0.2
    C = X[:c].T * math.sqrt(n / c)
    W = C[:r] * math.sqrt(m / r)

    def alpha(u: int, v: int) -> float:
        return u * v / (u + v - 1 / 2) * 1 / (1 - 1 / (2 * max(u, v)))

    kept = sum(
        np.linalg.svd(W)[1][:k] ** 2 >= gamma * np.linalg.norm(C, 1) * np.linalg.norm(C, np.inf)
    )
    eta1 = math.sqrt(math.log(4 / delta) * alpha(c, n - c) / c)
    eta2 = math.sqrt(2 * math.log(4 / delta) * alpha(r, m - r) / r)
    # c ≥ 4k/ε₁², r ≥ 1/(γ²ε₂²)
    epsilon1, epsilon2 = math.sqrt(4 * k / c), math.sqrt(1 / (gamma**2 * r))
    u, s, v = np.linalg.svd(X)
    tail = np.linalg.norm(X - u[:, :k] * s[:k] @ v[:k])
    E = (
        math.sqrt(2)
        * np.linalg.norm(np.linalg.svd(C)[1][k:])
        / (math.sqrt(gamma) * np.linalg.norm(C, 2))
    )
    E += math.sqrt(k - kept)
    bound = tail + math.sqrt(n * epsilon1 * (1 + eta1)) * max(np.linalg.norm(x) for x in X)
    bound += (m * epsilon2 * (1 + eta2) + E) * np.linalg.norm(X, 2)
    found = theory.nystrom_error_bound(
        X, np.arange(c), np.arange(r), k, truncate=gamma, delta=delta
    )
    assert np.isclose(found, bound)


@pytest.mark.parametrize("gamma", [1e-4, 1e-3, 0.05])
@pytest.mark.parametrize(("samples", "features"), [(40, 10), (200, 20), (800, 40)])
def test_the_bound_holds_for_the_very_sample_of_a_model_and_says_little(
    samples: int, features: int, gamma: float
) -> None:
    X = decaying(800, 40)
    X -= X.mean(axis=0)
    best = float(np.linalg.norm(np.linalg.svd(X, compute_uv=False)[8:]))
    for seed in range(3):
        # The paper's modified method as it is: not centred by its own sample, truncated, not made
        # orthonormal after.
        nystrom = Nystrom(samples, features, truncate=gamma, orthonormalize=False)
        learned = nystrom.learn(training(X, center=False, seed=seed), 8, Draws(seed, "projection"))
        measured = theory.projection_error(X, np.linalg.qr(learned.directions)[0])
        chosen = (learned.row_numbers, learned.features)
        bound = theory.nystrom_error_bound(X, *chosen, k=8, truncate=gamma)
        assert [len(numbers) for numbers in chosen] == [samples, features]
        assert best * (1 - 1e-6) <= measured <= bound
        assert best * (1 - 1e-6) <= theory.projection_error(X, learned.directions) <= bound
        assert bound > 10 * float(np.linalg.norm(X))  # no directions at all would do


@given(st.integers(2, 12), st.integers(2, 9), st.floats(1e-6, 1.0), st.integers(0, 100))
def test_the_bound_is_never_below_the_data_over_gamma(
    n: int, m: int, gamma: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    samples, features = (
        rng.permutation(n)[: rng.integers(1, n + 1)],
        rng.permutation(m)[: rng.integers(1, m + 1)],
    )
    bound = theory.nystrom_error_bound(X, samples, features, 1, truncate=gamma)
    assert bound >= float(np.linalg.norm(X)) / gamma


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.ones(3)}, r"X must have shape \(n, m\)"),
        ({"X": scipy.sparse.csr_array(np.ones((3, 3)))}, "X must be a dense array"),
        ({"X": np.full((3, 3), np.nan)}, "X must be finite, got nan at row 0, column 0"),
        ({"X": np.zeros((3, 3))}, "not all zero"),
        ({"samples": []}, "samples must be"),
        ({"samples": [0, 0]}, "samples must be a list of different whole numbers"),
        ({"samples": [3]}, "samples must be between 0 and 2, got 3"),
        ({"features": [0.5]}, "features must be whole numbers"),
        ({"k": 3}, "k must be between 1 and 2, got 3"),
        ({"truncate": 0.0}, "truncate must be a number above 0"),
        ({"delta": 1.0}, "delta must be a number above 0 and below 1.0, got 1.0"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_error(changes: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {
        "X": np.eye(3),
        "samples": [0, 1],
        "features": [0, 1, 2],
        "k": 1,
        "truncate": 0.1,
    }
    with pytest.raises(InvalidInputError, match=words):
        theory.nystrom_error_bound(**(good | changes))


def test_directions_of_another_width_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="directions must have 3 rows, one a feature of X, got 2"
    ):
        theory.projection_error(np.eye(3), np.eye(2))
