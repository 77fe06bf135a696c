"""A lone query takes shorter ways than a batch, and finds the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bitkin import Collection, ProjectionHash
from bitkin.collection.snapshot import CollectionSnapshot
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.exact import VectorsInPlace, nearest_by_vectors

X = np.random.default_rng(0).standard_normal((700, 13)).astype(np.float32)
HASHER = ProjectionHash(11, random_state=0).fit(X)
NORMAL = ProjectionHash(11, normalize=True, random_state=0).fit(X)
SMALL = st.integers(-2, 2)


def nothing(snapshot: CollectionSnapshot, row_ids: object) -> None:
    """Stands for a store whose rows are not in one array."""


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8"])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_rows_are_the_same_where_they_stand_and_gathered(
    metric: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Collection.create(None, HASHER, metric=metric, vectors=vectors)
    items.add(X[:600], ids=np.arange(600)[::-1])
    items.remove(np.arange(0, 600, 7))
    items.upsert(X[600:], ids=np.arange(50, 150))  # slots are no longer in the order of ids
    items.compact()
    items.upsert(X[:30] + 1, ids=np.arange(100, 130))
    stages = [(stage, over) for stage in ("estimate", "exact") for over in (1, 3, 90)]

    def found() -> list[tuple[bytes, bytes]]:
        hits = [
            items.search(X[q : q + 1], 5, stage=stage, oversample=over)
            for stage, over in stages
            for q in range(9)
        ]
        return [(hit.ids.tobytes(), hit.distances.tobytes()) for hit in hits]

    in_place = found()
    monkeypatch.setattr(CollectionSnapshot, "coded_in_place", nothing)
    monkeypatch.setattr(CollectionSnapshot, "vectors_in_place", nothing)
    assert found() == in_place


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(("n_features", "n_bits"), [(1, 1), (3, 65), (5, 63), (130, 64)])
def test_a_lone_query_is_prepared_as_in_a_batch(
    n_features: int, n_bits: int, metric: str, normalize: bool
) -> None:
    rng = np.random.default_rng(n_bits)
    components = rng.standard_normal((n_features, n_bits)).astype(np.float32)
    model = SignModel(components, rng.standard_normal(n_features), normalize)
    scorer = Scorer(model, metric)
    queries = rng.standard_normal((7, n_features)).astype(np.float32)
    queries[1] = 0
    queries[2] *= np.float32(1e-30)
    queries[3] *= np.float32(1e18)
    together = scorer.prepare_queries(queries)
    for q in range(7):
        lone = scorer.prepare_queries(queries[q : q + 1])
        assert lone.codes == together.codes[q : q + 1]
        # only the product of these two counts; what is left after the mean may be next to nothing
        size = float(np.abs(queries[q].astype(np.float64) @ components).max())
        if metric == "cosine":
            size /= max(float(np.linalg.norm(queries[q].astype(np.float64))), 1e-300)
        np.testing.assert_allclose(
            lone.projected[0] * lone.terms[0, 3],
            together.projected[q] * together.terms[q, 3],
            rtol=1e-4,
            atol=1e-5 * size,
        )
        np.testing.assert_allclose(lone.terms[0, :3], together.terms[q, :3], rtol=1e-6)


@settings(max_examples=200, deadline=None)
@given(
    rows=arrays(np.int8, st.tuples(st.integers(1, 40), st.integers(1, 20)), elements=SMALL),
    exponent=st.sampled_from([-149, -100, -60, -20, 0, 20, 60, 100]),
    metric=st.sampled_from(["l2", "cosine", "ip"]),
    k=st.integers(1, 9),
    seed=st.integers(0, 9),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_the_best_rows_of_a_lone_query_are_those_of_float64(
    rows: Any, exponent: int, metric: str, k: int, seed: int, dtype: Any
) -> None:
    """Ties, rows equal to the query, zeros, and sums beyond float32 among them."""
    rng = np.random.default_rng(seed)
    stored = np.ldexp(rows.astype(np.float32), exponent if dtype == np.float32 else 0).astype(dtype)
    query = stored[:1].astype(np.float32) * np.float32(rng.integers(0, 3))
    places = rng.permutation(len(stored))[: rng.integers(1, len(stored) + 1)]
    require_same_as_gathered(stored, places, query, metric, min(k, len(places)))


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_rows_that_float32_cannot_tell_apart_are_told_apart(metric: str) -> None:
    rng = np.random.default_rng(0)
    one_row, query = rng.standard_normal((2, 1, 64)).astype(np.float32)
    stored = one_row * (1 + rng.integers(-1, 2, (300, 64)) * np.float32(2.0**-23))
    require_same_as_gathered(stored.astype(np.float32), np.arange(300), query, metric, 7)


def require_same_as_gathered(stored: Any, places: Any, query: Any, metric: str, k: int) -> None:
    ids = np.random.default_rng(1).permutation(500)[: len(places)][None]

    def gather(some: npt.NDArray[np.int64]) -> Any:
        return stored[some]

    truth = nearest_by_vectors(ids, places[None], gather, query, metric, k)
    in_place = VectorsInPlace(stored, places)
    found = nearest_by_vectors(ids, ids, gather, query, metric, k, in_place=in_place)
    assert found.ids.tolist() == truth.ids.tolist()
    assert found.distances.tolist() == truth.distances.tolist()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_lone_query_finds_what_the_general_path_finds(data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(["l2", "cosine", "ip"]))
    vectors = data.draw(st.sampled_from(["float32", "float16", "int8"]))
    names = data.draw(st.sampled_from(["int", "str"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = HASHER if metric != "cosine" else NORMAL
    items = Collection.create(None, kind, metric=metric, vectors=vectors, ids=names)

    def ids_of(numbers: Any) -> Any:
        return [f"row {n}" for n in numbers] if names == "str" else np.asarray(numbers)

    for _ in range(data.draw(st.integers(1, 4))):
        change = data.draw(st.sampled_from(["upsert", "upsert", "remove", "compact"]))
        if change == "upsert":
            some = rng.permutation(200)[: data.draw(st.sampled_from([1, 5, 150]))]
            rows = X[some % 20] if data.draw(st.booleans()) else X[some]  # with ties
            items.upsert(rows, ids=ids_of(some))
        elif change == "remove" and len(items):
            items.remove(items.ids[:: data.draw(st.integers(1, 5))])
        else:
            items.compact()
    allow = ids_of(np.arange(0, 300, 3)) if data.draw(st.booleans()) else None
    k = data.draw(st.integers(1, 40))
    for query in (X[:1], X[19] + np.float32(0.01), X[650:651] * 100):
        # the shortlist holds all rows: codes of a batch may differ where projections are next to 0
        lone = items.search(query, k, oversample=90, allow=allow)
        pair = items.search(np.stack([query.ravel()] * 2), k, oversample=90, allow=allow)
        for row in range(2):
            assert pair.ids[row].tolist() == lone.ids[0].tolist()
            assert pair.distances[row].tolist() == lone.distances[0].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_lone_query_finds_what_it_finds_in_a_batch(dtype: npt.DTypeLike) -> None:
    items = Collection.create(None, HASHER)
    items.add(X)
    queries: npt.NDArray[Any] = (X[:20] + np.float32(0.01)).astype(dtype)
    batch = items.search(queries, 4)
    for q in range(20):
        for lone in (items.search(queries[q : q + 1], 4), items.search(queries[q], 4)):
            assert lone.ids[0].tolist() == batch.ids[q].tolist()
            assert lone.distances[0].tolist() == batch.distances[q].tolist()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (np.full((1, 13), np.nan, np.float32), "queries: NaN at row 0"),
        (np.full((1, 13), np.inf), "queries: infinity at row 0"),
        (np.ones((1, 12), np.float32), "queries has 12 features"),
        (np.full((1, 13), 3e38, np.float32), "queries must have smaller numbers"),
    ],
)
def test_a_bad_lone_query_is_refused(query: npt.NDArray[Any], words: str) -> None:
    items = Collection.create(None, HASHER)
    items.add(X[:5])
    with pytest.raises(InvalidInputError, match=words):
        items.search(query, 2)
