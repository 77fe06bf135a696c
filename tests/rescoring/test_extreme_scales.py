"""Rescoring of data of any size: the ids of an ordinary scale, and distances that scale with the
data.

Scales are powers of two, so that rows are the same numbers at another scale, to the last bit.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.training import prepare_rows
from bitkin.rescoring.estimate import Scorer
from tests.memory import peak_of

METRICS = ["l2", "cosine", "ip"]
# 1e-300, 1e-170, 1e-160, 1e-82, 1e-76, 1e-40, 1e-23, 1e-9, 1e9, 1e38, 1e77, 1e154, 1e155, 1e170,
# 1e300
EXPONENTS = [-996, -565, -532, -272, -252, -133, -76, -30, 30, 126, 256, 512, 515, 565, 996]

Floats = npt.NDArray[np.float64]


def numbers(n: int, seed: int, d: int = 11) -> Floats:
    """Rows of float64, some of their numbers zero, so that they can be sparse."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) + 0.25
    rows[rng.random((n, d)) < 0.2] = 0.0
    return rows


def every_row(n_queries: int, n_rows: int) -> npt.NDArray[np.int64]:
    return np.tile(np.arange(n_rows), (n_queries, 1))


def rescored(X: Any, Q: Any, metric: str, k: int = 9) -> bitkin.Neighbors:
    return bitkin.rescore(
        every_row(Q.shape[0], X.shape[0]), Q, stage="exact", k=k, metric=metric, vectors=X
    )


@pytest.mark.parametrize("form", ["dense", "sparse", "sparse rows, dense queries"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_exact_rescoring_is_that_of_an_ordinary_scale(
    exponent: int, metric: str, form: str
) -> None:
    X, Q = numbers(40, 0), numbers(5, 1)
    X[7], X[8], Q[2] = X[3], 0.0, X[3]  # a tie, a row of zeros, a query that is a row
    plain = rescored(X, Q, metric)
    rows: Any = np.ldexp(X, exponent)
    queries: Any = np.ldexp(Q, exponent)
    if form.startswith("sparse"):
        rows, queries = csr_array(rows), queries if form.endswith("queries") else csr_array(queries)
    found = rescored(rows, queries, metric)
    assert np.array_equal(found.ids, plain.ids)
    scaled_by = {"l2": exponent, "cosine": 0, "ip": 2 * exponent}[metric]
    with np.errstate(over="ignore", under="ignore"):
        assert np.array_equal(found.distances, np.ldexp(plain.distances, scaled_by))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_exact_rescoring_agrees_with_exact_search_at_every_scale(
    exponent: int, metric: str
) -> None:
    X, Q = np.ldexp(numbers(40, 0), exponent), np.ldexp(numbers(5, 1), exponent)
    found, truth = rescored(X, Q, metric), nearest(X, Q, 9, metric)
    assert np.array_equal(found.ids, truth.ids)
    np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_queries_of_another_scale_than_rows_change_no_order(metric: str) -> None:
    X, Q = numbers(40, 0), numbers(5, 1)
    plain = rescored(X, Q, metric)
    for of_rows, of_queries in [
        (-1000, 990),
        (990, -1000),
        (-700, -300),
        (800, 0),
        (0, -800),
        (-400, -500),
    ]:
        found = rescored(np.ldexp(X, of_rows), np.ldexp(Q, of_queries), metric)
        assert np.array_equal(found.ids, plain.ids)
        scaled_by = 0 if metric == "cosine" else of_rows + of_queries
        assert np.array_equal(found.distances, np.ldexp(plain.distances, scaled_by))


def true_squares(X: Floats, q: Floats) -> list[Fraction]:
    return [
        sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, q, strict=True)), Fraction())
        for x in X.tolist()
    ]


@given(
    st.lists(st.integers(-1060, 1020), min_size=5, max_size=5),
    st.integers(-1060, 1020),
    st.integers(0, 99),
)
@example([1020, -1060, -700, 0, 600], -700, 0)
@example([1020] * 5, 1020, 1)
@example([-1060, -1060, -1059, -1058, 0], -1060, 2)
def test_rows_of_every_scale_rank_together_by_their_true_l2_distance(
    of_rows: list[int], of_query: int, seed: int
) -> None:
    X, q = (
        np.ldexp(numbers(5, seed, 3), np.array(of_rows)[:, None]),
        np.ldexp(numbers(1, seed + 100, 3), of_query),
    )
    found = rescored(X, q, "l2", k=5)
    squares = true_squares(X, q[0].tolist())
    ranked = [squares[i] for i in found.ids[0]]
    assert all(near <= far * (1 + Fraction(1, 2**40)) for near, far in pairwise(ranked))
    for distance, square in zip(found.distances[0].tolist(), ranked, strict=True):
        if np.isinf(distance):
            assert square > Fraction(2) ** 2047
        else:
            # Half a unit of the smallest float, or a few of the last place.
            room = Fraction(5e-324) + Fraction(distance) / 2**50
            assert (
                max(Fraction(distance) - room, Fraction()) ** 2
                <= square
                <= (Fraction(distance) + room) ** 2
            )


@given(
    st.lists(st.integers(-1060, 1020), min_size=5, max_size=5),
    st.integers(-1060, 1020),
    st.integers(0, 99),
)
def test_rows_of_every_scale_have_the_cosine_of_their_directions(
    of_rows: list[int], of_query: int, seed: int
) -> None:
    X, q = numbers(5, seed, 3), numbers(1, seed + 100, 3)
    # On a grid of 2⁻⁸, so that even at the smallest scale no digit is lost.
    X, q = np.rint(X * 256) / 256, np.rint(q * 256) / 256
    found = rescored(np.ldexp(X, np.array(of_rows)[:, None]), np.ldexp(q, of_query), "cosine", k=5)
    plain = rescored(X, q, "cosine", k=5)
    assert np.array_equal(found.ids, plain.ids)
    assert np.array_equal(found.distances, plain.distances)


def test_products_whose_terms_cancel_beyond_float64_are_sums_of_those_terms() -> None:
    X = np.array(
        [
            [1e300, 1e300, 1e150],
            [1e300, -1e300, 0.0],
            [1e-300, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [-1e300, 0, 0],
        ]
    )
    found = rescored(X, np.array([[1e300, -1e300, 0.0]]), "ip", k=5)
    assert found.ids.tolist() == [[1, 2, 0, 3, 4]]
    assert found.distances.tolist() == [[-np.inf, -1.0, 0.0, 0.0, np.inf]]


def test_a_scale_that_carries_vectors_beyond_float64_is_refused() -> None:
    X = np.array([[1.0, 2.0], [1e300, 1.0]])
    with pytest.raises(
        InvalidInputError, match="vectors times scale must be finite, got inf in row 1"
    ):
        bitkin.rescore([[0, 1]], X[:1], stage="exact", vectors=X, scale=1e100)


def rows_like_real_ones(n: int, seed: int, d: int = 20) -> npt.NDArray[np.float32]:
    """Rows that vary more along some directions than others, far from the origin."""
    mixing = np.random.default_rng(99).standard_normal((d, d)) * np.linspace(0.2, 2.0, d)[:, None]
    return (np.random.default_rng(seed).standard_normal((n, d)) @ mixing + 2.0).astype(np.float32)


def estimated(hasher: bitkin.ProjectionHash, X: Any, Q: Any, metric: str) -> bitkin.Neighbors:
    kept = bitkin.corrections(hasher, X, metric)
    needs: dict[str, Any] = {"hasher": hasher, "codes": hasher.encode(X), "corrections": kept}
    return bitkin.rescore(
        every_row(len(Q), len(X)), Q, stage="estimate", k=20, metric=metric, **needs
    )


HASHERS: list[dict[str, Any]] = [
    {},
    {"center": False},
    {"normalize": True},
    {"projection": "random", "rotation": None},
    {"projection": "opast", "rotation": "unifdiag"},
]


@pytest.mark.parametrize("options", HASHERS, ids=repr)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", [-120, -100, -90, -76, -70, -64, -63, -40, 40, 55])
def test_estimates_are_those_of_an_ordinary_scale(
    exponent: int, metric: str, options: dict[str, Any]
) -> None:
    X, Q = rows_like_real_ones(80, 0), rows_like_real_ones(6, 1)
    X[5], X[6] = X[4], 0.0
    plain = estimated(bitkin.ProjectionHash(12, **options).fit(X), X, Q, metric)
    X, Q = np.ldexp(X, exponent), np.ldexp(Q, exponent)
    found = estimated(bitkin.ProjectionHash(12, **options).fit(X), X, Q, metric)
    assert np.mean(found.ids == plain.ids) > 0.98  # where two estimates are all but equal
    scaled_by = {"l2": exponent, "cosine": 0, "ip": 2 * exponent}[metric]
    expected = np.ldexp(plain.distances.astype(np.float64), scaled_by).astype(np.float32)
    # near 0 a root shows every rounding
    room = {"l2": 0.03, "cosine": 1e-4, "ip": 1e-3}[metric] * 2.0**scaled_by
    np.testing.assert_allclose(found.distances, expected, rtol=1e-3, atol=max(room, 2e-45))


@pytest.mark.parametrize("metric", METRICS)
def test_estimates_of_denormal_numbers_find_what_is_near(metric: str) -> None:
    X, Q = rows_like_real_ones(300, 0), rows_like_real_ones(20, 1)
    truth = nearest(X, Q, 5, metric).ids
    plain = recall(estimated(bitkin.ProjectionHash(18).fit(X), X, Q, metric).ids, truth)
    X, Q = np.ldexp(X, -133), np.ldexp(Q, -133)
    assert (
        recall(estimated(bitkin.ProjectionHash(18).fit(X), X, Q, metric).ids, truth) > plain - 0.05
    )


def test_corrections_of_short_vectors_keep_lengths_where_squares_would_vanish() -> None:
    X = np.ldexp(rows_like_real_ones(80, 0), -90)
    hasher = bitkin.ProjectionHash(12).fit(X)
    lengths = np.linalg.norm(X - hasher.mean_, axis=1)
    np.testing.assert_allclose(bitkin.corrections(hasher, X)[:, 0], -lengths, rtol=1e-5)


def test_epochs_of_short_vectors_are_searched_saved_and_loaded(tmp_path: Path) -> None:
    X, Q = rows_like_real_ones(200, 0), rows_like_real_ones(6, 1)
    found = []
    for exponent in (0, -90):
        rows, queries = np.ldexp(X, exponent), np.ldexp(Q, exponent)
        hasher = bitkin.ProjectionHash(12).fit(rows)
        index = bitkin.EpochIndex()
        index.begin(hasher)
        index.add(hasher, rows[:100])
        index.add_codes(hasher.encode(rows[100:]), bitkin.corrections(hasher, rows[100:]))
        index.save(tmp_path / "index.bitkin")
        found += [
            index.search(queries, 10).ids,
            bitkin.load(tmp_path / "index.bitkin").search(queries, 10).ids,
        ]
    assert np.array_equal(found[2], found[3])
    assert np.mean(found[0] == found[2]) > 0.95


def test_corrections_of_another_metric_are_refused_at_every_scale() -> None:
    X = np.ldexp(rows_like_real_ones(30, 0), -60)
    X -= X.mean(axis=0) / 2
    hasher = bitkin.ProjectionHash(12).fit(X)
    kept = bitkin.corrections(hasher, X, "cosine")
    assert (kept[:, 0] < 0).any()
    with pytest.raises(InvalidInputError, match="corrections must be those of l2, squares first"):
        bitkin.rescore(
            [[*range(30)]],
            X[:1],
            stage="estimate",
            hasher=hasher,
            codes=hasher.encode(X),
            corrections=kept,
        )


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8", "csr"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", [-125, -90, -30, -17, -12, 12, 40, 55])
def test_a_collection_answers_as_at_an_ordinary_scale_or_refuses(
    exponent: int, metric: str, vectors: str
) -> None:
    X, Q = rows_like_real_ones(80, 0), rows_like_real_ones(6, 1)
    truth = nearest(X, Q, 5, metric).ids
    X, Q = np.ldexp(X, exponent), np.ldexp(Q, exponent)
    hasher = bitkin.ProjectionHash(16, normalize=metric == "cosine").fit(X)
    collection = bitkin.Collection.create(None, hasher, metric=metric, vectors=vectors)
    try:
        collection.add(X)
    except InvalidInputError as error:
        assert "Scale the data" in str(error)  # noqa: PT017  # either is right, for some of the scales
        assert vectors == "float16"
        assert abs(exponent) > 11
        return
    found = collection.search(Q, 5)
    assert recall(found.ids, truth) > 0.9
    assert found.distances.dtype == np.float64
    assert vectors != "float16" or -18 < exponent < 15


def test_float64_vectors_that_vanish_in_float32_are_refused() -> None:
    X = rows_like_real_ones(30, 0).astype(np.float64)
    hasher = bitkin.ProjectionHash(5).fit(X)
    X[7] *= 1e-45
    for rows in (X, csr_array(X)):
        for refused in (
            bitkin.ProjectionHash(5).fit,
            hasher.encode,
            lambda rows: bitkin.corrections(hasher, rows),
        ):
            with pytest.raises(
                InvalidInputError, match=r"row 7 all but vanishes in float32.* Scale the data up"
            ):
                refused(rows)
    X[7] = 0
    X[8, 1:] *= 1e-60  # numbers may vanish beside others
    hasher.encode(X)
    X[7] = np.float32(1e-44)
    hasher.encode(X)  # as float32 has it


@pytest.mark.parametrize(("as_rows", "most"), [(np.asarray, 0.75), (csr_array, 2.0)])
def test_the_rows_that_may_vanish_are_the_only_ones_looked_at_for_it(
    as_rows: Any, most: float
) -> None:
    """A few rows of zeros, as real data has them, must not cost temporaries of the whole batch."""
    X = rows_like_real_ones(3000, 0).astype(np.float64)
    X[::100] = 0
    X[1::100, 0] = 1e-50
    rows, few = as_rows(X), np.r_[0:3000:100]
    # The float32 rows alone are half as large, and those of CSR come with their column numbers.
    assert peak_of(lambda: prepare_rows(rows, False)) < most * X.nbytes
    assert not np.any(csr_array(prepare_rows(rows, False)).toarray()[few])
    X[np.r_[2003, 2907]] = 1e-45
    with pytest.raises(InvalidInputError, match="row 2003 all but vanishes"):
        prepare_rows(as_rows(X), False)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("queries", [[0.0], [0.0, 1.7e308], [-5e-324, -1e308]])
def test_a_distance_beyond_float64_takes_no_digits_from_the_smallest(
    queries: list[float], as_rows: Any
) -> None:
    X, Q = np.array([[-1.7e308], [5e-324], [0.0]]), np.array(queries)[:, None]
    found = bitkin.rescore(
        [[0, 1, 2]] * len(Q), as_rows(Q), stage="exact", k=3, metric="l2", vectors=as_rows(X)
    )
    for query, ids, distances in zip(Q[:, 0], found.ids, found.distances, strict=True):
        true = [abs(Fraction(float(row)) - Fraction(float(query))) for row in X[:, 0]]
        rounded = [float(distance) if distance < 2**1024 else np.inf for distance in true]
        order = sorted(range(3), key=lambda row: (rounded[row], row))
        assert ids.tolist() == order
        assert distances.tolist() == [rounded[row] for row in order]


def test_products_beyond_float64_rank_by_what_they_are_on_both_sides_of_zero() -> None:
    X = np.array([[-1e308], [-1e200], [-1.0], [0.0], [5e-324], [1.0], [1e200], [1e308]])
    for query, order in ((1e200, [7, 6, 5, 4, 3, 2, 1, 0]), (-1e200, [0, 1, 2, 3, 4, 5, 6, 7])):
        places = [[0, 1, 2, 3, 4, 5, 6, 7, -1]]
        found = bitkin.rescore(places, [[query]], stage="exact", k=10, metric="ip", vectors=X)
        assert found.ids.tolist() == [[*order, -1, -1]]
        assert found.distances[0, 0] == -np.inf
        assert found.distances[0, 3:5].tolist() in ([query * -5e-324, 0.0], [0.0, query * -5e-324])
        assert (found.distances[0, 8:] == np.inf).all()


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("metric", METRICS)
def test_powers_of_two_are_c_ints_as_ldexp_wants_them_on_windows(
    metric: str, as_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ldexp = np.ldexp

    def ldexp_of_windows(numbers: Any, exponents: Any) -> Any:
        if not isinstance(exponents, int) and np.asarray(exponents).dtype != np.intc:
            raise TypeError(
                f"ufunc 'ldexp' did not contain a loop for {np.asarray(exponents).dtype}"
            )
        return ldexp(numbers, exponents)

    X = as_rows(np.array([[1.7e308, 1.0], [-1.7e308, 2.0], [3e-320, 1e-200]]))
    expected = rescored(X, X, metric, 3)
    expected_truth = nearest(X, X, 3, metric=metric)  # Numba looks at `np.ldexp` when it begins
    monkeypatch.setattr(np, "ldexp", ldexp_of_windows)
    np.testing.assert_array_equal(rescored(X, X, metric, 3).ids, expected.ids)
    np.testing.assert_array_equal(nearest(X, X, 3, metric=metric).ids, expected_truth.ids)


@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("exponent", [-1000, -1030, -130])
def test_a_mean_of_any_length_is_taken_out_of_the_queries(exponent: int, metric: str) -> None:
    """A mean so short counts only by its direction: its part of a query, a · μ, has the length of
    the query.
    """
    rng = np.random.default_rng(0)
    components = rng.standard_normal((20, 9)).astype(np.float32)
    mean, Q = rng.standard_normal(20), rng.standard_normal((7, 20)).astype(np.float32)
    asked = Scorer(SignModel(components, np.ldexp(mean, exponent), False), metric).prepare_queries(
        Q
    )
    wide = Q.astype(np.float64)
    if metric == "cosine":
        wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    seen = (wide - (wide @ mean / (mean @ mean))[:, None] * mean) @ components.astype(np.float64)
    largest = np.abs(seen).max(axis=1, keepdims=True)
    got = asked.projected / np.abs(asked.projected).max(axis=1, keepdims=True)
    np.testing.assert_allclose(got, seen / largest, atol=1e-5)
    assert np.isfinite(asked.terms).all()
