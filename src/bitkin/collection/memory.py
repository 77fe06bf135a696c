"""Rows in memory. Every write makes a new state and puts it in the place of the old one by a single
assignment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.collection.column import Column
from bitkin.collection.kept import NewRows, RowIds
from bitkin.collection.kept_vectors import KeptVectors
from bitkin.collection.slots import Slots
from bitkin.collection.state import State
from bitkin.errors import InvalidInputError
from bitkin.index.base import RowIndex
from bitkin.index.rows.growth import in_one_segment, tidied, with_rows, without_ids
from bitkin.index.rows.snapshot import Snapshot
from bitkin.rescoring.estimate import Corrections

_FEW = 1024  # dead rows are not worth the work


@dataclass(frozen=True, eq=False, slots=True)
class MemoryRows:
    """Vectors and corrections by slot, as far as a collection has them; those of removed rows until
    it is compacted.
    """

    vectors_by_slot: KeptVectors | None
    corrections_by_slot: Column | None
    slots: Slots = field(default_factory=Slots)
    n: int = 0
    """Slots used."""

    @property
    def kept_vectors(self) -> KeptVectors:
        """The vectors, where they are kept."""
        if self.vectors_by_slot is None:
            raise InvalidInputError(
                "vectors must be kept to be read, but this collection has vectors=None."
            )
        return self.vectors_by_slot

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self.kept_vectors.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of vectors."""
        return self.kept_vectors.dtype

    @property
    def sparse(self) -> bool:
        """Whether vectors come as CSR."""
        return self.kept_vectors.sparse

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        of_vectors = 0 if self.vectors_by_slot is None else self.vectors_by_slot.nbytes
        of_corrections = (
            0 if self.corrections_by_slot is None else self.corrections_by_slot.array.nbytes
        )
        return of_vectors + of_corrections + self.slots.nbytes

    def vectors(self, numbers: Ids) -> Batch:
        """Return the vectors of rows that are there."""
        return self.kept_vectors.gather(self.slots.of(numbers))

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the corrections of rows that are there."""
        if self.corrections_by_slot is None:
            raise InvalidInputError(
                "corrections must be kept to be read, but this collection has none."
            )
        corrections: Corrections = self.corrections_by_slot.array[self.slots.of(numbers)]
        return corrections

    def with_rows(self, rows: NewRows) -> MemoryRows:
        """Return these rows and new ones; what was under the same numbers is out of reach then."""
        vectors, numbers = self.vectors_by_slot, self.corrections_by_slot
        if vectors is None and numbers is None:
            return self
        if vectors is not None:
            for batch in rows.vectors or []:
                vectors = vectors.with_rows(batch)
        if numbers is not None and rows.corrections is not None:
            numbers = numbers.with_rows(rows.corrections)
        stop = self.n + len(rows.numbers)
        return MemoryRows(
            vectors, numbers, self.slots.with_rows(rows.numbers, np.arange(self.n, stop)), stop
        )

    def only(self, numbers: Ids, renumbered: Ids) -> MemoryRows:
        """Return the rows of some numbers alone, under new numbers."""
        if self.vectors_by_slot is None and self.corrections_by_slot is None:
            return self
        slots = self.slots.of(numbers)
        vectors = None if self.vectors_by_slot is None else self.vectors_by_slot.taken(slots)
        corrections = None
        if self.corrections_by_slot is not None:
            corrections = Column(self.corrections_by_slot.array[slots], len(slots))
        return MemoryRows(
            vectors, corrections, Slots().with_rows(renumbered, np.arange(len(slots))), len(slots)
        )


class MemoryStore:
    """A `Store` that lives as long as its process.

    Parameters
    ----------
    state : State
        The rows to begin with; what it keeps is `MemoryRows`.
    """

    def __init__(self, state: State) -> None:
        # Sealed: the arrays may be shared, with a pickle's buffers or another copy made from them.
        rows = replace(
            state.rows, segments=tuple(segment.sealed() for segment in state.rows.segments)
        )
        self._become(replace(state, rows=rows))

    @classmethod
    def empty(
        cls,
        index: RowIndex,
        fingerprint: str,
        ids: RowIds,
        vectors: KeptVectors | None,
        *,
        corrections: bool,
    ) -> MemoryStore:
        """Return a store without rows.

        `index`, which has none and is left so, says how codes are searched; `fingerprint` is of the
        hasher whose codes are to come. Without `vectors` none are kept, and without `corrections`
        rows come without them.
        """
        kept = MemoryRows(vectors, Column.empty(np.float32, 2) if corrections else None)
        return cls(State(index, Snapshot(index.spec, fingerprint), ids, kept))

    @property
    def state(self) -> State:
        """All rows as of now."""
        return self._state

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch of vectors in the form in which they are kept; raise where that cannot
        be.
        """
        return self._kept.kept_vectors.accepted(batch, name, first)

    def put(self, rows: NewRows) -> None:
        """Add rows, and replace those whose numbers are there: all of it or nothing."""
        state = self._state
        old = rows.numbers[state.rows.present(rows.numbers)]
        codes = with_rows(without_ids(state.rows, old), rows.codes, rows.numbers)
        self._become(replace(state, rows=tidied(codes), kept=self._kept.with_rows(rows)))

    def remove(self, numbers: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""
        state = self._state
        self._become(replace(state, rows=tidied(without_ids(state.rows, numbers))))

    def compact(self) -> None:
        """Give the space of removed rows back."""
        self._become(self.packed())

    def packed(self) -> State:
        """Return the rows of now in as little memory as they need, sharing nothing that a writer
        changes.
        """
        state = self._state
        return _compacted(replace(state, rows=in_one_segment(state.rows)))

    @property
    def _kept(self) -> MemoryRows:
        return cast(MemoryRows, self._state.kept)

    def _become(self, state: State) -> None:
        """Take a new state, with room for removed rows given back where more are dead than
        alive.
        """
        held = max(cast(MemoryRows, state.kept).n, len(state.ids))
        if held - len(state) > max(_FEW, len(state)):
            state = _compacted(state)
        self._state = replace(state, rows=state.index._settled(state.rows))


def _compacted(state: State) -> State:
    """Return the same rows, without ids, vectors and corrections of removed ones."""
    numbers = state.rows.ids()
    ids, renumbered = state.ids.only(numbers)
    rows = state.rows
    if not np.array_equal(renumbered, numbers):
        rows = with_rows(Snapshot(rows.spec, rows.fingerprint), rows.codes(numbers), renumbered)
    return replace(
        state, rows=rows, ids=ids, kept=cast(MemoryRows, state.kept).only(numbers, renumbered)
    )
