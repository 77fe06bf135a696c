"""Vectors in .h5 and .hdf5 files: one 2-D dataset. Needs h5py."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bitkin.arrays import Batch
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.stable import failure_is_corruption, require_same_stamp, stamp_of
from bitkin.io.vectors.batch import Span
from bitkin.io.vectors.limits import load_extra, require_honest_size
from bitkin.io.vectors.rows import number_dtype, row_shape
from bitkin.io.vectors.stored import StoredSource

# A chunk of rows larger than the cache would be unpacked again for every batch in it; h5py's own is
# 1 MB.
CHUNK_CACHE = 32 * 2**20

# HDF5 takes some 2 kB for every chunk that one reading touches, be it written or not.
_CHUNKS_AT_ONCE = 1 << 12
_MOST_CHUNKS_A_ROW = 1 << 14
_FEW_CHUNKS = 1 << 18


class Hdf5Rows(StoredSource):
    """The rows of one 2-D dataset, read a batch at a time."""

    def __init__(
        self, path: Path, dataset: str | None = None, batch_rows: int | None = None
    ) -> None:
        name = str(path)
        self._stamp = stamp_of(path)
        with _open_hdf5(path) as file:
            self._key = _only_matrix(file, name) if dataset is None else dataset
            found = _dataset(file, self._key, name)
            where = f"{name}, dataset {self._key!r}"
            shape = row_shape(found.shape or (), where)
            dtype = number_dtype(found.dtype, where)
            chunked = found.chunks is not None
            chunk_rows, across = _chunking(found)
            _require_honest_sizes(found, self._stamp.size, where)
        super().__init__(name, shape, dtype, batch_rows=batch_rows)
        self.gap = chunk_rows if chunked else 1
        # whole chunks along the rows, and no more chunks in one reading than HDF5 has memory for
        self._rows_at_once = chunk_rows * max(1, _CHUNKS_AT_ONCE // across)
        self._path = path

    def pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        """Yield slices of the dataset."""
        require_same_stamp(self._path, stamp_of(self._path), self._stamp)
        rows = min(rows, self._rows_at_once)
        with _open_hdf5(self._path) as file:
            stored = _dataset(file, self._key, self.name)
            for first, stop in spans:
                for at in range(first, stop, rows):
                    piece = stored[at : min(stop, at + rows)]
                    require_same_stamp(self._path, stamp_of(self._path), self._stamp)
                    yield at, piece


@contextmanager
def _open_hdf5(path: Path) -> Iterator[Any]:
    h5py = load_extra("h5py", ".h5 and .hdf5")
    with failure_is_corruption(path, OSError, RuntimeError, ValueError, KeyError):
        try:
            file = h5py.File(path, "r", rdcc_nbytes=CHUNK_CACHE)
        except OSError as failure:
            if isinstance(failure, PermissionError | FileNotFoundError) or "unable to lock" in str(
                failure
            ):
                # a file that is locked or not ours to read is not damaged
                raise FileAccessError(f"{path} cannot be read: {failure}.") from failure
            raise
        with file:
            yield file


def list_matrices(path: Path) -> list[str]:
    """Return the names of the 2-D datasets of a file."""
    stamp_of(path)
    with _open_hdf5(path) as file:
        return _find_datasets(file)[1]


def _only_matrix(file: Any, name: str) -> str:
    datasets, matrices = _find_datasets(file)
    if len(matrices) != 1:
        raise InvalidInputError(
            f"{name} must hold one 2-D dataset, got {len(matrices)}. Name one with dataset=; it "
            f"has {datasets}."
        )
    return matrices[0]


def _find_datasets(file: Any) -> tuple[list[str], list[str]]:
    """Return the names of all datasets, and of those with two dimensions."""
    datasets: list[str] = []
    matrices: list[str] = []

    def note(key: str, item: Any) -> None:
        if hasattr(item, "shape"):
            datasets.append(key)
            if len(item.shape or ()) == 2:
                matrices.append(key)

    file.visititems(note)
    return datasets, matrices


def _chunking(dataset: Any) -> tuple[int, int]:
    """Return how many rows a chunk has, and how many chunks a row; all rows are one where nothing
    is cut.
    """
    if not dataset.chunks:
        return max(1, dataset.shape[0]), 1
    return max(1, dataset.chunks[0]), -(-dataset.shape[1] // max(1, dataset.chunks[1]))


def _require_honest_sizes(dataset: Any, file_bytes: int, name: str) -> None:
    """Raise where rows, a chunk, which is unpacked whole, or the number of chunks are out of
    proportion to the file.
    """
    # Chunks that were never written take no room in a file, so both sizes may be mere claims.
    for sizes in (dataset.shape, dataset.chunks or ()):
        require_honest_size(dataset.dtype.itemsize * math.prod(sizes), file_bytes, name)
    chunk_rows, across = _chunking(dataset)
    if across > _MOST_CHUNKS_A_ROW:
        raise InvalidInputError(
            f"{name} cuts every row into {across:,} chunks, and {_MOST_CHUNKS_A_ROW:,} are the "
            "most. Write it again with larger chunks."
        )
    n_chunks = -(-dataset.shape[0] // chunk_rows) * across if dataset.chunks else 1
    if n_chunks > max(_FEW_CHUNKS, file_bytes):
        raise CorruptFileError(
            f"{name} announces {n_chunks:,} chunks in a file of {file_bytes:,} bytes: almost all "
            "of them were never written. Write it again with its own number of rows, or with "
            "larger chunks."
        )


def _dataset(file: Any, key: str, name: str) -> Any:
    """Return a dataset whose numbers are in this very file."""
    if key not in file or not hasattr(file[key], "shape"):
        raise InvalidInputError(
            f"dataset must name a dataset of {name}, got {key!r}. It has {list(file)}."
        )
    found = file[key]
    # A link out of the file leads to what the user never named.
    if found.file.filename != file.filename or found.external or found.is_virtual:
        raise InvalidInputError(
            f"{name}, dataset {key!r} keeps its numbers in another file. Copy it into one file."
        )
    return found
