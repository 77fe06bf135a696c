"""Headers of .npy files that lie, and memory that stays small."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin.errors import BitkinError, CorruptFileError, InvalidInputError
from bitkin.io.vectors import open_vectors


def write_npy(path: Path, header: str, data: bytes = b"", version: int = 1) -> Path:
    text = header.encode() + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + text + data)
    return path


def header_of(shape: Any, descr: str = "<f4", fortran_order: Any = False) -> str:
    return repr({"descr": descr, "fortran_order": fortran_order, "shape": shape})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_header_is_read(version: int, tmp_path: Path) -> None:
    truth = np.arange(6, dtype="<f4").reshape(3, 2)
    path = write_npy(tmp_path / "x.npy", header_of((3, 2)), truth.tobytes(), version)
    np.testing.assert_array_equal(open_vectors(path).gather([0, 1, 2]), truth)


@pytest.mark.parametrize(
    ("cut", "words"), [(-1, "must have 224 bytes.* got 223"), (5, "must have 224 bytes.* got 229")]
)
def test_a_file_too_short_or_too_long_names_both_sizes(
    cut: int, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((8, 3), dtype=np.float32))
    content = path.read_bytes()
    path.write_bytes(content[:cut] if cut < 0 else content + bytes(cut))
    with pytest.raises(CorruptFileError, match=rf"x\.npy {words}"):
        open_vectors(path)


@pytest.mark.parametrize(
    ("header", "error", "words"),
    [
        (header_of((10**30, 4)), CorruptFileError, "must have .* bytes"),
        (header_of((2**62, 4)), CorruptFileError, "must have .* bytes"),
        (header_of((0, 10**30)), CorruptFileError, "1 to 2147483647 columns"),
        (header_of((-1, 4)), CorruptFileError, "shape of whole numbers"),
        (header_of((1.5, 4)), CorruptFileError, "shape of whole numbers"),
        (header_of("ab"), CorruptFileError, "shape of whole numbers"),
        (header_of((0, 4), fortran_order=1), CorruptFileError, "whole numbers"),
        (header_of((0,)), InvalidInputError, r"shape \(n, d\), one vector a row, got \(0,\)"),
        (header_of((0, 2, 2)), InvalidInputError, r"shape \(n, d\)"),
        (header_of((0, 0)), CorruptFileError, "columns"),
        (header_of((0, 4), descr="<f3"), CorruptFileError, "unknown type"),
        (header_of((0, 4), descr="<c8"), InvalidInputError, "complex"),
        (header_of((0, 4), descr="<U3"), InvalidInputError, "text"),
        (header_of((0, 4), descr="<M8[s]"), InvalidInputError, "plain numbers"),
        (header_of((0, 4), descr="f4,f4"), InvalidInputError, "plain numbers"),
        ("{'shape': (0, 4)}", CorruptFileError, "unreadable"),
        ("__import__('os')", CorruptFileError, "unreadable"),
        ("(" * 5000, CorruptFileError, "unreadable"),
        ("[1, 2]", CorruptFileError, "unreadable"),
        (" " * 11_000, CorruptFileError, "at most 10000 bytes"),
    ],
)
def test_a_header_that_cannot_be_is_refused_before_anything_is_allocated(
    header: str, error: type[BitkinError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        open_vectors(write_npy(tmp_path / "x.npy", header))


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUM", b"PK\x03\x04" * 9, b"\x93NUMPY\x09\x00" + bytes(90)]
)
def test_a_file_that_is_no_npy_says_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(
        CorruptFileError, match=r"x\.npy (is not an \.npy array|has \.npy version 9)"
    ):
        open_vectors(tmp_path / "x.npy")


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    np.save(tmp_path / "x.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    with pytest.raises(
        InvalidInputError, match="Python objects as a pickle, which bitkin never loads"
    ):
        open_vectors(tmp_path / "x.npy")
    assert not (tmp_path / "ran").exists()


def test_a_value_that_is_not_finite_names_the_file(tmp_path: Path) -> None:
    truth = np.ones((20, 3), dtype=np.float32)
    truth[13, 2] = np.inf
    np.save(tmp_path / "x.npy", truth)
    with pytest.raises(InvalidInputError, match=r"x\.npy: infinity at row 13, column 2, batch 2"):
        list(open_vectors(tmp_path / "x.npy").batches(rows=5))


def test_a_source_of_a_file_travels_by_pickle(tmp_path: Path) -> None:
    truth = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", truth)
    source = pickle.loads(pickle.dumps(open_vectors(tmp_path / "x.npy")))
    np.testing.assert_array_equal(source.gather([2, 0]), truth[[2, 0]])


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="sparse files and RSS as Linux has them"
)
@pytest.mark.parametrize("fortran_order", [False, True])
def test_a_file_of_400_megabytes_is_read_with_little_memory(
    fortran_order: bool, tmp_path: Path
) -> None:
    path = write_npy(tmp_path / "x.npy", header_of((100_000, 1000), fortran_order=fortran_order))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 400_000_000)
    script = f"""
import resource
from bitkin.io.vectors import open_vectors
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = open_vectors({str(path)!r})
assert sum(len(batch) for _, batch in source.batches()) == 100_000
source.gather([99_999, 5])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert int(grown) * 1024 < 60_000_000
