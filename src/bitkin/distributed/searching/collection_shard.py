"""CollectionShard: a collection in a folder as a worker holds it, and what it finds."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Flags, Ids
from bitkin.collection.collection import Collection
from bitkin.collection.results import Hits
from bitkin.distributed.cluster import block
from bitkin.distributed.folders import missing_on_worker
from bitkin.distributed.searching.sources import ShardHeader
from bitkin.errors import FileAccessError
from bitkin.hashers.base import Hasher

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class FoundInShards(NamedTuple):
    """What some shards found, m columns; nearest first, and of equal distances in order."""

    ids: npt.NDArray[Any]
    order: Ids
    """By which rows of equal distance go: their ids, or where they come in which shard."""
    distances: npt.NDArray[Any]
    metadata: list[list[dict[str, Any] | None]] | None


class CollectionShard:
    """A collection opened to read, on a worker, that knows its folder: a copy on another worker
    opens that again.
    """

    def __init__(
        self, path: str, header: ShardHeader | None = None, collection: Collection | None = None
    ) -> None:
        self.path = path
        self._header = header
        self._collection = collection
        self._lock = threading.Lock()

    @property
    def collection(self) -> Collection:
        """The collection, opened when it is first asked for."""
        with self._lock:
            if self._collection is None:
                try:
                    self._collection = Collection.open(self.path, read_only=True)
                except FileAccessError as error:
                    raise missing_on_worker(error) from None
            return self._collection

    @property
    def header(self) -> ShardHeader:
        """What was known of it when it was first opened."""
        if self._header is None:
            self._header = _header_of(self.path, self.collection)
        return self._header

    def nearest(self, queries: Any, k: int, number: int, options: dict[str, Any]) -> FoundInShards:
        """Return the k nearest rows of every query, of the shard with this number."""
        hits = self.collection.search(queries, k, **options)
        there = _not_padding(hits.ids)
        # no more columns than are used by any query
        m = int(there.sum(axis=1).max(initial=0))
        ids, distances = hits.ids[:, :m], hits.distances[:, :m]
        if ids.dtype.kind == "i":
            order = np.where(there[:, :m], ids, _HIGHEST)
        else:  # strings come in the order of the shards, and in a shard as it says
            order = np.where(there[:, :m], (number << 32) + np.arange(m), _HIGHEST)
        metadata = None if hits.metadata is None else [some[:m] for some in hits.metadata]
        return FoundInShards(ids, order.astype(np.int64), distances, metadata)

    def id_keys(self, low: int, high: int, first_id: int) -> Ids:
        """Return numbers from `low` up to `high` that stand for ids, ascending: the ids themselves,
        or 8 bytes made of each string.
        """
        ids = self.collection.ids
        keys = ids if ids.dtype.kind == "i" else np.fromiter(map(_key_of, ids), np.int64, len(ids))
        keys.sort()
        first = np.searchsorted(keys, low, side="left")
        return keys[first : np.searchsorted(keys, high, side="right")]

    def name_of(self, key: int) -> Any:
        """Return the id that has this key."""
        ids = self.collection.ids
        if ids.dtype.kind == "i":
            return key
        return next((name for name in ids if _key_of(name) == key), None)

    def verify(self) -> None:
        """Check everything that can be checked."""
        self.collection.verify()

    def __sizeof__(self) -> int:
        if self._collection is None:
            return 0 if self._header is None else self._header.n_bytes
        return self._collection.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return CollectionShard, (self.path, self._header)


@block
def measure_folder(path: str) -> int:
    """Return the bytes of the files in a folder: before it is opened, what tells how large it
    is.
    """
    try:
        return sum(one.stat().st_size for one in Path(path).iterdir() if one.is_file())
    except OSError as error:
        raise missing_on_worker(
            FileAccessError(f"{path} cannot be read: {error.strerror or error}.")
        ) from None


@block
def open_collection(path: str, header: ShardHeader | None) -> CollectionShard:
    """Return a shard with its collection open."""
    shard = CollectionShard(path, header)
    _ = shard.header, shard.collection
    return shard


@block
def hasher_of(shard: CollectionShard) -> Hasher:
    """Return what encodes queries for a collection."""
    return shard.collection.hasher


@block
def count_rows(shard: CollectionShard, where: Any) -> int:
    """Return how many rows match."""
    return shard.collection.count(where)


@block
def search_collections(
    shards: Sequence[CollectionShard],
    numbers: Sequence[int],
    queries: Any,
    k: int,
    options: dict[str, Any],
) -> FoundInShards:
    """Return the k nearest rows of every query in some shards, which have these numbers."""
    return merge_found(
        [
            shard.nearest(queries, k, number, options)
            for shard, number in zip(shards, numbers, strict=True)
        ],
        k,
    )


@block
def merge_found(parts: Sequence[FoundInShards], k: int) -> FoundInShards:
    """Return the best k of what several shards found."""
    if len(parts) == 1:
        return parts[0]
    ids, places, distances = (np.concatenate([part[i] for part in parts], axis=1) for i in range(3))
    order = np.lexsort((places, distances), axis=1)[:, :k]
    metadata = None
    if any(part.metadata is not None for part in parts):
        every = [_metadata_of(part) for part in parts]
        metadata = [
            [joined[column] for column in row]
            for row, joined in zip(
                order.tolist(),
                ([one for part in every for one in part[query]] for query in range(len(order))),
                strict=True,
            )
        ]
    ids, places, distances = (
        np.take_along_axis(array, order, axis=1) for array in (ids, places, distances)
    )
    return FoundInShards(ids, places, distances, metadata)


def as_padded_hits(found: FoundInShards, k: int, farther: Any) -> Hits:
    """Return what was found in k columns."""
    ids, _, distances, metadata = found
    missing = k - ids.shape[1]
    if missing > 0:
        columns = ((0, 0), (0, missing))
        padding: Any = -1 if ids.dtype.kind == "i" else None
        ids = np.pad(ids, columns, constant_values=padding)
        distances = np.pad(distances, columns, constant_values=farther)
        if metadata is not None:
            metadata = [[*some, *[None] * missing] for some in metadata]
    return Hits(ids, distances, metadata)


def _not_padding(ids: npt.NDArray[Any]) -> Flags:
    if ids.dtype.kind == "i":
        return np.asarray(ids >= 0)
    flat = [one is not None for one in ids.ravel().tolist()]
    return np.array(flat, dtype=bool).reshape(ids.shape)


def _metadata_of(part: FoundInShards) -> list[list[dict[str, Any] | None]]:
    """Return metadata for every place, empty where the shard has none at all."""
    if part.metadata is not None:
        return part.metadata
    return [[{} if place != _HIGHEST else None for place in row] for row in part.order.tolist()]


def _header_of(path: str, collection: Collection) -> ShardHeader:
    about = collection.stats()
    ids, hasher = collection.ids, collection.hasher
    header = ShardHeader(
        path,
        about["rows"],
        about["bytes_in_memory"],
        hasher.spec_,
        about["fingerprint"],
        low=_LOWEST,
        high=_HIGHEST,
        own_ids=True,
        settings={name: about[name] for name in ("metric", "ids", "stage")},
    )
    if ids.dtype.kind != "i" or not len(ids):
        return header
    return replace(header, low=int(ids[0]), high=int(ids[-1]))


def _key_of(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
