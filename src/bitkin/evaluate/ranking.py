"""A ranking and the truth about it, checked: distances of rows from queries, and which rows are
relevant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.errors import InvalidInputError
from bitkin.io.vectors.rows import given_csr

NOTHING_TRUE = (
    "must name at least one {what}, got none in {n} queries: there is nothing to measure."
)


class Ranking(NamedTuple):
    """Distances and relevance of n rows for each of q queries."""

    distances: npt.NDArray[Any]
    """(q, n): whole numbers or floats, no NaN."""
    relevant: Any
    """(q, n): booleans, an array, or CSR without duplicates or stored False."""


def check_ranking(distances: Any, relevant: Any) -> Ranking:
    """Return what a caller gave as a ranking and its truth, both of one shape."""
    table = _check_distances(distances)
    truth = _check_relevance(relevant)
    if truth.shape != table.shape:
        raise InvalidInputError(
            f"relevant must have the shape of distances, {table.shape}, got {truth.shape}: one row "
            "a query."
        )
    return Ranking(table, truth)


def rank_groups(distances: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Number the distances of every row so that equal ones share a number and smaller ones come
    first.
    """
    if distances.dtype.kind in "iu" and distances.size:
        lowest = int(distances.min())
        # Few whole numbers, as code distances are, number themselves.
        if int(distances.max()) - lowest <= 2 * distances.shape[1] + 1024:
            wide = distances if distances.dtype.itemsize >= 4 else distances.astype(np.int32)
            return (wide - wide.dtype.type(lowest)).astype(np.int32, order="C", copy=False)
    groups = np.empty(distances.shape, dtype=np.int32)
    for row, own in zip(distances, groups, strict=True):
        own[:] = np.unique(row, return_inverse=True)[1]
    return groups


def _check_distances(distances: Any) -> npt.NDArray[Any]:
    table = to_matrix(distances, "distances")
    if table.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"distances must be whole numbers or floats, got dtype {table.dtype}."
        )
    if table.dtype.kind == "f" and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        raise InvalidInputError(
            f"distances must be numbers, got nan in row {row}, column {column}. Use inf for what "
            "should rank last."
        )
    return table


def _check_relevance(relevant: Any) -> Any:
    """Return `relevant` as a boolean array, or as CSR without duplicates or stored False."""
    is_sparse = scipy.sparse.issparse(relevant)
    table: Any = given_csr(relevant, "relevant") if is_sparse else to_matrix(relevant, "relevant")
    if table.dtype != np.bool_:
        raise InvalidInputError(
            f"relevant must be boolean, got dtype {table.dtype}. Write relevant != 0 or the like."
        )
    if is_sparse and not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def to_matrix(values: Any, name: str) -> npt.NDArray[Any]:
    """Return values as a 2-dimensional array."""
    try:
        table = np.asarray(values)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be a matrix, got rows of different lengths."
        ) from None
    if table.ndim != 2:
        raise InvalidInputError(
            f"{name} must be 2-dimensional, got shape {table.shape}. Wrap one query in a list."
        )
    return table
