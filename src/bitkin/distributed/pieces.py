"""Pieces of the vectors that a cluster holds: a block of a Dask collection, or a stretch of a file
that workers read. In a task either becomes a `VectorSource`, as rows do on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.codes import Codes
from bitkin.distributed.cluster import block
from bitkin.distributed.folders import missing_on_worker
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.input_files import VectorFileOptions
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import row_slice, stack
from bitkin.io.vectors.columns import Columns


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Rows `start` to `stop` of a file of vectors, by the path it has on the workers."""

    path: str
    options: VectorFileOptions
    start: int = 0
    stop: int | None = None

    def open(self) -> VectorSource:
        """Open the whole file."""
        return self.options.open([Path(self.path)])


class RowKind(NamedTuple):
    """What the rows of every piece have in common."""

    n_features: int
    dtype: np.dtype[Any]
    sparse: bool
    feature_names: Columns | None = None

    def __str__(self) -> str:
        form = "CSR" if self.sparse else "dense"
        return f"{form} {self.dtype} with {self.n_features} columns"


class PieceRows(NamedTuple):
    """What one piece holds."""

    n_rows: int
    kind: RowKind


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece stands among all of them, and what its rows must be."""

    name: str
    """What messages call it."""
    first: int
    """Its first row, counted over all pieces."""
    n_rows: int
    kind: RowKind


@dataclass(frozen=True, slots=True)
class Fold:
    """What is made of rows: the state to begin with, and how rows change it."""

    start: Callable[[], Any]
    update: Callable[[Any, int, Batch], Any]


def open_piece(piece: Any, name: str, column: str | None = None) -> VectorSource:
    """Return the rows of a piece as a source; a file by its own name."""
    if isinstance(piece, FilePiece):
        return piece.open()
    if getattr(piece, "shape", None) == (0,):  # of a column no row says how long vectors are
        return open_vectors(np.empty((0, 1), dtype=np.float32), name=name)
    if column is not None and not hasattr(piece, "columns"):
        raise InvalidInputError(
            f"column must be left out for {name}, a {type(piece).__name__} without any, got "
            f"{column!r}."
        )
    return open_vectors(piece, column=column, name=name)


@block
def describe_piece(piece: Any, name: str, column: str | None) -> PieceRows:
    """Return how many rows a piece has, and what they are."""
    with open_piece(piece, name, column) as source:
        return PieceRows(len(source), _kind_of(source))


@block
def describe_files(
    paths: list[str], options: VectorFileOptions
) -> list[tuple[PieceRows, tuple[int, int]]]:
    """Return what files hold, by what stands at their beginnings where formats say it there, with
    their sizes and times.
    """
    found = []
    for path in paths:
        try:
            rows = describe_piece(FilePiece(path, options), path, None)
        except FileAccessError as error:
            raise missing_on_worker(error) from None
        status = Path(path).stat()
        found.append((rows, (status.st_size, status.st_mtime_ns)))
    return found


@block
def fold_piece(piece: Any, place: Place, column: str | None, work: Fold) -> Any:
    """Return what an update makes of the rows of a piece."""
    state = work.start()
    for first, batch in batches_of(piece, place, column):
        state = work.update(state, first, batch)
    return state


@block
def take_rows(
    piece: Any, place: Place, column: str | None, row_numbers: npt.NDArray[np.int64]
) -> Batch:
    """Return rows of a piece by their numbers among all rows."""
    with open_piece(piece, place.name, column) as source:
        _require_place(source, piece, place)
        return source.gather(row_numbers - place.first + _start_of(piece))


@block
def read_rows(piece: Any, place: Place, column: str | None, first: int, stop: int) -> Batch:
    """Return rows `first` to `stop`, counted over all pieces, of a piece that has them."""
    return stack([batch for _, batch in batches_of(piece, place, column, first, stop)])


def batches_of(
    piece: Any, place: Place, column: str | None, first: int | None = None, stop: int | None = None
) -> Iterator[tuple[int, Batch]]:
    """Yield `(first_row, batch)` of a piece, or of a part of it, counted over all pieces."""
    first = place.first if first is None else first
    stop = place.first + place.n_rows if stop is None else stop
    with open_piece(piece, place.name, column) as source:
        _require_place(source, piece, place)
        # where row 0 of the file or block would be among all rows
        offset = place.first - _start_of(piece)
        for at, batch in batches_between(source, first - offset, stop - offset):
            yield at + offset, batch


def encode_batches(
    piece: Any, name: str, column: str | None, hasher: Hasher, n_rows: int | None
) -> Iterator[tuple[int, Codes]]:
    """Yield `(first_row, codes)` of a piece, counted as its file or block does; `n_rows` is what it
    must have, where that is known.
    """
    with open_piece(piece, name, column) as source:
        if n_rows is not None:
            _require_n_rows(source, piece, n_rows, name)
        if len(source):
            hasher.require_features(source)
        start, stop = _start_of(piece), len(source)
        if isinstance(piece, FilePiece) and piece.stop is not None:
            stop = piece.stop
        for first, batch in batches_between(source, start, stop):
            yield first, hasher.encode_batch(batch, source.name, first)


def batches_between(source: VectorSource, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
    """Yield `(first_row, batch)` of rows `first` to `stop`."""
    if first == stop:
        return
    for at, batch in source.batches(start=first):
        yield at, row_slice(batch, 0, min(batch.shape[0], stop - at))
        if at + batch.shape[0] >= stop:
            return


def _start_of(piece: Any) -> int:
    return piece.start if isinstance(piece, FilePiece) else 0


def _kind_of(source: VectorSource) -> RowKind:
    return RowKind(source.shape[1], source.dtype, source.sparse, source.feature_names)


def no_codes(hasher: Hasher) -> Codes:
    """Return no codes at all, of a hasher."""
    spec = hasher.spec_
    words = np.empty((0, spec.bits_per_symbol, spec.plane_words), dtype=np.uint64)
    return Codes.from_parts(words, spec, None, hasher.fingerprint_)


def _require_n_rows(source: VectorSource, piece: Any, n_rows: int, name: str) -> None:
    """Raise where a piece has another number of rows than was said: rows after it would be counted
    wrongly.
    """
    if isinstance(piece, FilePiece):
        if len(source) < piece.start + n_rows:
            raise InvalidInputError(
                f"{name} must have at least the {piece.start + n_rows} rows that it had when it "
                f"was opened, got {len(source)}. Leave files as they are while they are read."
            )
    elif len(source) != n_rows:
        raise InvalidInputError(
            f"{name} must have the {n_rows} rows that its chunks say, got {len(source)}. Where "
            "blocks lose rows, as in a map_blocks, say there that their sizes are np.nan, and use "
            "compute_chunk_sizes()."
        )


def _require_place(source: VectorSource, piece: Any, place: Place) -> None:
    """Raise where a piece is no longer, or never was, what it was said to be."""
    _require_n_rows(source, piece, place.n_rows, place.name)
    found, wanted = _kind_of(source), place.kind
    if found[:3] != wanted[:3]:
        raise InvalidInputError(
            f"{place.name} must have rows like the others, {wanted}, got {found}. Make all "
            "partitions one type and one width, such as with X.astype or X.map_blocks."
        )
    source.require_columns(wanted.feature_names)
