"""Which worker gets which shard: even loads, few moves, and groups by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin import CodeSpec
from bitkin.distributed.searching.placement import (
    HeldShard,
    PlacedShard,
    cut_into_groups,
    moves_to_balance,
    rows_by_worker,
    spread_rows,
)
from bitkin.distributed.searching.sources import ShardHeader


class NamedFuture:
    """All that placement asks of a future."""

    def __init__(self, key: str) -> None:
        self.key = key


def held(n_rows: int, number: int, movable: bool = True) -> HeldShard:
    header = ShardHeader(f"shard {number}", n_rows, 0, CodeSpec(8), None)
    future: Any = NamedFuture(f"key {number}")
    return HeldShard(header, 0, future, load if movable else None, None)


def load() -> None:
    """What would load a shard."""


def test_shards_alike_are_dealt_out_evenly() -> None:
    places = spread_rows([100] * 8, {"a": 1, "b": 1}, {})
    assert sorted(places) == ["a"] * 4 + ["b"] * 4
    places = spread_rows([100] * 9, {"a": 1, "b": 2}, {})
    assert sorted(places) == ["a"] * 3 + ["b"] * 6


def test_empty_shards_are_dealt_out_too() -> None:
    assert sorted(spread_rows([0] * 6, {"a": 1, "b": 1, "c": 1}, {})) == list("aabbcc")


def test_what_is_held_already_counts() -> None:
    assert spread_rows([10, 10], {"a": 1, "b": 1}, {"a": 100}) == ["b", "b"]


@pytest.mark.parametrize("seed", range(5))
def test_the_fullest_has_at_most_one_shard_too_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(0, 1000, 40).tolist()
    workers = dict.fromkeys("abcdef", 1)
    loads = dict.fromkeys(workers, 0)
    for rows, place in zip(n_rows, spread_rows(n_rows, workers, {}), strict=True):
        loads[place] += rows
    assert max(loads.values()) - min(loads.values()) <= max(n_rows)


def test_balanced_shards_stay_and_a_new_worker_gets_its_share() -> None:
    shards = [held(100, i) for i in range(6)]
    placed = [PlacedShard(shard, "ab"[i % 2]) for i, shard in enumerate(shards)]
    assert moves_to_balance(placed, {"a": 1, "b": 1}) == []
    moves = moves_to_balance(placed, {"a": 1, "b": 1, "c": 1})
    assert [worker for _, worker in moves] == ["c", "c"]
    moved = {shard.future.key: worker for shard, worker in moves}
    after = [PlacedShard(one.shard, moved.get(one.shard.future.key, one.worker)) for one in placed]
    assert rows_by_worker(after) == {"a": 200, "b": 200, "c": 200}


def test_what_dask_computed_stays() -> None:
    placed = [PlacedShard(held(100, i, movable=False), "a") for i in range(4)]
    assert moves_to_balance(placed, {"a": 1, "b": 1}) == []


def test_a_worker_searches_in_as_many_groups_as_it_has_threads() -> None:
    shards = [held(rows, i) for i, rows in enumerate((50, 10, 10, 10, 10, 10, 7))]
    placed = [PlacedShard(shard, "a") for shard in shards[:6]]
    placed.append(PlacedShard(shards[6], None))  # it is being loaded again
    groups = cut_into_groups(placed, {"a": 2})
    assert sorted((group.worker or "", len(group.shards)) for group in groups) == [
        ("", 1),
        ("a", 1),
        ("a", 5),
    ]
    assert len(cut_into_groups(placed, {"a": 99})) == 7
