from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin import Codes, Neighbors, ProjectionHash
from bitkin.errors import CodeMismatchError, InvalidInputError, UnknownIdError
from bitkin.evaluate import nearest, recall
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.estimate import ENTRIES, NEAR_ROWS, estimates_into
from bitkin.rescoring import estimate
from bitkin.rescoring.corrections import encode_with_corrections, scorer_for
from bitkin.rescoring.estimate import CodedRows, distances_from_scores
from bitkin.rescoring.shortlist import nearest_first
from tests.hashers.sources import once

METRICS = ["l2", "cosine", "ip"]


def rows_like_real_ones(n: int, d: int = 20, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows that vary more along some directions than others, far from the origin."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).standard_normal((d, d)) * np.linspace(0.2, 2.0, d)[:, None]
    return (rng.standard_normal((n, d)) @ mixing + 2.0).astype(np.float32)


def signs(codes: Codes) -> npt.NDArray[np.float64]:
    return np.where(codes.symbols() == 1, 1.0, -1.0)


def norms(rows: npt.NDArray[np.float64], order: int) -> npt.NDArray[np.float64]:
    lengths: npt.NDArray[np.float64] = np.linalg.norm(rows, ord=order, axis=1)
    return lengths


def every_row(n_queries: int, n_rows: int) -> npt.NDArray[np.int64]:
    return np.tile(np.arange(n_rows), (n_queries, 1))


def all_estimates(hasher: ProjectionHash, X: Any, Q: Any, metric: str) -> npt.NDArray[np.float64]:
    """The distance of every query from every row, in order of rows."""
    codes, numbers = hasher.encode(X), bitkin.corrections(hasher, X, metric)
    hits = every_row(Q.shape[0], X.shape[0])
    found = bitkin.rescore(
        hits, Q, stage="estimate", metric=metric, hasher=hasher, codes=codes, corrections=numbers
    )
    out = np.empty(hits.shape)
    np.put_along_axis(out, found.ids, found.distances.astype(np.float64), axis=1)
    return out


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 63, 64, 65, 130])
def test_the_kernel_gives_signed_sums_with_the_corrections_of_rows_and_the_terms_of_queries(
    n_bits: int,
) -> None:
    rng = np.random.default_rng(n_bits)
    codes = Codes.from_symbols(rng.integers(0, 2, (9, n_bits)), 1)
    numbers = rng.random((9, 2)).astype(np.float32)
    queries, terms = (
        rng.standard_normal((3, n_bits)).astype(np.float32),
        rng.standard_normal((3, 4)),
    )
    places = rng.integers(-1, 9, (3, 70))
    out = np.empty((3, 70))
    n_words = codes.words.shape[2]
    work = np.empty((n_words, ENTRIES), np.float32), np.empty((NEAR_ROWS, n_words), np.uint64)
    near_numbers = np.empty((NEAR_ROWS, 2))
    # as rows of a block of 16, and corrections in the opposite order
    blocks = np.zeros((1, 1, n_words, 16), np.uint64)
    blocks[0, 0, :, :9] = codes.words[:, 0].T
    rows = read_only(blocks), read_only(numbers[::-1])
    inputs = read_only(places), read_only(8 - places), False, read_only(queries), read_only(terms)
    estimates_into(*rows, *inputs, *work, near_numbers, out)

    a, f = numbers.T.astype(np.float64)
    sums = f * (queries.astype(np.float64) @ signs(codes).T)
    truth = terms[:, [0]] + terms[:, [1]] * a + terms[:, [2]] * np.sqrt(a) + terms[:, [3]] * sums
    expected = np.where(places < 0, np.inf, np.take_along_axis(truth, places, axis=1))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("projection", ["pca", "random"])
def test_the_estimate_of_squared_l2_is_the_three_lines_of_the_formula(projection: str) -> None:
    X, Q = rows_like_real_ones(60), rows_like_real_ones(5, seed=1)
    hasher = ProjectionHash(13, projection=projection, rotation="random").fit(X)
    y, z, mean = (
        hasher.project(X).astype(float),
        hasher.project(Q).astype(float),
        np.asarray(hasher.mean_),
    )
    squares = ((X - mean) ** 2).sum(axis=1)
    f = (squares if projection == "random" else (y**2).sum(axis=1)) / np.sqrt(
        norms(y, 1) * norms(y, 2)
    )
    g = np.sqrt(norms(z, 2) / norms(z, 1))[:, None]
    truth = (
        squares
        + ((Q - mean) ** 2).sum(axis=1)[:, None]
        - 2 * f * g * (z @ np.where(y >= 0, 1, -1).T)
    )

    np.testing.assert_allclose(
        bitkin.corrections(hasher, X), np.stack([squares, f], axis=1), rtol=1e-4
    )
    got = all_estimates(hasher, X, Q, "l2")
    np.testing.assert_allclose(got**2, np.maximum(truth, 0), rtol=1e-3, atol=1e-2)


SETTINGS: dict[str, dict[str, Any]] = {
    "pca": {},
    "pca, not centred": {"center": False},
    "pca, normalized": {"normalize": True},
    "pca, normalized, not centred": {"center": False, "normalize": True},
    "nystrom": {"projection": "nystrom"},
    "random": {"projection": "random", "n_bits": 800},
    "random, normalized": {"projection": "random", "n_bits": 800, "normalize": True},
    "random, not centred": {"projection": "random", "n_bits": 800, "center": False},
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_estimates_are_those_of_the_true_distances_whatever_the_hasher_does_to_vectors(
    metric: str, settings: str
) -> None:
    X, Q = rows_like_real_ones(400), rows_like_real_ones(10, seed=1)
    X[::2] *= 1.5  # lengths that a normalizing hasher does not see
    chosen: dict[str, Any] = {"n_bits": 20, "rotation": "random"} | SETTINGS[settings]
    hasher = ProjectionHash(**chosen).fit(X)
    found = nearest(X, Q, len(X), metric)
    truth = np.empty(found.ids.shape)
    np.put_along_axis(truth, found.ids, found.distances, axis=1)

    got = all_estimates(hasher, X, Q, metric)
    spread = truth.std()
    assert np.corrcoef(got.ravel(), truth.ravel())[0, 1] > (0.98 if "random" in settings else 0.8)
    assert abs((got - truth).mean()) < 0.1 * spread


@pytest.mark.parametrize("metric", METRICS)
def test_sparse_and_dense_vectors_give_the_same_numbers_and_estimates(metric: str) -> None:
    X, Q = rows_like_real_ones(40), rows_like_real_ones(3, seed=1)
    hasher = ProjectionHash(9).fit(X)
    of_dense, of_csr = (bitkin.corrections(hasher, form, metric) for form in (X, csr_array(X)))
    np.testing.assert_allclose(of_csr, of_dense, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        all_estimates(hasher, csr_array(X), csr_array(Q), metric),
        all_estimates(hasher, X, Q, metric),
        atol=1e-2,
    )


def test_codes_made_beside_corrections_are_those_of_the_hasher_in_any_batches() -> None:
    X = rows_like_real_ones(50)
    hasher = ProjectionHash(11).fit(X)
    scorer = scorer_for(hasher, "l2")
    codes, numbers = encode_with_corrections(scorer, X)
    assert codes == hasher.encode(X)
    small, their_numbers = encode_with_corrections(scorer, bitkin.io.open_vectors(X, batch_rows=7))
    assert small == codes
    np.testing.assert_allclose(their_numbers, numbers, rtol=1e-5)
    nothing, none = encode_with_corrections(scorer, X[:0])
    assert len(nothing) == 0
    assert nothing.fingerprint == hasher.fingerprint_
    assert none.shape == (0, 2)


@pytest.mark.parametrize("metric", METRICS)
def test_zero_vectors_have_a_distance_like_any_other(metric: str) -> None:
    X = rows_like_real_ones(30)
    X[3] = 0
    for settings in ({}, {"normalize": True}, {"center": False}):
        hasher = ProjectionHash(8, **settings).fit(X)
        assert np.isfinite(bitkin.corrections(hasher, X, metric)).all()
        got = all_estimates(hasher, X, np.vstack([X[:2], np.zeros((1, 20))]), metric)
        assert np.isfinite(got).all()
        if metric == "cosine":
            np.testing.assert_allclose(got[:, 3], 1.0, atol=1e-6)
            np.testing.assert_allclose(got[2], 1.0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e15])
def test_estimates_scale_with_the_data(scale: float) -> None:
    X, Q = rows_like_real_ones(50), rows_like_real_ones(4, seed=1)
    plain = all_estimates(ProjectionHash(9).fit(X), X, Q, "l2")
    hasher = ProjectionHash(9).fit(X * np.float32(scale))
    got = all_estimates(hasher, X * np.float32(scale), Q * np.float32(scale), "l2")
    np.testing.assert_allclose(got / scale, plain, rtol=0.01, atol=0.01)


def test_the_estimate_ranks_better_than_the_codes_it_is_made_of() -> None:
    X, Q = rows_like_real_ones(4000, 48), rows_like_real_ones(50, 48, seed=1)
    hasher = ProjectionHash(48, rotation="random").fit(X)
    codes, numbers, true_ids = (
        hasher.encode(X),
        bitkin.corrections(hasher, X),
        nearest(X, Q, 10).ids,
    )
    index = bitkin.FlatIndex(codes.spec)
    index.add(codes)
    hits = index.search(hasher.encode(Q), 400)
    better = bitkin.rescore(
        hits, Q, stage="estimate", k=40, hasher=hasher, codes=codes, corrections=numbers
    )
    best = bitkin.rescore(better, Q, stage="exact", k=10, vectors=X)
    assert recall(better.ids, true_ids) > recall(hits.ids[:, :40], true_ids) + 0.1
    assert recall(best.ids, true_ids) == recall(better.ids, true_ids)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "form", ["array", "memory map", "csr", "csr rows, dense queries", "float16", "source"]
)
def test_exact_rescoring_of_all_rows_is_exact_search(
    metric: str, form: str, tmp_path: Path
) -> None:
    X, Q = rows_like_real_ones(70), rows_like_real_ones(6, seed=1)
    X[10] = X[3]  # a tie
    X[4], Q[0] = 0, X[3]
    if form == "float16":
        X = X.astype(np.float16)
    np.save(tmp_path / "X.npy", X)
    vectors: Any = csr_array(X) if form.startswith("csr") else X
    if form == "memory map":
        vectors = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif form == "source":
        vectors = bitkin.io.open_vectors(tmp_path / "X.npy")
    queries: Any = csr_array(Q) if form == "csr" else Q
    found = bitkin.rescore(
        every_row(6, 70), queries, stage="exact", k=9, metric=metric, vectors=vectors
    )
    truth = nearest(X, Q, 9, metric)
    assert np.array_equal(found.ids, truth.ids)
    np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-12)


def test_queries_of_an_iterator_that_fills_one_array_again_are_those_it_gave() -> None:
    X = rows_like_real_ones(60)
    hasher = ProjectionHash(n_bits=16).fit(X)
    hits, numbers = every_row(20, 60), bitkin.corrections(hasher, X)
    exact = bitkin.rescore(hits, once(X[:20], 3, 9), stage="exact", k=1, vectors=X)
    assert exact.ids[:, 0].tolist() == list(range(20))
    scored: dict[str, Any] = {
        "stage": "estimate",
        "hasher": hasher,
        "codes": hasher.encode(X),
        "corrections": numbers,
    }
    want = bitkin.rescore(hits, X[:20], **scored)
    assert np.array_equal(bitkin.rescore(hits, once(X[:20], 3, 9), **scored).ids, want.ids)
    assert np.allclose(bitkin.corrections(hasher, once(X, 20, 40)), numbers, rtol=1e-5)


def test_nobody_stays_last_and_empty_codes_are_nobody() -> None:
    X = rows_like_real_ones(6)
    hasher = ProjectionHash(5).fit(X)
    codes = Codes(hasher.encode(X).words, hasher.spec_, empty=np.arange(6) == 2)
    numbers = bitkin.corrections(hasher, X)
    numbers[2] = np.nan
    hits = np.array([[-1, 2, 4, -1, 0], [-1, -1, -1, -1, -1]])
    found = bitkin.rescore(
        hits, X[:2], stage="estimate", hasher=hasher, codes=codes, corrections=numbers
    )
    assert sorted(found.ids[0, :2]) == [0, 4]
    assert found.ids[0, 2:].tolist() == [-1, -1, -1]
    assert np.isinf(found.distances[0, 2:]).all()
    assert np.isinf(found.distances[1]).all()
    exact = bitkin.rescore(hits, X[:2], stage="exact", k=7, vectors=X)
    assert exact.ids.tolist() == [
        [0, *sorted([2, 4], key=lambda i: np.linalg.norm(X[i] - X[0])), *[-1] * 4],
        [-1] * 7,
    ]


def test_ids_need_not_be_row_numbers() -> None:
    X, Q = rows_like_real_ones(30), rows_like_real_ones(3, seed=1)
    ids = np.random.default_rng(0).permutation(1000)[:30]
    hasher = ProjectionHash(9).fit(X)
    hits = np.tile(ids[:12], (3, 1))
    hits[0, 0] = -1
    by_row = np.where(hits < 0, -1, every_row(3, 12))
    args: dict[str, Any] = {
        "hasher": hasher,
        "codes": hasher.encode(X),
        "corrections": bitkin.corrections(hasher, X),
    }
    for stage, more in (("estimate", args), ("exact", {"vectors": X})):
        found = bitkin.rescore(hits, Q, stage=stage, ids=ids, **more)
        plain = bitkin.rescore(by_row, Q, stage=stage, **more)
        assert np.array_equal(found.distances, plain.distances)
        assert np.array_equal(found.ids, np.where(plain.ids < 0, -1, ids[plain.ids]))
    no_ids = bitkin.rescore(np.full((1, 2), -1), Q[:1], stage="exact", vectors=X[:0], ids=[])
    assert no_ids.ids.tolist() == [[-1, -1]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 30))
def test_the_best_k_are_the_first_of_a_sort_by_distance_and_id(seed: int, k: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(50)[:m] for _ in range(3)]).astype(np.int64).reshape(3, m)
    ids[rng.random(ids.shape) < 0.1] = -1
    distances = np.where(ids < 0, np.inf, rng.integers(0, 6, ids.shape)).astype(np.float32)
    found = nearest_first(ids, distances, k)
    for row in range(3):
        there = ids[row] >= 0
        order = np.lexsort((ids[row][there], distances[row][there]))[:k]
        padding = k - len(order)
        assert found.ids[row].tolist() == [*ids[row][there][order].tolist(), *[-1] * padding]
        assert found.distances[row].tolist() == [
            *distances[row][there][order].tolist(),
            *[np.inf] * padding,
        ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("n_queries", "m", "k"), [(1, 1, 1), (3, 7, 2), (5, 65, 64), (4, 9, 11), (2, 0, 3)]
)
@pytest.mark.parametrize("pairs", [1, 16, 1 << 14])
def test_the_nearest_by_score_are_the_first_of_a_sort_of_all_scores(
    metric: str, n_queries: int, m: int, k: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_PAIRS_PER_PIECE", pairs)  # the cut into pieces changes nothing
    X = rows_like_real_ones(40)[np.arange(60) % 40]  # every third row twice: ties
    scorer = scorer_for(ProjectionHash(13).fit(X), metric)
    codes, numbers = scorer.encode(X, "X")
    asked = scorer.prepare_queries(rows_like_real_ones(n_queries, seed=1))
    rng = np.random.default_rng(m)
    places = np.stack(
        [rng.permutation(np.append(np.arange(60), [-1] * 8))[:m] for _ in range(n_queries)]
    )
    ids = np.where(places < 0, -1, 1000 - places)
    rows = codes.words[:, 0], numbers, places
    found = scorer.nearest(asked, CodedRows.gathered(*rows), ids, k)
    scores = scorer.scores(asked, *rows)
    assert np.array_equal(np.isinf(scores), places < 0)
    for q in range(n_queries):
        order = np.lexsort((ids[q], scores[q]))
        order = order[ids[q][order] >= 0][:k]
        padding = k - len(order)
        assert found.ids[q].tolist() == [*ids[q][order].tolist(), *[-1] * padding]
        assert found.distances[q].tolist() == [*scores[q][order].tolist(), *[np.inf] * padding]


def test_scores_are_reported_as_distances_and_never_below_0() -> None:
    scores = np.array([[-4.0, 0.0, 9.0, 1e90, np.inf]])
    found = Neighbors(np.arange(5)[None], scores)
    infinity = float("inf")
    assert distances_from_scores(found, "l2").distances.tolist() == [
        [0.0, 0.0, 3.0, infinity, infinity]
    ]
    assert distances_from_scores(found, "cosine").distances.tolist() == [
        [0.0, 0.0, 9.0, infinity, infinity]
    ]
    assert distances_from_scores(found, "ip").distances.tolist() == [
        [-4.0, 0.0, 9.0, infinity, infinity]
    ]
    assert distances_from_scores(found, "l2").distances.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"stage": "codes"}, InvalidInputError, "stage must be one of 'estimate', 'exact'"),
        ({"metric": "l1"}, InvalidInputError, "metric must be one of"),
        ({"k": 0}, InvalidInputError, "k must be at least 1, got 0"),
        ({"codes": None}, InvalidInputError, "codes must be given for stage='estimate'"),
        (
            {"vectors": np.ones((9, 20))},
            InvalidInputError,
            "vectors must be left out for stage='estimate'",
        ),
        ({"stage": "exact"}, InvalidInputError, "hasher must be left out for stage='exact'"),
        ({"hits": [0, 1]}, InvalidInputError, r"hits must be Neighbors, or whole numbers of shape"),
        ({"hits": [[0.5]]}, InvalidInputError, "hits must be Neighbors, or whole numbers"),
        ({"hits": [[9], [0]]}, UnknownIdError, "hits must be rows of codes, which has 9, got 9"),
        (
            {"hits": [[0], [1], [2]]},
            InvalidInputError,
            "queries must be one a row of hits, got 2 for 3 rows",
        ),
        (
            {"queries": np.ones((2, 19))},
            InvalidInputError,
            "queries must have 20 features, .* got 19",
        ),
        ({"queries": np.full((2, 20), np.nan)}, InvalidInputError, "queries: NaN at row 0"),
        (
            {"corrections": np.ones((8, 2))},
            InvalidInputError,
            r"corrections must have shape \(9, 2\), .* got \(8, 2\)",
        ),
        ({"corrections": np.full((9, 2), np.nan)}, InvalidInputError, "corrections must be finite"),
        (
            {"corrections": np.full((9, 2), -1)},
            InvalidInputError,
            "corrections must be those of l2, squares first",
        ),
        ({"corrections": "text"}, InvalidInputError, "corrections must be numbers"),
        ({"ids": [1, 2]}, InvalidInputError, "ids must be one a row of codes, got 2 for 9 rows"),
        ({"ids": np.arange(9) + 5}, UnknownIdError, "hits must be among ids; not there: 0, 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_rescored_is_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    X = rows_like_real_ones(9)
    hasher = ProjectionHash(5).fit(X)
    arguments: dict[str, Any] = {
        "hits": Neighbors(np.array([[0], [1]]), np.zeros((2, 1), np.int32)),
        "queries": X[:2],
        "stage": "estimate",
        "hasher": hasher,
        "codes": hasher.encode(X),
        "corrections": bitkin.corrections(hasher, X),
    } | changes
    with pytest.raises(error, match=message):
        bitkin.rescore(**arguments)


def test_exact_rescoring_refuses_vectors_that_do_not_fit() -> None:
    X = rows_like_real_ones(9)
    with pytest.raises(
        InvalidInputError, match="queries must have 20 features, as vectors have, got 3"
    ):
        bitkin.rescore([[0]], np.ones((1, 3)), stage="exact", vectors=X)
    with pytest.raises(UnknownIdError, match="hits must be rows of vectors, which has 9, got 12"):
        bitkin.rescore([[12]], X[:1], stage="exact", vectors=X)
    with pytest.raises(InvalidInputError, match="queries must be one a row of hits, got 2 for 1"):
        bitkin.rescore([[0]], X[:2], stage="exact", vectors=X)


def test_only_hashers_whose_codes_can_be_scored_are_taken() -> None:
    X = rows_like_real_ones(200)
    crooked = bitkin.projections.Nystrom(samples=1.0, features=10, orthonormalize=False)
    with pytest.raises(
        InvalidInputError, match="must have orthonormal directions or a random projection"
    ):
        bitkin.corrections(ProjectionHash(8, projection=crooked, rotation=None).fit(X), X)
    with pytest.raises(
        InvalidInputError, match="hasher must be a fitted ProjectionHash or SignHash, got WTAHash"
    ):
        bitkin.corrections(bitkin.WTAHash(8).fit(X), X)
    other = ProjectionHash(5).fit(X)
    hasher = ProjectionHash(5, rotation=None).fit(X)
    with pytest.raises(CodeMismatchError, match="codes must come from the hasher with fingerprint"):
        bitkin.rescore(
            [[0]],
            X[:1],
            stage="estimate",
            hasher=hasher,
            codes=other.encode(X),
            corrections=bitkin.corrections(other, X),
        )


def test_numbers_beyond_float32_are_refused() -> None:
    X = rows_like_real_ones(30) * np.float32(1e20)
    hasher = ProjectionHash(5).fit(X)
    with pytest.raises(
        InvalidInputError, match="vectors must have smaller numbers: what is kept of row 0"
    ):
        bitkin.corrections(hasher, X)


def test_inner_products_beyond_float32_rank_like_smaller_ones() -> None:
    X, Q = rows_like_real_ones(60), rows_like_real_ones(5, seed=1)
    found = []
    for scale in (np.float32(1), np.float32(2.0**66)):
        hasher = ProjectionHash(9, center=False).fit(X * scale)
        index = bitkin.EpochIndex("ip")
        index.add(hasher, X * scale)
        by_index = index.search(Q * scale, 10, oversample=6)
        numbers = bitkin.corrections(hasher, X * scale, "ip")
        by_rescore = bitkin.rescore(
            every_row(5, 60), Q * scale, stage="estimate", k=10, metric="ip", hasher=hasher,
            codes=hasher.encode(X * scale), corrections=numbers,
        )  # fmt: skip
        assert np.array_equal(by_rescore.ids, by_index.ids)
        assert by_index.distances.dtype == by_rescore.distances.dtype == np.float32
        found.append(by_index)
    assert np.array_equal(found[0].ids, found[1].ids)
    assert np.isneginf(found[1].distances[:, 0]).all()
