"""The same answers in every kind of process."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import bitkin
from bitkin import threads
from tests.digest import digest

ROOT = Path(__file__).parent.parent


def run_digest(cwd: Path = ROOT, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.digest"],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("n_threads", ["1", "2", "3"])
def test_any_number_of_threads_from_the_environment(n_threads: str) -> None:
    assert run_digest(BITKIN_NUM_THREADS=n_threads)[0] == digest()


def test_without_a_compiler() -> None:
    answer, said = run_digest(NUMBA_DISABLE_JIT="1")
    assert answer == digest()
    assert said == ""


@pytest.fixture(scope="module")
def installed_read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which no folder takes a cache, not even root's."""
    folder = tmp_path_factory.mktemp("installed")
    for name in ("bitkin", "tests"):
        source = Path(bitkin.__file__).parent if name == "bitkin" else ROOT / name
        shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for directory in (folder / "bitkin").rglob("*"):
        if directory.is_dir():
            (directory / "__pycache__").write_text("a file where a folder would have to be")
    return folder


def test_an_installed_package_that_cannot_write_its_cache(installed_read_only: Path) -> None:
    answer, said = run_digest(
        cwd=installed_read_only,
        PYTHONPATH=str(installed_read_only),
        PYTHONDONTWRITEBYTECODE="1",
        XDG_CACHE_HOME="/dev/null/nowhere",
        HOME="/dev/null/nowhere",
    )
    assert answer == digest()
    assert said.count("compiling kernels") == 1


def compile_little(folder: Path, **environment: str) -> str:
    """Return what a process says that compiles two small kernels, or finds them in a folder."""
    script = """
import numpy as np
from bitkin.kernels.blocks import count_marked, mark_rows_into
mask = np.zeros(8, dtype=np.uint64)
mark_rows_into(np.arange(3, 8), 0, 512, mask)
assert count_marked(mask) == 5
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_first_compilation_is_announced_once_and_can_be_silenced(tmp_path: Path) -> None:
    assert compile_little(tmp_path).count("compiling kernels for this machine") == 1
    assert compile_little(tmp_path) == ""
    assert compile_little(tmp_path / "other", BITKIN_QUIET="1") == ""


def put_digest(queue: multiprocessing.Queue[str]) -> None:
    queue.put(digest())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_after_fork_and_in_a_spawned_process(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot start processes by {method}")
    digest()
    threads.run(lambda _: None, range(8))
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    with warnings.catch_warnings():
        # forking beside threads is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=put_digest, args=(queue,))
        process.start()
    assert queue.get(timeout=120) == digest()
    process.join(timeout=60)
    assert process.exitcode == 0
