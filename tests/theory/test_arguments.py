"""Bad input: one clear error, the same for all formulas that take the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin import theory
from bitkin.errors import InvalidInputError

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
        (
            scipy.sparse.csr_array([[1, 2]]),
            [1, 2],
            r"x must be a dense vector.*x\.toarray\(\)\.ravel\(\)",
        ),
        (np.ma.masked_equal([1, 2], 2), [1, 2], "x has masked entries"),
    ],
)
def test_bad_vectors_are_one_clear_error(compare: Any, x: Any, y: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        compare(x, y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.winner_rank_distribution(0, 1), "n must be at least 1, got 0"),
        (lambda: theory.winner_rank_distribution(5, 6), "window must be between 1 and 5, got 6"),
        (lambda: theory.winner_rank_distribution(5, "4"), "window must be a whole number, got '4'"),  # type: ignore[arg-type]
        (lambda: theory.empty_share(0, 0, 1), "n_features must be at least 1, got 0"),
        (lambda: theory.empty_share(10, 11, 4), "n_nonzero must be between 0 and 10, got 11"),
        (
            lambda: theory.empty_share(10, np.array([3, -1]), 4),
            "n_nonzero must be between 0 and 10, got -1",
        ),
        (lambda: theory.empty_share(10, 2.5, 4), "n_nonzero must be whole numbers, got 2.5"),  # type: ignore[call-overload]
        (lambda: theory.empty_share(10, True, 4), "n_nonzero must be whole numbers, got True"),
        (lambda: theory.empty_share(10, 5, 11), "window must be between 1 and 10, got 11"),
        (lambda: theory.empty_share(10, 5, 4, 0), "degree must be at least 1, got 0"),
        (lambda: theory.conjunction_jaccard(1.1, 5, 5, 2), "jaccard must be from 0 to 1, got 1.1"),
        (
            lambda: theory.conjunction_jaccard(np.nan, 5, 5, 2),
            "jaccard must be from 0 to 1, got nan",
        ),
        (lambda: theory.conjunction_jaccard(0.5, -1, 5, 2), "size_a must be at least 0, got -1"),
        (
            lambda: theory.conjunction_jaccard(0.5, 5, 2.5, 2),  # type: ignore[call-overload]
            "size_b must be whole numbers, got 2.5",
        ),
        (lambda: theory.conjunction_jaccard(0.5, 5, 5, 0), "p must be at least 1, got 0"),
        (lambda: theory.band_probability(-0.1, 5, 5), "similarity must be from 0 to 1, got -0.1"),
        (lambda: theory.band_probability("0.5", 5, 5), "similarity must hold integers or floats"),  # type: ignore[call-overload]
        (lambda: theory.band_probability(0.5, 0, 5), "bands must be at least 1, got 0"),
        (
            lambda: theory.band_probability(0.5, 5, 5, probes=-1),
            "probes must be at least 0, got -1",
        ),
        (
            lambda: theory.band_probability(0.5, 5, 5, alphabet_size=1),
            "alphabet_size must be at least 2, got 1",
        ),
        (
            lambda: theory.band_probability(0.5, 5, np.array([3, 0])),
            "rows must be at least 1, got 0",
        ),
    ],
)
def test_bad_numbers_are_one_clear_error(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
