"""Relevance by labels: a row is relevant for the queries that it shares a label with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.arrays import Ids
from bitkin.checks import shown
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.evaluate.tables import read_table
from bitkin.input_files import map_npy
from bitkin.io.vectors.rows import given_csr
from bitkin.memory import require_memory

_MANY = (set, frozenset, list, tuple, np.ndarray)


def same_label(labels: Any, query_labels: Any) -> scipy.sparse.csr_matrix:
    """Mark for every query the rows that have a label in common with it: a truth for
    `mean_average_precision`, `precision_recall` and `ndcg`.

    Parameters
    ----------
    labels : (n,) whole numbers, strings or booleans; n sets of them; sparse (n, labels); or a file
        The label of every row, where None has none; the labels of every row, as lists or sets; or a
        matrix that is not 0 where row i has label j. A file is an .npy array, an array called
        `labels` or `y` or a sparse matrix in .npz, or text with one label per line.
    query_labels : the same, for q queries
        A matrix must have the same columns.

    Returns
    -------
    csr_matrix of bool, (q, n)
        True where row j has a label of query i; columns sorted. It takes 5 bytes per True and never
        becomes dense.

    Examples
    --------
    >>> from bitkin.evaluate import mean_average_precision, same_label
    >>> truth = same_label(["cat", "dog", "cat"], ["cat", "bird"])
    >>> truth.toarray()
    array([[ True, False,  True],
           [False, False, False]])
    >>> mean_average_precision([[0.1, 0.3, 0.2], [0.5, 0.5, 0.5]], truth)
    1.0
    >>> same_label([{"red", "round"}, {"blue"}], [["red", "blue"]]).toarray()
    array([[ True,  True]])
    """
    rows, queries = _read(labels), _read(query_labels)
    if scipy.sparse.issparse(rows) or scipy.sparse.issparse(queries):
        return _sharing(_check_flags(rows, "labels"), _check_flags(queries, "query_labels"))
    rows, queries = _to_list(rows, "labels"), _to_list(queries, "query_labels")
    numbers: dict[Any, int] = {}
    if any(isinstance(label, _MANY) for label in (*rows, *queries)):
        tables = [
            _number_many(many, name, numbers)
            for many, name in ((rows, "labels"), (queries, "query_labels"))
        ]
        _require_one_kind(numbers)
        shapes = [(len(offsets) - 1, len(numbers)) for offsets, _ in tables]
        flags = [
            scipy.sparse.csr_array((np.ones(len(ids), dtype=np.int32), ids, offsets), shape=shape)
            for (offsets, ids), shape in zip(tables, shapes, strict=True)
        ]
        return _sharing(flags[0], flags[1])
    each = [
        _number_each(values, name, numbers)
        for values, name in ((rows, "labels"), (queries, "query_labels"))
    ]
    _require_one_kind(numbers)
    return _equal(each[0], each[1])


def _equal(rows: Ids, queries: Ids) -> scipy.sparse.csr_matrix:
    """Return where numbers are equal; −1 equals nothing."""
    # Rows sorted by label, in order within each: those of one label are a slice.
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    first = np.searchsorted(sorted_rows, queries, side="left")
    last = np.searchsorted(sorted_rows, queries, side="right")
    counts = np.where(queries >= 0, last - first, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    _require_room(int(offsets[-1]))
    index_type = np.int32 if max(int(offsets[-1]), len(rows)) < 2**31 else np.int64
    columns = np.empty(int(offsets[-1]), dtype=index_type)
    for query in np.flatnonzero(counts):
        columns[offsets[query] : offsets[query + 1]] = order[first[query] : last[query]]
    return scipy.sparse.csr_matrix(
        (np.ones(len(columns), dtype=bool), columns, offsets.astype(index_type)),
        shape=(len(queries), len(rows)),
    )


def _sharing(rows: Any, queries: Any) -> scipy.sparse.csr_matrix:
    """Return where two rows of flags have one in common."""
    if rows.shape[1] != queries.shape[1]:
        raise InvalidInputError(
            "labels and query_labels must have the same columns, one per label, got "
            f"{rows.shape[1]} and {queries.shape[1]}."
        )
    # At most so many pairs: of every label, its queries times its rows.
    of_label = [np.bincount(side.indices, minlength=side.shape[1]) for side in (rows, queries)]
    _require_room(
        min(int(of_label[0].astype(float) @ of_label[1]), rows.shape[0] * queries.shape[0])
    )
    shared = scipy.sparse.csr_matrix(queries @ rows.T)
    shared.sort_indices()
    return shared.astype(bool)


def _require_room(n_pairs: int) -> None:
    require_memory(
        9 * n_pairs, f"a truth of {n_pairs:,} relevant pairs", "Take fewer queries at a time."
    )


def _read(given: Any) -> Any:
    """Return labels as they were given; of a path, those in the file."""
    if not isinstance(given, (str, os.PathLike)):
        return given
    path = Path(given)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return np.array(map_npy(path))
    if suffix == ".npz":
        return read_table(path, ("labels", "y"))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} must be an .npy or .npz array of labels, or text with one per line: {error}."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise FileAccessError(f"{path} cannot be read: {reason}.") from error
    # a line may hold spaces and characters that Python takes for ends of lines
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _check_flags(given: Any, name: str) -> Any:
    """Return a sparse matrix as CSR of ones, without stored zeros."""
    if not scipy.sparse.issparse(given):
        raise InvalidInputError(
            "labels and query_labels must be of one kind, got one sparse matrix and "
            f"{name} of type {type(given).__name__}."
        )
    flags = given_csr(given, name)
    flags = scipy.sparse.csr_array(
        (np.asarray(flags.data != 0).astype(np.int32), flags.indices, flags.indptr),
        shape=flags.shape,
        copy=True,  # the caller's indices stay as they are
    )
    flags.sum_duplicates()
    flags.eliminate_zeros()
    flags.data[:] = 1
    return flags


def _to_list(given: Any, name: str) -> list[Any]:
    """Return labels as a list of Python values."""
    if isinstance(given, (dict, set, frozenset)) or not isinstance(given, Iterable):
        raise InvalidInputError(
            f"{name} must be a list or an array with one label per row, got {shown(given)}."
        )
    if isinstance(given, np.ndarray) and (given.ndim != 1 or given.dtype.kind not in "biuUTO"):
        raise InvalidInputError(
            f"{name} must be whole numbers or strings of shape (n,), got {given.dtype} of shape "
            f"{given.shape}. Several labels per row are a sparse matrix."
        )
    return given.tolist() if isinstance(given, np.ndarray) else list(given)


def _number(label: Any, name: str, numbers: dict[Any, int]) -> int:
    """Return the number of a label, a new one for a new label."""
    if isinstance(label, (bool, np.bool_, int, np.integer, str)):
        return numbers.setdefault(label, len(numbers))
    raise InvalidInputError(
        f"{name} must be whole numbers or strings, got {shown(label)}. Convert them first."
    )


def _require_one_kind(numbers: dict[Any, int]) -> None:
    """Raise where some labels are text and others numbers, which are never equal."""
    text = next((label for label in numbers if isinstance(label, str)), None)
    other = next((label for label in numbers if not isinstance(label, str)), None)
    if text is not None and other is not None:
        raise InvalidInputError(
            "labels and query_labels must be of one kind, whole numbers or strings, got "
            f"{shown(text)} and {shown(other)}. Labels in a text file are strings: keep both alike."
        )


def _number_each(labels: list[Any], name: str, numbers: dict[Any, int]) -> Ids:
    """Return the number of every label, −1 for None."""
    found = [-1 if label is None else _number(label, name, numbers) for label in labels]
    return np.array(found, dtype=np.int64)


def _number_many(
    labels: list[Any], name: str, numbers: dict[Any, int]
) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Return offsets and numbers of the labels of every row, each once."""
    offsets, found = [0], []
    for many in labels:
        if many is None:
            many = ()
        if not isinstance(many, _MANY):
            raise InvalidInputError(
                f"{name} must be one label per row or a set of them for every row, got "
                f"{shown(many)} among sets."
            )
        found += sorted({_number(label, name, numbers) for label in many})
        offsets.append(len(found))
    return np.array(offsets, dtype=np.int64), np.array(found, dtype=np.int64)
