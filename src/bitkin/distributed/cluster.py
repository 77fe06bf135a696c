"""The cluster that work runs on: Dask's scheduler and its workers, which need the same bitkin.

What runs on workers are functions of modules, marked `@block`; what they are given and return is
pickled, and never holds a client.
"""

from __future__ import annotations

import functools
import pydoc
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull
from dask.utils import ensure_dict
from distributed import Client, Future, as_completed, get_client

from bitkin._version import __version__
from bitkin.errors import ClusterError, InvalidInputError
from bitkin.threads import alone

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Part = TypeVar("Part")
Progress = Callable[[int, int], None]
"""Called with how many pieces of work are done, and how many there are."""

FAN_IN = 8
"""What one task merges: states, results, tables."""

_VERSION = "bitkin._version.__version__"


def block(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a function of a module run as a task: in its own thread alone, since a worker runs as
    many tasks at a time as it has threads.
    """

    @functools.wraps(function)
    def run(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with alone():
            return function(*arguments, **options)

    return run


def current_client(client: Client | None = None) -> Client:
    """Return `client`, or else the one that Dask knows, once every worker has this bitkin."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ClusterError(
                "There is no Dask client. Make one first, such as distributed.Client() for the "
                "cores of this machine or distributed.Client('tcp://scheduler:8786'), or give one "
                "as client."
            ) from None
    if not isinstance(client, Client):
        raise InvalidInputError(
            f"client must be a distributed.Client, got a {type(client).__name__}."
        )
    if client.status != "running":
        raise ClusterError(f"client is {client.status}. Make a new distributed.Client.")
    if client.asynchronous:
        raise InvalidInputError(
            "client must not be asynchronous: bitkin waits for its answers. Make it with "
            "distributed.Client(..., asynchronous=False)."
        )
    require_same_bitkin(client)
    return client


def require_same_bitkin(client: Client) -> None:
    """Raise unless there is a worker, and every worker, and the scheduler, which unpickles what is
    to be done, has the bitkin that runs here.
    """
    # a function that workers without bitkin know too: it returns None where there is no module
    versions = client.run(pydoc.locate, _VERSION, on_error="return")
    if not versions:
        raise ClusterError(
            f"The cluster at {_address(client)} has no workers. Start some, or wait for them with "
            "client.wait_for_workers(1)."
        )
    for worker, version in sorted(versions.items()):
        _require_version(f"Worker {worker}", version)
    try:
        version = client.run_on_scheduler(pydoc.locate, _VERSION)
    except (ImportError, pydoc.ErrorDuringImport) as error:
        version = error
    _require_version(f"The scheduler at {_address(client)}", version)


def _require_version(where: str, version: Any) -> None:
    """Raise unless what was found there is the version that runs here."""
    if version == __version__:
        return
    if isinstance(version, BaseException):
        found = f"cannot load bitkin ({type(version).__name__}: {version})"
    else:
        found = "has no bitkin" if version is None else f"has bitkin {version}"
    raise ClusterError(
        f"{where} {found}, and this process bitkin {__version__}. Install the same version on the "
        "scheduler and on every worker, and start them again."
    )


def wait_for(client: Client, futures: Sequence[Future], progress: Progress | None = None) -> None:
    """Wait until all are done; raise the error of one that failed. Whatever ends the waiting early,
    an interrupt included, takes back what was not begun.
    """
    try:
        _wait(as_completed(futures), len(futures), progress)
    except BaseException:
        client.cancel(list(futures))
        raise


@contextmanager
def taking_back(client: Client, futures: list[Future]) -> Iterator[None]:
    """Where the block is left by an error, an interrupt included, take back what is then in the
    list, and with it all that is to be made of that.
    """
    try:
        yield
    except BaseException:
        client.cancel(list(futures))
        raise


def gather(
    client: Client, futures: Iterable[Future], progress: Progress | None = None
) -> list[Any]:
    """Return the results, in order, once all are done."""
    every = list(futures)
    wait_for(client, every, progress)
    results: list[Any] = client.gather(every)
    return results


def collect(client: Client, tasks: Sequence[Any], progress: Progress | None = None) -> list[Any]:
    """Do tasks, Dask's delayed ones, and return their results in order."""
    return gather(client, client.compute(list(tasks)), progress)


def results_in_order(
    client: Client, tasks: Sequence[Delayed], shared: Sequence[Delayed] = ()
) -> Generator[Any, None, None]:
    """Do tasks and yield their results in order; no more are done ahead than keep every worker
    busy. What many tasks need, such as a hasher, is sent once where it is given as `shared`.
    """
    ahead = 2 * max(1, sum(client.nthreads().values()))
    # every task is sent with what it needs alone: the graphs of blocks hold all blocks each
    graph = ensure_dict(HighLevelGraph.merge(*(task.dask for task in tasks)))
    needed = [one for one in shared if one.key in graph]
    graph.update(zip((one.key for one in needed), client.compute(needed), strict=True))
    waiting: deque[Future] = deque()
    try:
        for task in tasks:
            own, _ = cull(graph, [task.key])
            waiting.append(client.compute(Delayed(task.key, own)))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        client.cancel(list(waiting))


def merge_in_tree(
    client: Client,
    states: Sequence[Any],
    merge: Callable[[Any, Any], Any],
    progress: Progress | None = None,
) -> Any:
    """Make states, Dask's delayed ones, and return what `merge` makes of them in their order, a few
    neighbours at a time. Workers hold a state no longer than until it is merged.
    """
    merging = delayed(merge_states, pure=False)
    level = merge_levels(states, lambda some: merging(merge, some))
    *futures, root = client.compute([*states, level[0]])
    waiting, n_states = as_completed(futures), len(futures)
    futures.clear()  # who holds a future keeps its result
    try:
        _wait(waiting, n_states, progress)
        return root.result()
    except BaseException:
        # those not yet waited for too: whoever keeps the error keeps what it passed through
        client.cancel([root, *waiting.futures])
        raise


def merge_levels(
    parts: Sequence[Part], merge_some: Callable[[list[Part]], Part], *, down_to: int = 1
) -> list[Part]:
    """Return what is left, `down_to` at most, of parts that are merged `FAN_IN` neighbours at a
    time; one that is alone stays as it is.
    """
    left = list(parts)
    while len(left) > down_to:
        some = [left[i : i + FAN_IN] for i in range(0, len(left), FAN_IN)]
        left = [merge_some(one) if len(one) > 1 else one[0] for one in some]
    return left


@block
def merge_states(merge: Callable[[Any, Any], Any], states: list[Any]) -> Any:
    """Return what `merge` makes of the states of neighbours, in their order."""
    merged = states[0]
    for state in states[1:]:
        merged = merge(merged, state)
    return merged


def raise_failure(future: Future) -> None:
    """Raise what a task failed with, as it was raised there."""
    future.result()


def _wait(waiting: Iterable[Future], n_tasks: int, progress: Progress | None) -> None:
    for n_done, future in enumerate(waiting, 1):
        if future.status == "error":
            raise_failure(future)
        if progress is not None:
            progress(n_done, n_tasks)


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler is not None else "?"
