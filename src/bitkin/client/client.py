"""Client: a collection of a service, used as one that is here."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from bitkin.client import exporting, reading, writing
from bitkin.client.connections import ClientSettings, Connections, check_name, closed_client
from bitkin.client.messages import Flow, T
from bitkin.client.remote import RemoteCollection
from bitkin.client.rows import IdRuns
from bitkin.closing import Closes
from bitkin.collection.results import EpochInfo, Hits, Records, SearchExplanation

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.base import Hasher
    from bitkin.hashers.projection.streams.drift import Drift

BATCH_ROWS = 10_000
"""Rows of a file that are read at a time, as `Collection.import_file` does."""


class Client(Closes):
    """A collection that a service holds, with the methods of `Collection`.

    It sends again what failed, where that does nothing twice; ids that are not given are made here.
    Any number of threads may use one client, which keeps its connections: make one, not one per
    request. Nothing is asked of the service before the first call.

    Parameters
    ----------
    url : str
        Address of the service, such as "http://localhost:8000", without /v1.
    token : str, optional
        A token of the service. It is sent with every request and never shown: give it over https,
        or within a network that you trust. A pickled client holds it.
    collection : str, optional
        Name of the collection; None where the service holds just one.
    timeout : float or None, default 30.0
        Seconds to wait for a connection, and for every part of an answer. What takes the service
        long by itself, such as `reencode`, `backup` and `export`, is waited for without an end.
    retries : int, default 4
        How often a request is sent again: where it cannot have arrived, where the service has no
        time (429 and 503, which say how long to wait), and where sending it twice does the same as
        once. The pauses between grow from a quarter of a second on.
    deadline : float, default 120.0
        Seconds after the first attempt in which others may begin.
    verify : bool or ssl.SSLContext, default True
        How certificates of https are checked.
    transport : httpx.BaseTransport, optional
        What sends requests, in the place of connections of its own.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> from bitkin.service import create_app, running
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> notes = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=16).fit(X))
    >>> with running(create_app(notes)) as url, bitkin.Client(url) as client:
    ...     ids = client.add(X, ids=range(1000), metadata=[{"n": i} for i in range(1000)])
    ...     hits = client.search(X[:2], k=3, where={"n": {"lt": 500}})
    ...     len(client), 7 in client, client.metric
    (1000, True, 'l2')
    >>> hits.ids[:, 0].tolist(), hits.metadata[1][0]
    ([0, 1], {'n': 1})
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
        self._connections = Connections(settings, transport)
        self._remote = RemoteCollection(settings.url, name, settings.policy)
        self._runs = IdRuns()
        self._shares = False
        self._closed = False

    def collection(self, name: str) -> Client:
        """Return a client for another collection of the service, on the same connections: closing
        it leaves those open, and closing this one closes them for both.
        """
        other = Client(self.url, collection=check_name(name))
        other._connections = self._connections
        other._remote = self._remote.named(name)
        other._shares = True
        return other

    def collections(self) -> list[str]:
        """Return the names of all collections of the service."""
        return self._run(writing.collections(self._remote))

    def create_collection(
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
    ) -> Client:
        """Make a collection, where the service holds a folder of them, and return a client for it.

        Parameters
        ----------
        name : str
            Letters, digits, dots, dashes and underscores.
        hasher : ProjectionHash, SignHash, WTAHash or MinHash, optional
            Fitted. One of `hasher`, `n_features`, `sample` and `embed` must be given.
        n_features : int, optional
            Length of the vectors: their codes come of random directions.
        sample : array, optional
            Some thousand vectors like those to come, from which the service learns directions.
        n_bits : int, optional
            Bits of a code, where the service makes the hasher.
        embed : bool, default False
            Whether rows are texts, of which the service makes vectors.
        vectors, metric, ids, fields, stage, oversample, index
            As for `Collection.create`; an index is given by name.
        """
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
        self._run(making)
        return self.collection(name)

    def drop_collection(self, name: str) -> None:
        """Delete a collection with all its rows, where the service holds a folder of them."""
        self._run(writing.drop_collection(self._remote, name))

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._remote.url

    @property
    def name(self) -> str | None:
        """Name of the collection; None for the only one of a service."""
        return self._remote.name

    @property
    def read_only(self) -> bool:
        """Whether this client may only read, because of its token or of the service."""
        return self._run(reading.read_only(self._remote))

    @property
    def fields(self) -> dict[str, str]:
        """Declared metadata: names and types."""
        return dict(self._run(self._remote.about()).fields)

    @property
    def hasher(self) -> Hasher:
        """A copy of the hasher that encodes new vectors."""
        found: Hasher = self._run(reading.hasher(self._remote))
        return found

    @property
    def metric(self) -> str:
        """What distances are."""
        return self._run(self._remote.about()).metric

    @property
    def stage(self) -> str:
        """The last stage of a search that does not name one."""
        return self._run(self._remote.about_now()).stage

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids, in the order that `Collection.ids` has."""
        return self._run(reading.all_ids(self._remote))

    @property
    def nbytes(self) -> int:
        """Bytes that the service holds in memory for codes, vectors, corrections and ids."""
        return int(self.stats()["bytes_in_memory"])

    @property
    def epochs(self) -> list[EpochInfo]:
        """The epochs that have rows, and the current one, which comes first."""
        return self._run(reading.epochs(self._remote))

    def add(
        self,
        vectors: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """Add vectors and return their ids: those given, or others that are made here.

        Takes what `Collection.add` takes, but for sets: arrays, CSR matrices, data frames,
        iterators of batches, paths, and codes. Vectors travel as float32.

        Rows are sent some megabytes at a time, and each request is a transaction: a file or an
        iterator needs no more memory than that. What is in memory is checked to its end before
        anything is sent. Where the service or an iterator fails on the way, the error says how many
        rows are there, and `progress` was called with their number after every request.

        Ids that are not given are whole numbers below 2**53, or strings of 32 characters: a run of
        consecutive ones from a start by chance, continued by later calls. A row that is there is
        never replaced: an id that is given and is there already is a DuplicateIdError, and one that
        is made here and is there already is made again. So a request may be sent twice, and its
        rows are there once.
        """
        return self._run(
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

    def add_codes(
        self, codes: Codes, *, ids: Any = None, corrections: Any = None, metadata: Any = None
    ) -> npt.NDArray[Any]:
        """Add codes that exist already, without their vectors, and return their ids as `add`
        does; see `Collection.add_codes`.
        """
        return self._run(
            writing.add_codes(
                self._remote,
                self._runs,
                codes,
                ids=ids,
                corrections=corrections,
                metadata=metadata,
            )
        )

    def upsert(
        self,
        vectors: Any,
        *,
        ids: Any,
        metadata: Any = None,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """Add vectors, replacing those whose ids are there already, with their metadata. Sent as
        `add` sends them: a search sees all rows of a request or none.
        """
        writing.require_ids(ids)
        return self._run(
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

    def remove(self, ids: Any) -> None:
        """Remove rows by their ids, or one by its id. An unknown id is an UnknownIdError, and
        nothing is removed, unless there are more ids than the service takes at once (100,000 by
        default): then the error says how many rows were removed before.
        """
        self._run(writing.remove(self._remote, ids))

    def get(
        self, ids: Any = None, *, where: Any = None, limit: int | None = None, offset: int = 0
    ) -> Records:
        """Return what is kept of rows, as `Collection.get` does. Many rows take several requests,
        between which others may write.
        """
        return self._run(reading.get(self._remote, ids, where=where, limit=limit, offset=offset))

    def update_metadata(self, ids: Any, metadata: Any, *, replace: bool = False) -> None:
        """Change the metadata of rows, as `Collection.update_metadata` does."""
        self._run(writing.update_metadata(self._remote, ids, metadata, replace=replace))

    def search(
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
        """Return the k nearest rows of every query, as `Collection.search` does. Many queries take
        several requests, each of which sees the rows as they are then.
        """
        return self._run(
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

    def explain(
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
        """Search as `search` does, and return what every stage did in the service, and which one
        came first, and why.
        """
        return self._run(
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

    def add_texts(
        self,
        texts: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        key: str = "text",
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """Add texts, of which the service makes vectors (`bitkin serve --embed`), and return their
        ids. Every text is metadata too, under `key`; all else is as for `add`.
        """
        return self._run(
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

    def upsert_texts(
        self,
        texts: Any,
        *,
        ids: Any,
        metadata: Any = None,
        key: str = "text",
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[Any]:
        """Add texts as `add_texts` does, replacing rows whose ids are there already."""
        writing.require_ids(ids)
        return self._run(
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

    def search_texts(
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
        """Return the k nearest rows of every text, of which the service makes a vector."""
        return self._run(
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

    def count(self, where: Any = None) -> int:
        """Return how many rows there are, or match `where`."""
        return self._run(reading.count(self._remote, where))

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, id: object) -> bool:
        return self.contains(id)

    def contains(self, id: object) -> bool:
        """Return whether a row is there, as `id in client` does."""
        return self._run(reading.contains(self._remote, id))

    def verify(self) -> None:
        """Let the service check everything that can be checked; raise CorruptFileError on the
        first flaw.
        """
        self._run(writing.do(self._remote, "verify"))

    def learn(self, vectors: Any) -> bool:
        """Let the hasher of a stream learn from vectors, which are not added, and return whether a
        new epoch has begun. They are sent some megabytes at a time; where one request fails, those
        before it are learned all the same, and the error says of how many.
        """
        return self._run(writing.learn(self._remote, vectors))

    def drift(self) -> Drift:
        """Return how far the model that learns has moved away from the one that encodes new
        rows.
        """
        moved: Drift = self._run(reading.drift(self._remote))
        return moved

    def new_epoch(self) -> bool:
        """Let the model as it has learned until now encode new rows, and return whether it differs
        from the one that did.
        """
        return self._run(writing.new_epoch(self._remote))

    def reencode(self) -> int:
        """Let the service encode the rows of earlier epochs again, and return how many."""
        return self._run(writing.reencode(self._remote))

    def compact(self) -> None:
        """Give the space of removed rows back."""
        self._run(writing.do(self._remote, "compact"))

    def checkpoint(self) -> None:
        """Let the service write what it holds in memory to the folder."""
        self._run(writing.do(self._remote, "checkpoint"))

    def backup(self, name: str) -> str:
        """Let the service write a copy of the rows as they are now, and return where it lies, in
        the words of the service: among its backups, which `bitkin serve --backups FOLDER` keeps.
        """
        return self._run(writing.backup(self._remote, name))

    def stats(self) -> dict[str, Any]:
        """Return what there is to say of the collection, as `Collection.stats` does, and of its
        searches.
        """
        return self._run(reading.stats(self._remote))

    def export(
        self,
        path: str | PathLike[str],
        *,
        where: Any = None,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Write the rows as they are now, or those that match `where`, to a file here, and return
        how many they are. It is of JSON lines, .jsonl or .jsonl.gz, as `Collection.export` writes
        them, and takes its place when it is whole.
        """
        return self._run(
            exporting.export(
                self._remote, path, where=where, overwrite=overwrite, progress=progress
            )
        )

    def import_file(
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
        """Add the rows of a file that lies here, and return how many they are. Files and arguments
        are those of `Collection.import_file`; batches of more than some megabytes are sent in
        parts. Where one fails, the error says how many rows are there.
        """
        return self._run(
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

    def close(self) -> None:
        """Close the connections; what is asked of the client afterwards is an error. Closing twice
        is fine. The service does not notice.
        """
        self._closed = True
        if not self._shares:
            self._connections.close()

    def __repr__(self) -> str:
        which = "" if self.name is None else f", collection={self.name!r}"
        return f"Client({self.url!r}{which}{', closed' if self._closed else ''})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self._connections.arguments(), "collection": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _run(self, flow: Flow[T]) -> T:
        if self._closed:
            raise closed_client()
        return self._connections.run(flow)
