"""Tables of ids, distances and relevance: arrays as a caller gave them, or files of arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.checks import require_unmasked
from bitkin.errors import InvalidInputError
from bitkin.input_files import map_npy
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import stack
from bitkin.io.vectors.files.hdf5 import list_matrices
from bitkin.io.vectors.files.zip_arrays import ZipArrays

# Arrays of an archive that hold what is asked for: as `bitkin search --out` and ann-benchmarks name
# them.
IDS = ("ids", "neighbors")
DISTANCES = ("distances",)
_RELEVANCE = ("relevant", "relevance")

_SPARSE_PARTS = {"format", "shape", "data"}  # what scipy.sparse.save_npz names its arrays


def read_table(given: Any, keys: tuple[str, ...]) -> Any:
    """Return what a caller gave; of a path, the array or the sparse matrix in that file; of a
    source, all its rows.

    An .npy file is mapped; of an .npz or HDF5 file with several arrays it is the one named by
    `keys`; .ivecs and .fvecs hold the truth of many benchmarks.
    """
    if isinstance(given, VectorSource):
        return _read_all(given)
    if not isinstance(given, (str, os.PathLike)):
        return given
    path = Path(given)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return map_npy(path)
    if suffix == ".npz":
        with ZipArrays(path) as archive:
            if not set(archive.keys) >= _SPARSE_PARTS:
                if keys is IDS and "offsets" in archive.keys:
                    raise InvalidInputError(
                        f"{path} must have as many ids for every query, and holds what bitkin "
                        "search --radius found. Search with -k instead."
                    )
                return archive.array(_choose(archive.keys, keys, path))
    dataset = _choose(list_matrices(path), keys, path) if suffix in (".h5", ".hdf5") else None
    return _read_all(open_vectors(path, dataset=dataset))


def read_relevance(given: Any) -> Any:
    """Return what a caller gave as relevance, or what is in that file."""
    table = read_table(given, _RELEVANCE)
    if table is not given and table.dtype == np.uint8:
        # as sources and most files of booleans are read
        values = table.data if scipy.sparse.issparse(table) else table
        return table.astype(bool) if values.max(initial=0) <= 1 else table
    return table


def _read_all(source: VectorSource) -> Any:
    batches = [batch for _, batch in source.batches()]
    return stack(batches) if batches else np.empty((0, source.shape[1]), dtype=source.dtype)


def to_matrix(values: Any, name: str) -> npt.NDArray[Any]:
    """Return values as a 2-dimensional array."""
    require_unmasked(values, name)
    if scipy.sparse.issparse(values):
        raise InvalidInputError(
            f"{name} must be dense, got a sparse matrix, which takes what is not stored for 0. "
            "Write .toarray()."
        )
    try:
        table = np.asarray(values)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be a matrix, got rows of different lengths."
        ) from None
    if table.ndim != 2:
        raise InvalidInputError(
            f"{name} must be 2-dimensional, got shape {table.shape}. Wrap one query in a list."
        )
    return table


def _choose(there: list[str], keys: tuple[str, ...], path: Path) -> str:
    """Return which array of a file is meant: the only one, or the first of `keys` that is there."""
    if len(there) == 1:
        return there[0]
    for key in keys:
        if key in there:
            return key
    raise InvalidInputError(
        f"{path} must hold one array, or one named {' or '.join(map(repr, keys))}, got "
        f"{sorted(there)}."
    )
