"""The database of a collection: one SQLite file with a write-ahead log.

One row of `rows` per vector holds its code, corrections, declared fields (columns f0, f1, … in the
order of the settings) and other metadata as JSON; `vectors` holds the vector, apart, so that codes
are read without it. `epochs` says which model made the codes of which rows. `writes` is a log:
which rows each write put or removed, by version. From it a reader of an older version, or a
checkpoint, becomes current. Nothing that a user gave ever becomes SQL text.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.collection.folder.blobs import vectors_from
from bitkin.collection.folder.forks import in_sqlite, register_forkable
from bitkin.collection.metadata.documents import decode_metadata
from bitkin.collection.metadata.filters import Condition, to_sql
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError

APPLICATION_ID = 0x6269746B  # "bitk"
FORMAT = 1
SYNCHRONOUS = ("normal", "full")
_PAGE_BYTES = 8192
_CACHE_KIB = 8192
_LOG_PAGES = 4000  # of the write-ahead log before it is moved into the file: 32 MB
_SECONDS_TO_WAIT = 30.0  # for SQLite's own locks, which are held for moments
_SECONDS_FOR_FORK = 1.0  # to wait for our own lock of the pool, which is held for moments too
_ROWS_AT_ONCE = 20_000


class StoredRow(NamedTuple):
    """A row as the database keeps it, without its vector."""

    row_id: int
    name: str | None
    epoch: int
    code: bytes | None
    """None where there was nothing to hash."""
    corrections: bytes | None
    metadata: str | None
    fields: tuple[Any, ...]


class RowLayout(NamedTuple):
    """What rows of a collection have."""

    fields: dict[str, str]
    string_ids: bool
    vectors: str | None

    @property
    def columns(self) -> list[str]:
        """The columns of declared fields."""
        return [f"f{number}" for number in range(len(self.fields))]

    def schema(self) -> str:
        """Return the statements that make the tables."""
        types = {"int": "INTEGER", "float": "REAL", "bool": "INTEGER", "str": "TEXT"}
        fields = "".join(
            f" {column} {types[kind]},"
            for column, kind in zip(self.columns, self.fields.values(), strict=True)
        )
        unique = "CREATE UNIQUE INDEX names ON rows(name);" if self.string_ids else ""
        return f"""
            CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
            CREATE TABLE rows(
                row_id INTEGER PRIMARY KEY, name TEXT, epoch INTEGER NOT NULL,
                code BLOB, corrections BLOB,{fields} metadata TEXT);
            {unique}
            CREATE TABLE vectors(row_id INTEGER PRIMARY KEY, vector BLOB NOT NULL);
            CREATE TABLE epochs(
                number INTEGER PRIMARY KEY, model TEXT NOT NULL, fingerprint TEXT NOT NULL,
                way TEXT, way_file TEXT);
            CREATE TABLE writes(version INTEGER PRIMARY KEY, put BLOB, removed BLOB);
            CREATE TABLE state(
                one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL,
                n_rows INTEGER NOT NULL, next_id INTEGER NOT NULL, lengths TEXT NOT NULL,
                epoch INTEGER NOT NULL);
            INSERT INTO state VALUES(1, 0, 0, 0, '[0, 0.0, 0.0]', 0);
        """


class DatabaseState(NamedTuple):
    """What the database says of all rows."""

    version: int
    n_rows: int
    next_id: int
    lengths: str
    """JSON of the sums that `Lengths` holds."""
    epoch: int
    """The current one."""


class StoredEpoch(NamedTuple):
    """An epoch as the database keeps it."""

    number: int
    model: str
    """Name of the file of its hasher, beside the database."""
    fingerprint: str
    way: str | None
    """How its codes are searched, such as "auto"; None where an index was given."""
    way_file: str | None
    """Name of the file of that index."""


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into errors of ours; no fork comes within the block."""
    try:
        with in_sqlite:
            yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if isinstance(error, sqlite3.OperationalError):
            raise FileAccessError(
                f"{path} cannot be used: {text}. Nothing of this call was kept; what was "
                "acknowledged before is there."
            ) from error
        if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
            raise
        raise CorruptFileError(f"{path} is damaged: {text}. Restore a backup.") from error


class Database(contextlib.AbstractContextManager["Database"]):
    """The connections to one database: one that writes, where this process may, and a pool of those
    that read.
    """

    def __init__(self, path: Path, layout: RowLayout, *, writes: bool, synchronous: str) -> None:
        self.path = path
        self.layout = layout
        self._writes = writes
        self._synchronous = synchronous
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._writer: sqlite3.Connection | None = self._connect() if writes else None
        register_forkable(self)

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes: a child that was forked from a writer does not."""
        return self._writes

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        with in_sqlite, self._lock:
            self._closed = True
            self._close_idle()

    @contextlib.contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """Give a transaction that is committed by its `commit`, and undone otherwise."""
        if not self.is_writer:
            raise InvalidInputError(
                "the collection is open for reading only in this process. Open it with "
                "bitkin.Collection.open(path)."
            )
        with sqlite_errors(self.path):
            writer = self._open_writer()
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield WriteTransaction(writer, self.layout, self.path)
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")

    @contextlib.contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """Give a transaction that sees the rows of one moment."""
        with sqlite_errors(self.path):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield ReadTransaction(connection, self.layout, self.path)
            finally:
                self._give_back(connection)

    def vacuum(self) -> None:
        """Give the space of removed rows back to the disk."""
        if not self.is_writer:
            return
        with sqlite_errors(self.path):
            writer = self._open_writer()
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(self, path: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a copy of one moment to a new file, whatever is written meanwhile."""
        with self.read() as reading, sqlite_errors(path):
            copy = sqlite3.connect(path)
            try:
                reading.state()  # from here on the moment is fixed

                def tell(_: int, left: int, total: int) -> None:
                    if progress is not None:
                        progress(total - left, total)

                reading.connection.backup(copy, pages=4096, progress=tell)
                copy.execute("PRAGMA journal_mode=WAL")
            finally:
                copy.close()

    def _open_writer(self) -> sqlite3.Connection:
        """Return the connection that writes; a fork closes it."""
        if self._closed:
            raise InvalidInputError("the collection is closed. Open it again.")
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise InvalidInputError("the collection is closed. Open it again.")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def before_fork(self) -> None:
        """Close all connections that are not in use: those of the next call are opened anew, on
        either side of the fork.
        """
        if self._lock.acquire(timeout=_SECONDS_FOR_FORK):
            try:
                self._close_idle()
            finally:
                self._lock.release()

    def after_fork_in_child(self) -> None:
        """Write no more, and let go of connections in use, which a child must neither use nor
        close.
        """
        for connection in [*self._idle, *([self._writer] if self._writer else [])]:
            keep_forever(connection)
        self._idle, self._writer, self._writes = [], None, False
        self._lock = threading.Lock()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._writer is not None and not self._writer.in_transaction:
            self._writer.close()
            self._writer = None

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, writes=self._writes, synchronous=self._synchronous)


def keep_forever(connection: sqlite3.Connection) -> None:
    """Never close a connection, not even when the interpreter ends: SQLite forbids it on the other
    side of a fork.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def connect(path: Path, *, writes: bool, synchronous: str = "normal") -> sqlite3.Connection:
    """Open a database that is there."""
    with sqlite_errors(path):
        try:
            return _connect(path, "rw", writes, synchronous)
        except sqlite3.OperationalError:
            # a folder that nobody can write to has no log either, so the file cannot change
            if writes or path.with_name(path.name + "-wal").exists():
                raise
            return _connect(path, "ro&immutable=1", writes, synchronous)


def _connect(path: Path, mode: str, writes: bool, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_SECONDS_TO_WAIT,
    )
    try:
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        connection.execute("PRAGMA trusted_schema=OFF")
        if writes:
            connection.execute(f"PRAGMA synchronous={synchronous.upper()}")
            connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        else:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def create_database(
    path: Path, layout: RowLayout, settings: dict[str, Any], epoch: StoredEpoch
) -> None:
    """Write a database without rows. Raises FileAccessError."""
    with sqlite_errors(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            connection.executescript(layout.schema())
            connection.executemany(
                "INSERT INTO settings VALUES(?, ?)",
                [(name, json.dumps(value)) for name, value in settings.items()],
            )
            connection.execute("INSERT INTO epochs VALUES(?, ?, ?, ?, ?)", epoch)
        finally:
            connection.close()


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a collection was made with; raise where a file is none of ours, or newer."""
    connection = connect(path, writes=False)
    try:
        with sqlite_errors(path):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise CorruptFileError(f"{path} is a database of another program, not bitkin's.")
            if version != FORMAT:
                raise CorruptFileError(
                    f"{path} has format {version}, and this bitkin reads {FORMAT}. A newer bitkin "
                    "may open it."
                )
            found = connection.execute("SELECT name, value FROM settings").fetchall()
    finally:
        connection.close()
    try:
        return {name: json.loads(value) for name, value in found}
    except (ValueError, TypeError):
        raise CorruptFileError(f"{path} has settings that cannot be read.") from None


@contextlib.contextmanager
def read_copy(path: Path, layout: RowLayout) -> Iterator[ReadTransaction]:
    """Read a database that nobody else knows of yet."""
    connection = connect(path, writes=False)
    try:
        with sqlite_errors(path):
            yield ReadTransaction(connection, layout, path)
    finally:
        connection.close()


class ReadTransaction:
    """Rows as of one moment."""

    def __init__(self, connection: sqlite3.Connection, layout: RowLayout, path: Path) -> None:
        self.connection = connection
        self._layout = layout
        self._path = path

    def state(self) -> DatabaseState:
        """Return what the database says of all rows."""
        found = self.connection.execute(
            "SELECT version, n_rows, next_id, lengths, epoch FROM state"
        ).fetchone()
        if found is None:
            raise CorruptFileError(f"{self._path} has no state. Restore a backup.")
        return DatabaseState(*found)

    def version(self) -> int:
        """Return how many writes there were."""
        (version,) = self.connection.execute("SELECT version FROM state").fetchone()
        return int(version)

    def vectors(self, row_ids: Ids, n_features: int) -> Batch:
        """Return the vectors of rows that are there, in that order."""
        layout = self._layout
        if layout.vectors is None:
            raise InvalidInputError(
                "vectors must be kept to be read, but this collection has vectors=None."
            )
        blobs = [vector for (vector,) in self._by_row_ids("vectors", ["vector"], row_ids)]
        self._require_all(len(blobs), len(row_ids))
        return vectors_from(layout.vectors, n_features, blobs, str(self._path))

    def metadata(self, row_ids: Ids) -> list[dict[str, Any]]:
        """Return the metadata of rows that are there, in that order; declared fields first."""
        columns = ["metadata", *self._layout.columns]
        found = [self._as_metadata(*row) for row in self._by_row_ids("rows", columns, row_ids)]
        self._require_all(len(found), len(row_ids))
        return found

    def rows(self, row_ids: Ids | None = None) -> Iterator[StoredRow]:
        """Yield rows, all of them by ascending row id, or those of some row ids that are there."""
        columns = ["row_id", "name", "epoch", "code", "corrections", *self._layout.columns]
        if row_ids is None:
            found: Iterable[tuple[Any, ...]] = self.connection.execute(
                f"SELECT {', '.join(columns)} FROM rows ORDER BY row_id"
            )
        else:
            found = self._by_row_ids("rows", columns, row_ids)
        for row_id, name, epoch, code, corrections, *fields in found:
            yield StoredRow(row_id, name, epoch, code, corrections, None, tuple(fields))

    def epoch(self, number: int) -> StoredEpoch:
        """Return one epoch."""
        found = self.connection.execute(
            "SELECT number, model, fingerprint, way, way_file FROM epochs WHERE number = ?",
            (number,),
        ).fetchone()
        if found is None:
            raise CorruptFileError(f"{self._path} has no epoch {number}. Restore a backup.")
        return StoredEpoch(*found)

    def epochs(self) -> list[StoredEpoch]:
        """Return all epochs that rows may be of, in order."""
        found = self.connection.execute(
            "SELECT number, model, fingerprint, way, way_file FROM epochs ORDER BY number"
        )
        return [StoredEpoch(*one) for one in found]

    def find(self, condition: Condition | None) -> Ids:
        """Return the row ids, ascending, of rows whose undeclared metadata matches."""
        where, values = ("1", []) if condition is None else to_sql(condition)
        found = self.connection.execute(
            f"SELECT row_id FROM rows WHERE {where} ORDER BY row_id", values
        )
        return np.fromiter((row_id for (row_id,) in found), dtype=np.int64)

    def writes_since(self, version: int) -> list[tuple[int, Ids]] | None:
        """Return the versions after one, each with the row ids that it put or removed; None where
        the log does not reach back so far.
        """
        found = self.connection.execute(
            "SELECT version, put, removed FROM writes WHERE version > ? ORDER BY version",
            (version,),
        ).fetchall()
        if [number for number, _, _ in found] != list(range(version + 1, self.version() + 1)):
            return None
        return [
            (number, np.concatenate([_ids_from(put), _ids_from(removed)]))
            for number, put, removed in found
        ]

    def setting(self, name: str) -> Any:
        """Return one setting as it is now, None where there is none."""
        found = self.connection.execute(
            "SELECT value FROM settings WHERE name = ?", (name,)
        ).fetchone()
        return None if found is None else json.loads(found[0])

    def _as_metadata(self, text: str | None, *values: Any) -> dict[str, Any]:
        """Return what a user gave for a row."""
        found: dict[str, Any] = {}
        for (name, kind), value in zip(self._layout.fields.items(), values, strict=True):
            if value is not None:
                found[name] = bool(value) if kind == "bool" else value
        if text is not None:
            found.update(decode_metadata(text))
        return found

    def _by_row_ids(
        self, table: str, columns: Sequence[str], row_ids: Ids
    ) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows that are there, in the order of `row_ids`."""
        wanted = ", ".join(f"r.{column}" for column in columns)
        sql = (
            f"SELECT {wanted} FROM json_each(?) AS w "  # CROSS: in the order of the list
            f"CROSS JOIN {table} AS r ON r.row_id = w.value"
        )
        for first in range(0, len(row_ids), _ROWS_AT_ONCE):
            some = row_ids[first : first + _ROWS_AT_ONCE].tolist()
            yield from self.connection.execute(sql, (str(some),))

    def _require_all(self, n_found: int, n_wanted: int) -> None:
        if n_found != n_wanted:
            raise CorruptFileError(
                f"{self._path} lacks {n_wanted - n_found} rows that it should have. Restore a "
                "backup."
            )


class WriteTransaction(ReadTransaction):
    """Rows as they will be once this is committed."""

    def put(self, rows: Iterable[StoredRow]) -> None:
        """Add rows without their vectors, or replace them."""
        columns = ["row_id", "name", "epoch", "code", "corrections", "metadata"]
        columns += self._layout.columns
        places = ", ".join("?" * len(columns))
        self.connection.executemany(
            f"INSERT OR REPLACE INTO rows({', '.join(columns)}) VALUES({places})",
            ((*row[:6], *row.fields) for row in rows),
        )

    def put_vectors(self, row_ids: Ids, blobs: Iterable[bytes | memoryview]) -> None:
        """Add vectors, or replace them."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO vectors(row_id, vector) VALUES(?, ?)",
            zip(row_ids.tolist(), blobs, strict=True),
        )

    def remove(self, row_ids: Ids) -> None:
        """Remove rows that are there."""
        for table in ("rows", "vectors"):
            self.connection.executemany(
                f"DELETE FROM {table} WHERE row_id = ?", ((i,) for i in row_ids.tolist())
            )

    def change_metadata(self, rows: Iterable[tuple[int, str | None, tuple[Any, ...]]]) -> None:
        """Change metadata and declared fields of rows that are there, given by row id."""
        columns = ["metadata", *self._layout.columns]
        changed = ", ".join(f"{column} = ?" for column in columns)
        self.connection.executemany(
            f"UPDATE rows SET {changed} WHERE row_id = ?",
            ((text, *fields, row_id) for row_id, text, fields in rows),
        )

    def change_codes(self, rows: Iterable[StoredRow]) -> None:
        """Give rows that are there codes and corrections of another epoch."""
        self.connection.executemany(
            "UPDATE rows SET epoch = ?, code = ?, corrections = ? WHERE row_id = ?",
            ((row.epoch, row.code, row.corrections, row.row_id) for row in rows),
        )

    def add_epoch(self, epoch: StoredEpoch) -> None:
        """Add an epoch that rows may be of."""
        self.connection.execute("INSERT INTO epochs VALUES(?, ?, ?, ?, ?)", epoch)

    def forget_epochs(self, current: int) -> None:
        """Drop epochs before the current one that no row is of."""
        self.connection.execute(
            "DELETE FROM epochs WHERE number < ? AND number NOT IN (SELECT epoch FROM rows)",
            (current,),
        )

    def change_setting(self, name: str, value: Any) -> None:
        """Change a setting."""
        self.connection.execute(
            "INSERT OR REPLACE INTO settings VALUES(?, ?)", (name, json.dumps(value))
        )

    def forget_writes(self, version: int) -> None:
        """Drop the log up to a version, which a checkpoint holds."""
        self.connection.execute("DELETE FROM writes WHERE version <= ?", (version,))

    def log(self, state: DatabaseState, put: Ids, removed: Ids) -> None:
        """Note a write: the state that it leads to, and the rows it put and removed."""
        self.connection.execute(
            "INSERT INTO writes VALUES(?, ?, ?)",
            (state.version, put.astype("<i8").tobytes(), removed.astype("<i8").tobytes()),
        )
        self.connection.execute(
            "UPDATE state SET version = ?, n_rows = ?, next_id = ?, lengths = ?, epoch = ?", state
        )

    def commit(self) -> None:
        """Make all of it last."""
        self.connection.execute("COMMIT")


def _ids_from(blob: bytes | None) -> Ids:
    return np.frombuffer(blob or b"", dtype="<i8").astype(np.int64)
