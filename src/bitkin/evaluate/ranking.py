"""A ranking and the truth about it, checked: distances of rows from queries, and which rows are
relevant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.errors import InvalidInputError
from bitkin.evaluate.tables import DISTANCES, read_relevance, read_table, to_matrix
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
    table = check_distances(distances, "distances")
    truth = check_relevance(relevant)
    _require_shape(truth, "relevant", table)
    return Ranking(table, truth)


def check_graded_ranking(distances: Any, relevance: Any) -> Ranking:
    """Return a ranking and how relevant each row is: numbers from 0, or booleans."""
    table = check_distances(distances, "distances")
    given = read_relevance(relevance)
    is_sparse = scipy.sparse.issparse(given)
    if is_sparse and given.dtype.kind in "iu":
        # entries that are stored twice are added up, which a narrow type may not hold
        given = given.astype(np.float64)
    grades: Any = given_csr(given, "relevance") if is_sparse else to_matrix(given, "relevance")
    if grades.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"relevance must be numbers from 0 or booleans, got dtype {grades.dtype}."
        )
    values = grades.data if is_sparse else grades
    # written so that NaN is refused too
    if not (values >= 0).all() or (values.dtype.kind == "f" and np.isinf(values).any()):
        bad = values[~((values >= 0) & np.isfinite(values))]
        raise InvalidInputError(
            f"relevance must be finite and at least 0, got {bad.flat[0]}. What is irrelevant is 0."
        )
    _require_shape(grades, "relevance", table)
    if is_sparse and not grades.has_canonical_format:
        grades = grades.copy()
        grades.sum_duplicates()  # what is stored twice for a row is one relevance
    return Ranking(table, grades)


def _require_shape(truth: Any, name: str, distances: npt.NDArray[Any]) -> None:
    if truth.shape != distances.shape:
        raise InvalidInputError(
            f"{name} must have the shape of distances, {distances.shape}, got {truth.shape}: one "
            "row per query."
        )


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


def pieces_of(table: npt.NDArray[Any], pairs_per_piece: int) -> list[slice]:
    """Cut the queries into pieces for threads."""
    step = max(1, pairs_per_piece // max(1, table.shape[1]))
    return [slice(start, start + step) for start in range(0, len(table), step)]


def check_distances(distances: Any, name: str) -> npt.NDArray[Any]:
    """Return distances as a matrix of whole numbers or floats without NaN."""
    table = to_matrix(read_table(distances, DISTANCES), name)
    if table.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name} must be whole numbers or floats, got dtype {table.dtype}.")
    if table.dtype.kind == "f" and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        raise InvalidInputError(
            f"{name} must be numbers, got nan in row {row}, column {column}. Use inf for what "
            "should rank last."
        )
    return table


def check_relevance(relevant: Any) -> Any:
    """Return `relevant` as a boolean array, or as CSR without duplicates or stored False."""
    relevant = read_relevance(relevant)
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
