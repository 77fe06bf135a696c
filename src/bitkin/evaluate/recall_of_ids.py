"""The share of true neighbours that a search found."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.checks import shown
from bitkin.errors import InvalidInputError
from bitkin.evaluate.per_query import PerQuery, mean_of_queries
from bitkin.evaluate.ranking import NOTHING_TRUE
from bitkin.evaluate.tables import IDS, read_table, to_matrix
from bitkin.index.results import RaggedNeighbors
from bitkin.notices import warn_caller


@overload
def recall(found_ids: Any, true_ids: Any, *, details: Literal[False] = False) -> float: ...
@overload
def recall(found_ids: Any, true_ids: Any, *, details: Literal[True]) -> PerQuery: ...
@overload
def recall(found_ids: Any, true_ids: Any, *, details: bool) -> float | PerQuery: ...
def recall(found_ids: Any, true_ids: Any, *, details: bool = False) -> float | PerQuery:
    """Return the mean, over the queries, of the share of true ids that are among the found.

    Parameters
    ----------
    found_ids : whole numbers or strings, (q, m), the result of a search, or a file
        What a search returned; −1 (None among strings) is padding and never matches.
    true_ids : the same, (q, k)
        What it should have returned; padding is not counted. A query without any true id is left
        out.
    details : bool, default False
        Return the recall of every query instead, see `PerQuery`: for intervals, and to know how
        many were left out.

    Notes
    -----
    A file is an .npy array, an .npz archive as `bitkin search --out` writes it, or the truth of a
    benchmark in .ivecs or HDF5 (`neighbors`).

    What was found comes first. Fewer found ids than true ones can never reach 1: that is a warning,
    since then the two are often the wrong way round.

    Examples
    --------
    >>> from bitkin.evaluate import recall
    >>> recall([[3, 1, 9], [5, 6, -1]], [[1, 2], [5, -1]])
    0.75
    >>> recall([[3, 1, 9], [5, 6, -1]], [[1, 2], [5, -1]], details=True).values
    array([0.5, 1. ])
    """
    found, true = _to_ids(found_ids, "found_ids"), _to_ids(true_ids, "true_ids")
    if len(found) != len(true):
        raise InvalidInputError(
            f"found_ids and true_ids must have one row per query each, got {len(found)} and "
            f"{len(true)} rows."
        )
    if (found.dtype == object or true.dtype == object) and found.size and true.size:
        found, true = _number_names(found, true)
    found, true = check_ids(found, "found_ids"), check_ids(true, "true_ids")
    shares = _share_per_query(found, true)
    result = mean_of_queries(shares, "true_ids " + NOTHING_TRUE.format(what="id", n=len(true)))
    return result if details else result.mean


def _share_per_query(found: npt.NDArray[np.int64], true: npt.NDArray[np.int64]) -> Floats:
    """Return the share of the true ids of every query that are among the found; NaN without any."""
    wanted = (true >= 0).sum(axis=1)
    if 0 < found.shape[1] < wanted.max(initial=0):
        warn_caller(
            f"found_ids has {found.shape[1]} ids per query and true_ids up to {wanted.max()}, so "
            "recall cannot reach 1. What was found comes first: recall(found_ids, true_ids)."
        )
    highest = int(max(found.max(initial=0), true.max(initial=0)))
    if (highest + 2) * len(true) >= 2**63:
        # Only equality matters: number the ids from 0, −1 staying −1.
        every = np.unique(np.concatenate([[-1], found.ravel(), true.ravel()]))
        found, true = np.searchsorted(every, found) - 1, np.searchsorted(every, true) - 1
        highest = every.size
    # One number for every pair of query and id, so that a single look-up serves all queries.
    first = np.arange(len(true))[:, None] * (highest + 2)
    # the sentinel keeps every place that searchsorted returns inside the array
    pairs = np.sort(np.append(first + found, 2**63 - 1))
    is_found = pairs[np.searchsorted(pairs, first + true)] == first + true
    hits = (is_found & (true >= 0)).sum(axis=1)
    shares: Floats = np.full(len(true), np.nan)
    np.divide(hits, wanted, out=shares, where=wanted > 0)
    return shares


def _to_ids(given: Any, name: str) -> npt.NDArray[Any]:
    """Return ids as a matrix; of the result of a search, its ids."""
    if isinstance(given, RaggedNeighbors):
        raise InvalidInputError(
            f"{name} must have as many ids for every query, got the result of search_radius, which "
            "has not. Use search, or give a matrix with -1 where there is none."
        )
    given = read_table(given, IDS)
    # arrays and data frames may have something else of that name
    ids = given if hasattr(given, "__array__") else getattr(given, "ids", given)
    table = to_matrix(ids, name)
    if table.dtype.kind in "UT":
        table = table.astype(object)
    return table


def _number_names(
    found: npt.NDArray[Any], true: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return two matrices of strings as whole numbers, equal where the strings are; −1 for None."""
    for table, name in ((found, "found_ids"), (true, "true_ids")):
        for value in table.reshape(-1).tolist():
            if value is not None and not isinstance(value, str):
                raise InvalidInputError(
                    "found_ids and true_ids must be of one kind, whole numbers or strings, got "
                    f"{shown(value)} in {name}. Row numbers become names by names[truth.ids]."
                )
    numbers = {None: -1}
    both = [
        np.array([numbers.setdefault(v, len(numbers)) for v in table.flat], dtype=np.int64)
        for table in (found, true)
    ]
    return both[0].reshape(found.shape), both[1].reshape(true.shape)


def check_ids(ids: npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
    """Return ids from −1, which is none, as int64."""
    if ids.size == 0:
        return np.empty(ids.shape, dtype=np.int64)
    if ids.dtype.kind not in "iu":
        hint = " Distances? Give the ids of the result." if ids.dtype.kind == "f" else ""
        raise InvalidInputError(
            f"{name} must be whole numbers, got {ids.dtype} such as {ids.flat[0]}.{hint}"
        )
    if int(ids.max()) >= 2**63 or int(ids.min()) < -1:
        bad = ids.max() if int(ids.max()) >= 2**63 else ids.min()
        raise InvalidInputError(
            f"{name} must be ids from 0 to 2**63 - 1, or -1 for none, got {bad}."
        )
    return ids.astype(np.int64, copy=False)
