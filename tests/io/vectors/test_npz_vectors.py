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
        InvalidInputError, match=r"one 2-D array, got 2\. Name one with dataset=; it has \['a', 'b', 'c'\]"
    ):
        open_vectors(tmp_path / "x.npz")
    with pytest.raises(InvalidInputError, match=r"dataset must be one of \['a', 'b', 'c'\].* got 'd'"):
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
    with pytest.raises(CorruptFileError, match=r"array 'a' must have 36028797018964096 bytes .* got 1128"):
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
def test_a_sparse_matrix_that_cannot_be_is_corrupt(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **sparse_parts(**changes))
    with pytest.raises(CorruptFileError, match=words):
        open_vectors(tmp_path / "x.npz")


def test_sparse_text_is_refused_as_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **sparse_parts(data=np.array(["a", "b", "c"])))
    with pytest.raises(InvalidInputError, match="got text"):
        open_vectors(tmp_path / "x.npz")


def test_more_rows_than_memory_holds_are_refused_before_allocation(tmp_path: Path) -> None:
    parts = sparse_parts(format=b"coo", shape=[2**55, 4], row=np.array([0, 1, 2]), col=np.array([0, 1, 2]))
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(FileTooLargeError, match=r"x\.npz needs \d+ bytes in memory, this machine has"):
        open_vectors(tmp_path / "x.npz")
