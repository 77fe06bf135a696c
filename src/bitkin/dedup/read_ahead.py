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
    """Yield `items` in order, up to `depth` of them read before they are asked for; with one thread, none.

    What reading raises is raised here, in its place. The thread ends with the items, or with this generator.
    """
    if get_threads() == 1:
        yield from items
        return
    waiting: queue.Queue[Any] = queue.Queue(maxsize=depth)
    given_up = threading.Event()

    def hand_over(item: Any) -> bool:
        while not given_up.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for item in items:
                if not hand_over((item, None)):
                    return
            hand_over((_END, None))
        except BaseException as failure:  # noqa: BLE001  # raised again by the thread that asked
            hand_over((_END, failure))

    reader = threading.Thread(target=read, name="bitkin-reader", daemon=True)
    reader.start()
    try:
        while True:
            item, failure = waiting.get()
            if failure is not None:
                raise failure
            if item is _END:
                return
            yield item
    finally:
        given_up.set()
        reader.join()
