"""Every stage against the slow truth."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import bitkin
from bitkin import BandIndex, Collection, MinHash, ProjectionHash, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest
from bitkin.kernels.search.nearest_rows import nearest_rows_into
from bitkin.rescoring import shortlist
from bitkin.rescoring.estimate import Scorer
from tests.collection.model import Model, require_same, rows_like

X, Q = rows_like(203, 17), rows_like(9, 17, seed=1)
PCA = ProjectionHash(13).fit(X)
RANDOM = ProjectionHash(67, projection="random", rotation=None).fit(X)
WTA = WTAHash(40, window=4).fit(X)
HASHERS = {"pca": PCA, "random": RANDOM, "wta": WTA}
COVERS_ALL = 1000


def filled(hasher: Any, **settings: Any) -> Collection:
    collection = Collection.create(None, hasher, **settings)
    collection.add(X)
    return collection


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("name", HASHERS)
def test_where_every_row_is_looked_at_exact_is_the_truth_itself(name: str, metric: str) -> None:
    hits = filled(HASHERS[name], metric=metric).search(Q, 7, oversample=COVERS_ALL)
    truth = nearest(X, Q, 7, metric)
    assert np.array_equal(hits.ids, truth.ids)
    assert np.array_equal(hits.distances, truth.distances)
    assert hits.ids.dtype == np.int64
    assert hits.distances.dtype == np.float64
    assert hits.metadata is None


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(
    ("name", "stage"),
    [
        (n, s)
        for n in HASHERS
        for s in ("codes", "estimate", "exact")
        if (n, s) != ("wta", "estimate")
    ],
)
def test_each_stage_keeps_what_it_says(name: str, stage: str, metric: str) -> None:
    collection = filled(HASHERS[name], metric=metric)
    model = Model(HASHERS[name], metric, dict(enumerate(X)))
    for oversample, k in itertools.product((1, 2, COVERS_ALL), (1, 3)):
        hits = collection.search(Q, k, stage=stage, oversample=oversample, first="codes")
        require_same(hits, model.search(Q, k, stage, oversample))
        assert hits.ids.shape == hits.distances.shape == (9, k)
    types = {"codes": np.int32, "estimate": np.float32, "exact": np.float64}
    assert hits.distances.dtype == types[stage]


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
def test_what_the_collection_was_made_with_holds_where_a_search_says_nothing(stage: str) -> None:
    collection = filled(PCA, stage=stage, oversample=1, first="codes")
    require_same(
        collection.search(Q, 2), Model(PCA, rows=dict(enumerate(X))).search(Q, 2, stage, 1)
    )
    assert collection.stage == stage


def test_without_a_word_the_best_stage_is_the_last() -> None:
    assert filled(PCA).stage == filled(WTA).stage == "exact"
    assert filled(PCA, vectors=None).stage == "estimate"
    assert filled(WTA, vectors=None).stage == "estimate"
    assert Collection.create(None, MinHash(8).fit(), vectors=None).stage == "codes"


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
def test_only_allowed_rows_come_back_and_all_of_them_where_k_permits(stage: str) -> None:
    collection = filled(PCA)
    model = Model(PCA, rows=dict(enumerate(X)))
    for allow in ([5], range(0, 203, 3), [], [7, 9, 999, 2**62]):
        hits = collection.search(
            Q, 11, stage=stage, oversample=COVERS_ALL, allow=np.array(allow, dtype=np.int64)
        )
        require_same(hits, model.search(Q, 11, stage, COVERS_ALL, allow=allow))
    # 10 would keep others, were it tested later
    narrow = collection.search(Q, 1, stage=stage, oversample=1, allow=[5])
    assert (narrow.ids == 5).all()


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
def test_more_neighbours_than_rows_are_padded(stage: str) -> None:
    collection = Collection.create(None, PCA)
    nothing = collection.search(Q, 4, stage=stage)
    assert (nothing.ids == -1).all()
    assert (nothing.distances == (14 if stage == "codes" else np.inf)).all()
    collection.add(X[:3])
    some = collection.search(Q, 4, stage=stage)
    assert (some.ids[:, 3] == -1).all()
    assert (some.distances[:, 3] == (14 if stage == "codes" else np.inf)).all()
    assert np.array_equal(np.sort(some.ids[:, :3], axis=1), np.tile(np.arange(3), (9, 1)))


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
def test_shortlists_are_no_longer_than_the_rows_there_are(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    measured: list[int] = []
    nearest_first, by_estimate = shortlist.nearest_first, Scorer.nearest

    def counted(ids: Any, distances: Any, k: int) -> Any:
        widths.append(k)
        return nearest_first(ids, distances, k)

    def counted_estimates(*given: Any) -> Any:
        widths.append(given[-1])
        return by_estimate(*given)

    def counted_rows(*given: Any) -> Any:
        measured.extend(len(ids) for ids in given[-1])
        return nearest_rows_into(*given)

    monkeypatch.setattr("bitkin.rescoring.exact.nearest_first", counted)
    monkeypatch.setattr("bitkin.rescoring.exact.nearest_rows_into", counted_rows)
    monkeypatch.setattr(Scorer, "nearest", counted_estimates)
    hits = filled(PCA).search(Q, 100_000, stage=stage)
    assert widths == {"codes": [], "estimate": [203], "exact": [203]}[stage]
    assert measured == (9 * [203] if stage == "exact" else [])
    assert hits.ids.shape == hits.distances.shape == (9, 100_000)
    require_same(hits, Model(PCA, rows=dict(enumerate(X))).search(Q, 203, stage, COVERS_ALL))


@pytest.mark.parametrize(("stage", "pair_bytes"), [("codes", 12), ("estimate", 12), ("exact", 16)])
def test_a_result_beyond_memory_is_refused(
    stage: str, pair_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = filled(PCA)
    monkeypatch.setattr("bitkin.memory.physical_memory", lambda: pair_bytes * 9 * 1000)
    assert collection.search(Q, 1000, stage=stage).ids.shape == (9, 1000)
    with pytest.raises(
        InvalidInputError, match="k must be smaller: 1001 neighbours of 9 queries do not fit"
    ):
        collection.search(Q, 1001, stage=stage)
    with pytest.raises(
        InvalidInputError, match="k must be smaller: 1001 neighbours of 9 queries do not fit"
    ):
        collection.search(iter([Q[:4], Q[4:]]), 1001, stage=stage)


def test_equal_vectors_come_in_order_of_id_at_every_stage() -> None:
    collection = Collection.create(None, PCA)
    collection.add(np.tile(X[:1], (50, 1)), ids=np.random.default_rng(0).permutation(1000)[:50])
    for stage in ("codes", "estimate", "exact"):
        assert (
            collection.search(X[:1], 20, stage=stage, oversample=1).ids[0].tolist()
            == collection.ids[:20].tolist()
        )


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = filled(PCA)
    whole = collection.search(Q, 3)
    monkeypatch.setattr("bitkin.rescoring.funnel.PAIRS_AT_ONCE", 410)
    assert np.array_equal(collection.search(Q, 3).ids, whole.ids)


def test_sparse_rows_and_their_dense_copies_give_the_same_answers() -> None:
    S = csr_array(np.where(X > 2, X, 0))
    hasher = ProjectionHash(13, center=False).fit(S)
    queries = csr_array(np.where(Q > 2, Q, 0))
    wanted = Collection.create(None, hasher, metric="cosine")
    wanted.add(S.toarray())
    truth = wanted.search(queries.toarray(), 5, oversample=COVERS_ALL)
    for vectors in ("float32", "csr"):
        for rows in (S, S.toarray()):
            collection = Collection.create(None, hasher, metric="cosine", vectors=vectors)
            collection.add(rows)
            for asked in (queries, queries.toarray()):
                hits = collection.search(asked, 5, oversample=COVERS_ALL)
                assert np.array_equal(hits.ids, truth.ids)
                assert np.allclose(hits.distances, truth.distances, rtol=1e-12)


@pytest.mark.parametrize("vectors", ["float16", "int8"])
def test_what_is_kept_smaller_is_what_exact_measures(vectors: str) -> None:
    collection = filled(PCA, vectors=vectors)
    kept = collection.get(np.arange(203)).vectors
    hits = collection.search(Q, 7, oversample=COVERS_ALL)
    assert np.array_equal(hits.ids, nearest(kept, Q, 7).ids)
    assert bitkin.evaluate.recall(hits.ids, nearest(X, Q, 7).ids) > 0.9


def test_rows_of_zeros_under_winner_take_all_are_kept_and_never_found() -> None:
    rows = X.copy()
    rows[[0, 7]] = 0
    hasher = WTAHash(40, window=4).fit(rows)
    collection = Collection.create(None, hasher)
    collection.add(rows)
    found = collection.search(rows, 203, oversample=COVERS_ALL)
    assert not np.isin([0, 7], found.ids).any()
    assert (found.ids[[0, 7]] == -1).all()
    assert np.isinf(found.distances[[0, 7]]).all()
    records = collection.get([0, 7])
    assert not records.vectors.any()
    assert records.codes.empty_rows().all()


@pytest.mark.filterwarnings("ignore:queries should not be all zeros")
def test_rows_of_zeros_have_a_place_in_every_metric() -> None:
    rows = X.copy()
    rows[3] = 0
    for metric in ("l2", "cosine", "ip"):
        collection = Collection.create(None, PCA, metric=metric)
        collection.add(rows)
        hits = collection.search(np.vstack([Q, np.zeros((1, 17))]), 203, oversample=COVERS_ALL)
        truth = nearest(rows, np.vstack([Q, np.zeros((1, 17))]), 203, metric)
        assert np.array_equal(hits.ids, truth.ids)
        assert np.array_equal(hits.distances, truth.distances)


def test_sets_are_found_by_their_codes() -> None:
    hasher = MinHash(64).fit()
    sets = [["red", "green", "blue"], ["red", "blue"], ["black"], []]
    collection = Collection.create(None, hasher, vectors=None, ids="str")
    collection.add(sets, ids=["a", "b", "c", "nothing"])
    hits = collection.search([["red", "blue", "green"], []], 2)
    index = bitkin.FlatIndex(hasher.spec_)
    index.add(hasher.encode(sets))
    truth = index.search(hasher.encode([["red", "blue", "green"], []]), 2)
    assert hits.ids.tolist() == [["a", "b"], [None, None]]
    assert np.array_equal(hits.distances, truth.distances)
    assert collection.search(iter([["black"]]), 1).ids.tolist() == [["c"]]


def test_sets_as_rows_of_a_matrix_can_be_measured_exactly_too() -> None:
    S = csr_array((X > 1.5).astype(np.float32))
    collection = Collection.create(None, MinHash(16).fit(S), vectors="csr", metric="cosine")
    collection.add(S)
    hits = collection.search(S[:5], 3, oversample=COVERS_ALL)
    assert np.array_equal(hits.ids, nearest(S, S[:5], 3, "cosine").ids)
    assert hits.distances.dtype == np.float64


def test_an_index_that_misses_nothing_changes_no_answer() -> None:
    flat, multi = filled(RANDOM), filled(RANDOM, index="multi")
    for stage in ("codes", "estimate", "exact"):
        mine, theirs = multi.search(Q, 7, stage=stage), flat.search(Q, 7, stage=stage)
        assert np.array_equal(mine.ids, theirs.ids)
        assert np.array_equal(mine.distances, theirs.distances)


def test_bands_of_a_short_code_are_as_short() -> None:
    short = ProjectionHash(8).fit(X)
    assert filled(short, index="bands").search(X[:5], 1).ids[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_an_index_of_ones_own_is_taken_for_its_settings() -> None:
    # which by itself returns candidates alone
    settings = BandIndex(RANDOM.spec_, band_bits=8, score="hits")
    collection = filled(RANDOM, index=settings)
    assert len(settings) == 0
    index = BandIndex(RANDOM.spec_, band_bits=8, score="hits")
    index.add(RANDOM.encode(X))
    truth = index.search(RANDOM.encode(Q), 7)
    hits = collection.search(Q, 7, stage="codes")
    missed = truth.ids < 0
    assert missed.any()
    assert np.array_equal(hits.ids[~missed], truth.ids[~missed])
    assert np.array_equal(hits.distances[~missed], truth.distances[~missed])
    assert (truth.distances[missed] == 68).all()
    narrow = filled(RANDOM, index="bands")
    assert narrow.search(X[:5], 1).ids[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("allowed", [None, range(0, 203, 2)])
def test_as_many_rows_as_there_are_come_back_where_an_index_scores_by_hits(allowed: Any) -> None:
    # one band: hardly ever equal
    wide = filled(RANDOM, index=BandIndex(RANDOM.spec_, band_bits=64, score="hits"))
    rows = np.arange(203) if allowed is None else np.array(allowed)
    for k in (1, 10, len(rows), 300):
        want = min(k, len(rows))
        for stage in ("codes", "estimate", "exact"):
            hits = wide.search(Q, k, stage=stage, allow=allowed)
            assert ((hits.ids >= 0).sum(axis=1) == want).all()
            assert all(
                len(set(ids)) == want and set(ids) <= set(rows.tolist())
                for ids in hits.ids[:, :want].tolist()
            )
            assert (np.diff(hits.distances[:, :want], axis=1) >= 0).all()
    # Rows that no band found follow those found, nearest by their symbols first, at as many bands
    # as there are.
    flat = filled(RANDOM).search(X[:5], 10, stage="codes", allow=allowed)
    hits = wide.search(X[:5], 10, stage="codes", allow=allowed)
    for found, distances, nearest_rows in zip(hits.ids, hits.distances, flat.ids, strict=True):
        by_bands = found[distances == 0].tolist()
        assert found.tolist() == [
            *by_bands,
            *(row for row in nearest_rows.tolist() if row not in by_bands),
        ]
        assert distances.tolist() == [0] * len(by_bands) + [1] * (10 - len(by_bands))


def test_an_index_that_scores_by_hits_fills_up_only_what_is_short_of_k() -> None:
    narrow = filled(RANDOM, index=BandIndex(RANDOM.spec_, band_bits=8, score="hits"))
    index = BandIndex(RANDOM.spec_, band_bits=8, score="hits")
    index.add(RANDOM.encode(X))
    truth = index.search(RANDOM.encode(Q), 7)
    hits = narrow.search(Q, 7, stage="codes")
    missed = truth.ids < 0
    assert (hits.ids >= 0).all()
    assert (hits.distances[missed] == index.n_bands).all()
    assert (hits.distances[~missed] < index.n_bands).all()


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
@pytest.mark.parametrize("vectors", ["float32", "float16"])
def test_a_lone_query_finds_what_it_finds_among_others(stage: str, vectors: str) -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((900, 24)).astype(np.float32)
    hasher = bitkin.ProjectionHash(16, rotation="random").fit(X)
    collection = bitkin.Collection.create(None, hasher, vectors=vectors, oversample=2)
    collection.add(X[:600], ids=3 * np.arange(600))
    collection.add(X[600:], ids=3 * np.arange(300) + 1)  # in between: slots are not ids
    collection.remove(3 * np.arange(0, 600, 7))
    for allow in (None, np.arange(0, 1800, 2), [4, 10]):
        together = collection.search(X[:9], 4, stage=stage, allow=allow)
        for i in range(9):
            alone = collection.search(X[i : i + 1], 4, stage=stage, allow=allow)
            assert np.array_equal(alone.ids[0], together.ids[i])
            # to a rounding: BLAS sums a row and several rows in another order
            np.testing.assert_allclose(alone.distances[0], together.distances[i], rtol=1e-5)
