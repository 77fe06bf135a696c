"""What the formulas take: each check returns what it checked, as an array or a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.rows import number_dtype

Integers = npt.NDArray[np.int64]


def check_vector_pair(
    x: npt.ArrayLike, y: npt.ArrayLike
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return two vectors of the same length."""
    a, b = check_vector(x, "x"), check_vector(y, "y")
    if len(a) != len(b):
        raise InvalidInputError(
            f"x and y must have the same number of features, got {len(a)} and {len(b)}."
        )
    return a, b


def check_vector(value: Any, name: str) -> npt.NDArray[Any]:
    """Return `value` as a 1-D array of finite numbers, at least one."""
    if issparse(value):
        raise InvalidInputError(
            f"{name} must be a dense vector, got a sparse one. Pass {name}.toarray().ravel()."
        )
    array = to_numbers(value, name)
    if array.ndim != 1 or len(array) == 0:
        raise InvalidInputError(
            f"{name} must be one vector of at least one number, got shape {array.shape}."
        )
    array = array.astype(number_dtype(array.dtype, name), copy=False)
    bad = ~np.isfinite(array)
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidInputError(
            f"{name} must be finite, got {array[at]} at position {at}. Drop or replace it first."
        )
    return array


def check_dense_rows(value: Any, name: str) -> Floats:
    """Return `value` as a 2-D float64 array of finite numbers, at least one."""
    if issparse(value):
        raise InvalidInputError(
            f"{name} must be a dense array, got a sparse one. Pass {name}.toarray()."
        )
    array = to_numbers(value, name).astype(np.float64)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(
            f"{name} must have shape (n, m), one vector a row, got {array.shape}."
        )
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidInputError(
            f"{name} must be finite, got {array[row, column]} at row {row}, column {column}."
        )
    return array


def check_indices(value: Any, name: str, size: int) -> Integers:
    """Return `value` as different whole numbers from 0 to `size` − 1, at least one."""
    array = check_whole_numbers(value, name, low=0, high=size - 1)
    if array.ndim != 1 or array.size == 0 or len(np.unique(array)) < array.size:
        raise InvalidInputError(
            f"{name} must be a list of different whole numbers, at least one, got {value!r}."
        )
    return array


def check_above_zero(value: Any, name: str, below: float = np.inf) -> float:
    """Return `value` as a float above 0 and below `below`."""
    array = to_numbers(value, name)
    if array.ndim or not 0 < array < below:
        raise InvalidInputError(
            f"{name} must be a number above 0 and below {below}, got {value!r}."
        )
    return float(array)


def check_chances(value: Any, name: str) -> Floats:
    """Return `value` as float64 numbers from 0 to 1."""
    array = to_numbers(value, name).astype(np.float64)
    outside = ~((array >= 0) & (array <= 1))  # NaN is outside too
    if outside.any():
        raise InvalidInputError(f"{name} must be from 0 to 1, got {array[outside].flat[0]}.")
    return array


def check_whole_numbers(value: Any, name: str, *, low: int, high: int | None = None) -> Integers:
    """Return `value` as whole numbers between `low` and `high`."""
    array = to_numbers(value, name)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be whole numbers, got {value!r}.")
    for extreme in (array.min(), array.max()) if array.size else ():
        whole_number(extreme, name, low=low, high=high)
    return array


def to_numbers(value: Any, name: str) -> npt.NDArray[Any]:
    """Return `value` as an array of real numbers of any shape."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{name} has masked entries. Fill them first, with .filled(value).")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as failure:
        raise InvalidInputError(
            f"{name} cannot become an array of numbers. NumPy: {failure}"
        ) from failure
    number_dtype(array.dtype, name)
    return array
