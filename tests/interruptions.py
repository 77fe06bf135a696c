"""Interrupts at every line: a tracer sends the signal of Ctrl-C, really, just before a line
runs.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import bitkin
from bitkin import interrupts, threads

_PACKAGE = str(Path(bitkin.__file__).parent)
_EVERY_OPCODE = tuple(f"{_PACKAGE}/{name}.py" for name in ("threads", "locks", "interrupts"))

Moment = tuple[str, int, int]
"""File, line or opcode (as −1 − its offset), and which time it comes."""


class _Tracer:
    """Count the moments of the package's code, and send SIGINT at one of them."""

    def __init__(self, target: Moment | None, *, opcodes: bool) -> None:
        self._opcodes = opcodes
        self.moments: list[Moment] = []
        self._target = target
        self._times: dict[tuple[str, int], int] = {}
        self._seen = 0
        self.sent = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Say how to trace what a function does: not at all where there is nothing to see."""
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or (self._target and file != self._target[0]):
            return None
        frame.f_trace_opcodes = self._opcodes and file in _EVERY_OPCODE
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if event == "line":
            self._at(file, frame.f_lineno)
        elif event == "opcode":
            self._at(file, -1 - frame.f_lasti - 10_000 * frame.f_code.co_firstlineno)
        return self._step

    def _at(self, file: str, place: int) -> None:
        if self._target is None:
            time = self._times[file, place] = self._times.get((file, place), 0) + 1
            self.moments.append((file, place, time))
        elif place == self._target[1] and not self.sent:
            self._seen += 1
            if self._seen == self._target[2]:
                self.sent = True
                signal.raise_signal(signal.SIGINT)


@contextmanager
def _traced(tracer: _Tracer) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def moments_of(act: Callable[..., Any], *arguments: Any, opcodes: bool = False) -> list[Moment]:
    """Return where `act` can be interrupted: the first and the last time of every line that it
    runs.

    With `opcodes` also just before every opcode of the code that holds signals back.
    """
    tracer = _Tracer(None, opcodes=opcodes)
    with _traced(tracer):
        act(*arguments)
    last = {(file, place): time for file, place, time in tracer.moments}
    return [moment for moment in tracer.moments if moment[2] in (1, last[moment[:2]])]


def interrupted_at(moment: Moment, act: Callable[..., Any], *arguments: Any) -> bool | None:
    """Run `act` with an interrupt at one moment; return whether it ended by it, None where the
    moment never came.
    """
    tracer = _Tracer(moment, opcodes=moment[1] < 0)
    try:
        with _traced(tracer):
            act(*arguments)
    except KeyboardInterrupt:
        return True
    return False if tracer.sent else None


class Outcomes:
    """Counts how interrupts ended, so that a loop over moments cannot pass without any."""

    def __init__(self) -> None:
        self._ends: list[bool | None] = []

    def add(self, end: bool | None) -> None:
        """Note what `interrupted_at` returned."""
        self._ends.append(end)

    def require_interrupts(self) -> None:
        """Check that every signal that was sent ended the call, and that nearly all were sent."""
        assert False not in self._ends, "a signal was lost"
        assert self._ends.count(True) > 0.8 * len(self._ends) > 5


def require_nothing_left_behind() -> None:
    """Check that no signal is held back, no user of BLAS counted, and the pool and its lock
    free.
    """
    handler: Any = signal.getsignal(signal.SIGINT)
    # left by another signal's handler; it only passes signals on
    if isinstance(handler, interrupts._Note):
        handler = handler.handler
    assert handler is signal.default_int_handler
    assert not interrupts.pending
    assert (interrupts._depth, interrupts._sealed_depth) == (0, 0)
    assert threads._blas_users == 0
    assert threads._lock.acquire(timeout=5), "the lock of the pool is still taken"
    threads._lock.release()


def in_another_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `work` gives in another thread, which must end soon: a lock that was left taken
    would stop it.
    """
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work(*arguments)), daemon=True)
    thread.start()
    thread.join(20)
    assert results, "it did not end: a lock is still taken, or it failed"
    return results[0]
