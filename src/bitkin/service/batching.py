"""Searches that arrive together are searched as one batch.

Nobody waits for company: a search that finds a free worker begins at once. Those that arrive while
all workers are busy wait anyway, and go on together, those of equal arguments in one call. So the
batches are as large as the load, and a lone search is as quick as without.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from fastapi import HTTPException

from bitkin.codes import Codes
from bitkin.collection.results import Hits
from bitkin.service.problems import RETRY_SECONDS

MOST_IN_BATCH = 64
"""Queries that are searched in one call: more would keep others waiting for longer than they gain.
"""


class FoundItems(NamedTuple):
    """What some queries found, in plain Python, padding left out."""

    ids: list[list[Any]]
    distances: list[list[Any]]
    metadata: list[list[Any]] | None
    stage: str
    """The last one."""


# What the distances of a stage are.
_STAGES = {"i": "codes", "f": "estimate", "d": "exact"}


@dataclass(slots=True, eq=False)
class _Waiting:
    rows: Any
    n_queries: int
    until: float
    done: asyncio.Future[FoundItems]


class SearchBatcher:
    """Queues searches by their arguments, and hands them to a few workers, batch by batch.

    Parameters
    ----------
    search : callable
        Called in a worker with the queries of a batch and the arguments that they share, which
        returns Hits.
    workers : Executor
    n_workers : int
        Batches that are searched at the same time.
    most_waiting : int
        Searches in the queue; one more is refused.
    observe : callable
        Told the number of queries of every batch.
    """

    def __init__(
        self,
        search: Callable[[Any, Any], Hits],
        workers: Executor,
        n_workers: int,
        most_waiting: int,
        observe: Callable[[int], None] = lambda n_queries: None,
    ) -> None:
        self._search = search
        self._workers = workers
        self._n_free = n_workers
        self._most_waiting = most_waiting
        self._observe = observe
        # in the order in which their oldest search came
        self._queues: dict[Hashable, deque[_Waiting]] = {}
        self._n_waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def n_waiting(self) -> int:
        """Searches that no worker has begun."""
        return self._n_waiting

    async def find(self, rows: Any, arguments: Hashable, until: float) -> FoundItems:
        """Return what at most `MOST_IN_BATCH` queries find; raise where that is not begun `until`
        then, by the clock of `time.monotonic`, or not ended.
        """
        if self._n_waiting >= self._most_waiting:
            raise HTTPException(
                429,
                f"{self._n_waiting:,} searches are waiting already. Send this one again later.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        done = asyncio.get_running_loop().create_future()
        waiting = _Waiting(rows, count_queries(rows), until, done)
        self._queues.setdefault(arguments, deque()).append(waiting)
        self._n_waiting += 1
        self._begin()
        try:
            async with asyncio.timeout(until - time.monotonic()):
                return await waiting.done
        except TimeoutError:
            raise too_late() from None

    def _begin(self) -> None:
        while self._n_free and self._queues:
            self._n_free -= 1
            task = asyncio.get_running_loop().create_task(self._run(*self._next_batch()))
            self._tasks.add(task)  # the loop itself holds tasks weakly
            task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> tuple[Hashable, list[_Waiting]]:
        """Take the searches that came first, with all of equal arguments that fit in beside."""
        arguments, queue = next(iter(self._queues.items()))
        batch = [queue.popleft()]
        n_queries = batch[0].n_queries
        while queue and n_queries + queue[0].n_queries <= MOST_IN_BATCH:
            n_queries += queue[0].n_queries
            batch.append(queue.popleft())
        del self._queues[arguments]
        if queue:  # behind those of other arguments: nobody waits for ever
            self._queues[arguments] = queue
        self._n_waiting -= len(batch)
        return arguments, batch

    async def _run(self, arguments: Hashable, batch: list[_Waiting]) -> None:
        try:
            now = time.monotonic()
            batch = [one for one in batch if one.until > now and not one.done.done()]
            if batch:
                await self._find_together(arguments, batch)
        finally:
            self._n_free += 1
            self._begin()

    async def _find_together(self, arguments: Hashable, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            parts = await loop.run_in_executor(
                self._workers, self._search_batch, arguments, [one.rows for one in batch]
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are told
            if len(batch) == 1:
                _tell(batch[0].done, error)
                return
            for one in batch:  # one of them spoils it, and the others are innocent
                await self._find_together(arguments, [one])
            return
        for one, found in zip(batch, parts, strict=True):
            if not one.done.done():
                one.done.set_result(found)

    def _search_batch(self, arguments: Hashable, rows: list[Any]) -> list[FoundItems]:
        together = rows[0] if len(rows) == 1 else np.concatenate(rows)
        self._observe(count_queries(together))
        found = plain_rows(self._search(together, arguments))
        parts, first = [], 0
        for some in rows:
            last = first + count_queries(some)
            parts.append(_cut(found, first, last))
            first = last
        return parts


def count_queries(rows: Any) -> int:
    """Return how many queries there are: of CSR rows `len` says nothing."""
    return len(rows) if isinstance(rows, Codes) else int(rows.shape[0])


def plain_rows(hits: Hits) -> FoundItems:
    """Return hits as JSON holds them: lists, shorter where there was not as much to find."""
    ids, distances = hits.ids.tolist(), hits.distances.tolist()
    metadata = hits.metadata
    for query, some in enumerate(ids):
        if some and (some[-1] is None or some[-1] == -1):  # padding comes last
            n_found = some.index(some[-1])
            ids[query], distances[query] = some[:n_found], distances[query][:n_found]
            if metadata is not None:
                metadata[query] = metadata[query][:n_found]
    return FoundItems(ids, distances, metadata, _STAGES[hits.distances.dtype.char])


def _cut(found: FoundItems, first: int, last: int) -> FoundItems:
    metadata = None if found.metadata is None else found.metadata[first:last]
    return FoundItems(found.ids[first:last], found.distances[first:last], metadata, found.stage)


def _tell(done: asyncio.Future[FoundItems], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def too_late() -> HTTPException:
    """Return what a search ends in that had no time left."""
    return HTTPException(
        503,
        "the search took longer than the service permits. Ask for fewer queries, a smaller k, or "
        "send it again later.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
