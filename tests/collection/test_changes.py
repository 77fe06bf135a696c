"""Adding, replacing, removing, reading back; all of a call or nothing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from bitkin import Collection, FlatIndex, Hits, ProjectionHash, Records, WTAHash
from bitkin.errors import CorruptFileError, DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.evaluate import nearest
from tests.collection.model import rows_like

X, Q = rows_like(203, 17), rows_like(9, 17, seed=1)
HASHER = ProjectionHash(13).fit(X)
NAMES = [f"row {i}" for i in range(203)]


def empty(**settings: Any) -> Collection:
    return Collection.create(None, HASHER, **settings)


def state_of(collection: Collection) -> tuple[Any, ...]:
    records = collection.get(collection.ids)
    return collection.ids.tolist(), records.vectors.tolist(), records.codes.symbols().tolist()


def test_ids_are_the_numbers_after_the_largest_so_far() -> None:
    collection = empty()
    assert collection.add(X[:3]).tolist() == [0, 1, 2]
    assert collection.add(X[3:5], ids=[10, 7]).tolist() == [10, 7]
    collection.remove([10])
    assert collection.add(X[5:7]).tolist() == [11, 12]
    assert collection.ids.tolist() == [0, 1, 2, 7, 11, 12]
    assert len(collection) == collection.count() == 6


def test_names_go_in_and_come_out() -> None:
    collection = empty(ids="str")
    given = collection.add(X, ids=np.array(NAMES))
    assert given.dtype == object
    assert given.tolist() == NAMES
    hits = collection.search(Q, 5, oversample=1000)
    truth = nearest(X, Q, 5)
    assert hits.ids.tolist() == [[NAMES[i] for i in row] for row in truth.ids]
    assert np.array_equal(hits.distances, truth.distances)
    assert all(type(name) is str for name in hits.ids.ravel())
    assert "row 7" in collection
    assert "row 203" not in collection
    assert 7 not in collection


def test_integer_ids_of_any_kind_are_contained_or_not() -> None:
    collection = empty()
    collection.add(X[:3], ids=[5, 2**62, 0])
    assert 5 in collection
    assert np.int64(2**62) in collection
    for other in (1, -5, 2**70, "5", 5.0, True, None):
        assert other not in collection


def test_upsert_replaces_and_adds() -> None:
    for names in (list(range(203)), NAMES):
        collection = empty(ids="int" if names[0] == 0 else "str")
        collection.add(X[:5], ids=names[:5])
        collection.upsert(X[100:104], ids=[names[i] for i in (3, 9, 1, 8)])
        records = collection.get([names[i] for i in (0, 1, 2, 3, 4, 8, 9)])
        assert np.array_equal(records.vectors, X[[0, 102, 2, 100, 4, 103, 101]])
        assert records.codes == HASHER.encode(records.vectors)
        assert len(collection) == 7
        found = collection.search(X[100:104], 1)
        assert found.ids[:, 0].tolist() == [names[i] for i in (3, 9, 1, 8)]
        collection.verify()


def test_get_answers_in_the_order_of_the_ids_repeats_included() -> None:
    collection = empty()
    collection.add(X)
    records = collection.get([7, 3, 7])
    assert isinstance(records, Records)
    assert records.ids.tolist() == [7, 3, 7]
    assert np.array_equal(records.vectors, X[[7, 3, 7]])
    assert records.codes == HASHER.encode(X[[7, 3, 7]])
    assert records.metadata is None
    assert collection.get([]).ids.shape == (0,)
    without = empty(vectors=None)
    without.add(X)
    assert without.get([1]).vectors is None


def test_what_get_returns_is_a_copy() -> None:
    collection = empty()
    collection.add(X[:3])
    records = collection.get([0])
    records.vectors[:] = 0
    assert np.array_equal(collection.get([0]).vectors, X[:1])
    assert collection.search(X[:1], 1).distances[0, 0] == 0


def test_what_was_added_does_not_change_with_the_array() -> None:
    rows = X[:3].copy()
    collection = empty()
    collection.add(rows)
    rows[:] = 0
    assert np.array_equal(collection.get([0, 1, 2]).vectors, X[:3])


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8", "csr"])
def test_an_iterator_may_fill_the_same_array_again(vectors: str) -> None:
    def dense() -> Iterator[Any]:
        room = np.empty((7, 17), dtype=np.float32)
        for first in range(0, 203, 7):
            room[:] = X[first : first + 7]
            yield room
        room[:] = np.nan

    def sparse() -> Iterator[Any]:
        room = csr_array(np.ones((7, 17), dtype=np.float32))
        for first in range(0, 203, 7):
            room.data[:] = X[first : first + 7].ravel()
            yield room
        room.data[:] = np.nan
        room.indices[:] = 0

    wanted = empty(vectors=vectors)
    wanted.add(X)
    for batches in (dense(), sparse()):
        collection = empty(vectors=vectors)
        collection.add(batches)
        difference = collection.get(collection.ids).vectors - wanted.get(wanted.ids).vectors
        assert abs(difference).max() == 0
        collection.verify()


def test_a_name_that_comes_again_has_its_old_place_unless_space_was_given_back() -> None:
    for gives_back, order in ((False, ["a", "b", "c"]), (True, ["b", "c", "a"])):
        collection = empty(ids="str")
        collection.add(np.tile(X[:1], (3, 1)), ids=["a", "b", "c"])
        collection.remove(["a"])
        if gives_back:
            collection.compact()
        collection.add(X[:1], ids=["a"])
        assert collection.ids.tolist() == order
        for stage in ("codes", "estimate", "exact"):
            assert collection.search(X[:1], 3, stage=stage).ids.tolist() == [order]


def test_an_index_that_is_filled_later_does_not_reach_the_collection() -> None:
    settings = FlatIndex(HASHER.spec_)
    collection = empty(index=settings)
    collection.add(X[:3])
    before = len(pickle.dumps(collection))
    settings.add(HASHER.encode(np.tile(X, (20, 1))))
    assert len(pickle.dumps(collection)) == before
    assert len(pickle.loads(pickle.dumps(collection))) == 3


def test_removed_rows_are_gone_at_once_and_may_come_again() -> None:
    for names in (list(range(203)), NAMES):
        collection = empty(ids="int" if names[0] == 0 else "str")
        collection.add(X, ids=names)
        collection.remove([names[i] for i in (5, 6, 5)])
        assert names[5] not in collection
        assert collection.search(X[5:7], 203, oversample=1000).ids.tolist()[0].count(names[5]) == 0
        with pytest.raises(UnknownIdError, match="must be in the collection; not there"):
            collection.get([names[5]])
        collection.add(X[100:101], ids=[names[5]])
        assert np.array_equal(collection.get([names[5]]).vectors, X[100:101])
        collection.remove([])
        assert len(collection) == 202


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8", "csr", None])
@pytest.mark.parametrize("kind", ["int", "str"])
def test_compaction_gives_space_back_and_changes_no_answer(kind: str, vectors: str | None) -> None:
    collection = empty(ids=kind, vectors=vectors)
    names: list[Any] = NAMES if kind == "str" else list(range(203))
    collection.add(X, ids=names)
    collection.upsert(X[:50] + 1, ids=names[50:100])
    collection.remove(names[20:120])
    before, hits = collection.nbytes, collection.search(Q, 9)
    kept = collection.get(names[150:])
    collection.compact()
    assert collection.nbytes < before
    again = collection.search(Q, 9)
    assert again.ids.tolist() == hits.ids.tolist()
    assert np.array_equal(again.distances, hits.distances)
    after = collection.get(names[150:])
    assert after.codes == kept.codes
    if vectors == "csr":
        assert (after.vectors != kept.vectors).nnz == 0
    else:
        assert np.array_equal(after.vectors, kept.vectors)
    collection.add(X[:5], ids=names[20:25])
    collection.verify()


def test_space_of_dead_rows_comes_back_by_itself() -> None:
    for kind in ("int", "str"):
        collection = empty(ids=kind)
        rows = np.tile(X, (5, 1))
        for turn in range(8):
            names = [f"{turn} {i}" for i in range(len(rows))] if kind == "str" else None
            ids = collection.add(rows, ids=names)
            collection.remove(ids)
        assert len(collection) == 0
        assert collection.nbytes < 4 * rows.nbytes
        for _ in range(8):
            collection.upsert(
                rows, ids=[str(i) for i in range(1015)] if kind == "str" else np.arange(1015)
            )
        assert len(collection) == 1015
        assert collection.nbytes < 6 * rows.nbytes
        collection.verify()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.add(np.vstack([X[:3], np.full((1, 17), np.nan)])),
        lambda c: c.upsert(np.vstack([X[:3], np.full((1, 17), np.inf)]), ids=[0, 1, 2, 3]),
        lambda c: c.add(X[:3, :16]),
        lambda c: c.add(X[0, :16]),
        lambda c: c.add(X[:3], ids=[500, 501]),
        lambda c: c.add(X[:3], ids=[500, 501, 500]),
        lambda c: c.upsert(X[:3], ids=[500, 501, 500]),
        lambda c: c.add(X[:3], ids=[500, 1, 501]),
        lambda c: c.add(X[:3], ids=["a", "b", "c"]),
        lambda c: c.add(X[:3], ids=[1.0, 2.0, 3.0]),
        lambda c: c.add(X[:3], ids=[500, -1, 501]),
        lambda c: c.upsert(X[:3], ids=None),
        lambda c: c.remove([3, 999]),
        lambda c: c.remove(999),
        lambda c: c.add(X[:3], metadata=[{}, {}]),
        lambda c: c.add(X[:3], metadata=[{}, {"a": {1}}, {}]),
        lambda c: c.add(iter([X[:3], X[:2, :5]])),
        lambda c: c.add(np.full((1, 17), 1e30)),
    ],
    ids=lambda _: "",
)
def test_a_call_that_fails_changes_nothing(change: Callable[[Collection], Any]) -> None:
    collection = empty()
    collection.add(X[:50])
    before = state_of(collection)
    with pytest.raises((InvalidInputError, DuplicateIdError, UnknownIdError)):
        change(collection)
    assert state_of(collection) == before
    assert collection.add(X[:1]).tolist() == [50]


def test_a_number_beyond_float16_is_refused_with_its_place() -> None:
    collection = empty(vectors="float16")
    rows = X.copy()
    rows[7, 3] = 70000
    with pytest.raises(
        InvalidInputError, match=r"vectors must fit float16, .* got 70000.0 at row 7, column 3"
    ):
        collection.add(rows)
    assert len(collection) == 0


def test_a_number_whose_step_is_beyond_float32_is_refused_with_its_place() -> None:
    collection = Collection.create(None, WTAHash(40, window=4).fit(X), vectors="int8")
    rows = X.copy()
    rows[190, 3] = np.finfo(np.float32).max
    with pytest.raises(
        InvalidInputError,
        match=r"vectors must stay below 3.4\d*e\+38 when .* got 3.4\d*e\+38 at row 190, column 3",
    ):
        collection.add(iter([rows[:100], rows[100:]]))
    assert len(collection) == 0
    rows[190, 3] *= np.float32(0.99)
    collection.add(rows)
    assert np.isfinite(collection.get(collection.ids).vectors).all()
    collection.verify()


def test_vectors_come_from_anywhere(tmp_path: Path) -> None:
    import pandas as pd

    np.save(tmp_path / "rows.npy", X)
    for rows in (
        X.tolist(),
        X.astype(np.float64),
        pd.DataFrame(X),
        csr_array(X),
        tmp_path / "rows.npy",
    ):
        collection = empty()
        collection.add(rows)
        assert np.array_equal(collection.get(np.arange(203)).vectors, X)
    collection = empty()
    collection.add(iter([X[:100], X[100:]]))
    assert np.array_equal(collection.get(np.arange(203)).vectors, X)
    assert collection.add(X[:0]).tolist() == []
    assert len(collection) == 203


def test_many_batches_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.io.vectors.batch.BATCH_BYTES", 17 * 4 * 10)
    for vectors in ("float32", "int8", "csr"):
        collection = empty(vectors=vectors)
        collection.add(X)
        kept = collection.get(np.arange(203)).vectors
        assert np.allclose(kept.toarray() if vectors == "csr" else kept, X, atol=0.1)
        collection.verify()


def test_what_is_done_to_the_hasher_does_not_reach_the_collection() -> None:
    live = ProjectionHash(8, projection="opast", rotation="unifdiag").fit(X)
    wta = WTAHash(40, window=4).fit(X)
    first, second = Collection.create(None, live), Collection.create(None, wta)
    for collection in (first, second):
        collection.add(X)
    before = [collection.search(Q, 5, stage="codes") for collection in (first, second)]
    live.partial_fit(-3 * X[::-1])
    live.new_epoch()
    wta.set_params(random_state=9).fit(X)
    first.hasher.set_params(n_bits=3)
    for collection, hits in zip((first, second), before, strict=True):
        again = collection.search(Q, 5, stage="codes")
        assert np.array_equal(again.ids, hits.ids)
        collection.add(X)
        collection.verify()


def test_a_pickle_and_a_copy_are_collections_of_their_own() -> None:
    for vectors in ("float32", "int8", "csr", None):
        collection = empty(
            ids="str", vectors=vectors, metric="cosine", stage="estimate", oversample=3
        )
        collection.add(X, ids=NAMES)
        collection.remove(NAMES[:20])
        hits = collection.search(Q, 5)
        for twin in (
            pickle.loads(pickle.dumps(collection)),
            copy.copy(collection),
            copy.deepcopy(collection),
        ):
            assert np.array_equal(twin.search(Q, 5).ids, hits.ids)
            assert np.array_equal(twin.search(Q, 5).distances, hits.distances)
            twin.add(X[:20] + 1, ids=[f"new {i}" for i in range(20)])
            twin.remove(NAMES[20:30])
            twin.verify()
            assert (len(twin), len(collection)) == (193, 183)
        collection.add(X[:1], ids=["new 0"])
        assert np.array_equal(collection.search(Q, 5, allow=NAMES).ids, hits.ids)
        collection.verify()


def test_a_pickle_goes_on_counting_where_the_collection_was() -> None:
    collection = empty()
    collection.add(X[:5])
    collection.remove([4])
    assert pickle.loads(pickle.dumps(collection)).add(X[:1]).tolist() == [5]


def test_a_closed_collection_says_so() -> None:
    with empty() as collection:
        collection.add(X)
        assert isinstance(collection.search(Q, 1), Hits)
    collection.close()
    assert repr(collection) == "Collection(closed)"
    for ask in (
        lambda: collection.add(X),
        lambda: collection.search(Q, 1),
        lambda: len(collection),
        lambda: collection.get([0]),
        lambda: collection.remove([0]),
        lambda: collection.compact(),
        lambda: collection.verify(),
        lambda: 0 in collection,
        lambda: pickle.dumps(collection),
    ):
        with pytest.raises(InvalidInputError, match="the collection is closed"):
            ask()


def test_the_text_of_a_collection_says_what_it_holds() -> None:
    collection = empty(metric="ip")
    collection.add(X)
    assert repr(collection).startswith(
        "Collection(203 rows, 13 × 1-bit codes, float32 vectors, ip, stage 'exact', "
    )
    assert repr(collection).endswith(f"{collection.nbytes:,} bytes)")
    assert collection.nbytes > X.nbytes
    assert "no vectors" in repr(empty(vectors=None))


def test_verify_finds_what_does_not_fit() -> None:
    collection = empty()
    collection.add(X)
    collection.verify()
    now: Any = collection._open_store.snapshot
    now.kept.vectors.column.array[5, 5] = np.nan
    with pytest.raises(CorruptFileError, match="vectors that are not finite"):
        collection.verify()
    now.kept.vectors.column.array[5, 5] = 0
    now.kept.corrections.array[5, 1] = np.inf
    with pytest.raises(CorruptFileError, match="corrections that are not finite"):
        collection.verify()
    named = empty(ids="str")
    named.add(X[:3], ids=["a", "b", "c"])
    table: Any = named._open_store.snapshot.ids
    table._row_ids["a"] = 1
    with pytest.raises(CorruptFileError, match="ids belong to others"):
        named.verify()
