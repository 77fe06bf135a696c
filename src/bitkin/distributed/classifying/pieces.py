"""Labelled rows in pieces that lie on workers: how they are given, and what is asked of each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import dask.array
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client, Future

from bitkin.arrays import Batch
from bitkin.checks import shown
from bitkin.distributed.cluster import block, gather
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import finite_batches
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import plain_batch
from bitkin.io.vectors.rows import as_rows, number_dtype
from bitkin.learn.heshing.class_labels import check_row_labels, sort_labels
from bitkin.learn.heshing.rows import gather_rows, refuse_texts


class LabelledPiece(NamedTuple):
    """Rows of a partition, checked, and a label each."""

    rows: Batch
    labels: list[Hashable]


class PieceFacts(NamedTuple):
    """What the client knows of a piece."""

    n_rows: int
    n_features: int
    kind: str
    """Of its rows, as messages say it."""
    labels: list[Hashable]
    """The different ones."""


class PieceSet(NamedTuple):
    """All pieces, in the order of their rows, and what they have in common."""

    pieces: list[Future]
    """Each becomes a `LabelledPiece`."""
    counts: list[int]
    n_features: int
    labels: list[Hashable]
    """The different ones, sorted."""


def pair_arrays(X: Any, y: Any, name: str = "X") -> list[Delayed]:
    """Return a pair of rows and labels for every chunk of two Dask arrays; labels may be in memory
    too.
    """
    require_row_chunks(X, name)
    if isinstance(y, dask.array.Array):
        if y.ndim != 1 or y.chunks[0] != X.chunks[0]:
            raise InvalidInputError(
                f"y must have the chunks of {name}, {name}.chunks[0]={shown(X.chunks[0])}, got "
                f"{shown(y.chunks)}: rechunk with y.rechunk(({name}.chunks[0],))."
            )
        labels = list(y.to_delayed().ravel())
    else:
        every = check_row_labels(y, X.shape[0])
        stops = np.cumsum(X.chunks[0]).tolist()
        labels = [
            every[stop - count : stop] for stop, count in zip(stops, X.chunks[0], strict=True)
        ]
    pair = delayed(pair_rows, pure=False)
    blocks = X.to_delayed().ravel()
    return [pair(rows, part) for rows, part in zip(blocks, labels, strict=True)]


def pair_rows(rows: Any, labels: Any) -> tuple[Any, Any]:
    """Return both, as a piece to learn is given."""
    return rows, labels


def open_pieces(pieces: Sequence[Any], client: Client, name: str = "X") -> PieceSet:
    """Check pieces on the workers, where they stay, and return what they have in common.

    Each is a Dask object, delayed or a future, that becomes a pair of rows and labels.
    """
    if not len(pieces) or not all(isinstance(one, (Delayed, Future)) for one in pieces):
        raise InvalidInputError(
            f"{name} must be a Dask array or a list of delayed pairs of rows and labels, got "
            f"{shown(pieces)}."
        )
    delayed_pieces = [one for one in pieces if isinstance(one, Delayed)]
    # all at once: what they have in common, such as an array that was cut, is sent once
    computed = iter(client.compute(delayed_pieces))
    given = [one if isinstance(one, Future) else next(computed) for one in pieces]
    names = [f"{name}, partition {number}" for number in range(len(given))]
    checked = client.map(check_piece, given, names, pure=False)
    del given, computed
    facts: list[PieceFacts] = gather(client, client.map(describe_piece, checked, pure=False))
    filled = [number for number, one in enumerate(facts) if one.n_rows]
    if not filled:
        raise InvalidInputError(f"{name} has no rows. Give at least one row to fit.")
    first = facts[filled[0]]
    for number in filled:
        here = facts[number]
        if here[1:3] != first[1:3]:
            raise InvalidInputError(
                f"{name} must have rows of one kind: {names[number]} has {here.kind}, and "
                f"{names[filled[0]]} {first.kind}. Make all partitions one type and one width."
            )
    return PieceSet(
        [checked[number] for number in filled],
        [facts[number].n_rows for number in filled],
        first.n_features,
        sort_labels(label for number in filled for label in facts[number].labels),
    )


@block
def check_piece(piece: Any, name: str) -> LabelledPiece:
    """Return rows and labels of a partition as they are learned, or say what is wrong where."""
    if not isinstance(piece, tuple) or len(piece) != 2:
        raise InvalidInputError(
            f"{name} must be a pair of rows and labels, got a {type(piece).__name__}."
        )
    given, y = piece
    if isinstance(given, VectorSource):
        rows = gather_rows(given)
    else:
        refuse_texts(given)
        rows = as_rows(given, name)
        rows = plain_batch(rows, number_dtype(rows.dtype, name))
    for _ in finite_batches(rows, name):  # which raises for NaN and infinity
        pass
    try:
        labels = check_row_labels(y, rows.shape[0]) if rows.shape[0] else []
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error
    return LabelledPiece(rows, labels)


@block
def describe_piece(piece: LabelledPiece) -> PieceFacts:
    """Return what the client has to know of a piece."""
    n, d = piece.rows.shape
    form = "dense" if isinstance(piece.rows, np.ndarray) else "CSR"
    kind = f"{form} {piece.rows.dtype} with {d} columns"
    return PieceFacts(n, d, kind, list(dict.fromkeys(piece.labels)))


def require_row_chunks(X: Any, name: str) -> None:
    """Raise unless X is a Dask array of whole rows in chunks of known sizes."""
    if not isinstance(X, dask.array.Array):
        raise InvalidInputError(f"{name} must be a Dask array, got a {type(X).__name__}.")
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
