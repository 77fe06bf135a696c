from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_share_of_empty_windows_is_what_all_permutations_give(degree: int, window: int) -> None:
    n = 4
    for n_nonzero in range(n + 1):
        nonzero = np.arange(n) < n_nonzero
        slots = [nonzero[list(picked)] for picked in itertools.permutations(range(n), window)]
        empty = [
            not np.logical_and.reduce(group).any()
            for group in itertools.product(slots, repeat=degree)
        ]
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
    assert theory.empty_share(10**6, 100, 10**5) == pytest.approx(
        math.comb(900_000, 100) / math.comb(10**6, 100)
    )
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
