"""FAISS: a projection hash as a linear transform, codes and indexes as binary indexes, and back."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bitkin.codes import Codes
from bitkin.errors import InvalidInputError, MissingExtraError
from bitkin.hashers.projection.given import hasher_from_directions
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.index.base import RowIndex
from bitkin.index.flat import FlatIndex
from bitkin.interop.faiss_rows import read_rows

_BIAS_ERROR = 1e-5  # relative: what float32 may leave


def to_faiss(source: ProjectionHash | Codes | RowIndex) -> Any:
    """Return a `faiss.LinearTransform` for a fitted projection hash, a `faiss.IndexBinaryFlat` for
    codes, a `faiss.IndexBinaryIDMap` of one for an index.

    The signs of what the transform returns are the hasher's bits, but for the rounding of
    projections near 0; where the hasher subtracts a mean it is a `faiss.PCAMatrix`, which is a
    linear transform that keeps the mean, also in a file. FAISS counts bits, so codes must have one
    bit per symbol, a multiple of 8 of them, and no empty rows; they stand there as `Codes.to_bytes`
    lays them out, in their order, or in that of their ids.
    """
    if isinstance(source, Codes):
        return _index_from_codes(source)
    if isinstance(source, RowIndex):
        return _index_with_ids(source)
    if isinstance(source, ProjectionHash):
        return _transform_from_hasher(source)
    raise InvalidInputError(
        "to_faiss takes a fitted ProjectionHash, Codes or an index such as FlatIndex, got "
        f"{type(source).__name__}."
    )


def from_faiss(source: Any) -> Any:
    """Return the `ProjectionHash` whose bits are the signs of a trained transform, the `Codes` of a
    flat index, or a `FlatIndex` of the codes and ids of another one.

    Transforms: `LinearTransform` and what derives from it (`PCAMatrix`, `ITQMatrix`, `OPQMatrix`,
    …), and `ITQTransform`. The hasher is fitted; it cannot be fitted again, for its directions
    were not found here. What `to_faiss` made of a hasher comes back with its fingerprint.

    Indexes: `IndexBinaryFlat` gives codes, in their order. `IndexBinaryIVF`, `IndexBinaryHNSW`,
    `IndexBinaryMultiHash`, and `IndexBinaryIDMap` and `IndexBinaryIDMap2` of any of these give a
    `FlatIndex` with the ids that their searches return. Codes have no fingerprint: FAISS does not
    know where they come from.

    The bytes of codes are taken as they are. FAISS's own sign codes (`IndexLSH`) fill a byte from
    its lowest bit, so they compare among themselves and not with codes made here.
    """
    faiss = _import_faiss()
    if isinstance(source, faiss.IndexBinary):
        index = faiss.downcast_IndexBinary(source)
        packed, ids = read_rows(faiss, index)
        codes = Codes.from_bytes(packed, index.d)
        if type(index) is faiss.IndexBinaryFlat:
            return codes
        made = FlatIndex(codes.spec)
        made.add(codes, ids)
        return made
    if isinstance(source, faiss.VectorTransform):
        return _hasher_from_transform(faiss, faiss.downcast_VectorTransform(source))
    raise InvalidInputError(
        "from_faiss takes a LinearTransform, an ITQTransform or a binary index such as "
        f"IndexBinaryFlat, got {type(source).__name__}."
    )


def _import_faiss() -> Any:
    try:
        return importlib.import_module("faiss")
    except ImportError:
        raise MissingExtraError(
            "FAISS objects need faiss, which is not installed: pip install 'bitkin[faiss]'"
        ) from None


def _index_from_codes(codes: Codes) -> Any:
    if codes.spec.bits_per_symbol != 1:
        raise InvalidInputError(
            f"codes must have 1 bit a symbol, got {codes.spec}: FAISS counts bits that differ, not "
            "symbols."
        )
    if codes.spec.n_symbols % 8:
        raise InvalidInputError(
            f"codes must have a multiple of 8 bits, got {codes.spec.n_symbols}: IndexBinaryFlat "
            "takes whole bytes."
        )
    if codes.empty is not None:
        raise InvalidInputError(
            f"codes must have no empty rows, got {int(codes.empty.sum())}: FAISS would find them. "
            "Take codes[~codes.empty]."
        )
    index = _import_faiss().IndexBinaryFlat(codes.spec.n_symbols)
    if len(codes):
        index.add(np.ascontiguousarray(codes.to_bytes()))
    return index


def _index_with_ids(index: RowIndex) -> Any:
    rows = index.snapshot  # one moment for ids and codes
    ids = rows.ids()
    flat = _index_from_codes(rows.codes(ids))
    faiss = _import_faiss()
    mapped = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(index.spec.n_symbols))
    if len(ids):
        mapped.add_with_ids(faiss.vector_to_array(flat.xb).reshape(len(ids), -1), ids)
    return mapped


def _transform_from_hasher(hasher: ProjectionHash) -> Any:
    check_is_fitted(hasher)
    if hasher.model_.normalize:
        raise InvalidInputError(
            "The hasher must have normalize=False: a LinearTransform does not scale rows. Call "
            "faiss.normalize_L2 on the rows, and fit a hasher without normalizing on such rows."
        )
    faiss = _import_faiss()
    n_features, n_bits = hasher.components_.shape
    if hasher.mean_ is None:
        transform = faiss.LinearTransform(n_features, n_bits, False)
    else:
        # A bias tells the mean along the directions only; a PCAMatrix keeps all of it.
        transform = faiss.PCAMatrix(n_features, n_bits)
        parts = _split_mean(hasher.mean_)
        faiss.copy_array_to_vector(parts[0], transform.mean)
        if parts[1:].any():
            faiss.copy_array_to_vector(parts[1:].ravel(), transform.eigenvalues)
        faiss.copy_array_to_vector(-hasher.model_.offset, transform.b)
        transform.have_bias = True
    faiss.copy_array_to_vector(np.ascontiguousarray(hasher.components_.T).ravel(), transform.A)
    transform.is_trained = True
    transform.set_is_orthonormal()
    return transform


def _hasher_from_transform(faiss: Any, transform: Any) -> ProjectionHash:
    name = type(transform).__name__
    if not isinstance(transform, (faiss.LinearTransform, faiss.ITQTransform)):
        raise InvalidInputError(
            f"from_faiss takes a LinearTransform or an ITQTransform, got {name}: it is not linear."
        )
    if not transform.is_trained:
        raise InvalidInputError(f"The {name} must be trained first.")
    if isinstance(transform, faiss.ITQTransform):
        # It also scales the centred rows to length 1, which no sign depends on.
        matrix = _read_matrix(faiss, transform.pca_then_itq)
        mean = faiss.vector_to_array(transform.mean)
    else:
        matrix = _read_matrix(faiss, transform)
        mean = _find_mean(faiss, transform, matrix) if transform.have_bias else None
    if not (np.isfinite(matrix).all() and (mean is None or np.isfinite(mean).all())):
        raise InvalidInputError(f"The {name} must have finite numbers only, got NaN or infinity.")
    return hasher_from_directions(matrix.T, mean)


def _read_matrix(faiss: Any, transform: Any) -> npt.NDArray[np.float32]:
    numbers: npt.NDArray[np.float32] = faiss.vector_to_array(transform.A)
    if numbers.size != transform.d_in * transform.d_out or not numbers.size:
        raise InvalidInputError(
            f"The {type(transform).__name__} must have a matrix of {transform.d_out} × "
            f"{transform.d_in} numbers, got {numbers.size} numbers."
        )
    return numbers.reshape(transform.d_out, transform.d_in)


def _split_mean(mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return three float32 numbers for every one of a mean, which add up to it exactly: most means
    are float32 numbers, and the second and third are 0.
    """
    first = mean.astype(np.float32)
    second = (mean - first).astype(np.float32)
    return np.stack([first, second, (mean - first - second).astype(np.float32)])


def _kept_mean(faiss: Any, transform: Any) -> npt.NDArray[np.float64]:
    """Return the mean of a PCAMatrix. One made here has what float32 leaves of it where FAISS has
    eigenvalues, which are never as many.
    """
    mean: npt.NDArray[np.float64] = faiss.vector_to_array(transform.mean).astype(np.float64)
    rest = faiss.vector_to_array(transform.eigenvalues).astype(np.float64)
    if rest.size == 2 * mean.size:
        second, third = rest.reshape(2, -1)
        mean = mean + second + third
    return mean


def _find_mean(
    faiss: Any, transform: Any, matrix: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return the mean whose projection is minus the bias: the one a PCA keeps, else the
    shortest.
    """
    wide, bias = matrix.astype(np.float64), faiss.vector_to_array(transform.b).astype(np.float64)
    candidates: list[npt.NDArray[np.float64]] = [np.linalg.lstsq(wide, -bias, rcond=None)[0]]
    if isinstance(transform, faiss.PCAMatrix):
        candidates.insert(0, _kept_mean(faiss, transform))
    for mean in candidates:
        # A·mean + b is 0 but for the rounding of A, mean and b in float32.
        allowed = _BIAS_ERROR * (np.abs(wide) @ np.abs(mean) + np.abs(bias))
        if (np.abs(wide @ mean + bias) <= allowed).all():
            return mean
    raise InvalidInputError(
        f"The {type(transform).__name__} adds a bias that no mean of the rows explains (A · mean = "
        "−b has no solution), and a ProjectionHash has a mean only."
    )
