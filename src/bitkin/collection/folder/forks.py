"""Forks and SQLite: a process is forked while no thread of it is inside SQLite.

A fork copies what other threads hold at that moment: SQLite's global mutexes, which nobody would
give back in the child, and its notes of file locks, which the child does not have. So threads count
themselves in, and whoever forks lets nobody in any more and waits until all others are out; then
idle connections are closed, on both sides of the fork.
"""

from __future__ import annotations

import os
import threading
import time
from threading import get_ident
from typing import Protocol
from weakref import WeakSet

_SECONDS_TO_WAIT = 10.0  # for others; a thread may wait for what the forking one holds
_SECONDS_BETWEEN_LOOKS = 0.0005


class Forkable(Protocol):
    """What holds connections to SQLite."""

    def before_fork(self) -> None:
        """Close connections that nobody uses."""

    def after_fork_in_child(self) -> None:
        """Let go of what only the parent may use."""


class InSqlite:
    """A block in which SQLite is called; forks wait for its end. Blocks of one thread nest."""

    __slots__ = ()

    def __enter__(self) -> None:
        # Announced first, then asked: whoever forks asks the other way round, so one of the two
        # sees the other. Every dictionary operation is whole by itself.
        me = get_ident()
        depth = _inside.get(me, 0)
        _inside[me] = depth + 1
        if _forking and depth == 0 and me not in _forking:
            _wait_outside(me)

    def __exit__(self, *error: object) -> None:
        me = get_ident()
        depth = _inside.get(me, 0)
        if depth > 1:
            _inside[me] = depth - 1
        else:
            _inside.pop(me, None)


in_sqlite = InSqlite()
_inside: dict[int, int] = {}
"""Threads in such blocks, and how many each is in."""
_forking: list[int] = []
"""The thread that forks, while it does."""
_one_fork = threading.Lock()
_users: WeakSet[Forkable] = WeakSet()


def register_forkable(user: Forkable) -> None:
    """Have something asked to close its connections before a fork, for as long as it lives."""
    with in_sqlite:
        _users.add(user)


def _wait_outside(me: int) -> None:
    """Wait until the fork is over, or for so long as it waits itself."""
    end = time.monotonic() + _SECONDS_TO_WAIT
    while _forking and time.monotonic() < end:
        _inside.pop(me, None)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        _inside[me] = 1


def _before_fork() -> None:
    me, end = get_ident(), time.monotonic() + _SECONDS_TO_WAIT
    _one_fork.acquire(timeout=_SECONDS_TO_WAIT)
    _forking.append(me)
    while others := [other for other in list(_inside) if other != me]:
        if time.monotonic() > end:
            # a block that never ends, or was left by a signal's exception, stops one fork only
            for other in others:
                _inside.pop(other, None)
            break
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    for user in list(_users):
        user.before_fork()


def _after_fork_in_parent() -> None:
    _forking.clear()
    if _one_fork.locked():
        _one_fork.release()


def _after_fork_in_child() -> None:
    global _one_fork
    _one_fork = threading.Lock()
    mine = _inside.get(get_ident(), 0)
    _inside.clear()
    if mine:
        _inside[get_ident()] = mine
    for user in list(_users):
        user.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
