"""Locks that a forked child finds free, and that no signal handler's exception leaves taken."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from bitkin import interrupts
from bitkin.errors import InvalidInputError

_SECONDS_BETWEEN_CHECKS = 0.1
_all_locks: weakref.WeakSet[WriterLock | ModelLock] = weakref.WeakSet()


class WriterLock:
    """Held by whoever changes an index or a collection; readers do not ask for it.

    While it is held, signals wait for `interrupts.check()` or for its release. So nothing inside
    may call a caller's code, and whoever holds it may not ask for it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        _all_locks.add(self)

    def __enter__(self) -> None:
        interrupts.hold()
        try:
            if self._owner == threading.get_ident():
                raise InvalidInputError(
                    "a change must not begin inside another one of the same object, as by a signal "
                    "handler. Change it before or after."
                )
            _acquire(self._lock)
            self._owner = threading.get_ident()
        except BaseException:
            interrupts.release()
            raise

    def __exit__(self, *error: object) -> None:
        self._owner = None
        self._lock.release()
        interrupts.release()

    def make_free(self) -> None:
        """Forget whoever held the lock: in a forked child nobody does."""
        self._lock, self._owner = threading.Lock(), None


class ModelLock:
    """Held by whoever changes a model in place, or reads what others change; its holder may take it
    again.

    While it is held, signals wait for its release: a change in place is made whole.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all_locks.add(self)

    def __enter__(self) -> None:
        interrupts.hold()
        try:
            _acquire(self._lock)
        except BaseException:
            interrupts.release()
            raise
        interrupts.seal()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        interrupts.unseal()
        interrupts.release()

    def make_free(self) -> None:
        """Forget whoever held the lock: in a forked child nobody does."""
        self._lock = threading.RLock()


def _acquire(lock: Any) -> None:
    """Wait for a lock inside a block that holds signals back, and let them end the waiting."""
    while not lock.acquire(timeout=_SECONDS_BETWEEN_CHECKS):
        interrupts.check()


def _after_fork_in_child() -> None:
    for lock in _all_locks:
        lock.make_free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
