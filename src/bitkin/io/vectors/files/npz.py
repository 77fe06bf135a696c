"""Vectors in .npz archives: one dense array, or one sparse matrix of `scipy.sparse.save_npz`.

A dense array in C order is unpacked a batch at a time; a sparse matrix is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import Stamp, failure_is_corruption
from bitkin.io.vectors.files.fixed_rows import Readable
from bitkin.io.vectors.files.npy import NpyRows
from bitkin.io.vectors.files.npy_header import NpyHeader
from bitkin.io.vectors.files.zip_arrays import ZipArrays, ZipMember
from bitkin.io.vectors.limits import require_fits_memory
from bitkin.io.vectors.rows import as_rows, checked_csr, is_half, number_dtype, row_shape
from bitkin.io.vectors.stored import ArraySource, StoredSource

_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "dia": ("data", "offsets"),
    "coo": ("data", "row", "col"),
}
_FEW_ROWS = 1 << 22  # take 32 MB as CSR, however empty they are
# of the file: an entry, of 12 bytes and more before it is packed, may come with dozens of empty
# rows
_ROWS_A_BYTE = 8


def open_npz(path: Path, dataset: str | None = None, batch_rows: int | None = None) -> StoredSource:
    """Open the sparse matrix, the only 2-D array, or the array named `dataset` of an .npz
    archive.
    """
    with ZipArrays(path) as archive:
        if {"format", "shape", "data"} <= set(archive.keys):
            if dataset is not None:
                raise InvalidInputError(
                    f"{path} holds one sparse matrix: leave dataset out, got {dataset!r}."
                )
            return ArraySource(_sparse_matrix(archive), str(path), batch_rows)
        key = _only_matrix(archive) if dataset is None else dataset
        header = archive.header(key)
        # unpacking runs forwards only, and would start over for every column
        if header.fortran_order:
            return ArraySource(
                as_rows(archive.array(key), f"{path}, array {key!r}"), str(path), batch_rows
            )
        return NpzRows(path, archive.stamp, header, key, batch_rows)


class NpzRows(NpyRows):
    """A dense array of an .npz archive, unpacked as it is read."""

    _has_offsets = False

    def __init__(
        self, path: Path, stamp: Stamp, header: NpyHeader, key: str, batch_rows: int | None = None
    ) -> None:
        super().__init__(path, stamp, header, batch_rows)
        self._key = key

    def _open(self) -> AbstractContextManager[Readable]:
        return self._open_member()

    @contextmanager
    def _open_member(self) -> Iterator[Readable]:
        with ZipArrays(self._path, self._stamp) as archive, ZipMember(archive, self._key) as member:
            yield member


def _only_matrix(archive: ZipArrays) -> str:
    found = []
    for key in archive.keys:
        try:
            if len(archive.header(key).shape) == 2:
                found.append(key)
        # objects or records: not vectors, and no reason to refuse the others
        except InvalidInputError:
            continue
    if len(found) != 1:
        raise InvalidInputError(
            f"{archive.path} must hold one 2-D array, got {len(found)}. Name one with dataset=; it "
            f"has {archive.keys}."
        )
    return found[0]


def _sparse_matrix(archive: ZipArrays) -> scipy.sparse.csr_array:
    """Rebuild what `save_npz` saved, every index checked before SciPy's loops see it."""
    path = archive.path
    shape = archive.array("shape")
    with failure_is_corruption(path, ValueError):
        kind = "".join(archive.array("format").reshape(-1)[:1].astype("U").tolist())
    if kind not in _SPARSE_PARTS or shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise CorruptFileError(f"{path} is not a sparse matrix of scipy.sparse.save_npz.")
    n, d = row_shape(tuple(shape.tolist()), str(path), CorruptFileError)
    names = (
        ("data", "coords") if kind == "coo" and "coords" in archive.keys else _SPARSE_PARTS[kind]
    )
    if missing := set(names) - set(archive.keys):
        raise CorruptFileError(
            f"{path} lacks {sorted(missing)} of a sparse matrix in {kind} format."
        )
    require_fits_memory(
        8 * (n + 1) + sum(archive.header(name).n_bytes for name in names), str(path)
    )
    if kind != "csr":  # which has a number for every row
        _require_file_for_rows(n, archive.stamp.size, kind, str(path))
    data, *places = map(archive.array, names)
    number_dtype(data.dtype, str(path))
    data = data.astype(np.float32) if is_half(data.dtype) else data
    if any(place.dtype.kind not in "iu" for place in places):
        raise CorruptFileError(f"{path} must hold whole numbers in {', '.join(names[1:])}.")
    failures = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, RuntimeError)
    with failure_is_corruption(path, *failures):
        if kind == "dia" and places[0].size and np.abs(places[0].astype(np.float64)).max() >= 2**31:
            # SciPy would cut them to 32 bits
            raise ValueError("offsets of diagonals must be below 2**31")
        parts: tuple[Any, ...] = (data, *places)
        if kind == "coo":
            parts = (data, tuple(places[0] if names[1] == "coords" else places))
        return checked_csr(getattr(scipy.sparse, f"{kind}_array")(parts, shape=(n, d)))


def _require_file_for_rows(n: int, n_bytes: int, kind: str, name: str) -> None:
    """Raise where rows are only announced: as CSR every one of them takes memory, and a small file
    must not fill it.
    """
    if n > max(_FEW_ROWS, _ROWS_A_BYTE * n_bytes):
        raise InvalidInputError(
            f"{name} announces {n:,} rows, almost all of them empty, in a file of {n_bytes:,} "
            f"bytes. Save it in CSR format instead of {kind}, or leave empty rows out."
        )
