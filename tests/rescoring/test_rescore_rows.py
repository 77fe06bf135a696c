"""Where rescoring takes rows from: an index at one moment, ids of any kind, and stored vectors of
any type.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin import FlatIndex, ProjectionHash
from bitkin.errors import CodeMismatchError, InvalidInputError, UnknownIdError
from bitkin.evaluate import nearest
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.ranking import widen_halves_into
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate import CodedRows
from bitkin.rescoring.exact import measure_pairs
from bitkin.rescoring.shortlist import Shortlist

N = 90
X = np.random.default_rng(0).standard_normal((N, 20)).astype(np.float32)
Q = np.random.default_rng(1).standard_normal((4, 20)).astype(np.float32)
HASHER = ProjectionHash(13, random_state=0).fit(X)
CODES, NUMBERS = HASHER.encode(X), bitkin.corrections(HASHER, X)
EVERY = np.tile(np.arange(N), (4, 1))


def index_of(ids: npt.ArrayLike | None = None) -> FlatIndex:
    index = FlatIndex(CODES.spec)
    index.add(CODES, ids)
    return index


def estimated(hits: Any, codes: Any, corrections: Any = NUMBERS, **more: Any) -> bitkin.Neighbors:
    return bitkin.rescore(
        hits, Q, stage="estimate", hasher=HASHER, codes=codes, corrections=corrections, **more
    )


def same(a: bitkin.Neighbors, b: bitkin.Neighbors) -> bool:
    return np.array_equal(a.ids, b.ids) and np.array_equal(a.distances, b.distances)


@given(st.integers(0, 2**32 - 1), st.sampled_from([10, 100, 10**12]), st.integers(0, 9))
def test_a_shortlist_knows_every_id_once_and_where_it_stands(seed: int, most: int, m: int) -> None:
    ids = np.random.default_rng(seed).integers(-2, most, (3, m))
    shortlist = Shortlist.from_hits(ids)
    assert shortlist.wanted.tolist() == sorted({int(i) for i in ids.ravel() if i >= 0})
    assert np.array_equal(shortlist.spread(shortlist.wanted), np.maximum(ids, -1))


def test_a_shortlist_says_where_in_it_every_id_stands() -> None:
    shortlist = Shortlist.from_ids(np.array([[70, 5, -1], [5, 9, 70]]))
    assert shortlist.wanted.tolist() == [5, 9, 70]
    assert shortlist.places.tolist() == [[2, 0, -1], [0, 1, 2]]
    assert shortlist.spread(np.array([50, 90, 700])).tolist() == [[700, 50, -1], [50, 90, 700]]


def test_ids_beyond_those_that_are_marked_are_sorted_with_the_same_result() -> None:
    ids = np.random.default_rng(3).integers(-1, 40, (2, 30))
    small, large = Shortlist.from_hits(ids), Shortlist.from_hits(np.where(ids < 0, -1, ids + 2**40))
    assert np.array_equal(small.places, large.places)
    assert np.array_equal(small.wanted + 2**40, large.wanted)


def test_corrections_of_empty_rows_may_be_anything_and_stay_as_they_are() -> None:
    empty = np.arange(N) == 4
    codes = bitkin.Codes(CODES.words, CODES.spec, empty=empty, fingerprint=CODES.fingerprint)
    numbers = NUMBERS.copy()
    numbers[4] = np.nan
    assert same(estimated(EVERY, codes, numbers), estimated(np.where(EVERY == 4, -1, EVERY), CODES))
    assert np.isnan(numbers[4]).all()


@pytest.mark.parametrize("stage", ["estimate", "exact"])
def test_no_queries_have_no_neighbours(stage: str) -> None:
    needs: dict[str, Any] = {"hasher": HASHER, "codes": CODES, "corrections": NUMBERS}
    found = bitkin.rescore(
        np.empty((0, 7), dtype=np.int64),
        Q[:0],
        stage=stage,
        k=3,
        **(needs if stage == "estimate" else {"vectors": X}),
    )
    assert found.ids.shape == found.distances.shape == (0, 3)
    assert found.distances.dtype == (np.float32 if stage == "estimate" else np.float64)


def test_an_index_is_as_good_as_its_codes() -> None:
    assert same(estimated(EVERY, index_of()), estimated(EVERY, CODES))


def test_corrections_beside_an_index_go_by_id_or_by_the_ids_given() -> None:
    ids = np.random.default_rng(2).permutation(1000)[:N]
    expected = estimated(ids[EVERY], CODES, ids=ids)
    index = index_of(ids)
    assert same(estimated(ids[EVERY], index, ids=ids), expected)
    by_id = np.full((1000, 2), np.nan, dtype=np.float32)  # rows of nobody do not matter
    by_id[ids] = NUMBERS
    assert same(estimated(ids[EVERY], index, by_id), expected)


def test_rows_an_index_no_longer_has_drop_out_and_empty_ones_too() -> None:
    index = index_of()
    index.remove(np.arange(5, 40))
    flags = np.arange(2) == 1
    index.upsert(
        bitkin.Codes(CODES.words[:2], CODES.spec, empty=flags, fingerprint=CODES.fingerprint),
        [0, 1],
    )
    gone = np.r_[1, 5:40]
    found = estimated(EVERY, index)
    assert same(found, estimated(np.where(np.isin(EVERY, gone), -1, EVERY), CODES))
    assert (found.ids[:, N - len(gone) :] == -1).all()
    assert np.isinf(found.distances[:, N - len(gone) :]).all()
    index.remove([0, 1, 2, 3, 4])  # what was removed need not be in ids either
    kept = estimated(EVERY, index, NUMBERS[40:], ids=np.arange(40, N))
    assert same(kept, estimated(np.where(EVERY < 40, -1, EVERY), CODES))


def test_rescoring_beside_a_writer_answers_from_one_moment() -> None:
    """A writer takes all rows away and puts them back: an answer has all of them, right, or
    none.
    """
    index, done, wrong = index_of(), threading.Event(), []
    whole = estimated(EVERY, CODES)

    def write() -> None:
        while not done.is_set():
            index.remove(np.arange(30, N))
            index.add(CODES[30:], np.arange(30, N))

    def search() -> None:
        fewer = estimated(np.where(EVERY < 30, EVERY, -1), CODES)
        for _ in range(60):
            found = estimated(EVERY, index)
            if not (same(found, whole) or same(found, fewer)):
                wrong.append(found)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=search) for _ in range(3)]
    writer.start()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    done.set()
    writer.join()
    assert not wrong


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("form", ["one scale", "a scale a row", "float16 map"])
def test_vectors_in_few_bytes_are_measured_as_what_they_stand_for(
    form: str, metric: str, tmp_path: Path
) -> None:
    scale: Any = None
    if form == "float16 map":
        np.save(tmp_path / "rows.npy", X.astype(np.float16))
        stored = np.load(tmp_path / "rows.npy", mmap_mode="r")
        meant = X.astype(np.float16).astype(np.float64)
    else:
        scale = (
            np.float32(0.03)
            if form == "one scale"
            else (np.abs(X).max(axis=1) / 127).astype(np.float32)
        )
        steps = np.clip(np.rint(X / np.reshape(scale, (-1, 1))), -127, 127)
        stored = steps.astype(np.int8)
        meant = steps * np.reshape(scale, (-1, 1)).astype(np.float64)
    found = bitkin.rescore(EVERY, Q, stage="exact", k=9, metric=metric, vectors=stored, scale=scale)
    truth = nearest(meant, Q, 9, metric)
    assert np.array_equal(found.ids, truth.ids)
    np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-10)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"scale": [1.0, 2.0]},
            InvalidInputError,
            r"scale must be one number, or one a row of vectors, which has 90",
        ),
        ({"scale": np.nan}, InvalidInputError, "scale must be finite, got nan"),
        ({"scale": "much"}, InvalidInputError, "scale must be a number"),
        (
            {"vectors": X[:50]},
            UnknownIdError,
            "hits must be rows of vectors, which has 50, got 50, 51, 52, 53, 54 and",
        ),
        (
            {"ids": np.arange(95)},
            InvalidInputError,
            "ids must be one a row of vectors, got 95 for 90 rows",
        ),
        (
            {"vectors": X[:, :19]},
            InvalidInputError,
            "queries must have 19 features, as vectors have, got 20",
        ),
        (
            {"hits": np.full((4, 1), 2**63, dtype=np.uint64)},
            InvalidInputError,
            "hits must be below 2",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_vectors_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {
        "hits": EVERY,
        "queries": Q,
        "stage": "exact",
        "vectors": X,
    } | changes
    with pytest.raises(error, match=message):
        bitkin.rescore(**arguments)


def test_what_does_not_fit_an_index_is_refused() -> None:
    index = index_of()
    with pytest.raises(
        UnknownIdError, match="hits must be rows of corrections, which has 50, got 50"
    ):
        estimated(EVERY, index, NUMBERS[:50])
    with pytest.raises(InvalidInputError, match=r"corrections must have shape \(90, 2\)"):
        estimated(EVERY, index, NUMBERS[:, :1])
    with pytest.raises(UnknownIdError, match="hits must be among ids; not there: 0, 1"):
        estimated(EVERY, index, ids=np.arange(N) + 2)
    with pytest.raises(
        InvalidInputError, match=r"corrections must be finite, got \[nan, nan\] in row 3"
    ):
        estimated(EVERY, index, np.where(np.arange(N)[:, None] == 3, np.nan, NUMBERS))
    with pytest.raises(InvalidInputError, match="scale must be left out for stage='estimate'"):
        estimated(EVERY, index, scale=1.0)
    other = ProjectionHash(13, random_state=0).fit(X * 2)
    with pytest.raises(CodeMismatchError, match="codes must come from the hasher with fingerprint"):
        bitkin.rescore(EVERY, Q, stage="estimate", hasher=other, codes=index, corrections=NUMBERS)
    for wrong in (ProjectionHash(7, random_state=0).fit(X), bitkin.WTAHash(13).fit(X)):
        with pytest.raises(
            CodeMismatchError, match=r"hasher must be the one that made the codes, which are 13 × 1"
        ):
            bitkin.rescore(
                EVERY, Q, stage="estimate", hasher=wrong, codes=index, corrections=NUMBERS
            )
    with pytest.raises(InvalidInputError, match="scale must be left out for sparse vectors"):
        bitkin.rescore(EVERY, Q, stage="exact", vectors=csr_array(X), scale=2.0)


def test_a_result_that_cannot_fit_in_memory_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"k must be smaller: 1099511627776 neighbours of 1 queries"
    ):
        bitkin.rescore([[0]], np.ones((1, 2)), stage="exact", k=2**40, vectors=np.ones((1, 2)))


def test_ids_given_twice_are_refused() -> None:
    with pytest.raises(
        bitkin.errors.DuplicateIdError, match="ids must differ, given more than once: 7"
    ):
        bitkin.rescore(
            [[7]], np.ones((1, 2)), stage="exact", vectors=np.ones((3, 2)), ids=[7, 7, 1]
        )


def test_hits_of_a_radius_search_are_refused_by_name() -> None:
    codes = bitkin.Codes.from_symbols([[0, 1], [1, 1]], bits_per_symbol=1)
    index = bitkin.FlatIndex(codes.spec)
    index.add(codes)
    hits: Any = index.search_radius(codes, 1)
    with pytest.raises(InvalidInputError, match="hits must be Neighbors, got RaggedNeighbors"):
        bitkin.rescore(hits, np.ones((2, 2)), stage="exact", vectors=np.ones((2, 2)))


def test_every_finite_float16_becomes_the_same_number_in_float32() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    halves = every[np.isfinite(every.view(np.float16))][None]
    wide = np.empty(halves.shape, dtype=np.float32)
    widen_halves_into(read_only(halves), wide)
    assert np.array_equal(wide, halves.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_rows_of_every_type_are_measured_in_float64_wherever_they_stand(
    metric: str, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    rows = (20 * rng.standard_normal((40, 13))).astype(dtype)
    queries = rng.standard_normal((3, 13)).astype(np.float32)
    row_of, query_of = rng.integers(0, 40, 90), np.sort(rng.integers(0, 3, 90))
    measured = measure_pairs(rows, row_of, queries, query_of, metric)
    a, b = rows.astype(np.float64)[row_of], queries.astype(np.float64)[query_of]
    products = (a * b).sum(axis=1)
    truth = {
        "l2": np.linalg.norm(a - b, axis=1),
        "ip": -products,
        "cosine": 1 - products / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)),
    }[metric]
    np.testing.assert_allclose(measured.times_power(0), truth, rtol=1e-12, atol=1e-12)


def test_the_best_estimates_are_those_of_sorting_all_of_them() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((70, 12)).astype(np.float32)
    scorer = scorer_for(ProjectionHash(9, rotation="random").fit(X), "l2")
    codes, corrections = scorer.encode(X, "X")
    queries = scorer.prepare_queries(X[:3])
    places = np.stack([rng.permutation(70)[:50] for _ in range(3)])
    places[:, 7] = -1
    places[2, 3:] = -1
    ids = np.where(places < 0, -1, 1000 - places)
    rows = codes.words[:, 0], corrections
    scores = scorer.scores(queries, *rows, places)
    best = scorer.nearest(queries, CodedRows.gathered(*rows, places), ids, 5)
    for i in range(3):
        order = np.lexsort((ids[i], scores[i]))[:5]
        order = order[ids[i][order] >= 0]
        assert best.ids[i].tolist() == ids[i][order].tolist() + [-1] * (5 - len(order))
        assert np.array_equal(best.distances[i][: len(order)], scores[i][order])
        assert np.isinf(best.distances[i][len(order) :]).all()
