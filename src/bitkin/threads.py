"""The one thread pool of the process.

Kernels release the GIL, so plain threads use every core. The calling thread always works too and never waits for a
piece that has not started: nested calls cannot deadlock. A forked child starts with a pool of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from bitkin.checks import whole_number

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_n_threads: int | None = None
_blas_known: tuple[int, list[Any]] | None = None
_blas_before: list[tuple[Any, int]] = []
_blas_users = 0
_blas_wanted: int | None = None


def available_cores() -> int:
    """Count the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def get_threads() -> int:
    """Return how many threads bitkin uses: `set_threads`, else BITKIN_NUM_THREADS, else the cores we may run on."""
    if _n_threads is not None:
        return _n_threads
    wanted = os.environ.get("BITKIN_NUM_THREADS", "")
    if not wanted:
        return available_cores()
    number: Any = int(wanted) if wanted.strip().isdecimal() else wanted
    return whole_number(number, "BITKIN_NUM_THREADS", low=1)


def set_threads(n: int) -> None:
    """Use `n` threads for bitkin's kernels and for matrix products, from now on in this process.

    Matrix products follow in the libraries that are loaded by now (NumPy's always is). BITKIN_NUM_THREADS sets the
    kernels' threads alone; for matrix products the library's own variable, such as OPENBLAS_NUM_THREADS, comes first.

    Examples
    --------
    >>> import bitkin
    >>> bitkin.set_threads(2)
    """
    global _n_threads, _blas_wanted, _blas_known
    number = whole_number(n, "n", low=1)
    with _lock:
        _n_threads = number
        _drop_pool()
        _blas_known = None
        if _blas_users:
            _blas_wanted = number
        else:
            _set_blas((library, number) for library in _blas_libraries())


@contextmanager
def blas_in_one_thread() -> Iterator[None]:
    """Let every matrix product in this block run in the thread that calls it.

    Pieces of a product on our own pool then give the same sums whatever the number of threads. The setting is the
    process's: the first to enter changes it and the last to leave puts it back.
    """
    global _blas_users, _blas_before, _blas_wanted
    with _lock:
        if _blas_users == 0:
            # Not by threadpoolctl's own `limit`, which asks libraries for all they know: longer than a small product.
            _blas_before = [(library, library.get_num_threads()) for library in _blas_libraries()]
            _set_blas((library, 1) for library, _ in _blas_before)
        _blas_users += 1
    try:
        yield
    finally:
        with _lock:
            _blas_users -= 1
            if _blas_users == 0:
                _set_blas(_blas_before)
                if _blas_wanted is not None:  # set_threads was called meanwhile
                    _set_blas((library, _blas_wanted) for library in _blas_libraries())
                    _blas_wanted = None


def _blas_libraries() -> list[Any]:
    """Return threadpoolctl's controllers of the matrix libraries that are loaded; the lock is the caller's."""
    global _blas_known
    if _blas_known is None or _blas_known[0] != len(sys.modules):
        # Looking for libraries takes a millisecond; no import since, no new library.
        from threadpoolctl import ThreadpoolController

        found = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
        _blas_known = len(sys.modules), found
    return _blas_known[1]


def _set_blas(numbers: Iterable[tuple[Any, int]]) -> None:
    for library, number in numbers:
        library.set_num_threads(number)


def run(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Return `[work(piece) for piece in pieces]`, done by the pool and the calling thread together.

    The exception of the first piece that has one is raised once every started piece has ended; pieces not yet started
    are left out.
    """
    todo = list(pieces)
    helpers = min(get_threads(), len(todo)) - 1
    if helpers < 1:
        return [work(piece) for piece in todo]
    results: list[Any] = [None] * len(todo)
    order = iter(range(len(todo)))
    order_lock = threading.Lock()
    failures: list[tuple[int, BaseException]] = []

    def take_pieces() -> None:
        while not failures:
            with order_lock:
                i = next(order, None)
            if i is None:
                return
            try:
                results[i] = work(todo[i])
            except BaseException as failure:  # noqa: BLE001  # handed to the caller below, whatever it is
                failures.append((i, failure))

    started = _start(take_pieces, helpers)
    take_pieces()
    for future in started:
        future.cancel()
    while not all(future.done() for future in started):
        try:
            wait(started)
        except BaseException as interruption:  # noqa: BLE001  # Ctrl-C: no more pieces, but none may outlive this call
            failures.append((-1, interruption))
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]
    return results


def _start(work: Callable[[], None], count: int) -> list[Future[None]]:
    """Hand `work` to the pool `count` times; fewer, or not at all, where the interpreter is closing down."""
    global _pool
    started: list[Future[None]] = []
    with _lock:  # so that nobody drops the pool between finding and using it
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, get_threads() - 1), thread_name_prefix="bitkin")
        with suppress(RuntimeError):  # closed at exit: the calling thread does what is left
            started.extend(_pool.submit(work) for _ in range(count))
    return started


def _drop_pool() -> None:
    """Let go of the pool; work under way in it ends by itself."""
    global _pool
    if _pool is not None:
        _pool.shutdown(wait=False)
        _pool = None


def _after_fork_in_child() -> None:
    # The parent's threads do not exist here and its lock may be held: start afresh.
    global _lock, _pool, _blas_users
    _lock = threading.Lock()
    _pool = None
    if _blas_users:
        _blas_users = 0
        _set_blas(_blas_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
