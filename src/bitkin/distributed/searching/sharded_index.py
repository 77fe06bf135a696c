"""ShardedIndex: codes that the workers of a cluster hold, searched as one `FlatIndex` would."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from distributed import Client, Future

from bitkin.arrays import Ids
from bitkin.checks import flag, id_array, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.distributed.cluster import block, current_client, gather
from bitkin.distributed.searching.code_shard import (
    CodeShard,
    describe_code_file,
    header_of,
    index_codes,
    load_code_shard,
)
from bitkin.distributed.searching.merging import (
    merge_in_tree,
    merge_nearest,
    merge_ragged,
    pad_nearest,
)
from bitkin.distributed.searching.placement import HeldShard, ShardGroup
from bitkin.distributed.searching.shard_set import NewShard, ShardSet
from bitkin.distributed.searching.sources import (
    CodeFile,
    computed_codes,
    list_code_files,
    list_paths,
)
from bitkin.index.results import (
    Neighbors,
    RaggedNeighbors,
    join_ragged,
    no_neighbors,
    ragged_neighbors,
    require_fitting,
)

if TYPE_CHECKING:
    from bitkin.distributed.searching.sharded_collection import ShardedCollection

_BYTES_PER_PAIR = 12
_BYTES_FOUND_AT_ONCE = 1 << 26  # by one task
_QUERIES_AT_ONCE = 1 << 13


class ShardedIndex(ShardSet):
    """Codes held by the workers of a Dask cluster; a search is that of one `FlatIndex` of all rows,
    equal in ids, distances, order and padding.

    Made by `from_codes`, of files that workers read; `from_collections` searches vectors. Any
    number of threads may search while shards are added. Shards of a worker that is lost are loaded
    again from their sources by others, and a search that was under way has its answer all the same.

    Notes
    -----
    A worker holds its shards in memory, the code and 8 bytes per row. Where Dask has to put them
    aside, they are read from their files again. What a search sends is queries to every worker, and
    from every worker at most k rows per query; the client gets k.

    Examples
    --------
    >>> import bitkin, pathlib, tempfile
    >>> from distributed import Client
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], bits_per_symbol=1)
    >>> codes[:2].save(folder / "part-0.bitkin")
    >>> codes[2:].save(folder / "part-1.bitkin")
    >>> with Client(n_workers=2, processes=False, dashboard_address=None) as client:
    ...     with bitkin.distributed.ShardedIndex.from_codes(folder, client) as index:
    ...         index
    ...         index.search(codes[2:], k=2).ids.tolist()
    ShardedIndex(3 rows, 3 × 1-bit, 2 shards)
    [[2, 1]]
    """

    def __init__(self, client: Client, new: Sequence[NewShard], mmap: bool) -> None:
        self._mmap = mmap
        super().__init__(client, new)

    @classmethod
    def from_codes(
        cls, paths: Any, client: Client | None = None, *, mmap: bool = False
    ) -> ShardedIndex:
        """Let the workers hold codes, a shard per file or part.

        Parameters
        ----------
        paths : path, list of paths, or parts that Dask computes
            Files of codes (`Codes.save`, `bitkin encode`) or of indexes, or folders of them, in
            order of name. All workers must be able to read them, and this process need not. Or
            `Delayed` or futures of `Codes`, such as what `bitkin.distributed.encode` returns.
            Ids of codes are row numbers, counted on over all shards; those of indexes are their
            own, and no two shards may share one.
        client : distributed.Client, optional
            By default the one that Dask knows.
        mmap : bool, default False
            Whether files of indexes are mapped: there at once, and memory is the system's to give
            back, but codes are not verified, and files must stay as they are.
        """
        client = current_client(client)
        mmap = flag(mmap, "mmap")
        return cls(client, _describe(client, paths, mmap), mmap)

    @classmethod
    def from_collections(cls, folders: Any, client: Client | None = None) -> ShardedCollection:
        """Let the workers open collections, a shard per folder: see `ShardedCollection`."""
        from bitkin.distributed.searching.sharded_collection import ShardedCollection

        return ShardedCollection.open(folders, client)

    def add_shards(self, paths: Any) -> None:
        """Add shards, of whatever `from_codes` takes. Searches see all of them, or none before.

        Examples
        --------
        >>> import bitkin, pathlib, tempfile
        >>> from distributed import Client
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], 1)
        >>> codes[:2].save(folder / "monday.bitkin")
        >>> codes[2:].save(folder / "tuesday.bitkin")
        >>> with Client(n_workers=1, processes=False, dashboard_address=None) as client:
        ...     index = bitkin.distributed.ShardedIndex.from_codes(folder / "monday.bitkin")
        ...     index.add_shards(folder / "tuesday.bitkin")
        ...     index.search(codes[2:], k=1).ids.tolist()
        [[2]]
        """
        self._require_open()
        self._hold(_describe(self._client, paths, self._mmap))

    def search(self, queries: Codes, k: int, *, allow: npt.ArrayLike | None = None) -> Neighbors:
        """Return the k nearest codes of every query, nearest first, ties by lower id.

        Where fewer than k can be returned, the rest is id −1 with distance `n_symbols + 1`. Empty
        rows are never returned and empty queries find nothing. `allow` lists the ids that may be
        returned; ids in it that are not in the index are passed over.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        asked = self._check(queries, allow)
        require_fitting(len(queries), k)
        farther = self.spec.n_symbols + 1
        n_rows = sum(shard.n_rows for shard in asked.shards)
        # no more columns than rows travel
        reach = min(k, n_rows)
        if not reach or not len(queries):
            return no_neighbors(len(queries), k, farther, np.int32)
        at_once = max(1, _BYTES_FOUND_AT_ONCE // (_BYTES_PER_PAIR * reach))
        at_once = min(at_once, _QUERIES_AT_ONCE)

        def ask(group: ShardGroup, piece: Any) -> Future:
            return self._submit(_nearest, *asked.of(group), piece, reach, at=group.worker)

        def merge(parts: list[Future], piece: Codes) -> list[Future]:
            part_bytes = _BYTES_PER_PAIR * reach * len(piece)
            return merge_in_tree(self._client, parts, merge_nearest, reach, part_bytes=part_bytes)

        pieces = _cut(queries, at_once)
        found = [
            merge_nearest(parts, reach) for parts in self._ask(asked.shards, pieces, ask, merge)
        ]
        ids, distances = map(np.concatenate, zip(*found, strict=True))
        return pad_nearest(Neighbors(ids, distances), k, farther)

    def search_radius(
        self, queries: Codes, radius: int, *, allow: npt.ArrayLike | None = None
    ) -> RaggedNeighbors:
        """Return all codes at most `radius` symbols away from every query, nearest first, ties by
        lower id.
        """
        radius = whole_number(radius, "radius", low=0)
        asked = self._check(queries, allow)
        radius = min(radius, self.spec.n_symbols)

        def ask(group: ShardGroup, piece: Any) -> Future:
            return self._submit(_within_radius, *asked.of(group), piece, radius, at=group.worker)

        def merge(parts: list[Future], piece: Codes) -> list[Future]:
            # how much is found is not known before
            return merge_in_tree(self._client, parts, merge_ragged, part_bytes=np.inf)

        pieces = _cut(queries, _QUERIES_AT_ONCE) if asked.shards else []
        found = [merge_ragged(parts) for parts in self._ask(asked.shards, pieces, ask, merge)]
        if not found:
            return ragged_neighbors(len(queries), [])
        return join_ragged(found)

    def _check(self, queries: Codes, allow: npt.ArrayLike | None) -> _Asked:
        """Refuse queries that cannot be compared with the rows; return the shards to ask."""
        shards = self._require_open()
        known = (shard.header.fingerprint for shard in shards)
        fingerprint = next((one for one in known if one is not None), None)
        require_comparable(
            shards[0].header.spec, fingerprint, require_codes(queries, "queries"), "queries"
        )
        if allow is None:
            return _Asked([shard for shard in shards if shard.n_rows], None)
        allowed = np.unique(id_array(allow, "allow", any_order=True))
        cuts = {}
        some = []
        for shard in shards:
            first = np.searchsorted(allowed, shard.low, side="left")
            last = np.searchsorted(allowed, shard.high, side="right")
            if first < last:
                some.append(shard)
                cuts[shard.future.key] = allowed[first:last]
        return _Asked(some, cuts)


class _Asked(NamedTuple):
    """The shards that a search asks, and what of each may be returned."""

    shards: list[HeldShard]
    allowed: dict[Any, Ids] | None
    """By the key of the shard; None is all of it."""

    def of(self, group: ShardGroup) -> tuple[list[Future], list[int], list[Ids] | None]:
        """Return what a task is told of some of the shards."""
        return (
            [shard.future for shard in group.shards],
            [shard.first_id for shard in group.shards],
            None if self.allowed is None else [self.allowed[s.future.key] for s in group.shards],
        )


def _describe(client: Client, paths: Any, mmap: bool) -> Sequence[NewShard]:
    """Return what is to be loaded, each described by a worker."""
    computed = computed_codes(paths)
    if computed is not None:
        # the codes themselves are let go of as soon as they are indexed
        shards = [
            client.submit(index_codes, part, f"part {i}", pure=False)
            for i, part in enumerate(client.compute(computed))
        ]
        headers = gather(client, [client.submit(header_of, one, pure=False) for one in shards])
        return [NewShard(header, future=one) for header, one in zip(headers, shards, strict=True)]
    [files] = gather(
        client, [client.submit(list_code_files, list_paths(paths, "file"), pure=False)]
    )
    sources = [CodeFile(os.fspath(file), mmap) for file in files]
    headers = gather(
        client, [client.submit(describe_code_file, source, pure=False) for source in sources]
    )
    return [
        NewShard(header, load_code_shard, source)
        for header, source in zip(headers, sources, strict=True)
    ]


def _cut(queries: Codes, at_once: int) -> Iterator[Codes]:
    return (queries[i : i + at_once] for i in range(0, len(queries), at_once))


@block
def _nearest(
    shards: list[CodeShard],
    first_ids: list[int],
    allowed: list[Ids] | None,
    queries: Codes,
    k: int,
) -> Neighbors:
    """Return the k nearest rows of every query among some shards."""
    reach = min(k, sum(shard.header.n_rows for shard in shards))
    found = [
        shard.nearest(
            queries,
            min(reach, shard.header.n_rows),
            None if allowed is None else allowed[i],
            first_ids[i],
        )
        for i, shard in enumerate(shards)
    ]
    return merge_nearest(found, reach)


@block
def _within_radius(
    shards: list[CodeShard],
    first_ids: list[int],
    allowed: list[Ids] | None,
    queries: Codes,
    radius: int,
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query among some shards."""
    return merge_ragged(
        [
            shard.within_radius(
                queries, radius, None if allowed is None else allowed[i], first_ids[i]
            )
            for i, shard in enumerate(shards)
        ]
    )
