"""Which worker holds which shard, so that all have about as many rows per thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from distributed import Future

from bitkin.distributed.searching.sources import ShardHeader


@dataclass(frozen=True, eq=False)
class HeldShard:
    """A shard on a worker."""

    header: ShardHeader
    first_id: int
    """The id of its row 0, where ids are numbers of rows; else 0."""
    future: Future
    function: Any
    """What loads it from its source; None where Dask computed it."""
    source: Any

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.header.n_rows

    @property
    def low(self) -> int:
        """The lowest id."""
        return self.header.low + self.first_id

    @property
    def high(self) -> int:
        """The highest id, below `low` where there is none."""
        return self.header.high + self.first_id


class PlacedShard(NamedTuple):
    """A shard, and a worker that holds it, None while it is being loaded again."""

    shard: HeldShard
    worker: str | None


class ShardGroup(NamedTuple):
    """Shards that one task searches, and the worker that holds them."""

    shards: list[HeldShard]
    worker: str | None


def spread_rows(
    n_rows: Sequence[int], threads: Mapping[str, int], held: Mapping[str, int]
) -> list[str]:
    """Return a worker for every shard of so many rows, beside the rows that are held already."""
    rows = {worker: held.get(worker, 0) for worker in sorted(threads)}
    shards = dict.fromkeys(rows, 0)
    places = [""] * len(n_rows)
    # the largest first; of workers with the same load the one with fewest shards
    for i in sorted(range(len(n_rows)), key=lambda i: -n_rows[i]):
        loads = {w: ((rows[w] + n_rows[i]) / threads[w], shards[w]) for w in rows}
        place = min(loads, key=lambda w: loads[w])
        rows[place] += n_rows[i]
        shards[place] += 1
        places[i] = place
    return places


def rows_by_worker(placed: Sequence[PlacedShard]) -> dict[str, int]:
    """Return how many rows every worker holds."""
    rows: dict[str, int] = {}
    for shard, worker in placed:
        if worker is not None:
            rows[worker] = rows.get(worker, 0) + shard.n_rows
    return rows


def moves_to_balance(
    placed: Sequence[PlacedShard], threads: Mapping[str, int]
) -> list[tuple[HeldShard, str]]:
    """Return the shards to load elsewhere, and where, one after another from the worker with most
    rows per thread to the one with fewest, as long as that helps.
    """
    held: dict[str, list[HeldShard]] = {worker: [] for worker in sorted(threads)}
    for shard, worker in placed:
        if worker in held:
            held[worker].append(shard)
    moves: dict[Any, tuple[HeldShard, str]] = {}
    while True:
        load = {worker: _count_rows(some) / threads[worker] for worker, some in held.items()}
        fullest, emptiest = max(load, key=lambda w: load[w]), min(load, key=lambda w: load[w])
        better = [
            shard
            for shard in held[fullest]
            if shard.function is not None
            and shard.n_rows
            and load[emptiest] + shard.n_rows / threads[emptiest] < load[fullest]
        ]
        if not better:
            return list(moves.values())
        shard = max(better, key=lambda one: one.n_rows)
        held[fullest].remove(shard)
        held[emptiest].append(shard)
        moves[shard.future.key] = shard, emptiest


def cut_into_groups(placed: Sequence[PlacedShard], threads: Mapping[str, int]) -> list[ShardGroup]:
    """Return shards by what searches them: as many groups per worker as it has threads, each of
    about as many rows. A search costs a task per group, and each of Dask's takes milliseconds.
    """
    held: dict[str, list[HeldShard]] = {}
    groups = []
    for shard, worker in placed:
        if worker is None:  # searched wherever it is being loaded again
            groups.append(ShardGroup([shard], None))
        else:
            held.setdefault(worker, []).append(shard)
    for worker, some in held.items():
        cut: list[list[HeldShard]] = [[] for _ in range(min(len(some), threads.get(worker, 1)))]
        for shard in sorted(some, key=lambda one: -one.n_rows):
            min(cut, key=_count_rows).append(shard)
        groups += [ShardGroup(group, worker) for group in cut]
    return groups


def _count_rows(shards: Sequence[HeldShard]) -> int:
    return sum(shard.n_rows for shard in shards)
