"""Datasets of HDF5 files: which one, and what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError, MissingExtraError
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.files import hdf5

h5py = pytest.importorskip("h5py")


def write(folder: Path, **datasets: Any) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        for key, value in datasets.items():
            file[key] = value
    return folder / "x.h5"


def test_the_dataset_must_be_named_when_there_are_several(tmp_path: Path) -> None:
    path = write(tmp_path, a=np.ones((2, 2)), b=np.zeros((3, 2)), c=np.ones(3))
    with pytest.raises(
        InvalidInputError, match=r"one 2-D dataset, got 2\..*dataset=; it has \['a', 'b', 'c'\]"
    ):
        open_vectors(path)
    with pytest.raises(InvalidInputError, match=r"must name a dataset of .*, got 'd'"):
        open_vectors(path, dataset="d")
    with pytest.raises(InvalidInputError, match=r"dataset 'c' must have shape \(n, d\)"):
        open_vectors(path, dataset="c")
    assert open_vectors(path, dataset="b").shape == (3, 2)


def test_a_group_is_no_dataset(tmp_path: Path) -> None:
    path = write(tmp_path, **{"group/a": np.ones((2, 2))})
    with pytest.raises(InvalidInputError, match="must name a dataset"):
        open_vectors(path, dataset="group")


@pytest.mark.parametrize("value", [np.ones((2, 2), dtype=complex), np.array([[b"ab"]])])
def test_what_is_no_number_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'a' must hold integers or floats"):
        open_vectors(write(tmp_path, a=value))


def test_a_dataset_without_numbers_of_its_own_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, a=np.ones((2, 2)))
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["linked"] = h5py.ExternalLink(str(path), "/a")
        layout = h5py.VirtualLayout(shape=(2, 2), dtype="f8")
        layout[:] = h5py.VirtualSource(str(path), "a", shape=(2, 2))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (2, 2), "f8", external=[(str(tmp_path / "raw"), 0, 32)])
    for key in ("linked", "virtual", "outside"):
        with pytest.raises(InvalidInputError, match="keeps its numbers in another file"):
            open_vectors(tmp_path / "link.h5", dataset=key)


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"hello" * 100])
def test_what_is_no_hdf5_is_corrupt(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.hdf5").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"x\.hdf5 is damaged"):
        open_vectors(tmp_path / "x.hdf5")


def test_a_truncated_file_is_corrupt(tmp_path: Path) -> None:
    path = write(tmp_path, a=np.ones((200, 20)))
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(CorruptFileError, match=r"x\.h5 is damaged.*truncated"):
        open_vectors(path)


def test_a_damaged_chunk_is_corrupt(tmp_path: Path) -> None:
    truth = np.random.default_rng(0).normal(size=(200, 20))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=truth, chunks=(50, 20), fletcher32=True)
        place = file["a"].id.get_chunk_info(2)
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[place.byte_offset + 100] ^= 255
    (tmp_path / "x.h5").write_bytes(content)
    source = open_vectors(tmp_path / "x.h5")
    np.testing.assert_array_equal(source.gather([0, 99]), truth[[0, 99]])
    with pytest.raises(CorruptFileError, match=r"x\.h5 is damaged"):
        list(source.batches(rows=60))


def test_a_file_another_process_writes_to_cannot_be_accessed(tmp_path: Path) -> None:
    path = write(tmp_path, a=np.ones((2, 2)))
    script = (
        f"import h5py; file = h5py.File({str(path)!r}, 'r+', locking=True); print('open', "
        "flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(FileAccessError, match=r"x\.h5 cannot be read: .*unable to lock"):
            open_vectors(path)
        writer.communicate(b"\n")


def test_a_value_that_is_not_finite_names_file_row_and_column(tmp_path: Path) -> None:
    truth = np.ones((20, 3), dtype=np.float16)
    truth[17, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"x\.h5: NaN at row 17, column 2, batch 2"):
        list(open_vectors(write(tmp_path, a=truth)).batches(rows=8))


def test_without_h5py_the_install_line_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, a=np.ones((2, 2)))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"needs h5py.*pip install 'bitkin\[io\]'"):
        open_vectors(path)


def announced(
    path: Path, shape: tuple[int, int], chunks: tuple[int, int] | None = None, dtype: str = "f4"
) -> None:
    """Write a dataset whose numbers were never written."""
    with h5py.File(path, "w") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        if chunks is not None:
            settings.set_chunk(chunks)
        space = h5py.h5s.create_simple(shape, shape)
        h5py.h5d.create(file.id, b"v", h5py.h5t.py_create(np.dtype(dtype)), space, settings)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((2**40, 6), None),
        ((2**40, 6), (1024, 6)),
        ((1, 2**31 - 1), (1, 1024)),
        ((2**31, 1), (2**20, 1)),
        ((2**20, 1), (1, 1)),
    ],
)
def test_numbers_that_were_never_written_are_not_read(
    shape: tuple[int, int], chunks: tuple[int, int] | None, tmp_path: Path
) -> None:
    announced(tmp_path / "x.h5", shape, chunks)
    with pytest.raises(
        CorruptFileError, match=r"x\.h5, dataset 'v' announces .* were never written"
    ):
        open_vectors(tmp_path / "x.h5")


def test_a_row_cut_into_thousands_of_chunks_is_refused(tmp_path: Path) -> None:
    announced(tmp_path / "x.h5", (2, 2**15), (1, 1))
    with pytest.raises(
        InvalidInputError, match=r"cuts every row into 32,768 chunks, and 16,384 are the most"
    ):
        open_vectors(tmp_path / "x.h5")


def test_a_chunk_larger_than_its_file_could_unpack_to_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("v", shape=(3, 4), maxshape=(None, 4), chunks=(2**25, 4), dtype="f4")
    with pytest.raises(CorruptFileError, match="announces 536,870,912 bytes of numbers"):
        open_vectors(tmp_path / "x.h5")


@pytest.mark.parametrize("chunks", [(1, 2), (2, 5), (7, 3), (64, 5)])
def test_many_small_chunks_are_read_a_few_at_a_time(
    chunks: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5, "_CHUNKS_AT_ONCE", 4)
    truth = np.random.default_rng(0).standard_normal((101, 5))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("v", data=truth, chunks=chunks)
    source = open_vectors(tmp_path / "x.h5")
    assert [first for first, _ in source.batches(rows=40)] == [0, 40, 80]
    assert np.array_equal(np.concatenate([batch for _, batch in source.batches(rows=40)]), truth)
    assert np.array_equal(source.gather([100, 3, 50]), truth[[100, 3, 50]])


def test_a_few_rows_that_were_never_written_are_zeros(tmp_path: Path) -> None:
    announced(tmp_path / "x.h5", (1000, 6), (10, 6))
    ((first, batch),) = open_vectors(tmp_path / "x.h5").batches()
    assert first == 0
    assert np.array_equal(batch, np.zeros((1000, 6)))
