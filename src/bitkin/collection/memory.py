"""Rows in memory: the store behind a collection that lives as long as its process.

This is the seam for other stores. `Collection` checks and encodes; a store keeps rows. Every change
(`put`, `remove`, `compact`) is one transaction, made by one writer at a time: it builds a new
snapshot and puts it in the place of the old one by a single assignment. A search reads one
snapshot, by row id, and so needs no lock. A store on disk commits a transaction where this one
assigns, and its snapshots read vectors and metadata in a read transaction of their own.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.collection import changes
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.learning import Learner
from bitkin.collection.metadata.documents import EncodedMetadata
from bitkin.collection.metadata.row_metadata import RowMetadata
from bitkin.collection.rows import Column
from bitkin.collection.snapshot import CollectionSnapshot, KeptRows, NewRows
from bitkin.index.base import RowIndex
from bitkin.rescoring.estimate import Corrections


class MemoryStore:
    """Rows that live as long as their process.

    Parameters
    ----------
    snapshot : CollectionSnapshot
        The rows to begin with.
    index : str or RowIndex
        How codes of later epochs are searched.
    learner : Learner or None
        What follows a stream; None where the hasher does not.

    Attributes
    ----------
    snapshot : CollectionSnapshot
        All rows as they are now.
    """

    snapshot: CollectionSnapshot

    def __init__(
        self,
        snapshot: CollectionSnapshot,
        index: str | RowIndex,
        learner: Learner | None = None,
    ) -> None:
        self.index = index
        self.learner = learner
        # Sealed: the arrays may be shared, with a pickle's buffers or another copy made from them.
        self._commit(changes.sealed(snapshot))

    @classmethod
    def empty(
        cls,
        epoch: CollectionEpoch,
        index: str | RowIndex,
        learner: Learner | None = None,
    ) -> MemoryStore:
        """Return a store without rows."""
        settings, encoder = epoch.settings, epoch.encoder
        index = index if isinstance(index, str) else epoch.index  # our own, without rows
        kept = KeptRows(
            settings.new_vectors(encoder),
            None if encoder.scorer is None else Column.empty(np.float32, 2),
            metadata=RowMetadata.empty(settings.fields, has_texts=True),
        )
        return cls(CollectionSnapshot.of_epoch(epoch, settings.new_ids(), kept), index, learner)

    @contextlib.contextmanager
    def reading(self) -> Iterator[CollectionSnapshot]:
        """Give all rows as they are now, to be read for as long as it takes."""
        yield self.snapshot

    def require_writable(self) -> None:
        """Raise where this process must not write: it may."""

    def takes_rows_of(self, epoch: CollectionEpoch) -> bool:
        """Tell whether rows of an epoch may still come: not where they could not be encoded again.
        For the writer alone.
        """
        live = {part.epoch.number for part in self.snapshot.parts}
        return epoch.number in live or epoch.settings.vectors is not None

    def put(self, rows: NewRows, *, replaces: bool) -> None:
        """Add rows, and replace those whose row ids are there, if it `replaces`; if not, none may
        be. All of it or nothing.
        """
        self._commit(changes.with_new_rows(self.snapshot, rows, replaces=replaces))

    def change_metadata(self, row_ids: Ids, written: EncodedMetadata) -> None:
        """Change the metadata of rows that are there, each given once."""
        self._commit(changes.with_metadata(self.snapshot, row_ids, written))

    def remove(self, row_ids: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""
        self._commit(changes.without_rows(self.snapshot, row_ids))

    def begin_epoch(
        self, encoder: Encoder, learner: Learner | None, index: str | RowIndex | None = None
    ) -> None:
        """Let another hasher encode new rows from now on, searched by the `index` given or as
        before.
        """
        now = self.snapshot
        index = self.index if index is None else index
        epoch = CollectionEpoch.begin(now.epoch.number + 1, encoder, now.epoch.settings, index)
        self._commit(changes.with_epoch(now, epoch))
        self.index = index if isinstance(index, str) else epoch.index
        self.learner = learner

    def move_rows(self, row_ids: Ids, codes: Codes, corrections: Corrections | None) -> None:
        """Let rows that are there, each given once, be of the current epoch."""
        self._commit(changes.with_rows_moved(self.snapshot, row_ids, codes, corrections))

    def keep_learner(self, learner: Learner) -> None:
        """Keep what follows a stream, as it is now."""
        self.learner = learner

    def compact(self) -> None:
        """Give the space of removed rows back."""
        self._commit(changes.compacted(self.snapshot))

    def __getstate__(self) -> dict[str, Any]:
        rows = changes.packed_for_copy(self.snapshot)
        return {"rows": rows, "index": self.index, "learner": copy.deepcopy(self.learner)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["rows"], state["index"], state["learner"])  # type: ignore[misc]

    def close(self) -> None:
        """Let go of what is beside memory: nothing."""

    def _commit(self, new: CollectionSnapshot) -> None:
        """Make a snapshot the current one."""
        self.snapshot = changes.prepare_snapshot(new)
