"""A collection that learns: the hasher that follows a stream, and rows that move to a new epoch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.collection.encoding import Encoder
from bitkin.errors import InvalidInputError
from bitkin.hashers.lengths import NO_LENGTHS
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.io.vectors.rows import lone_as_row
from bitkin.locks import WriterLock

if TYPE_CHECKING:
    from bitkin.collection.folder.store import FolderStore
    from bitkin.collection.memory import MemoryStore
    from bitkin.collection.snapshot import CollectionSnapshot

Progress = Callable[[int, int], Any]
_ROWS_TO_TRY = 1000


@dataclass(slots=True)
class Learner:
    """What follows a stream beside a collection, whose codes are made by frozen models of it."""

    hasher: ProjectionHash
    followed: str | None
    """Fingerprint of the last epoch of the hasher's own that the collection knows."""

    @classmethod
    def from_hasher(cls, hasher: Any) -> Learner | None:
        """Return a learner of our own; None where the hasher follows no stream."""
        if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "stream_"):
            return None
        own = copy.deepcopy(hasher)
        return cls(own, own.epoch_.fingerprint_ if _has_epochs(own) else None)

    def learn(self, vectors: Any) -> None:
        """Learn from vectors, batch by batch."""
        source = self.hasher.open_rows(lone_as_row(vectors), "vectors")
        for _, batch in source.batches():
            self.hasher.partial_fit(batch)

    def epoch_begun(self) -> ProjectionHash | None:
        """Return the model of an epoch that the hasher has begun by its own rule, `epochs=`, since
        it was asked last; None where it has not.
        """
        if not _has_epochs(self.hasher):
            return None
        epoch = self.hasher.epoch_
        return None if epoch.fingerprint_ == self.followed else epoch

    def begin_epoch(self) -> ProjectionHash:
        """Return the current model, frozen."""
        if not _has_epochs(self.hasher):
            return self.hasher.snapshot()
        return self.hasher.new_epoch()

    def following(self, epoch: ProjectionHash) -> Learner:
        """Return the learner of a collection that knows this epoch of the hasher's."""
        return Learner(self.hasher, epoch.fingerprint_ if _has_epochs(self.hasher) else None)


def _has_epochs(hasher: ProjectionHash) -> bool:
    return hasher.stream_.recipe.epochs is not None


def require_epochs_possible(now: CollectionSnapshot) -> None:
    """Raise where rows of several epochs could neither be ranked together nor encoded again."""
    epoch = now.epoch
    if epoch.settings.vectors is None and (epoch.last_stage == "codes" or not epoch.has_estimates):
        raise InvalidInputError(
            "a collection with vectors=None whose searches end with codes cannot learn: codes of "
            "two models do not compare, and rows without vectors cannot be encoded again. Create "
            "it with vectors='float16', or without stage='codes'."
        )


def require_rows_fit(now: CollectionSnapshot, encoder: Encoder) -> None:
    """Raise where a hasher cannot encode the rows that a collection holds."""
    vectors = now.kept.vectors
    if vectors is None and now.n_rows == 0:
        return
    if vectors is None:
        raise InvalidInputError(
            "hasher must stay the one that it is in a collection with vectors=None, which has "
            "nothing to encode again. Make a new collection from the vectors."
        )
    n_features = getattr(encoder.hasher, "n_features_in_", None)
    if n_features != vectors.n_features:
        raise InvalidInputError(
            f"hasher must be fitted to {vectors.n_features} features, as the vectors of this "
            f"collection have, got one of {n_features}."
        )
    if now.n_rows == 0:
        return
    row_ids = now.row_ids()
    some = row_ids[:: max(1, len(row_ids) // _ROWS_TO_TRY)]
    lengths = encoder.encode_rows(now.vectors(some), None).lengths
    if encoder.guard is not None and lengths != NO_LENGTHS:
        encoder.guard.require(lengths, "the vectors of this collection")


def reencode_rows(
    store: MemoryStore | FolderStore,
    lock: WriterLock,
    batch_rows: int,
    progress: Progress | None,
) -> int:
    """Move all rows of earlier epochs to the current one, the oldest first, and return how many.

    Each batch is a write of its own, so what was moved stays moved wherever this ends.
    """
    with store.reading() as now:
        total = sum(len(part.coded) for part in now.older)
    moved = 0
    while True:
        with lock:
            n = _move_some(store, batch_rows)
        if n == 0:
            return moved
        moved += n
        if progress is not None:
            progress(moved, max(moved, total))


def _move_some(store: MemoryStore | FolderStore, n: int) -> int:
    """Move up to n rows to the current epoch, and return how many. For the writer alone: the rows
    must not change between reading and writing.
    """
    with store.reading() as now:
        if not now.older:
            return 0
        row_ids = now.older[-1].coded.ids()[:n]
        new = now.epoch.encoder.encode_rows(now.vectors(row_ids), None)
    corrections = None
    if new.corrections is not None:
        corrections = np.concatenate(list(new.corrections.drain()))
    store.move_rows(row_ids, new.codes, corrections)
    return len(row_ids)
