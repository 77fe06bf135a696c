"""How good a ranking is, against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin import threads
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.rows import given_csr
from bitkin.kernels.search.ranking import average_precision_into

_PAIRS_PER_PIECE = 2**20  # ranked by one thread at a time
_NOTHING_TRUE = (
    "must name at least one {what}, got none in {n} queries: there is nothing to measure."
)


def recall(found_ids: Any, true_ids: Any) -> float:
    """Return the mean, over the queries, of the share of true ids that are among the found.

    Parameters
    ----------
    found_ids : whole numbers, (q, m)
        What a search returned; −1 is padding and never matches.
    true_ids : whole numbers, (q, k)
        What it should have returned; −1 is padding and not counted. A query without any true id is
        left out.

    Examples
    --------
    >>> from bitkin.evaluate import recall
    >>> recall([[3, 1, 9], [5, 6, -1]], [[1, 2], [5, -1]])
    0.75
    """
    found, true = _check_ids(found_ids, "found_ids"), _check_ids(true_ids, "true_ids")
    if len(found) != len(true):
        raise InvalidInputError(
            f"found_ids and true_ids must have one row a query each, got {len(found)} and "
            f"{len(true)} rows."
        )
    wanted = (true >= 0).sum(axis=1)
    asked = wanted > 0
    if not asked.any():
        raise InvalidInputError("true_ids " + _NOTHING_TRUE.format(what="id", n=len(true)))
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
    return float((hits[asked] / wanted[asked]).mean())


def mean_average_precision(distances: Any, relevant: Any) -> float:
    """Return the mean, over the queries, of the average precision of the ranking by distance.

    Parameters
    ----------
    distances : whole numbers or floats, (q, n)
        Smaller ranks first. Rows at one distance may come in any order: the result is the mean over
        all of them.
    relevant : booleans, (q, n), an array or a SciPy sparse matrix
        What should rank first. A query with nothing relevant is left out.

    Examples
    --------
    >>> from bitkin.evaluate import mean_average_precision
    >>> mean_average_precision([[0, 1, 2]], [[True, False, True]])
    0.8333333333333333
    >>> mean_average_precision([[7, 7]], [[True, False]])
    0.75
    """
    table = _check_distances(distances)
    truth = _check_relevance(relevant)
    if truth.shape != table.shape:
        raise InvalidInputError(
            f"relevant must have the shape of distances, {table.shape}, got {truth.shape}: one row "
            "a query."
        )
    step = max(1, _PAIRS_PER_PIECE // max(1, table.shape[1]))
    pieces = [slice(start, start + step) for start in range(0, len(table), step)]
    results = threads.run(lambda piece: _average_precisions(table[piece], truth[piece]), pieces)
    precisions = np.concatenate([np.empty(0), *results])
    asked = ~np.isnan(precisions)
    if not asked.any():
        raise InvalidInputError("relevant " + _NOTHING_TRUE.format(what="row", n=len(table)))
    return float(precisions[asked].mean())


def _average_precisions(distances: npt.NDArray[Any], relevant: Any) -> npt.NDArray[np.float64]:
    """Return the expected average precision of every row, NaN where nothing is relevant."""
    out = np.empty(len(distances), dtype=np.float64)
    groups = _rank_groups(distances)
    truth = scipy.sparse.csr_matrix(relevant)
    # work arrays of the kernel, one count per group of equal distances
    n_groups = int(groups.max(initial=-1)) + 1
    counts, hits = np.empty(n_groups, dtype=np.int64), np.empty(n_groups, dtype=np.int64)
    offsets, columns = (
        truth.indptr.astype(np.int64, copy=False),
        truth.indices.astype(np.int64, copy=False),
    )
    average_precision_into(groups, offsets, columns, counts, hits, out)
    return out


def _rank_groups(distances: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
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


def _check_ids(ids: Any, name: str) -> npt.NDArray[np.int64]:
    table = _to_matrix(ids, name)
    if table.size == 0:
        return np.empty(table.shape, dtype=np.int64)
    if table.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be whole numbers, got {table.dtype} such as {table.flat[0]}."
        )
    if int(table.max()) >= 2**63 or int(table.min()) < -1:
        bad = table.max() if int(table.max()) >= 2**63 else table.min()
        raise InvalidInputError(
            f"{name} must be ids from 0 to 2**63 - 1, or -1 for none, got {bad}."
        )
    return table.astype(np.int64, copy=False)


def _check_distances(distances: Any) -> npt.NDArray[Any]:
    table = _to_matrix(distances, "distances")
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
    table: Any = given_csr(relevant, "relevant") if is_sparse else _to_matrix(relevant, "relevant")
    if table.dtype != np.bool_:
        raise InvalidInputError(
            f"relevant must be boolean, got dtype {table.dtype}. Write relevant != 0 or the like."
        )
    if is_sparse and not (table.has_canonical_format and table.data.all()):
        table = table.copy()
        table.sum_duplicates()
        table.eliminate_zeros()
    return table


def _to_matrix(values: Any, name: str) -> npt.NDArray[Any]:
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
