"""One collection as it is served: searches in batches, writes in turn, texts embedded."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from fastapi import HTTPException

from bitkin.checks import shown
from bitkin.collection.collection import Collection
from bitkin.collection.results import Hits, SearchExplanation
from bitkin.embedding import ATTRIBUTE, open_embedder
from bitkin.errors import BitkinError, InvalidInputError
from bitkin.service.batching import (
    MOST_IN_BATCH,
    FoundItems,
    SearchBatcher,
    count_queries,
    plain_rows,
    too_late,
)
from bitkin.service.observed.latencies import Latencies
from bitkin.service.settings import ServiceLimits
from bitkin.warming import warm_searches

if TYPE_CHECKING:
    from bitkin.embedding import Embedder

SEARCHES_AT_ONCE = 2
"""Batches of one collection that are searched at the same time: while one reads vectors, the other
looks through the codes.
"""
_WARMED = (1, 5, 64)  # queries: a lone one, a few, a batch

Result = TypeVar("Result")
logger = logging.getLogger("bitkin.service")


class WorkerThreads(NamedTuple):
    """Threads that the collections of a service share, beside those of each."""

    short: ThreadPoolExecutor
    """For what takes milliseconds."""
    long: ThreadPoolExecutor
    """For what may take minutes, and must not keep the others waiting."""
    warming: ThreadPoolExecutor
    """For kernels to be compiled, one collection after the other."""
    shelf: ThreadPoolExecutor
    """For collections to be opened, made and dropped, one after the other."""

    @classmethod
    def start(cls) -> WorkerThreads:
        """Return threads that wait for work."""
        return cls(
            ThreadPoolExecutor(4, "bitkin-read"),
            ThreadPoolExecutor(2, "bitkin-long"),
            ThreadPoolExecutor(1, "bitkin-warming"),
            ThreadPoolExecutor(1, "bitkin-shelf"),
        )

    def stop(self) -> None:
        """End what was begun."""
        self.warming.shutdown(wait=True, cancel_futures=True)
        self.shelf.shutdown(wait=True)
        self.short.shutdown(wait=True)
        self.long.shutdown(wait=True)


class AskedOptions(NamedTuple):
    """The arguments of a search beside its queries; searches of equal ones go together."""

    k: int
    stage: str | None = None
    first: str | None = None
    oversample: int | None = None
    probes: int | None = None
    where: str | None = None
    """As JSON, with its keys in order."""
    allow: tuple[Any, ...] | None = None
    alone: int | None = None
    """A number of its own for a search that goes with no other."""

    def arguments(self) -> dict[str, Any]:
        """Return what `Collection.search` takes."""
        given = self._asdict()
        del given["alone"]
        given["where"] = None if self.where is None else json.loads(self.where)
        given["allow"] = None if self.allow is None else list(self.allow)
        return given


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """A search as it was asked for: queries, and what goes with them."""

    queries: Any
    """float32 rows, CSR rows, or Codes."""
    options: AskedOptions
    without: list[Any] | None = None
    """Per query an id that is not to be among its neighbours: then one more is looked for."""

    @property
    def widened(self) -> AskedOptions:
        """The options under which there are as many neighbours as were asked for."""
        more = 0 if self.without is None else 1
        return self.options._replace(k=self.options.k + more)

    def finish(self, found: FoundItems) -> FoundItems:
        """Return what was found without what nobody asked for."""
        if self.without is None:
            return found
        return _leave_out(found, self.without, self.options.k)


class ServedCollection:
    """A collection, the threads that work for it, and what is known of its searches."""

    def __init__(
        self,
        name: str,
        collection: Collection,
        limits: ServiceLimits,
        workers: WorkerThreads,
        embed: str | None = None,
        observe: Callable[[int], None] = lambda n_queries: None,
    ) -> None:
        self.name = name
        self.collection = collection
        self.latencies = Latencies()
        self._limits = limits
        self._workers = workers
        self._writer = ThreadPoolExecutor(1, f"bitkin-write-{name[:20]}")
        self._searchers = ThreadPoolExecutor(SEARCHES_AT_ONCE, f"bitkin-search-{name[:20]}")
        self._observe = observe
        self._batcher = SearchBatcher(
            self._search, self._searchers, SEARCHES_AT_ONCE, limits.waiting, self._note_batch
        )
        remembered = None if collection.path is None else collection.attribute(ATTRIBUTE)
        self.embed = remembered if isinstance(remembered, str) else embed
        self._embedder: Embedder | None = None
        self._n_alone = 0
        self._warming: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def n_features(self) -> int | None:
        """Numbers of a vector; None where the hasher takes sets."""
        return self.collection.row_target.n_features

    @property
    def n_waiting(self) -> int:
        """Searches that no thread has begun."""
        return self._batcher.n_waiting

    async def read(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Return what a call that only reads returns, made in another thread."""
        loop = asyncio.get_running_loop()
        with self.while_open():
            return await loop.run_in_executor(self._workers.short, call, *arguments)

    async def do_long(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Return what a call returns that may take minutes, and takes its own turn with writes."""
        loop = asyncio.get_running_loop()
        with self.while_open():
            return await asyncio.shield(loop.run_in_executor(self._workers.long, call, *arguments))

    async def write(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Return what a call that writes returns. One follows the other, and each is ended
        whatever becomes of whoever asked for it.
        """
        loop = asyncio.get_running_loop()
        with self.while_open():
            return await asyncio.shield(loop.run_in_executor(self._writer, call, *arguments))

    async def search(self, asked: AskedSearch) -> FoundItems:
        """Return what queries find, within the seconds that are permitted."""
        if not self.is_warm:
            await self.warm_up()
        since = time.monotonic()
        until = since + self._limits.seconds
        options, queries = asked.widened, asked.queries
        if not isinstance(queries, np.ndarray):
            self._n_alone += 1
            options = options._replace(alone=self._n_alone)
        n_queries = count_queries(queries)
        with self.while_open():
            if n_queries <= MOST_IN_BATCH:
                found = await self._batcher.find(queries, options, until)
            else:
                found = await self._find_in_pieces(queries, n_queries, options, until)
        self.latencies.add(1000 * (time.monotonic() - since))
        return asked.finish(found)

    async def explain(self, asked: AskedSearch) -> tuple[FoundItems, SearchExplanation]:
        """Return what queries find and how, within the same seconds."""
        await self.warm_up()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self.read(self._explain, asked)
        except TimeoutError:
            raise too_late() from None

    async def _find_in_pieces(
        self, queries: Any, n_queries: int, options: AskedOptions, until: float
    ) -> FoundItems:
        """Search many queries a few pieces at a time: others come in between."""
        room = asyncio.Semaphore(SEARCHES_AT_ONCE)

        async def find(first: int) -> FoundItems:
            async with room:
                some = queries[first : first + MOST_IN_BATCH]
                return await self._batcher.find(some, options, until)

        firsts = range(0, n_queries, MOST_IN_BATCH)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(find(first)) for first in firsts]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return _join([task.result() for task in tasks])

    def embed_texts(self, texts: list[str]) -> Any:
        """Return a vector per text; raise where nobody said how."""
        if self.embed is None:
            raise InvalidInputError(
                f"texts must not be given: {self.name} does not say how texts become vectors. "
                "Start the service with --embed."
            )
        if self._embedder is None:
            self._embedder = open_embedder(self.embed)
        made = np.asarray(self._embedder(texts), dtype=np.float32)
        if self.n_features not in (None, made.shape[1]):
            raise InvalidInputError(
                f"texts must become vectors of {self.n_features} numbers in {self.name}, but "
                f"{self.embed!r} makes {made.shape[1]}. Start the service with another --embed."
            )
        return made

    def describe(self) -> dict[str, Any]:
        """Return what there is to say of the collection, as JSON holds it."""
        collection = self.collection
        return {
            "name": self.name,
            **collection.stats(),
            "n_features": self.n_features,
            "embed": self.embed,
            "can_embed": self.embed is not None,
            "read_only": collection.read_only,
            "searches": self.latencies.summary(),
        }

    @property
    def is_warm(self) -> bool:
        """Whether kernels are compiled, and rows have been searched for once."""
        return self._warming is not None and self._warming.done()

    async def warm_up(self) -> None:
        """Wait until kernels are compiled, which begins with the first call. It may take a minute,
        of which no search should count the seconds as its own.
        """
        await asyncio.shield(self.begin_warming())

    def begin_warming(self) -> asyncio.Task[None]:
        """Let kernels be compiled beside everything else, once, and return what does it."""
        if self._warming is None:
            self._warming = asyncio.create_task(self._warm())
        return self._warming

    async def _warm(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._workers.warming, self._search_own_rows)
        except (BitkinError, MemoryError) as error:
            logger.warning(
                "collection %r: kernels were not compiled, so that a first search may take long: "
                "%s: %s",
                *(self.name, type(error).__name__, error),
            )

    def _search_own_rows(self) -> None:
        warm_searches(self.collection)
        some = self.collection.get(limit=max(_WARMED))
        queries = some.codes if some.vectors is None else some.vectors
        stage = "codes" if some.vectors is None else None
        if len(some.ids):
            for n_queries in _WARMED:
                self.collection.search(queries[:n_queries], 10, stage=stage)

    def close(self) -> None:
        """End what was begun, searches and writes, and close the collection."""
        self._is_closed = True
        self._searchers.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        self.collection.close()

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Tell whoever found the collection before it was dropped, and asks for something after,
        that it is gone: its threads, it itself, or its folder, refuse.
        """
        try:
            yield
        except (RuntimeError, OSError, BitkinError) as error:
            if not self._is_closed:
                raise
            raise HTTPException(
                404, f"there is no collection {shown(self.name)} any more."
            ) from error

    def _search(self, queries: Any, options: AskedOptions) -> Hits:
        return self.collection.search(queries, **options.arguments())

    def _explain(self, asked: AskedSearch) -> tuple[FoundItems, SearchExplanation]:
        explained = self.collection.explain(asked.queries, **asked.widened.arguments())
        return asked.finish(plain_rows(explained.hits)), explained

    def _note_batch(self, n_queries: int) -> None:
        self.latencies.add_batch(n_queries)
        self._observe(n_queries)


def _leave_out(found: FoundItems, without: list[Any], k: int) -> FoundItems:
    ids, distances, metadata = [], [], []
    for query, own in enumerate(without):
        kept = [place for place, one in enumerate(found.ids[query]) if one != own][:k]
        ids.append([found.ids[query][place] for place in kept])
        distances.append([found.distances[query][place] for place in kept])
        if found.metadata is not None:
            metadata.append([found.metadata[query][place] for place in kept])
    return FoundItems(ids, distances, None if found.metadata is None else metadata, found.stage)


def _join(parts: list[FoundItems]) -> FoundItems:
    metadata: list[list[Any]] | None = []
    for part in parts:
        if part.metadata is None or metadata is None:
            metadata = None
        else:
            metadata += part.metadata
    ids = [one for part in parts for one in part.ids]
    distances = [one for part in parts for one in part.distances]
    return FoundItems(ids, distances, metadata, parts[0].stage)
