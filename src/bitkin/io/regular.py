"""Opening files that are read by offset or by size: only a regular file is one.

A pipe without a writer would hang its reader, and a device has no end. Both are refused at once.
"""

from __future__ import annotations

import os
import stat
from typing import IO, Any

from bitkin.errors import FileAccessError


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> IO[bytes]:
    """Open a regular file to read its bytes. Anything else at `path` is a `FileAccessError`,
    without waiting for it.

    What the system says of a path that cannot be opened at all stays an OSError.
    """
    file = open(path, "rb", buffering=buffering, opener=_open_without_waiting)  # noqa: SIM115  # has an opener
    try:
        require_regular(os.fstat(file.fileno()), path)
    except BaseException:
        file.close()
        raise
    return file


def require_regular(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Raise unless `status` is that of a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    kind = "a directory. Give the files in it" if is_folder else "not a regular file"
    raise FileAccessError(f"{os.fspath(path)} cannot be read: it is {kind}.")


def _open_without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for its writer. For a regular file it changes
    # nothing.
    return os.open(path, flags | _NONBLOCK)


_NONBLOCK: Any = getattr(os, "O_NONBLOCK", 0)  # Windows has none, and no pipes in folders
