"""Sets in the forms that people hold them: lists of numbers or strings, arrays, rows of a matrix.

Every form becomes `Sets`, a few at a time: column j of a matrix and the number j are the same member, and a string is
the hash of its UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.errors import InvalidInputError
from bitkin.hashers.sets import Sets
from bitkin.hashers.texts import hash_strings
from bitkin.io.vectors import VectorSource

_MEMBERS_PER_PIECE = 1 << 16
_SETS_PER_PIECE = 1 << 13
_READY = (list, tuple, set, frozenset, np.ndarray)  # a length, and members as often as one asks
_WANTED = "Members must be all strings, or all whole numbers from 0 to 2**64 - 1."


class Piece(NamedTuple):
    """Some sets in a row, their members not looked at yet, except for whether the first is a string."""

    first: int
    sets: list[Any]
    strings: bool


def is_matrix(X: Any) -> bool:
    """Whether `X` holds sets as rows of a matrix, one column a member; a flat array of objects holds sets itself."""
    if isinstance(X, VectorSource) or issparse(X):
        return True
    if not (hasattr(X, "__array__") or hasattr(X, "__dataframe__")):
        return False
    return not (getattr(X, "ndim", 2) == 1 and getattr(X, "dtype", None) == np.dtype(object))


def require_sets(X: Any) -> Iterable[Any]:
    """Return `X` when it can be a list of sets."""
    if isinstance(X, (str, bytes)):
        raise InvalidInputError(f"X must be a list of sets, got one {type(X).__name__}: {_shown(X)}. {_HOW_TO_WRAP}")
    if isinstance(X, (set, frozenset, dict)) or not isinstance(X, Iterable):
        raise InvalidInputError(
            f"X must be a list of sets, got {type(X).__name__}. Wrap a single set as [X]; a matrix must be CSR or 2-D."
        )
    return X


_HOW_TO_WRAP = "Wrap a single set of strings as [[...]]; cut texts into sets with bitkin.shingles."


def pieces(X: Any) -> Iterator[Piece]:
    """Cut a list, or anything that yields sets, into pieces of about equal work."""
    first, n_members = 0, 0
    sets: list[Any] = []
    strings: bool | None = None
    for one in require_sets(X):
        ready = one if isinstance(one, _READY) else _listed(one, first + len(sets))
        size = _size(ready, first + len(sets))
        if strings is None and size > 0:
            strings = isinstance(next(iter(ready)), str)
        sets.append(ready)
        n_members += size
        if n_members >= _MEMBERS_PER_PIECE or len(sets) >= _SETS_PER_PIECE:
            yield Piece(first, sets, bool(strings))
            first += len(sets)
            sets, n_members = [], 0
    if sets:
        yield Piece(first, sets, bool(strings))


def sets_of_piece(piece: Piece) -> Sets:
    """Return the sets of a piece; an `InvalidInputError` names the first member that cannot be one."""
    offsets = np.zeros(len(piece.sets) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, piece.sets), np.int64, len(piece.sets)), out=offsets[1:])
    kinds = set(map(type, piece.sets))
    if kinds == {np.ndarray} and not piece.strings:
        members = _members_of_arrays(piece)
    else:
        lists = piece.sets
        if np.ndarray in kinds:
            lists = [one.tolist() if isinstance(one, np.ndarray) else one for one in lists]
        members = _members_of_strings(lists, piece) if piece.strings else _members_of_numbers(lists, piece)
    return Sets._from_parts(members, offsets)


def sets_of_rows(batch: Any) -> Sets:
    """Return the rows of a batch as sets of the columns that are not zero."""
    if issparse(batch):
        columns, offsets = batch.indices, batch.indptr
        held = batch.data != 0
        if not held.all():
            before = np.concatenate(([0], np.cumsum(held)))
            columns, offsets = columns[held], before[offsets]
    else:
        rows, columns = np.nonzero(batch)
        offsets = np.searchsorted(rows, np.arange(batch.shape[0] + 1))
    return Sets._from_parts(columns.astype(np.uint64), offsets.astype(np.int64))


def _listed(one: Any, row: int) -> list[Any]:
    if isinstance(one, (str, bytes)):
        raise InvalidInputError(f"X must be a list of sets, got {_shown(one)} at position {row}. {_HOW_TO_WRAP}")
    if isinstance(one, dict) or not isinstance(one, Iterable):
        raise InvalidInputError(
            f"X must be a list of sets, got {_shown(one)} at position {row}. Wrap a single set as [X]; an empty set "
            "is []."
        )
    return list(one)


def _size(one: Any, row: int) -> int:
    if isinstance(one, np.ndarray) and one.ndim != 1:
        raise InvalidInputError(f"X must hold flat sets, got an array of shape {one.shape} at position {row}.")
    return len(one)


def _members_of_arrays(piece: Piece) -> npt.NDArray[np.uint64]:
    filled = [one for one in piece.sets if len(one)]
    if any(one.dtype.kind not in "iu" for one in filled):
        return _members_of_numbers([one.tolist() for one in piece.sets], piece)
    if any(one.dtype.kind == "i" and one.min() < 0 for one in filled):
        raise _first_wrong(piece)
    # One by one, since NumPy joins int64 and uint64 to float64.
    return np.concatenate([np.empty(0, dtype=np.uint64), *(one.astype(np.uint64, copy=False) for one in filled)])


def _members_of_numbers(lists: list[Any], piece: Piece) -> npt.NDArray[np.uint64]:
    flat = list(chain.from_iterable(lists))
    kinds = set(map(type, flat))
    if kinds - {int}:
        if not all(issubclass(kind, np.integer) for kind in kinds - {int}):
            raise _first_wrong(piece)
        flat = list(map(int, flat))
    try:
        return np.array(flat, dtype=np.uint64)
    except OverflowError:
        raise _first_wrong(piece) from None


def _members_of_strings(lists: list[Any], piece: Piece) -> npt.NDArray[np.uint64]:
    try:
        return hash_strings(lists, sum(map(len, lists)))
    except TypeError:
        raise _first_wrong(piece) from None


def _first_wrong(piece: Piece) -> InvalidInputError:
    """Name the first member that cannot be one, or is not of the kind that the first one was."""
    members = ((row, member) for row, one in enumerate(piece.sets, start=piece.first) for member in one)
    row, member = next((row, member) for row, member in members if not _fits(member, strings=piece.strings))
    why = "."
    if isinstance(member, str) or _fits(member, strings=False):
        why = f" among {'strings' if piece.strings else 'numbers'}."
    elif isinstance(member, (float, np.floating)):
        why = ", a float. A matrix must be an array, not a list."
    return InvalidInputError(f"X has the member {_shown(member)} in set {row}{why} {_WANTED}")


def _fits(member: Any, *, strings: bool) -> bool:
    if strings:
        return isinstance(member, str)
    return isinstance(member, (int, np.integer)) and not isinstance(member, bool) and 0 <= int(member) < 2**64


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
