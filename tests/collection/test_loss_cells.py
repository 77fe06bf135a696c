"""Winner-take-all codes in cells are ranked by what the query loses, as a scan of all rows does."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import CellIndex, Collection, WTAHash
from bitkin.collection import changes
from bitkin.index.cells.tables import CellTables
from bitkin.index.cells.vector_centres import VectorCentres
from tests.rescoring.test_losses import best_of, levels_of, truth_of

ALL = 10_000  # more probes than there are cells
WIDTH = 12
Rows = npt.NDArray[np.float32]


def made_rows(n: int, seed: int = 0) -> Rows:
    """Rows around some 20 others, all of one length, and some of zeros, which nothing can find."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).random((20, WIDTH))
    made = centres[rng.integers(0, 20, n)] + 0.3 * rng.random((n, WIDTH))
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    made[rng.random(n) < 0.03] = 0
    return made.astype(np.float32)


# one whose levels are polynomials, and one of which only the best symbols have levels of their own
FEW_SYMBOLS = WTAHash(33, 8, alphabet_size=4, center=False, random_state=0).fit(made_rows(500))
MANY_SYMBOLS = WTAHash(70, 8, alphabet_size=20, center=False, random_state=0).fit(made_rows(500))


def in_cells(hasher: WTAHash, n_cells: int, probes: int, **options: Any) -> Collection:
    index = CellIndex(hasher.spec_, n_cells, probes=probes)
    return Collection.create(None, hasher, index=index, **options)


def tables_of(collection: Collection) -> list[CellTables]:
    segments = collection._open_store.snapshot.coded.segments
    return [s.tables for s in segments if isinstance(s.tables, CellTables)]


def has_tail(collection: Collection) -> bool:
    """Whether some rows are in no cell."""
    parts = collection._open_store.snapshot.runs_to_estimate(None)
    return any(part.tail is not None for part in parts)


def require_same(found: Any, expected: Any) -> None:
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "upsert", "remove", "compact", "pickle"]),
        st.integers(1, 120),
        st.integers(0, 2**32),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(
    _STEPS,
    st.sampled_from([FEW_SYMBOLS, MANY_SYMBOLS]),
    st.sampled_from(["l2", "cosine", "ip"]),
    st.sampled_from(["float32", "int8", "csr", None]),
    st.sampled_from(["codes", "estimate", None]),
    st.sampled_from([1, 7, 60]),
    st.booleans(),
)
def test_with_all_cells_it_finds_what_a_flat_collection_finds(
    steps: list[tuple[str, int, int]],
    hasher: WTAHash,
    metric: str,
    vectors: str | None,
    first: str | None,
    k: int,
    filtered: bool,
) -> None:
    options: dict[str, Any] = {"metric": metric, "vectors": vectors, "oversample": 1}
    both = [in_cells(hasher, 9, ALL, **options), Collection.create(None, hasher, **options)]
    for collection in both:
        collection.add(made_rows(200, 7))
    for act, n, seed in steps:
        rng = np.random.default_rng(seed)
        rows: Any = made_rows(n, seed)
        given_rows = sp.csr_matrix(rows) if vectors == "csr" else rows
        gone = rng.permutation(both[1].ids)[: n // 2]
        for place, collection in enumerate(both):
            if act == "add":
                collection.add(given_rows)
            elif act == "upsert":
                collection.upsert(given_rows, ids=np.arange(seed % 300, seed % 300 + n))
            elif act == "remove":
                collection.remove(gone)
            elif act == "compact":
                collection.compact()
            else:
                both[place] = pickle.loads(pickle.dumps(collection))
            both[place].verify()
    queries = np.vstack([made_rows(5, 1), np.zeros((1, WIDTH), dtype=np.float32)])
    allow = both[1].ids[: 9 * len(both[1]) // 10] if filtered else None
    for some in (queries, queries[:1]):
        for stage in ("estimate", None):
            ask: dict[str, Any] = {"first": first, "allow": allow, "stage": stage}
            require_same(both[0].search(some, k, **ask), both[1].search(some, k, **ask))


@pytest.mark.parametrize("hasher", [FEW_SYMBOLS, MANY_SYMBOLS])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_the_best_of_the_cells_looked_into_and_of_none_are_those_of_numpy(
    hasher: WTAHash, metric: str
) -> None:
    rows, queries = made_rows(1030), made_rows(40, 1)
    queries = queries[queries.any(axis=1)][:8]
    collection = in_cells(hasher, 40, 3, metric=metric)
    collection.add(rows[:1000])
    collection.add(rows[1000:])
    gone = np.arange(0, 1030, 9)
    collection.remove(gone)
    assert has_tail(collection)
    (tables,) = tables_of(collection)
    centres = tables.centres
    assert isinstance(centres, VectorCentres)
    places = centres.frame.spread * centres.vectors.astype(float) + centres.frame.mean
    apart = np.square(rows[:, None] - places[None]).sum(axis=2)
    own = np.where(np.arange(1030) < tables.n, apart.argmin(axis=1), -1)
    scores = -queries @ places.T if metric == "ip" else None
    if scores is None:
        scores = np.square(queries[:, None] - places[None]).sum(axis=2)
    cells = scores.argsort(axis=1)[:, :3]
    found = collection.search(queries, 20, stage="estimate")
    some = np.setdiff1d(np.arange(1030), gone)
    filtered = collection.search(queries, 20, stage="estimate", allow=some[some != 5])
    symbols, levels = hasher.transform(rows), levels_of(hasher.losses(queries), 3)
    findable = np.isin(np.arange(1030), some) & rows.any(axis=1)
    for q in range(8):
        there = np.flatnonzero(findable & np.isin(own, [-1, *cells[q]]))
        assert 20 <= len(there) < 500
        for hits, among in ((found, there), (filtered, there[there != 5])):
            truth = truth_of(levels[q : q + 1], symbols[among])
            ids, distances = best_of(truth, among, 20)
            assert hits.ids[q].tolist() == ids[0]
            np.testing.assert_allclose(hits.distances[q], distances[0], rtol=1e-6)


def test_losses_come_first_in_cells_and_explain_says_so() -> None:
    queries = made_rows(30, 1)
    queries = queries[queries.any(axis=1)]
    collection = in_cells(FEW_SYMBOLS, 20, 3, oversample=1)
    few = collection.explain(queries, 2)
    assert (few.first, few.why) == ("estimate", "there are too few rows for cells yet")
    collection.add(made_rows(900))
    explained = collection.explain(queries, 2)
    assert list(explained.stages) == ["encode", "cells", "estimate of rows in cells", "exact"]
    assert explained.why.startswith("cells leave few rows")
    looked = explained.stages["estimate of rows in cells"]
    assert 0 < looked.rows_in < 900 * len(queries) / 2
    assert looked.rows_out == 20 * len(queries)
    require_same(explained.hits, collection.search(queries, 2, first="estimate"))
    by_codes = collection.explain(queries, 2, first="codes")
    assert list(by_codes.stages) == ["encode", "cells", "codes", "exact"]


def test_queries_that_find_too_few_rows_in_their_cells_go_over_all() -> None:
    queries = np.vstack([made_rows(5, 1), np.zeros((1, WIDTH), dtype=np.float32)])
    collection, flat = (
        in_cells(FEW_SYMBOLS, 40, 1),
        Collection.create(None, FEW_SYMBOLS),
    )
    for one in (collection, flat):
        one.add(made_rows(700))
    many = np.arange(20, 700)
    for k, allow in ((650, None), (600, many), (3, many[::20])):
        for stage in ("estimate", "exact"):
            ask: dict[str, Any] = {"stage": stage, "allow": allow}
            require_same(collection.search(queries, k, **ask), flat.search(queries, k, **ask))
    assert (collection.search(queries[-1:], 3).ids == -1).all()


@pytest.mark.usefixtures("few_threads")
def test_any_number_of_threads_finds_the_same_in_cells() -> None:
    collection = in_cells(FEW_SYMBOLS, 20, 3, vectors=None)
    collection.add(made_rows(600))
    found = []
    for n_threads in (1, 3):
        bitkin.set_threads(n_threads)
        found.append(collection.search(made_rows(40, 1), 5))
    require_same(found[1], found[0])


@pytest.mark.parametrize("vectors", ["float32", None])
def test_auto_stays_flat_under_winner_take_all_codes(
    vectors: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "ROWS_FOR_CELLS", 300)
    rows = made_rows(600)
    options: dict[str, Any] = {"vectors": vectors, "first": "estimate"}
    collection = Collection.create(None, FEW_SYMBOLS, index="auto", **options)
    collection.add(rows)
    explained = collection.explain(rows[:2], 3)
    assert (explained.index, explained.first) == ("FlatIndex", "estimate")
    copied = pickle.loads(pickle.dumps(collection))
    require_same(copied.search(rows[:4], 3), collection.search(rows[:4], 3))


@pytest.mark.parametrize("k", [3, 1500])
def test_among_many_equal_rows_in_cells_the_lower_ids_come_first(k: int) -> None:
    kinds = made_rows(60)
    kinds = kinds[kinds.any(axis=1)][:30]
    rng = np.random.default_rng(5)
    # many more ties than there is room for candidates, and ids in no order
    rows, ids = kinds[rng.integers(0, 30, 1500)], rng.permutation(1500)
    collection = in_cells(FEW_SYMBOLS, 9, ALL, vectors=None)
    flat = Collection.create(None, FEW_SYMBOLS, vectors=None, index="flat")
    for one in (collection, flat):
        one.add(np.repeat(kinds[:1], 900, axis=0), ids=2000 + np.arange(900)[::-1])
        one.add(rows, ids=ids)
    require_same(collection.search(kinds[:5], k), flat.search(kinds[:5], k))
    require_same(collection.search(kinds[:5], 2400), flat.search(kinds[:5], 2400))
