"""Labelled rows in pieces that lie on workers: how they are given, and what is asked of each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from distributed import Client, Future

from bitkin.arrays import Batch
from bitkin.checks import shown
from bitkin.distributed.cluster import block, collect, gather, taking_back
from bitkin.distributed.partitions import find_partitions
from bitkin.distributed.pieces import FilePiece, PieceRows, open_piece
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import finite_batches
from bitkin.input_files import VectorFileOptions
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


def label_pieces(
    X: Any,
    y: Any,
    client: Client,
    *,
    column: str | None = None,
    options: VectorFileOptions | None = None,
) -> list[Delayed]:
    """Return a pair of rows and labels for every partition of X, whatever holds them; `y` is a Dask
    array or column of the same chunks, a delayed block per partition, or labels in memory.
    """
    if y is None:
        raise InvalidInputError("y must hold a label per row of X, to learn classes, got None.")

    def compute(tasks: Sequence[Any]) -> list[Any]:
        return collect(client, tasks)

    partitions = find_partitions(X, compute, column=column, options=options)
    counts = partitions.counts
    rows: tuple[PieceRows, ...] | None = partitions.rows
    if is_dask_collection(y) and hasattr(y, "to_delayed"):
        chunks = getattr(y, "chunks", None)
        known = counts if chunks is None or any(map(math.isnan, chunks[0])) else chunks[0]
        if getattr(y, "ndim", 1) != 1 or (counts is not None and known != counts):
            raise InvalidInputError(
                f"y must have the chunks of X, X.chunks[0]={shown(counts)}, got {shown(chunks)}: "
                "rechunk with y.rechunk((X.chunks[0],))."
            )
        labels = list(np.ravel(y.to_delayed()))
    elif isinstance(y, Sequence) and len(y) and all(isinstance(one, Delayed) for one in y):
        labels = list(y)
    else:
        rows = partitions.describe(compute)
        sizes = [one.n_rows for one in rows]
        every = check_row_labels(y, sum(sizes))
        stops = accumulate(sizes)
        labels = [every[stop - size : stop] for stop, size in zip(stops, sizes, strict=True)]
    if len(labels) != len(partitions.pieces):
        raise InvalidInputError(
            f"y must have as many partitions as X, {len(partitions.pieces)}, got {len(labels)}."
        )
    pair = delayed(pair_rows, pure=False)
    return [
        pair(piece, part, partitions.name_of(number), partitions.column)
        for number, (piece, part) in enumerate(zip(partitions.pieces, labels, strict=True))
    ]


@block
def pair_rows(piece: Any, labels: Any, name: str, column: str | None) -> tuple[Batch, Any]:
    """Return the rows of a piece, read where it is, and its labels."""
    with open_piece(piece, name, column) as source:
        start, stop = 0, len(source)
        if isinstance(piece, FilePiece):
            start, stop = piece.start, stop if piece.stop is None else piece.stop
        return source.gather(np.arange(start, stop)), labels


def open_pieces(pieces: Sequence[Any], client: Client, name: str = "X") -> PieceSet:
    """Check pieces on the workers, where they stay, and return what they have in common.

    Each is a Dask object, delayed or a future, that becomes a pair of rows and labels.
    """
    if not len(pieces) or not all(isinstance(one, (Delayed, Future)) for one in pieces):
        raise InvalidInputError(
            f"{name} must be delayed pairs of rows and labels, or futures of them, got "
            f"{shown(pieces)}."
        )
    delayed_pieces = [one for one in pieces if isinstance(one, Delayed)]
    # all at once: what they have in common, such as an array that was cut, is sent once
    computed = iter(client.compute(delayed_pieces))
    given = [one if isinstance(one, Future) else next(computed) for one in pieces]
    names = [f"{name}, partition {number}" for number in range(len(given))]
    checked = client.map(check_piece, given, names, pure=False)
    del given, computed
    with taking_back(client, checked):
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
