"""Vectors as they lie in the database: one blob per row.

float32 and float16 are their numbers, little-endian; int8 is the scale of the row (float32) and its
steps; csr is all values (float32) and then all columns (int32).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.arrays import Batch
from bitkin.collection.rows import Pieces
from bitkin.collection.vectors import StagedVectors
from bitkin.errors import CorruptFileError
from bitkin.io.vectors.batch import plain_batch

_SCALE_BYTES = 4
_ENTRY_BYTES = 8  # of a sparse row: a value and its column
_BLOBS_AT_ONCE = 4096


def blobs_of(kind: str, staged: StagedVectors) -> Iterator[bytes]:
    """Yield what is stored of every accepted row, in order; none are left in `staged`."""
    if not staged.columns:
        return
    if kind == "csr":
        values, columns, counts = map(_joined, staged.columns)
        ends = np.cumsum(counts).tolist()
        first = 0
        for end in ends:
            yield values[first:end].tobytes() + columns[first:end].astype("<i4").tobytes()
            first = end
    elif kind == "int8":
        steps, scales = staged.columns
        of_scales, of_steps = _blobs_of_pieces(scales), _blobs_of_pieces(steps)
        yield from map(operator.add, of_scales, of_steps)
    else:
        yield from _blobs_of_pieces(staged.columns[0])


def vector_bytes(kind: str | None, n_features: int | None) -> int:
    """Return the bytes of a stored vector, 0 where there is none, or they differ."""
    if kind is None or n_features is None or kind == "csr":
        return 0
    return n_features * np.dtype(kind).itemsize + (_SCALE_BYTES if kind == "int8" else 0)


def vectors_from(kind: str, n_features: int, blobs: Sequence[bytes], name: str) -> Batch:
    """Return stored vectors as they are measured: the kind's own numbers, float32 for int8, CSR for
    csr. `name` is of the file, for what cannot be a vector.
    """
    if kind == "csr":
        return _sparse_from(n_features, blobs, name)
    width = vector_bytes(kind, n_features)
    data = b"".join(blobs)
    if len(data) != width * len(blobs) or set(map(len, blobs)) - {width}:
        raise _no_vector(name)
    if kind != "int8":
        numbers = np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<"))
        return numbers.reshape(len(blobs), n_features)
    rows = np.frombuffer(data, dtype=np.uint8).reshape(len(blobs), width)
    scales = np.ascontiguousarray(rows[:, :_SCALE_BYTES]).view("<f4")
    return np.ascontiguousarray(rows[:, _SCALE_BYTES:]).view(np.int8) * scales


def _sparse_from(n_features: int, blobs: Sequence[bytes], name: str) -> Batch:
    counts = np.array([len(blob) // _ENTRY_BYTES for blob in blobs], dtype=np.int64)
    if any(len(blob) % _ENTRY_BYTES for blob in blobs):
        raise _no_vector(name)
    ends = np.concatenate([[0], np.cumsum(counts)])
    values = b"".join(blob[: len(blob) // 2] for blob in blobs)
    columns = np.frombuffer(b"".join(blob[len(blob) // 2 :] for blob in blobs), dtype="<i4")
    if len(columns) and not (0 <= columns.min() and columns.max() < n_features):
        raise _no_vector(name)
    parts = (np.frombuffer(values, dtype="<f4"), columns, ends)
    shape = (len(blobs), n_features)
    return plain_batch(csr_array(parts, shape=shape), np.dtype(np.float32))


def _no_vector(name: str) -> CorruptFileError:
    return CorruptFileError(
        f"{name} holds a vector of another length than the collection has. Restore a backup."
    )


def _joined(pieces: Pieces) -> npt.NDArray[Any]:
    return np.concatenate(list(pieces.drain()))


def _blobs_of_pieces(pieces: Pieces) -> Iterator[bytes]:
    return itertools.chain.from_iterable(map(row_blobs, pieces.drain()))


def row_blobs(array: npt.NDArray[Any]) -> Iterator[bytes]:
    """Yield the bytes of every row of an array, few rows at a time: they are copies."""
    some = range(0, len(array), _BLOBS_AT_ONCE)
    return itertools.chain.from_iterable(
        _as_blobs(array[first : first + _BLOBS_AT_ONCE]) for first in some
    )


def _as_blobs(array: npt.NDArray[Any]) -> list[bytes]:
    rows = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    width = rows.nbytes // len(rows)
    blobs: list[bytes] = rows.reshape(-1).view(np.uint8).view(f"V{width}").tolist()
    return blobs
