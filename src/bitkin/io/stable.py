"""Files that must not change while they are read, and the errors of those that do."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from bitkin.closing import Closes
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError
from bitkin.io.regular import open_regular, require_regular


class Stamp(NamedTuple):
    """How a file is recognized as the one first seen: its size and the time it was written."""

    size: int
    """Bytes."""
    modified: int
    """Nanoseconds."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a regular file; a missing one, a directory or a pipe is a
    `FileAccessError`.
    """
    with unreadable_is_access_error(path):
        status = path.stat()
    require_regular(status, path)
    return Stamp(status.st_size, status.st_mtime_ns)


def require_same_stamp(path: Path, now: Stamp, then: Stamp) -> None:
    """Raise when a file is no longer the one first seen."""
    if now.size != then.size:
        raise CorruptFileError(
            f"{path} changed while it was read: it had {then.size} bytes, now {now.size}."
        )
    if now.modified != then.modified:
        raise CorruptFileError(
            f"{path} changed while it was read: it was written to. Open it again when it is whole."
        )


class StableFile(Closes):
    """A file open for one pass; it must keep the stamp it was first seen with.

    Plain reads, never a memory map: a map of a file that shrinks kills the process, and its pages
    count as ours.
    """

    def __init__(self, path: Path, stamp: Stamp | None = None) -> None:
        self.path = path
        self.stamp = stamp_of(path) if stamp is None else stamp
        with unreadable_is_access_error(path):
            self._raw = cast("io.FileIO", open_regular(path, buffering=0))
        # For libraries that want a file object; one pass uses either this or `read_into`.
        self.buffered = io.BufferedReader(self._raw)
        try:
            self.require_unchanged()
        except BitkinError:
            self.close()
            raise

    def require_unchanged(self) -> None:
        """Raise when the file was written to since it was first seen."""
        status = os.fstat(self._raw.fileno())
        require_same_stamp(self.path, Stamp(status.st_size, status.st_mtime_ns), self.stamp)

    def read_into(self, offset: int, out: npt.NDArray[Any]) -> None:
        """Fill the C-contiguous array `out` from byte `offset` on."""
        self.read_spans_into([(offset, out.nbytes)], out)

    def read_spans_into(self, spans: Iterable[tuple[int, int]], out: npt.NDArray[Any]) -> None:
        """Fill the C-contiguous array `out` by spans `(offset, size)` of bytes, one behind the
        other.

        Whether the file has changed is asked once behind all of them.
        """
        view, seek, read_into = as_bytes(out), self._raw.seek, self._raw.readinto
        stop = missing = 0
        with unreadable_is_access_error(self.path):
            for offset, size in spans:
                done, stop = stop, stop + size
                seek(offset)
                while done < stop:
                    count = read_into(view[done:stop])
                    if not count:
                        break
                    done += count
                if done < stop:
                    missing = stop - done
                    break
        self.require_unchanged()
        if missing:
            raise CorruptFileError(
                f"{self.path} ends at byte {offset + size - missing}, expected {offset + size} "
                "bytes."
            )

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from `offset` on, fewer than `size` at the end of the file."""
        with unreadable_is_access_error(self.path):
            self._raw.seek(offset)
            return self._raw.read(size)

    def close(self) -> None:
        """Let go of the file."""
        self.buffered.close()


def as_bytes(array: npt.NDArray[Any]) -> memoryview:
    """Return a C-contiguous array as the bytes it is made of, to read into."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


@contextmanager
def unreadable_is_access_error(path: Path) -> Iterator[None]:
    """Turn what the system says about a path into a `FileAccessError`."""
    try:
        yield
    except BitkinError:
        raise
    except OSError as failure:
        raise FileAccessError(f"{path} cannot be read: {failure.strerror or failure}.") from failure
    except ValueError as failure:  # a null byte in the path
        raise FileAccessError(f"{str(path)!r} cannot be read: {failure}.") from failure


@contextmanager
def failure_is_corruption(path: Path, *failures: type[Exception]) -> Iterator[None]:
    """Turn what a format's reader says about damage into a `CorruptFileError`."""
    try:
        yield
    except BitkinError:
        raise
    except failures as failure:
        raise CorruptFileError(
            f"{path} is damaged or not what its suffix says: {failure}."
        ) from failure
