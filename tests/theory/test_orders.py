from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory
from tests.theory.pairs import A, B, agreement_truth, small_pairs


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
