"""Writes to a folder that fail or are interrupted: they happened or did not, and what comes after
them is right.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import Collection
from bitkin.collection import changes
from bitkin.collection.folder import forks
from bitkin.collection.folder import store as folder_store
from bitkin.collection.folder.database import WriteTransaction
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests.collection.killed import HASHER, POOL, QUERIES, Row, Rows, require_rows
from tests.interruptions import (
    in_another_thread,
    interrupted_at,
    moments_of,
    require_nothing_left_behind,
)

FIELDS = {"year": int, "lang": str}
LANGUAGES = ["en", "fr", "de", "ä", "☂"]


@pytest.fixture(autouse=True)
def objects_of_this_test_alone() -> None:
    """Look for open connections among what a test makes: after thousands of tests there are
    millions of other objects.
    """
    gc.collect()
    gc.freeze()


def started(folder: Path, id_kind: str, vectors: str = "float16") -> tuple[Collection, Rows]:
    """Return a collection with rows, and what they are."""
    Collection.create(folder, HASHER, vectors=vectors, ids=id_kind, fields=FIELDS).close()
    collection, rows = Collection.open(folder), dict[Any, Row]()
    put(collection, rows, id_kind, 0, 100)
    return collection, rows


def names_of(id_kind: str, first: int, n: int) -> list[Any]:
    """Return ids of a kind."""
    numbers = range(first, first + n)
    return list(numbers) if id_kind == "int" else [f"row {i}" for i in numbers]


def put(
    collection: Collection, rows: Rows, id_kind: str, first: int, n: int, salt: str = ""
) -> None:
    """Add or replace rows, and note them once they are acknowledged. With `salt` they have strings
    of their own.
    """
    names = names_of(id_kind, first, n)
    metadata = [
        {"year": 1900 + i % 30, "note": f"{i}", "lang": LANGUAGES[i % 5] + salt} for i in range(n)
    ]
    collection.upsert(POOL[:n], ids=names, metadata=metadata)
    rows.update((name, Row(i, metadata[i])) for i, name in enumerate(names))


def require_same_answers(collection: Collection, rows: Rows) -> None:
    """Fail unless a collection has these rows, and finds them by strings, too."""
    require_rows(collection, rows)
    for language in sorted({str(row.metadata.get("lang")) for row in rows.values()}):
        n = sum(row.metadata.get("lang") == language for row in rows.values())
        assert collection.count({"lang": language}) == n


class FailingCommits:
    """Lets commits fail, before or after all is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.how: str | None = None
        commit = WriteTransaction.commit

        def failing(writing: WriteTransaction) -> None:
            how, self.how = self.how, None
            if how == "before":
                raise sqlite3.OperationalError("disk I/O error")
            if how == "undone":
                writing.connection.execute("ROLLBACK")
                raise sqlite3.OperationalError("database or disk is full")
            commit(writing)
            if how == "after":
                raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(WriteTransaction, "commit", failing)


@pytest.mark.parametrize("how", ["before", "undone", "after"])
@pytest.mark.parametrize("id_kind", ["int", "str"])
def test_after_a_commit_that_failed_others_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id_kind: str, how: str
) -> None:
    failing = FailingCommits(monkeypatch)
    collection, rows = started(tmp_path / "rows", id_kind)
    reader = Collection.open(tmp_path / "rows", read_only=True)
    acts: list[Callable[[Rows], object]] = [
        lambda known: put(collection, known, id_kind, 100, 65, "!"),
        lambda known: put(collection, known, id_kind, 50, 65, "?"),
        lambda known: collection.remove(names_of(id_kind, 3, 7)),
        lambda known: collection.update_metadata(names_of(id_kind, 20, 7), {"lang": "new"}),
    ]
    store: Any = collection._store
    with collection, reader:
        for act in acts:
            with store.reading() as older:
                ids = older.coded.ids()
                before = _all_of(older, ids)
                failing.how = how
                with pytest.raises((BitkinError, sqlite3.Error)) if how != "after" else _nothing():
                    act({})
                if how != "after":
                    require_same_answers(collection, rows)
                    # other rows take the room of those that failed
                    put(collection, rows, id_kind, 1000, 33, "after")
                    require_same_answers(collection, rows)
                else:
                    rows = _known(collection)
                    require_same_answers(collection, rows)
                assert _all_of(older, ids) == before
            require_same_answers(reader, rows)
            if how != "after":
                act(rows)
            rows = _known(collection)
        require_same_answers(reader, rows)
    with Collection.open(tmp_path / "rows") as collection:
        require_same_answers(collection, rows)


_nothing = contextlib.nullcontext


def _known(collection: Collection) -> Rows:
    """Return the rows of a collection, whose vectors are all of the pool."""
    records = collection.get()
    assert records.metadata is not None
    places = {row.tobytes(): i for i, row in reversed(list(enumerate(POOL)))}
    vectors = np.asarray(records.vectors, dtype=np.float32)
    return {
        name: Row(places[vector.tobytes()], one)
        for name, vector, one in zip(records.ids.tolist(), vectors, records.metadata, strict=True)
    }


def _all_of(now: Any, ids: Any) -> Any:
    """Return everything that a snapshot answers of its rows."""
    fields = now.kept.metadata.keep_only(ids, ids).columns.arrays()
    return (
        now.ids.from_row_ids(ids).tolist(),
        now.coded.codes(ids).words.tobytes(),
        now.corrections(ids).tobytes(),
        [(name, array.tobytes()) for name, array in fields.items()],
        now.vectors(ids).tobytes(),
        now.reading.metadata(ids),
    )


def test_writes_that_find_no_room_on_the_disk_leave_the_rows_right(tmp_path: Path) -> None:
    """A file system of its own, of two megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)],
        check=False,
        capture_output=True,
    )
    if not done or done.returncode:
        pytest.skip("a file system can be mounted only by root")
    try:
        collection, rows = started(place / "rows", "str", "float32")
        failed = 0
        with collection:
            for number in range(30):
                try:
                    put(collection, rows, "str", 1000 * number, 900, f"{number}")
                except FileAccessError:
                    failed += 1
                    if failed % 3 == 1:
                        require_same_answers(collection, rows)
                    if failed == 2:
                        with pytest.raises(FileAccessError):
                            collection.compact()
                    if failed == 4:
                        with pytest.raises(FileAccessError):
                            collection.checkpoint()
                    if failed == 6:
                        with pytest.raises(FileAccessError):
                            collection.backup(place / "backup")
                        assert [path.name for path in place.iterdir()] == ["rows"]
            assert failed > 6
            require_same_answers(collection, rows)
        with Collection.open(place / "rows", read_only=True) as collection:
            require_same_answers(collection, rows)
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let even a small write be cut into pieces, and Ctrl-C do what it does."""
    monkeypatch.setattr(segment, "ROWS_PER_PIECE", BLOCK)
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    bitkin.set_threads(2)
    yield
    signal.signal(signal.SIGINT, before)


def _writes(id_kind: str) -> dict[str, Callable[[Collection], Any]]:
    def add(collection: Collection, first: int) -> None:
        put(collection, {}, id_kind, first, 300)

    return {
        "add": lambda c: add(c, 100),
        "upsert": lambda c: add(c, 50),
        "remove": lambda c: c.remove(names_of(id_kind, 0, 90)),
        "metadata": lambda c: c.update_metadata(names_of(id_kind, 10, 60), {"lang": "x", "n": 1}),
        "compact": lambda c: c.compact(),
        "checkpoint": lambda c: c.checkpoint(),
    }


@pytest.mark.usefixtures("few_threads", "always_cut", "interruptible")
@pytest.mark.parametrize("id_kind", ["int", "str"])
@pytest.mark.parametrize("write", ["add", "upsert", "remove", "metadata", "compact", "checkpoint"])
def test_an_interrupted_write_to_a_folder_happened_or_did_not(
    tmp_path: Path, id_kind: str, write: str
) -> None:
    act = _writes(id_kind)[write]
    collection, before = started(tmp_path / "whole", id_kind)
    collection.close()
    shutil.copytree(tmp_path / "whole", tmp_path / "done")
    with Collection.open(tmp_path / "done") as collection:
        moments = moments_of(act, collection)
        after = _known(collection)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(moments))[:40]
    for number in sorted(chosen.tolist()):
        shutil.rmtree(tmp_path / "rows", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "rows")
        collection = Collection.open(tmp_path / "rows")
        reader = Collection.open(tmp_path / "rows", read_only=True)
        with collection, reader:
            interrupted = interrupted_at(moments[number], act, collection)
            require_nothing_left_behind()
            _require_no_transaction(collection)
            found = _known(collection)
            assert found in (before, after)
            assert interrupted or found == after
            assert _known(reader) == found
            in_another_thread(_put_more, collection, id_kind)
            found = _known(collection)
            assert _known(reader) == found
            collection.verify()
            reader.verify()
        with Collection.open(tmp_path / "rows") as collection:
            assert _known(collection) == found


def _put_more(collection: Collection, id_kind: str) -> bool:
    put(collection, {}, id_kind, 90, 20, "more")
    return True


def _require_no_transaction(collection: Collection) -> None:
    """Fail where a connection was left in a transaction, or none of ours is open."""
    gc.collect()
    store: Any = collection._store
    database = store.database
    writer = database._writer
    assert writer is None or not writer.in_transaction
    assert not any(connection.in_transaction for connection in database._idle)
    # descriptors would not tell: SQLite keeps those of closed connections, to be used again
    still_open = [one for one in _open_connections() if one[0] == str(database.path)]
    assert not any(in_transaction for _, in_transaction in still_open)
    known = len(database._idle) + (writer is not None)
    assert len(still_open) <= known + _readers_beside(database.path, database), (still_open, known)


def _open_connections() -> Iterator[tuple[str, bool]]:
    """Yield the file of every connection that is open, and whether it is in a transaction."""
    for one in gc.get_objects():
        if issubclass(type(one), sqlite3.Connection):  # a dead weak proxy has no class
            with contextlib.suppress(sqlite3.ProgrammingError):  # of one that is closed
                in_transaction = one.in_transaction
                files = one.execute("PRAGMA database_list").fetchall()
                yield files[0][2], in_transaction


def _readers_beside(path: Path, but: Any) -> int:
    """Return how many connections other databases of the same path hold."""
    others: list[Any] = [user for user in list(forks._users) if user is not but]
    return sum(
        len(user._idle) + int(user._writer is not None)
        for user in others
        if getattr(user, "path", None) == path
    )


@pytest.mark.usefixtures("few_threads", "always_cut", "interruptible")
def test_interrupted_reads_leave_nothing_open(tmp_path: Path) -> None:
    collection, rows = started(tmp_path / "rows", "str")
    where = {"lang": "fr", "note": {"contains": "1"}}

    def act() -> None:
        collection.search(QUERIES, 3, where=where)
        collection.get(where=where)

    with collection:
        act()
        moments = moments_of(act)
        chosen = np.random.default_rng(0).permutation(len(moments))[:150]
        for number in sorted(chosen.tolist()):
            interrupted_at(moments[number], act)
            require_nothing_left_behind()
            _require_no_transaction(collection)
        in_another_thread(_put_more, collection, "str")
        act()
        collection.compact()  # the log is moved into the file, which no old reader may prevent
        assert (tmp_path / "rows" / "collection.db-wal").stat().st_size < 40_000
        assert len(collection) > len(rows)


def test_an_error_inside_a_read_leaves_nothing_open(tmp_path: Path) -> None:
    collection, rows = started(tmp_path / "rows", "int")

    def queries() -> Iterator[Any]:
        yield POOL[:1]
        raise RuntimeError("mine")

    with collection:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="mine"):
                collection.search(queries(), 3)
            _require_no_transaction(collection)
        store: Any = collection._store
        assert len(store.database._idle) == 1
        require_same_answers(collection, rows)


def test_a_process_that_may_write_no_byte_more_keeps_searching(tmp_path: Path) -> None:
    collection, rows = started(tmp_path / "rows", "str")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with collection:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            acts: list[Callable[[], object]] = [
                lambda: put(collection, {}, "str", 500, 65),
                lambda: collection.remove(["row 3"]),
                lambda: collection.update_metadata(["row 3"], {"lang": "x"}),
                collection.compact,
                collection.checkpoint,
                lambda: collection.backup(tmp_path / "backup"),
            ]
            for act in acts:
                with pytest.raises(FileAccessError):
                    act()
                require_same_answers(collection, rows)
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            put(collection, rows, "str", 500, 65)
            require_same_answers(collection, rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows"]
    with Collection.open(tmp_path / "rows") as collection:
        require_same_answers(collection, rows)


def test_a_checkpoint_that_fails_is_not_tried_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def fail(*_: Any) -> None:
        tries.append(1)
        raise FileAccessError("no room")

    monkeypatch.setattr(folder_store, "write_checkpoint", fail)
    monkeypatch.setattr(folder_store, "_ROWS_BETWEEN_CHECKPOINTS", 500)
    collection, rows = started(tmp_path / "rows", "int")
    with collection:
        for number in range(30):
            put(collection, rows, "int", 1000 * number, 100)
        assert 1 <= len(tries) <= 3
        with pytest.raises(FileAccessError, match="no room"):
            collection.checkpoint()
        require_same_answers(collection, rows)


def test_a_database_that_went_back_in_time_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    collection, _ = started(tmp_path / "rows", "int")
    with collection, Collection.open(tmp_path / "rows", read_only=True) as reader:
        store: Any = reader._store
        object.__setattr__(store.snapshot, "version", 1000)
        with pytest.raises(CorruptFileError, match="fewer writes"):
            reader.search(QUERIES, 1)
