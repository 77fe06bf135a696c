"""Measurements side by side on the thread pool: each works alone on its thread, and one that fails
is a result that says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bitkin import interrupts, threads
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.measuring import failed

Check = Callable[[], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TrialTask:
    """Something to be measured.

    Attributes
    ----------
    name, n_bits, stage
        What a result is called that says why there is none.
    measure : callable
        Does it; the function that it is given is called between steps, and raises where the work is
        to end.
    work : float
        What it costs beside others, roughly.
    ours : bool
        Whether it is no baseline.
    """

    name: str
    n_bits: int
    stage: str
    measure: Callable[[Check], list[Measurement]]
    work: float = 1.0
    ours: bool = True


class _TimeIsUpError(Exception):
    """The time limit has passed: what is not measured yet says so."""


class _Stopped(BaseException):
    """The calling thread was interrupted: the others end quietly."""


@dataclass(eq=False)
class TaskRun:
    """Tasks that are measured once.

    Parameters
    ----------
    tasks : sequence of TrialTask
    workers : int or None
        At most so many at a time; None for as many as bitkin has threads.
    time_limit : float or None
        Seconds after which no task begins another step.
    progress : callable or None
        Called with the number of tasks done and of all, by one thread at a time.
    """

    tasks: Sequence[TrialTask]
    workers: int | None = None
    time_limit: float | None = None
    progress: Progress | None = None
    results: list[list[Measurement]] = field(init=False)
    _todo: list[int] = field(init=False)
    _done: int = field(init=False, default=0)
    _stopped: bool = field(init=False, default=False)
    _began: float = field(init=False, default=0.0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.results = [[] for _ in self.tasks]
        self._todo = list(reversed(range(len(self.tasks))))

    def run(self) -> list[list[Measurement]]:
        """Measure everything, and return the results of every task."""
        self._began = time.perf_counter()
        most = threads.get_threads() if self.workers is None else self.workers
        threads.run(self._work, range(max(1, min(most, len(self.tasks)))))
        return self.results

    def _work(self, worker: int) -> None:
        """Take tasks until none is left."""
        try:
            while (place := self._next()) is not None:
                self.results[place] = self._measure(self.tasks[place])
                self._count()
        except _Stopped:
            return  # whoever was interrupted raises
        except BaseException:
            self._stopped = True
            raise

    def _next(self) -> int | None:
        with self._lock:
            return self._todo.pop() if self._todo and not self._stopped else None

    def _measure(self, task: TrialTask) -> list[Measurement]:
        try:
            self._check()
            return task.measure(self._check)
        except _TimeIsUpError as error:
            return [failed(task.name, task.n_bits, task.stage, error, ours=task.ours)]

    def _check(self) -> None:
        if self._stopped:
            raise _Stopped
        interrupts.check()
        limit = self.time_limit
        if limit is not None and time.perf_counter() - self._began > limit:
            raise _TimeIsUpError(f"the time limit of {limit:g} seconds had passed.")

    def _count(self) -> None:
        with self._lock:
            self._done += 1
            if self.progress is not None:
                self.progress(self._done, len(self.tasks))
