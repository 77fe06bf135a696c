"""Threads that search beside a writer, and note between which writes each answer was made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self


class Answer(NamedTuple):
    """What a search found. It must be the truth after one of the writes `first` … `last`."""

    first: int
    """Writes that had been published when the search began."""
    last: int
    """Writes that had been announced when it ended."""
    found: Any
    """What the search returned."""


class Searchers:
    """Search again and again while the block runs; a failure is raised when it ends.

    Parameters
    ----------
    search : function
        One search.
    n_threads : int
    pause : float
        Seconds between two searches of a thread.
    """

    def __init__(self, search: Callable[[], Any], n_threads: int, pause: float) -> None:
        self.answers: list[Answer] = []
        self.failures: list[BaseException] = []
        self._search = search
        self._pause = pause
        self._announced = self._published = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(n_threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if error is None and self.failures:
            raise self.failures[0]

    @contextmanager
    def write(self) -> Iterator[None]:
        """Announce a write, let the block do it, and call it published."""
        self._announced += 1
        yield
        self._published += 1

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                first = self._published
                found = self._search()
                self.answers.append(Answer(first, self._announced, found))
                time.sleep(self._pause)
        except BaseException as failure:  # noqa: BLE001  # raised again by the main thread
            self.failures.append(failure)
