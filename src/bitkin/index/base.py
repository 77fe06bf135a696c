"""What every index of codes is, however it searches: codes by id in one snapshot, changed by one
writer at a time.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import id_array, some_of, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.code_spec import CodeSpec, require_spec
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.errors import DuplicateIdError, InvalidInputError
from bitkin.index.results import Neighbors, RaggedNeighbors, require_fitting
from bitkin.index.rows.files import parameters_of, read_index, rows_from, tensors_of, verify_rows
from bitkin.index.rows.growth import compact_if_sparse, in_one_segment, with_rows, without_ids
from bitkin.index.rows.ids import given_ids, is_id, next_ids
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.reader import StoredFile
from bitkin.io.writer import write_file
from bitkin.kernels.blocks import BLOCK
from bitkin.locks import WriterLock

# rows; so few are copied, or many small merges would leave many small segments
_SMALL_MERGE = 8 * BLOCK


class RowIndex(ABC):
    """Codes by id, added, replaced, removed, merged, saved and loaded; how they are searched is
    left to the classes.

    A class answers `nearest_in` and `within_radius_in` from a snapshot. One that builds something
    over the rows does so in `prepare`, which sees every snapshot before anyone else does, and one
    with settings of its own keeps them in files by `_settings` and `_from_settings`.

    Collections keep their rows themselves and use an index as the way to search them: they call
    `prepare` and `nearest_in` with snapshots of their own.
    """

    def __init__(self, spec: CodeSpec) -> None:
        self.adopt(Snapshot(require_spec(spec)))

    def adopt(self, snapshot: Snapshot) -> None:
        """Hold these rows; for an index that has none, and that nobody else uses yet."""
        before = getattr(self, "_snapshot", None)
        if before is not None and len(before):
            raise InvalidInputError(f"rows must go to an index without any, got {self!r}.")
        self._writer = WriterLock()
        self._snapshot = self.prepare(snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """All rows as they are now: it never changes, a writer puts another one in its place."""
        return self._snapshot

    @abstractmethod
    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest rows of every query, nearest first, ties by lower id.

        An index that may miss rows may return fewer than k, but not fewer than `least` while there
        are as many.
        """

    @abstractmethod
    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return all rows within `radius`, at most `n_symbols`, of every query, nearest first, ties
        by lower id.
        """

    def prepare(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with what searching it needs, such as tables over its rows."""
        return snapshot

    def count_compared(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> int:
        """Return how many rows `nearest_in` looks at for all of these queries: every row that is
        allowed for each, unless an index knows better.
        """
        n_rows = len(snapshot)
        if allow is not None:
            n_rows = int(snapshot.present(np.unique(allow)).sum())
        return len(queries) * n_rows

    def pack(self, snapshot: Snapshot) -> Snapshot:
        """Return the live rows of a snapshot as a copy of the index takes them: in one segment, and
        with what `prepare` cannot make again.
        """
        return in_one_segment(snapshot)

    def compacted(self, snapshot: Snapshot) -> Snapshot:
        """Return the live rows of a snapshot in one segment, in order of id; what is worth making
        again is left to `prepare`.
        """
        return in_one_segment(snapshot)

    def check_queries(
        self, queries: Codes, allow: npt.ArrayLike | None
    ) -> tuple[Snapshot, Ids | None]:
        """Refuse queries that cannot be compared with the rows; return the current snapshot, and
        `allow` as ids.
        """
        snapshot = self._snapshot
        require_comparable(
            snapshot.spec, snapshot.fingerprint, require_codes(queries, "queries"), "queries"
        )
        return snapshot, None if allow is None else id_array(allow, "allow", any_order=True)

    def _settings(self) -> dict[str, Any]:
        """Return what a file says of this index beside its rows."""
        return {}

    @classmethod
    def _from_settings(cls, stored: StoredFile, spec: CodeSpec) -> Self:
        """Return an index without rows that has the settings of a file."""
        return cls(spec)

    @property
    def spec(self) -> CodeSpec:
        """The shape of the codes."""
        return self._snapshot.spec

    @property
    def fingerprint(self) -> str | None:
        """The hasher whose codes are in here; None while unknown."""
        return self._snapshot.fingerprint

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, ascending."""
        return self._snapshot.ids()

    @property
    def nbytes(self) -> int:
        """Bytes held for codes, ids, marks and tables, room for more rows included; mapped bytes
        count.
        """
        return sum(segment.nbytes for segment in self._snapshot.segments)

    def __len__(self) -> int:
        return len(self._snapshot)

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self._snapshot.present(np.array([id], dtype=np.int64))[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} codes, {self.spec})"

    def codes(self, ids: npt.ArrayLike) -> Codes:
        """Return the codes of `ids`, in that order."""
        return self._snapshot.codes(id_array(ids))

    def add(self, codes: Codes, ids: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """Add codes and return their ids: the ones given, else the numbers after the largest so
        far.

        An id that is there already is a DuplicateIdError, and nothing is added; `upsert` replaces
        instead.
        """
        given = given_ids(len(require_codes(codes, "codes")), ids)
        with self._writer:
            snapshot = self._snapshot_for(codes)
            if given is None:
                row_ids = next_ids(len(codes), snapshot.next_id)
            else:
                row_ids = given
                there = snapshot.present(row_ids)
                if there.any():
                    raise DuplicateIdError(
                        f"ids must be new, already in the index: {some_of(row_ids[there])}. "
                        "Use upsert to replace codes."
                    )
            # one assignment: a search sees the snapshot before or the one after, never half
            self._snapshot = self.prepare(with_rows(snapshot, codes, row_ids))
        return row_ids

    def upsert(self, codes: Codes, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Add codes, replacing those whose ids are there already; a search sees all of it or
        nothing.
        """
        row_ids = given_ids(len(require_codes(codes, "codes")), ids)
        if row_ids is None:
            raise InvalidInputError(
                "ids must be given to upsert, one a row. Use add for ids that are made here."
            )
        with self._writer:
            snapshot = self._snapshot_for(codes)
            kept = without_ids(snapshot, row_ids)
            self._snapshot = self.prepare(with_rows(kept, codes, row_ids))
        return row_ids

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove codes by id. An unknown id is an UnknownIdError, and nothing is removed."""
        row_ids = np.unique(id_array(ids, any_order=True))
        with self._writer:
            snapshot = self._snapshot
            snapshot.require_present(row_ids)
            self._snapshot = self.prepare(compact_if_sparse(without_ids(snapshot, row_ids)))

    def merge(self, other: RowIndex) -> None:
        """Add all codes of another index under the ids they have there; those of a large one are
        shared, not copied.
        """
        if not isinstance(other, RowIndex):
            raise InvalidInputError(
                f"other must be an index of codes, such as FlatIndex, got {type(other).__name__}."
            )
        theirs = other.snapshot
        their_ids = theirs.ids()
        with self._writer:
            mine = self._snapshot
            require_comparable(mine.spec, mine.fingerprint, theirs, "other")
            shared = their_ids[mine.present(their_ids)]
            if len(shared):
                raise DuplicateIdError(
                    f"other must have ids of its own, both indexes hold {some_of(shared)}."
                )
            # few rows are copied into our segments, since every
            # further segment costs each search something
            if len(theirs) <= max(_SMALL_MERGE, len(mine) // 8):
                both = with_rows(mine, theirs.codes(their_ids), their_ids)
            else:
                both = replace(
                    mine,
                    segments=mine.segments
                    + tuple(
                        replace(segment.without_room(), tables=None)  # those of another index
                        for segment in theirs.segments
                        if segment.n_alive
                    ),
                    fingerprint=mine.fingerprint or theirs.fingerprint,
                    next_id=max(mine.next_id, theirs.next_id),
                )
            self._snapshot = self.prepare(both)

    def compact(self) -> None:
        """Give the space of removed codes back, and put all rows in order of id."""
        with self._writer:
            self._snapshot = self.prepare(self.compacted(self._snapshot))

    def search(self, queries: Codes, k: int, *, allow: npt.ArrayLike | None = None) -> Neighbors:
        """Return the k nearest codes of every query, nearest first, ties by lower id.

        Where fewer than k can be returned, the rest is id −1 with distance `n_symbols + 1`. Empty
        rows are never returned and empty queries find nothing. `allow` lists the ids that may be
        returned; ids in it that are not in the index are passed over.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        snapshot, allowed = self.check_queries(queries, allow)
        require_fitting(len(queries), k)
        return self.nearest_in(snapshot, queries, k, allowed, least=k)

    def search_radius(
        self, queries: Codes, radius: int, *, allow: npt.ArrayLike | None = None
    ) -> RaggedNeighbors:
        """Return all codes at most `radius` symbols away from every query, nearest first, ties by
        lower id.
        """
        radius = whole_number(radius, "radius", low=0)
        snapshot, allowed = self.check_queries(queries, allow)
        return self.within_radius_in(snapshot, queries, min(radius, self.spec.n_symbols), allowed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all codes in order of id to `path`: aside first, then in place at once."""
        snapshot = self._snapshot
        parameters = {**parameters_of(snapshot), **self._settings()}
        write_file(
            path, type(self).__name__, parameters, snapshot.fingerprint, tensors_of(snapshot)
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True) -> Self:
        """Open a saved index. Mapped by default: it is there at once, and codes added later live in
        memory.

        With `mmap` the header, all sizes and the ids are verified now, the codes by `verify()`; the
        file must stay as it is while the index is in use. Without it everything is read and
        verified.
        """
        return cls.from_stored(read_index(path, cls.__name__, mmap))

    @classmethod
    def from_stored(cls, stored: StoredFile) -> Self:
        """Return the index that a file holds."""
        rows = rows_from(stored)
        index = cls._from_settings(stored, rows.spec)
        index.adopt(rows)
        return index

    def verify(self) -> None:
        """Check everything that can be checked, mapped files included; raise CorruptFileError on
        the first flaw.
        """
        verify_rows(self._snapshot)

    def _snapshot_for(self, codes: Codes) -> Snapshot:
        """Return the snapshot that a writer builds on, whose codes must be comparable with new
        ones.
        """
        snapshot = self._snapshot
        require_comparable(snapshot.spec, snapshot.fingerprint, codes, "codes")
        return snapshot

    def __getstate__(self) -> dict[str, Any]:
        # locks cannot be pickled, and a copy needs one of its own
        unlocked = {name: value for name, value in self.__dict__.items() if name != "_writer"}
        return {**unlocked, "_snapshot": self.pack(self._snapshot)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Sealed: the arrays may be shared, with a pickle's buffers or another copy made from them.
        snapshot = self.__dict__.pop("_snapshot")
        self.adopt(
            replace(
                snapshot, segments=tuple(segment.without_room() for segment in snapshot.segments)
            )
        )
