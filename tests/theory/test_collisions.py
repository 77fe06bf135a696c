from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory
from bitkin.errors import InvalidInputError
from tests.theory.pairs import (
    A,
    B,
    agreement_truth,
    windows_truth,
    with_ties_and_zeros,
    without_ties,
)


@given(without_ties)
def test_equation_6_is_the_collision_probability_without_ties(
    pair: tuple[list[int], list[int], int],
) -> None:
    x, y, window = pair
    assert theory.wta_similarity(x, y, window) == pytest.approx(
        windows_truth(x, y, window)[0], abs=1e-14
    )
    assert theory.wta_similarity(x, y, window) == pytest.approx(
        theory.wta_collision(x, y, window), abs=1e-14
    )


@given(with_ties_and_zeros)
def test_with_ties_equation_6_is_a_lower_bound_and_wta_collision_exact(
    pair: tuple[list[int], list[int], int],
) -> None:
    x, y, window = pair
    truth = windows_truth(x, y, window)[0]
    assert theory.wta_collision(x, y, window) == pytest.approx(truth, abs=1e-14)
    assert theory.wta_similarity(x, y, window) <= truth + 1e-14


@pytest.mark.parametrize("n", [2, 9, 200])
def test_a_window_of_two_is_kendalls_tau(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal(n), rng.standard_normal(n)
    assert 2 * theory.wta_similarity(x, y, 2) - 1 == pytest.approx(
        scipy.stats.kendalltau(x, y).statistic, abs=1e-13
    )


@pytest.mark.parametrize("window", [1, 2, 5, 40, 300])
def test_equation_6_in_whole_numbers(window: int) -> None:
    rng = np.random.default_rng(window)
    x = rng.permutation(300)
    y = x + rng.integers(-20, 20, 300)
    ways = sum(math.comb(int(r), window - 1) for r in agreement_truth(x, y))
    assert theory.wta_similarity(x, y, window) == pytest.approx(
        ways / math.comb(300, window), rel=1e-12
    )


def test_the_ends_of_the_window() -> None:
    x = np.array([3, 1, 2])
    assert theory.wta_similarity(x, -x, 1) == pytest.approx(1)  # one competitor always wins
    assert theory.wta_similarity(x, x, 3) == pytest.approx(1)
    assert theory.wta_similarity(x, -x, 3) == 0
    assert theory.wta_similarity([7], [9], 1) == 1


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(*[st.lists(st.booleans(), min_size=n, max_size=n)] * 2)
    )
)
def test_binary_vectors_and_the_whole_as_window_give_jaccard(
    pair: tuple[list[bool], list[bool]],
) -> None:
    x, y = np.array(pair[0]), np.array(pair[1])
    if x.any() and y.any():
        assert theory.wta_collision(x, y, len(x)) == pytest.approx((x & y).sum() / (x | y).sum())
        assert theory.good_kernel(x, y, len(x)) == pytest.approx((x & y).sum() / (x | y).sum())


@given(with_ties_and_zeros)
def test_the_good_kernel_is_what_all_windows_in_all_orders_give(
    pair: tuple[list[int], list[int], int],
) -> None:
    x, y, window = pair
    assert theory.good_kernel(x, y, window) == pytest.approx(
        windows_truth(x, y, window)[1], abs=1e-14
    )


def exact_good_kernel(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], window: int) -> Fraction:
    """The same in whole numbers for windows of nonnegative vectors: the winner is positive in
    both.
    """
    n, ways = len(x), Fraction(0)
    for i in np.flatnonzero((x > 0) & (y > 0)):
        at_most, below = (x <= x[i]) & (y <= y[i]), int(((x < x[i]) & (y < y[i])).sum())
        tied = int(at_most.sum()) - below - 1
        for t in range(min(tied, window - 1) + 1):
            ways += Fraction(math.comb(tied, t) * math.comb(below, window - 1 - t), t + 1)
    return ways / (math.comb(n, window) - math.comb(int(((x == 0) & (y == 0)).sum()), window))


@pytest.mark.parametrize(("n", "n_nonzero"), [(50, 50), (300, 40), (5000, 12), (100_000, 5)])
@pytest.mark.parametrize("window", [2, 4, 16])
def test_the_good_kernel_keeps_its_digits_on_sparse_vectors(
    n: int, n_nonzero: int, window: int
) -> None:
    rng = np.random.default_rng(n + window)
    x, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for v in (x, y):
        v[rng.permutation(n_nonzero + 3)[:n_nonzero] % n] = rng.integers(1, 6, n_nonzero)
    assert theory.good_kernel(x, y, window) == pytest.approx(
        float(exact_good_kernel(x, y, window)), rel=1e-11
    )


@given(with_ties_and_zeros, st.randoms(use_true_random=False))
def test_the_good_kernel_keeps_its_laws(
    pair: tuple[list[int], list[int], int], random: Any
) -> None:
    x, y, window = np.array(pair[0]), np.array(pair[1]), pair[2]
    found = theory.good_kernel(x, y, window)
    assert 0 <= found <= 1 + 1e-14
    assert found == pytest.approx(theory.good_kernel(y, x, window), abs=1e-14)
    assert found == pytest.approx(theory.good_kernel(0.5 * x, y**3, window), abs=1e-14)
    assert theory.good_kernel(x, x, window) == pytest.approx(float(x.any()))
    order = random.sample(range(len(x)), len(x))
    assert found == pytest.approx(theory.good_kernel(x[order], y[order], window), abs=1e-14)


def test_without_zeros_the_good_kernel_is_plain_winner_take_all() -> None:
    assert theory.good_kernel(A, B, 4) == pytest.approx(theory.wta_collision(A, B, 4))
    assert theory.good_kernel(A, B, 4) == pytest.approx(theory.wta_similarity(A, B, 4))


def test_zero_vectors_match_nothing() -> None:
    assert theory.good_kernel([0, 0], [0, 0], 1) == 0
    assert theory.good_kernel([0, 0], [3, 0], 2) == 0
    # the false match that densification ends
    assert theory.wta_collision([0, 0], [0, 0], 2) == pytest.approx(1)


@pytest.mark.parametrize(("n", "window"), [(1, 1), (6, 1), (6, 4), (6, 6), (100, 3), (1000, 500)])
def test_ranks_of_winners_in_whole_numbers(n: int, window: int) -> None:
    found = theory.winner_rank_distribution(n, window)
    truth = [math.comb(n - j - 1, window - 1) / math.comb(n, window) for j in range(n)]
    assert found.shape == (n,)
    assert found == pytest.approx(np.array(truth), rel=1e-12, abs=1e-290)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_ranks_of_winners_in_all_windows() -> None:
    for window in range(1, 7):
        # rank 0 is the largest
        winners = [min(picked) for picked in itertools.combinations(range(6), window)]
        truth = np.bincount(winners, minlength=6) / math.comb(6, window)
        assert theory.winner_rank_distribution(6, window) == pytest.approx(truth)


def test_the_formula_as_printed_does_not_sum_to_one() -> None:
    printed = [math.comb(6 - j, 4) / math.comb(6, 4) * 4 / 6 for j in range(3)]
    assert sum(printed) == pytest.approx(0.933, abs=5e-4)
    corrected = [math.comb(6 - j, 4) / math.comb(6, 4) * 4 / (6 - j) for j in range(3)]
    assert theory.winner_rank_distribution(6, 4) == pytest.approx(np.array([*corrected, 0, 0, 0]))


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_ranks_of_winners_are_a_distribution_that_falls(sizes: tuple[int, int]) -> None:
    n, window = sizes
    found = theory.winner_rank_distribution(n, window)
    assert found.sum() == pytest.approx(1)
    assert (np.diff(found) <= 1e-15).all()
    assert found[0] == pytest.approx(window / n)
    assert not found[n - window + 1 :].any()


def test_millions_of_features_and_wide_windows_are_no_trouble() -> None:
    found = theory.winner_rank_distribution(2_000_000, 5000)
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found @ np.arange(2_000_000) == pytest.approx((2_000_000 - 5000) / 5001, rel=1e-9)


@pytest.mark.parametrize(
    "similarity",
    [theory.wta_similarity, theory.wta_collision, theory.good_kernel],
    ids=lambda f: f.__name__,
)
def test_bad_windows_are_one_clear_error(similarity: Any) -> None:
    for window, words in [
        (0, "window must be between 1 and 6, got 0"),
        (7, "window must be between 1 and 6, got 7"),
        (2.0, "window must be a whole number, got 2.0"),
        (True, "window must be a whole number, got True"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            similarity(A, B, window)
