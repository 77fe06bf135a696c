"""What the service and its clients say to each other: vectors as text, and errors by name.

Vectors are lists of numbers, or `{"float32": text}`: the rows one after another, little-endian, in
base64. That is a third more than the bytes themselves, and read many times faster than decimal
numbers. CSR rows are `{"csr": {"indptr", "indices", "values"}}`, int64, int32 and float32. Beside
either stands `n_features`, so that two rows of 3 numbers are never taken for one of 6.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import errors
from bitkin.arrays import Batch
from bitkin.checks import are_offsets, shown
from bitkin.errors import BitkinError, InvalidInputError

FLOAT32, CSR = "float32", "csr"
"""The keys of vectors in base64."""
PROBLEM_TYPE = "application/problem+json"
BINARY_TYPE = "application/octet-stream"
LINES_TYPE = "application/x-ndjson"
JSON_TYPE = "application/json"

# Errors that mean on the caller's side what they mean on ours; others are told in words.
_NAMED = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, BitkinError)
}


def pack_vectors(vectors: Any) -> dict[str, Any]:
    """Return a matrix of numbers, or a CSR matrix, as JSON holds it in the least time.

    Examples
    --------
    >>> pack_vectors(np.array([[0.5, 1.0]]))
    {'float32': 'AAAAPwAAgD8=', 'n_features': 2}
    """
    if issparse(vectors):
        rows = csr_array(vectors)
        packed = {
            "indptr": _encode(rows.indptr, "<i8"),
            "indices": _encode(rows.indices, "<i4"),
            "values": _encode(rows.data, "<f4"),
        }
        return {CSR: packed, "n_features": int(rows.shape[1])}
    dense = np.asarray(vectors)
    return {FLOAT32: _encode(dense, "<f4"), "n_features": int(dense.shape[1])}


def unpack_vectors(packed: dict[str, Any], n_features: int, name: str = "vectors") -> Batch:
    """Return the matrix that `pack_vectors` packed; raise where it is none of so many columns.

    Examples
    --------
    >>> unpack_vectors({"float32": "AAAAPwAAgD8="}, 2)
    array([[0.5, 1. ]], dtype=float32)
    """
    unknown = packed.keys() - {FLOAT32, CSR, "n_features"}
    if unknown or len(packed.keys() & {FLOAT32, CSR}) != 1:
        raise InvalidInputError(
            f"{name} must be an object of {FLOAT32!r} or {CSR!r}, and perhaps 'n_features', got "
            f"{shown(packed)}."
        )
    told = packed.get("n_features")
    if told is not None and (type(told) is not int or told != n_features):
        raise InvalidInputError(f"{name} must have {n_features} columns, got {shown(told)}.")
    if FLOAT32 in packed:
        data = _decode(packed[FLOAT32], f"{name}.{FLOAT32}")
        return rows_from_bytes(data, n_features, f"{name}.{FLOAT32}")
    parts = packed[CSR]
    if not isinstance(parts, dict) or parts.keys() != {"indptr", "indices", "values"}:
        raise InvalidInputError(
            f"{name}.{CSR} must be an object of 'indptr', 'indices' and 'values', got "
            f"{shown(parts)}."
        )
    return _csr_of(
        _numbers(parts["indptr"], "<i8", f"{name}.{CSR}.indptr"),
        _numbers(parts["indices"], "<i4", f"{name}.{CSR}.indices"),
        _numbers(parts["values"], "<f4", f"{name}.{CSR}.values"),
        n_features,
        f"{name}.{CSR}",
    )


def _csr_of(indptr: Any, indices: Any, values: Any, n_features: int, name: str) -> Batch:
    n_values = len(values)
    if (
        len(indptr) < 2
        or not are_offsets(indptr, n_values)
        or len(indices) != n_values
        or (n_values and not 0 <= int(indices.min()) <= int(indices.max()) < n_features)
    ):
        raise InvalidInputError(
            f"{name} must be the parts of a CSR matrix of {n_features} columns with a row at "
            f"least, got {len(indptr)} ends of rows, {len(indices)} columns and {n_values} values."
        )
    rows: Batch = csr_array((values, indices, indptr), shape=(len(indptr) - 1, n_features))
    rows.sum_duplicates()
    return rows


def _encode(numbers: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")


def _decode(text: Any, name: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be base64 text, got {shown(text)}.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(f"{name} must be base64 text: {error}.") from None


def _numbers(text: Any, kind: str, name: str) -> npt.NDArray[Any]:
    data, dtype = _decode(text, name), np.dtype(kind)
    if len(data) % dtype.itemsize:
        raise InvalidInputError(
            f"{name} must be whole numbers of {dtype.itemsize} bytes, got {len(data)} bytes."
        )
    return np.frombuffer(data, dtype=dtype).astype(dtype.newbyteorder("="), copy=True)


def rows_from_bytes(data: bytes, n_features: int, name: str) -> npt.NDArray[np.float32]:
    """Return little-endian float32 bytes as rows of so many numbers; raise where they are no whole
    rows.
    """
    if not data or len(data) % (4 * n_features):
        raise InvalidInputError(
            f"{name} must be whole rows of {n_features} float32 numbers, {4 * n_features} bytes "
            f"each, got {len(data)} bytes."
        )
    return np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False).reshape(-1, n_features)


def error_named(name: Any, message: str) -> BitkinError | None:
    """Return the error that a problem names, None where bitkin has none of that name.

    Examples
    --------
    >>> error_named("DuplicateIdError", "ids must be new.")
    DuplicateIdError('ids must be new.')
    """
    kind = _NAMED.get(name) if isinstance(name, str) else None
    return None if kind is None else kind(message)
