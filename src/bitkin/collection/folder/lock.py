"""The lock of a folder: one process writes, and the lock dies with it."""

from __future__ import annotations

import os
import sqlite3
import weakref
from pathlib import Path

from bitkin.collection.folder.forks import in_sqlite, register_forkable
from bitkin.errors import FileAccessError

FILE = "writer.lock"
DATABASE = "collection.db"


class FolderLock:
    """Held until it is released, or its process ends in any way.

    It is an exclusive transaction on a database of its own: SQLite knows how to lock files on every
    system.
    """

    def __init__(self, folder: Path) -> None:
        for path in (folder, folder / FILE, folder / DATABASE):
            # SQLite would take what it may only read for locked
            if path.exists() and not os.access(path, os.W_OK):
                raise FileAccessError(
                    f"{path} cannot be written by this process. Open the collection with "
                    "read_only=True."
                )
        try:
            with in_sqlite:
                self._connection = _locked(folder)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise FileAccessError(
                    f"{folder} is open for writing already, here or in another process. Close it "
                    "there, by close() or a with block, or open it with read_only=True."
                ) from None
            raise FileAccessError(
                f"{folder} cannot be written: {error}. Open it with read_only=True."
            ) from error
        # a collection that was dropped without a close lets others write at once: a connection is
        # part of a cycle of Python's own, and would wait for the garbage collector
        weakref.finalize(self, self._connection.close).atexit = False
        register_forkable(self)

    def release(self) -> None:
        """Let others write."""
        with in_sqlite:
            self._connection.close()

    def before_fork(self) -> None:
        """Keep the lock: it is of this process alone."""

    def after_fork_in_child(self) -> None:
        """Forget the lock, which the parent has: nothing is written by it, so its files may be
        closed here.
        """
        self._connection.close()


def _locked(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        folder / FILE, isolation_level=None, timeout=0, check_same_thread=False
    )
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except BaseException:
        connection.close()
        raise
    return connection
