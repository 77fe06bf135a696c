"""A row gets the same code and corrections in whatever batch it comes, and wherever it stands."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.estimate import (
    LONG_ROW,
    multiply_into,
    multiply_rows_into,
    sum_sizes_into,
)

X = np.random.default_rng(0).standard_normal((130, 65)).astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("normalize", [False, True])
def test_equal_rows_get_equal_corrections_anywhere_in_a_batch(metric: str, normalize: bool) -> None:
    hasher = bitkin.ProjectionHash(63, normalize=normalize).fit(X)
    row = X[7]
    alone = bitkin.corrections(hasher, row[None], metric)
    for n_rows in (2, 5, 17, 64, 130):
        among = np.concatenate([X[:3], np.tile(row, (n_rows, 1)), X[3:9]])
        kept = bitkin.corrections(hasher, among, metric)[3 : 3 + n_rows]
        np.testing.assert_array_equal(kept, np.tile(alone, (n_rows, 1)))


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 130), max_size=6), sparse=st.booleans())
def test_any_split_of_the_rows_gives_the_same_corrections(cuts: list[int], sparse: bool) -> None:
    rows = csr_array(np.where(X > 0.3, X, np.float32(0))) if sparse else X
    hasher = bitkin.ProjectionHash(63).fit(X)
    at_once = bitkin.corrections(hasher, rows)
    bounds = [0, *sorted(cuts), 130]
    parts = [bitkin.corrections(hasher, rows[first:last]) for first, last in pairwise(bounds)]
    np.testing.assert_array_equal(np.concatenate(parts), at_once)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_bits"),
    [(0, 3, 2), (1, 1, 1), (7, 63, 13), (33, 66, 64), (65, 17, 7), (2, LONG_ROW + 5, 3)],
)
def test_the_product_is_that_of_numpy_and_of_a_lone_row(
    n_rows: int, n_features: int, n_bits: int
) -> None:
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    components = rng.standard_normal((n_features, n_bits)).astype(np.float32)
    out = np.full((n_rows, n_bits), np.nan, dtype=np.float32)
    work = np.full((32, n_bits), np.nan, dtype=np.float32)
    multiply_rows_into(read_only(rows), read_only(components), work, out)
    truth = rows.astype(np.float64) @ components.astype(np.float64)
    np.testing.assert_allclose(out, truth, atol=2e-6 * n_features)
    if n_features <= LONG_ROW:
        lone = np.empty(n_bits, dtype=np.float32)
        for row, found in zip(rows, out, strict=True):
            multiply_into(read_only(row), read_only(components), lone)
            np.testing.assert_array_equal(found, lone)
    sizes, squares = np.empty((2, n_rows))
    sum_sizes_into(read_only(out), sizes, squares)
    np.testing.assert_allclose(sizes, np.abs(out.astype(np.float64)).sum(axis=1))
    np.testing.assert_allclose(squares, np.square(out.astype(np.float64)).sum(axis=1))
