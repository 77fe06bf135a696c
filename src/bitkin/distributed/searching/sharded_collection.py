"""ShardedCollection: collections in folders that the workers of a cluster hold, searched as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from distributed import Client, Future

from bitkin.checks import whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.codes import Codes
from bitkin.collection.metadata.filters import parse_filter
from bitkin.collection.results import Hits
from bitkin.distributed.cluster import current_client, gather
from bitkin.distributed.searching.code_shard import header_of
from bitkin.distributed.searching.collection_shard import (
    as_padded_hits,
    count_rows,
    hasher_of,
    measure_folder,
    merge_found,
    open_collection,
    search_collections,
)
from bitkin.distributed.searching.loads import ShardLoad, load_in_turns
from bitkin.distributed.searching.merging import merge_parts
from bitkin.distributed.searching.placement import ShardGroup, spread_rows
from bitkin.distributed.searching.shard_set import NewShard, ShardSet
from bitkin.distributed.searching.sources import list_paths
from bitkin.errors import ClusterError
from bitkin.hashers.base import Hasher
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.index.results import Neighbors, require_fitting
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.row_lengths import warn_of_zero_queries
from bitkin.sets.members import is_matrix

_QUERIES_AT_ONCE = 1 << 10
_BYTES_PER_PAIR = 100  # about, with metadata


class ShardedCollection(ShardSet):
    """Collections in folders, opened by the workers of a Dask cluster and searched as one: every
    worker does the whole funnel over its rows, and only the k nearest of every query travel.

    Made by `ShardedIndex.from_collections`. All collections must have the same metric, kind of ids
    and hasher, and ids of their own. Each worker reads its folders as `Collection.open` does with
    `read_only`, so what others write there is seen by the next search.

    Examples
    --------
    >>> import bitkin, numpy as np, pathlib, tempfile
    >>> from distributed import Client
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, rows in (("a", range(500)), ("b", range(500, 1000))):
    ...     with bitkin.Collection.create(folder / name, hasher) as part:
    ...         _ = part.add(X[list(rows)], ids=list(rows))
    >>> with Client(n_workers=2, processes=False, dashboard_address=":0") as client:
    ...     both = bitkin.distributed.ShardedIndex.from_collections([folder / "a", folder / "b"])
    ...     hits = both.search(X[[7, 700]], k=3)
    >>> hits.ids[:, 0].tolist(), hits.distances[:, 0].tolist()
    ([7, 700], [0.0, 0.0])
    """

    def __init__(self, client: Client, new: list[NewShard]) -> None:
        super().__init__(client, new)
        shard = self._shards[0]
        task = client.submit(hasher_of, shard.future, pure=False)
        self._hasher: Hasher = gather(client, [task])[0]

    @classmethod
    def open(cls, folders: Any, client: Client | None = None) -> ShardedCollection:
        """Let the workers open collections, a shard per folder; all must be able to read it."""
        client = current_client(client)
        return cls(client, _open_all(client, folders, {}))

    @property
    def hasher(self) -> Hasher:
        """What encodes queries."""
        return self._hasher

    @property
    def metric(self) -> str:
        """What distances are."""
        return str(self._require_open()[0].header.settings["metric"])

    def add_shards(self, folders: Any) -> None:
        """Add collections. Searches see all of them, or none before."""
        self._require_open()
        self._hold(
            _open_all(self._client, folders, {one.worker: one.n_bytes for one in self.info()})
        )

    def count(self, where: Any = None) -> int:
        """Return how many rows there are now, or match `where`."""
        if where is not None:
            parse_filter(where)
        placed = self._place(self._require_open())
        tasks = [self._submit(count_rows, shard.future, where, at=at) for shard, at in placed]
        return sum(gather(self._client, tasks))

    def __len__(self) -> int:
        return self.count()

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
        """Return the k nearest rows of every query: nearest first, ties by lower id, or by the
        string that came first, in the order of the shards.

        All arguments are those of `Collection.search`. Every collection keeps as many rows for its
        later stages as a lone one would, so no less is found than in one collection of all rows.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        if where is not None:
            parse_filter(where)
        given = {
            "stage": stage,
            "oversample": oversample,
            "where": where,
            "allow": allow,
            "first": first,
            "probes": probes,
        }
        options = {name: value for name, value in given.items() if value is not None}
        shards = self._require_open()
        numbers = {shard.future.key: number for number, shard in enumerate(shards)}
        last = stage or shards[0].header.settings["stage"]
        metric = shards[0].header.settings["metric"]

        def ask(group: ShardGroup, piece: Any) -> Future:
            futures = [shard.future for shard in group.shards]
            which = [numbers[future.key] for future in futures]
            return self._submit(
                search_collections, futures, which, piece, k, options, at=group.worker
            )

        def merge(parts: list[Future], piece: Any) -> list[Future]:
            n_queries = len(piece) if isinstance(piece, Codes) else piece.shape[0]
            part_bytes = _BYTES_PER_PAIR * k * n_queries
            return merge_parts(self._client, parts, merge_found, k, part_bytes=part_bytes)

        farther: Any = self.spec.n_symbols + 1 if last == "codes" else np.inf
        pieces = self._open_queries(queries, k, by_codes=last == "codes")
        found: list[Hits] = []
        for piece, parts in self._ask(shards, pieces, ask, merge):
            best = merge_found(parts, k)
            if last != "codes":  # workers warn too, where nobody reads it
                nearest = Neighbors(best.order, best.distances)
                warn_of_zero_queries(piece, nearest, metric, len(found) * _QUERIES_AT_ONCE)
            found.append(as_padded_hits(best, k, farther))
        return _join(found)

    def _open_queries(self, queries: Any, k: int, *, by_codes: bool) -> Iterator[Any]:
        """Yield checked queries in pieces; where codes are all that is asked, their codes."""
        hasher = self._hasher
        takes_sets = isinstance(hasher, MinHash) and not is_matrix(queries)
        if isinstance(queries, Codes) or takes_sets:
            codes = queries if isinstance(queries, Codes) else hasher.encode(queries)
            require_fitting(len(codes), k)
            # one piece at least, of which the workers say what is wrong with it
            for i in range(0, max(1, len(codes)), _QUERIES_AT_ONCE):
                yield codes[i : i + _QUERIES_AT_ONCE]
            return
        rows = hasher.open_rows(lone_as_row(queries), "queries")
        require_fitting(rows.n_rows or 1, k)
        is_empty = True
        for _, batch in rows.batches(_QUERIES_AT_ONCE):
            is_empty = False
            yield hasher.encode(batch) if by_codes else batch
        if is_empty:
            yield np.empty((0, hasher.n_features_in_), dtype=np.float32)


def _open_all(client: Client, folders: Any, held: dict[str, int]) -> list[NewShard]:
    """Return shards that are being opened, spread by what their folders hold."""
    paths = list_paths(folders, "folder")
    sizes = gather(client, [client.submit(measure_folder, path, pure=False) for path in paths])
    threads = dict(client.nthreads())
    if not threads:
        raise ClusterError("the cluster has no workers. Start some, and open the shards again.")
    workers = spread_rows(sizes, threads, held)
    loads = [
        ShardLoad(open_collection, (path, None), worker)
        for path, worker in zip(paths, workers, strict=True)
    ]
    shards = load_in_turns(client, loads, threads)
    headers = gather(client, [client.submit(header_of, shard, pure=False) for shard in shards])
    return [
        NewShard(header, open_collection, path, shard)
        for header, path, shard in zip(headers, paths, shards, strict=True)
    ]


def _join(found: list[Hits]) -> Hits:
    """Return the hits of all pieces of the queries."""
    if len(found) == 1:
        return found[0]
    metadata: list[list[dict[str, Any] | None]] | None = None
    if any(one.metadata is not None for one in found):
        metadata = []
        for one in found:  # a piece whose queries found nothing has none
            metadata += one.metadata or [[None] * one.ids.shape[1] for _ in one.ids]
    return Hits(
        np.concatenate([one.ids for one in found]),
        np.concatenate([one.distances for one in found]),
        metadata,
    )
