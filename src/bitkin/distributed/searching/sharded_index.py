"""ShardedIndex: codes that the workers of a cluster hold, searched as one `FlatIndex` would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from distributed import Client, Future
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Ids
from bitkin.checks import flag, id_array, one_of, whole_number
from bitkin.choices import METRICS, MOST_NEIGHBORS
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.distributed.cluster import current_client
from bitkin.distributed.pieces import no_codes
from bitkin.distributed.searching.code_shard import VectorQueries
from bitkin.distributed.searching.code_tasks import (
    find_in_shards,
    find_within_radius,
    measure_in_shards,
)
from bitkin.distributed.searching.merging import (
    merge_nearest,
    merge_parts,
    merge_ragged,
    pad_nearest,
)
from bitkin.distributed.searching.opening import describe_codes, look_at_vectors
from bitkin.distributed.searching.placement import HeldShard, ShardGroup
from bitkin.distributed.searching.shard_set import NewShard, ShardSet
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.lengths import NO_LENGTHS
from bitkin.index.results import (
    Neighbors,
    RaggedNeighbors,
    join_ragged,
    no_neighbors,
    ragged_neighbors,
    require_fitting,
)
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.funnel import BYTES_PER_HIT, Funnel, steps_to
from bitkin.rescoring.row_lengths import warn_of_zero_queries

if TYPE_CHECKING:
    from bitkin.distributed.searching.sharded_collection import ShardedCollection

_BYTES_PER_PAIR = 12
_BYTES_FOUND_AT_ONCE = 1 << 26  # by one task
_QUERIES_AT_ONCE = 1 << 13
_VECTORS_AT_ONCE = 1 << 10


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
    >>> with Client(n_workers=2, processes=False, dashboard_address=":0") as client:
    ...     with bitkin.distributed.ShardedIndex.from_codes(folder, client) as index:
    ...         index
    ...         index.search(codes[2:], k=2).ids.tolist()
    ShardedIndex(3 rows, 3 × 1-bit, 2 shards)
    [[2, 1]]
    """

    def __init__(
        self,
        client: Client,
        new: Sequence[NewShard],
        *,
        mmap: bool = False,
        hasher: Hasher | None = None,
        metric: str | None = None,
    ) -> None:
        self._mmap = mmap
        self._hasher = hasher
        self._metric = metric
        self._lengths = look_at_vectors(client, new, hasher, metric, NO_LENGTHS)
        super().__init__(client, new)
        if hasher is not None:
            require_comparable(self.spec, self.fingerprint, no_codes(hasher), "hasher")

    @classmethod
    def from_codes(
        cls,
        paths: Any,
        client: Client | None = None,
        *,
        mmap: bool = False,
        hasher: Hasher | None = None,
        vectors: Any = None,
        metric: str | None = None,
    ) -> ShardedIndex:
        """Let the workers hold codes, a shard per file or part.

        Parameters
        ----------
        paths : path, list of paths, or parts that Dask computes
            Files of codes (`Codes.save`, `bitkin encode`, `ShardedCodes.to_parquet`) or of indexes,
            or folders of them, in order of name, part-9 before part-10. All workers must be able to
            read them, and this process need not. Or `Delayed` or futures of `Codes`, or what
            `bitkin.distributed.encode` returns. Ids of codes are row numbers, counted on over all
            shards; those of indexes are their own, and no two shards may share one.
        client : distributed.Client, optional
            By default the one that Dask knows.
        mmap : bool, default False
            Whether files of indexes are mapped: there at once, and memory is the system's to give
            back, but codes are not verified, and files must stay as they are.
        hasher : Hasher, optional
            What made the codes, for `search_vectors`.
        vectors : path or list of paths, optional
            Files of the vectors that were encoded, or folders of them: as many as of codes, row by
            row, which workers read where a search measures them.
        metric : {"l2", "cosine", "ip"}, optional
            What they are measured by, l2 by default. As in a collection, vectors whose lengths
            spoil the codes of this hasher under this metric are refused; some of every file show
            it.
        """
        client = current_client(client)
        mmap = flag(mmap, "mmap")
        if metric is not None:
            one_of(metric, "metric", METRICS)
        if hasher is not None:
            if not isinstance(hasher, Hasher):
                raise InvalidInputError(f"hasher must be a hasher, got {type(hasher).__name__}.")
            check_is_fitted(hasher)
        if vectors is None and metric is not None:
            raise InvalidInputError(
                f"metric is for vectors: give vectors too, or leave it out, got {metric!r}."
            )
        if vectors is not None:
            if hasher is None:
                raise InvalidInputError(
                    "hasher must be given with vectors: it encodes the queries."
                )
            metric = metric or "l2"
        new = describe_codes(client, paths, mmap, vectors)
        return cls(client, new, mmap=mmap, hasher=hasher, metric=metric)

    @classmethod
    def from_collections(cls, folders: Any, client: Client | None = None) -> ShardedCollection:
        """Let the workers open collections, a shard per folder: see `ShardedCollection`."""
        from bitkin.distributed.searching.sharded_collection import ShardedCollection

        return ShardedCollection.open(folders, client)

    def add_shards(self, paths: Any, *, vectors: Any = None) -> None:
        """Add shards, of whatever `from_codes` takes, with vectors where it was given some.
        Searches see all of them, or none before.

        Examples
        --------
        >>> import bitkin, pathlib, tempfile
        >>> from distributed import Client
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], 1)
        >>> codes[:2].save(folder / "monday.bitkin")
        >>> codes[2:].save(folder / "tuesday.bitkin")
        >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
        ...     index = bitkin.distributed.ShardedIndex.from_codes(folder / "monday.bitkin")
        ...     index.add_shards(folder / "tuesday.bitkin")
        ...     index.search(codes[2:], k=1).ids.tolist()
        [[2]]
        """
        self._require_open()
        if (vectors is None) != (self._metric is None):
            wanted = "None for" if self._metric is None else "given to"
            raise InvalidInputError(f"vectors must be {wanted} an index that was made like that.")
        new = describe_codes(self._client, paths, self._mmap, vectors)
        lengths = look_at_vectors(self._client, new, self._hasher, self._metric, self._lengths)
        self._hold(new)
        self._lengths = lengths

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
            return self._submit(find_in_shards, *asked.of(group), piece, reach, at=group.worker)

        def merge(parts: list[Future], piece: Codes) -> list[Future]:
            part_bytes = _BYTES_PER_PAIR * reach * len(piece)
            return merge_parts(self._client, parts, merge_nearest, reach, part_bytes=part_bytes)

        pieces = _cut(queries, at_once)
        found = [
            merge_nearest(parts, reach) for _, parts in self._ask(asked.shards, pieces, ask, merge)
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
            return self._submit(
                find_within_radius, *asked.of(group), piece, radius, at=group.worker
            )

        def merge(parts: list[Future], piece: Codes) -> list[Future]:
            # how much is found is not known before
            return merge_parts(self._client, parts, merge_ragged, part_bytes=np.inf)

        pieces = _cut(queries, _QUERIES_AT_ONCE) if asked.shards else []
        found = [merge_ragged(parts) for _, parts in self._ask(asked.shards, pieces, ask, merge)]
        if not found:
            return ragged_neighbors(len(queries), [])
        return join_ragged(found)

    def search_vectors(
        self,
        vectors: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int = 10,
        allow: npt.ArrayLike | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of every query that is a vector.

        With the vectors of the rows every worker measures those of its k · `oversample` · 10
        nearest by codes, and distances are exact, float64; only k rows per query travel. Without
        them, or with `stage="codes"`, this is `search` by the codes of the queries.

        Examples
        --------
        >>> import bitkin, numpy as np, pathlib, tempfile
        >>> from distributed import Client
        >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
        >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i, part in enumerate(np.split(X, 4)):
        ...     np.save(folder / f"part-{i}.npy", part)
        ...     hasher.encode(part).save(folder / f"part-{i}.bitkin")
        >>> with Client(n_workers=2, processes=False, dashboard_address=":0") as client:
        ...     index = bitkin.distributed.ShardedIndex.from_codes(
        ...         folder, hasher=hasher, vectors=folder)
        ...     found = index.search_vectors(X[[7, 700]], k=3)
        >>> found.ids[:, 0].tolist(), found.distances[:, 0].tolist()
        ([7, 700], [0.0, 0.0])
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        oversample = whole_number(oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        hasher, metric = self._hasher, self._metric
        if hasher is None:
            raise InvalidInputError("hasher must be given to from_codes to search by vectors.")
        possible = ("codes",) if metric is None else ("codes", "exact")
        last = possible[-1] if stage is None else one_of(stage, "stage", possible)
        vectors = lone_as_row(vectors)
        if last == "codes" or metric is None:
            return self.search(hasher.encode(vectors), k, allow=allow)
        rows = hasher.open_rows(vectors, "vectors")
        require_fitting(rows.n_rows or 1, k, BYTES_PER_HIT[last])
        asked = self._check(no_codes(hasher), allow)
        funnel = Funnel(steps_to(last, frozenset(possible), k, oversample), None, metric)

        def ask(group: ShardGroup, piece: VectorQueries) -> Future:
            return self._submit(
                measure_in_shards, *asked.of(group), piece, funnel, k, at=group.worker
            )

        def merge(parts: list[Future], piece: VectorQueries) -> list[Future]:
            part_bytes = BYTES_PER_HIT[last] * k * len(piece.codes)
            return merge_parts(self._client, parts, merge_nearest, k, part_bytes=part_bytes)

        pieces = (
            VectorQueries(batch, hasher.encode(batch))
            for _, batch in rows.batches(_VECTORS_AT_ONCE)
        )
        if not asked.shards:
            return no_neighbors(sum(len(piece.codes) for piece in pieces), k)
        found: list[Neighbors] = []
        for piece, parts in self._ask(asked.shards, pieces, ask, merge):
            nearest = pad_nearest(merge_nearest(parts, k), k, np.inf)
            warn_of_zero_queries(piece.vectors, nearest, metric, len(found) * _VECTORS_AT_ONCE)
            found.append(nearest)
        return Neighbors(*map(np.concatenate, zip(no_neighbors(0, k), *found, strict=True)))

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


def _cut(queries: Codes, at_once: int) -> Iterator[Codes]:
    return (queries[i : i + at_once] for i in range(0, len(queries), at_once))
