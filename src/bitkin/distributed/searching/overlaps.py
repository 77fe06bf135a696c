"""Whether shards hold the same id: ranges are compared first, and ids only where ranges overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Client

from bitkin.arrays import Ids
from bitkin.distributed.cluster import block, gather
from bitkin.errors import DuplicateIdError

if TYPE_CHECKING:
    from bitkin.distributed.searching.placement import HeldShard

_IDS_AT_ONCE = 1 << 22  # compared by one task: 32 MB
_MOST_PAIRS = 16  # that are looked at closer


def require_disjoint(client: Client, shards: Sequence[HeldShard], n_before: int) -> None:
    """Raise where two shards hold the same id, and name both and the id. The first `n_before` are
    known to hold different ones.

    Ids travel between workers in chunks, and never to the client.
    """
    for overlapping in _overlapping(shards, n_before):
        low = min(shard.low for shard in overlapping)
        high = max(shard.high for shard in overlapping)
        n_ids = sum(shard.n_rows for shard in overlapping)
        width = -(-(high - low + 1) // -(-n_ids // _IDS_AT_ONCE))
        tasks = []
        for first in range(low, high + 1, width):
            last = min(high, first + width - 1)
            keys = [
                client.submit(_id_keys, shard.future, first, last, shard.first_id, pure=False)
                for shard in overlapping
            ]
            tasks.append(client.submit(_find_shared, keys, pure=False))
        for pairs in gather(client, tasks):
            for one, other, key in pairs:
                _require_different(client, overlapping[one], overlapping[other], key)


def _require_different(client: Client, one: HeldShard, other: HeldShard, key: int) -> None:
    """Raise unless the ids with this key differ, as those of strings may."""
    names = gather(
        client, [client.submit(_name_of, shard.future, key, pure=False) for shard in (one, other)]
    )
    if names[0] == names[1]:
        raise DuplicateIdError(
            f"shards must have ids of their own, {one.header.name} and {other.header.name} both "
            f"hold {names[0]!r}."
        )


def _overlapping(shards: Sequence[HeldShard], n_before: int) -> list[list[HeldShard]]:
    """Return the shards whose ranges of ids overlap, chain by chain; without chains of those alone
    that were there before.
    """
    new = {id(shard) for shard in shards[n_before:]}
    chains: list[list[HeldShard]] = []
    end = -1
    for shard in sorted(shards, key=lambda one: one.low):
        if shard.n_rows == 0:
            continue
        if chains and shard.low <= end:
            chains[-1].append(shard)
        else:
            chains.append([shard])
        end = max(end, shard.high)
    return [
        chain for chain in chains if len(chain) > 1 and any(id(shard) in new for shard in chain)
    ]


@block
def _id_keys(shard: Any, low: int, high: int, first_id: int) -> Ids:
    keys: Ids = shard.id_keys(low, high, first_id)
    return keys


@block
def _find_shared(keys: list[Ids]) -> list[tuple[int, int, int]]:
    """Return some keys that two of these hold, and the numbers of both."""
    every = np.concatenate(keys)
    owners = np.repeat(np.arange(len(keys)), [len(some) for some in keys])
    order = np.argsort(every, kind="stable")
    twice = np.flatnonzero(every[order][1:] == every[order][:-1])[:_MOST_PAIRS]
    ones, others = order[twice], order[twice + 1]
    return list(
        zip(owners[ones].tolist(), owners[others].tolist(), every[ones].tolist(), strict=True)
    )


@block
def _name_of(shard: Any, key: int) -> Any:
    return shard.name_of(key)
