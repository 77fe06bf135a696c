from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import bitkin.evaluate.metrics
from bitkin.errors import InvalidInputError
from bitkin.evaluate import error_at_recall, mean_average_precision, precision_recall, recall


def precision_in_order(relevant: npt.NDArray[np.bool_]) -> float:
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, ranks.size + 1) / ranks).mean())


def expected_precision(distances: npt.NDArray[Any], relevant: npt.NDArray[np.bool_]) -> float:
    """Average over all orders that sort the distances."""
    orders = [list(order) for order in permutations(range(len(distances)))]
    sorted_orders = [order for order in orders if (np.diff(distances[order]) >= 0).all()]
    return float(np.mean([precision_in_order(relevant[order]) for order in sorted_orders]))


def precision_by_formula(distances: npt.NDArray[Any], relevant: npt.NDArray[np.bool_]) -> float:
    """Follow PAPERS.md literally, a tie group after another."""
    total, before, hits = 0.0, 0, 0
    for value in np.unique(distances):
        group = distances == value
        n, r = int(group.sum()), int(relevant[group].sum())
        for i in range(1, n + 1):
            total += r / n * (hits + 1 + (i - 1) * (r - 1) / max(n - 1, 1)) / (before + i)
        before, hits = before + n, hits + r
    return total / hits


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
def test_ties_count_as_the_mean_over_all_their_orders(items: list[tuple[int, bool]]) -> None:
    distances, relevant = np.array([d for d, _ in items]), np.array([r for _, r in items])
    relevant[0] = True
    found = mean_average_precision(distances[None], relevant[None])
    assert found == pytest.approx(expected_precision(distances, relevant), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_whole_numbers_floats_and_the_formula_agree(data: st.DataObject) -> None:
    q, n, top = (data.draw(st.integers(low, high)) for low, high in [(1, 5), (1, 70), (0, 40)])
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    distances = rng.integers(0, top + 1, (q, n))
    relevant = rng.random((q, n)) < 0.3
    relevant[:, rng.integers(n)] = True
    want = np.mean([precision_by_formula(d, r) for d, r in zip(distances, relevant, strict=True)])
    forms: list[Any] = [
        distances,
        distances.astype(np.uint8),
        distances.astype(np.int8) - np.int8(20),
        distances.astype(np.float32) / 7,
        -1e300 + distances * 1e290,
        distances.astype(np.uint64) * np.uint64(2**58),
        np.where(distances == distances.max(), np.inf, distances),
        np.asfortranarray(distances.astype(np.int32)),
    ]
    for form in forms:
        for truth in (
            relevant,
            scipy.sparse.csr_matrix(relevant),
            scipy.sparse.coo_array(relevant),
        ):
            assert mean_average_precision(form, truth) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 3000])
def test_without_ties_it_is_scikit_learns_average_precision(n: int) -> None:
    rng = np.random.default_rng(n)
    distances = np.array([rng.permutation(n) for _ in range(6)])
    relevant = rng.random((6, n)) < 0.4
    relevant[:, 0] = True
    want = np.mean(
        [average_precision_score(r, -d) for d, r in zip(distances, relevant, strict=True)]
    )
    assert mean_average_precision(distances, relevant) == pytest.approx(want, abs=1e-12)
    assert mean_average_precision(distances * 0.1, relevant) == pytest.approx(want, abs=1e-12)


def test_the_order_of_rows_within_a_query_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    distances, relevant = rng.integers(0, 9, (4, 65)), rng.random((4, 65)) < 0.2
    order = rng.permutation(65)
    assert mean_average_precision(distances[:, order], relevant[:, order]) == pytest.approx(
        mean_average_precision(distances, relevant), abs=1e-14
    )


def test_queries_split_over_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    distances, relevant = rng.integers(0, 33, (65, 40)), rng.random((65, 40)) < 0.1
    whole = mean_average_precision(distances, relevant)
    monkeypatch.setattr(bitkin.evaluate.metrics, "_PAIRS_PER_PIECE", 120)
    assert mean_average_precision(distances, relevant) == whole
    assert mean_average_precision(distances, scipy.sparse.csr_array(relevant)) == whole


def test_queries_with_nothing_relevant_are_left_out() -> None:
    assert mean_average_precision([[0, 1], [0, 1]], [[False, True], [False, False]]) == 0.5


def test_stored_false_and_repeated_entries_of_a_sparse_truth_count_once() -> None:
    truth = scipy.sparse.csr_matrix(([True, False, True], [2, 0, 2], [0, 3]), shape=(1, 3))
    assert mean_average_precision([[0, 1, 2]], truth) == pytest.approx(1 / 3)
    assert truth.nnz == 3


def test_bad_rankings_are_refused_by_name() -> None:
    good, truth = np.array([[0, 1]]), np.array([[True, False]])
    with pytest.raises(
        InvalidInputError, match="relevant must name at least one row, got none in 1 queries"
    ):
        mean_average_precision(good, ~truth & False)
    with pytest.raises(
        InvalidInputError, match="relevant must name at least one row, got none in 0 queries"
    ):
        mean_average_precision(np.empty((0, 4)), np.empty((0, 4), dtype=bool))
    with pytest.raises(
        InvalidInputError, match="relevant must name at least one row, got none in 3 queries"
    ):
        mean_average_precision(np.empty((3, 0), dtype=int), np.empty((3, 0), dtype=bool))
    with pytest.raises(
        InvalidInputError,
        match=r"relevant must have the shape of distances, \(1, 2\), got \(1, 3\)",
    ):
        mean_average_precision(good, [[True, False, True]])
    with pytest.raises(InvalidInputError, match="relevant must be boolean, got dtype int64"):
        mean_average_precision(good, [[1, 0]])
    with pytest.raises(InvalidInputError, match="relevant must be boolean, got dtype float64"):
        mean_average_precision(good, scipy.sparse.csr_matrix([[1.0, 0.0]]))
    with pytest.raises(
        InvalidInputError, match="distances must be numbers, got nan in row 1, column 2"
    ):
        mean_average_precision([[0, 1, 2], [0, 1, np.nan]], np.ones((2, 3), dtype=bool))
    with pytest.raises(
        InvalidInputError, match="distances must be whole numbers or floats, got dtype bool"
    ):
        mean_average_precision(truth, truth)
    with pytest.raises(
        InvalidInputError, match=r"distances must be 2-dimensional, got shape \(2,\)"
    ):
        mean_average_precision(good[0], truth)
    with pytest.raises(
        InvalidInputError, match="distances must be a matrix, got rows of different lengths"
    ):
        mean_average_precision([[1], [1, 2]], truth)


def sorted_orders(distances: npt.NDArray[Any]) -> list[list[int]]:
    """Return all orders in which rows may come, nearest first."""
    orders = [list(order) for order in permutations(range(len(distances)))]
    return [order for order in orders if (np.diff(distances[order]) >= 0).all()]


def false_rate_in_order(relevant: npt.NDArray[np.bool_], recall: float) -> float:
    """Walk down a ranking until the share of relevant rows is reached; exact in small numbers."""
    accepted = np.flatnonzero(np.cumsum(relevant) >= recall * relevant.sum() - 1e-9)[0] + 1
    return float((~relevant[:accepted]).sum() / (~relevant).sum())


small_rankings = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=6)


@settings(deadline=None, max_examples=60)
@given(small_rankings, small_rankings)
def test_precision_and_recall_at_a_rank_are_means_over_all_orders_of_ties(
    first: list[tuple[int, bool]], second: list[tuple[int, bool]]
) -> None:
    n = min(len(first), len(second))
    distances = np.array([[d for d, _ in items[:n]] for items in (first, second)])
    relevant = np.array([[r for _, r in items[:n]] for items in (first, second)])
    relevant[0, 0] = True
    precision, found = [], []
    for own, truth in zip(distances, relevant, strict=True):
        if truth.any():
            hits = np.mean([np.cumsum(truth[o]) for o in sorted_orders(own)], axis=0)
            precision.append(hits / np.arange(1, n + 1))
            found.append(hits / truth.sum())
    curve = precision_recall(distances, relevant)
    assert curve.ranks.tolist() == list(range(1, n + 1))
    assert curve.precision == pytest.approx(np.mean(precision, axis=0), abs=1e-12)
    assert curve.recall == pytest.approx(np.mean(found, axis=0), abs=1e-12)
    for form in (distances / 7.0, distances.astype(np.uint8) + np.uint8(200)):
        again = precision_recall(form, scipy.sparse.coo_array(relevant), ranks=[1, n])
        assert again.precision == pytest.approx(curve.precision[[0, -1]], abs=1e-12)
        assert again.recall == pytest.approx(curve.recall[[0, -1]], abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(small_rankings, st.sampled_from([0.01, 0.25, 0.5, 0.75, 0.95, 1.0, 1]))
def test_the_false_match_rate_is_the_mean_over_all_orders_of_ties(
    items: list[tuple[int, bool]], wanted: float
) -> None:
    distances, relevant = np.array([d for d, _ in items]), np.array([r for _, r in items])
    relevant[:2] = [True, False]
    want = np.mean([false_rate_in_order(relevant[o], wanted) for o in sorted_orders(distances)])
    assert error_at_recall(distances, relevant, recall=wanted) == pytest.approx(want, abs=1e-12)


def test_the_false_match_rate_takes_all_queries_together() -> None:
    rng = np.random.default_rng(3)
    distances, relevant = rng.integers(0, 50, (6, 40)), rng.random((6, 40)) < 0.3
    pooled = error_at_recall(distances.reshape(-1), relevant.reshape(-1), recall=0.8)
    assert error_at_recall(distances, relevant, recall=0.8) == pooled
    assert error_at_recall(distances, scipy.sparse.csr_array(relevant), recall=0.8) == pooled
    # 11 of 20 matches are 55 %, though 0.55 * 20 is a little more than 11 in binary
    distances = np.array([*range(20), 10.5])
    assert error_at_recall(distances, distances == np.rint(distances), recall=0.55) == 0.0
    assert error_at_recall(distances, distances == np.rint(distances), recall=0.551) == 1.0


def test_a_curve_does_not_depend_on_how_queries_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    distances, relevant = rng.integers(0, 33, (65, 40)), rng.random((65, 40)) < 0.1
    whole = precision_recall(distances, relevant)
    monkeypatch.setattr(bitkin.evaluate.metrics, "_PAIRS_PER_PIECE", 120)
    split = precision_recall(distances, relevant)
    assert split.precision == pytest.approx(whole.precision, abs=1e-13)
    assert split.recall == pytest.approx(whole.recall, abs=1e-13)
    assert whole.recall[-1] == pytest.approx(1.0)


def test_curves_and_rates_refuse_what_they_cannot_measure() -> None:
    good, truth = [[0, 1]], [[True, False]]
    with pytest.raises(InvalidInputError, match="got none in 1 queries"):
        precision_recall(good, [[False, False]])
    for ranks in ([], [0, 1], [1, 3], [2, 1], [1, 1]):
        with pytest.raises(InvalidInputError, match="ranks must be whole numbers from 1 to 2"):
            precision_recall(good, truth, ranks=ranks)
    with pytest.raises(InvalidInputError, match="both kinds, got 2 that match and 0 that do not"):
        error_at_recall(good, [[True, True]])
    with pytest.raises(InvalidInputError, match="both kinds, got 0 that match and 2 that do not"):
        error_at_recall([0, 1], [False, False])
    wrong: list[Any] = [0, -0.5, 1.01, float("nan"), "0.95", None, True]
    for recall_wanted in wrong:
        with pytest.raises(InvalidInputError, match="recall must be a number above 0 and up to 1"):
            error_at_recall(good, truth, recall=recall_wanted)
    with pytest.raises(InvalidInputError, match="relevant must have the shape of distances"):
        error_at_recall([0, 1, 2], [True, False])


@pytest.mark.filterwarnings("ignore:found_ids has")
@settings(deadline=None)
@given(st.data())
def test_recall_is_the_mean_share_of_true_ids_found(data: st.DataObject) -> None:
    q, m, k, top = (
        data.draw(st.integers(low, high)) for low, high in [(1, 8), (0, 9), (1, 9), (0, 2**62)]
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    ids = rng.integers(0, top + 1, 12)
    found, true = rng.choice([-1, *ids], (q, m)), rng.choice([-1, *ids], (q, k))
    true[0, 0] = ids[0]
    shares = []
    for row, wanted in zip(found, true, strict=True):
        real = [i for i in wanted.tolist() if i >= 0]
        if real:
            shares.append(np.mean([i in row.tolist() for i in real]))
    assert recall(found, true) == pytest.approx(np.mean(shares), abs=1e-12)


def test_the_largest_ids_are_told_apart() -> None:
    top = 2**63 - 1
    assert recall([[top, 0], [0, 1]], [[top - 1, 0], [1, top]]) == 0.5
    assert recall(np.array([[top]], dtype=np.uint64), [[top]]) == 1.0


def test_results_of_searches_are_taken_for_their_ids() -> None:
    found = bitkin.Neighbors(np.array([[3, 1], [5, 6]]), np.array([[0.1, 0.2], [0.0, 0.5]]))
    truth = bitkin.Neighbors(np.array([[1], [7]]), np.array([[0.0], [0.0]]))
    assert recall(found, truth) == recall(found.ids, truth.ids) == 0.5


def test_names_are_compared_as_names() -> None:
    found = np.array([["ant", None], ["bee", "cat"]], dtype=object)
    assert recall(found, [["ant", "dog"], ["cat", "bee"]]) == 0.75
    assert recall(bitkin.Hits(found, np.zeros((2, 2))), found) == 1.0
    with pytest.raises(InvalidInputError, match=r"one kind, .* got 3 in true_ids.*names\[truth"):
        recall(found, [[3, 4], [5, 6]])


def test_what_is_likely_the_wrong_way_round_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"2 ids per query and true_ids up to 3, so recall cannot"):
        assert recall([[1, 2]], [[1, 2, 3]]) == pytest.approx(2 / 3)
    assert recall([[1, 2]], [[1, 2, -1]]) == 1.0


def test_a_radius_result_and_distances_are_told_what_to_give_instead() -> None:
    ragged = bitkin.RaggedNeighbors(np.array([0, 1]), np.array([4]), np.array([2], dtype=np.int32))
    with pytest.raises(InvalidInputError, match=r"found_ids must have as many .*search_radius"):
        recall(ragged, [[4]])
    with pytest.raises(InvalidInputError, match=r"true_ids .* got float64 .*Give the ids"):
        recall([[1]], [[0.5]])


def test_masked_and_sparse_tables_are_refused_by_name() -> None:
    masked = np.ma.array([[1, 2]], mask=[[False, True]])
    with pytest.raises(InvalidInputError, match="found_ids has masked entries"):
        recall(masked, [[1, 2]])
    with pytest.raises(InvalidInputError, match="distances has masked entries"):
        mean_average_precision(masked, [[True, False]])
    assert recall(np.ma.array([[1, 2]]), [[1, 2]]) == 1.0
    with pytest.raises(InvalidInputError, match="distances must be dense, got a sparse matrix"):
        mean_average_precision(scipy.sparse.csr_matrix([[1, 2]]), [[True, False]])
    with pytest.raises(InvalidInputError, match="true_ids must be dense, got a sparse matrix"):
        recall([[1, 2]], scipy.sparse.csr_array([[1, 2]]))


def test_padding_never_matches_and_is_not_counted() -> None:
    assert recall([[-1, -1, 4]], [[4, -1, -1]]) == 1.0
    assert recall([[-1], [-1]], [[-1], [3]]) == 0.0
    assert recall([[1], [2]], [[1], [-1]]) == 1.0


@pytest.mark.parametrize("n", [1, 7, 63, 64, 65])
def test_finding_everything_in_any_order_is_a_recall_of_one(n: int) -> None:
    rng = np.random.default_rng(n)
    true = np.array([rng.permutation(1000)[:n] for _ in range(5)])
    assert recall(true[:, ::-1], true) == 1.0
    assert recall(true + 1000, true) == 0.0
    assert recall(true[:, :0], true) == 0.0


def test_bad_ids_are_refused_by_name() -> None:
    with pytest.raises(
        InvalidInputError, match="true_ids must name at least one id, got none in 2 queries"
    ):
        recall([[1], [2]], [[-1], [-1]])
    with pytest.raises(
        InvalidInputError, match="true_ids must name at least one id, got none in 0 queries"
    ):
        recall(np.empty((0, 3)), np.empty((0, 2)))
    with pytest.raises(
        InvalidInputError,
        match="found_ids and true_ids must have one row per query each, got 1 and 2 rows",
    ):
        recall([[1]], [[1], [2]])
    with pytest.raises(
        InvalidInputError, match=r"found_ids must be whole numbers, got float64 such as 1\.0"
    ):
        recall([[1.0]], [[1]])
    with pytest.raises(
        InvalidInputError,
        match=r"true_ids must be ids from 0 to 2\*\*63 - 1, or -1 for none, got -2",
    ):
        recall([[1]], [[-2]])
    with pytest.raises(
        InvalidInputError, match=r"found_ids must be ids .*, got 9223372036854775808"
    ):
        recall(np.array([[2**63]], dtype=np.uint64), [[1]])
    with pytest.raises(
        InvalidInputError, match=r"found_ids must be 2-dimensional, got shape \(1,\)"
    ):
        recall([1], [[1]])


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2, 1, 3], [0, 1, 2]),
        ([0, 1, 2, 2**31 - 1], [0, 1, 2]),
        ([0, 1, 2, 3], [0, 1, 2**30]),
        ([0, 1, 2, 3], [0, -9, 2]),
    ],
)
def test_a_sparse_truth_whose_indices_lie_is_refused(indptr: list[int], indices: list[int]) -> None:
    """The loops over it trust them: they would read and write wherever those point."""
    forged = scipy.sparse.csr_matrix(np.eye(3, dtype=bool))
    forged.indptr, forged.indices = (
        np.array(indptr, dtype=np.int32),
        np.array(indices, dtype=np.int32),
    )
    forged.has_sorted_indices = forged.has_canonical_format = True
    with pytest.raises(InvalidInputError, match="relevant is not a valid sparse matrix: "):
        mean_average_precision(np.arange(9).reshape(3, 3), forged)
