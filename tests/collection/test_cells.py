from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import CellIndex, Collection, ProjectionHash
from bitkin.collection import changes
from bitkin.collection import collection as collection_module
from bitkin.errors import InvalidInputError
from bitkin.index.cells.tables import CellTables
from bitkin.index.cells.vector_centres import Frame, VectorCentres, find_vector_centres

ALL = 10_000  # more probes than there are cells
WIDTH = 12
Rows = npt.NDArray[np.float32]


def made_rows(n: int, seed: int = 0) -> Rows:
    """Rows around some 20 others."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((20, WIDTH))
    made = centres[rng.integers(0, 20, n)] + 0.3 * rng.standard_normal((n, WIDTH))
    return made.astype(np.float32)


HASHER = ProjectionHash(24, projection="random", random_state=0).fit(made_rows(500))
UNIT = ProjectionHash(24, projection="random", normalize=True, random_state=0).fit(made_rows(500))


def in_cells(
    n_cells: int = 9, probes: int | str = ALL, hasher: Any = HASHER, **options: Any
) -> Collection:
    index = CellIndex(hasher.spec_, n_cells, probes=probes)
    return Collection.create(None, hasher, index=index, **options)


def tables_of(collection: Collection) -> list[CellTables]:
    store: Any = collection._open_store
    segments = store.snapshot.coded.segments
    return [s.tables for s in segments if isinstance(s.tables, CellTables)]


def usual_probes_of(collection: Collection) -> int:
    """How many cells hold the nearest rows, as was measured with the centres."""
    centres = tables_of(collection)[0].centres
    assert isinstance(centres, VectorCentres)
    assert centres.probes is not None
    return centres.probes


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
    st.sampled_from(["l2", "cosine", "ip"]),
    st.sampled_from(["float32", "int8", "csr", None]),
    st.sampled_from(["codes", "estimate"]),
    st.sampled_from([1, 7, 60]),
    st.booleans(),
)
def test_with_all_cells_it_finds_what_a_flat_collection_finds(
    steps: list[tuple[str, int, int]],
    metric: str,
    vectors: str | None,
    first: str,
    k: int,
    filtered: bool,
) -> None:
    hasher = UNIT if metric == "cosine" else HASHER
    # Rows whose vectors are known are coded otherwise in cells, where other ones may be kept for
    # the exact stage unless all are: see test_residuals.py.
    oversample = 2 if vectors in ("csr", None) else 1000
    options: dict[str, Any] = {"metric": metric, "vectors": vectors, "oversample": oversample}
    both = [in_cells(hasher=hasher, **options), Collection.create(None, hasher, **options)]
    for collection in both:
        collection.add(made_rows(80, 7))
    for act, n, seed in steps:
        rng = np.random.default_rng(seed)
        rows: Any = made_rows(n, seed)
        given_rows = sp.csr_matrix(rows) if vectors == "csr" else rows
        ids = rng.permutation(300)[:n]
        gone = rng.permutation(both[1].ids)[: n // 2]
        for place, collection in enumerate(both):
            if act == "add":
                collection.add(given_rows)
            elif act == "upsert":
                collection.upsert(given_rows, ids=ids)
            elif act == "remove":
                collection.remove(gone)
            elif act == "compact":
                collection.compact()
            else:
                both[place] = pickle.loads(pickle.dumps(collection))
            both[place].verify()
    queries = made_rows(6, 1)
    allow = both[1].ids[::2] if filtered else None
    for some in (queries, queries[:1]):
        require_same(
            both[0].search(some, k, first=first, allow=allow),
            both[1].search(some, k, first=first, allow=allow),
        )


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("stage", ["codes", "exact"])
def test_a_search_finds_the_nearest_of_the_cells_it_looks_into(metric: str, stage: str) -> None:
    hasher = UNIT if metric == "cosine" else HASHER
    rows, queries = made_rows(600), made_rows(8, 1)
    # codes of whole rows are in cells only where searches compare nothing else
    made_with = "codes" if stage == "codes" else None
    collection = in_cells(20, 3, hasher, metric=metric, stage=made_with)
    flat = Collection.create(None, hasher, metric=metric)
    for one in (collection, flat):
        one.add(rows)
    (tables,) = tables_of(collection)
    centres = tables.centres
    assert isinstance(centres, VectorCentres)

    def unit(some: Rows) -> Rows:
        return some / np.linalg.norm(some, axis=1, keepdims=True) if metric == "cosine" else some

    def apart(some: Rows) -> Any:
        return np.square(unit(some)[:, None] - centres.vectors[None].astype(float)).sum(axis=2)

    own = apart(rows).argmin(axis=1)
    scores = -queries @ centres.vectors.T if metric == "ip" else apart(queries)
    cells = scores.argsort(axis=1)[:, :3]
    for q in range(8):
        query = queries[q : q + 1]
        found = collection.search(query, 4, stage=stage, oversample=50)
        allowed = np.flatnonzero(np.isin(own, cells[q]))
        assert 4 <= len(allowed) < 600
        first = "codes" if stage == "codes" else "estimate"
        wanted = flat.search(query, 4, stage=stage, oversample=50, first=first, allow=allowed)
        require_same(found, wanted)


def test_more_probes_find_more_and_explain_says_what_was_looked_at() -> None:
    rows, queries = made_rows(900), made_rows(20, 1)
    collection = in_cells(30, 2)
    collection.add(rows)
    truth = bitkin.evaluate.nearest(rows, queries, 5).ids
    recalls = [
        (collection.search(queries, 5, probes=p).ids[:, :, None] == truth[:, None]).any(1).mean()
        for p in (1, 4, 30)
    ]
    assert recalls[0] < recalls[1] <= recalls[2]
    explained = collection.explain(queries, 5, probes=3)
    assert list(explained.stages) == ["cells", "estimate of rows in cells", "exact"]
    cells = explained.stages["cells"]
    assert (cells.rows_in, cells.rows_out) == (20 * 30, 20 * 3)
    assert 0 < explained.stages["estimate of rows in cells"].rows_in < 20 * 300
    assert "CellIndex" in str(explained)
    assert explained.why.startswith("cells leave few rows")
    few = in_cells()
    few.add(made_rows(5))
    assert few.explain(queries, 5).why == "there are too few rows for cells yet"


def test_filters_and_large_k_go_over_all_rows_where_cells_hold_too_few() -> None:
    rows, queries = made_rows(700), made_rows(5, 1)
    collection, flat = in_cells(40, 1), Collection.create(None, HASHER)
    for one in (collection, flat):
        one.add(rows)
    few = np.arange(0, 700, 31)
    many = np.setdiff1d(np.arange(700), few)
    for k, allow in ((3, few), (650, None), (600, many)):
        for first in ("codes", "estimate"):
            require_same(
                collection.search(queries, k, allow=allow, first=first),
                flat.search(queries, k, allow=allow, first=first),
            )
    assert not np.isin(collection.search(queries, 3, allow=many).ids, few).any()


def test_auto_takes_cells_once_there_are_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "ROWS_FOR_CELLS", 500)
    monkeypatch.setattr(collection_module, "ROWS_FOR_CELLS", 500)
    collection = Collection.create(None, HASHER, index="auto")
    collection.add(made_rows(400))
    assert collection.explain(made_rows(1), 3, probes=2).index == "FlatIndex"
    assert "FlatIndex up to" in repr(collection)
    with pytest.warns(UserWarning, match=r"With 600 rows, searches look into the cells"):
        collection.add(made_rows(200, 3))
    assert collection.explain(made_rows(1), 3).index == "CellIndex"
    assert "up to" not in repr(collection)
    collection.add(made_rows(200, 4))  # said once
    copied = pickle.loads(pickle.dumps(collection))
    require_same(copied.search(made_rows(4), 3), collection.search(made_rows(4), 3))


@pytest.mark.parametrize("probes", [0, -1, 2.5, "many", True])
def test_impossible_probes_are_refused(probes: Any) -> None:
    collection = in_cells()
    collection.add(made_rows(100))
    with pytest.raises(InvalidInputError, match="probes must be"):
        collection.search(made_rows(1), 3, probes=probes)


def test_probes_are_refused_where_there_will_be_no_cells() -> None:
    collection = Collection.create(None, HASHER, index="flat")
    collection.add(made_rows(100))
    for ask in (collection.search, collection.explain):
        with pytest.raises(InvalidInputError, match="Create it with index='cells'"):
            ask(made_rows(1), 3, probes=4)


def test_queries_that_are_codes_go_over_all_rows() -> None:
    collection, flat = in_cells(20, 1), Collection.create(None, HASHER)
    for one in (collection, flat):
        one.add(made_rows(300))
    codes = HASHER.encode(made_rows(4, 1))
    require_same(collection.search(codes, 5, stage="codes"), flat.search(codes, 5, stage="codes"))


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 300])
def test_centres_of_vectors_are_means_of_their_rows(n: int) -> None:
    rows = made_rows(2000)
    centres = find_vector_centres(rows, n, 2000, 0)
    own = centres.assign(rows)
    placed = centres.frame.spread * centres.vectors.astype(float) + centres.frame.mean
    apart = np.square(rows[:, None] - placed[None]).sum(axis=2)
    assert np.mean(own == apart.argmin(axis=1)) > 0.999  # but for ties in float32
    means = np.array([rows[own == c].mean(axis=0) for c in np.unique(own)])
    assert np.abs(means - placed[np.unique(own)]).mean() < 0.1
    chosen = centres.choose(rows[:50], 7)
    assert chosen.shape == (50, min(7, n))
    nearest = np.sort(apart[:50].argsort(axis=1)[:, :7], axis=1)
    assert np.mean(np.sort(chosen, axis=1) == nearest) > 0.99


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_lengths_do_not_matter_under_cosine(scale: float) -> None:
    rows = made_rows(200)
    rows[::2] *= np.float32(scale)
    collection = in_cells(hasher=UNIT, metric="cosine")
    flat = Collection.create(None, UNIT, metric="cosine")
    for one in (collection, flat):
        one.add(rows)
    wanted = flat.search(rows[:6], 5, first="estimate")
    require_same(collection.search(rows[:6], 5), wanted)


@pytest.mark.parametrize("n", [5, 100, 1500])
def test_numbers_beyond_float32_choose_each_cell_once(n: int) -> None:
    rows = np.vstack([made_rows(n), 1e25 * made_rows(7, 1)]).astype(np.float32)
    frame = Frame(np.zeros(WIDTH), 1.0)  # which holds nothing back
    with np.errstate(all="ignore"):
        for centres in (VectorCentres(rows, 9, frame), VectorCentres(rows, 9, frame, True)):
            for queries in (3e37 * made_rows(5, 2), rows[-5:]):
                chosen = centres.choose(queries.astype(np.float32), n)
                assert all(len(set(cells)) == n for cells in chosen.tolist())
                assert 0 <= chosen.min() <= chosen.max() < n + 7


def test_of_many_groups_of_vectors_the_nearest_are_looked_into() -> None:
    rows = made_rows(3000)
    centres = VectorCentres(rows[:2000], 2000, Frame(np.zeros(WIDTH), 1.0))
    apart = np.square(rows[2000:, None] - rows[None, :2000]).sum(axis=2)
    assert np.mean(centres.assign(rows[2000:]) == apart.argmin(axis=1)) > 0.9
    assert sorted(centres.choose(rows[:1], ALL)[0]) == list(range(2000))


@pytest.mark.parametrize(
    ("metric", "scale", "offset"),
    [
        *[(metric, scale, 0.0) for metric in ("l2", "cosine", "ip") for scale in (1, 1e18, 1e-18)],
        ("l2", 1.0, 3e4),
        ("l2", 1e15, 1e18),
    ],
)
def test_cells_hold_what_is_near_wherever_rows_lie(
    metric: str, scale: float, offset: float
) -> None:
    rng = np.random.default_rng(0)
    middles = rng.standard_normal((40, 16))
    rows = middles[np.arange(2000) % 40] + 0.1 * rng.standard_normal((2000, 16))
    if metric != "l2":  # codes need rows of one length there
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows * scale + offset).astype(np.float32)
    hasher = ProjectionHash(16, rotation="random", random_state=0).fit(rows)
    cells = CellIndex(hasher.spec_, 40, probes=4, random_state=0)
    collection, flat = (
        Collection.create(None, hasher, metric=metric, index=index) for index in (cells, "flat")
    )
    for one in (collection, flat):
        one.add(rows)
    found = collection.search(rows[:100], 10, oversample=20).ids
    truth = flat.search(rows[:100], 10, oversample=20).ids
    assert bitkin.evaluate.recall(found, truth) > 0.9


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("size", [-3e37, 1e37, 1e-40])
def test_queries_of_any_size_choose_cells_that_are_there(metric: str, size: float) -> None:
    rows = made_rows(600)
    hasher = ProjectionHash(8, rotation="random", random_state=0).fit(rows)
    cells = CellIndex(hasher.spec_, 100, probes=70)
    collection = Collection.create(None, hasher, metric=metric, index=cells)
    collection.add(rows)
    table = collection._open_store.snapshot.coded.segments[0].tables
    assert isinstance(table, CellTables)
    assert isinstance(table.centres, VectorCentres)
    query = np.full((1, WIDTH), size, dtype=np.float32)
    chosen = table.centres.choose(query, 70)[0]
    assert len(set(chosen.tolist())) == 70
    assert 0 <= chosen.min() <= chosen.max() < 100
    collection.search(query, 3)


def test_what_is_printed_names_the_index_its_cells_and_probes() -> None:
    collection = in_cells(9, 2)
    assert "stage 'exact', CellIndex of no cells yet, probes=2, " in repr(collection)
    collection.add(made_rows(300))
    assert "stage 'exact', CellIndex of 9 cells, probes=2, " in repr(collection)
    assert "stage 'codes', BandIndex, " in repr(
        Collection.create(None, HASHER, index="bands", stage="codes")
    )
    index = CellIndex(HASHER.spec_, 9, probes=2)
    assert repr(index).endswith("no cells yet, n_cells=9, probes=2, random_state=0)")
    index.add(HASHER.encode(made_rows(300)))
    assert repr(index).startswith("CellIndex(300 codes, 24 × 1-bit, 9 cells, n_cells=9, ")


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_cells_say_how_many_of_them_hold_the_nearest(metric: str) -> None:
    rng = np.random.default_rng(3)
    # of no families: neighbours are in many cells
    rows = rng.standard_normal((4000, WIDTH)).astype(np.float32)
    queries = rng.standard_normal((100, WIDTH)).astype(np.float32)
    if metric == "ip":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    hasher = UNIT if metric == "cosine" else HASHER
    collection = Collection.create(
        None, hasher, index=CellIndex(hasher.spec_, 40), metric=metric, oversample=100
    )
    collection.add(rows)
    probes = usual_probes_of(collection)
    assert 10 < probes < 40
    assert f"40 cells, probes={probes}" in repr(collection)
    truth = bitkin.evaluate.nearest(rows, queries, 10, metric=metric).ids
    found = collection.search(queries, 10)
    assert bitkin.evaluate.recall(found.ids, truth) > 0.95
    require_same(
        collection.search(queries, 10, oversample=10),
        collection.search(queries, 10, oversample=10, probes=probes),
    )
    fewer = collection.search(queries, 10, probes=4).ids
    assert bitkin.evaluate.recall(fewer, truth) < 0.85
    # families that lie apart need few
    apart = in_cells(20, "auto", hasher, metric=metric)
    apart.add(made_rows(600))
    assert usual_probes_of(apart) < 12
    # a number that was given counts
    given = in_cells(20, 2, hasher, metric=metric)
    given.add(made_rows(600))
    assert "probes=2" in repr(given)


def test_centres_are_found_again_where_rows_came_to_few_of_them() -> None:
    collection = in_cells(20, 4)
    collection.add(made_rows(600))
    before = tables_of(collection)[0].centres
    rng = np.random.default_rng(0)
    crowd = made_rows(1)[0] + 0.2 * rng.standard_normal((1500, WIDTH)).astype(np.float32)
    collection.add(crowd.astype(np.float32))
    tables = tables_of(collection)
    assert all(some.centres is not before for some in tables)
    assert max(some.arrays.bounds[:, 1].max() for some in tables) < 700
    # evenly spread rows leave them as they are
    calm = in_cells(20, 4)
    calm.add(made_rows(600))
    before = tables_of(calm)[0].centres
    calm.add(made_rows(1500, 5))
    assert all(some.centres is before for some in tables_of(calm))


@pytest.mark.parametrize("options", [{"vectors": None}, {"vectors": "csr"}, {"stage": "codes"}])
def test_auto_stays_flat_where_rows_cannot_be_coded_by_what_is_left_of_them(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "ROWS_FOR_CELLS", 500)
    collection = Collection.create(None, HASHER, index="auto", **options)
    rows = made_rows(600)
    collection.add(sp.csr_matrix(rows) if options.get("vectors") == "csr" else rows)
    assert "FlatIndex, " in repr(collection)


def test_a_warning_that_is_an_error_leaves_the_collection_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection_module, "ROWS_FOR_CELLS", 500)
    collection = Collection.create(None, HASHER)
    collection.add(made_rows(400))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="With 600 rows"):
            collection.add(made_rows(200, 3), ids=np.arange(1000, 1200))
        with pytest.raises(UserWarning, match="With 500 rows"):
            collection.upsert(made_rows(200, 3), ids=np.arange(300, 500))
        assert len(collection) == 400
        collection.upsert(made_rows(200, 3), ids=np.arange(299, 499))
    assert len(collection) == 499


@pytest.mark.parametrize("vectors", ["float32", "int8"])
def test_collections_of_codes_can_be_measured_in_cells(vectors: str) -> None:
    collection = in_cells(20, stage="codes", vectors=vectors)
    flat = Collection.create(None, HASHER, stage="codes", vectors=vectors)
    for one in (collection, flat):
        one.add(made_rows(500))
    queries = made_rows(6, 1)
    for stage in ("codes", "estimate", "exact"):
        for first in (None, "codes") if stage == "codes" else ("estimate", "codes"):
            require_same(
                collection.search(queries, 5, stage=stage, first=first, oversample=2),
                flat.search(queries, 5, stage=stage, first=first, oversample=2),
            )


def test_ids_of_a_filter_that_are_not_there_or_come_twice_change_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, WIDTH)).astype(np.float32)
    queries = rng.standard_normal((5, WIDTH)).astype(np.float32)
    collection = in_cells(100, 3)
    collection.add(rows)
    codes = CellIndex(HASHER.spec_, 100, probes=3)
    codes.add(HASHER.encode(rows))
    few = np.arange(0, 3000, 40)
    for allow in (np.repeat(few, 30), np.concatenate([few, np.arange(10_000, 90_000)])):
        require_same(
            collection.search(queries, 5, allow=allow), collection.search(queries, 5, allow=few)
        )
        require_same(
            codes.search(HASHER.encode(queries), 5, allow=allow),
            codes.search(HASHER.encode(queries), 5, allow=few),
        )


def test_more_neighbours_are_looked_for_in_more_cells() -> None:
    rng = np.random.default_rng(1)
    middles = 10 * rng.standard_normal((100, WIDTH))
    rows = (middles[np.arange(5000) % 100] + rng.standard_normal((5000, WIDTH))).astype(np.float32)
    queries = (middles + rng.standard_normal((100, WIDTH))).astype(np.float32)
    collection = in_cells(100, "auto")
    collection.add(rows)
    for k in (10, 100):
        truth = bitkin.evaluate.nearest(rows, queries, k).ids
        assert bitkin.evaluate.recall(collection.search(queries, k).ids, truth) > 0.95


def test_queries_that_vanish_in_float32_are_refused_in_cells_too() -> None:
    collection = in_cells(10, 3, UNIT, metric="cosine")
    collection.add(made_rows(300))
    queries = made_rows(3, 1).astype(np.float64) * 1e-60
    with pytest.raises(InvalidInputError, match="queries must fit float32: row 0 all but vanishes"):
        collection.search(queries, 3)
    usual = made_rows(3, 1)
    require_same(collection.search(usual.astype(np.float64), 3), collection.search(usual, 3))


@pytest.mark.parametrize("ids", ["int", "str"])
def test_compact_keeps_cells_of_rows_that_are_all_there_and_finds_others_again(ids: str) -> None:
    rows, queries = made_rows(600), made_rows(40, seed=1)
    names: Any = [f"row {i:03}" for i in range(600)] if ids == "str" else np.arange(600) * 3
    collection = in_cells(probes=2, ids=ids)
    collection.add(rows, ids=names)
    before, found = tables_of(collection)[0], collection.search(queries, 5)
    collection.compact()
    require_same(collection.search(queries, 5), found)
    assert tables_of(collection)[0].centres is before.centres
    collection.upsert(rows[:1], ids=names[:1])
    collection.compact()
    again = tables_of(collection)[0].centres
    assert again is not before.centres
    collection.remove(names[1:2])
    collection.compact()
    assert tables_of(collection)[0].centres is not again
    assert collection.count() == 599
    collection.verify()
