"""One writer a file: a lock that goes with the open file, on systems that have such locks."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import IO, Any

from bitkin.errors import FileAccessError

_fcntl: Any = None
# Windows has none, and there an open file cannot be replaced anyway
with contextlib.suppress(ImportError):
    _fcntl = importlib.import_module("fcntl")


def lock(file: IO[bytes], path: str | os.PathLike[str]) -> None:
    """Keep `file` to this process while it is open, or raise FileAccessError where another one has
    it.
    """
    if _fcntl is None:
        return
    try:
        _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileAccessError(
            f"{os.fspath(path)} is being written by another process. Wait for it to end."
        ) from None
