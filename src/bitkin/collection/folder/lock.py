"""The lock of a folder: one process writes, and the lock dies with it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bitkin.errors import FileAccessError

FILE = "writer.lock"


class FolderLock:
    """Held until it is released, or its process ends in any way.

    It is an exclusive transaction on a database of its own: SQLite knows how to lock files on every
    system.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._connection = sqlite3.connect(
                folder / FILE, isolation_level=None, timeout=0, check_same_thread=False
            )
            try:
                self._connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError:
                self._connection.close()
                raise
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise FileAccessError(
                    f"{folder} is open for writing already, here or in another process. Close it "
                    "there, or open it with read_only=True."
                ) from None
            raise FileAccessError(
                f"{folder} cannot be written: {error}. Open it with read_only=True."
            ) from error

    def release(self) -> None:
        """Let others write."""
        self._connection.close()
