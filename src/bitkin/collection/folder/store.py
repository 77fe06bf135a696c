"""Rows in a folder: the store behind a collection that lasts.

A write is one transaction of SQLite. The next snapshot is made while it is open, so that whatever
fails is undone, and takes the place of the current one when it is committed. A search opens a read
transaction together with the snapshot of the same version: vectors and metadata are as of the very
moment that the scan sees. A reader in another process finds the version changed, and brings its
snapshot up to date from the log of writes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.collection.folder.blobs import blobs_of
from bitkin.collection.folder.checkpoint import FILE as CHECKPOINT
from bitkin.collection.folder.checkpoint import read_checkpoint, write_checkpoint
from bitkin.collection.folder.database import (
    Database,
    DatabaseState,
    ReadTransaction,
    StoredRow,
    WriteTransaction,
    sqlite_errors,
)
from bitkin.collection.folder.lock import FolderLock
from bitkin.collection.ids import StoredStringIds
from bitkin.collection.memory import (
    CollectionSnapshot,
    NewRows,
    prepare_snapshot,
    with_new_rows,
    without_dead_rows,
    without_rows,
)
from bitkin.collection.rows import Pieces
from bitkin.collection.vectors import KeptVectors, Parts, StagedVectors
from bitkin.errors import BitkinError, CorruptFileError
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.locks import ModelLock

_ROWS_BETWEEN_CHECKPOINTS = 200_000  # at least; more where there are more rows
_FEWEST_FOR_CHECKPOINT = 2_000  # rows that are read from the log in a moment
_ROWS_AT_ONCE = 50_000
_TRIES = 20  # to find snapshot and transaction of one version before the writer is made to wait
_NONE = np.empty(0, dtype=np.int64)


class FolderVectors:
    """Vectors that stay in the database: what is accepted of a batch, and no vector in memory."""

    nbytes = 0

    def __init__(self, like: KeptVectors) -> None:
        self._like = like

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return self._like.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers as they are measured."""
        return self._like.dtype

    @property
    def sparse(self) -> bool:
        """Whether vectors are CSR."""
        return self._like.sparse

    def accept(self, batch: Batch, name: str, first: int) -> Parts:
        """Return what is kept of a batch; raise where it cannot be kept so."""
        return self._like.accept(batch, name, first)

    def with_rows(self, staged: StagedVectors) -> FolderVectors:
        """Return the same: vectors go to the database."""
        return self

    def gather(self, slots: Ids) -> Batch:
        """Raise: vectors are read by a transaction."""
        raise CorruptFileError("vectors of a folder must be read in a transaction.")

    def take(self, slots: Ids) -> FolderVectors:
        """Return the same: vectors stay in the database."""
        return self


class FolderStore:
    """Rows that outlive their process.

    Parameters
    ----------
    folder : Path
    database : Database
        Open; it is closed with the store.
    empty : CollectionSnapshot
        What a collection is without rows.
    database_id : str
        What a checkpoint of this database names.
    lock : FolderLock or None
        Held by the one process that writes.

    Attributes
    ----------
    snapshot : CollectionSnapshot
        All rows as they are now, or were when this process last looked.
    """

    snapshot: CollectionSnapshot

    def __init__(
        self,
        folder: Path,
        database: Database,
        empty: CollectionSnapshot,
        database_id: str,
        lock: FolderLock | None,
    ) -> None:
        self.folder = folder
        self._database = database
        self._empty = empty
        self._database_id = database_id
        self._folder_lock = lock
        self._publishing = ModelLock()  # a snapshot takes the place of another one
        self._refreshing = ModelLock()
        self._rows_logged = 0  # since the last checkpoint
        with database.read() as reading:
            self.snapshot = self._load(reading)

    @property
    def database(self) -> Database:
        """The database of all rows."""
        return self._database

    def current(self) -> CollectionSnapshot:
        """Return the rows that a write is to change. For the writer alone."""
        return self.snapshot

    def verify(self, now: CollectionSnapshot) -> None:
        """Compare what is in memory with the database; raise CorruptFileError on the first
        flaw.
        """
        reading = now.reading
        if not isinstance(reading, ReadTransaction):
            raise CorruptFileError("rows must be read in a transaction to be verified.")
        with sqlite_errors(self._database.path):
            (found,) = reading.connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise CorruptFileError(f"{self._database.path} is damaged: {found}. Restore a backup.")
        n_rows = 0
        for some in _in_pieces(reading.rows()):
            row_ids = np.array([row.row_id for row in some], dtype=np.int64)
            n_rows += len(some)
            same = bool(now.coded.present(row_ids).all())
            if not same or now.coded.codes(row_ids) != self._codes_of(some):
                raise CorruptFileError(
                    f"{self._database.path} and what was made of it differ. Close the collection, "
                    f"delete its {CHECKPOINT} and open it again."
                )
        if n_rows != len(now) or n_rows != reading.state().n_rows:
            raise CorruptFileError(
                f"{self._database.path} has {n_rows:,} rows, {len(now):,} are searched. Close the "
                f"collection, delete its {CHECKPOINT} and open it again."
            )

    @contextlib.contextmanager
    def reading(self) -> Iterator[CollectionSnapshot]:
        """Give all rows as they are now, and read what is not in memory as of the same moment."""
        with contextlib.ExitStack() as stack:
            for attempt in range(1_000_000):
                if attempt > _TRIES and self._database.is_writer:
                    with self._publishing:
                        now, reading = self._pair(stack)
                else:
                    now, reading = self._pair(stack)
                if now is not None:
                    break
                stack.close()
            yield now.read_by(reading)  # type: ignore[union-attr]

    def _pair(
        self, stack: contextlib.ExitStack
    ) -> tuple[CollectionSnapshot | None, ReadTransaction]:
        """Return a snapshot and a transaction of its version; no snapshot where a write came
        between the two.
        """
        now = self.snapshot
        reading = stack.enter_context(self._database.read())
        version = reading.version()
        if version == now.version:
            return now, reading
        if self._database.is_writer:
            return None, reading  # it is about to be published
        return self._refresh(reading, version), reading

    def put(self, rows: NewRows, *, replaces: bool, metadata: Sequence[str | None] = ()) -> None:
        """Add rows, and replace those whose row ids are there, if it `replaces`; if not, none may
        be. All of it or nothing. `metadata` is JSON for every row, or nothing at all.
        """
        with self._database.write() as writing:
            now = self.snapshot
            corrections = None
            if rows.corrections is not None:
                corrections = np.concatenate(list(rows.corrections.drain()) or [np.empty((0, 2))])
                again = Pieces()
                again.append(corrections.astype(np.float32, copy=False))
                rows = rows._replace(corrections=again)
            writing.put(self._as_stored(rows, corrections, metadata, now))
            layout = self._database.layout
            if layout.vectors is not None and rows.vectors is not None:
                writing.put_vectors(rows.row_ids, blobs_of(layout.vectors, rows.vectors))
            new = with_new_rows(now.read_by(writing), rows, replaces=replaces)
            self._commit(writing, now, new, rows.row_ids, _NONE)

    def change_metadata(
        self, row_ids: Ids, metadata: Sequence[str | None], fields: Sequence[tuple[Any, ...]]
    ) -> None:
        """Change the metadata of rows that are there, each given once."""
        with self._database.write() as writing:
            now = self.snapshot
            writing.change_metadata(
                StoredRow(row_id, None, None, None, text, values)
                for row_id, text, values in zip(row_ids.tolist(), metadata, fields, strict=True)
            )
            new = now
            if now.kept.fields is not None:
                new = replace(now, kept=now.kept.with_changed_fields(row_ids, fields, now.coded))
            self._commit(writing, now, new, row_ids, _NONE)

    def remove(self, row_ids: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""
        with self._database.write() as writing:
            now = self.snapshot
            writing.remove(row_ids)
            new = without_rows(now.read_by(writing), row_ids)
            self._commit(writing, now, new, _NONE, row_ids)

    def compact(self) -> None:
        """Give the space of removed rows back, in memory and on disk."""
        with self._database.read() as reading:
            now = self.snapshot.read_by(reading)
            packed = without_dead_rows(replace(now, coded=now.index.compacted(now.coded)))
        with self._publishing:
            self.snapshot = replace(packed, reading=None)
        self._database.vacuum()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Write what memory holds to a file, so that opening is quick, and shorten the log.

        It is only a help: where it cannot be written, everything is in the database.
        """
        now = self.snapshot
        try:
            write_checkpoint(self.folder / CHECKPOINT, now, self._database_id)
            with self._database.write() as writing:
                writing.forget_writes(now.version)
                writing.commit()
        except (BitkinError, OSError):
            return
        self._rows_logged = 0

    def close(self) -> None:
        """Write a checkpoint where that helps, and let go of the folder."""
        if self._database.is_writer and self._rows_logged >= _FEWEST_FOR_CHECKPOINT:
            self.checkpoint()
        self._database.close()
        if self._folder_lock is not None:
            self._folder_lock.release()

    def _commit(
        self,
        writing: WriteTransaction,
        now: CollectionSnapshot,
        new: CollectionSnapshot,
        put: Ids,
        removed: Ids,
    ) -> None:
        """Prepare a snapshot, log the write, and make both last."""
        new = prepare_snapshot(new)
        new = replace(new, version=now.version + 1, reading=None)
        next_id = new.coded.next_id
        lengths = json.dumps(list(new.lengths))
        writing.log(DatabaseState(new.version, len(new), next_id, lengths), put, removed)
        with self._publishing:
            writing.commit()
            self.snapshot = new
        self._rows_logged += len(put) + len(removed)
        if self._rows_logged > max(_ROWS_BETWEEN_CHECKPOINTS, len(new)):
            self.checkpoint()

    def _as_stored(
        self,
        rows: NewRows,
        corrections: Any,
        metadata: Sequence[str | None],
        now: CollectionSnapshot,
    ) -> Iterator[StoredRow]:
        """Yield rows as the database keeps them."""
        codes = rows.codes
        words = np.ascontiguousarray(codes.words, dtype="<u8").view(np.uint8).reshape(-1).data
        width = codes.words[:1].nbytes if len(codes) else 0
        empty = None if codes.empty is None else codes.empty.tolist()
        names: Any = [None] * len(codes)
        if isinstance(now.ids, StoredStringIds):
            names = now.ids.from_row_ids(rows.row_ids).tolist()
        beside = None
        if corrections is not None:
            beside = np.ascontiguousarray(corrections, dtype="<f4").view(np.uint8).reshape(-1, 8)
        for i, row_id in enumerate(rows.row_ids.tolist()):
            yield StoredRow(
                row_id,
                names[i],
                None if empty is not None and empty[i] else words[i * width : (i + 1) * width],  # type: ignore[arg-type]
                None if beside is None else beside[i].tobytes(),
                metadata[i] if len(metadata) else None,
                rows.fields[i] if len(rows.fields) else (),
            )

    def _load(self, reading: ReadTransaction) -> CollectionSnapshot:
        """Return all rows as a transaction sees them: from the checkpoint and the log, or from the
        database alone.
        """
        state = reading.state()
        found = read_checkpoint(self.folder / CHECKPOINT, self._empty, self._database_id)
        if found is not None and found.version <= state.version:
            current = self._catch_up(reading, found, state)
            if current is not None and len(current) == state.n_rows:
                return current
        # everything, in pieces, so that Python objects of few rows exist at a time
        now = self._empty
        if isinstance(now.ids, StoredStringIds):
            now = replace(now, ids=StoredStringIds())
        for some in _in_pieces(reading.rows()):
            now = self._with_stored(now, some)
        if len(now) != state.n_rows:
            raise CorruptFileError(
                f"{self._database.path} has {len(now):,} rows, and says {state.n_rows:,}. Restore "
                "a backup."
            )
        self._rows_logged = len(now)
        return self._finished(reading, now, state)

    def _catch_up(
        self, reading: ReadTransaction, now: CollectionSnapshot, state: DatabaseState
    ) -> CollectionSnapshot | None:
        """Return a snapshot as the log says it has become; None where the log does not reach back
        so far.
        """
        writes = reading.writes_since(now.version)
        if writes is None:
            return None
        touched = np.unique(np.concatenate([_NONE, *(row_ids for _, row_ids in writes)]))
        gone = touched[now.coded.present(touched)]
        if len(gone):
            now = without_rows(now, gone)
        now = self._with_stored(now, list(reading.rows(touched)))
        self._rows_logged += len(touched)
        return self._finished(reading, now, state)

    def _finished(
        self, reading: ReadTransaction, now: CollectionSnapshot, state: DatabaseState
    ) -> CollectionSnapshot:
        lengths = Lengths(*json.loads(state.lengths))
        coded = replace(now.coded, next_id=max(now.coded.next_id, state.next_id))
        now = replace(now, coded=coded, lengths=lengths, version=state.version)
        return replace(prepare_snapshot(now.read_by(reading)), reading=None)

    def _with_stored(
        self, now: CollectionSnapshot, stored: Sequence[StoredRow]
    ) -> CollectionSnapshot:
        """Return a snapshot with rows of the database, none of which it has."""
        if not stored:
            return now
        if isinstance(now.ids, StoredStringIds):
            for row in stored:
                if row.name is None:
                    raise CorruptFileError(
                        f"{self._database.path} has a row without its id. Restore a backup."
                    )
                now.ids.enter(row.name, row.row_id)
        corrections = None
        if now.kept.corrections is not None:
            corrections = Pieces()
            corrections.append(self._joined((row.corrections for row in stored), "<f4", (2,)))
        row_ids = np.array([row.row_id for row in stored], dtype=np.int64)
        fields = [row.fields for row in stored] if now.kept.fields is not None else ()
        rows = NewRows(row_ids, self._codes_of(stored), None, corrections, NO_LENGTHS, fields)
        return with_new_rows(now, rows, replaces=False)

    def _codes_of(self, stored: Sequence[StoredRow]) -> Codes:
        spec, fingerprint = self._empty.coded.spec, self._empty.coded.fingerprint
        shape = spec.bits_per_symbol, spec.plane_words
        nothing = bytes(8 * spec.bits_per_symbol * spec.plane_words)
        empty = np.array([row.code is None for row in stored], dtype=bool)
        words = self._joined(
            (nothing if row.code is None else row.code for row in stored), "<u8", shape
        )
        return Codes(words, spec, empty=empty if empty.any() else None, fingerprint=fingerprint)

    def _joined(self, blobs: Iterable[bytes | None], dtype: str, shape: tuple[int, ...]) -> Any:
        parts = [blob or b"" for blob in blobs]
        array = np.frombuffer(b"".join(parts), dtype=dtype)
        width = int(np.prod(shape)) * array.itemsize
        if any(len(part) != width for part in parts):
            raise CorruptFileError(
                f"{self._database.path} has a code of another length than the hasher makes. "
                "Restore a backup."
            )
        return array.astype(array.dtype.newbyteorder("=")).reshape(len(parts), *shape)

    def _refresh(self, reading: ReadTransaction, version: int) -> CollectionSnapshot | None:
        """Return the snapshot of a transaction in a process that only reads; None where another
        thread has a newer one already.
        """
        with self._refreshing:
            now = self.snapshot
            if now.version >= version:
                return now if now.version == version else None
            current = self._catch_up(reading, now, reading.state())
            if current is None:
                current = self._load(reading)
            with self._publishing:
                self.snapshot = current
            return current


def _in_pieces(rows: Iterator[StoredRow]) -> Iterator[list[StoredRow]]:
    """Yield rows in lists of bounded length."""
    while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield some
