"""Compiled kernels on disk: whatever befalls the files, a kernel computes what it should."""

from __future__ import annotations

import ast
import errno
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from bitkin.kernels._kernel import JIT_DISABLED, kernel

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")


def twice(numbers: Any) -> Any:
    total = numbers[0]
    for i in range(1, numbers.shape[0]):
        total += numbers[i]
    return total + total


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the kernel compiled for whole numbers."""
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(folder))
        kernel(twice)(np.arange(5))
    return folder


@pytest.fixture
def folder(compiled_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, that kernels made from here on use."""
    copy = tmp_path / "cache"
    shutil.copytree(compiled_once, copy)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(copy))
    return copy


def one_file(folder: Path, ending: str) -> Path:
    (found,) = folder.rglob(f"*.{ending}")
    return found


def answered(numbers: Any = (0, 1, 2, 3, 4)) -> tuple[float, int]:
    """What a new process would see: the answer, and how often it was found on disk."""
    fresh: Any = kernel(twice)
    answer = fresh(np.asarray(numbers))
    return answer, sum(fresh.stats.cache_hits.values())


def nothing(data: bytes) -> bytes:
    return b""


def first_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_end(data: bytes) -> bytes:
    return data[:-1]


def noise(data: bytes) -> bytes:
    return np.random.default_rng(0).bytes(len(data))


def one_bit_in_the_middle(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def a_pickle_of_something_else(data: bytes) -> bytes:
    return b"\x80\x04K\x01."


def test_a_kernel_is_found_on_disk_by_the_next_process(folder: Path) -> None:
    assert answered() == (20, 1)


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [nothing, first_half, without_end, noise, one_bit_in_the_middle, a_pickle_of_something_else],
)
def test_a_damaged_file_counts_as_none_and_is_written_again(
    folder: Path, ending: str, damage: Callable[[bytes], bytes]
) -> None:
    file = one_file(folder, ending)
    file.write_bytes(damage(file.read_bytes()))
    assert answered() == (20, 0)
    assert answered() == (20, 1)


def test_a_file_that_cannot_be_read_counts_as_none(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for ending in ("nbi", "nbc"):
        file = one_file(folder, ending)
        file.unlink()
        file.mkdir()
    assert answered() == (20, 0)


def test_code_compiled_for_other_numbers_is_never_run_for_these(folder: Path) -> None:
    # Two processes that compile at once may both call their file the first: one's index, the
    # other's code.
    whole = one_file(folder, "nbc").read_bytes()
    one_file(folder, "nbi").unlink()
    assert answered([0.5, 1.0]) == (3.0, 0)
    one_file(folder, "nbc").write_bytes(whole)
    assert answered([0.5, 1.0]) == (3.0, 0)


def test_code_of_an_earlier_source_is_never_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A full disk may take a new index, which is short, and not the code it tells of.
    from bitkin.kernels import _cache

    old = one_file(folder, "nbc").read_bytes()
    monkeypatch.setattr(_cache.KernelCache, "stamp", lambda self: b"another source")
    assert answered() == (20, 0)
    one_file(folder, "nbc").write_bytes(old)
    assert answered() == (20, 0)


def test_code_that_was_made_with_other_helpers_is_never_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.kernels import _cache

    assert answered() == (20, 1)
    edited = tmp_path / "_shared.py"
    edited.write_bytes(_cache.HELPERS.read_bytes() + b"# edited\n")
    monkeypatch.setattr(_cache, "HELPERS", edited)
    assert answered() == (20, 0)
    assert answered() == (20, 1)


def test_the_cache_sees_every_file_whose_kernels_a_file_imports() -> None:
    import bitkin.kernels
    from bitkin.kernels import _cache

    root = Path(bitkin.kernels.__path__[0])
    paths = sorted(root.rglob("*.py"))
    assert len(paths) > 15
    joined = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.startswith("bitkin.kernels.") and not node.module.endswith("_shared"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(getattr(module, alias.name), "py_func"):
                        continue
                    name = ".".join(
                        ("bitkin.kernels", *path.relative_to(root).with_suffix("").parts)
                    )
                    here = importlib.import_module(name)
                    kernels = [v for v in vars(here).values() if getattr(v, "py_func", None)]
                    own = [k.py_func for k in kernels if k.py_func.__module__ == name]
                    assert own
                    for function in own:
                        assert Path(str(module.__file__)) in _cache.files_called(function)
                    joined.add(path.name)
    # Stages are joined in few files; helpers of several are shared.
    assert joined == {"lane.py", "nearest_rows.py", "queries.py", "residual_scan.py"}


def test_code_that_was_made_with_other_kernels_is_never_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.kernels import _cache

    other = tmp_path / "other.py"
    other.write_text("# one")
    monkeypatch.setattr(_cache, "files_called", lambda _function: {other})
    assert answered() == (20, 0)
    assert answered() == (20, 1)
    edited = tmp_path / "edited.py"
    edited.write_text("# another")
    monkeypatch.setattr(_cache, "files_called", lambda _function: {edited})
    assert answered() == (20, 0)


@pytest.mark.parametrize("call", ["replace", "makedirs"])
def test_a_full_disk_is_told_once_and_stops_nothing(
    folder: Path, call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bitkin.kernels import _cache

    kernels: list[Any] = [kernel(twice), kernel(twice)]
    shutil.rmtree(folder)
    folder.mkdir()

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    monkeypatch.setattr(_cache, "_told", False)
    monkeypatch.delenv("BITKIN_QUIET", raising=False)
    assert [one(np.arange(5)) for one in kernels] == [20, 20]
    said = capsys.readouterr().err
    assert said.count("could not be kept on disk") == 1
    assert "No space left on device" in said
    assert list(folder.rglob("*.tmp.*")) == []
    monkeypatch.undo()
    assert not any(folder.rglob("*.nbc"))


WRITES_NOTHING = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
from bitkin.kernels.search.selection import nearest_into
distances, ids = np.array([[2.0, 1.0]]), np.array([[5, 7]])
best, best_ids = np.full((1, 1), np.inf), np.full((1, 1), -1)
nearest_into(distances, ids, best, best_ids)
print(best_ids[0, 0], best[0, 0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_process_that_can_write_no_file_computes_all_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WRITES_NOTHING],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "BITKIN_QUIET": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "7 1.0\n", done.stderr
    assert done.stderr.count("could not be kept on disk") == 1
    assert "Traceback" not in done.stderr
