"""Processes that only read, beside one that writes: they see what is there, under its own ids."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bitkin import Collection
from bitkin.errors import FileAccessError, InvalidInputError
from tests.collection.killed import HASHER, POOL, Row, Rows, new_folder, require_rows

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
NOBODY = 65534
CHECKPOINT = "checkpoint.bitkin"


def add(collection: Collection, rows: Rows, names: list[Any]) -> None:
    """Add rows, and note them."""
    metadata = [{"year": 1900 + i % 30, "note": f"{i}"} for i in range(len(names))]
    collection.upsert(POOL[: len(names)], ids=names, metadata=metadata)
    rows.update((name, Row(i, metadata[i])) for i, name in enumerate(names))


def names_of(id_kind: str, first: int, stop: int) -> list[Any]:
    """Return ids of a kind."""
    return list(range(first, stop)) if id_kind == "int" else [f"n{i}" for i in range(first, stop)]


@contextmanager
def another_process(act: Callable[[Callable[[], None]], None], user: int = 0) -> Iterator[Any]:
    """Run `act` in a forked process, which calls what it is given to hand the turn back; give what
    lets it go on until its next turn, or its end.
    """
    down, up = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(down[1])
        os.close(up[0])
        signal.alarm(100)

        def wait() -> None:
            os.write(up[1], b".")
            if not os.read(down[0], 1):
                os._exit(0)

        said = b"!"
        try:
            if user:
                os.setuid(user)
            if os.read(down[0], 1):
                act(wait)
        except BaseException:  # noqa: BLE001  # told to the parent
            said = traceback.format_exc()[-4000:].encode()
        finally:
            os.write(up[1], said)
            os._exit(0)
    os.close(down[0])
    os.close(up[1])

    def go_on() -> None:
        os.write(down[1], b".")
        said = os.read(up[0], 5000)
        assert said in (b".", b"!"), said.decode()

    try:
        yield go_on
    finally:
        os.close(down[1])
        os.waitpid(child, 0)
        os.close(up[0])


ACTS = [
    ("upsert", 0, 500),
    ("upsert", 400, 700),
    ("remove", 100, 650),
    ("compact", 0, 0),
    ("upsert", 90, 120),
    ("checkpoint", 0, 0),
    ("remove all", 0, 0),
    ("upsert", 0, 3),
    ("compact", 0, 0),
    ("checkpoint", 0, 0),
    ("upsert", 0, 65),
]


def act_on(collection: Collection | None, rows: Rows, act: str, names: list[Any]) -> None:
    """Do one of `ACTS` to a collection, if there is one, and to what is known of it."""
    if act == "remove all":
        names = list(rows)
    if act == "upsert":
        metadata = [{"year": 1900 + i % 30, "note": f"{i}"} for i in range(len(names))]
        rows.update((name, Row(i, metadata[i])) for i, name in enumerate(names))
        if collection is not None:
            collection.upsert(POOL[: len(names)], ids=names, metadata=metadata)
    elif act.startswith("remove"):
        for name in names:
            del rows[name]
        if collection is not None:
            collection.remove(names)
    elif collection is not None:
        getattr(collection, act)()


@pytest.mark.parametrize("id_kind", ["int", "str"])
def test_a_reader_sees_every_write_at_its_next_search(tmp_path: Path, id_kind: str) -> None:
    folder = new_folder(tmp_path / "rows", id_kind)
    rows: Rows = {}

    def write(wait: Callable[[], None]) -> None:
        with Collection.open(folder) as collection:
            for act, first, stop in ACTS:
                act_on(collection, rows, act, names_of(id_kind, first, stop))
                wait()

    with (
        another_process(write) as go_on,
        Collection.open(folder, read_only=True) as reader,
    ):
        require_rows(reader, rows)
        for act, first, stop in ACTS:
            go_on()
            act_on(None, rows, act, names_of(id_kind, first, stop))
            require_rows(reader, rows)


def test_a_string_keeps_its_row_id_for_ever_even_across_writers(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "str"), dict[Any, Row]()
    with Collection.open(folder) as writer:
        add(writer, rows, ["a", "b", "z"])
    with Collection.open(folder, read_only=True) as reader:
        require_rows(reader, rows)
        with Collection.open(folder) as writer:
            writer.remove(["z"])
            del rows["z"]
        with Collection.open(folder) as writer:
            add(writer, rows, ["w"])
        require_rows(reader, rows)
        assert "z" not in reader
        assert "w" in reader
        with pytest.raises(KeyError):
            reader.get(["z"])


def test_a_reader_of_older_rows_keeps_the_ids_they_had(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "str"), dict[Any, Row]()
    with Collection.open(folder) as writer:
        add(writer, rows, ["a", "b", "z"])
        with Collection.open(folder, read_only=True) as reader:
            store: Any = reader._store
            with store.reading() as older:
                ids = older.ids.row_ids(older.ids.check(["a", "z"]))
                writer.remove(["z"])
                writer.compact()
                add(writer, {}, ["z"])
                assert "z" in reader
                assert older.ids.row_ids(older.ids.check(["a", "z"])).tolist() == ids.tolist()
                assert older.ids.from_row_ids(ids).tolist() == ["a", "z"]
                assert older.coded.present(ids).all()
            reader.verify()


def test_a_checkpoint_of_a_history_that_was_lost_is_passed_over(tmp_path: Path) -> None:
    """As after a power cut with synchronous="normal": the checkpoint is there, the last writes are
    not, and others come in their place.
    """
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, list(range(300)))
    before = tmp_path / "before"
    shutil.copytree(folder, before)
    with Collection.open(folder) as collection:
        collection.remove([5])
        collection.checkpoint()
    shutil.copy(before / "collection.db", folder / "collection.db")
    with Collection.open(folder) as collection:
        require_rows(collection, rows)
        collection.remove([0])
        del rows[0]
        add(collection, rows, [7])
        rows[7] = Row(0, rows[7].metadata)
    for read_only in (True, False):
        with Collection.open(folder, read_only=read_only) as collection:
            require_rows(collection, rows)


def test_a_second_writer_past_a_deleted_lock_is_told_so_before_it_harms(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as first:
        add(first, rows, list(range(100)))
        (folder / "writer.lock").unlink()
        with Collection.open(folder) as second:
            add(second, rows, list(range(90, 165)))
            for act in (lambda: first.remove([0]), lambda: first.add(POOL[:3])):
                with pytest.raises(FileAccessError, match="written by another process"):
                    act()
            require_rows(second, rows)
    with Collection.open(folder) as again:
        require_rows(again, rows)


def test_searches_go_on_where_another_process_wrote_past_the_lock(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as first:
        add(first, rows, list(range(100)))
        (folder / "writer.lock").unlink()
        with Collection.open(folder) as second:
            add(second, rows, list(range(90, 165)))
        require_rows(first, rows)


def test_a_process_that_only_reads_writes_nothing(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, list(range(100)))
        collection.checkpoint()
    before = (folder / CHECKPOINT).read_bytes()
    with Collection.open(folder, read_only=True) as reader:
        acts: list[Callable[[], Any]] = [
            lambda: reader.add(POOL[:1]),
            lambda: reader.upsert(POOL[:1], ids=[0]),
            lambda: reader.remove([0]),
            lambda: reader.update_metadata([0], {"year": 1}),
            reader.compact,
            reader.checkpoint,
        ]
        for act in acts:
            with pytest.raises(InvalidInputError, match="for reading only"):
                act()
        require_rows(reader, rows)
    assert (folder / CHECKPOINT).read_bytes() == before


def _as_nobody(folder: Path, act: Callable[[Callable[[], None]], None]) -> Any:
    """Return another process of a user who may read the folder, but not write to it."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    for path in [folder, *folder.iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for parent in folder.parents:
        if parent.stat().st_mode & 0o5 != 0o5:
            pytest.skip("other users cannot get to the folder")
    return another_process(act, NOBODY)


@pytest.fixture
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that other users can get to."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_folder_that_cannot_be_written_is_read_and_followed(public: Path) -> None:
    folder, rows = new_folder(public / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, list(range(300)))
        require_rows(collection, rows)  # compiles kernels
    later = dict(rows)
    for i in range(65):
        later[1000 + i] = Row(i, {"year": 1900 + i % 30, "note": f"{i}"})

    def read(wait: Callable[[], None]) -> None:
        with pytest.raises(FileAccessError, match="read_only=True"):
            Collection.open(folder)
        with Collection.open(folder, read_only=True) as reader:
            require_rows(reader, rows)
            wait()  # until there is a writer
            require_rows(reader, later)
            wait()  # until it has moved its log into the file, and is gone
            require_rows(reader, {name: later[name] for name in range(5, 300)})

    with _as_nobody(folder, read) as go_on:
        go_on()
        collection = Collection.open(folder)
        add(collection, {}, list(range(1000, 1065)))
        go_on()
        collection.remove([*range(5), *range(1000, 1065)])
        collection.compact()
        collection.close()
        go_on()


def test_a_log_that_nobody_may_recover_is_a_clear_error(public: Path) -> None:
    folder = new_folder(public / "rows", "int")
    code = (
        "import os, sys, bitkin; from tests.collection.killed import POOL; "
        "c = bitkin.Collection.open(sys.argv[1]); c.add(POOL[:300]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    (folder / "collection.db-shm").unlink()

    def read(wait: Callable[[], None]) -> None:
        with pytest.raises(FileAccessError, match="log of writes"):
            Collection.open(folder, read_only=True)

    with _as_nobody(folder, read) as go_on:
        go_on()
    with Collection.open(folder) as collection:
        assert len(collection) == 300


def test_a_file_that_changes_while_it_is_read_without_locks_is_an_error(public: Path) -> None:
    folder, rows = new_folder(public / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, list(range(300)))
        require_rows(collection, rows)

    def read(wait: Callable[[], None]) -> None:
        with Collection.open(folder, read_only=True) as reader:
            store: Any = reader._store
            with (
                pytest.raises(FileAccessError, match="changed while it was read"),
                store.reading(),
            ):
                wait()
            wait()
            assert len(reader) == 300 + 65

    with _as_nobody(folder, read) as go_on:
        go_on()
        with Collection.open(folder) as collection:
            add(collection, {}, list(range(1000, 1065)))
            go_on()
        go_on()


def test_a_checkpoint_that_cannot_be_written_is_told_to_whoever_asked(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        (folder / CHECKPOINT).mkdir()
        add(collection, rows, list(range(3000)))
        with pytest.raises(FileAccessError, match="checkpoint"):
            collection.checkpoint()
        collection.compact()
        require_rows(collection, rows)
    with Collection.open(folder) as collection:
        require_rows(collection, rows)


@pytest.mark.parametrize("synchronous", ["normal", "full"])
def test_the_connection_that_writes_waits_for_the_disk_as_asked(
    tmp_path: Path, synchronous: str
) -> None:
    folder = tmp_path / "rows"
    Collection.create(folder, HASHER, synchronous=synchronous).close()
    with Collection.open(folder) as collection:
        collection.add(POOL[:3])
        store: Any = collection._store
        with store.database.write() as writing:
            (found,) = writing.connection.execute("PRAGMA synchronous").fetchone()
        assert found == {"normal": 1, "full": 2}[synchronous]
