"""Stdin and stdout of a stream: unbuffered, and left by a request to stop."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections.abc import Callable
from typing import Any

from bitkin.cli.streaming.signals import StopRequests
from bitkin.errors import FileAccessError

_PIPE_BYTES = 1 << 20


class StandardIn:
    """Stdin; a request to stop ends the wait for a writer that does not write.

    Parameters
    ----------
    stop : StopRequests
    heed_requests : function
        Called when bytes have come, before they are used.
    """

    def __init__(self, stop: StopRequests, heed_requests: Callable[[], None]) -> None:
        try:
            self._raw = io.FileIO(0, closefd=False)
        except OSError as error:
            raise FileAccessError(f"stdin cannot be read: {error.strerror or error}.") from error
        # Linux alone has it, and only for pipes
        with contextlib.suppress(ImportError, AttributeError, OSError):
            fcntl: Any = importlib.import_module("fcntl")
            fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # a sixteenth as many reads
        self._stop = stop
        self._heed_requests = heed_requests

    def fileno(self) -> int:
        """Return the number of stdin, by which a file is known from a pipe."""
        return self._raw.fileno()

    def readinto(self, room: memoryview) -> int:
        """Wait for bytes, fill `room` with what has come, and return how many; 0: the end."""
        with self._stop.interrupting():
            self._stop.raise_if_any()  # one that came before
            n_bytes = self._raw.readinto(room) or 0
        if n_bytes:
            self._heed_requests()
        return n_bytes


class StandardOut:
    """Stdout; a request to stop ends the wait for a reader that does not read."""

    def __init__(self, stop: StopRequests) -> None:
        self._stop = stop

    def write(self, data: memoryview) -> int:
        """Write some of it and return how many bytes, or raise `Stopped`."""
        with self._stop.interrupting():
            return os.write(1, data)
