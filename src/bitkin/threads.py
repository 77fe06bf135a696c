"""The one thread pool of the process.

Kernels release the GIL, so plain threads use every core. The calling thread always works too and
never waits for a piece that has not started: nested calls cannot deadlock. A forked child starts
with a pool of its own.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple, TypeVar

from bitkin import interrupts
from bitkin.checks import whole_number
from bitkin.errors import EnvironmentVariableError, InvalidInputError

# far more than helps: every thread takes memory, and systems refuse some tens of thousands
MOST_THREADS = 1024
Piece = TypeVar("Piece")
Result = TypeVar("Result")

_lock = threading.Lock()
_of_thread = threading.local()
_pool: _Pool | None = None
_n_threads: int | None = None
_blas_known: tuple[int, list[_BlasLibrary]] | None = None
_blas_before: list[tuple[_BlasLibrary, int]] = []
_blas_users = 0
_blas_wanted: int | None = None


def available_cores() -> int:
    """Count the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def get_threads() -> int:
    """Return how many threads bitkin uses: `set_threads`, else BITKIN_NUM_THREADS, else the cores
    we may run on.
    """
    if _n_threads is not None:
        return _n_threads
    wanted = os.environ.get("BITKIN_NUM_THREADS", "")
    if not wanted:
        return available_cores()
    # Python refuses to convert more than 4,300 digits
    short = len(wanted) <= 4000 and wanted.strip().isdecimal()
    number: Any = int(wanted) if short else wanted
    try:
        return whole_number(number, "BITKIN_NUM_THREADS", low=1, high=MOST_THREADS)
    except InvalidInputError as error:
        raise EnvironmentVariableError(
            f"{error} Unset this variable of the environment, or set it to another value."
        ) from None


def set_threads(n: int) -> None:
    """Use `n` threads for bitkin's kernels and for matrix products, from now on in this process.

    Matrix products follow in the libraries that are loaded by now (NumPy's always is).
    BITKIN_NUM_THREADS sets the kernels' threads alone; for matrix products the library's own
    variable, such as OPENBLAS_NUM_THREADS, comes first.

    Examples
    --------
    >>> import bitkin
    >>> bitkin.set_threads(2)
    """
    global _n_threads, _blas_wanted, _blas_known
    number = whole_number(n, "n", low=1, high=MOST_THREADS)
    with interrupts.sealed, _lock:
        _n_threads = number
        _drop_pool()
        _blas_known = None
        # inside a block of `BlasInOneThread` the number is set when the last user leaves
        if _blas_users:
            _blas_wanted = number
        else:
            _set_blas(number)


@contextmanager
def threads_held_at(n: int) -> Iterator[None]:
    """Use so many threads while the block runs, and then as many as before, set or not."""
    global _n_threads
    before = _n_threads
    set_threads(n)
    try:
        yield
    finally:
        set_threads(available_cores() if before is None else before)
        if before is None:
            with interrupts.sealed, _lock:
                _n_threads = None  # the environment says again


class _BlasLibrary(NamedTuple):
    """How a matrix library is asked for its number of threads, and told one."""

    get_threads: Callable[[], int]
    set_threads: Callable[[int], object]


@contextmanager
def alone() -> Iterator[None]:
    """Let the calling thread do by itself whatever it starts in this block, matrix products
    included, so that its own CPU time is all that was used.
    """
    before = getattr(_of_thread, "alone", False)
    _of_thread.alone = True
    try:
        with blas_in_one_thread():
            yield
    finally:
        _of_thread.alone = before


class BlasInOneThread:
    """Let every matrix product in this block run in the thread that calls it.

    Pieces of a product on our own pool then give the same sums whatever the number of threads. The
    setting is the process's: the first to enter changes it and the last to leave puts it back.
    Signals wait for the end of the block, so that its users are always counted right; long work in
    it calls `interrupts.check()` now and then, as `run` does between pieces.
    """

    def __enter__(self) -> None:
        global _blas_users, _blas_before
        interrupts.hold()
        try:
            with _lock:
                if _blas_users == 0:
                    known = _blas_known
                    # a library may have been loaded with any module imported since
                    if known is None or known[0] != len(sys.modules):
                        known = _find_blas_libraries()
                    _blas_before = [(blas, blas.get_threads()) for blas in known[1]]
                    try:
                        for blas, number in _blas_before:
                            if number != 1:
                                blas.set_threads(1)
                    except BaseException:  # of one library: the others stay as they were
                        for blas, number in _blas_before:
                            blas.set_threads(number)
                        raise
                _blas_users += 1
        except BaseException:
            interrupts.release()
            raise

    def __exit__(self, *error: object) -> None:
        global _blas_users, _blas_wanted
        try:
            with _lock:
                if _blas_users == 0:  # forked inside the block: the child began with none
                    return
                _blas_users -= 1
                if _blas_users == 0:
                    for blas, number in _blas_before:
                        if number != 1:
                            blas.set_threads(number)
                    if _blas_wanted is not None:  # set_threads was called meanwhile
                        _set_blas(_blas_wanted)
                        _blas_wanted = None
        finally:
            interrupts.release()


blas_in_one_thread = BlasInOneThread


def _find_blas_libraries() -> tuple[int, list[_BlasLibrary]]:
    """Look for the matrix libraries that are loaded, and remember them; the lock is the caller's.

    It takes a millisecond: they are known until another module has been imported.
    """
    global _blas_known
    from threadpoolctl import ThreadpoolController

    found = [
        _functions_of(library)
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
    ]
    _blas_known = len(sys.modules), found
    return _blas_known


def _functions_of(library: Any) -> _BlasLibrary:
    """Return the two functions of a library that threadpoolctl has found.

    OpenBLAS is called directly. Its setting is the process's, and we count who wants it;
    threadpoolctl 3.8 lets only the first thread that ever set it set it again, and takes as long
    as a small product for every call. With OpenMP the setting is threadpoolctl's matter.
    """
    if library.internal_api == "openblas" and library.threading_layer != "openmp":
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
            get = getattr(library.dynlib, f"{prefix}openblas_get_num_threads{suffix}", None)
            put = getattr(library.dynlib, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                return _BlasLibrary(get, put)
    return _BlasLibrary(library.get_num_threads, library.set_num_threads)


def _set_blas(number: int) -> None:
    for blas in _find_blas_libraries()[1]:
        blas.set_threads(number)


def run(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Return `[work(piece) for piece in pieces]`, done by the pool and the calling thread together.

    The exception of the first piece that has one is raised once every started piece has ended;
    pieces not yet started are left out. The same holds for what a signal handler raises, which
    comes between two pieces: no piece outlives the call. Where no thread can be started, the
    calling thread does everything.
    """
    todo = list(pieces)
    # the calling thread is one of the workers
    helpers = 0 if getattr(_of_thread, "alone", False) else min(get_threads(), len(todo)) - 1
    if helpers < 1:
        results = []
        for piece in todo:
            if interrupts.pending:
                interrupts.check()
            results.append(work(piece))
        return results
    job = _Job(work, todo)
    with interrupts.held:
        _ask_for_help(job, helpers)
        job.take_pieces()
        job.close()
    return job.take_results()


class _Job:
    """Pieces of work that the caller of `run` and its helpers take one after another."""

    def __init__(self, work: Callable[[Any], Any], pieces: list[Any]) -> None:
        self._work: Callable[[Any], Any] | None = work
        self._pieces = pieces
        self._results: list[Any] = [None] * len(pieces)
        self._order = iter(range(len(pieces)))
        self._failures: list[tuple[int, BaseException]] = []
        self._lock = threading.Lock()
        self._n_helpers = 0
        self._closed = False
        self._last_helper_left = threading.Lock()
        # held until the last helper releases it: a lock used
        # as an event, which costs less than `threading.Event`
        self._last_helper_left.acquire()

    def take_pieces(self) -> None:
        """Work until no piece is left or one has failed; what a signal handler raises is a failure
        too.
        """
        work = self._work
        while work is not None and not self._failures:
            with self._lock:
                i = next(self._order, None)
            if i is None:
                return
            try:
                interrupts.check()
            except BaseException as interruption:  # noqa: BLE001  # raised by `take_results`, once nobody works any more
                self._failures.append((-1, interruption))
                return
            try:
                self._results[i] = work(self._pieces[i])
            except BaseException as failure:  # noqa: BLE001  # raised by `take_results`, whatever it is
                self._failures.append((i, failure))

    def help(self) -> None:
        """Take pieces as a helper, unless the caller has left already."""
        if not self._enter():
            return
        try:
            self.take_pieces()
        finally:
            self._leave()

    def _enter(self) -> bool:
        with self._lock:
            # one lock guards both, so that none enters once `close` has counted
            self._n_helpers += not self._closed
            return not self._closed

    def _leave(self) -> None:
        with self._lock:
            self._n_helpers -= 1
            if self._closed and self._n_helpers == 0:
                self._last_helper_left.release()

    def close(self) -> None:
        """Let no further helper begin, and wait for those that have."""
        with self._lock:
            self._closed = True
            helped = self._n_helpers > 0
        if helped:
            self._last_helper_left.acquire()
        # A helper that comes too late may still hold this object, but nothing large through it.
        self._work, self._pieces = None, []

    def take_results(self) -> list[Any]:
        """Return what came out of every piece, or raise the first failure; nothing of either stays
        here.
        """
        results, self._results = self._results, []
        failures, self._failures = self._failures, []
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]
        return results


class _Pool:
    """Threads that help with jobs. The process does not wait for them to end: between jobs they do
    nothing.
    """

    def __init__(self, size: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._size = size
        self._n_threads = 0

    def ask(self, job: _Job, count: int) -> None:
        """Ask `count` threads for help with a job, or as many as the system lets us have."""
        while self._n_threads < self._size:
            name = f"bitkin-{self._n_threads}"
            helper = threading.Thread(target=_help_with, args=(self._jobs,), name=name, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # a limit of the system, or the interpreter is closing down
                break
            self._n_threads += 1
        for _ in range(min(count, self._n_threads)):
            self._jobs.put(job)

    def dismiss(self) -> None:
        """Let all threads end, once they have helped with what they were asked for."""
        for _ in range(self._n_threads):
            self._jobs.put(None)


def _help_with(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.help()
        del job  # its results are the caller's; while we wait, no thread should hold them


def _ask_for_help(job: _Job, count: int) -> None:
    global _pool
    with _lock:  # so that no thread dismisses the pool between finding and using it
        if _pool is None:
            _pool = _Pool(max(1, get_threads() - 1))
        _pool.ask(job, count)


def _drop_pool() -> None:
    """Let go of the pool; work under way in it ends by itself."""
    global _pool
    if _pool is not None:
        _pool.dismiss()
        _pool = None


def _after_fork_in_child() -> None:
    # The parent's threads do not exist here and its lock may be held: start afresh.
    global _lock, _pool, _blas_users
    _lock = threading.Lock()
    _pool = None
    if _blas_users:
        _blas_users = 0
        for blas, number in _blas_before:
            blas.set_threads(number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
