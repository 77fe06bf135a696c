"""What the one pass over all rows keeps, against slow truths."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.evaluate.diagnosis.copies import CopyCounter, hash_rows
from bitkin.evaluate.diagnosis.finding import percent, short
from bitkin.evaluate.diagnosis.stretches import StretchMeans


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 5), st.sampled_from([2, 50]))
def test_rows_have_one_hash_exactly_when_they_are_equal(
    seed: int, n: int, d: int, kinds: int
) -> None:
    X = np.random.default_rng(seed).integers(-1, kinds, (n, d)).astype(np.float32)
    X[X == -1] = -0.0
    hashes = hash_rows(X)
    assert len(np.unique(hashes)) == len(np.unique(X + 0.0, axis=0))
    assert np.array_equal(hash_rows(scipy.sparse.csr_array(X)), hashes)
    assert np.array_equal(hash_rows(X.astype(np.float64)), hashes)


def test_an_order_of_columns_and_explicit_zeros_matter_as_they_should() -> None:
    assert len(np.unique(hash_rows(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])))) == 3
    stored = scipy.sparse.csr_array(([1.0, 0.0], [0, 1], [0, 2]), shape=(1, 2))
    assert hash_rows(stored)[0] == hash_rows(np.array([[1.0, 0.0]]))[0]


def test_copies_are_counted_exactly_while_hashes_are_few() -> None:
    rows = np.random.default_rng(0).integers(0, 700, 1000)
    counter = CopyCounter()
    for part in np.array_split(rows, 7):
        counter.count(hash_rows(part[:, None]))
    assert counter.exact
    assert counter.copied_share() == pytest.approx(1 - len(np.unique(rows)) / 1000)
    assert counter.most_copies() == np.bincount(rows).max()


def test_copies_are_estimated_in_bounded_memory() -> None:
    rng = np.random.default_rng(1)
    rows = rng.permutation(np.concatenate([np.arange(50_000), rng.integers(0, 50_000, 20_000)]))
    counter = CopyCounter(most=4096)
    for part in np.array_split(rows, 11):
        counter.count(hash_rows(part[:, None]))
    assert not counter.exact
    assert counter.copied_share() == pytest.approx(20_000 / 70_000, abs=0.03)
    assert counter.copied_share() == counter.copied_share()


def slow_share_between(X: np.ndarray, rows_each: int) -> float:
    parts = [X[at : at + rows_each] for at in range(0, len(X), rows_each)]
    off = [len(part) * ((part.mean(axis=0) - X.mean(axis=0)) ** 2).sum() for part in parts]
    return float(sum(off) / ((X - X.mean(axis=0)) ** 2).sum())


@pytest.mark.parametrize(("n", "rows_each"), [(65, 64), (999, 64), (4096, 64), (4097, 128)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_share_between_stretches_is_that_of_their_means(
    n: int, rows_each: int, sparse: bool
) -> None:
    rng = np.random.default_rng(n)
    X = np.sign(rng.standard_normal((n, 5))) + np.linspace(0, 1e-3, n)[:, None]
    means = StretchMeans(5)
    for part in np.array_split(X, 6):
        given_rows = scipy.sparse.csr_array(part) if sparse else part.copy()
        means.update(given_rows, (part**2).sum(axis=1))
    between, expected, deviation = means.share_between()
    assert between == pytest.approx(slow_share_between(X, rows_each))
    assert expected == pytest.approx((-(-n // rows_each) - 1) / (n - 1))
    assert 0 < deviation


def test_random_order_gives_what_is_expected_and_wide_rows_are_folded() -> None:
    rng = np.random.default_rng(3)
    low, high = (rng.poisson(0.3, (1000, 100)).astype(np.float64) for _ in range(2))
    X = scipy.sparse.block_array([[low, None], [None, high]]).tocsr()
    # the second half of the columns lies where they are folded
    X = scipy.sparse.hstack(
        [X[:, :100], scipy.sparse.csr_array((2000, 39_800)), X[:, 100:]]
    ).tocsr()
    shares = []
    for order in (rng.permutation(2000), np.arange(2000)):
        means = StretchMeans(40_000)
        rows = X[order]
        means.update(rows, np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1))
        between, expected, deviation = means.share_between()
        shares.append((between - expected) / deviation)
    assert abs(shares[0]) < 5 < shares[1]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("n", "rows_each"), [(128, 64), (1024, 64), (8192, 128)])
def test_the_most_sorted_column_is_the_one_with_most_variance_between(
    n: int, rows_each: int, sparse: bool
) -> None:
    rng = np.random.default_rng(n)
    X = np.sign(rng.standard_normal((n, 5)))
    X[:, 1] = 1e6 + 1e-12 * rng.standard_normal(n)  # constant, but for rounding
    X[:, 3] = np.sort(X[:, 3])
    means = StretchMeans(5)
    for part in np.array_split(X, 3):
        given_rows = scipy.sparse.csr_array(part) if sparse else part.copy()
        means.update(given_rows, (part**2).sum(axis=1))
    column, share = means.most_sorted_column()
    want = slow_share_between(X[:, [3]], rows_each) - (n // rows_each - 1) / (n - 1)
    assert column == 3
    assert share == pytest.approx(want)


def test_one_rare_value_sorts_no_column() -> None:
    for n in (1, 63, 64, 65, 129, 1025):
        X = np.zeros((n, 3))
        X[-1, 2] = 1.0
        means = StretchMeans(3)
        means.update(X.copy(), (X**2).sum(axis=1))
        assert means.most_sorted_column()[1] < 0.05


def test_figures_are_written_as_people_read_them() -> None:
    assert [percent(x) for x in (0, 0.0004, 0.014, 0.3, 0.9997, 0.9961, 1)] == [
        "0 %", "under 0.1 %", "1.4 %", "30 %", "over 99.9 %", "99.6 %", "100 %",
    ]  # fmt: skip
    assert [short(x) for x in (0, 1234.5, 7.861, 0.047, 1e12, -5.004)] == [
        "0", "1,234", "7.86", "0.05", "1e+12", "-5",
    ]  # fmt: skip
