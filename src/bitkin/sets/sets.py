"""Sets: many sets of 64-bit members in two flat arrays, which is what MinHash and shingles work
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import are_offsets, id_array
from bitkin.errors import InvalidInputError

_MEMBERS_PER_PIECE = 1 << 17  # enough for a thread, few enough to share out evenly


class Sets:
    """Immutable sets of whole numbers from 0 to 2**64 − 1: set i is `members[offsets[i]:offsets[i +
    1]]`.

    Members stand in any order, and one that stands twice counts once; `unique` leaves each once,
    sorted.

    Parameters
    ----------
    members : uint64 (m,)
        The members of all sets, one set after another; copied.
    offsets : int64 (n + 1,)
        From 0 to m, never falling; copied.

    Examples
    --------
    >>> import bitkin
    >>> sets = bitkin.Sets([5, 3, 5, 8, 3], [0, 3, 3, 5])
    >>> sets
    Sets(3 sets, 5 members)
    >>> sets[2].members.tolist(), sets.sizes().tolist()
    ([8, 3], [3, 0, 2])
    >>> sets.unique().members.tolist()
    [3, 5, 3, 8]
    >>> sets.jaccard_of_pairs([0, 0], [2, 1]).round(3).tolist()
    [0.333, 0.0]
    """

    __slots__ = ("_distinct", "members", "offsets")

    members: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    _distinct: bool

    def __init__(self, members: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        members_array = _require_members(members)
        offsets_array = _require_offsets(offsets, len(members_array))
        _fill(self, members_array, offsets_array, distinct=False)

    @classmethod
    def from_parts(
        cls,
        members: npt.NDArray[np.uint64],
        offsets: npt.NDArray[np.int64],
        *,
        distinct: bool = False,
    ) -> Sets:
        """Wrap arrays that already keep the promises of this class, without a check or a copy: for
        what bitkin made itself. `distinct`: every set is sorted and has each member once.
        """
        sets = cls.__new__(cls)
        _fill(sets, members, offsets, distinct=distinct)
        return sets

    @classmethod
    def concatenate(cls, parts: Sequence[Sets]) -> Sets:
        """Put the sets of several `Sets` after one another."""
        parts = list(parts)
        for part in parts:
            if not isinstance(part, Sets):
                raise InvalidInputError(f"parts must hold Sets, got {type(part).__name__}.")
        offsets = np.zeros(sum(map(len, parts)) + 1, dtype=np.int64)
        # an empty part in front, so that joining works for no parts at all
        np.cumsum(np.concatenate([offsets[:0], *(part.sizes() for part in parts)]), out=offsets[1:])
        members = np.concatenate([np.empty(0, dtype=np.uint64), *(part.members for part in parts)])
        return cls.from_parts(members, offsets, distinct=all(part.is_unique for part in parts))

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return how many members each set holds, repeated ones included: int64 (n,)."""
        return np.diff(self.offsets)

    def unique(self) -> Sets:
        """Return the same sets with every member once, ascending: what exact comparisons work
        on.
        """
        if self.is_unique:
            return self
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.hashing.sets import gather_sets_into, sort_distinct_into

        members, work = self.members.copy(), np.empty_like(self.members)
        counts = np.zeros(len(self), dtype=np.int64)
        offsets = read_only(self.offsets)

        def sort(piece: tuple[int, int]) -> None:
            sort_distinct_into(members, offsets, *piece, work, counts)

        threads.run(sort, cut_sets(self.offsets, _MEMBERS_PER_PIECE))
        distinct = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(counts, out=distinct[1:])
        if distinct[-1] < len(members):
            # `work` is done with after sorting: members that stay are moved there side by side
            kept = work[: distinct[-1]]
            gather_sets_into(read_only(members), offsets[:-1], kept, read_only(distinct))
            members = kept.copy()  # lets the longer array go
        return Sets.from_parts(members, distinct, distinct=True)

    def jaccard_of_pairs(
        self, first: npt.ArrayLike, second: npt.ArrayLike
    ) -> npt.NDArray[np.float64]:
        """Return the exact Jaccard similarity of set `first[i]` and set `second[i]` for every i:
        float64 (pairs,).

        That is the number of shared members over the number of members of either. Two empty sets
        share nothing: 0, as in codes, where an empty row matches nothing. Call it on what `unique`
        returned when calling it often: otherwise every call sorts all sets again.
        """
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.hashing.sets import pair_jaccard_into

        rows = [_row_numbers(first, "first", len(self)), _row_numbers(second, "second", len(self))]
        if len(rows[0]) != len(rows[1]):
            raise InvalidInputError(
                f"first and second must be equally long, got {len(rows[0])} and {len(rows[1])}."
            )
        sets = self.unique()
        a, b = read_only(rows[0]), read_only(rows[1])
        out = np.empty(len(a), dtype=np.float64)
        # A pair compares two sets of average size.
        step = max(1, _MEMBERS_PER_PIECE * max(1, len(sets)) // max(1, 2 * len(sets.members)))

        def compare(start: int) -> None:
            which = slice(start, start + step)
            pair_jaccard_into(sets.members, sets.offsets, a[which], b[which], out[which])

        threads.run(compare, range(0, len(a), step))
        return out

    @property
    def is_unique(self) -> bool:
        """Whether these sets are known to have every member once, ascending, as `unique` leaves
        them.
        """
        return self._distinct

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.members.nbytes + self.offsets.nbytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: Any) -> Sets:
        """Return the chosen sets: an int gives one set, slices, arrays of row numbers and masks as
        in NumPy.
        """
        if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"set {row} is out of range for {len(self)} sets")
            rows = slice(row, row + 1 or None)
        elif not isinstance(rows, slice) and np.ndim(rows) != 1:
            raise InvalidInputError(
                f"sets take a row, a slice, or a flat list or mask of rows, got {rows!r}."
            )
        starts, sizes = self.offsets[:-1][rows], self.sizes()[rows]
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        # neighbouring sets lie side by side: a view is enough
        if isinstance(rows, slice) and rows.step in (None, 1):
            begin = int(starts[0]) if len(starts) else 0
            members = self.members[begin : begin + int(offsets[-1])]
        else:
            from bitkin.kernels.blocks import read_only
            from bitkin.kernels.hashing.sets import gather_sets_into

            members = np.empty(offsets[-1], dtype=np.uint64)
            gather_sets_into(self.members, read_only(starts), members, read_only(offsets))
        return Sets.from_parts(members, offsets, distinct=self.is_unique)

    def __iter__(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield the members of every set."""
        return (
            self.members[a:b]
            for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        )

    def __eq__(self, other: object) -> bool:
        """Whether both hold equal sets in the same order, whatever the order of members."""
        if not isinstance(other, Sets):
            return NotImplemented
        if len(self) != len(other):
            return False
        a, b = self.unique(), other.unique()
        return np.array_equal(a.offsets, b.offsets) and np.array_equal(a.members, b.members)

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"sets are immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"sets are immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Sets, (np.asarray(self.members), np.asarray(self.offsets))

    def __repr__(self) -> str:
        sets = "1 set" if len(self) == 1 else f"{len(self):,} sets"
        return f"Sets({sets}, {len(self.members):,} members)"


def _fill(
    sets: Sets,
    members: npt.NDArray[np.uint64],
    offsets: npt.NDArray[np.int64],
    *,
    distinct: bool,
) -> None:
    """Set the attributes of new sets, which nothing can set later."""
    parts: dict[str, Any] = {
        "members": members.view(),
        "offsets": offsets.view(),
        "_distinct": distinct,
    }
    for name in ("members", "offsets"):
        parts[name].flags.writeable = False
    for name, value in parts.items():
        object.__setattr__(sets, name, value)


def cut_sets(offsets: npt.NDArray[np.int64], n_members: int) -> list[tuple[int, int]]:
    """Cut sets into ranges `(first, stop)` of about `n_members` members, and of at most as many
    sets.
    """
    n_sets = len(offsets) - 1
    if offsets[-1] + n_sets <= n_members:
        return [(0, n_sets)] if n_sets else []
    # Work before every set, a member and a set costing one each: an empty set is not free. Cut
    # where it passes multiples of n_members.
    work = offsets + np.arange(n_sets + 1)
    goals = np.arange(n_members, work[-1], n_members)
    places = np.unique(np.concatenate(([0], np.searchsorted(work, goals), [n_sets])))
    return list(zip(places[:-1].tolist(), places[1:].tolist(), strict=True))


def _require_members(members: Any) -> npt.NDArray[np.uint64]:
    """Return a copy of `members` as uint64, made before anything is checked: another thread may
    change the original at any time.
    """
    try:
        array = np.array(members)
        if (
            array.ndim == 1
            and array.dtype.kind in "fO"
            and all(type(member) is int for member in members)
        ):
            # NumPy takes numbers on both sides of 2**63 for float64
            array = np.array(members, dtype=np.uint64)
    except (ValueError, OverflowError):  # a ragged list, or a number out of range
        raise InvalidInputError(
            "members must be a flat array of whole numbers from 0 to 2**64 - 1, got a list with "
            "something else in it."
        ) from None
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"members must be a flat array of whole numbers from 0 to 2**64 - 1, got {array.dtype} "
            f"{array.shape}."
        )
    if array.dtype.kind == "i" and array.min() < 0:
        at = int(np.argmax(array < 0))
        raise InvalidInputError(f"members must be 0 or more, got {array[at]} at position {at}.")
    return np.ascontiguousarray(array, dtype=np.uint64)


def _require_offsets(offsets: Any, n_members: int) -> npt.NDArray[np.int64]:
    """Return a copy of `offsets` as int64, made before they are checked: loops run as far as they
    say.
    """
    array = id_array(offsets, "offsets").copy()
    if not are_offsets(array, n_members):
        raise InvalidInputError(
            f"offsets must rise from 0 to {n_members}, the number of members, with one entry more "
            f"than there are sets, got {array!r}."
        )
    return array


def _row_numbers(rows: Any, name: str, n: int) -> npt.NDArray[np.int64]:
    array = id_array(rows, name)
    if len(array) and array.max() >= n:
        raise InvalidInputError(
            f"{name} must hold row numbers below {n}, the number of sets, got {array.max()}."
        )
    return array
