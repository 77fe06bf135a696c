"""ShardSet: shards that the workers of a cluster hold, whatever they are searched for.

A shard is a future of a task that loads it. So Dask knows how to make it again: when a worker is
lost, its shards are loaded by others, and no other shard is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from distributed import Client, Future

from bitkin.closing import Closes
from bitkin.code_spec import CodeSpec
from bitkin.distributed.cluster import block, gather, wait_for
from bitkin.distributed.searching.overlaps import require_disjoint
from bitkin.distributed.searching.sources import ShardHeader, require_alike
from bitkin.errors import ClusterError, InvalidInputError


class Loading(NamedTuple):
    """A shard to come: what is known of it, and the function that loads it from its source."""

    header: ShardHeader
    function: Callable[..., Any]
    source: Any


class Loaded(NamedTuple):
    """A shard that Dask has computed, where it likes."""

    header: ShardHeader
    future: Future


@dataclass(frozen=True, eq=False)
class HeldShard:
    """A shard on a worker."""

    header: ShardHeader
    first_id: int
    """The id of its row 0, where ids are numbers of rows; else 0."""
    future: Future
    loading: Loading | None
    """None of what Dask computed."""

    @property
    def low(self) -> int:
        """The lowest id."""
        return self.header.low + self.first_id

    @property
    def high(self) -> int:
        """The highest id, below `low` where there is none."""
        return self.header.high + self.first_id


class WorkerShards(NamedTuple):
    """What one worker holds of an index."""

    worker: str
    n_shards: int
    n_rows: int
    n_bytes: int


class ShardSet(Closes):
    """Shards on workers: placed, counted, added and found again; how they are searched is left to
    the classes.
    """

    def __init__(self, client: Client, loadings: Sequence[Loading | Loaded]) -> None:
        self._client = client
        self._writer = threading.Lock()
        self._closed = False
        self._threads: dict[str, int] = {}
        self._shards: tuple[HeldShard, ...] = ()
        self._hold(loadings)

    @property
    def spec(self) -> CodeSpec:
        """The shape of the codes."""
        return self._shards[0].header.spec

    @property
    def fingerprint(self) -> str | None:
        """The hasher whose codes these are; None while unknown."""
        known = (shard.header.fingerprint for shard in self._shards)
        return next((one for one in known if one is not None), None)

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    def __len__(self) -> int:
        return sum(shard.header.n_rows for shard in self._shards)

    def __repr__(self) -> str:
        if self._closed:
            return f"{type(self).__name__}(closed)"
        shards = self._shards
        noun = "shard" if len(shards) == 1 else "shards"
        return f"{type(self).__name__}({len(self):,} rows, {self.spec}, {len(shards)} {noun})"

    def info(self) -> list[WorkerShards]:
        """Return what every worker holds: shards, rows and, about, bytes."""
        shards = self._require_open()
        held = self._shards_by_worker(shards)
        return [
            WorkerShards(
                worker,
                len(some),
                sum(shard.header.n_rows for shard in some),
                sum(shard.header.n_bytes for shard in some),
            )
            for worker, some in sorted(held.items())
            if worker
        ]

    def verify(self) -> None:
        """Check everything that can be checked, on the workers: raise for the first flaw of a
        shard, or of the file that it came from.
        """
        shards = self._require_open()
        gather(
            self._client,
            [
                self._submit(_verify, shard.future, at=where)
                for where, shard in self._places(shards)
            ],
        )

    def rebalance(self) -> None:
        """Spread the shards over the workers that there are now, such as those that have joined:
        those that move are loaded from their sources where they go. Searches go on meanwhile.
        """
        with self._writer:
            shards = self._require_open()
            moving = {
                shard.future.key: self._load(shard.loading, where)
                for shard, where in self._moves(shards)
                if shard.loading is not None
            }
            wait_for(self._client, list(moving.values()))
            self._shards = tuple(
                replace(shard, future=moving.get(shard.future.key, shard.future))
                for shard in shards
            )

    def close(self) -> None:
        """Let go of all shards; what is asked of the index afterwards is an error. Closing twice is
        fine.
        """
        with self._writer:
            self._closed = True
            # the last of each future releases what the workers hold
            self._shards = tuple(self._shards[:0])

    def _hold(self, loadings: Sequence[Loading | Loaded]) -> None:
        """Load shards, and let searches see them, all of them at once."""
        with self._writer:
            before = self._shards
            headers = [shard.header for shard in before] + [one.header for one in loadings]
            require_alike(headers)
            held: dict[str, int] = {}
            if before:
                for where, shard in self._places(before):
                    if where is not None:
                        held[where] = held.get(where, 0) + shard.header.n_rows
            places = self._spread([one.header for one in loadings], held)
            futures = [
                one.future if isinstance(one, Loaded) else self._load(one, where)
                for one, where in zip(loadings, places, strict=True)
            ]
            wait_for(self._client, futures)
            next_id = max((s.header.next_id + s.first_id for s in before), default=0)
            new = []
            for one, future in zip(loadings, futures, strict=True):
                first_id = 0 if one.header.own_ids else next_id
                next_id = max(next_id, first_id + one.header.next_id)
                loading = one if isinstance(one, Loading) else None
                new.append(HeldShard(one.header, first_id, future, loading))
            shards = (*before, *new)
            require_disjoint(self._client, shards, len(before))
            # one assignment: a search takes the shards before or those after
            self._shards = shards

    def _load(self, loading: Loading, where: str) -> Future:
        return self._submit(loading.function, loading.source, loading.header, at=where)

    def _submit(self, function: Callable[..., Any], *arguments: Any, at: str | None) -> Future:
        """Let a function run on a worker, or on another one where that is lost."""
        return self._client.submit(
            function,
            *arguments,
            workers=None if at is None else [at],
            allow_other_workers=at is not None,
            pure=False,
        )

    def _require_open(self) -> tuple[HeldShard, ...]:
        """Return the shards as they are now, each of which is there or is being loaded."""
        shards = self._shards
        if self._closed:
            raise InvalidInputError(
                f"the {type(self).__name__} is closed. Make another one of the same files."
            )
        if self._client.status != "running":
            raise ClusterError(
                f"the client of this {type(self).__name__} is {self._client.status}. Make a new "
                "distributed.Client, and open the shards again."
            )
        failed = [shard.future for shard in shards if shard.future.status == "error"]
        if failed:  # a file that was gone may be back
            self._client.retry(failed)
        if any(shard.future.status in ("cancelled", "lost") for shard in shards):
            raise ClusterError(
                f"the shards of this {type(self).__name__} were let go of, as when the cluster is "
                "restarted. Open them again."
            )
        return shards

    def _spread(self, headers: Sequence[ShardHeader], held: dict[str, int]) -> list[str]:
        """Return a worker for every shard, so that all hold about as many rows per thread; `held`
        are the rows that they hold already.
        """
        self._threads = threads = dict(self._client.nthreads())
        if not threads:
            raise ClusterError("the cluster has no workers. Start some, and open the shards again.")
        rows = {worker: held.get(worker, 0) for worker in sorted(threads)}
        shards = dict.fromkeys(rows, 0)
        places = [""] * len(headers)
        # the largest first; of workers with the same load the one with fewest shards
        for i in sorted(range(len(headers)), key=lambda i: -headers[i].n_rows):
            place = min(
                rows,
                key=lambda w: ((rows[w] + headers[i].n_rows) / threads[w], shards[w]),
            )
            rows[place] += headers[i].n_rows
            shards[place] += 1
            places[i] = place
        return places

    def _moves(self, shards: Sequence[HeldShard]) -> list[tuple[HeldShard, str]]:
        """Return the shards to load elsewhere, and where, so that no worker has more rows per
        thread than it must.
        """
        self._threads = threads = dict(self._client.nthreads())
        held: dict[str, list[HeldShard]] = {worker: [] for worker in sorted(threads)}
        for where, shard in self._places(shards):
            if where in held:
                held[where].append(shard)
        moves: dict[str, tuple[HeldShard, str]] = {}
        while True:
            load = {w: _count_rows(some) / threads[w] for w, some in held.items()}
            fullest, emptiest = max(load, key=lambda w: load[w]), min(load, key=lambda w: load[w])
            better = [
                shard
                for shard in held[fullest]
                if shard.loading is not None
                and load[emptiest] + shard.header.n_rows / threads[emptiest] < load[fullest]
                and shard.header.n_rows
            ]
            if not better:
                return list(moves.values())
            shard = max(better, key=lambda one: one.header.n_rows)
            held[fullest].remove(shard)
            held[emptiest].append(shard)
            moves[shard.future.key] = shard, emptiest

    def _places(self, shards: Sequence[HeldShard]) -> list[tuple[str | None, HeldShard]]:
        """Return every shard with a worker that holds it, None while it is being loaded again."""
        found = self._client.who_has([shard.future for shard in shards])
        return [(min(found.get(shard.future.key) or (), default=None), shard) for shard in shards]

    def _shards_by_worker(self, shards: Sequence[HeldShard]) -> dict[str, list[HeldShard]]:
        """Return the shards of every worker; under "" those that are being loaded again."""
        held: dict[str, list[HeldShard]] = {}
        for where, shard in self._places(shards):
            held.setdefault(where or "", []).append(shard)
        return held

    def _groups(self, shards: Sequence[HeldShard]) -> list[tuple[str | None, list[HeldShard]]]:
        """Return shards by what searches them: as many groups per worker as it has threads, each of
        about as many rows. A search costs a task per group, and one of Dask's takes milliseconds.
        """
        groups: list[tuple[str | None, list[HeldShard]]] = []
        for worker, some in self._shards_by_worker(shards).items():
            if not worker:
                groups += [(None, [shard]) for shard in some]
                continue
            if worker not in self._threads:
                self._threads = dict(self._client.nthreads())
            n_groups = min(len(some), self._threads.get(worker, 1))
            cut: list[list[HeldShard]] = [[] for _ in range(n_groups)]
            for shard in sorted(some, key=lambda one: -one.header.n_rows):
                min(cut, key=_count_rows).append(shard)
            groups += [(worker, group) for group in cut]
        return groups


def _count_rows(shards: Sequence[HeldShard]) -> int:
    return sum(shard.header.n_rows for shard in shards)


@block
def _verify(shard: Any) -> None:
    shard.verify()
