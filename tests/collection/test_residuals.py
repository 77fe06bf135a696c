"""Rows in cells by codes of what is left of them, and the fast lane through cells."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import CellIndex, Collection, ProjectionHash
from bitkin.collection.searching.cell_lane import CellLane
from bitkin.collection.searching.cells import directed
from bitkin.errors import InvalidInputError
from bitkin.rescoring.cells.residuals import ResidualCentres
from tests.collection.test_cells import HASHER, UNIT, in_cells, made_rows, require_same, tables_of

WIDE = 40


def wide_rows(n: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows of more numbers than their codes have bits."""
    mix = np.random.default_rng(5).standard_normal((12, WIDE))
    noise = np.random.default_rng(seed).standard_normal((n, WIDE))
    return (made_rows(n, seed) @ mix + 0.1 * noise + 3.0).astype(np.float32)


def fitted(metric: str, projection: str = "pca") -> ProjectionHash:
    unit = metric == "cosine"
    hasher = ProjectionHash(24, projection=projection, normalize=unit, random_state=0)
    return hasher.fit(wide_rows(500))


def centres_of(collection: Collection) -> ResidualCentres:
    (tables,) = tables_of(collection)
    assert isinstance(tables.centres, ResidualCentres)
    return tables.centres


def truth(
    collection: Collection, rows: Any, queries: Any, metric: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """What estimates come near, with queries as they are, and the cell of every row."""
    centres = centres_of(collection)
    frame, model = centres.frame, centres.model
    assert model is not None
    placed = (directed(rows, metric).astype(float) - frame.mean) / frame.spread
    own = np.square(placed[:, None] - centres.vectors[None]).sum(axis=2).argmin(axis=1)
    left = placed - centres.vectors[own]
    seen = left @ model.components
    squares = np.square(left if model.random else seen).sum(axis=1)
    signs = np.where(seen >= 0, 1.0, -1.0) * (squares / np.abs(seen).sum(axis=1))[:, None]
    if metric == "ip":
        mean = frame.mean / np.linalg.norm(frame.mean)
        along = queries @ mean
        inside = (queries - np.outer(along, mean)) @ model.components @ signs.T
        inside += np.outer(along, left @ mean) + queries @ centres.vectors[own].T
        return -(queries @ frame.mean)[:, None] - frame.spread * inside, own
    asked = (directed(queries, metric).astype(float) - frame.mean) / frame.spread
    from_centres = asked[:, None] - centres.vectors[own][None]
    products = (from_centres @ model.components * signs[None]).sum(axis=2)
    scores = np.square(from_centres).sum(axis=2) + np.square(left).sum(axis=1) - 2 * products
    return scores * frame.spread**2 * (0.5 if metric == "cosine" else 1.0), own


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("projection", ["pca", "random"])
def test_estimates_are_those_of_the_formula(metric: str, projection: str) -> None:
    rows, queries = wide_rows(700), wide_rows(9, 1)
    hasher = fitted(metric, projection)
    index = CellIndex(hasher.spec_, 15, probes=1000)
    collection = Collection.create(None, hasher, index=index, metric=metric, query_bits=8)
    collection.add(rows)
    found = collection.search(queries, 700, stage="estimate")
    scores, _ = truth(collection, rows, queries, metric)
    if metric == "l2":
        scores = np.sqrt(np.maximum(scores, 0))
    elif metric == "cosine":
        scores = np.clip(scores, 0, 2)
    expected = np.take_along_axis(scores, found.ids, axis=1)
    # 8 bits of a query say all but a hundredth
    assert np.abs(found.distances - expected).max() < 0.02 * np.ptp(scores)
    assert (np.diff(found.distances, axis=1) >= 0).all()


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_what_is_left_of_a_row_says_more_than_the_row(metric: str) -> None:
    rows, queries = wide_rows(3000), wide_rows(60, 1)
    true = bitkin.evaluate.nearest(rows, queries, 10, metric=metric).ids
    hasher = fitted(metric)
    flat = Collection.create(None, hasher, metric=metric)
    inside = in_cells(60, hasher=hasher, metric=metric)
    found = []
    for one in (flat, inside):
        one.add(rows)
        some = one.search(queries, 10, stage="exact", first="estimate", oversample=2).ids
        found.append(bitkin.evaluate.recall(some, true))
    assert found[1] > found[0]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["l2", "cosine", "ip"]),
    st.sampled_from(["float32", "float16", "int8"]),
    st.sampled_from(["int", "str"]),
    st.sampled_from(["add", "remove", "upsert", "compact", "none"]),
    st.integers(1, 90),
    st.integers(1, 6),
    st.sampled_from([None, 0.97, 0.5, 0.02]),
    st.sampled_from([1, 2, 19]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_the_lane_finds_what_the_longer_way_finds(
    metric: str,
    vectors: str,
    ids: str,
    change: str,
    k: int,
    probes: int,
    allowed: float | None,
    n_queries: int,
    ties: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = made_rows(150, seed), made_rows(n_queries, seed + 1)
    if ties:
        rows[75:] = rows[:75]
        queries[0] = rows[3]
    hasher = UNIT if metric == "cosine" else HASHER
    collection = in_cells(11, probes, hasher, metric=metric, vectors=vectors, ids=ids, oversample=2)
    names = np.array([f"row {i}" for i in range(400)]) if ids == "str" else np.arange(400)
    collection.add(rows, ids=names[:150])
    if change == "add":  # rows that are in no cell yet
        collection.add(made_rows(2, 3), ids=names[150:152])
    elif change == "remove":
        collection.remove(rng.permutation(names[:150])[:70])
    elif change == "upsert":
        collection.upsert(made_rows(60, 4), ids=rng.permutation(names[:200])[:60])
    elif change == "compact":
        collection.remove(names[10:20])
        collection.compact()
    allow = None if allowed is None else names[:400][rng.random(400) < allowed]
    # explain goes stage by stage
    longer = collection.explain(queries, k, allow=allow).hits
    require_same(collection.search(queries, k, allow=allow), longer)
    one = collection.search(queries[:1], k, allow=allow)
    require_same(one, collection.explain(queries[:1], k, allow=allow).hits)
    if allow is None:  # how many queries there are decides whether a filter's rows are scanned
        assert np.array_equal(one.ids, longer.ids[:1])
        assert np.array_equal(one.distances, longer.distances[:1])


def test_searches_take_the_lane_where_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    nearest = CellLane.nearest

    def counted(self: CellLane, *given: Any) -> Any:
        calls.append(len(given[0]))
        return nearest(self, *given)

    monkeypatch.setattr(CellLane, "nearest", counted)
    collection = in_cells(10, 3)
    collection.add(made_rows(300))
    collection.search(made_rows(1, 1), 5)
    collection.search(made_rows(40, 1), 5)
    collection.search(made_rows(1, 1), 5, allow=np.arange(290), probes=1)
    assert calls == [1, 40, 1]
    collection.search(made_rows(1, 1), 5, stage="codes")
    collection.search(made_rows(1, 1), 5, stage="estimate")
    collection.search(made_rows(1, 1), 5, first="codes")
    collection.explain(made_rows(1, 1), 5)
    assert len(calls) == 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [1, 30])
def test_queries_that_are_not_finite_are_refused(bad: float, n: int) -> None:
    collection = in_cells(10, 3)
    collection.add(made_rows(300))
    queries = made_rows(n, 1)
    queries[-1, 4] = bad
    with pytest.raises(InvalidInputError, match=rf"queries: (NaN|infinity) at row {n - 1}, "):
        collection.search(queries, 3)


def test_codes_are_compared_with_all_rows_where_cells_hold_what_is_left_of_them() -> None:
    collection, flat = in_cells(20, 1), Collection.create(None, HASHER)
    for one in (collection, flat):
        one.add(made_rows(500))
    queries = made_rows(6, 1)
    require_same(
        collection.search(queries, 5, stage="codes"), flat.search(queries, 5, stage="codes")
    )
    require_same(
        collection.search(queries, 5, first="codes"), flat.search(queries, 5, first="codes")
    )


def test_rows_that_are_centres_and_rows_of_zeros_are_found() -> None:
    rows = np.repeat(made_rows(12), 20, axis=0)
    rows[:20] = 0
    collection = in_cells(12, 2)
    collection.add(rows)
    found = collection.search(rows[::20], 20)
    assert (found.distances == 0).all()
    assert np.array_equal(found.ids, np.arange(240).reshape(12, 20))


@pytest.mark.parametrize("n", [1, 20])
def test_more_neighbours_than_rows_are_filled_up(n: int) -> None:
    collection = in_cells(10)
    collection.add(made_rows(100))
    collection.remove(np.arange(90))
    found = collection.search(made_rows(n, 1), 15)
    assert found.ids.shape == (n, 15)
    assert np.array_equal(np.sort(found.ids[:, :10], axis=1), np.tile(np.arange(90, 100), (n, 1)))
    assert (found.ids[:, 10:] == -1).all()
    assert np.isinf(found.distances[:, 10:]).all()


def test_copies_have_the_types_that_kernels_are_compiled_for() -> None:
    collection = in_cells(10, 3)
    collection.add(made_rows(300))
    collection.search(made_rows(1, 1), 3)
    copied = centres_of(pickle.loads(pickle.dumps(collection)))
    assert "for_queries" not in vars(copied)
    arrays = [some for some in copied.for_queries if isinstance(some, np.ndarray)]
    assert len(arrays) > 8
    assert not any(array.flags.writeable for array in arrays)


def test_nothing_of_a_closed_collection_is_kept() -> None:
    collection = in_cells(10, 3)
    collection.add(made_rows(300))
    collection.search(made_rows(1, 1), 3)
    centres = weakref.ref(centres_of(collection))
    collection.close()
    del collection
    gc.collect()
    assert centres() is None
