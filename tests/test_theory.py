from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory
from bitkin.errors import InvalidInputError

A = (10, 5, 2, 6, 12, 3)
B = (4, 5, 10, 2, 3, 1)


def agreement_truth(x: Any, y: Any) -> npt.NDArray[np.int64]:
    """Count, for every feature, those below it in both."""
    x, y = np.asarray(x), np.asarray(y)
    below: npt.NDArray[np.int64] = ((x[None] < x[:, None]) & (y[None] < y[:, None])).sum(axis=1)
    return below


def windows_truth(x: Any, y: Any, window: int) -> tuple[float, float]:
    """Look at every window in every order; return the collision probability of WTA, and the good kernel."""
    same = same_and_filled = not_both_empty = 0
    for picked in itertools.permutations(range(len(x)), window):
        a, b = [x[i] for i in picked], [y[i] for i in picked]
        equal = a.index(max(a)) == b.index(max(b))
        same += equal
        same_and_filled += equal and any(a) and any(b)
        not_both_empty += any(a) or any(b)
    return same / math.perm(len(x), window), same_and_filled / max(not_both_empty, 1)


def small_pairs(values: st.SearchStrategy[int], most: int = 6) -> st.SearchStrategy[tuple[list[int], list[int], int]]:
    """Two vectors of one length up to `most`, and a window."""

    def of_length(n: int) -> st.SearchStrategy[tuple[list[int], list[int], int]]:
        vector = st.lists(values, min_size=n, max_size=n)
        return st.tuples(vector, vector, st.integers(1, n))

    return st.integers(1, most).flatmap(of_length)


with_ties_and_zeros = small_pairs(st.sampled_from([-2, -1, 0, 0, 0, 1, 2]))
without_ties = st.integers(1, 6).flatmap(
    lambda n: st.tuples(st.permutations(range(-2, n - 2)), st.permutations(range(-2, n - 2)), st.integers(1, n))
)


# Pairwise order and rank agreement


def test_the_example_of_the_paper() -> None:
    assert [{j for j in range(6) if v[j] < v[0]} for v in (A, B)] == [{1, 2, 3, 5}, {3, 4, 5}]
    assert theory.rank_agreement(A, B).tolist() == [2, 1, 0, 1, 2, 0]
    assert theory.pairwise_order(A, B) == 6
    assert type(theory.pairwise_order(A, B)) is int


def test_pairwise_order_is_the_double_sum_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 9):
        x, y = rng.integers(0, 5, n), rng.integers(0, 5, n)
        pairs = [(x[i] - x[j]) * (y[i] - y[j]) > 0 for i in range(n) for j in range(i)]
        assert theory.pairwise_order(x, y) == sum(pairs)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("n_values", [1, 2, 10, 10**9])
def test_rank_agreement_counts_what_is_below_in_both(n: int, n_values: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.integers(-n_values, n_values, n), rng.integers(-n_values, n_values, n)
    found = theory.rank_agreement(x, y)
    assert found.dtype == np.int64
    assert np.array_equal(found, agreement_truth(x, y))


@given(small_pairs(st.integers(-3, 3), most=40), st.randoms(use_true_random=False))
def test_rank_agreement_keeps_its_laws(pair: tuple[list[int], list[int], int], random: Any) -> None:
    x, y = np.array(pair[0]), np.array(pair[1])
    found = theory.rank_agreement(x, y)
    assert np.array_equal(found, agreement_truth(x, y))
    assert np.array_equal(found, theory.rank_agreement(y, x))
    assert np.array_equal(found, theory.rank_agreement(7.0 * x + 3, np.exp(y)))
    order = random.sample(range(len(x)), len(x))
    assert np.array_equal(found[order], theory.rank_agreement(x[order], y[order]))


def test_large_integers_are_not_rounded_and_types_do_not_matter() -> None:
    close = np.array([2**62, 2**62 + 1, 2**62 + 2])
    assert theory.pairwise_order(close, [1, 2, 3]) == 3
    assert theory.pairwise_order(close.astype(np.uint64) * 3, [1, 2, 3]) == 3
    for dtype in ("f2", "f4", ">f8", "i1", "u1", ">i2"):
        assert theory.rank_agreement(np.array(A, dtype=dtype), B).tolist() == [2, 1, 0, 1, 2, 0]
    assert theory.pairwise_order([True, False], [0.5, -0.5]) == 1
    assert theory.pairwise_order([0.0, -0.0], [1, 2]) == 0  # two zeros, however written, are equal


# Winner-take-all similarity


@given(without_ties)
def test_equation_6_is_the_collision_probability_without_ties(pair: tuple[list[int], list[int], int]) -> None:
    x, y, window = pair
    assert theory.wta_similarity(x, y, window) == pytest.approx(windows_truth(x, y, window)[0], abs=1e-14)
    assert theory.wta_similarity(x, y, window) == pytest.approx(theory.wta_collision(x, y, window), abs=1e-14)


@given(with_ties_and_zeros)
def test_with_ties_equation_6_is_a_lower_bound_and_wta_collision_exact(pair: tuple[list[int], list[int], int]) -> None:
    x, y, window = pair
    truth = windows_truth(x, y, window)[0]
    assert theory.wta_collision(x, y, window) == pytest.approx(truth, abs=1e-14)
    assert theory.wta_similarity(x, y, window) <= truth + 1e-14


@pytest.mark.parametrize("n", [2, 9, 200])
def test_a_window_of_two_is_kendalls_tau(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal(n), rng.standard_normal(n)
    assert 2 * theory.wta_similarity(x, y, 2) - 1 == pytest.approx(scipy.stats.kendalltau(x, y).statistic, abs=1e-13)


@pytest.mark.parametrize("window", [1, 2, 5, 40, 300])
def test_equation_6_in_whole_numbers(window: int) -> None:
    rng = np.random.default_rng(window)
    x = rng.permutation(300)
    y = x + rng.integers(-20, 20, 300)
    ways = sum(math.comb(int(r), window - 1) for r in agreement_truth(x, y))
    assert theory.wta_similarity(x, y, window) == pytest.approx(ways / math.comb(300, window), rel=1e-12)


def test_the_ends_of_the_window() -> None:
    x = np.array([3, 1, 2])
    assert theory.wta_similarity(x, -x, 1) == pytest.approx(1)  # one competitor always wins
    assert theory.wta_similarity(x, x, 3) == pytest.approx(1)
    assert theory.wta_similarity(x, -x, 3) == 0
    assert theory.wta_similarity([7], [9], 1) == 1


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(*[st.lists(st.booleans(), min_size=n, max_size=n)] * 2)))
def test_binary_vectors_and_the_whole_as_window_give_jaccard(pair: tuple[list[bool], list[bool]]) -> None:
    x, y = np.array(pair[0]), np.array(pair[1])
    if x.any() and y.any():
        assert theory.wta_collision(x, y, len(x)) == pytest.approx((x & y).sum() / (x | y).sum())
        assert theory.good_kernel(x, y, len(x)) == pytest.approx((x & y).sum() / (x | y).sum())


# The good kernel


@given(with_ties_and_zeros)
def test_the_good_kernel_is_what_all_windows_in_all_orders_give(pair: tuple[list[int], list[int], int]) -> None:
    x, y, window = pair
    assert theory.good_kernel(x, y, window) == pytest.approx(windows_truth(x, y, window)[1], abs=1e-14)


def exact_good_kernel(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], window: int) -> Fraction:
    """The same in whole numbers for windows of nonnegative vectors: the winner is positive in both."""
    n, ways = len(x), Fraction(0)
    for i in np.flatnonzero((x > 0) & (y > 0)):
        at_most, below = (x <= x[i]) & (y <= y[i]), int(((x < x[i]) & (y < y[i])).sum())
        tied = int(at_most.sum()) - below - 1
        for t in range(min(tied, window - 1) + 1):
            ways += Fraction(math.comb(tied, t) * math.comb(below, window - 1 - t), t + 1)
    return ways / (math.comb(n, window) - math.comb(int(((x == 0) & (y == 0)).sum()), window))


@pytest.mark.parametrize(("n", "n_nonzero"), [(50, 50), (300, 40), (5000, 12), (100_000, 5)])
@pytest.mark.parametrize("window", [2, 4, 16])
def test_the_good_kernel_keeps_its_digits_on_sparse_vectors(n: int, n_nonzero: int, window: int) -> None:
    rng = np.random.default_rng(n + window)
    x, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for v in (x, y):
        v[rng.permutation(n_nonzero + 3)[:n_nonzero] % n] = rng.integers(1, 6, n_nonzero)
    assert theory.good_kernel(x, y, window) == pytest.approx(float(exact_good_kernel(x, y, window)), rel=1e-11)


@given(with_ties_and_zeros, st.randoms(use_true_random=False))
def test_the_good_kernel_keeps_its_laws(pair: tuple[list[int], list[int], int], random: Any) -> None:
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
    assert theory.wta_collision([0, 0], [0, 0], 2) == pytest.approx(1)  # the false match that densification ends


# Ranks of winners


@pytest.mark.parametrize(("n", "window"), [(1, 1), (6, 1), (6, 4), (6, 6), (100, 3), (1000, 500)])
def test_ranks_of_winners_in_whole_numbers(n: int, window: int) -> None:
    found = theory.winner_rank_distribution(n, window)
    truth = [math.comb(n - j - 1, window - 1) / math.comb(n, window) for j in range(n)]
    assert found.shape == (n,)
    assert found == pytest.approx(np.array(truth), rel=1e-12, abs=1e-290)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_ranks_of_winners_in_all_windows() -> None:
    for window in range(1, 7):
        winners = [min(picked) for picked in itertools.combinations(range(6), window)]  # rank 0 is the largest
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


# Empty windows


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_share_of_empty_windows_is_what_all_permutations_give(degree: int, window: int) -> None:
    n = 4
    for n_nonzero in range(n + 1):
        nonzero = np.arange(n) < n_nonzero
        slots = [nonzero[list(picked)] for picked in itertools.permutations(range(n), window)]
        empty = [not np.logical_and.reduce(group).any() for group in itertools.product(slots, repeat=degree)]
        found = theory.empty_share(n, n_nonzero, window, degree)
        assert type(found) is float
        assert found == pytest.approx(np.mean(empty), abs=1e-13)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_with_many_features_the_rule_of_thumb_holds(degree: int) -> None:
    thumb = (1 - (20_000 / 100_000) ** degree) ** 16
    assert theory.empty_share(100_000, 20_000, 16, degree) == pytest.approx(thumb, rel=1e-3)


def test_the_share_of_empty_windows_of_sparse_rows() -> None:
    assert theory.empty_share(10**6, 100, 4) == pytest.approx(0.9996, abs=1e-6)
    assert theory.empty_share(2**64, 100, 4) == pytest.approx(1)
    assert theory.empty_share(10**6, 100, 10**5) == pytest.approx(math.comb(900_000, 100) / math.comb(10**6, 100))
    assert theory.empty_share(10, 7, 4) == 0  # four places, three zeros


@pytest.mark.parametrize("degree", [1, 2])
def test_many_rows_at_once(degree: int) -> None:
    counts = np.array([[3, 0, 50], [3, 20, 1]], dtype=np.uint8)
    found = theory.empty_share(50, counts, 5, degree)
    truth = [[theory.empty_share(50, int(count), 5, degree) for count in row] for row in counts]
    assert found == pytest.approx(np.array(truth))
    assert theory.empty_share(50, counts[:0], 5, degree).shape == (0, 3)


@given(st.integers(1, 60), st.data())
def test_emptiness_falls_with_nonzeros_and_windows_and_grows_with_degree(n: int, data: Any) -> None:
    window, degree = data.draw(st.integers(1, n)), data.draw(st.integers(1, 3))
    shares = theory.empty_share(n, np.arange(n + 1), window, degree)
    assert (np.diff(shares) <= 1e-12).all()
    assert shares[0] == pytest.approx(1)
    assert shares[n] == pytest.approx(0)
    assert (theory.empty_share(n, np.arange(n + 1), window, degree + 1) >= shares - 1e-12).all()
    if window > 1:
        assert (theory.empty_share(n, np.arange(n + 1), window - 1, degree) >= shares - 1e-12).all()


# Conjunctions and bands


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.integers(1, 4))
def test_conjunctions_are_sets_of_tuples(a: set[int], b: set[int], p: int) -> None:
    tuples_a, tuples_b = (set(itertools.product(members, repeat=p)) for members in (a, b))
    jaccard = len(a & b) / max(len(a | b), 1)
    truth = len(tuples_a & tuples_b) / max(len(tuples_a | tuples_b), 1)
    assert theory.conjunction_jaccard(jaccard, len(a), len(b), p) == pytest.approx(truth, abs=1e-14)


def test_conjunctions_of_large_sets_and_many_pairs() -> None:
    found = theory.conjunction_jaccard(np.array([0.0, 0.5, 1.0]), 10**9, 10**9, 40)
    assert found == pytest.approx(np.array([0, (2 / 3) ** 40 / (2 - (2 / 3) ** 40), 1]))
    assert type(theory.conjunction_jaccard(0.5, 3, 3, 1)) is float
    assert theory.conjunction_jaccard(0.5, 3, 3, 1) == pytest.approx(0.5)


def test_a_jaccard_estimated_too_high_for_the_sizes_counts_as_the_highest_possible() -> None:
    assert theory.conjunction_jaccard(0.9, 10, 5, 2) == pytest.approx(25 / 100)


@given(st.floats(0, 1), st.integers(1, 200), st.integers(1, 20))
def test_bands_meet_as_the_formula_says(similarity: float, bands: int, rows: int) -> None:
    found = theory.band_probability(similarity, bands, rows)
    assert type(found) is float
    assert found == pytest.approx(1 - (1 - similarity**rows) ** bands, abs=1e-12)


def test_bands_at_the_ends_and_over_grids() -> None:
    assert theory.band_probability(0.0, 5, 3) == 0
    assert theory.band_probability(1.0, 5, 3) == 1
    assert theory.band_probability(1e-3, 10, 6) == pytest.approx(1e-17, rel=1e-9)
    curve = theory.band_probability(np.linspace(0, 1, 11), np.array([[1], [7]]), 4)
    assert curve.shape == (2, 11)
    assert (np.diff(curve) > 0).all()


# Bad input


PAIRED: dict[str, Any] = {
    "pairwise_order": theory.pairwise_order,
    "rank_agreement": theory.rank_agreement,
    "wta_similarity": lambda x, y: theory.wta_similarity(x, y, 2),
    "wta_collision": lambda x, y: theory.wta_collision(x, y, 2),
    "good_kernel": lambda x, y: theory.good_kernel(x, y, 2),
}


@pytest.mark.parametrize("compare", PAIRED.values(), ids=PAIRED)
@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1, 2, 3], [1, 2], "x and y must have the same number of features, got 3 and 2"),
        ([[1, 2]], [[1, 2]], r"x must be one vector of at least one number, got shape \(1, 2\)"),
        ([1, 2], 5, r"y must be one vector of at least one number, got shape \(\)"),
        ([], [], r"x must be one vector of at least one number, got shape \(0,\)"),
        ([1, 2], [1, np.nan], "y must be finite, got nan at position 1"),
        ([-np.inf, 2], [1, 2], "x must be finite, got -inf at position 0"),
        (["a", "b"], [1, 2], "x must hold integers or floats up to 64 bits, got text"),
        ([1, 2], [1j, 2], "y must hold integers or floats up to 64 bits, got complex numbers"),
        ([1, None], [1, 2], "x must hold integers or floats"),
        ([1, [2]], [1, 2], "x cannot become an array of numbers"),
        (scipy.sparse.csr_array([[1, 2]]), [1, 2], r"x must be a dense vector.*x\.toarray\(\)\.ravel\(\)"),
        (np.ma.masked_equal([1, 2], 2), [1, 2], "x has masked entries"),
    ],
)
def test_bad_vectors_are_one_clear_error(compare: Any, x: Any, y: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        compare(x, y)


@pytest.mark.parametrize(
    "similarity", [theory.wta_similarity, theory.wta_collision, theory.good_kernel], ids=lambda f: f.__name__
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


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.winner_rank_distribution(0, 1), "n must be at least 1, got 0"),
        (lambda: theory.winner_rank_distribution(5, 6), "window must be between 1 and 5, got 6"),
        (lambda: theory.winner_rank_distribution(5, "4"), "window must be a whole number, got '4'"),  # type: ignore[arg-type]
        (lambda: theory.empty_share(0, 0, 1), "n_features must be at least 1, got 0"),
        (lambda: theory.empty_share(10, 11, 4), "n_nonzero must be between 0 and 10, got 11"),
        (lambda: theory.empty_share(10, np.array([3, -1]), 4), "n_nonzero must be between 0 and 10, got -1"),
        (lambda: theory.empty_share(10, 2.5, 4), "n_nonzero must be whole numbers, got 2.5"),  # type: ignore[call-overload]
        (lambda: theory.empty_share(10, True, 4), "n_nonzero must be whole numbers, got True"),
        (lambda: theory.empty_share(10, 5, 11), "window must be between 1 and 10, got 11"),
        (lambda: theory.empty_share(10, 5, 4, 0), "degree must be at least 1, got 0"),
        (lambda: theory.conjunction_jaccard(1.1, 5, 5, 2), "jaccard must be from 0 to 1, got 1.1"),
        (lambda: theory.conjunction_jaccard(np.nan, 5, 5, 2), "jaccard must be from 0 to 1, got nan"),
        (lambda: theory.conjunction_jaccard(0.5, -1, 5, 2), "size_a must be at least 0, got -1"),
        (lambda: theory.conjunction_jaccard(0.5, 5, 2.5, 2), "size_b must be whole numbers, got 2.5"),  # type: ignore[call-overload]
        (lambda: theory.conjunction_jaccard(0.5, 5, 5, 0), "p must be at least 1, got 0"),
        (lambda: theory.band_probability(-0.1, 5, 5), "similarity must be from 0 to 1, got -0.1"),
        (lambda: theory.band_probability("0.5", 5, 5), "similarity must hold integers or floats"),  # type: ignore[call-overload]
        (lambda: theory.band_probability(0.5, 0, 5), "bands must be at least 1, got 0"),
        (lambda: theory.band_probability(0.5, 5, np.array([3, 0])), "rows must be at least 1, got 0"),
    ],
)
def test_bad_numbers_are_one_clear_error(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
