"""A file that only grows. When work on it continues, it can be cut back to a length that is known
to be good.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from bitkin.closing import Closes
from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.writer import lock, regular_target, sync_folder


class GrowingFile(Closes):
    """A regular file that is appended to. What is appended reaches the system at once, and the disk
    with `sync`.

    Parameters
    ----------
    path : path
        Made where it is missing; what is there stays until it is `cut`. No second process can open
        it so, where files can be locked.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        try:
            self._target = regular_target(path)
            while not self._open_and_lock():
                pass  # whoever had it removed it: what is at the path now is another file, or none
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            if isinstance(error, FileAccessError):
                raise
            raise self._cannot_write(error) from error
        self._is_listed = False  # for sure, in its folder on disk

    def _open_and_lock(self) -> bool:
        """Open the file and lock it; return whether it is still the one at the path. Raises
        OSError.
        """
        flags = os.O_RDWR | os.O_CREAT | _BINARY
        try:
            opened = os.open(self._target, flags | os.O_EXCL, 0o666)
            self._is_new = True
        except FileExistsError:
            opened = os.open(self._target, flags, 0o666)
            self._is_new = False
        self._file = os.fdopen(opened, "r+b", buffering=0)
        try:
            lock(self._file, self._path)
            if not is_at(self._target, self._file.fileno()):
                self._file.close()
                return False
            self.length = self._file.seek(0, os.SEEK_END)
        except BaseException:
            self._file.close()
            raise
        return True

    def require_length(self, length: int) -> None:
        """Raise CorruptFileError where fewer bytes are there."""
        if self.length < length:
            raise CorruptFileError(
                f"{self._path} has {self.length:,} bytes where {length:,} were written: it was "
                "changed since. Restore it from a copy, or begin anew."
            )

    def cut(self, length: int) -> None:
        """Drop what comes after the first `length` bytes, which must be there."""
        self.require_length(length)
        try:
            self._file.truncate(length)
            self._file.seek(length)
        except OSError as error:
            raise self._cannot_write(error) from error
        self.length = length

    def begin(self, length: int) -> bytes:
        """Return the first `length` bytes, which must be there."""
        self.require_length(length)
        try:
            with self._target.open("rb") as file:
                return file.read(length)
        except OSError as error:
            raise self._cannot_write(error) from error

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
        """Return when all that was appended survives a power cut, as far as the disk can promise
        it.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error
        if not self._is_listed:
            sync_folder(self._target.parent)
            self._is_listed = True

    def remove_if_new(self) -> None:
        """Take the file away, whatever is in it by now, where it was made by this object: nobody
        else has it, since it is locked.
        """
        if self._is_new:
            with contextlib.suppress(OSError):  # where open files cannot be removed it stays
                self._target.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _cannot_write(self, error: Exception) -> FileAccessError:
        reason = getattr(error, "strerror", None) or str(error)
        return FileAccessError(f"{self._path} cannot be written: {reason}.")


def has_content(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file with anything in it is at `path`."""
    try:
        return Path(path).is_file() and Path(path).stat().st_size > 0
    except (OSError, ValueError):
        return False  # opening it will say why


def is_at(path: Path, descriptor: int) -> bool:
    """Tell whether an open file is the one at `path`, which may have been replaced or removed."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


_BINARY: Any = getattr(os, "O_BINARY", 0)  # Windows alone has it
