"""Argument checks shared by every room: each returns what it checked, or raises an error that names
the argument.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError, cut_text

_MOST_BITS = 200  # of a number that is written out; Python refuses to write thousands of digits
MOST_CHARACTERS = 60  # of a value in a message
_MOST_LISTED = 5  # values that a message names

# What other libraries call our metrics, kinds of vectors and indexes.
_OTHER_NAMES = {
    "angular": "cosine",
    "brute force": "flat",
    "bruteforce": "flat",
    "cos": "cosine",
    "cosine similarity": "cosine",
    "dot": "ip",
    "dot product": "ip",
    "dotproduct": "ip",
    "double": "float32",
    "euclid": "l2",
    "euclidean": "l2",
    "f2": "float16",
    "f4": "float32",
    "f8": "float32",
    "float": "float32",
    "float64": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "half": "float16",
    "inner": "ip",
    "inner product": "ip",
    "innerproduct": "ip",
    "ivf": "cells",
    "lsh": "bands",
    "mips": "ip",
    "l2sq": "l2",
    "single": "float32",
    "sparse": "csr",
    "sqeuclidean": "l2",
}


def named_path(value: Any, name: str = "path", what: str = "file") -> Path:
    """Return a path that names something; raise for what is no text or path."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError(f"{name} must name a {what}, got {shown(value)}.")
    return Path(text)


def shown(value: Any) -> str:
    """Return `value` as it is written in Python, cut to 60 characters: messages stay short,
    whatever they are about.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    if isinstance(value, (str, bytes)):
        value = value[: MOST_CHARACTERS + 1]  # whose end is not shown anyway
    try:
        text = repr(value)
    except ValueError:  # such a number within
        return f"a {type(value).__name__}"
    return cut_text(text, MOST_CHARACTERS)


def some_of(values: Sequence[Any] | npt.NDArray[Any], write: Callable[[Any], str] = str) -> str:
    """Write the first five values for a message, and how many more there are."""
    text = ", ".join(map(write, values[:_MOST_LISTED]))
    n_more = len(values) - _MOST_LISTED
    return text if n_more <= 0 else f"{text} and {n_more} more"


def whole_number(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int between `low` and `high`; bools and fractions are refused."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{name} must be a whole number, got {shown(value)}.") from None
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidInputError(f"{name} must be {bounds}, got {shown(number)}.")
    return number


def flag(value: Any, name: str) -> bool:
    """Return `value` when it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def is_number(value: Any) -> bool:
    """Tell whether `value` is a real number, Python's or NumPy's; bools are none."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def one_of(value: Any, name: str, choices: tuple[str, ...], *, or_none: bool = False) -> str:
    """Return `value` when it is one of `choices`; with `or_none` the message names None too, which
    the caller lets pass.
    """
    if isinstance(value, str) and value in choices:
        return value
    # a type, such as np.float32, may stand for its name
    word = value.__name__ if isinstance(value, type) else value
    if or_none and word in ("none", "None", False):
        hint = " Did you mean None?"
    else:
        hint = suggest(word, choices) if isinstance(word, str) else ""
    listed = ", ".join(map(repr, choices)) + (" or None" if or_none else "")
    raise InvalidInputError(f"{name} must be one of {listed}, got {shown(value)}.{hint}")


def suggest(value: str, choices: Sequence[str]) -> str:
    """Return a question for the choice that was probably meant, by another name of it or by its
    letters; nothing where none is near.
    """
    import difflib

    value = value[:MOST_CHARACTERS].lower()
    meant = _OTHER_NAMES.get(value.replace("_", " ").replace("-", " "))
    near = [meant] if meant in choices else difflib.get_close_matches(value, choices, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def require_unmasked(value: Any, name: str) -> None:
    """Raise for a masked array with masked entries: NumPy would take whatever is behind the
    mask.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{name} has masked entries. Fill them first, with .filled(value).")


def require_order(ids: Any, name: str = "ids", *, any_order: bool = False) -> None:
    """Raise where ids come in no order, and so would go to rows at random; with `any_order` a set
    is fine.

    A dictionary never is: whether its keys or its values are meant is anybody's guess.
    """
    if any_order:
        if isinstance(ids, Mapping):
            raise InvalidInputError(
                f"{name} must be a list, a set or an array of ids, got a {type(ids).__name__}. "
                f"Give list({name}) for its keys."
            )
    elif isinstance(ids, (set, frozenset, Mapping)):
        raise InvalidInputError(
            f"{name} must be in the order of the rows, got a {type(ids).__name__}, which has no "
            "such order. Give a list."
        )


def id_array(ids: Any, name: str = "ids", *, any_order: bool = False) -> npt.NDArray[np.int64]:
    """Return `ids` as a new or borrowed 1-D int64 array of numbers ≥ 0, in the order given; a set
    only in any order. A lone number is one id.
    """
    require_order(ids, name, any_order=any_order)
    if isinstance(ids, (set, frozenset)):
        ids = list(ids)
    require_unmasked(ids, name)
    try:
        array = np.asarray(ids)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be a flat list of whole numbers, got a ragged one."
        ) from None
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.int64)
    # a generator, a view of a dictionary: NumPy does not look inside
    if array.ndim == 0 and array.dtype.kind == "O":
        raise InvalidInputError(
            f"{name} must be a list or an array of whole numbers, got {shown(ids)}."
        )
    if array.ndim == 0:  # a lone id
        ids, array = [ids], array.reshape(1)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be 1-dimensional, got shape {array.shape}.")
    if array.dtype.kind == "O" or (
        array.dtype.kind == "f" and all(type(number) is int for number in ids)
    ):
        # NumPy makes floats of numbers that no integer type holds
        array = _whole_numbers(list(ids), name)
    if array.dtype.kind == "f" and np.isnan(array).any():  # as which missing ones arrive
        raise InvalidInputError(
            f"{name} must be whole numbers, got NaN at position {int(np.argmax(np.isnan(array)))}."
        )
    if array.dtype.kind == "b":
        raise InvalidInputError(
            f"{name} must be whole numbers, got bool. A mask says nothing about ids: give those "
            "that it selects, ids[mask], or np.flatnonzero(mask) where ids are 0, 1, 2, …"
        )
    if array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be whole numbers, got {array.dtype} such as {shown(array[0])}."
        )
    if (
        array.dtype.kind == "u"
        and array.dtype.itemsize == 8
        and array.max() > np.iinfo(np.int64).max
    ):
        raise InvalidInputError(f"{name} must be below 2**63, got {array.max()}.")
    if array.min() < 0:
        row = int(np.argmax(array < 0))
        raise InvalidInputError(f"{name} must be 0 or more, got {array[row]} at position {row}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _whole_numbers(values: list[Any], name: str) -> npt.NDArray[np.int64]:
    """Return objects as integers, each of which must be one."""
    for position, value in enumerate(values):
        if not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.timedelta64)):
            raise InvalidInputError(
                f"{name} must be whole numbers, got {shown(value)} at position {position}."
            )
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        worst = max(map(int, values), key=abs)
        raise InvalidInputError(
            f"{name} must be from 0 to 2**63 - 1, got {shown(worst)}."
        ) from None


def is_ascending(numbers: npt.NDArray[Any], *, strictly: bool = False) -> bool:
    """Tell whether no number is below the one before it, or with `strictly`, whether each is above
    it.

    Neighbours are compared and never subtracted: the difference of two int64 overflows, and a fall
    looks like a rise.
    """
    compare = np.greater if strictly else np.greater_equal
    return bool(compare(numbers[1:], numbers[:-1]).all())


def are_offsets(offsets: npt.NDArray[Any], end: int) -> bool:
    """Tell whether whole numbers start at 0, never fall and stop at `end`, as loops over what lies
    between them trust.

    So none is beyond the `end` entries that are there.
    """
    starts_and_stops = len(offsets) > 0 and int(offsets[0]) == 0 and int(offsets[-1]) == end
    return starts_and_stops and is_ascending(offsets)
