"""Shards are loaded where they are to be: each worker as many at a time as it has threads.

More would wait there, and what waits Dask may give to a worker that is idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from distributed import Client, Future, as_completed

from bitkin.distributed.cluster import raise_failure


class ShardLoad(NamedTuple):
    """A function that loads a shard, and the worker that is to hold it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    worker: str


def load_in_turns(
    client: Client, loads: Sequence[ShardLoad], threads: Mapping[str, int]
) -> list[Future]:
    """Return the shards once all are loaded, in order; raise the error of one that failed."""
    todo: dict[str, deque[int]] = {}
    for i, load in enumerate(loads):
        todo.setdefault(load.worker, deque()).append(i)
    begun: dict[int, Future] = {}
    workers: dict[Any, str] = {}
    waiting = as_completed()

    def begin_next(worker: str) -> None:
        if not todo[worker]:
            return
        i = todo[worker].popleft()
        function, arguments, _ = loads[i]
        begun[i] = client.submit(
            function, *arguments, workers=[worker], allow_other_workers=True, pure=False
        )
        workers[begun[i].key] = worker
        waiting.add(begun[i])

    try:
        for worker in todo:
            for _ in range(threads.get(worker, 1)):
                begin_next(worker)
        for future in waiting:
            if future.status == "error":
                raise_failure(future)
            begin_next(workers[future.key])
    except BaseException:
        client.cancel(list(begun.values()))
        raise
    return [begun[i] for i in range(len(loads))]
