"""Folders with odd names, and folders that are moved, copied, replaced or deleted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bitkin import Collection
from bitkin.errors import FileAccessError
from tests.collection.killed import POOL, Row, Rows, new_folder, require_rows


def add(collection: Collection, rows: Rows, first: int, n: int) -> None:
    """Add rows, and note them."""
    metadata = [{"note": f"{i}"} for i in range(n)]
    collection.add(POOL[:n], ids=list(range(first, first + n)), metadata=metadata)
    rows.update((first + i, Row(i, metadata[i])) for i in range(n))


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "a?mode=memory&b=c",
        "50%20#1",
        "%41",
        "ä ☂ 😀",
        "'; DROP TABLE rows; --",
        'quo"te',
        "file:x",
        "back\\slash",
        "[a-z]*",
        "new\nline",
        ".hidden",
    ],
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    rows: Rows = {}
    folder = new_folder(tmp_path / name / name, "int")
    with Collection.open(folder) as collection:
        add(collection, rows, 0, 65)
        collection.checkpoint()
        add(collection, rows, 100, 7)
        with Collection.open(folder, read_only=True) as reader:
            require_rows(reader, rows)
        copy = collection.backup(tmp_path / f"copy of {name}")
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [name]
    for path in (folder, copy):
        with Collection.open(path) as collection:
            require_rows(collection, rows)


def test_a_name_that_is_not_utf8_is_a_name(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe"))
    rows: Rows = {}
    with Collection.open(new_folder(folder, "int")) as collection:
        add(collection, rows, 0, 7)
    with Collection.open(folder, read_only=True) as collection:
        require_rows(collection, rows)


def test_a_relative_path_leads_to_the_same_folder_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: Rows = {}
    monkeypatch.chdir(tmp_path)
    new_folder(Path("rows"), "int")
    with Collection.open("rows") as collection, Collection.open("rows", read_only=True) as reader:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        add(collection, rows, 0, 65)
        collection.checkpoint()
        store: Any = collection._store
        with store.reading(), store.reading():  # more than one connection
            require_rows(collection, rows)
        require_rows(reader, rows)
        assert collection.path == tmp_path / "rows"
    assert (tmp_path / "rows" / "checkpoint.bitkin").exists()


def test_a_folder_copied_while_closed_is_a_collection_of_its_own(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, 0, 300)
        collection.checkpoint()
    copied = dict(rows)
    shutil.copytree(folder, tmp_path / "copy")
    with Collection.open(folder) as collection, Collection.open(tmp_path / "copy") as copy:
        add(collection, rows, 1000, 7)
        add(copy, copied, 2000, 65)
        copy.checkpoint()
        require_rows(collection, rows)
        require_rows(copy, copied)
    # the checkpoint of the copy is of other rows
    shutil.copy(tmp_path / "copy" / "checkpoint.bitkin", folder)
    with Collection.open(folder) as collection:
        require_rows(collection, rows)


def test_a_link_to_a_folder_is_the_same_collection(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    (tmp_path / "link").symlink_to(folder)
    with Collection.open(tmp_path / "link") as collection:
        add(collection, rows, 0, 65)
        with pytest.raises(FileAccessError, match="open for writing already"):
            Collection.open(folder)
        with Collection.open(folder, read_only=True) as reader:
            require_rows(reader, rows)
        collection.checkpoint()
    with pytest.raises(FileAccessError, match="is there already"):
        new_folder(tmp_path / "link", "int")
    with Collection.open(folder) as collection:
        require_rows(collection, rows)


def test_a_renamed_folder_is_searched_on_and_written_no_more(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, 0, 65)
        require_rows(collection, rows)
        folder.rename(tmp_path / "elsewhere")
        require_rows(collection, rows)
        acts: list[Callable[[], None]] = [
            lambda: add(collection, {}, 100, 7),
            lambda: collection.remove([0]),
        ]
        for act in acts:
            with pytest.raises(FileAccessError, match=r"moved or deleted\? Put it back"):
                act()
        with pytest.raises(FileAccessError, match="moved or deleted"):
            collection.compact()
        require_rows(collection, rows)
        (tmp_path / "elsewhere").rename(folder)
        add(collection, rows, 100, 7)
        require_rows(collection, rows)
        folder.rename(tmp_path / "elsewhere")
    with Collection.open(tmp_path / "elsewhere") as collection:
        require_rows(collection, rows)


def test_a_folder_in_the_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    other, others = new_folder(tmp_path / "other", "int"), dict[Any, Row]()
    with Collection.open(other) as collection:
        add(collection, others, 500, 65)
    with Collection.open(folder) as collection:
        add(collection, rows, 0, 65)
        require_rows(collection, rows)
        folder.rename(tmp_path / "old")
        other.rename(folder)
        require_rows(collection, rows)
        with pytest.raises(FileAccessError, match="another file"):
            add(collection, {}, 100, 7)
        store: Any = collection._store
        with store.reading(), pytest.raises(FileAccessError, match="another file"):
            collection.search(POOL[:1], 1)  # by a connection that has to be opened
    with Collection.open(folder) as collection:
        require_rows(collection, others)


@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_acknowledged_in_a_folder_that_is_deleted(tmp_path: Path, again: bool) -> None:
    folder, rows = new_folder(tmp_path / "rows", "int"), dict[Any, Row]()
    with Collection.open(folder) as collection:
        add(collection, rows, 0, 65)
        require_rows(collection, rows)
        shutil.rmtree(folder)
        if again:
            new_folder(folder, "int")
        for act in (
            lambda: add(collection, {}, 100, 7),
            lambda: collection.remove([0]),
            lambda: collection.update_metadata([0], {"note": "x"}),
            collection.compact,
            collection.checkpoint,
            lambda: collection.backup(tmp_path / "backup"),
        ):
            with pytest.raises(
                FileAccessError, match=r"moved or deleted|another file|No such file"
            ):
                act()
        require_rows(collection, rows)
        assert not (tmp_path / "backup").exists()
    if again:
        with Collection.open(folder) as collection:
            assert len(collection) == 0
            assert not (folder / "checkpoint.bitkin").exists()
