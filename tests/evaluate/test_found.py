"""Figures of what a search found, against counting over all orders of ties."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from bitkin.errors import ArgumentError, CorruptFileError, InvalidInputError
from bitkin.evaluate import error_at_recall, mean_average_precision, ndcg, nearest, recall
from bitkin.evaluate.found.evaluation import Evaluation
from bitkin.evaluate.found.measures import (
    measure_average_precision,
    measure_error_at_recall,
    measure_gain,
    measure_precision_recall,
    measure_recall,
    ranks_up_to,
)
from bitkin.evaluate.found.relevance import FoundRelevance, RowIds, mark_neighbors, mark_relevant
from bitkin.evaluate.found.request import EvaluationRequest
from bitkin.evaluate.found.results import FoundRows, read_found
from bitkin.input_files import VectorFileOptions

RNG = np.random.default_rng(0)
X = RNG.standard_normal((65, 5)).astype(np.float32)
Q = RNG.standard_normal((7, 5)).astype(np.float32)


def orders_of(distances: npt.NDArray[Any]) -> list[list[int]]:
    orders = [list(order) for order in permutations(range(len(distances)))]
    return [order for order in orders if (np.diff(distances[order]) >= 0).all()]


def discounts(n: int) -> npt.NDArray[np.float64]:
    return 1 / np.log2(np.arange(2, n + 2))


@settings(deadline=None, max_examples=60)
@drawn(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_figures_are_means_over_all_orders_of_ties_where_the_rest_is_never_found(
    items: list[tuple[int, bool]], n_unfound: int, n_padding: int
) -> None:
    distances, relevant = np.array([d for d, _ in items]), np.array([r for _, r in items])
    n, n_relevant = len(items), int(relevant.sum()) + n_unfound
    most = n + n_padding
    rows = FoundRows(
        np.append(np.arange(n), np.full(n_padding, -1))[None],
        np.append(distances, np.zeros(n_padding, dtype=int))[None] * 0.5,
    )
    flags = np.append(relevant, np.zeros(n_padding, dtype=bool))[None]
    found = FoundRelevance(flags, np.array([n_relevant]), 50)
    if n_relevant == 0:
        for measure in (measure_average_precision, measure_gain, measure_precision_recall):
            with pytest.raises(InvalidInputError, match="truth must name at least one row"):
                measure(rows, found)
        return
    hits = np.array([np.cumsum(relevant[order]) for order in orders_of(distances)])
    at = np.array([relevant[order] for order in orders_of(distances)])
    precision = (at * hits / np.arange(1, n + 1)).sum(axis=1).mean() / n_relevant
    assert measure_average_precision(rows, found)[0].mean == pytest.approx(precision, abs=1e-12)
    gain = (at * discounts(n)).sum(axis=1).mean() / discounts(most)[:n_relevant].sum()
    assert measure_gain(rows, found)[0].mean == pytest.approx(gain, abs=1e-12)
    for figure in measure_precision_recall(rows, found):
        what, rank = figure.name.split(" of the first ")
        own = hits[:, min(int(rank), n) - 1].mean()
        want = own / int(rank) if what == "precision" else own / n_relevant
        assert figure.mean == pytest.approx(want, abs=1e-12)


def complete(q: int, n: int, seed: int = 1) -> tuple[FoundRows, npt.NDArray[Any], Any]:
    """All rows found, nearest first, with many ties; the same as a matrix; and what is relevant."""
    rng = np.random.default_rng(seed)
    matrix, relevant = rng.integers(0, 9, (q, n)), rng.random((q, n)) < 0.2
    relevant[0] = False
    order = np.argsort(matrix, axis=1, kind="stable")
    return FoundRows(order, np.take_along_axis(matrix, order, axis=1)), matrix, relevant


def test_with_all_rows_found_figures_are_those_of_the_whole_ranking() -> None:
    rows, matrix, relevant = complete(9, 33)
    found = mark_relevant(rows.ids, scipy.sparse.csr_matrix(relevant))
    (average,) = measure_average_precision(rows, found)
    want = mean_average_precision(matrix, relevant, details=True)
    np.testing.assert_allclose(average.per_query.values, want.values)  # type: ignore[union-attr]
    assert average.interval == pytest.approx(want.interval())
    assert average.per_query is not None
    assert average.per_query.n_left_out == want.n_left_out == 1
    assert measure_gain(rows, found)[0].mean == pytest.approx(ndcg(matrix, relevant))
    for share in (0.05, 0.5, 0.95, 1.0):
        (error,) = measure_error_at_recall(rows, found, share)
        assert error.mean == pytest.approx(error_at_recall(matrix, relevant, recall=share))
        assert error.interval is None


def test_all_within_a_radius_are_enough_for_an_error_at_recall() -> None:
    rows, matrix, relevant = complete(9, 33)
    truth = scipy.sparse.csr_matrix(relevant)
    assert rows.distances is not None
    inside = rows.distances <= 5
    near = FoundRows(np.where(inside, rows.ids, -1), rows.distances, within_radius=True)
    found = mark_relevant(near.ids, truth)
    for share in (0.1, 0.5):
        (error,) = measure_error_at_recall(near, found, share)
        assert error.mean == pytest.approx(error_at_recall(matrix, relevant, recall=share))
    with pytest.raises(InvalidInputError, match=r"found 0.95 of .*larger radius"):
        measure_error_at_recall(near, found, 0.95)
    cut = FoundRows(rows.ids[:, :9], rows.distances[:, :9])
    with pytest.raises(InvalidInputError, match=r"every pair up to one distance.* all 33 rows"):
        measure_error_at_recall(cut, mark_relevant(cut.ids, truth), 0.1)
    with pytest.raises(InvalidInputError, match="must have distances, got ids alone"):
        measure_error_at_recall(FoundRows(rows.ids, None), mark_relevant(rows.ids, truth), 0.1)
    nothing = scipy.sparse.csr_matrix(relevant & False)
    with pytest.raises(InvalidInputError, match="both kinds, got 0 that match and 297"):
        measure_error_at_recall(rows, mark_relevant(rows.ids, nothing), 0.1)
    only = np.zeros((1, 33), dtype=int)
    best = FoundRows(np.arange(33)[None], only)
    few = FoundRelevance(np.ones((1, 33), dtype=bool), np.array([33]), 40)
    within = FoundRows(best.ids, only, within_radius=True)
    assert measure_error_at_recall(within, few, 0.9)[0].mean == 0.0


@pytest.mark.filterwarnings("ignore:found_ids has")
@settings(deadline=None, max_examples=40)
@drawn(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 9), st.sampled_from([12, 2**62]))
def test_recall_of_a_prefix_is_recalls(seed: int, m: int, k: int, top: int) -> None:
    rng = np.random.default_rng(seed)
    ids = top - rng.permutation(12)
    found, true = (np.array([rng.permutation(ids)[:n] for _ in range(5)]) for n in (m, k))
    found[1, m // 2 :], true[2, k // 2 :] = -1, -1
    figures = measure_recall(mark_neighbors(found, true, None), k, m)
    for figure, rank in zip(figures, ranks_up_to(m, k), strict=True):
        assert figure.mean == pytest.approx(recall(found[:, :rank], true))
        assert figure.name == (f"recall@{k}" if rank == k else f"recall@{k} in the first {rank}")


def test_ranks_are_round_numbers_and_the_last() -> None:
    assert ranks_up_to(100, 1).tolist() == [1, 2, 5, 10, 20, 50, 100]
    assert ranks_up_to(35, 10).tolist() == [10, 20, 35]
    assert ranks_up_to(10, 10).tolist() == [10]
    assert ranks_up_to(4, 10).tolist() == [4]
    assert ranks_up_to(0, 1).tolist() == [1]


def test_nothing_found_at_all_is_zero() -> None:
    rows = FoundRows(np.empty((3, 0), dtype=np.int64), np.empty((3, 0)), within_radius=True)
    found = FoundRelevance(np.empty((3, 0), dtype=bool), np.array([2, 0, 1]), 5)
    figures = [
        *measure_recall(found, None, 0),
        *measure_average_precision(rows, found),
        *measure_gain(rows, found),
        *measure_precision_recall(rows, found),
    ]
    assert {figure.mean for figure in figures} == {0.0}
    assert all(one.per_query is not None and one.per_query.n_left_out == 1 for one in figures)


def save_found(path: Path, **parts: Any) -> Path:
    np.savez(path, **parts)
    return path


def test_files_of_ids_are_read_in_every_form(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    ids, distances = np.array([[3, 1, -1], [5, 6, 7]]), np.array([[0.5, 1.0, 9.0], [0, 0, 2.0]])
    np.save(tmp_path / "a.npy", ids)
    save_found(tmp_path / "a.npz", ids=ids, distances=distances)
    save_found(tmp_path / "b.npz", anything=ids)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["neighbors"], file["distances"] = ids, distances
    lines = np.column_stack([np.full(2, 3), ids]).astype("<i4")
    (tmp_path / "a.ivecs").write_bytes(lines.tobytes())
    for name in ("a.npy", "a.npz", "b.npz", "a.h5", "a.ivecs"):
        rows = read_found(tmp_path / name)
        np.testing.assert_array_equal(rows.ids, ids)
        assert (rows.distances is not None) == (name in ("a.npz", "a.h5"))
        want = [[0, 1, 3], [0, 0, 2]] if rows.distances is not None else [[0, 1, 3], [0, 1, 2]]
        for own, ranks in zip(rows.ranks, want, strict=True):
            assert scipy.stats.rankdata(own).tolist() == scipy.stats.rankdata(ranks).tolist()


def test_what_a_radius_found_is_padded(tmp_path: Path) -> None:
    path = save_found(
        tmp_path / "r.npz",
        offsets=np.array([0, 2, 2, 5]),
        ids=np.array([4, 2, 9, 1, 3]),
        distances=np.array([0, 3, 1, 1, 2], dtype=np.int32),
    )
    rows = read_found(path)
    assert rows.within_radius
    assert rows.ids.tolist() == [[4, 2, -1], [-1, -1, -1], [9, 1, 3]]
    assert rows.ranks.tolist() == [[0, 3, 4], [4, 4, 4], [1, 1, 2]]
    for parts in (
        {"offsets": [0, 2, 9], "ids": [1, 2], "distances": [1, 2]},
        {"offsets": [0, 2], "ids": [1, 2], "distances": [1]},
        {"offsets": [0, 2], "ids": [1, 2]},
        {"offsets": [0.0, 2.0], "ids": [1, 2], "distances": [1, 2]},
        {"offsets": [[0, 2]], "ids": [1, 2], "distances": [1, 2]},
    ):
        save_found(path, **parts)
        with pytest.raises(CorruptFileError, match="is not what bitkin search --radius writes"):
            read_found(path)


def test_bad_results_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    for parts, words in (
        ({"ids": [[1, -1, 2]]}, r"-1 behind the ids of a query alone, .* row 0"),
        ({"ids": [[1, 2, 3], [4, 5, 4]]}, r"bad.npz must have an id once .* 4 twice in row 1"),
        ({"ids": [[-2]]}, r"bad.npz must be ids from 0"),
        ({"ids": [[0.5]]}, r"bad.npz must be whole numbers"),
        ({"ids": [1, 2]}, r"bad.npz must be 2-dimensional"),
        ({"ids": [[1, 2]], "distances": [[1.0]]}, "a distance for every id"),
        ({"ids": [[1]], "distances": [[np.nan]]}, "bad.npz, distances must be numbers, got nan"),
    ):
        save_found(path, **parts)
        with pytest.raises(InvalidInputError, match=words):
            read_found(path)


def test_rows_and_ids_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("70\n30\n50\n")
    rows = RowIds(3, "x.npy", tmp_path / "ids.txt")
    assert rows.ids_of(np.array([[0, 2], [1, -1]])).tolist() == [[70, 50], [30, -1]]
    assert rows.rows_of(np.array([[30, 70], [50, -1]]), Path("f")).tolist() == [[1, 0], [2, -1]]
    with pytest.raises(InvalidInputError, match=r"^f must hold ids of the 3 rows of .*ids.txt, g"):
        rows.rows_of(np.array([[30, 31]]), Path("f"))
    with pytest.raises(InvalidInputError, match=r"got 3 ids and row 3\. It goes with row numbers"):
        rows.ids_of(np.array([[3]]))
    with pytest.raises(InvalidInputError, match=r"f must .* rows of x.npy, got 3\. Give --ids"):
        RowIds(3, "x.npy", None).rows_of(np.array([[2, 3]]), Path("f"))
    with pytest.raises(InvalidInputError, match=r"one id per row, got 3 for the 4 rows of x.npy"):
        RowIds(4, "x.npy", tmp_path / "ids.txt")
    (tmp_path / "ids.txt").write_text("70\n70\n")
    with pytest.raises(InvalidInputError, match="must hold distinct ids, got 70 twice"):
        RowIds(2, "x.npy", tmp_path / "ids.txt")
    assert RowIds(0, "x.npy", None).rows_of(np.array([[-1]]), Path("f")).tolist() == [[-1]]
    with pytest.raises(InvalidInputError, match="of the 0 rows of"):
        RowIds(0, "x.npy", None).rows_of(np.array([[0]]), Path("f"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Vectors and queries, and a search that finds every other true neighbour."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("q.npy", Q)
    truth = nearest(X, Q, 20)
    save_found(Path("found.npz"), ids=truth.ids[:, ::2], distances=truth.distances[:, ::2])
    save_found(Path("truth.npz"), ids=truth.ids, distances=truth.distances)
    return tmp_path


def request(**given: Any) -> EvaluationRequest:
    return EvaluationRequest(Path("found.npz"), **given)


VECTORS: dict[str, Any] = {"vectors": (Path("x.npy"),), "queries": Path("q.npy")}


@pytest.mark.usefixtures("files")
def test_neighbours_come_from_vectors_or_from_a_file() -> None:
    truth = nearest(X, Q, 10)
    found = nearest(X, Q, 20).ids[:, ::2]
    for given in (VECTORS, {"truth": Path("truth.npz"), "k": 10}):
        evaluation = Evaluation(request(**given))
        (figure,) = evaluation.figures()
        assert figure.name == "recall@10"
        assert figure.mean == recall(found, truth) == 0.5
        assert evaluation.missed(3) == truth.ids[3, 1::2].tolist()
    (figure,) = Evaluation(request(**VECTORS, k=20, metric="ip")).figures()
    assert figure.name == "recall@20 in the first 10"
    by_product = nearest(X, Q, 20, "ip")
    assert figure.mean == pytest.approx(recall(np.pad(found, ((0, 0), (0, 10)), constant_values=-1),
                                               by_product))  # fmt: skip
    done: list[int] = []
    Evaluation(request(**VECTORS)).figures(done.append)
    assert done[-1] == 65


@pytest.mark.usefixtures("files")
def test_options_are_for_queries_too_only_where_these_are_of_the_same_kind() -> None:
    h5py = pytest.importorskip("h5py")
    for name, rows in (("x.h5", X), ("q.h5", Q)):
        with h5py.File(name, "w") as file:
            file["a"], file["b"] = rows, -rows
    for queries in ("q.npy", "q.h5"):
        given = {"vectors": (Path("x.h5"),), "queries": Path(queries)}
        (figure,) = Evaluation(request(**given), VectorFileOptions(dataset="a")).figures()
        assert figure.mean == 0.5


@pytest.mark.usefixtures("files")
def test_queries_in_text_have_the_columns_of_the_vectors() -> None:
    for name, rows in (("x.svm", X), ("q.svm", Q)):
        last = rows.shape[1] if name == "x.svm" else 2
        lines = [" ".join(f"{i + 1}:{v:.17g}" for i, v in enumerate(row[:last])) for row in rows]
        Path(name).write_text("".join(f"0 {line}\n" for line in lines))
    given = {"vectors": (Path("x.svm"),), "queries": Path("q.svm")}
    (figure,) = Evaluation(request(**given), VectorFileOptions(zero_based=False)).figures()
    cut = np.where(np.arange(Q.shape[1]) < 2, Q, 0)
    found = nearest(X, Q, 20).ids[:, ::2]
    assert figure.mean == pytest.approx(recall(found, nearest(X, cut, 10)))


@pytest.mark.usefixtures("files")
def test_ids_that_no_row_has_are_told_before_the_search() -> None:
    save_found(Path("found.npz"), ids=nearest(X, Q, 5).ids + 60)
    done: list[int] = []
    with pytest.raises(InvalidInputError, match=r"found\.npz must hold ids of the 65 rows"):
        Evaluation(request(**VECTORS)).figures(done.append)
    assert not done


@pytest.mark.usefixtures("files")
def test_ids_of_rows_are_taken_from_a_file() -> None:
    ids = np.random.default_rng(3).permutation(1000)[:65]
    np.save("ids.npy", ids)
    truth = nearest(X, Q, 20)
    save_found(Path("found.npz"), ids=ids[truth.ids[:, ::2]])
    labels = np.arange(65) % 3
    np.save("labels.npy", labels)
    np.save("asked.npy", np.arange(7) % 4)
    for given in (VECTORS, {"truth": Path("truth.npz"), "k": 10}):
        (figure,) = Evaluation(request(**given, ids=Path("ids.npy"))).figures()
        assert figure.mean == 0.5
    by_label: dict[str, Any] = {"labels": Path("labels.npy"), "query_labels": Path("asked.npy")}
    figures = Evaluation(request(**by_label, ids=Path("ids.npy"))).figures()
    hits = labels[truth.ids[:, ::2]] == (np.arange(7) % 4)[:, None]
    first = next(one for one in figures if one.name == "precision of the first 10")
    assert first.mean == pytest.approx(hits[np.arange(7) % 4 < 3].mean())
    assert first.per_query is not None
    assert first.per_query.n_left_out == 1
    assert Evaluation(request(**by_label, ids=Path("ids.npy"))).missed(0) is None
    with pytest.raises(InvalidInputError, match=r"found.npz must hold ids of the 65 rows"):
        Evaluation(request(**by_label)).figures()


@pytest.mark.usefixtures("files")
def test_relevant_rows_are_read_dense_or_sparse() -> None:
    relevant = np.random.default_rng(4).random((7, 65)) < 0.3
    np.save("dense.npy", relevant)
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_matrix(relevant))
    figures = [Evaluation(request(relevant=Path(name))).figures()
               for name in ("dense.npy", "sparse.npz")]  # fmt: skip
    assert [one.mean for one in figures[0]] == [one.mean for one in figures[1]]
    assert figures[0][-1].name == "map@10"
    np.save("dense.npy", relevant[:6])
    with pytest.raises(InvalidInputError, match=r"about the 7 queries of found.npz, got 6"):
        Evaluation(request(relevant=Path("dense.npy"))).figures()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_agreement_is_with_the_exact_distances_of_what_was_found(metric: str) -> None:
    rng = np.random.default_rng(5)
    ids = np.array([rng.permutation(65)[:9] for _ in range(7)])
    ids[2, 6:], ids[4, 1:] = -1, -1
    distances = rng.integers(0, 5, ids.shape)
    save_found(Path("found.npz"), ids=ids, distances=distances)
    exact = np.full((7, 65), np.nan)
    truth = nearest(X, Q, 65, metric)
    np.put_along_axis(exact, truth.ids, truth.distances, axis=1)
    figures = Evaluation(
        request(**VECTORS, metric=metric, measures=("kendall", "spearman"))
    ).figures()
    for figure, function in zip(
        figures, (scipy.stats.kendalltau, scipy.stats.spearmanr), strict=True
    ):
        assert figure.per_query is not None
        assert figure.per_query.n_left_out == 1
        for query, own in enumerate(ids):
            kept = own >= 0
            if query != 4:
                want = function(distances[query, kept], exact[query, own[kept]]).statistic
                assert figure.per_query.values[query] == pytest.approx(want, abs=1e-12)
    save_found(Path("found.npz"), ids=np.full((7, 3), -1))
    with pytest.raises(InvalidInputError, match="kendall must have queries with two rows"):
        Evaluation(request(**VECTORS, measures=("kendall",))).figures()


@pytest.mark.usefixtures("files")
def test_requests_that_make_no_sense_are_refused_by_name() -> None:
    path = Path("y")
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "truth: give what should have been found, once"),
        ({"truth": path, "labels": path}, "labels: give what should have been found, once"),
        ({"vectors": (path,)}, "queries: goes with vectors, and is missing"),
        ({"truth": path, "queries": path}, "vectors: goes with queries, and is missing"),
        ({"labels": path}, "query_labels: goes with labels, and is missing"),
        ({"truth": path, "query_labels": path}, "labels: goes with query labels, and is missing"),
        ({"truth": path, "metric": "l2"}, "metric: goes with vectors"),
        ({"relevant": path, "k": 3}, "k: goes with a truth of neighbours"),
        ({"truth": path, "recall": 0.5}, "recall: belongs to the measure error-at-recall"),
        ({"truth": path, "measures": ("kendall",)}, "measure: kendall compares distances"),
        (
            {**VECTORS, "metric": "jaccard", "measures": ("spearman",)},
            "measure: spearman compares distances",
        ),
        ({"truth": path, "measures": ("error-at-recall",)}, "measure: error-at-recall needs to"),
        (
            {**VECTORS, "measures": ("error-at-recall",), "recall": 1.5},
            "recall: must be a number above 0 and up to 1, got 1.5",
        ),
    ]
    for given, words in cases:
        with pytest.raises(ArgumentError, match=words):
            Evaluation(request(**given))
    for given, words in (
        (
            {"truth": path, "measures": ("recal",)},
            r"measure must be one of .*Did you mean 'recall'",
        ),
        ({**VECTORS, "metric": "L2"}, "metric must be one of"),
        ({"truth": path, "k": 0}, "k must be at least 1"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            Evaluation(request(**given))
    with pytest.raises(InvalidInputError, match=r"k must be at most the 20 ids per query of truth"):
        Evaluation(request(truth=Path("truth.npz"), k=21)).figures()
    np.save("q.npy", Q[:3])
    with pytest.raises(InvalidInputError, match=r"q.npy must be about the 7 queries of found"):
        Evaluation(request(**VECTORS)).figures()
    np.save("y.npy", nearest(X, Q, 3).ids[:3])
    with pytest.raises(InvalidInputError, match=r"y.npy must be about the 7 queries"):
        Evaluation(request(truth=Path("y.npy"))).figures()
