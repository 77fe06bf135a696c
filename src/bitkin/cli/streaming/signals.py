"""Signals as requests: SIGINT and SIGTERM to stop, SIGUSR1 to begin an epoch; work under way is
always finished.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

_NEW_EPOCH: Any = getattr(signal, "SIGUSR1", None)  # Windows has none


class Stopped(BaseException):
    """The process was asked to stop; not an Exception, so that no handler of errors takes it for
    one.
    """


class StopRequests:
    """Notes SIGINT and SIGTERM while the block runs; one that the parent process ignores stays
    ignored.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._interrupting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a request that comes while the block runs end it by `Stopped`."""
        self._interrupting = True
        try:
            yield
        finally:
            self._interrupting = False

    def raise_if_any(self) -> None:
        """Raise `Stopped` where a stop was requested."""
        if self.number is not None:
            raise Stopped

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if self._interrupting:
            raise Stopped


class EpochRequests:
    """Notes SIGUSR1 while the block runs, where the platform has it."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if _NEW_EPOCH is not None:
            self._before = signal.signal(_NEW_EPOCH, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if _NEW_EPOCH is not None:
            signal.signal(_NEW_EPOCH, self._before)

    def take(self) -> bool:
        """Return whether there was a request since the last look."""
        asked, self._asked = self._asked, False
        return asked

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked = True


def die_of(number: int) -> NoReturn:
    """End the process by the signal itself, so that shells and service managers see what ended
    it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # where a signal does not end the process at once
