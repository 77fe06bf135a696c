from __future__ import annotations

import os
import threading
import warnings

import pytest

from bitkin.locks import WriterLock


def test_writers_take_turns() -> None:
    lock, order = WriterLock(), []

    def write() -> None:
        with lock:
            order.append("second")

    with lock:
        other = threading.Thread(target=write)
        other.start()
        other.join(0.05)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_lock_that_is_held_is_free_in_a_forked_child() -> None:
    lock, held, done = WriterLock(), threading.Event(), threading.Event()

    def write() -> None:
        with lock:
            held.set()
            done.wait()

    writer = threading.Thread(target=write)
    writer.start()
    held.wait()
    with warnings.catch_warnings():
        # forking beside threads is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if not child:
            os._exit(0 if lock._lock.acquire(blocking=False) else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    free = lock._lock.acquire(blocking=False)
    done.set()
    writer.join()
    assert code == 0
    assert not free, "in the parent it is still held"
