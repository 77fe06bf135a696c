"""Reading ahead: the next batch is read by a second thread while this one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

from bitkin.threads import get_threads

T = TypeVar("T")

_END = object()


def read_ahead(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yield `items` in order, up to `depth` of them read before they are asked for; with one
    thread, none.

    What reading raises is raised here, in its place. The thread ends with the items, or with this
    generator.
    """
    if get_threads() == 1:
        yield from items
        return
    # Queues that are single calls of C: an interrupt between two bytecodes leaves none of them
    # locked.
    read_items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    may_read: queue.SimpleQueue[bool] = queue.SimpleQueue()
    for _ in range(depth):
        may_read.put(True)

    def read() -> None:
        try:
            while may_read.get():
                read_items.put((next(items, _END), None))
        except BaseException as failure:  # noqa: BLE001  # raised again by the thread that asked
            read_items.put((_END, failure))

    reader = threading.Thread(target=read, name="bitkin-reader", daemon=True)
    try:
        reader.start()
    except RuntimeError:  # the system has no thread for us
        yield from items
        return
    try:
        while True:
            item, failure = read_items.get()
            if failure is not None:
                raise failure
            if item is _END:
                return
            may_read.put(True)
            yield item
    finally:
        _stop(may_read)
        reader.join()


def _stop(may_read: queue.SimpleQueue[bool]) -> None:
    """Take back what the reader may still read, and tell it to end."""
    try:
        while True:
            may_read.get_nowait()
    except queue.Empty:
        may_read.put(False)
