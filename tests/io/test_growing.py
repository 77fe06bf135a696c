from __future__ import annotations

import os
from pathlib import Path

import pytest

from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.growing import GrowingFile, has_content


def test_a_file_grows_and_is_cut_back_to_a_known_length(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with GrowingFile(path) as file:
        file.append(b"kept")
        assert path.read_bytes() == b"kept"  # at once
        assert file.length == 4
        file.append(b" and lost")
        file.sync()
    with GrowingFile(path) as file:
        assert (file.length, file.begin(6)) == (13, b"kept a")
        assert path.read_bytes() == b"kept and lost"  # until it is cut
        file.cut(4)
        assert path.read_bytes() == b"kept"
        file.append(b"!")
        assert file.length == 5
    assert path.read_bytes() == b"kept!"


def test_a_file_that_became_shorter_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with (
        GrowingFile(tmp_path / "file") as file,
        pytest.raises(
            CorruptFileError, match=r"file has 3 bytes where 4 were written: it was changed since"
        ),
    ):
        file.cut(4)
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with (
        GrowingFile(tmp_path / "file") as file,
        pytest.raises(FileAccessError, match="is being written by another process"),
    ):
        GrowingFile(tmp_path / "file")
    file.close()
    with GrowingFile(tmp_path / "file"):
        pass


def test_what_is_no_regular_file_is_never_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "no" / "file", tmp_path / "a\0b"):
        with pytest.raises(FileAccessError, match="cannot be written: "):
            GrowingFile(path)


def test_only_a_file_with_bytes_has_content(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "full").write_bytes(b"1")
    assert [has_content(tmp_path / name) for name in ("missing", "empty", "full", ".", "a\0b")] == [
        False, False, True, False, False,
    ]  # fmt: skip
