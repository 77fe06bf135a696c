"""Rows of several hashers in one collection: streams that learn, new epochs, other hashers."""

from __future__ import annotations

import copy
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import bitkin.collection.changes
from bitkin import Collection, MinHash, ProjectionHash, SignHash, WTAHash
from bitkin.collection.folder import epochs as folder_epochs
from bitkin.collection.folder import store as folder_store
from bitkin.collection.folder.database import WriteTransaction
from bitkin.errors import FileAccessError, InvalidInputError
from tests.collection.model import rows_like
from tests.truth import estimates, exact_distances, symbol_distances

D = 9
POOL = rows_like(300, D)
QUERIES = rows_like(3, D, seed=1)
STREAM = ProjectionHash(5, projection="opast", epochs="request", random_state=3).fit(POOL[:100])
HASHERS: list[Any] = [
    ProjectionHash(7).fit(POOL),
    ProjectionHash(12, projection="random", rotation=None).fit(POOL),
    SignHash(D).fit(),
    WTAHash(20, 3).fit(POOL),
    STREAM,
]
few = st.lists(st.integers(0, 30), max_size=8, unique=True)


class Row:
    """What is known of a row."""

    def __init__(self, vector: Any, hasher: Any, metadata: dict[str, Any]) -> None:
        self.vector, self.hasher, self.metadata = vector, hasher, metadata


class Epochs(RuleBasedStateMachine):
    """A collection beside a dictionary whose rows know by which hasher they were encoded."""

    @initialize(
        in_folder=st.booleans(),
        kind=st.sampled_from(["int", "str"]),
        vectors=st.sampled_from(["float32", "csr"]),
        hasher=st.sampled_from(HASHERS),
    )
    def create(self, in_folder: bool, kind: str, vectors: str, hasher: Any) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "rows" if in_folder else None
        self.kind, self.learns = kind, hasher is STREAM
        self.collection = Collection.create(
            self.path, hasher, ids=kind, vectors=vectors, fields={"year": int}
        )
        self.rows: dict[Any, Row] = {}
        self.reader: Collection | None = None
        if self.path is not None:
            self.reader = Collection.open(self.path, read_only=True)

    def id(self, number: int) -> Any:
        return number if self.kind == "int" else f"id {number}"

    @rule(data=st.data(), numbers=few, replaces=st.booleans())
    def put(self, data: st.DataObject, numbers: list[int], replaces: bool) -> None:
        ids = [self.id(n) for n in numbers if replaces or self.id(n) not in self.rows]
        places = data.draw(st.lists(st.integers(0, 299), min_size=len(ids), max_size=len(ids)))
        metadata: list[dict[str, Any]] = [{"year": p % 5, "place": p} for p in places]
        X, hasher = POOL[np.array(places, dtype=np.int64)], self.collection.hasher
        put = self.collection.upsert if replaces else self.collection.add
        put(X, ids=ids, metadata=metadata)
        for name, x, one in zip(ids, X, metadata, strict=True):
            self.rows[name] = Row(x, hasher, one)

    @rule(numbers=few)
    def remove(self, numbers: list[int]) -> None:
        ids = [self.id(n) for n in numbers if self.id(n) in self.rows]
        self.collection.remove(ids)
        for name in ids:
            del self.rows[name]

    @rule(numbers=few, year=st.integers(0, 9))
    def change_metadata(self, numbers: list[int], year: int) -> None:
        ids = [self.id(n) for n in numbers if self.id(n) in self.rows]
        self.collection.update_metadata(ids, {"year": year, "place": None})
        for name in ids:
            self.rows[name].metadata = {"year": year}

    @rule(first=st.integers(0, 200))
    def learn(self, first: int) -> None:
        if not self.learns:
            with pytest.raises(InvalidInputError, match="follow a stream"):
                self.collection.learn(POOL[:1])
            return
        self.collection.learn(POOL[first : first + 50] * 2)
        self.collection.new_epoch()

    @rule(hasher=st.sampled_from(HASHERS), index=st.sampled_from(["flat", "multi", "cells"]))
    def replace_hasher(self, hasher: Any, index: str) -> None:
        assert self.collection.replace_hasher(hasher, index=index, batch_rows=3) == len(self.rows)
        self.learns = hasher is STREAM
        for row in self.rows.values():
            row.hasher = self.collection.hasher

    @rule(hasher=st.sampled_from(HASHERS), n=st.integers(1, 3))
    def begin_to_replace(self, hasher: Any, n: int) -> None:
        def stop(done: int, total: int) -> None:
            assert done <= total
            if done >= n:
                raise KeyboardInterrupt

        self.learns = hasher is STREAM
        try:
            self.collection.replace_hasher(hasher, batch_rows=1, progress=stop)
        except KeyboardInterrupt:
            # which rows were moved is for the collection to say
            there = {one.fingerprint for one in self.collection.epochs}
            for name, row in self.rows.items():
                if self.collection.get([name]).codes == self.collection.hasher.encode(
                    row.vector[None]
                ):
                    row.hasher = self.collection.hasher
                assert row.hasher.fingerprint_ in there
        else:
            for row in self.rows.values():
                row.hasher = self.collection.hasher

    @rule()
    def reencode(self) -> None:
        self.collection.reencode()
        for row in self.rows.values():
            row.hasher = self.collection.hasher
        assert [one.n_rows for one in self.collection.epochs] == [len(self.rows)]

    @rule()
    def compact(self) -> None:
        self.collection.compact()

    @rule(checkpoint=st.booleans())
    def open_again(self, checkpoint: bool) -> None:
        if self.path is None:
            self.collection = pickle.loads(pickle.dumps(self.collection))
            return
        if checkpoint:
            self.collection.checkpoint()
        self.collection.close()
        self.collection = Collection.open(self.path)

    @rule(k=st.integers(1, 6), filtered=st.booleans(), probes=st.none() | st.just(10_000))
    def search(self, k: int, filtered: bool, probes: int | None) -> None:
        ids = [i for i, row in self.rows.items() if not filtered or row.metadata["year"] < 3]
        where = {"year": {"lt": 3}} if filtered else None
        for collection in filter(None, (self.collection, self.reader)):
            hits = collection.search(QUERIES, k, oversample=1000, where=where)
            X = np.array([self.rows[i].vector for i in ids]).reshape(len(ids), D)
            truth = exact_distances(QUERIES, X, "l2")
            for q, found in enumerate(hits):
                wanted = np.sort(truth[q])[:k]
                np.testing.assert_allclose([h.distance for h in found], wanted, rtol=1e-6)
                for place, hit in enumerate(found):
                    assert hits.metadata is not None
                    assert hits.metadata[q][place] == self.rows[hit.id].metadata

    @rule(k=st.integers(1, 6))
    def estimate(self, k: int) -> None:
        hashers = {row.hasher.fingerprint_: row.hasher for row in self.rows.values()}
        if not all(isinstance(one, ProjectionHash) for one in hashers.values()):
            return  # a WTAHash estimates no distances, and the truth knows no SignHash
        found = self.collection.search(QUERIES, k, stage="estimate", oversample=1000)
        truth: list[dict[Any, float]] = [{} for _ in QUERIES]
        for name, row in self.rows.items():
            for q, score in enumerate(estimates(row.hasher, QUERIES, row.vector[None], "l2")):
                truth[q][name] = float(np.sqrt(max(0.0, score[0])))
        for q, hits in enumerate(found):
            wanted = sorted(truth[q].values())[:k]
            np.testing.assert_allclose([h.distance for h in hits], wanted, rtol=1e-3, atol=1e-2)

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        if not hasattr(self, "collection"):
            return
        counted: dict[str, int] = {}
        for row in self.rows.values():
            fingerprint = row.hasher.fingerprint_
            counted[fingerprint] = counted.get(fingerprint, 0) + 1
        for collection in filter(None, (self.collection, self.reader)):
            assert set(collection.ids.tolist()) == set(self.rows)
            got: dict[str, int] = {}
            for one in collection.epochs:
                got[one.fingerprint] = got.get(one.fingerprint, 0) + one.n_rows
            assert {f: n for f, n in got.items() if n} == counted
            collection.verify()

    def teardown(self) -> None:
        if hasattr(self, "collection"):
            self.collection.close()
            if self.reader is not None:
                self.reader.close()
            self.folder.cleanup()


@pytest.mark.parametrize("few_dead", [0, 1024])
def test_any_order_of_calls_with_several_hashers(
    few_dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    monkeypatch.setattr(bitkin.collection.changes, "_FEW_DEAD_ROWS", few_dead)
    run_state_machine_as_test(
        Epochs, settings=settings(max_examples=10, stateful_step_count=15, deadline=None)
    )


@pytest.fixture(params=[False, True], ids=["in memory", "in a folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "rows" if request.param else None


def turned(n: int, seed: int) -> Any:
    """Rows whose directions of large variance are others than those of the pool."""
    return np.ascontiguousarray(rows_like(n, D, seed=seed)[:, ::-1])


def test_an_epoch_begins_where_the_hasher_s_rule_says(path: Path | None) -> None:
    stream = ProjectionHash(4, projection="opast", epochs=200, random_state=0).fit(POOL)
    with Collection.create(path, stream) as collection:
        collection.add(POOL[:7])
        assert not collection.learn(POOL[:100])
        assert [one.number for one in collection.epochs] == [0]
        assert collection.learn(POOL[100:250])
        collection.add(POOL[7:20])
        assert [(one.number, one.n_rows) for one in collection.epochs] == [(1, 13), (0, 7)]
        # two rules' worth at once are one epoch: the one between has no rows
        assert collection.learn(np.concatenate([POOL, POOL]))
        assert [one.number for one in collection.epochs] == [2, 1, 0]
        assert collection.hasher.fingerprint_ == collection.epochs[0].fingerprint


def test_drift_opens_an_epoch_once_it_passes_the_threshold(path: Path | None) -> None:
    stream = ProjectionHash(
        3, projection="opast", rotation=None, epochs=0.05, refresh=50, random_state=0
    ).fit(rows_like(3000, D))
    with Collection.create(path, stream) as collection:
        assert not collection.learn(rows_like(2000, D, seed=5))
        assert collection.drift().variance_kept > 0.95
        began = [collection.learn(turned(1000, seed)) for seed in range(10)]
        assert any(began)
        assert collection.epochs[0].number == sum(began)


def test_what_was_learned_lasts_as_if_nothing_had_been_closed(tmp_path: Path) -> None:
    stream = ProjectionHash(4, projection="opast", random_state=0).fit(POOL)
    once = Collection.create(tmp_path / "once", stream)
    Collection.create(tmp_path / "often", stream).close()
    for first in range(0, 1000, 100):
        some = turned(100, first)
        once.learn(some)
        with Collection.open(tmp_path / "often") as often:
            often.learn(some)
            assert [e.fingerprint for e in often.epochs] == [e.fingerprint for e in once.epochs]
            assert often.drift() == once.drift()
    once.close()


def test_codes_of_several_epochs_are_not_compared(path: Path | None) -> None:
    with Collection.create(path, STREAM) as collection:
        collection.add(POOL[:50])
        collection.learn(turned(500, 1))
        assert collection.new_epoch()
        assert not collection.new_epoch()  # nothing was learned since
        own = collection.search(POOL[:2], 1, stage="codes")  # all rows are of one epoch
        assert own.ids.tolist() == [[0], [1]]
        collection.add(POOL[50:90])
        with pytest.raises(InvalidInputError, match=r"rows of 2 epochs, whose codes .*reencode"):
            collection.search(POOL[:1], 1, stage="codes")
        with pytest.raises(InvalidInputError, match=r"must be a matrix while .*2 epochs"):
            collection.search(collection.get([0]).codes, 1)
        mixed = collection.get([0, 60, 1]).codes
        assert mixed == collection.hasher.encode(POOL[[0, 60, 1]])
        assert collection.get([60]).codes == collection.hasher.encode(POOL[[60]])
        assert collection.reencode() == 50
        found = collection.search(QUERIES, 5, stage="codes")
        truth = symbol_distances(collection.hasher.encode(QUERIES), collection.hasher.encode(POOL))
        assert found.distances.tolist() == np.sort(truth[:, :90])[:, :5].tolist()


def test_without_vectors_old_epochs_answer_by_their_estimates(path: Path | None) -> None:
    with Collection.create(path, STREAM, vectors=None) as collection:
        old = collection.hasher
        collection.add(POOL[:40])
        collection.learn(turned(500, 1))
        collection.new_epoch()
        collection.add(POOL[40:80])
        found = collection.search(QUERIES, 80, oversample=2)
        assert all(len(set(ids)) == 80 for ids in found.ids.tolist())
        codes = collection.get([0, 50]).codes
        assert np.array_equal(codes.words[:1], old.encode(POOL[:1]).words)
        assert np.array_equal(codes.words[1:], collection.hasher.encode(POOL[50:51]).words)
        with pytest.raises(InvalidInputError, match="vectors=None"):
            collection.reencode()
        with pytest.raises(InvalidInputError, match="vectors=None"):
            collection.replace_hasher(HASHERS[0])
        assert len(collection.epochs) == 2


def test_a_hasher_that_cannot_take_over_changes_nothing(path: Path | None) -> None:
    with Collection.create(path, HASHERS[0], index="multi") as collection:
        collection.add(POOL)
        before = collection.epochs, collection.search(QUERIES, 5).ids.tolist()
        unfit: list[tuple[Any, dict[str, Any], str]] = [
            (ProjectionHash(4).fit(POOL[:, :5]), {}, "hasher must be fitted to 9 features, .* 5"),
            (MinHash(8).fit(), {}, "hasher must be fitted to 9 features"),
            (ProjectionHash(4), {}, "hasher must be fitted"),
            ("pca", {}, "hasher must be a fitted"),
            (HASHERS[1], {"index": "tree"}, "index must be one of"),
            (HASHERS[1], {"batch_rows": 0}, "batch_rows must be at least 1|batch_rows must be"),
        ]
        for hasher, others, says in unfit:
            with pytest.raises(InvalidInputError, match=says):
                collection.replace_hasher(hasher, **others)
        with pytest.raises(InvalidInputError, match="must follow a stream to learn"):
            collection.learn(POOL)
        with pytest.raises(InvalidInputError, match="must follow a stream to learn"):
            collection.new_epoch()
        with pytest.raises(InvalidInputError, match="must follow a stream to learn"):
            collection.drift()
        assert (collection.epochs, collection.search(QUERIES, 5).ids.tolist()) == before
        collection.verify()


def test_a_process_that_only_reads_neither_learns_nor_encodes_again(tmp_path: Path) -> None:
    Collection.create(tmp_path / "rows", STREAM).close()
    with Collection.open(tmp_path / "rows", read_only=True) as reader:
        acts: list[Callable[[], Any]] = [
            lambda: reader.learn(POOL),
            reader.new_epoch,
            reader.reencode,
            lambda: reader.replace_hasher(HASHERS[0]),
        ]
        for act in acts:
            with pytest.raises(InvalidInputError, match="for reading only"):
                act()


def test_searches_go_on_while_another_hasher_takes_over(path: Path | None) -> None:
    X = rows_like(2000, D)
    wanted = np.argsort(exact_distances(X[:20], X, "l2"), axis=1, kind="stable")[:, 0]
    stop = threading.Event()
    wrong: list[Any] = []
    with Collection.create(path, ProjectionHash(9).fit(X)) as collection:
        collection.add(X)

        def search() -> None:
            while not stop.is_set():
                try:
                    found = collection.search(X[:20], 1, oversample=2000).ids[:, 0]
                    if not np.array_equal(found, wanted):
                        wrong.append(found)
                except BaseException as error:  # noqa: BLE001  # told to the main thread
                    wrong.append(error)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for hasher in (WTAHash(64, 4).fit(X), ProjectionHash(7).fit(X), SignHash(D).fit()):
                assert collection.replace_hasher(hasher, batch_rows=100) == 2000
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not wrong
        collection.verify()


def test_a_folder_holds_the_models_of_live_epochs_alone_once_compacted(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "rows", STREAM) as collection:
        collection.add(POOL[:20])
        collection.learn(turned(300, 2))
        collection.new_epoch()
        collection.add(POOL[20:40])
        collection.compact()
        there = {path.name for path in (tmp_path / "rows").glob("*.bitkin")}
        assert {"model.bitkin", "model-1.bitkin", "learner-1.bitkin"} <= there
        assert "learner.bitkin" not in there
        collection.backup(tmp_path / "copy")
        collection.reencode()
        collection.compact()
        there = {path.name for path in (tmp_path / "rows").glob("*.bitkin")}
        assert "model.bitkin" not in there
    with Collection.open(tmp_path / "copy") as copied:
        assert len(copied.epochs) == 2
        copied.verify()
        copied.learn(POOL)
        assert copied.reencode() == 20
    with Collection.open(tmp_path / "rows") as collection:
        collection.replace_hasher(HASHERS[0])
        collection.compact()
        there = {path.name for path in (tmp_path / "rows").glob("*.bitkin")}
        assert not [name for name in there if name.startswith("learner")]
        assert len(collection.search(POOL[:1], 40).ids[0]) == 40


def test_vectors_of_a_hasher_that_was_given_up_meanwhile_are_not_added(path: Path | None) -> None:
    for vectors in ("float32", None):
        at = None if path is None else path.with_name(f"rows {vectors}")
        with Collection.create(at, HASHERS[0], vectors=vectors) as collection:

            def batches(into: Collection = collection) -> Iterator[Any]:
                yield POOL[:10]
                into.replace_hasher(HASHERS[1])
                into.compact()
                yield POOL[10:20]

            if at is None and vectors is not None:  # nothing is forgotten in memory
                collection.add(batches())
                assert [one.n_rows for one in collection.epochs] == [0, 20]
                assert collection.reencode() == 20
            else:
                with pytest.raises(InvalidInputError, match=r"was replaced while .*again"):
                    collection.add(batches())
                assert len(collection) == 0
                collection.add(POOL[:20])
            collection.verify()
        if at is not None:
            with Collection.open(at) as collection:
                assert len(collection) == 20
                collection.verify()
                assert len(set(collection.search(POOL[:1], 20).ids[0].tolist())) == 20


def test_a_stream_that_was_replaced_while_it_learned_does_not_come_back(path: Path | None) -> None:
    stream = ProjectionHash(4, projection="opast", epochs=50, random_state=0).fit(POOL)
    with Collection.create(path, stream) as collection:

        def batches() -> Iterator[Any]:
            yield POOL
            collection.replace_hasher(HASHERS[0])
            yield POOL

        with pytest.raises(InvalidInputError, match="was replaced while"):
            collection.learn(batches())
        assert collection.hasher.fingerprint_ == HASHERS[0].fingerprint_
        with pytest.raises(InvalidInputError, match="must follow a stream"):
            collection.learn(POOL)


def test_a_hasher_that_failed_to_take_over_leaves_the_stream_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ProjectionHash(7, projection="opast", epochs="request", random_state=9).fit(POOL)
    with Collection.create(tmp_path / "rows", STREAM) as collection:
        collection.add(POOL[:20])
        with monkeypatch.context() as patch:
            patch.setattr(WriteTransaction, "commit", lambda self: raise_full())
            with pytest.raises(FileAccessError, match="disk is full"):
                collection.replace_hasher(other)
        assert len(collection.epochs) == 1
    with Collection.open(tmp_path / "rows") as collection:
        collection.learn(turned(300, 1))
        collection.new_epoch()
        assert collection.hasher.spec_.n_symbols == 5
        collection.verify()


def raise_full() -> None:
    raise FileAccessError("the disk is full")


def test_a_backup_while_another_hasher_takes_over_is_of_one_moment(tmp_path: Path) -> None:
    other = ProjectionHash(7, projection="opast", epochs="request", random_state=9).fit(POOL)
    with Collection.create(tmp_path / "rows", STREAM) as collection:
        collection.add(POOL)
        done: list[bool] = []

        def take_over(_: int, total: int) -> None:
            if not done:
                done.append(True)
                collection.replace_hasher(other)
                collection.compact()

        collection.backup(tmp_path / "copy", progress=take_over)
        assert done
    with Collection.open(tmp_path / "copy") as copied:
        copied.verify()
        assert copied.hasher.spec_.n_symbols == 5
        copied.learn(turned(300, 1))
        copied.new_epoch()
        assert copied.hasher.spec_.n_symbols == 5


def test_a_reader_that_finds_a_model_gone_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.create(tmp_path / "rows", HASHERS[0]) as collection:
        collection.add(POOL)
        with Collection.open(tmp_path / "rows", read_only=True) as reader:
            collection.replace_hasher(HASHERS[1])
            load, turns = folder_epochs.load_epoch, [HASHERS[0], HASHERS[1]]

            def load_late(folder: Path, stored: Any, settings: Any) -> Any:
                if turns:  # the writer is quicker
                    collection.replace_hasher(turns.pop())
                    collection.compact()
                return load(folder, stored, settings)

            with monkeypatch.context() as patch:
                patch.setattr(folder_store, "load_epoch", load_late)
                assert reader.search(POOL[:3], 1).ids.tolist() == [[0], [1], [2]]
            reader.verify()


def test_two_threads_that_learn_first_are_both_learned_from(tmp_path: Path) -> None:
    Collection.create(tmp_path / "rows", STREAM).close()
    with Collection.open(tmp_path / "rows") as collection:
        threads = [threading.Thread(target=collection.learn, args=(POOL,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert collection.learn(POOL[:1]) is False
        learner = collection._open_store.learner
        assert learner is not None
        assert learner.hasher.n_seen_ == STREAM.n_seen_ + 4 * len(POOL) + 1


def test_an_empty_collection_takes_no_hasher_of_another_width(path: Path | None) -> None:
    with Collection.create(path, HASHERS[0]) as collection:
        with pytest.raises(InvalidInputError, match="hasher must be fitted to 9 features"):
            collection.replace_hasher(ProjectionHash(3).fit(POOL[:, :4]))
        collection.add(POOL)
        assert collection.search(POOL[:1], 1).ids.tolist() == [[0]]


def test_a_collection_of_codes_alone_never_gets_epochs_it_cannot_compare(
    path: Path | None,
) -> None:
    with Collection.create(path, STREAM, vectors=None, stage="codes") as collection:
        acts: list[Callable[[], Any]] = [lambda: collection.learn(POOL), collection.new_epoch]
        for act in acts:
            with pytest.raises(InvalidInputError, match=r"vectors=None.*cannot learn"):
                act()
        collection.add(POOL)
        assert collection.search(POOL[:1], 1).distances.tolist() == [[0]]


def test_a_search_that_names_no_stage_goes_on_while_epochs_are_many(path: Path | None) -> None:
    with Collection.create(path, STREAM, stage="codes") as collection:
        collection.add(POOL[:100])
        collection.learn(turned(500, 1))
        collection.new_epoch()
        collection.add(POOL[100:])
        found = collection.search(POOL[[5, 200]], 1, oversample=300)
        assert found.ids.tolist() == [[5], [200]]
        assert found.distances.dtype == np.float64
        collection.reencode()
        assert collection.search(POOL[[5]], 1).distances.dtype == np.int32


def test_what_came_before_a_vector_that_cannot_be_learned_from_is_learned(
    path: Path | None,
) -> None:
    with Collection.create(path, STREAM) as collection:
        with pytest.raises(InvalidInputError, match="must have 9 columns"):
            collection.learn(iter([turned(200, 1), POOL[:3, :4]]))
        assert collection.drift().bits_flipped > 0
        if path is not None:
            with Collection.open(path, read_only=True) as reader:
                assert reader.drift() == collection.drift()


def test_copies_in_memory_have_metadata_of_their_own() -> None:
    for fields in (None, {"who": str}):
        first = Collection.create(None, HASHERS[0], fields=fields)
        first.add(POOL[:5])
        second = copy.copy(first)
        first.add(POOL[5:7], ids=[10, 11], metadata=[{"who": "first"}] * 2)
        second.add(POOL[5:7], ids=[20, 21], metadata=[{"who": "second"}] * 2)
        third = pickle.loads(pickle.dumps(first))
        third.update_metadata([10], {"who": "third"})
        for one, name in ((first, "first"), (second, "second")):
            assert one.count({"who": name}) == 2
        assert first.get([10]).metadata == [{"who": "first"}]
        assert second.count({"who": {"exists": False}}) == 5
        second.compact()
        assert second.get([20]).metadata == [{"who": "second"}]
