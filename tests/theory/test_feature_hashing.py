from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from bitkin import theory
from bitkin.errors import InvalidInputError
from bitkin.theory.feature_hashing import ProductMoments


def test_the_papers_example_loses_less_than_four_features() -> None:
    assert theory.expected_feature_loss(130_000, 2**20, 5) == pytest.approx(3.81, abs=0.005)
    assert theory.expected_feature_loss(130_000, 2**20, 5, exact=True) == pytest.approx(
        2.80, abs=0.005
    )


@pytest.mark.parametrize(
    ("d", "m", "T"), [(1, 1, 1), (1, 3, 2), (2, 1, 2), (2, 3, 2), (3, 2, 2), (3, 3, 1), (3, 2, 1)]
)
def test_the_exact_loss_is_the_mean_over_all_hash_functions(d: int, m: int, T: int) -> None:
    lost = [
        sum(all(level.count(level[j]) > 1 for level in hashes) for j in range(d))
        for hashes in itertools.product(itertools.product(range(m), repeat=d), repeat=T)
    ]
    assert theory.expected_feature_loss(d, m, T, exact=True) == pytest.approx(float(np.mean(lost)))
    assert theory.expected_feature_loss(d, m, T) >= np.mean(lost)


def test_the_bound_is_never_more_than_all_features() -> None:
    assert theory.expected_feature_loss(1000, 10, 3) == 1000
    assert theory.expected_feature_loss(1000, 10, 3, exact=True) == pytest.approx(1000)
    assert theory.expected_feature_loss(2**53, 1, 7, exact=True) == 2**53
    assert theory.expected_feature_loss(1, 10, 3) == 0


def test_buckets_and_components_of_theorem_1() -> None:
    m = theory.buckets_for(0.25, 0.01, 4)
    assert m == math.ceil(288 * math.log(600) / (0.25**2 * 4))
    assert type(m) is int
    assert theory.largest_component(m, 0.01, 4) == pytest.approx(
        math.sqrt(12 / (8 * m * math.log(6 * m / 0.01)))
    )


@pytest.mark.parametrize("shared", [1, 2, 3])
def test_moments_of_hashed_products_are_those_over_all_hash_functions(shared: int) -> None:
    x, y, m, T = np.array([0.5, -2.0]), np.array([1.5, 1.0]), 3, 3

    def hashed(vector: Any, buckets: Any, signs: Any) -> Any:
        return sum(
            sign * value * np.eye(m)[bucket]
            for value, bucket, sign in zip(vector, buckets, signs, strict=True)
        )

    nodes = list(
        itertools.product(
            itertools.product(range(m), repeat=2), itertools.product([1, -1], repeat=2)
        )
    )
    same = np.array([hashed(x, *node) @ hashed(y, *node) for node in nodes])
    other = np.array([hashed(x, *a) @ hashed(y, *b) for a in nodes for b in nodes])
    # Levels are independent: means and variances add, each level scaled by 1/T.
    mean = (shared * same.mean() + (T - shared) * other.mean()) / T
    variance = (shared * same.var() + (T - shared) * other.var()) / T**2
    found = theory.hashed_product(x, y, m, T, shared=shared)
    assert isinstance(found, ProductMoments)
    assert found == pytest.approx((mean, variance))
    assert theory.hashed_product(x, y, m, T) == theory.hashed_product(x, y, m, T, shared=T)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.expected_feature_loss(0, 1, 1), "d must be between 1"),
        (lambda: theory.expected_feature_loss(1, 0, 1), "m must be between 1"),
        (lambda: theory.expected_feature_loss(1, 1.5, 1), "m must be a whole number, got 1.5"),  # type: ignore[arg-type]
        (lambda: theory.expected_feature_loss(1, 1, 0), "T must be between 1"),
        (
            lambda: theory.buckets_for(0, 0.5, 1),
            "epsilon must be a number above 0 and below 1, got 0",
        ),
        (
            lambda: theory.buckets_for(0.5, 1, 1),
            "delta must be a number above 0 and below 1, got 1",
        ),
        (
            lambda: theory.largest_component(1, math.nan, 1),
            "delta must be a number above 0 and below 1, got nan",
        ),
        (lambda: theory.hashed_product([1], [1, 2], 4, 2), "same number of features"),
        (
            lambda: theory.hashed_product([1], [1], 4, 2, shared=3),
            "shared must be between 1 and 2, got 3",
        ),
    ],
    ids=["d", "m", "fraction", "T", "epsilon", "delta", "nan", "lengths", "shared"],
)
def test_what_no_formula_can_use_is_refused(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
