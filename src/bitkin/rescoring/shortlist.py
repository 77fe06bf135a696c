"""Shortlists: some ids per query, the rows they stand for, and the best of them once scored.

Every row is looked up once, however many queries share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids
from bitkin.checks import id_array, is_ascending, require_unmasked, some_of
from bitkin.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.selection import nearest_into

# Ids below this many times the number of pairs are marked in an array of flags; with larger ones
# that would take more time and memory than sorting the pairs does.
_MARKED_IDS_PER_PAIR = 8
_ALWAYS_MARKED_IDS = 1 << 18  # so few flags are set and read faster than a thousand ids are sorted
_PAIRS_PER_PIECE = 1 << 16  # ranked by one thread at a time


class Shortlist(NamedTuple):
    """The ids of a shortlist, and where in it they stand."""

    ids: Ids
    """int64 (q, m); −1 is no match."""
    wanted: Ids
    """Every id in it once, ascending, without −1."""
    places: Ids
    """int64 (q, m): which of `wanted` stands here; −1 where no match does. Where `wanted` is 0, 1,
    2, …, it is `ids` itself.
    """

    @classmethod
    def from_hits(cls, hits: Any) -> Shortlist:
        """Check what a caller gives as a shortlist: what a search found, or a table of ids."""
        if isinstance(hits, RaggedNeighbors):
            raise InvalidInputError(
                "hits must be Neighbors, got RaggedNeighbors of a radius search. Search for the k "
                "nearest instead, or give the ids of one query as hits.ids[None, a:b]."
            )
        require_unmasked(hits, "hits")
        ids = np.asarray(getattr(hits, "ids", hits))  # of an index, or of a collection
        if ids.ndim != 2 or ids.dtype.kind not in "iu":
            raise InvalidInputError(
                "hits must be Neighbors, or whole numbers of shape (n_queries, m), got "
                f"{ids.dtype} {ids.shape}."
            )
        if ids.dtype == np.uint64 and (ids > np.iinfo(np.int64).max).any():
            raise InvalidInputError(f"hits must be below 2**63, got {ids.max()}.")
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        if ids.min(initial=0) < -1:
            ids = np.maximum(ids, -1)
        return cls.from_ids(ids)

    @classmethod
    def from_ids(cls, ids: Ids) -> Shortlist:
        """Take checked ids, int64 (q, m), none below −1; quickest for one query whose ids
        ascend.
        """
        if len(ids) == 1 and ids.size and ids[0, 0] >= 0 and is_ascending(ids[0], strictly=True):
            return cls(ids, ids[0], np.arange(ids.shape[1])[None])
        largest = int(ids.max(initial=-1))
        if largest < max(_ALWAYS_MARKED_IDS, _MARKED_IDS_PER_PAIR * ids.size):
            marked = np.zeros(largest + 2, dtype=bool)  # one more, where −1 goes
            marked[ids] = True
            wanted = np.flatnonzero(marked[:-1])
            if len(wanted) == largest + 1:
                return cls(ids, wanted, ids)
            # Only what is wanted is written here, and read.
            place_of = np.empty(largest + 2, dtype=np.int64)
            place_of[wanted] = np.arange(len(wanted))
            place_of[-1] = -1
            return cls(ids, wanted, place_of[ids])
        there = ids >= 0
        wanted, inverse = np.unique(ids[there], return_inverse=True)
        places = np.full(ids.shape, -1, dtype=np.int64)
        places[there] = inverse.ravel()
        return cls(ids, wanted, places)

    def spread(self, rows: Ids) -> Ids:
        """Return (q, m) from the row of every id in `wanted`; −1 is no match, in and out."""
        if rows is self.wanted:
            return self.ids
        # No match is −1, and so takes the last entry.
        placed: Ids = np.append(rows, -1)[self.places]
        return placed


def rows_of(wanted: Ids, ids: npt.ArrayLike | None, n_rows: int, name: str) -> Ids:
    """Return the row of every id; without `ids` they are row numbers. Those that have none are an
    UnknownIdError.
    """
    if ids is None:
        if len(wanted) and wanted[-1] >= n_rows:
            beyond = wanted[wanted >= n_rows]
            raise UnknownIdError(
                f"hits must be rows of {name}, which has {n_rows}, got {some_of(beyond)}. Give ids "
                "where ids are not row numbers."
            )
        return wanted
    numbers = id_array(ids)
    if len(numbers) != n_rows:
        raise InvalidInputError(
            f"ids must be one a row of {name}, got {len(numbers)} for {n_rows} rows."
        )
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    twice = numbers[1:][numbers[1:] == numbers[:-1]]
    if len(twice):
        raise DuplicateIdError(
            f"ids must differ, given more than once: {some_of(np.unique(twice))}."
        )
    at = np.searchsorted(numbers, wanted)
    known = np.zeros(len(wanted), dtype=bool)
    known[at < n_rows] = numbers[at[at < n_rows]] == wanted[at < n_rows]
    if not known.all():
        raise UnknownIdError(f"hits must be among ids; not there: {some_of(wanted[~known])}.")
    return order[at]


def nearest_first(ids: Ids, distances: npt.NDArray[np.floating], k: int) -> Neighbors:
    """Return the best k of every row, nearest first, ties by lower id; id −1 ends up last."""
    best = no_neighbors(len(ids), k, dtype=distances.dtype)
    if len(ids) == 1:
        nearest_into(read_only(distances), read_only(ids), best.distances, best.ids)
        return best
    step = max(1, _PAIRS_PER_PIECE // max(1, ids.shape[1]))

    def select(first: int) -> None:
        some = slice(first, first + step)
        nearest_into(
            read_only(distances[some]), read_only(ids[some]), best.distances[some], best.ids[some]
        )

    threads.run(select, range(0, len(ids), step))
    return best
