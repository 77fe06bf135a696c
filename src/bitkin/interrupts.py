"""Signals held back while something must not be left half-done.

A signal handler, that of Ctrl-C for one, runs in the main thread between any two bytecodes, and
what it raises leaves whatever was running there: a lock stays taken, a counter stays raised, work
handed to other threads is forgotten. No `try` helps, since the exception may come just before it or
inside its `finally`. So the few places where that would do harm hold signals back:

    with interrupts.held:        # handlers run at `check()`, else when the block ends
    with interrupts.sealed:      # handlers run when the block ends

Inside such a block a signal is only noted. Long work calls `check()` where it may be left, and
there an exception comes like any other. Blocks nest; a `sealed` one within a `held` one has its
way. No code of a caller's belongs inside: it might wait for something, and then nothing could end
it.

In threads other than the main one the blocks do nothing: no handler ever runs there. The same holds
where Python lets no code set handlers, as in sub-interpreters.
"""

from __future__ import annotations

# The functions behind those of `signal`, which turn numbers into enums and take ten times as long.
import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable
from sys import _getframe
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

_SIGNALS = tuple(map(int, signal.valid_signals()))
_ACTION_BYTES = 256  # at least as many as any system's struct sigaction has
_get_ident = threading.get_ident

_main_thread = threading.main_thread().ident
_depth = 0
"""Blocks that the main thread is in."""
_sealed_depth = 0
"""Those of them that no `check` may leave."""
pending: list[_Note] = []
"""What stood for the handlers of signals that came since the outermost block began, each once; a
loop that asks here first calls `check` only where a signal waits.
"""
_sigaction: Any = None
"""The system's function of that name, once it is needed."""
_known_handlers: tuple[Any, ...] = ()
_notes: list[_Note] = []
"""What stands for those of them that are written in Python; made again when any of them has
changed.
"""


class _Note:
    """Stands in the place of a handler while a block runs, and notes that its signal came.

    Code that is run inside a block may find this in the place of the handler, keep it and call it
    later. Then it is the handler.
    """

    def __init__(self, number: int, handler: Handler) -> None:
        self.number = number
        self.handler = handler
        self.installed = False
        # how the system treats the signal, flags and C functions included
        self.action = _new_action()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.installed and _depth > 0:
            if self not in pending:
                pending.append(self)
            return
        try:
            self.handler(number, frame)
        except BaseException:
            if self.installed:  # the block has not begun yet, and will not
                _put_back()
            raise


def hold() -> None:
    """Enter a block in which handlers run at `check()` alone; `release` leaves it."""
    global _depth
    if _get_ident() == _main_thread:
        if _depth == 0 and not _take_over():
            return
        _depth += 1  # from here on signals are noted; before, they are passed on


def release() -> None:
    """Leave a block; the outermost one lets the handlers run whose signals came meanwhile."""
    global _depth
    if _get_ident() == _main_thread and _depth > 0:  # 0 in a child that was forked inside the block
        # from here on what a handler raises may come: nothing is left to be done that matters
        _depth -= 1
        if _depth == 0:
            try:
                _put_back()
            finally:
                if pending:
                    came = [note.number for note in pending]
                    pending.clear()
                    _handle(came)


def seal() -> None:
    """Let no `check` leave the block, until `unseal`."""
    global _sealed_depth
    if _get_ident() == _main_thread:
        _sealed_depth += 1


def unseal() -> None:
    """Undo one `seal`."""
    global _sealed_depth
    if _get_ident() == _main_thread and _sealed_depth > 0:
        _sealed_depth -= 1


class _Held:
    """Signals wait for `check`, or for the end of the block."""

    def __enter__(self) -> None:
        hold()

    def __exit__(self, *error: object) -> None:
        release()


class _Sealed:
    """Signals wait for the end of the block."""

    def __enter__(self) -> None:
        hold()
        seal()

    def __exit__(self, *error: object) -> None:
        unseal()
        release()


held = _Held()
sealed = _Sealed()


def check() -> None:
    """Let the handlers of signals that were held back run now, unless the block is sealed; some
    raise.
    """
    if pending and _sealed_depth == 0 and _get_ident() == _main_thread:
        while pending:
            note = pending.pop(0)
            note.handler(note.number, _getframe(1))


def _take_over() -> bool:
    """Put notes in the place of all handlers that are written in Python; return whether Python
    allows it.

    A handler whose turn has not come yet may raise here and leave notes in the place of others.
    They pass their signals on until the next block ends, which puts the handlers back.
    """
    global _known_handlers, _notes, _main_thread
    handlers = tuple(map(_signal.getsignal, _SIGNALS))
    if handlers != _known_handlers:
        _put_back()
        _known_handlers = handlers = tuple(map(_signal.getsignal, _SIGNALS))
        found = zip(_SIGNALS, handlers, strict=True)
        _notes = [_Note(number, handler) for number, handler in found if callable(handler)]
    try:
        for note in _notes:
            if note.action is not None:
                _sigaction(note.number, None, note.action)
            note.installed = True
            _signal.signal(note.number, note)
    # Python's main thread is not the one that `threading` takes for it, or not ours
    except ValueError:
        _main_thread = None
        return False
    return True


def _put_back() -> None:
    """Give all handlers their places back, but where another one has been set meanwhile."""
    for note in _notes:
        note.installed = False
        if _signal.getsignal(note.number) is note:
            _signal.signal(note.number, note.handler)
            if note.action is not None:  # `signal` forgets flags such as SA_RESTART
                _sigaction(note.number, note.action, None)


def _handle(numbers: list[int]) -> None:
    """Let the handlers of signals run, every one of them whatever the others raise.

    The signals are not sent again where that can be helped: whoever reads the wakeup file
    descriptor, as asyncio does, has heard of them already.
    """
    number = numbers[0]
    handler = _signal.getsignal(number)
    try:
        if callable(handler):
            handler(number, _getframe(1))
        else:  # set inside the block: the default action, or none
            signal.raise_signal(number)
    finally:
        if numbers[1:]:
            _handle(numbers[1:])


def _new_action() -> Any:
    """Return room for what the system's `sigaction` says of a signal; None where it has no such
    function.
    """
    global _sigaction
    if os.name != "posix":
        return None
    import ctypes

    if _sigaction is None:
        _sigaction = ctypes.PyDLL(None).sigaction
        _sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return ctypes.create_string_buffer(_ACTION_BYTES)


def _after_fork_in_child() -> None:
    """Start afresh where a thread other than the main one forked: it is the main one here, and in
    no block.
    """
    global _main_thread, _depth, _sealed_depth
    if _main_thread is not None and _get_ident() != _main_thread:
        _main_thread, _depth, _sealed_depth = _get_ident(), 0, 0
        pending.clear()
        _put_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
