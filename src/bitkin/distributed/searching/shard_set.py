"""ShardSet: shards that the workers of a cluster hold, whatever they are searched for.

A shard is a future of a task that loads it. So Dask knows how to make it again: when a worker is
lost, its shards are loaded by others, and no other shard is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dask.sizeof import sizeof
from distributed import Client, Future

from bitkin.closing import Closes
from bitkin.code_spec import CodeSpec
from bitkin.distributed.cluster import block, gather, wait_for
from bitkin.distributed.searching.loads import ShardLoad, load_in_turns
from bitkin.distributed.searching.overlaps import require_disjoint
from bitkin.distributed.searching.placement import (
    HeldShard,
    PlacedShard,
    ShardGroup,
    cut_into_groups,
    moves_to_balance,
    rows_by_worker,
    spread_rows,
)
from bitkin.distributed.searching.sources import ShardHeader, require_alike
from bitkin.errors import ClusterError, InvalidInputError

_BYTES_IN_TASKS = 1 << 20  # of queries: more than that goes from worker to worker
_PIECES_AT_ONCE = 4  # of the queries, on their way


class NewShard(NamedTuple):
    """A shard to be held: what is known of it, the function that loads it from its source, and the
    future of it where that was begun.
    """

    header: ShardHeader
    function: Any = None
    source: Any = None
    future: Future | None = None


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

    def __init__(self, client: Client, new: Sequence[NewShard]) -> None:
        self._client = client
        self._writer = threading.Lock()
        self._closed = False
        self._threads: dict[str, int] = {}
        self._shards: tuple[HeldShard, ...] = ()
        self._hold(new)

    @property
    def spec(self) -> CodeSpec:
        """The shape of the codes."""
        return self._require_open()[0].header.spec

    @property
    def fingerprint(self) -> str | None:
        """The hasher whose codes these are; None while unknown."""
        known = (shard.header.fingerprint for shard in self._require_open())
        return next((one for one in known if one is not None), None)

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self._require_open())

    def __len__(self) -> int:
        return sum(shard.n_rows for shard in self._require_open())

    def __repr__(self) -> str:
        shards, name = self._shards, type(self).__name__
        if self._closed or not shards:
            return f"{name}(closed)"
        noun = "shard" if len(shards) == 1 else "shards"
        n_rows = sum(shard.n_rows for shard in shards)
        return f"{name}({n_rows:,} rows, {shards[0].header.spec}, {len(shards)} {noun})"

    def info(self) -> list[WorkerShards]:
        """Return what every worker holds: shards, rows and, about, bytes."""
        held: dict[str, WorkerShards] = {}
        for shard, worker in self._place(self._require_open()):
            if worker is not None:
                _, n_shards, n_rows, n_bytes = held.get(worker, (worker, 0, 0, 0))
                n_bytes += shard.header.n_bytes
                held[worker] = WorkerShards(worker, n_shards + 1, n_rows + shard.n_rows, n_bytes)
        return [held[worker] for worker in sorted(held)]

    def verify(self) -> None:
        """Check everything that can be checked, on the workers: raise for the first flaw of a
        shard, or of the file that it came from.
        """
        placed = self._place(self._require_open())
        tasks = [self._submit(_verify, shard.future, at=worker) for shard, worker in placed]
        gather(self._client, tasks)

    def rebalance(self) -> None:
        """Spread the shards over the workers that there are now, such as those that have joined:
        those that move are loaded from their sources where they go. Searches go on meanwhile.

        Shards that Dask computed stay where they are.
        """
        with self._writer:
            shards = self._require_open()
            threads = self._count_threads()
            moves = moves_to_balance(self._place(shards), threads)
            loads = [
                ShardLoad(shard.function, (shard.source, shard.header), worker)
                for shard, worker in moves
            ]
            loaded = load_in_turns(self._client, loads, threads)
            moved = {
                shard.future.key: replace(shard, future=future)
                for (shard, _), future in zip(moves, loaded, strict=True)
            }
            self._shards = tuple(moved.get(shard.future.key, shard) for shard in shards)

    def close(self) -> None:
        """Let go of all shards; what is asked of the index afterwards is an error. Closing twice is
        fine.
        """
        with self._writer:
            self._closed = True
            self._shards = ()  # the last of each future releases what a worker holds

    def _hold(self, new: Sequence[NewShard]) -> None:
        """Load shards, and let searches see them, all of them at once."""
        with self._writer:
            before = self._require_open()  # which may have been closed meanwhile
            headers = [*(shard.header for shard in before), *(one.header for one in new)]
            require_alike(headers)
            futures = self._load(new, rows_by_worker(self._place(before)))
            next_id = max((one.first_id + one.header.next_id for one in before), default=0)
            shards = list(before)
            for one, future in zip(new, futures, strict=True):
                first_id = 0 if one.header.own_ids else next_id
                next_id = max(next_id, first_id + one.header.next_id)
                shards.append(HeldShard(one.header, first_id, future, one.function, one.source))
            require_disjoint(self._client, shards, len(before))
            # one assignment: a search takes the shards before or those after
            self._shards = tuple(shards)

    def _load(self, new: Sequence[NewShard], held: dict[str, int]) -> list[Future]:
        """Return shards once they are loaded, beside the rows that workers hold already."""
        threads = self._count_threads()
        todo = [one for one in new if one.future is None]
        workers = spread_rows([one.header.n_rows for one in todo], threads, held)
        loads = [
            ShardLoad(one.function, (one.source, one.header), worker)
            for one, worker in zip(todo, workers, strict=True)
        ]
        loaded = iter(load_in_turns(self._client, loads, threads))
        begun = [next(loaded) if one.future is None else one.future for one in new]
        wait_for(self._client, begun)
        return begun

    def _submit(self, function: Callable[..., Any], *arguments: Any, at: str | None) -> Future:
        """Let a function run on a worker, or on another one where that is lost."""
        if at is None:
            return self._client.submit(function, *arguments, pure=False)
        return self._client.submit(
            function, *arguments, workers=[at], allow_other_workers=True, pure=False
        )

    def _require_open(self) -> tuple[HeldShard, ...]:
        """Return the shards as they are now, each of which is there or is being loaded."""
        shards, name = self._shards, type(self).__name__
        if self._closed:
            raise InvalidInputError(f"the {name} is closed. Make another one of the same files.")
        if self._client.status != "running":
            raise ClusterError(
                f"the client of this {name} is {self._client.status}. Make a new "
                "distributed.Client, and open the shards again."
            )
        failed = [shard.future for shard in shards if shard.future.status == "error"]
        if failed:  # a file that was gone may be back
            self._client.retry(failed)
        # "lost" is what lay on a dead worker, for as long as it takes to load it again
        if any(shard.future.status == "cancelled" for shard in shards):
            raise ClusterError(
                f"the shards of this {name} were let go of, as when the cluster is restarted. Open "
                "them again."
            )
        return shards

    def _count_threads(self) -> dict[str, int]:
        """Return how many threads every worker has; raise where there is none."""
        threads: dict[str, int] = dict(self._client.nthreads())
        if not threads:
            raise ClusterError("the cluster has no workers. Start some, and open the shards again.")
        self._threads = threads
        return threads

    def _place(self, shards: Sequence[HeldShard]) -> list[PlacedShard]:
        """Return every shard with a worker that holds it, as the scheduler knows."""
        if not shards:
            return []
        found = self._client.who_has([shard.future for shard in shards])
        return [
            PlacedShard(shard, min(found.get(shard.future.key) or (), default=None))
            for shard in shards
        ]

    def _group(self, shards: Sequence[HeldShard]) -> list[ShardGroup]:
        """Return shards by what searches them."""
        placed = self._place(shards)
        if any(worker not in self._threads for _, worker in placed if worker is not None):
            self._count_threads()
        return cut_into_groups(placed, self._threads)

    def _ask(
        self,
        shards: Sequence[HeldShard],
        pieces: Iterable[Any],
        ask: Callable[[ShardGroup, Any], Future],
        merge: Callable[[list[Future], Any], list[Future]],
    ) -> Iterator[tuple[Any, list[Any]]]:
        """Yield one piece of the queries after another, with what is left to merge for it; a few
        are on their way at a time.
        """
        todo = iter(pieces)
        waiting: deque[tuple[Any, list[Future], list[Future]]] = deque()
        try:
            while True:
                while len(waiting) < _PIECES_AT_ONCE and (piece := next(todo, None)) is not None:
                    groups = self._group(shards)
                    given = piece
                    if len(groups) * sizeof(piece) > _BYTES_IN_TASKS:
                        # by a task, so that Dask can make it again too
                        given = self._submit(_pass_on, piece, at=None)
                    found = [ask(group, given) for group in groups]
                    waiting.append((piece, found, merge(found, piece)))
                if not waiting:
                    return
                parts = self._client.gather(waiting[0][2])
                piece = waiting.popleft()[0]
                yield piece, parts
        finally:  # whatever ends it early takes back what nobody waits for
            if waiting:
                self._client.cancel(
                    [one for _, *futures in waiting for some in futures for one in some]
                )


@block
def _pass_on(value: Any) -> Any:
    return value


@block
def _verify(shard: Any) -> None:
    shard.verify()
