"""Whatever holds vectors for a cluster, as pieces: Dask arrays, data frames, delayed blocks, and
files that the workers read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from distributed import Client

from bitkin.checks import shown
from bitkin.distributed.cluster import Progress, collect
from bitkin.distributed.folders import list_vector_files
from bitkin.distributed.pieces import (
    FilePiece,
    PieceRows,
    describe_files,
    describe_piece,
)
from bitkin.distributed.rows import ClusterRows, name_of
from bitkin.errors import InvalidInputError
from bitkin.input_files import VectorFileOptions
from bitkin.io.vectors.formats import is_svmlight

Compute = Callable[[Sequence[Any]], list[Any]]
"""Does delayed tasks and returns their results: on a client's workers, or wherever Dask does."""

_PIECE_BYTES = 1 << 26
_WHOLE_FILES = (".npz", ".gz")  # which have to be read from their beginning


@dataclass(frozen=True, slots=True)
class Partitions:
    """Pieces of vectors in order, and what is known of them without reading any.

    Attributes
    ----------
    name : str
        What messages call the vectors.
    pieces : tuple
        Dask objects that stand for blocks, or `FilePiece`.
    counts : tuple of int, or None
        Rows of every piece; None where only reading tells.
    rows : tuple of PieceRows, or None
        What every piece holds, where that is known.
    column : str or None
        Column of vectors, where blocks are data frames.
    stamps : list, or None
        Of files, what tells whether they are those of another time.
    """

    name: str
    pieces: tuple[Any, ...]
    counts: tuple[int, ...] | None
    rows: tuple[PieceRows, ...] | None = None
    column: str | None = None
    stamps: list[Any] | None = None

    def name_of(self, number: int) -> str:
        """Return what messages call a piece."""
        return name_of(self.name, number, self.pieces[number])

    def describe(self, compute: Compute) -> tuple[PieceRows, ...]:
        """Return what every piece holds. Of blocks whose numbers of rows are known, the first that
        has rows stands for all, and every task checks its own.
        """
        if self.rows is not None:
            return self.rows
        wanted = list(range(len(self.pieces)))
        if self.counts is not None:
            wanted = [next((i for i, n in enumerate(self.counts) if n), 0)]
        describe = delayed(describe_piece, pure=False)
        found = compute([describe(self.pieces[i], self.name_of(i), self.column) for i in wanted])
        if self.counts is None:
            return tuple(found)
        return tuple(PieceRows(n, found[0].kind) for n in self.counts)

    def open(self, client: Client, progress: Progress | None = None) -> ClusterRows:
        """Return the rows as a source to learn from on the workers of a client."""
        rows = self.describe(lambda tasks: collect(client, tasks))
        return ClusterRows(
            self.name, self.pieces, rows, client, column=self.column, progress=progress
        )


def find_partitions(
    X: Any,
    compute: Compute,
    *,
    name: str = "X",
    column: str | None = None,
    options: VectorFileOptions | None = None,
    width: int | None = None,
) -> Partitions:
    """Return the pieces of whatever holds vectors; `compute` lists and opens files where the
    workers see them. `options` say how files are read, `column` which one of a data frame, and
    `width` how many columns svmlight text has where nothing else says it.
    """
    if not (isinstance(X, (str, os.PathLike)) or _are_paths(X)):
        _refuse_file_options(options, name)
    if isinstance(X, dask.array.Array):
        _refuse_column(column, name, "an array")
        return _of_array(X, name)
    if is_dask_collection(X) and hasattr(X, "partitions") and hasattr(X, "to_delayed"):
        return _of_frame(X, name, column)
    if isinstance(X, Sequence) and len(X) and all(isinstance(one, Delayed) for one in X):
        return Partitions(name, tuple(X), None, column=column)
    if isinstance(X, (str, os.PathLike)) or _are_paths(X):
        # absolute, since workers may run elsewhere in the same file system
        paths = [
            str(Path(one).absolute()) for one in ([X] if isinstance(X, (str, os.PathLike)) else X)
        ]
        options = options or VectorFileOptions()
        if column is not None:
            options = options._replace(column=column)
        return _of_files(paths, name, options, width, compute)
    kind = type(X).__name__
    raise InvalidInputError(
        f"{name} must be a Dask array or data frame, a list of delayed blocks, or files that the "
        f"workers can read (a path, a folder or a list of paths), got {shown(kind)}. What is in "
        "memory here needs no cluster; dask.array.from_array(X, chunks=(100_000, -1)) makes it "
        "Dask's."
    )


def _of_array(X: Any, name: str) -> Partitions:
    if X.ndim != 2:
        raise InvalidInputError(
            f"{name} must have two dimensions, a vector per row, got {X.ndim}: shape {X.shape}."
        )
    if len(X.chunks[1]) != 1:
        raise InvalidInputError(
            f"{name} must have chunks of whole rows, got {len(X.chunks[1])} chunks along its "
            f"columns, {shown(X.chunks[1])}. Use {name}.rechunk({{1: -1}})."
        )
    if any(math.isnan(n) for n in (*X.chunks[0], *X.chunks[1])):
        raise InvalidInputError(
            f"{name} must have chunks of known sizes, got some that Dask does not know. Use "
            f"{name}.compute_chunk_sizes() first."
        )
    if X.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must hold numbers, got {X.dtype}.")
    return Partitions(name, tuple(X.to_delayed().ravel()), tuple(map(int, X.chunks[0])))


def _of_frame(X: Any, name: str, column: str | None) -> Partitions:
    if not hasattr(X, "columns") or getattr(X, "ndim", 2) == 1:
        _refuse_column(column, name, "a column alone")
        _refuse_text(X.dtype, name)
        return Partitions(name, tuple(X.to_delayed()), None)
    columns = list(X.columns)
    if column is None:
        others = [one for one, dtype in X.dtypes.items() if not _is_number(dtype)]
        if len(others) == 1:
            column = others[0]
        elif others:
            raise InvalidInputError(
                f"column must name the column of vectors of {name}: it has {shown(others)} that "
                "are no numbers."
            )
    elif column not in columns:
        raise InvalidInputError(
            f"column must be a column of {name}, {', '.join(map(str, columns))}, got {column!r}."
        )
    if column is not None:
        _refuse_text(X[column].dtype, f"column {shown(column)} of {name}")
        return Partitions(name, tuple(X[column].to_delayed()), None)
    return Partitions(name, tuple(X.to_delayed()), None)


def _of_files(
    paths: list[str],
    name: str,
    options: VectorFileOptions,
    width: int | None,
    compute: Compute,
) -> Partitions:
    (files,) = compute([delayed(list_vector_files, pure=False)(paths)])
    texts = [path for path in files if is_svmlight(Path(path))]
    if texts and options.n_features is None:
        options = options._replace(n_features=width)
    for option in ("n_features", "zero_based") if texts else ():
        if getattr(options, option) is None:
            raise InvalidInputError(
                f"{option} must be given for svmlight text such as {texts[0]}: no worker reads all "
                "of it to find it out."
            )
    describe = delayed(describe_files, pure=False)
    # opening a file costs little, a task some milliseconds
    some = [files[i : i + 64] for i in range(0, len(files), 64)]
    found = [one for part in compute([describe(part, options) for part in some]) for one in part]
    stamps = [[path, *stamp] for path, (_, stamp) in zip(files, found, strict=True)]
    pieces: list[FilePiece] = []
    rows: list[PieceRows] = []
    for path, (held, _) in zip(files, found, strict=True):
        step = _rows_per_piece(path, held)
        for start in range(0, held.n_rows, step):
            stop = min(held.n_rows, start + step)
            pieces.append(FilePiece(path, options, start, stop))
            rows.append(PieceRows(stop - start, held.kind))
    if not pieces:
        raise InvalidInputError(f"{name} has no rows: {shown(paths)} hold none.")
    counts = tuple(one.n_rows for one in rows)
    stamps.append(list(options))
    return Partitions(name, tuple(pieces), counts, tuple(rows), stamps=stamps)


def _rows_per_piece(path: str, held: PieceRows) -> int:
    if held.kind.sparse or path.endswith(_WHOLE_FILES):
        return max(1, held.n_rows)
    return max(1, _PIECE_BYTES // max(1, held.kind.n_features * held.kind.dtype.itemsize))


def _are_paths(X: Any) -> bool:
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(isinstance(one, (str, os.PathLike)) for one in X)
    )


def _is_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def _refuse_file_options(options: VectorFileOptions | None, name: str) -> None:
    for option, value in ({} if options is None else options._asdict()).items():
        if value is not None:
            raise InvalidInputError(
                f"{option} means nothing where {name} is not in files: leave it out, got {value!r}."
            )


def _refuse_text(dtype: Any, what: str) -> None:
    """Raise for a column of strings, which Dask makes of all objects unless it is told."""
    if str(dtype).startswith("str"):
        raise InvalidInputError(
            f"{what} must hold vectors, got text ({dtype}). Where vectors were put in, Dask made "
            'text of them: make the frame with dask.config.set({"dataframe.convert-string": '
            "False})."
        )


def _refuse_column(column: str | None, name: str, what: str) -> None:
    if column is not None:
        raise InvalidInputError(
            f"column means nothing where {name} is {what}: leave it out, got {column!r}."
        )
