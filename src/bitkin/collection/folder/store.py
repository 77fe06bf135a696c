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
import operator
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.collection import changes
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.folder.blobs import blobs_of, row_blobs
from bitkin.collection.folder.checkpoint import FILE as CHECKPOINT
from bitkin.collection.folder.checkpoint import read_checkpoint, write_checkpoint
from bitkin.collection.folder.database import (
    Database,
    DatabaseState,
    ReadTransaction,
    StoredRow,
    WriteTransaction,
    damaged,
    read_settings,
    sqlite_errors,
    vector_checksum,
)
from bitkin.collection.folder.epochs import (
    file_names,
    index_of,
    load_epoch,
    load_learner,
    remove_unused,
    save_epoch,
    save_learner,
)
from bitkin.collection.folder.lock import FolderLock
from bitkin.collection.ids import StoredStringIds
from bitkin.collection.learning import Learner
from bitkin.collection.metadata.documents import EncodedMetadata
from bitkin.collection.metadata.field_columns import FieldColumns
from bitkin.collection.metadata.row_metadata import RowMetadata
from bitkin.collection.rows import Column, Pieces
from bitkin.collection.settings import CollectionSettings
from bitkin.collection.snapshot import CollectionSnapshot, KeptRows, NewRows
from bitkin.collection.vectors import KeptVectors, Parts, StagedVectors
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.index.base import RowIndex
from bitkin.io.writer import sync_folder
from bitkin.locks import ModelLock
from bitkin.rescoring.estimate import Corrections

_ROWS_BETWEEN_CHECKPOINTS = 200_000  # at least; more where there are more rows
_FEWEST_FOR_CHECKPOINT = 2_000  # rows that are read from the log in a moment
_ROWS_AT_ONCE = 50_000
_MOST_TRIES = 10_000
_MOST_LOADS = 5  # of epochs that are given up while they are read
_TRIES = 20  # to find snapshot and transaction of one version before the writer is made to wait
_TOKEN = "checkpoint"  # the setting that names the checkpoint
_STORED_TYPES: dict[str, frozenset[type]] = {
    "int": frozenset({int, type(None)}),
    "bool": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
    "str": frozenset({str, type(None)}),
}
_STORED_BOOLS = frozenset({0, 1, None})
_ANEW = f"Close the collection, delete its {CHECKPOINT} and open it again."
_NONE = np.empty(0, dtype=np.int64)


_Row = TypeVar("_Row")


class _EpochGoneError(FileAccessError):
    """The model of an epoch is not there."""


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
    settings : CollectionSettings
        What the collection was made with.
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
        settings: CollectionSettings,
        lock: FolderLock | None,
    ) -> None:
        self.folder = folder
        self._database = database
        self._settings = settings
        self._epochs: dict[int, CollectionEpoch] = {}
        self._learner: Learner | None = None
        self._kinds = list(database.layout.fields.values())
        self._folder_lock = lock
        self._publishing = ModelLock()  # a snapshot takes the place of another one
        self._refreshing = ModelLock()
        self._learning = ModelLock()
        self._rows_logged = 0  # since the last checkpoint
        self.snapshot = self._load_now()

    @property
    def database(self) -> Database:
        """The database of all rows."""
        return self._database

    @property
    def learner(self) -> Learner | None:
        """What follows a stream; None where the hasher does not. A process that only reads has it
        as it was last written.
        """
        with self._learning:
            if self._learner is not None:
                return self._learner
            with self._database.read() as reading:
                name, followed = reading.setting("learner"), reading.setting("followed")
                if name is None:
                    return None
                found = load_learner(self.folder, str(name), followed)
            if self._database.is_writer:
                self._learner = found
            return found

    def require_writable(self) -> None:
        """Raise where this process must not write."""
        self._database.require_writer()

    def takes_rows_of(self, epoch: CollectionEpoch) -> bool:
        """Tell whether rows of an epoch may still come: not where it has been forgotten, nor where
        they could not be encoded again. For the writer alone.
        """
        if epoch.number in {part.epoch.number for part in self.snapshot.parts}:
            return True
        with self._database.read() as reading:
            known = {one.number for one in reading.epochs()}
        return epoch.number in known and self._settings.vectors is not None

    def copy_to(
        self, target: Path, name: str, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Write a copy of the rows of one moment to a folder that is there, as a database of this
        name and the files that it needs.
        """

        def copy_files(reading: ReadTransaction) -> None:
            for name in file_names(reading.epochs(), reading.setting("learner")):
                shutil.copyfile(self.folder / name, target / name)
                with (target / name).open("rb+") as file:
                    os.fsync(file.fileno())

        for attempt in range(_MOST_LOADS):
            try:
                self._database.copy_to(target / name, copy_files, progress)
                break
            except FileNotFoundError:  # of an epoch that was given up since the moment
                if attempt == _MOST_LOADS - 1 or not self.folder.exists():
                    raise
                for path in target.iterdir():
                    path.unlink()
        self._database.require_same_file()  # or the files beside it were others

    def verify(self, now: CollectionSnapshot) -> None:
        """Compare what is in memory with the database; raise CorruptFileError on the first
        flaw.
        """
        reading = now.reading
        if not isinstance(reading, ReadTransaction):
            raise CorruptFileError("rows must be read in a transaction to be verified.")
        path, layout = self._database.path, self._database.layout
        with sqlite_errors(path):
            (found,) = reading.connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise damaged(path, found)
        read_settings(reading.connection, path)
        reading.epochs()
        n_rows = 0
        for some in _in_pieces(reading.stored_rows()):
            n_rows += len(some)
            for row, checksum in some:
                _require_checksum(path, row.row_id, row.checksum, checksum)
            if not self._are_searched(now, [row for row, _ in some]):
                raise CorruptFileError(f"{path} and what was made of it differ. {_ANEW}")
        if n_rows != now.n_rows or n_rows != reading.state().n_rows:
            raise CorruptFileError(
                f"{path} has {n_rows:,} rows, {now.n_rows:,} are searched. {_ANEW}"
            )
        vector_ids = []
        for row_id, vector, checksum in reading.stored_vectors():
            _require_checksum(path, row_id, partial(vector_checksum, row_id, vector), checksum)
            vector_ids.append(row_id)
        wanted = _NONE if layout.vectors is None else now.row_ids()
        if not np.array_equal(np.array(vector_ids, dtype=np.int64), wanted):
            raise damaged(path, "there is not one vector for every row")

    @contextlib.contextmanager
    def reading(self) -> Iterator[CollectionSnapshot]:
        """Give all rows as they are now, and read what is not in memory as of the same moment."""
        with contextlib.ExitStack() as stack:
            for attempt in range(_MOST_TRIES):
                # a writer that never stops: let it wait
                last = attempt >= _TRIES and self._database.is_writer
                with self._publishing if last else contextlib.nullcontext():
                    now, reading = self._pair(stack, attempt, last=last)
                if now is not None:
                    break
                stack.close()
            else:
                raise CorruptFileError(
                    f"{self._database.path} has fewer writes than it had. Was it replaced? Close "
                    "the collection and open it again."
                )
            yield now.read_by(reading)

    def _pair(
        self, stack: contextlib.ExitStack, attempt: int, *, last: bool
    ) -> tuple[CollectionSnapshot | None, ReadTransaction]:
        """Return a snapshot and a transaction of its version; no snapshot where a write came
        between the two, which cannot be if this is the `last` attempt of the writer's process.
        """
        now = self.snapshot
        reading = stack.enter_context(self._database.read())
        version = reading.version()
        if version == now.version:
            return now, reading
        if self._database.is_writer and not last:
            return None, reading  # it is about to be published
        try:
            return self._refresh(reading, version), reading
        except _EpochGoneError:
            # the writer has given it up since this transaction began: a new one has no rows of it
            if attempt > _MOST_LOADS:
                raise
            return None, reading

    @contextlib.contextmanager
    def _writing(self) -> Iterator[WriteTransaction]:
        """Give a transaction on the rows of the current snapshot."""
        with self._database.write() as writing:
            if writing.version() != self.snapshot.version:
                raise FileAccessError(
                    f"{self._database.path} was written by another process, although this one has "
                    "it open for writing. Was writer.lock deleted? Nothing of this call was kept. "
                    "Close the collection and open it again."
                )
            yield writing

    def put(self, rows: NewRows, *, replaces: bool) -> None:
        """Add rows, and replace those whose row ids are there, if it `replaces`; if not, none may
        be. All of it or nothing.
        """
        with self._writing() as writing:
            now = self.snapshot
            corrections = None
            if rows.corrections is not None:
                none = np.empty((0, 2), dtype=np.float32)
                corrections = np.concatenate([none, *rows.corrections.drain()], dtype=np.float32)
                again = Pieces()
                again.append(corrections)
                rows = rows._replace(corrections=again)
            names = None
            if isinstance(now.ids, StoredStringIds):
                names = now.ids.from_row_ids(rows.row_ids).tolist()
            epoch = rows.epoch or now.epoch
            writing.put(
                _as_stored(epoch, rows.row_ids, rows.codes, corrections, names, rows.metadata)
            )
            layout = self._database.layout
            if layout.vectors is not None and rows.vectors is not None:
                writing.put_vectors(rows.row_ids, blobs_of(layout.vectors, rows.vectors))
            new = changes.with_new_rows(now.read_by(writing), rows, replaces=replaces)
            self._commit(writing, now, new, rows.row_ids, _NONE)

    def change_metadata(self, row_ids: Ids, written: EncodedMetadata) -> None:
        """Change the metadata of rows that are there, each given once."""
        with self._writing() as writing:
            now = self.snapshot
            writing.change_metadata(
                zip(row_ids.tolist(), written.rest, written.fields, strict=True)
            )
            new = now.read_by(writing)
            self._commit(writing, now, changes.with_metadata(new, row_ids, written), row_ids, _NONE)

    def remove(self, row_ids: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""
        with self._writing() as writing:
            now = self.snapshot
            writing.remove(row_ids)
            new = changes.without_rows(now.read_by(writing), row_ids)
            self._commit(writing, now, new, _NONE, row_ids)

    def begin_epoch(
        self, encoder: Encoder, learner: Learner | None, index: str | RowIndex | None = None
    ) -> None:
        """Let another hasher encode new rows from now on, searched by the `index` given or as
        before.
        """
        with self._writing() as writing:
            now = self.snapshot
            known = writing.epochs()
            if index is None:
                index = index_of(self.folder, known[-1])
            number = known[-1].number + 1
            epoch = CollectionEpoch.begin(number, encoder, self._settings, index, grows=False)
            learner_file = None
            if learner is not None:
                learner_file = save_learner(self.folder, learner, number)
            writing.add_epoch(save_epoch(self.folder, epoch, index))
            sync_folder(self.folder)
            writing.change_setting("learner", learner_file)
            writing.change_setting("followed", None if learner is None else learner.followed)
            new = changes.with_epoch(now.read_by(writing), epoch)
            self._epochs[number] = epoch
            self._commit(writing, now, new, _NONE, _NONE)
        self._learner = learner

    def move_rows(self, row_ids: Ids, codes: Codes, corrections: Corrections | None) -> None:
        """Let rows that are there, each given once, be of the current epoch."""
        with self._writing() as writing:
            now = self.snapshot
            writing.change_codes(_as_stored(now.epoch, row_ids, codes, corrections))
            new = changes.with_rows_moved(now.read_by(writing), row_ids, codes, corrections)
            self._commit(writing, now, new, row_ids, _NONE)

    def keep_learner(self, learner: Learner) -> None:
        """Keep what follows a stream, as it is now."""
        self.require_writable()
        with self._database.read() as reading:
            name = reading.setting("learner")
        learner.hasher.save(self.folder / Path(str(name)).name)
        self._learner = learner

    def compact(self) -> None:
        """Give the space of removed rows back, in memory and on disk."""
        with self._writing() as writing:
            writing.forget_epochs(self.snapshot.epoch.number)
            used = file_names(writing.epochs(), writing.setting("learner"))
            writing.commit()
        remove_unused(self.folder, used)
        with self._database.read() as reading:
            packed = changes.compacted(self.snapshot.read_by(reading))
        with self._publishing:
            self.snapshot = replace(packed, reading=None)
        self._database.vacuum()
        self._try_checkpoint()

    def checkpoint(self) -> None:
        """Write what memory holds to a file, so that opening is quick, and shorten the log.

        It is only a help: where it cannot be written, everything is in the database. The database
        names the one checkpoint that goes with it: after a power cut it may have fewer writes than
        a checkpoint, and others in their place later.
        """
        self.require_writable()
        now, token = self.snapshot, secrets.token_hex(8)
        write_checkpoint(self.folder / CHECKPOINT, now, token)
        with self._writing() as writing:
            writing.change_setting(_TOKEN, token)
            writing.forget_writes(now.version)
            writing.commit()
        self._rows_logged = 0

    def _try_checkpoint(self) -> None:
        """Write a checkpoint if that is possible; if not, wait for as many rows again."""
        with contextlib.suppress(BitkinError):
            self.checkpoint()
        self._rows_logged = 0

    def close(self) -> None:
        """Write a checkpoint where that helps, and let go of the folder."""
        try:
            if self._database.is_writer and self._rows_logged >= _FEWEST_FOR_CHECKPOINT:
                self._try_checkpoint()
        finally:
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
        new = changes.prepare_snapshot(new)
        new = replace(new, version=now.version + 1, reading=None)
        lengths = json.dumps(list(new.lengths))
        number = new.epoch.number
        state = DatabaseState(new.version, new.n_rows, new.next_id, lengths, number)
        writing.log(state, put, removed)
        with self._publishing:
            try:
                writing.commit()
            except sqlite3.DatabaseError:
                # an error that came when all was written already has changed nothing
                if writing.connection.in_transaction or writing.version() != new.version:
                    raise
            self.snapshot = new
        self._rows_logged += len(put) + len(removed)
        if self._rows_logged > max(_ROWS_BETWEEN_CHECKPOINTS, new.n_rows):
            self._try_checkpoint()

    def _load_now(self) -> CollectionSnapshot:
        """Return all rows as they are now."""
        for _ in range(_MOST_LOADS):
            with contextlib.suppress(_EpochGoneError), self._database.read() as reading:
                return self._load(reading)
        with self._database.read() as reading:
            return self._load(reading)

    def _load(self, reading: ReadTransaction) -> CollectionSnapshot:
        """Return all rows as a transaction sees them: from the checkpoint and the log, or from the
        database alone.
        """
        state = reading.state()
        empty = self._empty(self._epoch(reading, state.epoch))
        token, found = reading.setting(_TOKEN), None
        if token is not None:
            found = read_checkpoint(
                self.folder / CHECKPOINT,
                empty,
                token,
                lambda number: self._epoch(reading, number),
            )
        if found is not None and found.version <= state.version:
            current = self._catch_up(reading, found, state)
            if current is not None and current.n_rows == state.n_rows:
                return current
        # everything, in pieces, so that Python objects of few rows exist at a time
        now = empty
        if isinstance(now.ids, StoredStringIds):
            now = replace(now, ids=StoredStringIds())
        for some in _in_pieces(reading.rows()):
            now = self._with_stored(reading, now, some)
        if now.n_rows != state.n_rows:
            raise CorruptFileError(
                f"{self._database.path} has {now.n_rows:,} rows, and says {state.n_rows:,}. "
                "Restore a backup."
            )
        self._rows_logged = now.n_rows
        return self._finished(reading, now, state)

    def _empty(self, epoch: CollectionEpoch) -> CollectionSnapshot:
        """Return what a collection is without rows."""
        settings = self._settings
        vectors = settings.new_vectors(epoch.encoder)
        kept = KeptRows(
            None if vectors is None else FolderVectors(vectors),
            None if epoch.encoder.scorer is None else Column.empty(np.float32, 2),
            metadata=(
                RowMetadata.empty(settings.fields, has_texts=False) if settings.fields else None
            ),
        )
        ids = StoredStringIds() if settings.ids == "str" else settings.new_ids()
        return CollectionSnapshot.of_epoch(epoch, ids, kept)

    def _epoch(self, reading: ReadTransaction, number: int) -> CollectionEpoch:
        """Return an epoch of the database, read once."""
        if number not in self._epochs:
            stored = reading.epoch(number)
            try:
                self._epochs[number] = load_epoch(self.folder, stored, self._settings)
            except FileAccessError as error:
                if (self.folder / Path(stored.model).name).exists():
                    raise
                raise _EpochGoneError(
                    f"{self.folder / stored.model} is not there, and rows of this collection need "
                    "it. Restore a backup."
                ) from error
        return self._epochs[number]

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
        gone = touched[now.present(touched)]
        if len(gone):
            now = changes.without_rows(now, gone)
        if now.epoch.number != state.epoch:
            now = changes.with_epoch(now, self._epoch(reading, state.epoch))
        for some in _in_pieces(reading.rows(touched)):
            now = self._with_stored(reading, now, some)
        self._rows_logged += len(touched)
        return self._finished(reading, now, state)

    def _finished(
        self, reading: ReadTransaction, now: CollectionSnapshot, state: DatabaseState
    ) -> CollectionSnapshot:
        lengths = Lengths(*json.loads(state.lengths))
        coded = replace(now.coded, next_id=max(now.coded.next_id, state.next_id))
        now = replace(now, coded=coded, lengths=lengths, version=state.version)
        live = {part.epoch.number: part.epoch for part in now.parts}
        self._epochs = {**live, now.epoch.number: now.epoch}
        if isinstance(now.ids, StoredStringIds):
            now.ids.start_at(state.next_id)
        return replace(changes.prepare_snapshot(now.read_by(reading)), reading=None)

    def _with_stored(
        self, reading: ReadTransaction, now: CollectionSnapshot, stored: Sequence[StoredRow]
    ) -> CollectionSnapshot:
        """Return a snapshot with rows of the database, none of which it has."""
        numbers_of = [number for row in stored for number in (row.row_id, row.epoch)]
        if not {int}.issuperset(map(type, numbers_of)) or min(numbers_of, default=0) < 0:
            raise damaged(self._database.path, "it has a row id or an epoch that cannot be")
        if isinstance(now.ids, StoredStringIds):
            names: Any = [row.name for row in stored]
            if not {str}.issuperset(map(type, names)):
                raise damaged(self._database.path, "it has a row without its id")
            ids = now.ids.with_stored(names, [row.row_id for row in stored])
            now = replace(now, ids=ids)
        for values, kind in zip(
            zip(*(row.fields for row in stored), strict=True), self._kinds, strict=False
        ):
            wrong = not _STORED_TYPES[kind].issuperset(map(type, values))
            if wrong or (kind == "bool" and not _STORED_BOOLS.issuperset(values)):
                raise damaged(self._database.path, "it has a field of another type than declared")
        numbers = {row.epoch for row in stored}
        for number in sorted(numbers):
            some = stored if len(numbers) == 1 else [row for row in stored if row.epoch == number]
            epoch = self._epoch(reading, number)
            now = replace(now, kept=now.kept.ready_for(epoch))
            corrections = None
            if epoch.encoder.scorer is not None:
                corrections = Pieces()
                corrections.append(self._joined((row.corrections for row in some), "<f4", (2,)))
            row_ids = np.array([row.row_id for row in some], dtype=np.int64)
            metadata = None
            if now.kept.metadata is not None:
                metadata = EncodedMetadata([row.fields for row in some], [])
            codes = self._codes_of(epoch, some)
            rows = NewRows(row_ids, codes, None, corrections, NO_LENGTHS, metadata, epoch)
            now = changes.with_new_rows(now, rows, replaces=False)
        return now

    def _are_searched(self, now: CollectionSnapshot, stored: Sequence[StoredRow]) -> bool:
        """Tell whether rows of the database are those that searches go over."""
        row_ids = np.array([row.row_id for row in stored], dtype=np.int64)
        if isinstance(now.ids, StoredStringIds):
            names: Any = [row.name for row in stored]
            if now.ids.from_row_ids(row_ids).tolist() != names:
                return False
            if not np.array_equal(now.ids.row_ids(now.ids.check(names)), row_ids):
                return False
        if now.kept.metadata is not None:
            found = now.kept.metadata.keep_only(row_ids, row_ids).columns
            made = FieldColumns.empty(found.fields).with_rows([row.fields for row in stored])
            slots = np.arange(len(stored))
            if found.documents(slots) != made.documents(slots):
                return False
        parts = {part.epoch.number: part for part in now.parts}
        for number in {row.epoch for row in stored}:
            some = [row for row in stored if row.epoch == number]
            row_ids = np.array([row.row_id for row in some], dtype=np.int64)
            part = parts.get(number)
            if part is None or not part.coded.present(row_ids).all():
                return False
            if part.coded.codes(row_ids) != self._codes_of(part.epoch, some):
                return False
            if part.epoch.encoder.scorer is not None:
                corrections = self._joined((row.corrections for row in some), "<f4", (2,))
                if not np.array_equal(now.corrections(row_ids), corrections):
                    return False
        return True

    def _codes_of(self, epoch: CollectionEpoch, stored: Sequence[StoredRow]) -> Codes:
        spec, fingerprint = epoch.index.spec, epoch.fingerprint
        shape = spec.bits_per_symbol, spec.plane_words
        nothing = bytes(8 * spec.bits_per_symbol * spec.plane_words)
        empty = np.array([row.code is None for row in stored], dtype=bool)
        words = self._joined(
            (nothing if row.code is None else row.code for row in stored), "<u8", shape
        )
        try:
            return Codes(words, spec, empty=empty if empty.any() else None, fingerprint=fingerprint)
        except InvalidInputError as error:
            raise damaged(self._database.path, f"it has a code that cannot be: {error}") from None

    def _joined(self, blobs: Iterable[bytes | None], dtype: str, shape: tuple[int, ...]) -> Any:
        parts = [blob or b"" for blob in blobs]
        width = int(np.prod(shape)) * np.dtype(dtype).itemsize
        same = {bytes}.issuperset(map(type, parts)) and {width}.issuperset(map(len, parts))
        if not same:
            raise damaged(
                self._database.path, "it has a code of another length than the hasher makes"
            )
        array = np.frombuffer(b"".join(parts), dtype=dtype)
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


def _as_stored(
    epoch: CollectionEpoch,
    row_ids: Ids,
    codes: Codes,
    corrections: Corrections | None,
    names: Sequence[str] | None = None,
    metadata: EncodedMetadata | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Return rows in the order of the database's columns: row id, name, epoch, code, corrections,
    metadata and declared fields.
    """
    n = len(row_ids)
    some: Iterator[bytes | None] = row_blobs(codes.words)
    if codes.empty is not None:
        some = (None if none else code for code, none in zip(some, codes.empty, strict=True))
    columns: list[Iterable[Any]] = [
        row_ids.tolist(),
        _nothing(n) if names is None else names,
        itertools.repeat(epoch.number, n),
        some,
        _nothing(n) if corrections is None else row_blobs(corrections),
        _nothing(n) if metadata is None else metadata.rest,
    ]
    if metadata is not None and len(metadata.fields):
        places = range(len(metadata.fields[0]))
        columns += [map(operator.itemgetter(place), metadata.fields) for place in places]
    return zip(*columns, strict=True)


def _nothing(n: int) -> Iterator[None]:
    return itertools.repeat(None, n)


def _require_checksum(path: Path, row_id: int, make: Callable[[], int], checksum: int) -> None:
    try:
        same = make() == checksum
    except TypeError:  # text where bytes belong, or the other way round
        same = False
    if not same:
        raise damaged(path, f"row {row_id} is not as it was written")


def _in_pieces(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Yield rows in lists of bounded length."""
    while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield some
