"""Statistics of rows: right, the same for every cut of the rows, and mergeable."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics import RowMean, RowMoments, RowSample, ScatterSketch, sums
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.row_sample import row_hashes, sample_row_numbers
from bitkin.hashers.projection.statistics.sums import upper_times
from tests.memory import peak_of

KEY = 0x1234_5678_9ABC_DEF0


def matrix(n: int, d: int, density: float = 1.0, seed: int = 0) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * (rng.random((n, d)) < density)).astype(np.float32)


def whole(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).integers(-9, 10, (n, d)).astype(np.float32)


def scatter_of(X: npt.NDArray[Any], center: bool) -> npt.NDArray[np.float64]:
    wide = X.astype(np.float64)
    apart = wide - wide.mean(axis=0) if center else wide
    return apart.T @ apart


def pieces(X: Any, cuts: list[int]) -> list[Any]:
    edges = [0, *sorted(cuts), X.shape[0]]
    return [X[first:stop] for first, stop in pairwise(edges)]


@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 5000])
@pytest.mark.parametrize(("d", "density"), [(1, 1.0), (7, 1.0), (65, 0.5), (65, 0.01)])
@pytest.mark.parametrize("center", [True, False])
def test_moments_are_the_mean_and_the_scatter(n: int, d: int, density: float, center: bool) -> None:
    X = matrix(n, d, density) + np.float32(density == 1.0)
    for rows in (X, scipy.sparse.csr_array(X)):
        moments = RowMoments(d).update(rows)
        assert moments.n == n
        assert np.allclose(moments.mean, X.mean(axis=0, dtype=np.float64), rtol=0, atol=1e-13)
        scatter = moments.scatter(center=center)
        assert np.allclose(scatter, scatter_of(X, center), rtol=0, atol=1e-10)
        assert np.array_equal(scatter, scatter.T)


def test_tiles_meet_at_their_edges() -> None:
    X = matrix(300, 809)
    assert np.allclose(RowMoments(809).update(X).scatter(), scatter_of(X, True), rtol=0, atol=1e-10)
    symmetric = X.T[:809] @ X
    right = np.random.default_rng(1).standard_normal((809, 3))
    above = np.triu(symmetric).astype(np.float64)
    assert np.allclose(
        upper_times(above, right), symmetric.astype(np.float64) @ right, rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("density", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("sparse", [False, True])
@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 9000), max_size=6))
def test_any_cut_of_the_rows_gives_the_same_bits(
    density: float, sparse: bool, cuts: list[int]
) -> None:
    X: Any = matrix(9000, 13, density)
    X = scipy.sparse.csr_array(X) if sparse else X
    test = np.random.default_rng(1).standard_normal((13, 3))
    moments, sketch, mean = RowMoments(13), ScatterSketch(test), RowMean(13)
    for piece in pieces(X, cuts):
        moments.update(piece)
        sketch.update(piece)
        mean.update(piece)
    once = RowMoments(13).update(X)
    assert np.array_equal(moments.mean, once.mean)
    assert np.array_equal(moments.scatter(), once.scatter())
    assert np.array_equal(moments.projected(test, once.mean), once.projected(test, once.mean))
    assert np.array_equal(sketch.product(), ScatterSketch(test).update(X).product())
    assert np.array_equal(mean.mean, RowMean(13).update(X).mean)


def test_long_sparse_sequences_are_cut_into_chunks_too() -> None:
    X = scipy.sparse.csr_array(matrix(40_000, 7, 0.01))
    moments = RowMoments(7)
    for piece in pieces(X, [5, 16_384, 16_390, 33_000]):
        moments.update(piece)
    assert np.array_equal(moments.scatter(), RowMoments(7).update(X).scatter())
    assert np.allclose(moments.scatter(), scatter_of(X.toarray(), True), rtol=0, atol=1e-9)


def test_looking_at_moments_changes_nothing() -> None:
    X = matrix(5000, 9)
    looked = RowMoments(9)
    for piece in pieces(X, [10, 2000, 4500]):
        looked.update(piece)
        looked.scatter()
        assert looked.mean.shape == (9,)
    assert np.array_equal(looked.scatter(), RowMoments(9).update(X).scatter())


def test_the_number_of_threads_changes_no_bit(few_threads: None) -> None:
    X = matrix(3000, 900)
    few = scipy.sparse.csr_array(X[:200])
    test = np.random.default_rng(1).standard_normal((900, 20))
    seen = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        rows = CentredRows(X, X.mean(axis=0, dtype=np.float64))
        seen.append(
            [
                RowMoments(900).update(X).scatter(),
                RowMoments(900).update(X).projected(test, rows.centre),
                ScatterSketch(test).update(X).product(),
                rows.times(test),
                rows.column_lengths_squared(),
                rows.projected(test),
                CentredRows(few, rows.centre).times(test),
                CentredRows(few, rows.centre).gram(),
                CentredRows(few, rows.centre).lengths_squared(),
                rows.transposed_times(rows.times(test)),
                CentredRows(X[:500], rows.centre).gram(),
                rows.scatter(),
            ]
        )
    for other in seen[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(seen[0], other, strict=True))


@settings(max_examples=30, deadline=None)
@given(cuts=st.tuples(st.integers(0, 60), st.integers(0, 60)), seed=st.integers(0, 10**6))
def test_merging_is_associative_and_exact_for_whole_numbers(
    cuts: tuple[int, int], seed: int
) -> None:
    X = whole(60, 5, seed)
    test = whole(5, 2, seed + 1).astype(np.float64)
    a, b, c = (RowMoments(5).update(piece) for piece in pieces(X, list(cuts)))
    left, right, truth = a.merge(b).merge(c), a.merge(b.merge(c)), RowMoments(5).update(X)
    for merged in (left, right):
        assert merged.n == 60
        assert np.array_equal(merged.mean, truth.mean)
        assert np.allclose(merged.scatter(), truth.scatter(), rtol=0, atol=1e-10)
        assert np.array_equal(merged.scatter(center=False), scatter_of(X, False))
    d, e, f = (ScatterSketch(test).update(piece) for piece in pieces(X, list(cuts)))
    for sketch in (d.merge(e).merge(f), d.merge(e.merge(f))):
        assert np.array_equal(sketch.product(), ScatterSketch(test).update(X).product())
        assert sketch.mean_square == np.square(X).sum() / 60
    g, h, i = (RowMean(5).update(piece) for piece in pieces(X, list(cuts)))
    for mean in (g.merge(h).merge(i), g.merge(h.merge(i))):
        assert mean.n == 60
        assert np.array_equal(mean.mean, X.mean(axis=0, dtype=np.float64))


def test_merging_dense_and_sparse_or_more_rows_after_a_merge() -> None:
    X = matrix(5000, 11) + 100
    a, b = (
        RowMoments(11).update(X[:100]),
        RowMoments(11).update(scipy.sparse.csr_array(X[100:3000])),
    )
    merged = a.merge(b).update(X[3000:])
    assert np.allclose(merged.scatter(), scatter_of(X, True), rtol=1e-9)
    # neither is changed by the merge
    assert np.allclose(a.scatter(), scatter_of(X[:100], True), rtol=1e-9)
    assert np.allclose(b.scatter(), scatter_of(X[100:3000], True), rtol=1e-6, atol=1e-5)
    mixed = RowMoments(11).update(X[:100]).update(scipy.sparse.csr_array(X[100:])).scatter()
    assert np.allclose(mixed, scatter_of(X, True), rtol=1e-9)
    assert np.array_equal(RowMoments(11).merge(a).scatter(), a.scatter())
    assert np.array_equal(a.merge(RowMoments(11)).scatter(), a.scatter())
    assert np.array_equal(pickle.loads(pickle.dumps(a)).scatter(), a.scatter())


def test_a_mean_far_from_zero_costs_nothing_and_a_constant_column_is_exactly_zero() -> None:
    X = whole(4000, 4) / 64 + np.float32(30_000)
    X[:, 2] = 0.1
    scatter = RowMoments(4).update(X).scatter()
    assert np.allclose(scatter, scatter_of(X, True), rtol=1e-12, atol=1e-12)
    assert not scatter[2].any()


@pytest.mark.parametrize("place", [0, 1, 4999])
def test_a_row_far_from_all_others_harms_no_sum_wherever_it_comes(place: int) -> None:
    X = matrix(5000, 6)
    X[place] = 1e6
    others = scatter_of(np.delete(X, place, axis=0), True)
    # does not see that row
    across = np.linalg.qr(np.column_stack([np.ones(6), np.eye(6)[:, :5]]))[0][:, 1:]
    found = across.T @ RowMoments(6).update(X).scatter() @ across
    # The row itself leaves 2⁻⁵³ of 10¹²; sums about it would be 5,000 times as large, and so would
    # their rounding.
    assert np.allclose(found, across.T @ others @ across, rtol=0, atol=0.02)


@pytest.mark.parametrize("density", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("n", [1, 40, 4096, 9000])
def test_moments_along_directions_are_those_of_the_projected_rows(density: float, n: int) -> None:
    X = matrix(n, 30, density) + np.float32(5 * (density == 1.0))
    rng = np.random.default_rng(1)
    directions, about = rng.standard_normal((30, 4)), rng.standard_normal(30)
    seen = (X - about) @ directions
    for rows in (X, scipy.sparse.csr_array(X)):
        for found in (
            RowMoments(30).update(rows).projected(directions, about),
            RowMoments(30)
            .update(rows[: n // 2])
            .merge(RowMoments(30).update(rows[n // 2 :]))
            .projected(directions, about),
            CentredRows(rows, about).projected(directions),
        ):
            assert np.allclose(found, seen.T @ seen / n, rtol=1e-9, atol=1e-9)
            assert np.array_equal(found, found.T)


def test_moments_along_directions_take_no_second_matrix_of_features() -> None:
    moments = RowMoments(1500).update(matrix(200, 1500))
    directions = np.eye(1500, 5)
    assert peak_of(lambda: moments.projected(directions, np.zeros(1500))) < 0.4 * 8 * 1500**2


def test_statistics_of_other_rows_do_not_merge() -> None:
    with pytest.raises(InvalidInputError, match="other must have 3 features, got 4"):
        RowMoments(3).merge(RowMoments(4))
    with pytest.raises(InvalidInputError, match="rows must have 3 features, got 4"):
        RowMoments(3).update(np.ones((2, 4)))
    with pytest.raises(InvalidInputError, match="rows must have 3 features, got 4"):
        ScatterSketch(np.ones((3, 1))).update(np.ones((2, 4)))
    with pytest.raises(InvalidInputError, match="other must have 3 features, got 4"):
        RowMean(3).merge(RowMean(4))
    with pytest.raises(InvalidInputError, match="rows must have 3 features, got 4"):
        RowMean(3).update(np.ones((2, 4)))
    with pytest.raises(InvalidInputError, match="same test directions"):
        ScatterSketch(np.ones((3, 1))).merge(ScatterSketch(np.zeros((3, 1))))
    with pytest.raises(InvalidInputError, match="same key and size"):
        RowSample(1, 5).merge(RowSample(2, 5))


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 700), max_size=6),
    size=st.sampled_from([1, 7, 64, 699, 700, 5000, 0.05, 0.5, 1.0]),
    order=st.randoms(use_true_random=False),
)
def test_a_sample_is_the_same_for_any_cut_and_order_and_merge(
    cuts: list[int], size: int | float, order: Any
) -> None:
    X = np.arange(1400).reshape(700, 2)
    edges = [0, *sorted(cuts), 700]
    spans = list(pairwise(edges))
    order.shuffle(spans)
    truth = sample_row_numbers(700, KEY, size)
    in_turn, merged = RowSample(KEY, size), RowSample(KEY, size)
    for first, stop in spans:
        in_turn.update(first, X[first:stop])
        merged = RowSample(KEY, size).update(first, X[first:stop]).merge(merged)
    for sample in (in_turn, merged):
        assert sample.n == 700
        assert np.array_equal(sample.row_numbers, truth)
        assert np.array_equal(sample.rows, X[truth])


def test_a_sample_of_a_long_sequence_keeps_few_rows() -> None:
    counted, shared = RowSample(KEY, 100), RowSample(KEY, 0.01)
    for first in range(0, 200_000, 1000):
        block = np.arange(first, first + 1000).reshape(-1, 1)
        counted.update(first, block)
        shared.update(first, block)
        assert sum(map(len, counted._rows)) <= 1200
    assert sum(map(len, shared._rows)) < 6000
    assert np.array_equal(counted.rows.ravel(), sample_row_numbers(200_000, KEY, 100))
    assert np.array_equal(shared.rows.ravel(), sample_row_numbers(200_000, KEY, 0.01))
    assert len(shared.rows) == 2000


def test_sparse_rows_are_sampled_as_sparse_rows() -> None:
    X = scipy.sparse.csr_array(matrix(300, 20, 0.1))
    sample = RowSample(KEY, 50).update(0, X[:100]).update(100, X[100:])
    assert scipy.sparse.issparse(sample.rows)
    assert np.array_equal(sample.rows.toarray(), X.toarray()[sample.row_numbers])
    with pytest.raises(InvalidInputError, match="no rows"):
        RowSample(KEY, 50).rows  # noqa: B018


def test_every_row_has_the_same_chance() -> None:
    counts = np.zeros(40)
    keys = np.random.default_rng(0).integers(0, 2**63, 4000).tolist()
    for key in keys:
        counts[sample_row_numbers(40, key, 10)] += 1
    expected = 4000 / 4
    assert (np.abs(counts - expected) < 4.5 * np.sqrt(expected * 0.75)).all()
    assert len(np.unique(row_hashes(np.arange(100_000), KEY))) == 100_000


def test_a_share_has_a_floor_and_a_ceiling() -> None:
    assert len(sample_row_numbers(100, KEY, 0.05)) == 5
    assert len(sample_row_numbers(100, KEY, 0.05, at_least=9)) == 9
    assert len(sample_row_numbers(100, KEY, 1.0)) == 100
    assert len(sample_row_numbers(100, KEY, 500)) == 100
    assert np.array_equal(
        sample_row_numbers(2_500_000, KEY, 3),
        np.sort(np.argsort(row_hashes(np.arange(2_500_000), KEY))[:3]),
    )


@pytest.mark.parametrize("density", [1.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_centred_rows_are_an_operator(density: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X = matrix(150, 33, density) + np.float32(density == 1.0)
    centre = rng.standard_normal(33)
    weights = rng.random(150) + 0.5 if weighted else None
    A = (X - centre) * (1.0 if weights is None else weights[:, None])
    right, left = rng.standard_normal((33, 4)), rng.standard_normal((150, 4))
    for rows in (
        CentredRows(X, centre, weights),
        CentredRows(scipy.sparse.csr_array(X), centre, weights),
    ):
        assert np.allclose(rows.times(right), A @ right)
        assert np.allclose(rows.transposed_times(left), A.T @ left)
        assert np.allclose(rows.gram(), A @ A.T)
        assert np.allclose(rows.scatter(), A.T @ A)
        assert np.allclose(rows.lengths_squared(), np.square(A).sum(axis=1))
        assert np.allclose(rows.column_lengths_squared(), np.square(A).sum(axis=0))
        assert np.allclose(rows.largest_sums(), (np.linalg.norm(A, np.inf), np.linalg.norm(A, 1)))
        assert np.isclose(rows.mean_square(), np.square(X).sum() / 150)


def test_lengths_of_sparse_columns_are_never_below_zero() -> None:
    """Columns that are all centre: what is left of them is rounding, of either sign."""
    X = np.tile(np.random.default_rng(0).random(200).astype(np.float32), (7, 1))
    weights = np.random.default_rng(1).random(7) + 0.1
    lengths = CentredRows(scipy.sparse.csr_array(X), X.astype(np.float64).mean(axis=0), weights)
    assert (lengths.column_lengths_squared() >= 0).all()
    assert (lengths.lengths_squared() >= 0).all()


def test_sparse_chunks_stay_sparse_only_where_that_is_quicker() -> None:
    few, many = (scipy.sparse.csr_array(matrix(100, 50, density)) for density in (0.01, 0.5))
    held = sums.RowChunks(50, shifted=True)
    assert not list(held.push(few))
    assert [scipy.sparse.issparse(chunk) for chunk in held.rest()] == [True]
    held = sums.RowChunks(50, shifted=True)
    assert not list(held.push(many))
    assert [scipy.sparse.issparse(chunk) for chunk in held.rest()] == [False]


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_pickles_hold_sums_and_no_rows(n: int) -> None:
    X = whole(n, 70)
    for made in (RowMoments(70), ScatterSketch(np.eye(70)[:, :7])):
        statistics = made.update(X)
        pickled = pickle.dumps(statistics)
        assert len(pickled) < 70 * 70 * 8 + 8000
        again = pickle.loads(pickled)
        assert again.n == n
        np.testing.assert_array_equal(again.mean, statistics.mean)
        for one in (statistics, again):
            one.update(whole(3, 70, seed=1))
        np.testing.assert_array_equal(again.mean, statistics.mean)
