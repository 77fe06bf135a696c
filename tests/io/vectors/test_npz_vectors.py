"""Archives that lie about their sizes, hold pickles, or hold more than one matrix."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin.errors import CorruptFileError, FileTooLargeError, InvalidInputError
from bitkin.io.vectors import open_vectors
from tests.memory import peak_of


def npy_bytes(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def sparse_parts(**changes: Any) -> dict[str, Any]:
    matrix = scipy.sparse.csr_matrix(np.eye(3, 4))
    parts = {"format": b"csr", "shape": matrix.shape, "data": matrix.data}
    return {**parts, "indices": matrix.indices, "indptr": matrix.indptr, **changes}


def test_more_than_one_matrix_lists_the_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones((2, 2)), b=np.ones((2, 2)), c=np.ones(2))
    with pytest.raises(
        InvalidInputError,
        match=r"one 2-D array, got 2\. Name one with dataset=; it has \['a', 'b', 'c'\]",
    ):
        open_vectors(tmp_path / "x.npz")
    with pytest.raises(
        InvalidInputError, match=r"dataset must be one of \['a', 'b', 'c'\].* got 'd'"
    ):
        open_vectors(tmp_path / "x.npz", dataset="d")
    with pytest.raises(InvalidInputError, match=r"shape \(n, d\)"):
        open_vectors(tmp_path / "x.npz", dataset="c")


def test_a_pickle_beside_a_matrix_is_left_alone_and_refused_when_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones((2, 2)), names=np.array([["a"]], dtype=object))
    assert open_vectors(tmp_path / "x.npz").shape == (2, 2)
    with pytest.raises(InvalidInputError, match="pickle, which bitkin never loads"):
        open_vectors(tmp_path / "x.npz", dataset="names")


def test_a_sparse_archive_takes_no_dataset(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.eye(3, format="csr"))
    with pytest.raises(InvalidInputError, match="one sparse matrix: leave dataset out"):
        open_vectors(tmp_path / "x.npz", dataset="data")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello" * 100])
def test_what_is_no_archive_is_corrupt(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"x\.npz is damaged"):
        open_vectors(tmp_path / "x.npz")


def test_an_array_longer_than_its_member_is_refused_before_allocation(tmp_path: Path) -> None:
    huge = np.lib.format.header_data_from_array_1_0(np.empty((0, 4)))
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {**huge, "shape": (2**50, 4)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", out.getvalue() + bytes(1000))
    with pytest.raises(
        CorruptFileError, match=r"array 'a' must have 36028797018964096 bytes .* got 1128"
    ):
        open_vectors(tmp_path / "x.npz")


def test_a_member_that_claims_an_impossible_size_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy_bytes(np.ones((4, 4))))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    central = content.rindex(b"PK\x01\x02")
    content[central + 24 : central + 28] = struct.pack("<I", 2**31)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CorruptFileError, match="claims 2147483648 bytes packed in"):
        open_vectors(tmp_path / "x.npz")


def test_a_damaged_byte_is_noticed_by_the_checksum(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones((50, 4)))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CorruptFileError, match="CRC"):
        list(open_vectors(tmp_path / "x.npz").batches(rows=7))


def test_packing_that_numpy_never_writes_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.npy", npy_bytes(np.ones((4, 4))))
    with pytest.raises(CorruptFileError, match="packed in a way NumPy never writes"):
        open_vectors(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": b"xyz"}, "is not a sparse matrix"),
        ({"format": b"\xff\xfe"}, "is damaged"),
        ({"shape": [3]}, "is not a sparse matrix"),
        ({"shape": [3.0, 4.0]}, "is not a sparse matrix"),
        ({"shape": [3, 2**40]}, "1 to 2147483647 columns"),
        ({"shape": [-3, 4]}, "negative size"),
        ({"shape": [5, 4]}, "index pointer size"),
        ({"indices": np.array([0, 1, 4])}, "indices must be < 4"),
        ({"indices": np.array([0, -1, 2])}, "indices must be >= 0"),
        ({"indices": np.array([0.0, 1.0, 2.0])}, "must hold whole numbers in indices, indptr"),
        ({"indptr": np.array([0, 2, 1, 3])}, "non-decreasing"),
        ({"indptr": np.array([0, 3, 3, 2**64 - 1], dtype=np.uint64)}, "damaged"),
        ({"indptr": np.array([0, 1, 2, 9])}, "Last value of index pointer"),
        ({"data": np.ones(2)}, "same size"),
        ({"data": np.ones((3, 1))}, "1-D"),
        ({"format": b"csc"}, "index pointer size"),
        ({"format": b"dia"}, r"lacks \['offsets'\]"),
        ({"format": b"coo"}, r"lacks \['col', 'row'\]"),
        ({"format": b"coo", "row": np.array([0, 1, 9]), "col": np.array([0, 1, 2])}, "damaged"),
    ],
)
def test_a_sparse_matrix_that_cannot_be_is_corrupt(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", **sparse_parts(**changes))
    with pytest.raises(CorruptFileError, match=words):
        open_vectors(tmp_path / "x.npz")


def test_sparse_text_is_refused_as_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **sparse_parts(data=np.array(["a", "b", "c"])))
    with pytest.raises(InvalidInputError, match="got text"):
        open_vectors(tmp_path / "x.npz")


def test_more_rows_than_memory_holds_are_refused_before_allocation(tmp_path: Path) -> None:
    parts = sparse_parts(
        format=b"coo", shape=[2**55, 4], row=np.array([0, 1, 2]), col=np.array([0, 1, 2])
    )
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(
        FileTooLargeError, match=r"x\.npz needs \d+ bytes in memory, this machine has"
    ):
        open_vectors(tmp_path / "x.npz")


FALL = np.array([0, 2**63 - 1, -(2**63) + 5000, 8])
"""Falls so deep that the differences of neighbours overflow, and are positive."""


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_offsets_that_fall_by_more_than_an_int64_are_corrupt(kind: str, tmp_path: Path) -> None:
    data = np.ones((8, 1, 1)) if kind == "bsr" else np.ones(8)
    parts: dict[str, Any] = {
        "format": kind.encode(),
        "shape": (3, 3),
        "data": data,
        "indices": np.arange(8) % 3,
        "indptr": FALL,
    }
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(CorruptFileError, match=r"x\.npz is damaged.*non-decreasing"):
        open_vectors(tmp_path / "x.npz")
    matrix = getattr(scipy.sparse, f"{kind}_array")((3, 3))
    matrix.data, matrix.indices, matrix.indptr = data, np.arange(8) % 3, FALL
    with pytest.raises(InvalidInputError, match=r"not a valid sparse matrix.*non-decreasing"):
        open_vectors(matrix)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (np.ones((2, 0, 0)), (4, 4)),
        (np.ones((0, 0, 1)), (4, 4)),
        (np.ones((2, 2, 2)), (5, 4)),
        (np.ones((2, 2, 2)), (4, 5)),
        (np.ones((2, 2)), (4, 4)),
    ],
)
def test_blocks_that_do_not_fill_a_matrix_are_corrupt(
    data: Any, shape: Any, tmp_path: Path
) -> None:
    parts = {"format": b"bsr", "shape": shape, "data": data, "indices": [0, 1], "indptr": [0, 1, 2]}
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(CorruptFileError, match=r"x\.npz is damaged"):
        open_vectors(tmp_path / "x.npz")


def test_diagonals_outside_of_the_matrix_count_for_nothing(tmp_path: Path) -> None:
    offsets = np.array([0, 1, 4, -3, 2**31 - 1, -(2**31) + 1])
    data = np.arange(1.0, 25.0).reshape(6, 4)
    np.savez(tmp_path / "x.npz", format=b"dia", shape=(3, 4), data=data, offsets=offsets)
    truth = np.zeros((3, 4))
    for row in range(3):
        for column in range(4):
            for numbers, offset in zip(data, offsets, strict=True):
                truth[row, column] += numbers[column] if column - row == offset else 0
    source = open_vectors(tmp_path / "x.npz")
    assert np.array_equal(source.gather([0, 1, 2]).toarray(), truth)
    np.savez(tmp_path / "x.npz", format=b"dia", shape=(3, 4), data=data[:1], offsets=[2**40])
    with pytest.raises(CorruptFileError, match=r"offsets of diagonals must be below 2\*\*31"):
        open_vectors(tmp_path / "x.npz")


def bomb(kind: str, n: int) -> dict[str, Any]:
    """A sparse matrix of n rows of which next to none has an entry."""
    three = np.array([0, 1, 2])
    return {
        "coo": {"format": b"coo", "shape": (n, 6), "data": np.ones(3), "row": three, "col": three},
        "csc": {
            "format": b"csc",
            "shape": (n, 2),
            "data": np.ones(3),
            "indices": three,
            "indptr": [0, 1, 3],
        },
        "bsr": {
            "format": b"bsr",
            "shape": (n, 1),
            "data": np.ones((0, n, 1)),
            "indices": three[:0],
            "indptr": [0, 0],
        },
        "dia": {"format": b"dia", "shape": (n, 6), "data": np.ones((1, 3)), "offsets": [0]},
    }[kind]


@pytest.mark.parametrize("kind", ["coo", "csc", "bsr", "dia"])
def test_rows_that_are_only_announced_take_no_memory(kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **bomb(kind, 2**31 - 1))

    def read() -> None:
        with pytest.raises(
            InvalidInputError,
            match=r"x\.npz announces 2,147,483,647 rows, almost all of them empty",
        ):
            open_vectors(tmp_path / "x.npz")

    assert peak_of(read) < 2_000_000


@pytest.mark.parametrize("kind", ["coo", "csc", "bsr", "dia"])
def test_a_million_rows_almost_all_empty_are_read(kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **bomb(kind, 1_000_000))
    source = open_vectors(tmp_path / "x.npz")
    assert source.shape[0] == 1_000_000
    assert source.gather([999_999]).nnz == 0


def test_memory_that_the_system_does_not_give_is_a_file_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "x.npz", **sparse_parts())

    def refuse(*args: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("bitkin.io.vectors.files.zip_arrays.np.empty", refuse)
    with pytest.raises(
        FileTooLargeError, match=r"x\.npz, array 'shape' needs 16 bytes in memory\."
    ):
        open_vectors(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("dtype", ["<f2", ">f2"])
def test_sparse_half_precision_is_widened(kind: str, dtype: str, tmp_path: Path) -> None:
    truth = np.array([[0, 1.5, 0], [2, 0, -3], [0, 0, 0.1]])
    out = io.BytesIO()
    scipy.sparse.save_npz(out, scipy.sparse.coo_array(truth).asformat(kind))
    out.seek(0)
    with np.load(out) as parts:
        np.savez(tmp_path / "x.npz", **{**parts, "data": parts["data"].astype(dtype)})
    source = open_vectors(tmp_path / "x.npz")
    assert source.dtype == np.float32
    assert [first for first, _ in source.batches(rows=2)] == [0, 2]
    assert np.array_equal(source.gather([2, 0, 1]).toarray(), truth[[2, 0, 1]].astype(np.float16))
    if kind in ("csr", "csc"):
        matrix = scipy.sparse.coo_array(truth).asformat(kind)
        matrix.data = matrix.data.astype(dtype)
        assert np.array_equal(
            open_vectors(matrix).gather([1, 2]).toarray(), truth[1:].astype(np.float16)
        )
        assert matrix.dtype == dtype
