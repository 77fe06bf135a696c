from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from bitkin.errors import InvalidInputError
from bitkin.vector_stores.ranking import check_share, choose_diverse, relevance_of, similarity_of


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [0, 1, 7, 63])
def test_hits_that_differ_are_those_that_langchain_would_choose(n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    query, vectors = rng.standard_normal(5), rng.standard_normal((n, 5)).astype(np.float16)
    for k in (1, 4, n + 1):
        truth = maximal_marginal_relevance(
            query, [list(map(float, one)) for one in vectors], lambda_mult=share, k=k
        )
        assert choose_diverse(query, vectors, k, share)[0] == truth


def test_a_share_of_nothing_begins_with_the_nearest() -> None:
    vectors = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1]])
    chosen, scores = choose_diverse(np.array([1.0, 0.0]), vectors, 2, 0.0)
    assert chosen == [1, 0]
    assert scores == [0.0, 0.0]


def test_vectors_of_zeros_are_chosen_last() -> None:
    vectors = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert choose_diverse(np.array([1.0, 0.0]), vectors, 2, 0.5)[0] == [1, 0]


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_relevance_lies_between_0_and_1_and_falls_with_distance(metric: str) -> None:
    distances = [-1e9, -40.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 2.0, 2.0 + 1e-9, 40.0, 1e9]
    relevance = [relevance_of(metric)(distance) for distance in distances]
    assert all(0.0 <= one <= 1.0 for one in relevance)
    assert relevance == sorted(relevance, reverse=True)


def test_similarities_are_what_people_know() -> None:
    assert similarity_of("cosine")(1.25) == -0.25
    assert similarity_of("ip")(-7.5) == 7.5
    assert similarity_of("l2")(3.0) == 0.25
    assert relevance_of("cosine")(0.25) == 0.75


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, True, "0.5", None])
def test_a_share_is_a_number_from_0_to_1(share: Any) -> None:
    with pytest.raises(InvalidInputError, match="lambda_mult must be a number from 0"):
        check_share(share, "lambda_mult")
