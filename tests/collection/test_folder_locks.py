"""One writer, forks, full disks, and folders that are not what they were."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin import Collection
from bitkin.collection.folder import forks
from bitkin.collection.folder.opening import copy_folder
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from tests.collection.killed import POOL, Row, Rows, new_folder, require_rows

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
CHECKPOINT = "checkpoint.bitkin"


def add(collection: Collection, rows: Rows, first: int, n: int) -> None:
    """Add rows, and note them once they are acknowledged."""
    metadata = [{"year": 1900 + i % 30, "note": f"{i}"} for i in range(n)]
    collection.add(POOL[:n], ids=np.arange(first, first + n), metadata=metadata)
    rows.update((first + i, Row(i, metadata[i])) for i in range(n))


def in_child(act: Callable[[], None]) -> None:
    """Run it in a forked child; fail with what it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # only what hangs takes so long
        try:
            act()
        except BaseException:  # noqa: BLE001  # told to the parent
            os.write(writing, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert not said, said
    assert status == 0, f"the child ended with {status}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_folder(tmp_path / "rows", "int")


@pytest.fixture
def rows(folder: Path) -> Rows:
    """The rows in the folder, with a checkpoint before the last of them."""
    known: Rows = {}
    with Collection.open(folder) as collection:
        add(collection, known, 0, 300)
        collection.checkpoint()
        add(collection, known, 1000, 65)
    return known


def test_a_second_writer_in_the_same_process_is_refused(folder: Path, rows: Rows) -> None:
    with Collection.open(folder) as collection:
        with pytest.raises(FileAccessError, match="open for writing already"):
            Collection.open(folder)
        add(collection, rows, 2000, 7)
        with Collection.open(folder, read_only=True) as reader:
            require_rows(reader, rows)
    Collection.open(folder).close()


def test_a_collection_that_was_dropped_lets_others_write_at_once(folder: Path) -> None:
    def use_and_drop() -> None:
        collection = Collection.open(folder)
        add(collection, {}, 0, 7)
        collection.search(POOL[:1], 1)

    gc.disable()
    try:
        use_and_drop()
        with Collection.open(folder) as collection:
            assert len(collection) == 7
    finally:
        gc.enable()


def test_a_second_writer_in_another_process_is_refused_until_a_kill(folder: Path) -> None:
    code = (
        "import sys, time, bitkin; c = bitkin.Collection.open(sys.argv[1]); "
        "print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(FileAccessError, match="in another process"):
            Collection.open(folder)
        process.kill()
        process.wait()
        Collection.open(folder).close()


def test_the_child_of_a_writer_searches_and_the_parent_writes_on(folder: Path, rows: Rows) -> None:
    with Collection.open(folder) as collection:

        def use_in_child() -> None:
            require_rows(collection, rows)
            with pytest.raises(InvalidInputError, match="for reading only"):
                collection.remove([0])
            collection.close()

        in_child(use_in_child)

        def open_in_child() -> None:
            with pytest.raises(FileAccessError, match="open for writing already"):
                Collection.open(folder)

        in_child(open_in_child)
        add(collection, rows, 2000, 7)
        require_rows(collection, rows)


def test_a_fork_while_other_threads_write_leaves_a_child_that_reads(folder: Path) -> None:
    stop = threading.Event()
    with Collection.open(folder) as collection:

        def write() -> None:
            first = 0
            while not stop.is_set():
                add(collection, {}, first, 50)
                first += 50

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(20):
                in_child(lambda: _require_whole_calls(collection))
        finally:
            stop.set()
            thread.join()
        collection.verify()


def _require_whole_calls(collection: Collection) -> None:
    assert collection.count() % 50 == 0
    collection.search(POOL[:1], 3)


def test_a_fork_waits_for_no_thread_that_waits_for_it(
    folder: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_SECONDS_TO_WAIT", 0.5)
    began, fork_over = threading.Event(), threading.Event()
    with Collection.open(folder) as collection:

        def block(done: int, total: int) -> None:
            began.set()
            fork_over.wait(30)

        store: Any = collection._store
        aside = folder.with_name("copy")
        thread = threading.Thread(target=copy_folder, args=(store, aside, block))
        thread.start()
        assert began.wait(30)
        try:
            before = time.monotonic()
            in_child(lambda: None)
            assert time.monotonic() - before < 10
        finally:
            fork_over.set()
            thread.join()
        require_rows(collection, rows)
        in_child(lambda: require_rows(collection, rows))
    with Collection.open(aside) as collection:
        require_rows(collection, rows)


def test_a_fork_by_whoever_reads_the_database_leaves_both_sides_reading(
    folder: Path, rows: Rows
) -> None:
    with Collection.open(folder) as collection:

        def fork(done: int, total: int) -> None:
            in_child(lambda: require_rows(collection, rows))
            require_rows(collection, rows)

        store: Any = collection._store
        copy_folder(store, folder.with_name("copy"), fork)
        require_rows(collection, rows)


def test_a_child_sees_what_others_write_once_its_parent_has_closed_the_folder(
    folder: Path, rows: Rows
) -> None:
    to_child, from_parent = os.pipe()
    collection = Collection.open(folder)
    require_rows(collection, rows)

    def wait_and_read() -> None:
        require_rows(collection, rows)
        while some := os.read(to_child, 1):
            first = 10_000 * int(some)
            for i in range(500):
                rows[first + i] = Row(i, {"year": 1900 + i % 30, "note": f"{i}"})
            require_rows(collection, rows)
            os.write(answer, b".")

    from_child, answer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(from_parent)
        signal.alarm(60)
        try:
            wait_and_read()
        except BaseException:  # noqa: BLE001  # told to the parent
            os.write(answer, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(0)
    os.close(to_child)
    os.close(answer)
    collection.close()
    code = (
        "import sys, bitkin, numpy as np; from tests.collection.killed import POOL; "
        "c = bitkin.Collection.open(sys.argv[1]); first = 10_000 * int(sys.argv[2]); "
        "c.add(POOL[:500], ids=np.arange(first, first + 500), "
        "metadata=[{'year': 1900 + i % 30, 'note': str(i)} for i in range(500)]); "
        "c.compact(); c.close()"
    )
    try:
        for number in (1, 2, 3):
            subprocess.run([sys.executable, "-c", code, str(folder), str(number)], check=True)
            os.write(from_parent, str(number).encode())
            said = os.read(from_child, 5000)
            assert said == b".", said.decode()
    finally:
        os.close(from_parent)
        os.close(from_child)
        os.waitpid(child, 0)


def test_a_child_writes_once_its_parent_has_closed_the_folder(folder: Path, rows: Rows) -> None:
    go, told = os.pipe()
    collection = Collection.open(folder)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        ended = 1
        try:
            os.read(go, 1)
            with Collection.open(folder) as mine:
                add(mine, rows, 7000, 7)
            ended = 0
        finally:
            os._exit(ended)
    collection.close()
    os.write(told, b".")
    assert os.waitpid(child, 0)[1] == 0
    os.close(go)
    os.close(told)
    with Collection.open(folder) as collection:
        assert len(collection) == len(rows) + 7


def test_a_full_disk_is_an_error_that_loses_nothing(folder: Path, rows: Rows) -> None:
    def fill() -> None:
        with Collection.open(folder) as collection:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            size = (folder / "collection.db").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
            failed = 0
            for number in range(30):
                try:
                    add(collection, rows, 10_000 + 1000 * number, 400)
                except FileAccessError:
                    failed += 1
                require_rows(collection, rows)
            assert failed > 0
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            add(collection, rows, 100_000, 400)
            require_rows(collection, rows)
        with Collection.open(folder) as collection:
            require_rows(collection, rows)

    in_child(fill)


def test_a_folder_deleted_under_us_is_an_error_or_goes_on(folder: Path, rows: Rows) -> None:
    with Collection.open(folder) as collection:
        require_rows(collection, rows)
        shutil.rmtree(folder)
        said: list[str] = []
        for act in (
            lambda: collection.search(POOL[:1], 3),
            lambda: add(collection, rows, 5000, 7),
            collection.compact,
        ):
            try:
                act()
            except FileAccessError as error:
                said.append(str(error))
    assert all(str(folder) in text for text in said)
    with pytest.raises(FileAccessError, match="is not there"):
        Collection.open(folder)


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(FileAccessError, match="is no collection"):
        Collection.open(tmp_path / "other")
    database = sqlite3.connect(tmp_path / "other" / "collection.db")
    database.execute("CREATE TABLE settings(name, value)")
    database.close()
    with pytest.raises(CorruptFileError, match="another program"):
        Collection.open(tmp_path / "other")
    (tmp_path / "other" / "collection.db").write_bytes(b"no database at all" * 999)
    with pytest.raises(CorruptFileError, match=r"collection\.db"):
        Collection.open(tmp_path / "other")


def test_a_newer_format_is_refused(folder: Path, rows: Rows) -> None:
    database = sqlite3.connect(folder / "collection.db")
    database.execute("PRAGMA user_version=2")
    database.close()
    for read_only in (False, True):
        with pytest.raises(CorruptFileError, match=r"format 2.*newer bitkin"):
            Collection.open(folder, read_only=read_only)


@pytest.mark.parametrize("id_kind", ["int", "str"])
def test_a_damaged_checkpoint_does_not_change_the_rows(tmp_path: Path, id_kind: str) -> None:
    folder, known = new_folder(tmp_path / "rows", id_kind), {}
    names: list[Any] = [i if id_kind == "int" else f"n{i}" for i in range(300)]
    with Collection.open(folder) as collection:
        metadata = [{"year": 1900 + i % 30, "note": f"{i}"} for i in range(300)]
        collection.add(POOL[:300], ids=names, metadata=metadata)
        known = {name: Row(i, metadata[i]) for i, name in enumerate(names)}
        collection.checkpoint()
    whole = (folder / CHECKPOINT).read_bytes()
    rng, wrong = np.random.default_rng(0), []
    for number in range(60):
        data = bytearray(whole)
        place = int(rng.integers(0, len(data)))
        data[place] ^= 1 << int(rng.integers(0, 8))
        (folder / CHECKPOINT).write_bytes(data)
        try:
            with Collection.open(folder, read_only=bool(number % 2)) as collection:
                require_rows(collection, known)
        except (AssertionError, BitkinError, IndexError, ValueError) as error:
            wrong.append((place, len(data), repr(error)[:200]))
    assert not wrong, wrong


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_checkpoint_that_is_missing_or_cut_is_passed_over(
    folder: Path, rows: Rows, left: int | None
) -> None:
    path = folder / CHECKPOINT
    data = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(data[:left])
    with Collection.open(folder) as collection:
        require_rows(collection, rows)


def test_a_checkpoint_of_another_collection_is_passed_over(
    tmp_path: Path, folder: Path, rows: Rows
) -> None:
    other = new_folder(tmp_path / "other", "int")
    with Collection.open(other) as collection:
        add(collection, {}, 7, 365)
        collection.checkpoint()
    shutil.copy(other / CHECKPOINT, folder / CHECKPOINT)
    with Collection.open(folder) as collection:
        require_rows(collection, rows)


def test_a_damaged_model_is_a_clear_error(tmp_path: Path, folder: Path, rows: Rows) -> None:
    path = folder / "model.bitkin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="model"):
        Collection.open(folder)
    path.unlink()
    with pytest.raises(FileAccessError, match="model"):
        Collection.open(folder)
