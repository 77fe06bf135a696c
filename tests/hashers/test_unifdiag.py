from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.rotations import UnifDiag
from bitkin.hashers.projection.rotations.base import draw_rotation
from bitkin.hashers.projection.rotations.covariance import unit_covariance
from bitkin.hashers.projection.rotations.unifdiag import equalizing_rotation
from bitkin.randomness import Draws
from tests.hashers.covariances import KINDS, Matrix, loss_of_orthogonality, of_eigenvalues, spread


def truth(sigma: Matrix) -> Matrix:
    """The paper's algorithm 1 with whole matrices, corrected: stable angle, d' tested, tolerance
    scaled.
    """
    size, tau = len(sigma), sigma.diagonal().mean()
    tolerance, R = size * np.finfo(float).eps * tau, np.eye(size)
    below = [k for k in range(size) if sigma[k, k] < tau - tolerance]
    above = [k for k in range(size) if sigma[k, k] > tau + tolerance]
    while below and above:
        j, i = below.pop(0), above.pop(0)
        a, b, d = sigma[j, j], sigma[i, j], sigma[i, i]
        t = (a - tau) / (b + (1 if b >= 0 else -1) * np.sqrt(b * b - (a - tau) * (d - tau)))
        c = 1 / np.sqrt(1 + t * t)
        G = np.eye(size)
        G[j, j], G[j, i], G[i, j], G[i, i] = c, -t * c, t * c, c
        sigma, R = G @ sigma @ G.T, R @ G.T
        if abs(sigma[i, i] - tau) > tolerance:
            (below if sigma[i, i] < tau else above).append(i)
    return R


def require_promises(sigma: Matrix, start: Matrix | None = None) -> Matrix:
    """Return the rotation from the covariance as it is, or from a turn of it."""
    size = len(sigma)
    turned = sigma if start is None else start.T @ unit_covariance(sigma) @ start
    rotation, n_rotations = equalizing_rotation(unit_covariance(turned))
    rotation = rotation if start is None else start @ rotation
    difference, mean = spread(rotation, sigma)
    assert n_rotations <= size - 1
    assert difference <= 5e-14 * size
    assert mean == pytest.approx(1.0, rel=1e-12)
    assert loss_of_orthogonality(rotation) <= 1e-14 * size
    return rotation


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 255])
@pytest.mark.parametrize("kind", KINDS)
def test_variances_become_equal_and_the_rotation_stays_one(kind: str, size: int) -> None:
    sigma = KINDS[kind](size, np.random.default_rng(size))
    assert np.array_equal(UnifDiag().rotation_of(sigma), require_promises(sigma))


@pytest.fixture(scope="module")
def random_start() -> Matrix:
    """The random start of 1,024 bits, once: its QR takes longest of all."""
    return draw_rotation(1024, Draws(0, "rotation"))


@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_for_a_thousand_bits_and_from_a_random_start(
    kind: str, random_start: Matrix
) -> None:
    sigma = KINDS[kind](1024, np.random.default_rng(0))
    require_promises(sigma)
    require_promises(sigma, random_start)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=24),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_so_it_is_for_any_eigenvalues(values: list[float], seed: int, turned: bool) -> None:
    eigenvalues = np.array(values)
    rng = np.random.default_rng(seed)
    require_promises(of_eigenvalues(eigenvalues, rng) if turned else np.diag(eigenvalues))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.floats(-12, 0), st.floats(-12, 0))
def test_so_it_is_where_the_angle_is_nearly_zero_or_right(
    seed: int, size: int, below: float, apart: float
) -> None:
    """A variance a hair below the mean, and covariances that make the other root of the angle
    tempting.
    """
    rng = np.random.default_rng(seed)
    sigma = np.eye(size)
    sigma[0, 0] -= 10.0**below
    sigma[1, 1] += 10.0**below
    noise = rng.standard_normal((size, size)) * 10.0**apart / size
    noise[np.diag_indices(size)] = 0
    most = np.sqrt(np.outer(sigma.diagonal(), sigma.diagonal()))  # a covariance can be no larger
    require_promises(np.where(np.eye(size), sigma, np.clip(noise + noise.T, -most, most)))


@pytest.mark.parametrize("kind", ["random", "diagonal", "falling", "half the rank", "one axis"])
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_the_rotation_is_that_of_algorithm_1(kind: str, size: int) -> None:
    sigma = KINDS[kind](size, np.random.default_rng(1))
    assert np.allclose(UnifDiag().rotation_of(sigma), truth(sigma), atol=1e-7)


def test_equal_variances_are_left_alone() -> None:
    for kind in ("equal", "equal on the diagonal alone", "zero"):
        assert np.array_equal(
            UnifDiag().rotation_of(KINDS[kind](9, np.random.default_rng(0))), np.eye(9)
        )


def test_neither_scale_nor_draws_matter_and_the_input_stays_as_it_was() -> None:
    sigma = KINDS["random"](13, np.random.default_rng(0))
    before = sigma.copy()
    rotation = UnifDiag().rotation_of(sigma)
    assert np.array_equal(sigma, before)
    for power in (-900, -1, 1, 900):
        assert np.array_equal(UnifDiag().rotation_of(np.ldexp(sigma, power)), rotation)
    assert np.array_equal(UnifDiag().rotation_of(sigma, Draws(7, "rotation")), rotation)
    assert np.array_equal(UnifDiag().rotation_of(sigma.tolist()), rotation)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 65])
def test_a_random_start_keeps_the_promises(kind: str, size: int) -> None:
    sigma = KINDS[kind](size, np.random.default_rng(size))
    rotation = UnifDiag(start="random").rotation_of(sigma)
    assert spread(rotation, sigma)[0] <= 5e-14 * size
    assert loss_of_orthogonality(rotation) <= 1e-14 * max(size, 4)
    if size > 2:
        assert not np.allclose(
            rotation, UnifDiag(start="random").rotation_of(sigma, Draws(1, "rotation"))
        )


def test_an_unknown_start_is_named() -> None:
    with pytest.raises(
        InvalidInputError, match="start must be one of 'identity', 'random', got 'zero'"
    ):
        UnifDiag(start="zero").rotation_of(np.eye(2))


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        (np.zeros((2, 3)), r"covariance must be a square array, got shape \(2, 3\)"),
        (np.zeros((0, 0)), r"got shape \(0, 0\)"),
        (np.zeros(4), r"got shape \(4,\)"),
        (3.0, r"got shape \(\)"),
        ([[1.0, 0.0], [0.0]], "covariance must be a square array of numbers"),
        ([["a"]], "covariance must be a square array of numbers"),
        (np.diag([1.0, np.nan]), "covariance must have finite numbers only"),
        (np.diag([1.0, np.inf]), "covariance must have finite numbers only"),
        ([[1.0, 0.5], [0.4, 1.0]], r"must be symmetric, got 0.5 at \(0, 1\) and 0.4 at \(1, 0\)"),
        (
            np.array([[1.0, 3.0], [3.0, 2.0]]),
            r"positive semidefinite, got 3.0 at \(0, 1\).* variances are 1.0 and 2.0",
        ),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), r"positive semidefinite, got 1.0 at \(0, 1\)"),
        (
            np.diag([1e-200, 2e-200, 0.0, 0.0])
            + np.diag([0.0, 0.0, 1.0], 1)
            + np.diag([0.0, 0.0, 1.0], -1),
            # else divides by zero
            r"positive semidefinite, got 1.0 at \(2, 3\) where the variances are 0.0 and 0.0",
        ),
        (np.diag([1.0, -2.0]), r"variances of 0 or more on its diagonal, got -2.0 at 1"),
    ],
)
def test_what_is_no_covariance_is_named(covariance: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        UnifDiag().rotation_of(covariance)
