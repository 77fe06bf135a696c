"""AsyncClient: a collection of a service, for programs that must not wait."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy.typing as npt

from bitkin.client import exporting, reading, writing
from bitkin.client.client import BATCH_ROWS
from bitkin.client.connections import AsyncConnections, ClientSettings, check_name, closed_client
from bitkin.client.messages import Flow, T
from bitkin.client.remote import RemoteCollection
from bitkin.client.rows import IdRuns
from bitkin.collection.results import EpochInfo, Hits, Records, SearchExplanation

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.base import Hasher
    from bitkin.hashers.projection.streams.drift import Drift


class AsyncClient:
    """What `Client` is, with coroutines in the place of methods: the same arguments, answers,
    errors and retries. What a client has as a property is a coroutine too, such as `await
    client.epochs()`, `len(client)` is `await client.count()`, and `id in client` is `await
    client.contains(id)`.

    Vectors are read, and written as JSON, between requests, some megabytes at a time, which takes
    milliseconds; a slow file or iterator keeps the loop waiting. Any number of calls may be under
    way. Connections belong to an event loop: another loop needs a client of its own.

    Parameters
    ----------
    url, token, collection, timeout, retries, deadline, verify
        As for `Client`.
    transport : httpx.AsyncBaseTransport, optional
        What sends requests: `httpx.ASGITransport(app)` for a service in the same process.

    Examples
    --------
    >>> import asyncio, httpx, numpy as np, bitkin
    >>> from bitkin.service import create_app
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> notes = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=16).fit(X))
    >>> async def ask():
    ...     transport = httpx.ASGITransport(create_app(notes))
    ...     async with bitkin.AsyncClient("http://localhost", transport=transport) as client:
    ...         ids = await client.add(X, ids=range(1000))
    ...         return await asyncio.gather(*(client.search(x, k=1) for x in X[:3]))
    >>> [hits.ids[0, 0].item() for hits in asyncio.run(ask())]
    [0, 1, 2]
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        collection: str | None = None,
        timeout: float | None = 30.0,
        retries: int = 4,
        deadline: float = 120.0,
        verify: bool | ssl.SSLContext = True,
        transport: Any = None,
    ) -> None:
        settings = ClientSettings(url, token, timeout, retries, deadline, verify)
        name = None if collection is None else check_name(collection, "collection")
        self._connections = AsyncConnections(settings, transport)
        self._remote = RemoteCollection(settings.url, name, settings.policy)
        self._runs = IdRuns()
        self._shares = False
        self._closed = False

    def collection(self, name: str) -> AsyncClient:
        """Return a client for another collection of the service, on the same connections: closing
        it leaves those open, and closing this one closes them for both.
        """
        other = AsyncClient(self.url, collection=check_name(name))
        other._connections = self._connections
        other._remote = self._remote.named(name)
        other._shares = True
        return other

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._remote.url

    @property
    def name(self) -> str | None:
        """Name of the collection; None for the only one of a service."""
        return self._remote.name

    async def create_collection(
        self,
        name: str,
        hasher: Hasher | None = None,
        *,
        n_features: int | None = None,
        sample: Any = None,
        n_bits: int | None = None,
        embed: bool = False,
        vectors: str | None = "float32",
        metric: str = "l2",
        ids: str = "int",
        fields: Any = None,
        stage: str | None = None,
        oversample: int = 10,
        index: str = "auto",
    ) -> AsyncClient:
        """Make a collection and return a client for it; see `Client.create_collection`."""
        settings = {
            "n_features": n_features,
            "n_bits": n_bits,
            "embed": embed,
            "vectors": vectors,
            "metric": metric,
            "ids": ids,
            "fields": fields,
            "stage": stage,
            "oversample": oversample,
            "index": index,
        }
        making = writing.create_collection(self._remote, name, hasher, sample=sample, **settings)
        await self._run(making)
        return self.collection(name)

    async def collections(self) -> list[str]:
        """See `Client.collections`."""
        return await self._run(writing.collections(self._remote))

    async def drop_collection(self, name: str) -> None:
        """See `Client.drop_collection`."""
        await self._run(writing.drop_collection(self._remote, name))

    async def read_only(self) -> bool:
        """Return whether this client may only read, because of its token or of the service."""
        return await self._run(reading.read_only(self._remote))

    async def fields(self) -> dict[str, str]:
        """Return declared metadata: names and types."""
        return dict((await self._run(self._remote.about())).fields)

    async def hasher(self) -> Hasher:
        """Return a copy of the hasher that encodes new vectors."""
        found: Hasher = await self._run(reading.hasher(self._remote))
        return found

    async def metric(self) -> str:
        """Return what distances are."""
        return (await self._run(self._remote.about())).metric

    async def stage(self) -> str:
        """Return the last stage of a search that does not name one."""
        return (await self._run(self._remote.about_now())).stage

    async def ids(self) -> npt.NDArray[Any]:
        """Return all ids, in the order that `Collection.ids` has."""
        return await self._run(reading.all_ids(self._remote))

    async def nbytes(self) -> int:
        """Return the bytes that the service holds in memory."""
        return int((await self.stats())["bytes_in_memory"])

    async def epochs(self) -> list[EpochInfo]:
        """Return the epochs that have rows, and the current one, which comes first."""
        return await self._run(reading.epochs(self._remote))

    async def add(
        self,
        vectors: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """See `Client.add`."""
        return await self._run(
            writing.add(
                self._remote,
                self._runs,
                vectors,
                ids=ids,
                metadata=metadata,
                progress=progress,
                replaces=False,
            )
        )

    async def add_codes(
        self, codes: Codes, *, ids: Any = None, corrections: Any = None, metadata: Any = None
    ) -> npt.NDArray[Any]:
        """See `Client.add_codes`."""
        return await self._run(
            writing.add_codes(
                self._remote,
                self._runs,
                codes,
                ids=ids,
                corrections=corrections,
                metadata=metadata,
            )
        )

    async def upsert(
        self,
        vectors: Any,
        *,
        ids: Any,
        metadata: Any = None,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """See `Client.upsert`."""
        writing.require_ids(ids)
        return await self._run(
            writing.add(
                self._remote,
                self._runs,
                vectors,
                ids=ids,
                metadata=metadata,
                progress=progress,
                replaces=True,
            )
        )

    async def remove(self, ids: Any) -> None:
        """See `Client.remove`."""
        await self._run(writing.remove(self._remote, ids))

    async def get(
        self, ids: Any = None, *, where: Any = None, limit: int | None = None, offset: int = 0
    ) -> Records:
        """See `Client.get`."""
        return await self._run(
            reading.get(self._remote, ids, where=where, limit=limit, offset=offset)
        )

    async def update_metadata(self, ids: Any, metadata: Any, *, replace: bool = False) -> None:
        """See `Client.update_metadata`."""
        await self._run(writing.update_metadata(self._remote, ids, metadata, replace=replace))

    async def search(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> Hits:
        """See `Client.search`."""
        return await self._run(
            reading.search(
                self._remote,
                queries,
                k,
                stage=stage,
                oversample=oversample,
                where=where,
                allow=allow,
                first=first,
                probes=probes,
            )
        )

    async def explain(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> SearchExplanation:
        """See `Client.explain`."""
        return await self._run(
            reading.explain(
                self._remote,
                queries,
                k,
                stage=stage,
                oversample=oversample,
                where=where,
                allow=allow,
                first=first,
                probes=probes,
            )
        )

    async def add_texts(
        self,
        texts: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        key: str = "text",
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """See `Client.add_texts`."""
        return await self._run(
            writing.add_texts(
                self._remote,
                self._runs,
                texts,
                ids=ids,
                metadata=metadata,
                key=key,
                progress=progress,
                replaces=False,
            )
        )

    async def upsert_texts(
        self,
        texts: Any,
        *,
        ids: Any,
        metadata: Any = None,
        key: str = "text",
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """See `Client.upsert_texts`."""
        writing.require_ids(ids)
        return await self._run(
            writing.add_texts(
                self._remote,
                self._runs,
                texts,
                ids=ids,
                metadata=metadata,
                key=key,
                progress=progress,
                replaces=True,
            )
        )

    async def search_texts(
        self,
        texts: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> Hits:
        """See `Client.search_texts`."""
        return await self._run(
            reading.search_texts(
                self._remote,
                texts,
                k,
                stage=stage,
                oversample=oversample,
                where=where,
                allow=allow,
                first=first,
                probes=probes,
            )
        )

    async def count(self, where: Any = None) -> int:
        """See `Client.count`."""
        return await self._run(reading.count(self._remote, where))

    async def contains(self, id: object) -> bool:
        """See `Client.contains`."""
        return await self._run(reading.contains(self._remote, id))

    async def verify(self) -> None:
        """See `Client.verify`."""
        await self._run(writing.do(self._remote, "verify"))

    async def learn(self, vectors: Any) -> bool:
        """See `Client.learn`."""
        return await self._run(writing.learn(self._remote, vectors))

    async def drift(self) -> Drift:
        """See `Client.drift`."""
        moved: Drift = await self._run(reading.drift(self._remote))
        return moved

    async def new_epoch(self) -> bool:
        """See `Client.new_epoch`."""
        return await self._run(writing.new_epoch(self._remote))

    async def reencode(self) -> int:
        """See `Client.reencode`."""
        return await self._run(writing.reencode(self._remote))

    async def compact(self) -> None:
        """See `Client.compact`."""
        await self._run(writing.do(self._remote, "compact"))

    async def checkpoint(self) -> None:
        """See `Client.checkpoint`."""
        await self._run(writing.do(self._remote, "checkpoint"))

    async def backup(self, name: str) -> str:
        """See `Client.backup`."""
        return await self._run(writing.backup(self._remote, name))

    async def stats(self) -> dict[str, Any]:
        """See `Client.stats`."""
        return await self._run(reading.stats(self._remote))

    async def export(
        self,
        path: str | PathLike[str],
        *,
        where: Any = None,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """See `Client.export`."""
        return await self._run(
            exporting.export(
                self._remote, path, where=where, overwrite=overwrite, progress=progress
            )
        )

    async def import_file(
        self,
        path: str | PathLike[str],
        *,
        upsert: bool = False,
        id: str | None = None,
        vector: str | None = None,
        text: str | None = None,
        embed: Callable[[list[str]], Any] | None = None,
        ids: str | PathLike[str] | None = None,
        metadata: str | PathLike[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """See `Client.import_file`."""
        return await self._run(
            writing.import_file(
                self._remote,
                self._runs,
                path,
                upsert=upsert,
                progress=progress,
                batch_rows=batch_rows,
                ids=ids,
                metadata=metadata,
                id=id,
                vector=vector,
                text=text,
                embed=embed,
            )
        )

    async def close(self) -> None:
        """Close the connections; what is asked of the client afterwards is an error. Closing twice
        is fine.
        """
        self._closed = True
        if not self._shares:
            await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        which = "" if self.name is None else f", collection={self.name!r}"
        return f"AsyncClient({self.url!r}{which}{', closed' if self._closed else ''})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self._connections.arguments(), "collection": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    async def _run(self, flow: Flow[T]) -> T:
        if self._closed:
            raise closed_client()
        return await self._connections.run(flow)
