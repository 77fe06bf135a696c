"""Rows on a cluster as one `VectorSource`: estimators learn from them by the very code that learns
from a file.

Statistics of all rows are found where the rows are, and merged in a tree; rows by number, such as a
sample, come to the client; whoever wants every row in order gets a piece after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from distributed import Client
from scipy.sparse import csr_array

from bitkin.arrays import Batch
from bitkin.checks import id_array, whole_number
from bitkin.distributed.cluster import Progress, collect, merge_in_tree, results_in_order
from bitkin.distributed.pieces import (
    FilePiece,
    Fold,
    PieceRows,
    Place,
    RowKind,
    fold_piece,
    read_rows,
    take_rows,
)
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import plain_batch, regroup, stack
from bitkin.io.vectors.source import VectorSource

State = TypeVar("State")


class ClusterRows(VectorSource):
    """Pieces in the order of their rows.

    Parameters
    ----------
    name : str
        What messages call the vectors.
    pieces : sequence
        Dask objects that stand for blocks, or `FilePiece`.
    rows : sequence of PieceRows
        What each of them holds.
    client : Client
        Whose workers read them.
    column : str or None
        Column of vectors, where blocks are data frames.
    progress : callable or None
        Called with how many tasks of a pass over all rows are done, and how many there are.
    """

    in_parts = True

    def __init__(
        self,
        name: str,
        pieces: Sequence[Any],
        rows: Sequence[PieceRows],
        client: Client,
        *,
        column: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        kind = _common_kind(name, pieces, rows)
        counts = [one.n_rows for one in rows]
        super().__init__(name, (sum(counts), kind.n_features), kind.dtype, sparse=kind.sparse)
        self.feature_names = kind.feature_names
        self.client = client
        self._column = column
        self._progress = progress
        firsts = [0, *accumulate(counts)]
        self._parts = [
            (piece, Place(name_of(name, i, piece), firsts[i], counts[i], kind))
            for i, piece in enumerate(pieces)
            if counts[i]
        ]

    def fold(
        self,
        start: Callable[[], State],
        update: Callable[[State, int, Batch], State],
        merge: Callable[[State, State], State],
    ) -> State:
        """Return what `update` makes of all rows: a state per piece, merged in a tree."""
        self._require_open()
        if not self._parts:
            return start()
        fold = delayed(fold_piece, pure=False)
        work = delayed(Fold(start, update), pure=False, traverse=False)  # sent once, for all pieces
        states = [fold(piece, place, self._column, work) for piece, place in self._parts]
        found: State = merge_in_tree(self.client, states, merge, self._progress)
        return found

    def batches(self, rows: int | None = None, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` in order: every row comes here, a piece or a part of a file at
        a time.
        """
        self._require_open()
        rows = self.batch_rows if rows is None else whole_number(rows, "rows", low=1)
        at = whole_number(start, "start", low=0, high=len(self))
        for batch in regroup(self._pieces_from(at), rows):
            yield at, batch
            at += batch.shape[0]

    def gather(self, row_numbers: npt.ArrayLike) -> Batch:
        """Return rows by number; the workers send these alone."""
        self._require_open()
        wanted = id_array(row_numbers, "row_numbers")
        if len(wanted) and wanted.max() >= len(self):
            raise InvalidInputError(
                f"row_numbers must be below {len(self)}, the rows of {self.name}, got "
                f"{wanted.max()}."
            )
        rows, order = np.unique(wanted, return_inverse=True)
        firsts = np.array([place.first for _, place in self._parts], dtype=np.int64)
        holders = np.searchsorted(firsts, rows, side="right") - 1
        take = delayed(take_rows, pure=False)
        tasks = [
            take(*self._parts[holder], self._column, rows[holders == holder])
            for holder in np.unique(holders)
        ]
        if not tasks:
            return self._no_rows()
        found = stack(collect(self.client, tasks))
        return found if np.array_equal(rows, wanted) else plain_batch(found[order], self.dtype)

    def _pieces_from(self, start: int) -> Iterator[Batch]:
        read = delayed(read_rows, pure=False)
        tasks = []
        for piece, place in self._parts:
            stop = place.first + place.n_rows
            # a block is there or made as a whole; of a file no more is read than comes here
            step = self.batch_rows if isinstance(piece, FilePiece) else place.n_rows
            for first in range(max(start, place.first), stop, step):
                until = min(stop, first + step)
                tasks.append(read(piece, place, self._column, first, until))
        with closing(results_in_order(self.client, tasks)) as batches:
            yield from batches

    def _no_rows(self) -> Batch:
        shape = (0, self.shape[1])
        if self.sparse:
            return csr_array(shape, dtype=self.dtype)
        return np.empty(shape, dtype=self.dtype)


def name_of(name: str, number: int, piece: Any) -> str:
    """Return what messages call a piece: its file, or the number of the partition."""
    return piece.path if isinstance(piece, FilePiece) else f"{name}, partition {number}"


def _common_kind(name: str, pieces: Sequence[Any], rows: Sequence[PieceRows]) -> RowKind:
    """Return what all rows are; raise where those of two pieces differ."""
    filled = [i for i, one in enumerate(rows) if one.n_rows] or [0]
    kind = rows[filled[0]].kind
    for i in filled[1:]:
        if rows[i].kind != kind:
            here, first = (name_of(name, number, pieces[number]) for number in (i, filled[0]))
            raise InvalidInputError(
                f"{name} must have rows of one kind: {here} has {rows[i].kind}, and {first} "
                f"{kind}. Make all partitions one type and one width."
            )
    return kind
