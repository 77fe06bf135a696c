from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.hashers.projection.rotations import ITQ, Projected, RandomRotation
from bitkin.hashers.projection.rotations.itq import _PIECES
from bitkin.randomness import Draws
from tests.hashers.covariances import loss_of_orthogonality

Found = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def find(rows: npt.NDArray[np.float32], n_iter: int = 50, seed: int = 0) -> Found:
    found = ITQ(n_iter).find(Projected(rows), rows.shape[1], Draws(seed, "rotation"))
    return found.matrix, found.losses


def gaussian(n: int, c: int, seed: int = 0) -> npt.NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((n, c)) * np.geomspace(3, 0.3, c)
    return rows.astype(np.float32)


def truth(rows: npt.NDArray[np.float32], n_iter: int, seed: int = 0) -> Found:
    """Gong et al. in float64, by the book."""
    V, losses = rows.astype(np.float64), []
    R = RandomRotation().matrix(Projected(rows), rows.shape[1], Draws(seed, "rotation"))
    for _ in range(n_iter):
        B = np.where(V @ R >= 0, 1.0, -1.0)
        U, _, W = np.linalg.svd(V.T @ B)
        R = U @ W
        losses.append(np.square(B - V @ R).sum(axis=1).mean())
    return R, np.array(losses)


@pytest.mark.parametrize(("n", "c"), [(50, 3), (1000, 8), (1025, 16), (5000, 65)])
def test_turns_are_those_of_the_paper(n: int, c: int) -> None:
    rows = gaussian(n, c)
    matrix, losses = find(rows, 3)
    expected, expected_losses = truth(rows, 3)
    assert np.allclose(losses, expected_losses, rtol=1e-3)  # float32 flips a sign here and there
    assert np.allclose(losses[:1], expected_losses[:1], rtol=1e-5)
    assert np.allclose(matrix, expected, atol=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(100, 300), st.integers(4, 20), st.integers(0, 2**32 - 1))
def test_the_loss_never_increases(n: int, c: int, seed: int) -> None:
    rows = gaussian(n, c, seed)
    matrix, losses = find(rows, 20)
    assert len(losses) >= 3  # from a random start, so many rows do not settle at once
    assert (np.diff(losses) < 0).all()
    assert loss_of_orthogonality(matrix) < 1e-14 * max(c, 8)
    turned = rows.astype(np.float64) @ matrix
    last = np.square(np.where(turned >= 0, 1.0, -1.0) - turned).sum(axis=1).mean()
    slack = 1e-5 * (c + np.square(turned).sum(axis=1).mean())
    # fresh signs for the last rotation only bring it down further
    assert last <= losses[-1] + slack


@pytest.mark.parametrize(("n", "c"), [(1, 1), (1, 7), (2, 3), (300, 1)])
def test_so_it_is_where_a_turn_or_two_are_all_there_is(n: int, c: int) -> None:
    for seed in range(20):
        rows = gaussian(n, c, seed)
        matrix, losses = find(rows, 20)
        expected, expected_losses = truth(rows, len(losses))
        assert 1 <= len(losses) <= 20
        assert np.allclose(losses, expected_losses, rtol=1e-5)
        assert np.array_equal(rows @ matrix >= 0, rows @ expected >= 0)


@pytest.mark.parametrize("power", [-110, -60, -20, 20, 60, 110])
def test_scale_changes_no_turn(power: int) -> None:
    rows = gaussian(500, 12)
    matrix, losses = find(rows, 20)
    scaled, scaled_losses = find(np.ldexp(rows, power), 20)
    assert np.array_equal(scaled, matrix)
    assert len(scaled_losses) == len(losses)


def test_losses_are_those_of_each_rotation_on_the_way() -> None:
    """Stopping after k turns gives the k-th rotation, whose loss, measured apart, falls from turn
    to turn.
    """
    rows = gaussian(3000, 24)
    V = rows.astype(np.float64)
    curve = find(rows, 12)[1]
    measured = []
    for k in range(1, 13):
        matrix, losses = find(rows, k)
        assert np.array_equal(losses, curve[:k])
        turned = V @ matrix
        measured.append(np.square(np.where(turned >= 0, 1.0, -1.0) - turned).sum(axis=1).mean())
    assert (np.diff(measured) < 1e-6 * measured[0]).all()
    assert (measured <= curve * (1 + 1e-6)).all()
    assert (measured[:-1] >= curve[1:] * (1 - 1e-6)).all()


def test_it_ends_once_the_codes_stop_changing() -> None:
    rows = gaussian(40, 4)
    matrix, losses = find(rows, 10_000)
    assert len(losses) < 200
    again = truth(rows, len(losses) + 5)[0]
    assert np.array_equal(rows @ matrix >= 0, rows @ again >= 0)


def test_corners_of_a_cube_are_found_again() -> None:
    """Rows that are a rotated cube's corners lose nothing in the end, from most starts."""
    rng = np.random.default_rng(0)
    corners = np.where(rng.random((4000, 6)) < 0.5, -1.0, 1.0)
    rows = (corners @ np.linalg.qr(rng.standard_normal((6, 6)))[0]).astype(np.float32)
    best = min(find(rows, 200, seed)[1][-1] for seed in range(5))
    assert best == pytest.approx(0.0, abs=1e-4)


def test_nothing_to_turn_keeps_the_random_start() -> None:
    rows = np.zeros((20, 5), dtype=np.float32)
    matrix, losses = find(rows)
    assert losses.shape == (0,)
    assert np.array_equal(matrix, RandomRotation().matrix(Projected(rows), 5, Draws(0, "rotation")))


def test_more_rows_than_pieces_of_one_block_are_all_used() -> None:
    """Where a piece has several blocks, the last of them short, sums still hold every row once."""
    rows = gaussian(_PIECES * 1024 + 77, 300)
    assert find(rows, 1)[1][0] == pytest.approx(truth(rows, 1)[1][0], rel=1e-5)


def test_of_many_rows_evenly_spaced_ones_are_used() -> None:
    rows = gaussian(1000, 7)
    few = ITQ(5, max_rows=300).matrix(Projected(rows), 7, Draws(0, "rotation"))
    assert np.array_equal(few, find(rows[np.floor(np.arange(300) * 1000 / 300).astype(int)], 5)[0])
    assert np.array_equal(
        ITQ(5, max_rows=1000).matrix(Projected(rows), 7, Draws(0, "rotation")), find(rows, 5)[0]
    )
