"""A file that only grows, and is cut back to a length that is known to be good when the work on it goes on."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.locks import lock
from bitkin.io.writer import regular_target, sync_folder


class GrowingFile:
    """A regular file that is appended to; what is appended is with the system at once, and on disk after `sync`.

    Parameters
    ----------
    path : path
        Made where it is missing. No second process can open it so, where files can be locked.
    length : int, default 0
        Bytes that stay. What the file has beyond them goes; a shorter one is a CorruptFileError, and stays as it is.
    """

    def __init__(self, path: str | os.PathLike[str], length: int = 0) -> None:
        self._path = os.fspath(path)
        try:
            self._target = regular_target(path)
            self._file = os.fdopen(os.open(self._target, os.O_RDWR | os.O_CREAT | _BINARY, 0o666), "r+b", buffering=0)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise self._cannot_write(error) from error
        try:
            lock(self._file, self._path)
            size = os.fstat(self._file.fileno()).st_size
            if size < length:
                raise CorruptFileError(
                    f"{self._path} has {size:,} bytes where {length:,} were written: it was changed since. "
                    "Restore it from a copy, or begin anew."
                )
            self._file.truncate(length)
            self._file.seek(length)
        except BaseException as error:
            self._file.close()
            if isinstance(error, OSError) and not isinstance(error, FileAccessError):
                raise self._cannot_write(error) from error
            raise
        self.length = length
        self._is_listed = False  # for sure, in its folder on disk

    def append(self, data: bytes) -> None:
        """Write at the end. After an error there may be a part of `data` beyond `length`."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._cannot_write(error) from error
        self.length += len(data)

    def sync(self) -> None:
        """Return when all that was appended survives a power cut, as far as the disk can promise it."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error
        if not self._is_listed:
            sync_folder(self._target.parent)
            self._is_listed = True

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cannot_write(self, error: Exception) -> FileAccessError:
        reason = getattr(error, "strerror", None) or str(error)
        return FileAccessError(f"{self._path} cannot be written: {reason}.")


def has_content(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file with anything in it is at `path`."""
    try:
        return Path(path).is_file() and Path(path).stat().st_size > 0
    except (OSError, ValueError):
        return False  # opening it will say why


_BINARY: Any = getattr(os, "O_BINARY", 0)  # Windows alone has it
