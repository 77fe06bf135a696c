"""Shortlists: ids a query, and the rows they stand for, each looked up once however many queries
share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import id_array, require_unmasked
from bitkin.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from bitkin.index.results import Neighbors, RaggedNeighbors
from bitkin.index.rows.snapshot import some_of

# times as many ids as pairs: past that, marking ids takes more time and memory than sorting pairs
_SPARSE = 8
_FEW_IDS = 1 << 18  # marked faster than the thousand of a lone query are sorted


class Shortlist(NamedTuple):
    """The ids of a shortlist, and where in it they stand."""

    ids: Ids
    """int64 (q, m); −1 is nobody."""
    wanted: Ids
    """Every id in it once, ascending, without nobody."""
    at: Ids
    """int64 (q, m): which of `wanted` a place holds; −1 is nobody. Where `wanted` is 0, 1, 2, …, it
    is `ids` itself.
    """

    @classmethod
    def of(cls, hits: Any) -> Shortlist:
        """Take what a search found, or a table of ids; a shortlist is taken as it is."""
        if isinstance(hits, Shortlist):
            return hits
        if isinstance(hits, RaggedNeighbors):
            raise InvalidInputError(
                "hits must be Neighbors, got RaggedNeighbors of a radius search. Search for the k "
                "nearest instead, or "
                "give the ids of one query as hits.ids[None, a:b]."
            )
        require_unmasked(hits, "hits")
        ids = np.asarray(hits.ids if isinstance(hits, Neighbors) else hits)
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
        return cls(ids, *_distinct(ids))

    def renumbered(self) -> Shortlist:
        """Return the same places with numbers for ids: i is the i-th of `wanted`."""
        return Shortlist(self.at, np.arange(len(self.wanted)), self.at)

    def spread(self, rows: Ids) -> Ids:
        """Return (q, m) from the row of every id in `wanted`; −1 is nobody, in and out."""
        if rows is self.wanted:
            return self.ids
        # Nobody is at −1, which is the last one.
        placed: Ids = np.append(rows, -1)[self.at]
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
                "where ids are not "
                "row numbers."
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


def _distinct(ids: Ids) -> tuple[Ids, Ids]:
    """Return all ids from 0 on, once and ascending, and which of them every place holds."""
    most = int(ids.max(initial=-1))
    if most < max(_FEW_IDS, _SPARSE * ids.size):
        marked = np.zeros(most + 2, dtype=bool)  # one more, where −1 goes
        marked[ids] = True
        wanted = np.flatnonzero(marked[:-1])
        if len(wanted) == most + 1:
            return wanted, ids
        number_of = np.empty(most + 2, dtype=np.int64)  # only what is wanted is written, and read
        number_of[wanted], number_of[-1] = np.arange(len(wanted)), -1
        return wanted, number_of[ids]
    there = ids >= 0
    wanted, inverse = np.unique(ids[there], return_inverse=True)
    at = np.full(ids.shape, -1, dtype=np.int64)
    at[there] = inverse.ravel()
    return wanted, at
