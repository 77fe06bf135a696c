from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.errors import InvalidInputError
from bitkin.evaluate import kendall, spearman

BOTH = pytest.mark.parametrize("agreement", [kendall, spearman])


def tau_b(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Count all pairs."""
    x, y = np.sign(a[:, None] - a), np.sign(b[:, None] - b)
    return float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum()))


def rho(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Correlate how many rows each row is behind, ties counting half."""
    x, y = (np.sign(values[:, None] - values).sum(axis=1) for values in (a, b))
    return float(np.corrcoef(x, y)[0, 1])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=9))
def test_ties_are_allowed_for(items: list[tuple[int, int]]) -> None:
    a, b = (np.array(side) for side in zip(*items, strict=True))
    a[:2], b[:2] = (0, 1), (3, 0)
    assert kendall([a], [b]) == pytest.approx(tau_b(a, b), abs=1e-12)
    assert spearman([a], [b]) == pytest.approx(rho(a, b), abs=1e-12)
    assert kendall([a * 0.1], [b.astype(np.uint8)]) == pytest.approx(tau_b(a, b), abs=1e-12)


@pytest.mark.parametrize("n", [3, 7, 63, 64, 65, 1000])
def test_with_and_without_ties_they_are_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    a = np.array([rng.permutation(n) for _ in range(4)])
    for b in (a + rng.normal(0, n, a.shape), np.minimum(a // 2, 90)):
        taus = [scipy.stats.kendalltau(x, y).statistic for x, y in zip(a, b, strict=True)]
        rhos = [scipy.stats.spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)]
        assert kendall(a, b) == pytest.approx(np.mean(taus), abs=1e-12)
        assert spearman(a, b) == pytest.approx(np.mean(rhos), abs=1e-12)


@BOTH
def test_the_same_ranking_is_one_and_the_opposite_minus_one(agreement: Callable[..., Any]) -> None:
    a = np.random.default_rng(0).permutation(65)[None].astype(float)
    assert agreement(a, np.exp(a / 65)) == pytest.approx(1.0, abs=1e-12)
    assert agreement(a, -a) == pytest.approx(-1.0, abs=1e-12)
    assert agreement(np.where(a == 64, np.inf, a), a) == pytest.approx(1.0, abs=1e-12)


@BOTH
def test_queries_that_rank_nothing_are_left_out_and_counted(agreement: Callable[..., Any]) -> None:
    found = agreement([[1, 2], [1, 1], [1, 2]], [[3, 4], [3, 4], [5, 5]], details=True)
    assert found.values.tolist()[0] == pytest.approx(1.0)
    assert np.isnan(found.values[1:]).all()
    assert found.n_left_out == 2
    assert found.mean == agreement([[1, 2], [1, 1]], [[3, 4], [3, 4]])


@BOTH
def test_bad_rankings_are_refused_by_name(agreement: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"a and b must have one shape, .*\(1, 2\) and \(1"):
        agreement([[1, 2]], [[1, 2, 3]])
    with pytest.raises(InvalidInputError, match="b must be numbers, got nan in row 0, column 1"):
        agreement([[1, 2]], [[1, np.nan]])
    with pytest.raises(InvalidInputError, match="a must be whole numbers or floats, got dtype"):
        agreement([["x", "y"]], [[1, 2]])
    for nothing in ([[1, 1]], [[1]], np.empty((0, 3)), np.empty((2, 0))):
        with pytest.raises(InvalidInputError, match="there is nothing to compare"):
            agreement(nothing, nothing)
