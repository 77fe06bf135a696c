"""Sets in all forms that are accepted: lists of numbers or strings, arrays, rows of a matrix.

Every form becomes `Sets`, a few at a time: column j of a matrix and the number j are the same
member, and a string is the hash of its UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.checks import shown
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource
from bitkin.sets.sets import Sets, cut_sets
from bitkin.sets.texts import hash_strings

_SETS_AT_ONCE = 1 << 13
_MEMBERS_PER_PIECE = 1 << 17
_CELLS_PER_PIECE = 1 << 20  # of a dense matrix
_READY = {list, tuple, set, frozenset, np.ndarray}  # have a length, and can be read repeatedly
_BYTES_OR_TEXT = (str, bytes, bytearray, memoryview)
_WANTED = "Members must be all strings, or all whole numbers from 0 to 2**64 - 1."


class Piece(NamedTuple):
    """Consecutive sets whose members are not checked yet; only whether the first of all members is
    a string is known.
    """

    first: int
    sets: list[Any]
    strings: bool


def is_matrix(X: Any) -> bool:
    """Return whether `X` holds sets as rows of a matrix, one column per member; a flat array of
    objects is a list of sets.
    """
    if isinstance(X, VectorSource) or issparse(X):
        return True
    if not (hasattr(X, "__array__") or hasattr(X, "__dataframe__")):
        return False
    return not (getattr(X, "ndim", 2) == 1 and getattr(X, "dtype", None) == np.dtype(object))


def require_sets(X: Any) -> Iterable[Any]:
    """Return `X` when it can be a list of sets."""
    if isinstance(X, _BYTES_OR_TEXT):
        raise InvalidInputError(
            f"X must be a list of sets, got one {type(X).__name__}: {shown(X)}. {_HOW_TO_WRAP}"
        )
    if isinstance(X, (set, frozenset, dict)) or not isinstance(X, Iterable):
        raise InvalidInputError(
            f"X must be a list of sets, got {type(X).__name__}. Wrap a single set as [X]; a matrix "
            "must be CSR or 2-D."
        )
    return X


_HOW_TO_WRAP = "Wrap a single set of strings as [[...]]; cut texts into sets with bitkin.shingles."


def cut_pieces(X: Any) -> Iterator[Piece]:
    """Cut a list, or anything that yields sets, into pieces of about equal work."""
    given = require_sets(X)
    # A list stays as it is. What yields sets one by one may refill the same object: each is copied
    # when it comes.
    stays = isinstance(given, (list, tuple, np.ndarray))
    remaining = iter(given) if stays else (_copy_set(one, row) for row, one in enumerate(given))
    strings: bool | None = None
    first = 0
    while some := list(islice(remaining, _SETS_AT_ONCE)):
        sets = _with_lengths(some, first)
        sizes = np.fromiter(map(len, sets), np.int64, len(sets))
        if strings is None and sizes.any():
            strings = isinstance(next(iter(sets[int(np.argmax(sizes > 0))])), str)
        # By their sizes, so that threads get pieces of about the same number of members.
        for start, stop in cut_sets(np.concatenate(([0], np.cumsum(sizes))), _MEMBERS_PER_PIECE):
            yield Piece(first + start, sets[start:stop], bool(strings))
        first += len(sets)


def piece_to_sets(piece: Piece) -> Sets:
    """Return the sets of a piece; an `InvalidInputError` names the first member that cannot be
    one.
    """
    offsets = np.zeros(len(piece.sets) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, piece.sets), np.int64, len(piece.sets)), out=offsets[1:])
    kinds = set(map(type, piece.sets))
    if kinds == {np.ndarray} and not piece.strings:
        members = _members_of_arrays(piece)
    else:
        lists = piece.sets
        if np.ndarray in kinds:
            lists = [one.tolist() if isinstance(one, np.ndarray) else one for one in lists]
        members = (
            _members_of_strings(lists, piece)
            if piece.strings
            else _members_of_numbers(lists, piece)
        )
    return Sets.from_parts(members, offsets)


def cut_rows(batch: Any) -> list[tuple[int, int]]:
    """Cut the rows of a batch into ranges `(first, stop)` of about equal work."""
    if issparse(batch):
        return cut_sets(batch.indptr, _MEMBERS_PER_PIECE)
    step = max(1, _CELLS_PER_PIECE // batch.shape[1])
    return [(first, min(first + step, batch.shape[0])) for first in range(0, batch.shape[0], step)]


def rows_to_sets(batch: Any, first: int, stop: int) -> Sets:
    """Return rows `first` to `stop` of a batch as sets of the columns that are not zero."""
    if not issparse(batch):
        # Rows come in ascending order: set i begins where row i would be inserted.
        rows, columns = np.nonzero(batch[first:stop])
        return Sets.from_parts(
            columns.astype(np.uint64), np.searchsorted(rows, np.arange(stop - first + 1))
        )
    begin, end = batch.indptr[first], batch.indptr[stop]
    columns, values = batch.indices[begin:end], batch.data[begin:end]
    offsets = batch.indptr[first : stop + 1].astype(np.int64) - begin
    if np.count_nonzero(values) < len(values):
        # Stored zeros are no members: offsets become the number of nonzeros before them.
        held = values != 0
        columns = columns[held]
        offsets = np.concatenate(([0], np.cumsum(held)))[offsets]
    return Sets.from_parts(columns.astype(np.uint64), offsets)


def _with_lengths(sets: list[Any], first: int) -> list[Any]:
    """Return the sets, each with a length; iterators are read to their end."""
    kinds = set(map(type, sets))
    if not kinds <= _READY:
        sets = [
            one if type(one) in _READY else _list_of(one, row)
            for row, one in enumerate(sets, start=first)
        ]
    if np.ndarray in kinds:
        for row, one in enumerate(sets, start=first):
            if isinstance(one, np.ndarray) and one.ndim != 1:
                raise InvalidInputError(
                    f"X must hold flat sets, got an array of shape {one.shape} at position {row}."
                )
            # `tolist` would turn dates of some units into numbers
            if isinstance(one, np.ndarray) and one.dtype.kind in "Mm":
                raise InvalidInputError(
                    f"X has an array of {one.dtype} at position {row}. {_WANTED}"
                )
    return sets


def _copy_set(one: Any, row: int) -> Any:
    """Return a set that nobody else can change; an iterator is read to its end."""
    if type(one) in (tuple, frozenset):
        return one
    return one.copy() if type(one) in _READY else _list_of(one, row)


def _list_of(one: Any, row: int) -> list[Any]:
    if isinstance(one, _BYTES_OR_TEXT):
        raise InvalidInputError(
            f"X must be a list of sets, got {shown(one)} at position {row}. {_HOW_TO_WRAP}"
        )
    if isinstance(one, dict) or not isinstance(one, Iterable):
        raise InvalidInputError(
            f"X must be a list of sets, got {shown(one)} at position {row}. Wrap a single set as "
            "[X]; an empty set is []."
        )
    return list(one)


def _members_of_arrays(piece: Piece) -> npt.NDArray[np.uint64]:
    kinds = {one.dtype for one in piece.sets}
    # NumPy would join int64 and uint64 to float64
    if len(kinds) > 1 or next(iter(kinds)).kind not in "iu":
        return _members_of_numbers([one.tolist() for one in piece.sets], piece)
    members = np.concatenate(piece.sets)
    if members.dtype.kind == "i" and members.size and members.min() < 0:
        raise _error_of_first_wrong(piece)
    return members.astype(np.uint64, copy=False)


def _members_of_numbers(lists: list[Any], piece: Piece) -> npt.NDArray[np.uint64]:
    flat = list(chain.from_iterable(lists))
    kinds = set(map(type, flat))
    if kinds - {int}:
        if not all(map(_is_whole, kinds)):
            raise _error_of_first_wrong(piece)
        flat = list(map(int, flat))
    try:
        return np.array(flat, dtype=np.uint64)
    except OverflowError:
        raise _error_of_first_wrong(piece) from None


def _members_of_strings(lists: list[Any], piece: Piece) -> npt.NDArray[np.uint64]:
    try:
        return hash_strings(lists, sum(map(len, lists)))
    except TypeError:
        raise _error_of_first_wrong(piece) from None


def _error_of_first_wrong(piece: Piece) -> InvalidInputError:
    """Name the first member that cannot be one, or is not of the kind that the first one was."""
    members = (
        (row, member) for row, one in enumerate(piece.sets, start=piece.first) for member in one
    )
    row, member = next(
        (row, member) for row, member in members if not _fits(member, strings=piece.strings)
    )
    why = "."
    if isinstance(member, str) or _fits(member, strings=False):
        why = f" among {'strings' if piece.strings else 'numbers'}."
    elif isinstance(member, (float, np.floating)):
        why = ", a float. A matrix must be an array, not a list."
    return InvalidInputError(f"X has the member {shown(member)} in set {row}{why} {_WANTED}")


def _fits(member: Any, *, strings: bool) -> bool:
    if strings:
        return isinstance(member, str)
    return _is_whole(type(member)) and 0 <= int(member) < 2**64


def _is_whole(kind: type) -> bool:
    """Whether values of this type are whole numbers; NumPy counts spans of time among its
    integers.
    """
    return issubclass(kind, (int, np.integer)) and not issubclass(kind, (bool, np.timedelta64))
