"""Paths that lead to no regular file: an error at once, and never a wait for a writer who may not
come.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import BandIndex, CellIndex, EpochIndex, FlatIndex, MultiIndex
from bitkin.cli.classifying.inputs import read_labels
from bitkin.errors import FileAccessError
from bitkin.input_files import read_ids
from bitkin.io.regular import open_regular
from bitkin.rescoring.correction_files import read_corrections
from bitkin.stream_files.state import load_state
from tests.truth import random_codes

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")

READERS: dict[str, Callable[[Path], Any]] = {
    "load": bitkin.load,
    "load mapped": lambda path: bitkin.load(path, mmap=True),
    "FlatIndex": FlatIndex.load,
    "MultiIndex": MultiIndex.load,
    "BandIndex": BandIndex.load,
    "CellIndex": CellIndex.load,
    "EpochIndex": EpochIndex.load,
    "state of a stream": load_state,
    "corrections": lambda path: read_corrections(path, "l2", ""),
}
NPY_READERS: dict[str, Callable[[Path], Any]] = {
    "ids": read_ids,
    "labels": read_labels,
    "corrections": lambda path: read_corrections(path, "l2", ""),
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """Fail instead of hanging."""

    def fail(*_: Any) -> None:
        raise TimeoutError("waits for a writer")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_no_file_of_ours(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileAccessError, match=r"pipe cannot be read: it is not a regular file\.$"):
        READERS[name](tmp_path / "pipe")


@pytest.mark.parametrize("name", NPY_READERS)
def test_a_pipe_is_no_npy_file(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(
        FileAccessError, match=r"pipe\.npy cannot be read: it is not a regular file\.$"
    ):
        NPY_READERS[name](tmp_path / "pipe.npy")


@pytest.mark.parametrize("name", READERS)
def test_a_directory_and_a_device_are_no_files_of_ours(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"cannot be read: ([Ii]t is|Is) a directory\.$"):
        READERS[name](tmp_path)
    with pytest.raises(FileAccessError, match=r"null cannot be read: it is not a regular file\.$"):
        READERS[name](Path("/dev/null"))


def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    codes.save(tmp_path / "codes")
    (tmp_path / "link").symlink_to(tmp_path / "codes")
    assert bitkin.load(tmp_path / "link") == codes


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_what_was_opened_is_closed_where_it_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(FileAccessError):
            open_regular(tmp_path / "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
