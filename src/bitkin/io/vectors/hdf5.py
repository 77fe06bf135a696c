"""Vectors in .h5 and .hdf5 files: one 2-D dataset. Needs h5py."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.io.vectors.batch import Batch, Span
from bitkin.io.vectors.limits import load_extra
from bitkin.io.vectors.rows import number_dtype, row_shape
from bitkin.io.vectors.stable import failure_is_corruption, require_same_stamp, stamp_of
from bitkin.io.vectors.stored import StoredSource

# A chunk of rows larger than the cache would be unpacked again for every batch in it; h5py's own is 1 MB.
CHUNK_CACHE = 32 * 2**20


class Hdf5Rows(StoredSource):
    """The rows of one 2-D dataset, read a batch at a time."""

    def __init__(self, path: Path, dataset: str | None = None, batch_rows: int | None = None) -> None:
        name = str(path)
        self._stamp = stamp_of(path)
        with _open_hdf5(path) as file:
            self._key = _only_matrix(file, name) if dataset is None else dataset
            found = _dataset(file, self._key, name)
            where = f"{name}, dataset {self._key!r}"
            shape = row_shape(found.shape or (), where)
            dtype = number_dtype(found.dtype, where)
            chunk_rows = found.chunks[0] if found.chunks else 1
        super().__init__(name, shape, dtype, batch_rows=batch_rows)
        self.gap = max(1, chunk_rows)
        self._path = path

    def _pieces(self, spans: Sequence[Span], rows: int) -> Generator[tuple[int, Batch], None, None]:
        require_same_stamp(self._path, stamp_of(self._path), self._stamp)
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
            if isinstance(failure, PermissionError | FileNotFoundError) or "unable to lock" in str(failure):
                raise FileAccessError(f"{path} cannot be read: {failure}.") from failure
            raise
        with file:
            yield file


def _only_matrix(file: Any, name: str) -> str:
    datasets: list[str] = []
    matrices: list[str] = []

    def note(key: str, item: Any) -> None:
        if hasattr(item, "shape"):
            datasets.append(key)
            if len(item.shape or ()) == 2:
                matrices.append(key)

    file.visititems(note)
    if len(matrices) != 1:
        raise InvalidInputError(
            f"{name} must hold one 2-D dataset, got {len(matrices)}. Name one with dataset=; it has {datasets}."
        )
    return matrices[0]


def _dataset(file: Any, key: str, name: str) -> Any:
    """Return a dataset whose numbers are in this very file."""
    if key not in file or not hasattr(file[key], "shape"):
        raise InvalidInputError(f"dataset must name a dataset of {name}, got {key!r}. It has {list(file)}.")
    found = file[key]
    # A link out of the file leads to what the user never named.
    if found.file.filename != file.filename or found.external or found.is_virtual:
        raise InvalidInputError(f"{name}, dataset {key!r} keeps its numbers in another file. Copy it into one file.")
    return found
