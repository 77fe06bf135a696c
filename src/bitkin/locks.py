"""Locks that a forked child finds free."""

from __future__ import annotations

import os
import threading
import weakref

_all_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A lock, which its holder may take again, that is free in a forked child: whoever held it does not exist there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _after_fork_in_child() -> None:
    for lock in _all_locks:
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
