"""Signals held back while something must not be left half-done.

A signal handler, that of Ctrl-C for one, runs in the main thread between any two bytecodes, and what it raises leaves
whatever was running there: a lock stays taken, a counter stays raised, work handed to other threads is forgotten. No
`try` helps, since the exception may come just before it or inside its `finally`. So the few places where that would do
harm hold signals back:

    with interrupts.held:        # handlers run at `check()`, else when the block ends
    with interrupts.sealed:      # handlers run when the block ends

Inside such a block a signal is only noted. Long work calls `check()` where it may be left, and there an exception comes
like any other. Blocks nest; a `sealed` one within a `held` one has its way. No code of a caller's belongs inside: it
might wait for something, and then nothing could end it.

In threads other than the main one the blocks do nothing: no handler ever runs there.
"""

from __future__ import annotations

# The functions behind those of `signal`, which turn numbers into enums and take ten times as long.
import _signal  # type: ignore[import-not-found]
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = tuple(map(int, signal.valid_signals()))
_get_ident = threading.get_ident

_main_thread = threading.main_thread().ident
_depth = 0
"""Blocks that the main thread is in."""
_sealed_depth = 0
"""Those of them that no `check` may leave."""
_pending: list[int] = []
"""Signals that came since the outermost block began, each once."""
_handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
"""The handlers in whose place `_note` stands."""


class _Held:
    """Signals wait for `check`, or for the end of the block."""

    def __enter__(self) -> None:
        global _depth
        if _get_ident() == _main_thread:
            if _depth == 0:
                _take_over()
            _depth += 1  # from here on `_note` notes; before, it passes signals on

    def __exit__(self, *error: object) -> None:
        global _depth
        if _get_ident() == _main_thread:
            _depth -= 1  # from here on what a handler raises may come: nothing is left to be done that matters
            if _depth == 0:
                _give_back()


class _Sealed(_Held):
    """Signals wait for the end of the block."""

    def __enter__(self) -> None:
        global _sealed_depth
        super().__enter__()
        if _get_ident() == _main_thread:
            _sealed_depth += 1

    def __exit__(self, *error: object) -> None:
        global _sealed_depth
        if _get_ident() == _main_thread:
            _sealed_depth -= 1
        super().__exit__(*error)


held = _Held()
sealed = _Sealed()


def check() -> None:
    """Let the handlers of signals that were held back run now, unless the block is sealed; some raise."""
    if _pending and _sealed_depth == 0 and _get_ident() == _main_thread:
        _deliver()


def _take_over() -> None:
    """Put `_note` in the place of all handlers that are written in Python.

    A handler whose turn has not come yet may raise here, and leave `_note` in the place of others. It passes their
    signals on until the next block ends, which puts them back.
    """
    _pending.clear()
    for number in _SIGNALS:
        handler = _signal.getsignal(number)
        if callable(handler) and handler is not _note:
            _handlers[number] = handler  # first: the next line may be the last one that runs here
            _signal.signal(number, _note)


def _give_back() -> None:
    """Put all handlers back, and let those run whose signals came meanwhile."""
    _put_back()
    if _pending:
        _deliver()


def _put_back() -> None:
    for number, handler in _handlers.items():
        if _signal.getsignal(number) is _note:  # else a handler has set another one meanwhile
            _signal.signal(number, handler)


def _deliver() -> None:
    while _pending:
        number = _pending.pop(0)
        _handlers[number](number, sys._getframe(1))


def _note(number: int, frame: FrameType | None) -> None:
    if _depth == 0:  # the block has not begun yet, or has ended
        try:
            _handlers[number](number, frame)
        except BaseException:
            _put_back()
            raise
    elif number not in _pending:
        _pending.append(number)


def _after_fork_in_child() -> None:
    """Start afresh where a thread other than the main one forked: it is the main one here, and in no block."""
    global _main_thread, _depth, _sealed_depth
    if _get_ident() != _main_thread:
        _main_thread, _depth, _sealed_depth = _get_ident(), 0, 0
        _pending.clear()
        _give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
