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
import functools
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.collection.folder.blobs import vector_bytes, vectors_from
from bitkin.collection.folder.forks import in_sqlite, register_forkable
from bitkin.collection.metadata.documents import decode_metadata
from bitkin.collection.metadata.filters import Condition, to_sql
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError

APPLICATION_ID = 0x6269746B  # "bitk"
FORMAT = 1
SYNCHRONOUS = ("normal", "full")
_PAGE_BYTES, _LARGE_PAGE_BYTES = 8192, 16384
_LEAST_SAVED = 0.25  # of the disk, where pages are large: a search reads a page per vector
_ROW_BYTES = 16  # of a vector's row id, checksum and place in its page
_CACHE_KIB = 2048  # of a connection, and room for the inner pages of a large table
_PAGES_PER_INNER_PAGE = 512  # that a search goes through to its rows, at least
_LOG_PAGES = 4000  # of the write-ahead log before it is moved into the file: 32 MB, or 64
_MOST_LOG_BYTES = 1 << 26  # that are left of the log, however large a write was
_SECONDS_TO_WAIT = 30.0  # for SQLite's own locks, which are held for moments
_CANNOT_WRITE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_ADD_EPOCH = "INSERT INTO epochs VALUES(?, ?, ?, ?, ?, ?)"
_HERE = Path(__file__).parent
_PRIMARY_CODE = 0xFF  # of SQLite's error codes, without what only some files can say
_ROWS_AT_ONCE = 20_000


class DatabaseState(NamedTuple):
    """What the database says of all rows."""

    version: int
    n_rows: int
    next_id: int
    lengths: str
    """JSON of the sums that `Lengths` holds."""
    epoch: int
    """The current one."""

    def checksum(self) -> int:
        """Return what tells this state from a damaged one."""
        return checksum_of(*self)


NO_STATE = DatabaseState(0, 0, 0, "[0, 0.0, 0.0]", 0)


def checksum_of(*values: Any) -> int:
    """Return a checksum of numbers, text, bytes and None, as SQLite gives them back."""
    return crc32(repr(values).encode(errors="surrogatepass"))


def vector_checksum(row_id: int, vector: bytes | memoryview) -> int:
    """Return the checksum of a vector where it belongs."""
    return crc32(vector, (row_id ^ row_id >> 32) & 0xFFFFFFFF)


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

    def checksum(self) -> int:
        """Return what tells this row from a damaged one."""
        crc = (self.row_id ^ self.row_id >> 32 ^ self.epoch << 8) & 0xFFFFFFFF
        crc = crc32(b"-" if self.code is None else self.code, crc)
        crc = crc32(self.corrections or b"-", crc)
        if self.name is None and self.metadata is None and not self.fields:
            return crc
        # SQLite gives −0.0 back as 0.0, and bools as numbers
        fields = [one if one is None or isinstance(one, str) else one + 0 for one in self.fields]
        text = f"{self.name!r} {self.metadata} {fields}"
        return crc32(text.encode(errors="surrogatepass"), crc)


@functools.cache
def _field_columns(n: int) -> tuple[str, ...]:
    return tuple(f"f{number}" for number in range(n))


@functools.cache
def _select(table: str, columns: tuple[str, ...]) -> str:
    """Return the statement for some rows of a list, in its order."""
    wanted = ", ".join(f"r.{column}" for column in columns)
    return (
        f"SELECT {wanted} FROM json_each(?) AS w "  # CROSS: in the order of the list
        f"CROSS JOIN {table} AS r ON r.row_id = w.value"
    )


class RowLayout(NamedTuple):
    """What rows of a collection have."""

    fields: dict[str, str]
    string_ids: bool
    vectors: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of declared fields."""
        return _field_columns(len(self.fields))

    def page_bytes(self, n_features: int | None) -> int:
        """Return the size of a page: a large one where vectors of so many numbers would fill too
        little of a small one.
        """
        width = vector_bytes(self.vectors, n_features) + _ROW_BYTES
        small, large = (page / max(1, page // width) for page in (_PAGE_BYTES, _LARGE_PAGE_BYTES))
        saves = width <= _PAGE_BYTES and large <= (1 - _LEAST_SAVED) * small
        return _LARGE_PAGE_BYTES if saves else _PAGE_BYTES

    def schema(self) -> str:
        """Return the statements that make the tables."""
        types = {"int": "INTEGER", "float": "REAL", "bool": "INTEGER", "str": "TEXT"}
        fields = "".join(
            f" {column} {types[kind]},"
            for column, kind in zip(self.columns, self.fields.values(), strict=True)
        )
        unique = "CREATE UNIQUE INDEX names ON rows(name);" if self.string_ids else ""
        return f"""
            CREATE TABLE settings(
                name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)
                WITHOUT ROWID;
            CREATE TABLE rows(
                row_id INTEGER PRIMARY KEY, name TEXT, epoch INTEGER NOT NULL,
                code BLOB, corrections BLOB,{fields} metadata TEXT, checksum INTEGER NOT NULL);
            {unique}
            CREATE TABLE vectors(
                row_id INTEGER PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL);
            CREATE TABLE epochs(
                number INTEGER PRIMARY KEY, model TEXT NOT NULL, fingerprint TEXT NOT NULL,
                way TEXT, way_file TEXT, checksum INTEGER NOT NULL);
            CREATE TABLE writes(
                version INTEGER PRIMARY KEY, put BLOB NOT NULL, removed BLOB NOT NULL,
                checksum INTEGER NOT NULL);
            CREATE TABLE state(
                one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL,
                n_rows INTEGER NOT NULL, next_id INTEGER NOT NULL, lengths TEXT NOT NULL,
                epoch INTEGER NOT NULL, checksum INTEGER NOT NULL);
            INSERT INTO state VALUES(1, 0, 0, 0, '[0, 0.0, 0.0]', 0, {NO_STATE.checksum()});
        """


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
        if isinstance(error, sqlite3.ProgrammingError) or not _is_ours(error):
            raise  # a mistake, or of a database that a caller's own queries are read from
        raise _translated(error, path) from error


def _is_ours(error: BaseException) -> bool:
    """Whether an error was raised by a statement of this folder's files."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and Path(at.tb_frame.f_code.co_filename).parent == _HERE


def _translated(error: sqlite3.DatabaseError, path: Path) -> BitkinError:
    if isinstance(error, sqlite3.DataError):
        return InvalidInputError(
            f"{path} cannot keep a value so large: {error}. Nothing of this call was kept."
        )
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
    # of all that is "operational", a statement that makes no sense says that tables, or what stands
    # in them, are not ours
    if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
        return FileAccessError(
            f"{path} cannot be used: {error}. Nothing of this call was kept; what was "
            "acknowledged before is there."
        )
    return damaged(path, str(error))


def damaged(path: Path, flaw: str) -> CorruptFileError:
    """Return the error of a database that holds what we never wrote."""
    return CorruptFileError(f"{path} is damaged: {flaw}. Restore a backup.")


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
        self._closed = False
        self._identity: tuple[int, int] | None = None
        self._writer: sqlite3.Connection | None = self._connect() if writes else None
        register_forkable(self)

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes: a child that was forked from a writer does not."""
        return self._writes

    def require_writer(self) -> None:
        """Raise where this process may not write."""
        if not self.is_writer:
            raise InvalidInputError(
                "the collection is open for reading only in this process. Open it with "
                "bitkin.Collection.open(path)."
            )
        self.require_same_file()  # SQLite would write to a file that was deleted

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        with in_sqlite:
            self._closed = True
            self._close_idle()
            self._close_writer()

    @contextlib.contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """Give a transaction that is committed by its `commit`, and undone otherwise."""
        self.require_writer()
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
                if not _is_current(connection, self.path):
                    raise FileAccessError(
                        f"{self.path} was changed while it was read, and could not be locked in a "
                        "folder that this process may not write to. Ask again."
                    )
            finally:
                self._give_back(connection)

    def vacuum(self) -> None:
        """Give the space of removed rows back to the disk."""
        self.require_writer()
        with sqlite_errors(self.path):
            writer = self._open_writer()
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(
        self,
        path: Path,
        begin: Callable[[ReadTransaction], object],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write a copy of one moment to a new file, whatever is written meanwhile; `begin` is
        called at that moment, before the copy.
        """
        with self.read() as reading, sqlite_errors(path):
            reading.state()  # from here on the moment is fixed
            begin(reading)
            copy = sqlite3.connect(path)
            try:

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
        while True:
            if self._closed:
                raise InvalidInputError("the collection is closed. Open it again.")
            try:
                # whole by itself: a lock could stay taken where Ctrl-C ends a search
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if _is_current(connection, self.path):
                return connection
            connection.close()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        self._idle.append(connection)
        if self._closed:
            self._close_idle()

    def before_fork(self) -> None:
        """Close all connections that are not in use: those of the next call are opened anew, on
        either side of the fork.
        """
        self._close_idle()
        self._close_writer()

    def after_fork_in_child(self) -> None:
        """Write no more, and let go of connections in use, which a child must neither use nor
        close.
        """
        for connection in [*self._idle, *([self._writer] if self._writer else [])]:
            keep_forever(connection)
        self._idle, self._writer, self._writes = [], None, False

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _close_writer(self) -> None:
        if self._writer is not None and not self._writer.in_transaction:
            self._writer.close()
            self._writer = None

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, writes=self._writes, synchronous=self._synchronous)
        try:
            self.require_same_file()
        except FileAccessError:
            connection.close()
            raise
        return connection

    def require_same_file(self) -> None:
        """Raise where the path leads to another file than at first, or to none."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise FileAccessError(
                f"{self.path} cannot be used: {error.strerror or error}. Nothing of this call was "
                "kept. Was the folder moved or deleted? Put it back, or open it where it is now."
            ) from error
        identity = found.st_dev, found.st_ino
        if self._identity is None:
            self._identity = identity
        elif self._identity != identity:
            raise FileAccessError(
                f"{self.path} is another file than the one that was opened. Nothing of this call "
                "was kept. Close the collection and open it again."
            )


def keep_forever(connection: sqlite3.Connection) -> None:
    """Never close a connection, not even when the interpreter ends: SQLite forbids it on the other
    side of a fork.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class _FrozenFile(sqlite3.Connection):
    """A connection to a file that SQLite takes for one that never changes, without locks."""

    stamp: tuple[int, ...] | None = None
    """Of the file as it was opened."""


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a connection sees what is there: one without locks may not."""
    return not isinstance(connection, _FrozenFile) or connection.stamp == _stamp(path)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file does, None where there is a log: then somebody writes, or was
    killed.
    """
    try:
        log = path.with_name(path.name + "-wal").stat().st_size
        if log or path.with_name(path.name + "-shm").exists():
            return None
    except FileNotFoundError:
        pass
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def connect(path: Path, *, writes: bool, synchronous: str = "normal") -> sqlite3.Connection:
    """Open a database that is there."""
    with sqlite_errors(path):
        try:
            return _connect(path, "rw", writes, synchronous)
        except UnicodeDecodeError:  # of a message that has bytes of the file in it
            raise damaged(path, "its tables cannot be read") from None
        except sqlite3.OperationalError as error:
            if writes or error.sqlite_errorcode & _PRIMARY_CODE not in _CANNOT_WRITE:
                raise
            # The folder cannot be written to, so there is no place for locks. Without a log, the
            # file does not change, until somebody else who may write does so.
            if not path.exists():
                raise
            stamp = _stamp(path)
            if stamp is None:
                raise FileAccessError(
                    f"{path} has a log of writes beside it, which this process may not take into "
                    f"account: {error}. Open it once where it can be written, or make a backup "
                    "there."
                ) from error
            frozen = _connect(path, "ro&immutable=1", writes, synchronous, _FrozenFile)
            frozen.stamp = stamp  # type: ignore[attr-defined]
            return frozen


def _connect(
    path: Path,
    mode: str,
    writes: bool,
    synchronous: str,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        factory=factory,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_SECONDS_TO_WAIT,
    )
    try:
        (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        inner_kib = n_pages // _PAGES_PER_INNER_PAGE * (page_bytes // 1024)
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB + inner_kib}")
        connection.execute("PRAGMA trusted_schema=OFF")
        if writes:
            connection.execute(f"PRAGMA synchronous={synchronous.upper()}")
            if synchronous == "full":  # on macOS the disk itself is asked only then
                connection.execute("PRAGMA fullfsync=ON")
                connection.execute("PRAGMA checkpoint_fullfsync=ON")
            connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit={_MOST_LOG_BYTES}")
        else:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def create_database(
    path: Path,
    layout: RowLayout,
    settings: dict[str, Any],
    epoch: StoredEpoch,
    n_features: int | None,
) -> None:
    """Write a database without rows, whose vectors will have so many numbers. Raises
    FileAccessError.
    """
    with sqlite_errors(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size={layout.page_bytes(n_features)}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            connection.executescript(layout.schema())
            connection.executemany(
                "INSERT INTO settings VALUES(?, ?, ?)",
                [_setting(name, value) for name, value in settings.items()],
            )
            connection.execute(_ADD_EPOCH, (*epoch, checksum_of(*epoch)))
        finally:
            connection.close()


def open_settings(path: Path) -> dict[str, Any]:
    """Return what a collection was made with; raise where a file is none of ours, or newer."""
    with sqlite_errors(path):
        connection = connect(path, writes=False)
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise CorruptFileError(f"{path} is a database of another program, not bitkin's.")
            if version != FORMAT:
                raise CorruptFileError(
                    f"{path} has format {version}, and this bitkin reads {FORMAT}. A newer bitkin "
                    "may open it."
                )
            return read_settings(connection, path)
        finally:
            connection.close()


def read_settings(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return all settings as they are now."""
    settings = {}
    for name, value, checksum in connection.execute("SELECT name, value, checksum FROM settings"):
        if checksum_of(name, value) != checksum:
            raise damaged(path, "its settings are not as they were written")
        try:
            settings[name] = json.loads(value)
        except (ValueError, TypeError):
            raise damaged(path, f"its setting {name} cannot be read") from None
    return settings


def _setting(name: str, value: Any) -> tuple[str, str, int]:
    text = json.dumps(value)
    return name, text, checksum_of(name, text)


def require_schema(path: Path, layout: RowLayout) -> None:
    """Raise where the tables of a database are not those of its layout: views and triggers of
    others would run within our statements.
    """
    wanted, query = (
        sqlite3.connect(":memory:"),
        "SELECT type, name, tbl_name, sql FROM sqlite_master",
    )
    ours = "rows", "vectors", "epochs", "writes", "state", "settings"
    with sqlite_errors(path):
        try:
            wanted.executescript(layout.schema())
            made = set(wanted.execute(query))
        finally:
            wanted.close()
        connection = connect(path, writes=False)
        try:
            found = {
                entry
                for entry in connection.execute(query)
                if entry[0] != "table" or entry[1] in ours
            }
        finally:
            connection.close()
    if found != made:
        raise damaged(path, "its tables are not those of this collection")


class ReadTransaction:
    """Rows as of one moment."""

    def __init__(self, connection: sqlite3.Connection, layout: RowLayout, path: Path) -> None:
        self.connection = connection
        self._layout = layout
        self._path = path

    def state(self) -> DatabaseState:
        """Return what the database says of all rows."""
        found = self.connection.execute(
            "SELECT version, n_rows, next_id, lengths, epoch, checksum FROM state"
        ).fetchall()
        if len(found) != 1 or DatabaseState(*found[0][:-1]).checksum() != found[0][-1]:
            raise damaged(self._path, "its state is not as it was written")
        return DatabaseState(*found[0][:-1])

    def version(self) -> int:
        """Return how many writes there were."""
        found = self.connection.execute("SELECT version FROM state").fetchone()
        if found is None or type(found[0]) is not int:
            raise damaged(self._path, "its state is not as it was written")
        version: int = found[0]
        return version

    def vectors(self, row_ids: Ids, n_features: int) -> Batch:
        """Return the vectors of rows that are there, in that order."""
        layout = self._layout
        if layout.vectors is None:
            raise InvalidInputError(
                "vectors must be kept to be read, but this collection has vectors=None."
            )
        blobs = [vector for (vector,) in self._by_row_ids("vectors", ("vector",), row_ids)]
        self._require_all(len(blobs), len(row_ids))
        if not {bytes}.issuperset(map(type, blobs)):
            raise damaged(self._path, "it has a vector of another type than it writes")
        return vectors_from(layout.vectors, n_features, blobs, str(self._path))

    def metadata(self, row_ids: Ids) -> list[dict[str, Any]]:
        """Return the metadata of rows that are there, in that order; declared fields first."""
        columns = ("metadata", *self._layout.columns)
        found = [self._as_metadata(*row) for row in self._by_row_ids("rows", columns, row_ids)]
        self._require_all(len(found), len(row_ids))
        return found

    def rows(self, row_ids: Ids | None = None) -> Iterator[StoredRow]:
        """Yield rows, all of them by ascending row id, or those of some row ids that are there."""
        columns = ("row_id", "name", "epoch", "code", "corrections", *self._layout.columns)
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
        found = [one for one in self.epochs() if one.number == number]
        if not found:
            raise damaged(self._path, f"it has no epoch {number}")
        return found[0]

    def epochs(self) -> list[StoredEpoch]:
        """Return all epochs that rows may be of, in order."""
        found = self.connection.execute(
            "SELECT number, model, fingerprint, way, way_file, checksum FROM epochs ORDER BY number"
        ).fetchall()
        if any(checksum_of(*one[:-1]) != one[-1] for one in found):
            raise damaged(self._path, "its epochs are not as they were written")
        return [StoredEpoch(*one[:-1]) for one in found]

    def stored_rows(self, row_ids: Ids | None = None) -> Iterator[tuple[StoredRow, int]]:
        """Yield whole rows with their checksums as `rows` does."""
        before = ("row_id", "name", "epoch", "code", "corrections", "metadata", "checksum")
        columns = (*before, *self._layout.columns)
        if row_ids is None:
            found: Iterable[tuple[Any, ...]] = self.connection.execute(
                f"SELECT {', '.join(columns)} FROM rows ORDER BY row_id"
            )
        else:
            found = self._by_row_ids("rows", columns, row_ids)
        for row_id, name, epoch, code, corrections, metadata, checksum, *fields in found:
            row = StoredRow(row_id, name, epoch, code, corrections, metadata, tuple(fields))
            yield row, checksum

    def stored_vectors(self) -> Iterator[tuple[int, Any, int]]:
        """Yield row ids in ascending order, their vectors and checksums."""
        return self.connection.execute(
            "SELECT row_id, vector, checksum FROM vectors ORDER BY row_id"
        )

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
            "SELECT version, put, removed, checksum FROM writes WHERE version > ? ORDER BY version",
            (version,),
        ).fetchall()
        if any(checksum_of(*write[:-1]) != write[-1] for write in found):
            raise damaged(self._path, "its log is not as it was written")
        if [number for number, *_ in found] != list(range(version + 1, self.version() + 1)):
            return None
        return [
            (number, np.concatenate([_ids_from(put), _ids_from(removed)]))
            for number, put, removed, _ in found
        ]

    def setting(self, name: str) -> Any:
        """Return one setting as it is now, None where there is none."""
        return read_settings(self.connection, self._path).get(name)

    def _as_metadata(self, text: str | None, *values: Any) -> dict[str, Any]:
        """Return what a user gave for a row."""
        found: dict[str, Any] = {}
        for (name, kind), value in zip(self._layout.fields.items(), values, strict=True):
            if value is not None:
                found[name] = bool(value) if kind == "bool" else value
        if text is not None:
            if not isinstance(text, str):
                raise damaged(self._path, "it has metadata of another type than it writes")
            found.update(decode_metadata(text))
        return found

    def _by_row_ids(
        self, table: str, columns: tuple[str, ...], row_ids: Ids
    ) -> Iterator[tuple[Any, ...]]:
        """Return some columns of the rows that are there, in the order of `row_ids`."""
        sql = _select(table, columns)
        # chained, not yielded: a search reads a hundred rows and more
        return itertools.chain.from_iterable(
            self.connection.execute(sql, (str(row_ids[first : first + _ROWS_AT_ONCE].tolist()),))
            for first in range(0, len(row_ids), _ROWS_AT_ONCE)
        )

    def _require_all(self, n_found: int, n_wanted: int) -> None:
        if n_found != n_wanted:
            raise CorruptFileError(
                f"{self._path} lacks {n_wanted - n_found} rows that it should have. Restore a "
                "backup."
            )


class WriteTransaction(ReadTransaction):
    """Rows as they will be once this is committed."""

    def put(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows without their vectors, or replace them: row id, name, epoch, code, corrections,
        metadata and declared fields of each.
        """
        columns = ["row_id", "name", "epoch", "code", "corrections", "metadata"]
        columns += [*self._layout.columns, "checksum"]
        places = ", ".join("?" * len(columns))
        self.connection.executemany(
            f"INSERT OR REPLACE INTO rows({', '.join(columns)}) VALUES({places})",
            ((*row, StoredRow._make((*row[:6], row[6:])).checksum()) for row in rows),
        )

    def put_vectors(self, row_ids: Ids, blobs: Iterable[bytes]) -> None:
        """Add vectors, or replace them."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO vectors(row_id, vector, checksum) VALUES(?, ?, ?)",
            (
                (row_id, blob, vector_checksum(row_id, blob))
                for row_id, blob in zip(row_ids.tolist(), blobs, strict=True)
            ),
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
        rows = list(rows)
        self.connection.executemany(
            f"UPDATE rows SET {changed} WHERE row_id = ?",
            ((text, *fields, row_id) for row_id, text, fields in rows),
        )
        self._sign(np.array([row_id for row_id, _, _ in rows], dtype=np.int64))

    def change_codes(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Give rows that are there, as `put` takes them, codes and corrections of another epoch."""
        rows = list(rows)
        self.connection.executemany(
            "UPDATE rows SET epoch = ?, code = ?, corrections = ? WHERE row_id = ?",
            ((epoch, *coded, row_id) for row_id, _, epoch, *coded, _ in rows),
        )
        self._sign(np.array([row[0] for row in rows], dtype=np.int64))

    def _sign(self, row_ids: Ids) -> None:
        """Give rows of which parts have changed the checksums of what they are now."""
        rows = [(row.checksum(), row.row_id) for row, _ in self.stored_rows(row_ids)]
        self.connection.executemany("UPDATE rows SET checksum = ? WHERE row_id = ?", rows)

    def add_epoch(self, epoch: StoredEpoch) -> None:
        """Add an epoch that rows may be of."""
        self.connection.execute(_ADD_EPOCH, (*epoch, checksum_of(*epoch)))

    def forget_epochs(self, current: int) -> None:
        """Drop epochs before the current one that no row is of."""
        self.connection.execute(
            "DELETE FROM epochs WHERE number < ? AND number NOT IN (SELECT epoch FROM rows)",
            (current,),
        )

    def change_setting(self, name: str, value: Any) -> None:
        """Change a setting."""
        self.connection.execute(
            "INSERT OR REPLACE INTO settings VALUES(?, ?, ?)", _setting(name, value)
        )

    def forget_writes(self, version: int) -> None:
        """Drop the log up to a version, which a checkpoint holds."""
        self.connection.execute("DELETE FROM writes WHERE version <= ?", (version,))

    def log(self, state: DatabaseState, put: Ids, removed: Ids) -> None:
        """Note a write: the state that it leads to, and the rows it put and removed."""
        write = (state.version, put.astype("<i8").tobytes(), removed.astype("<i8").tobytes())
        self.connection.execute(
            "INSERT INTO writes VALUES(?, ?, ?, ?)", (*write, checksum_of(*write))
        )
        self.connection.execute(
            "UPDATE state SET version = ?, n_rows = ?, next_id = ?, lengths = ?, epoch = ?, "
            "checksum = ?",
            (*state, state.checksum()),
        )

    def commit(self) -> None:
        """Make all of it last."""
        self.connection.execute("COMMIT")


def _ids_from(blob: bytes | None) -> Ids:
    return np.frombuffer(blob or b"", dtype="<i8").astype(np.int64)
