"""Workers that die, join and leave while codes on them are searched."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import bitkin
from bitkin import FlatIndex
from bitkin.distributed import ShardedIndex
from bitkin.errors import ClusterError
from tests.distributed.clusters import ANY_PORT
from tests.distributed.test_sharded_index import assert_same, random_codes, save_parts


@pytest.fixture
def mortals() -> Iterator[tuple[LocalCluster, Client]]:
    """A cluster of two processes that come back when they are killed, and its client."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=ANY_PORT,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


def kill_one(client: Client) -> str:
    """Kill the process of a worker that holds something, and return its address."""
    pids: dict[str, int] = client.run(os.getpid)
    victim = max(pids, key=lambda worker: len(client.has_what()[worker]))
    os.kill(pids[victim], signal.SIGKILL)
    return victim


def times_loaded(dask_scheduler: Any = None) -> dict[str, int]:
    """Count, in the log of the scheduler, how often each shard came into memory."""
    counts: dict[str, int] = {}
    for transition in dask_scheduler.transition_log:
        if transition[1] == "processing" and transition[2] == "memory":
            counts[transition[0]] = counts.get(transition[0], 0) + 1
    return counts


def test_a_lost_worker_costs_its_own_shards_alone(
    mortals: tuple[LocalCluster, Client], tmp_path: Path
) -> None:
    _, client = mortals
    rng = np.random.default_rng(1)
    codes = random_codes(rng, 4000, 64)
    save_parts(codes, list(range(500, 4000, 500)), tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    queries = random_codes(rng, 30, 64)
    index = ShardedIndex.from_codes(tmp_path / "codes", client)
    assert_same(index.search(queries, 12), flat.search(queries, 12))
    where = dict(client.who_has([shard.future for shard in index._shards]))
    assert {len(workers) for workers in where.values()} == {1}
    victim = kill_one(client)
    assert_same(index.search(queries, 12), flat.search(queries, 12))
    assert_same(index.search_radius(queries, 9), flat.search_radius(queries, 9))
    loaded = client.run_on_scheduler(times_loaded)
    for key, (worker,) in where.items():
        assert loaded[key] == (2 if worker == victim else 1)
    # the one that came back in its place gets its share
    client.wait_for_workers(2)
    index.rebalance()
    assert [one.n_rows for one in index.info()] == [2000, 2000]
    assert_same(index.search(queries, 12), flat.search(queries, 12))


def test_a_worker_lost_in_the_middle_of_searches_changes_no_answer(
    mortals: tuple[LocalCluster, Client], tmp_path: Path
) -> None:
    _, client = mortals
    rng = np.random.default_rng(2)
    codes = random_codes(rng, 60_000, 128)
    save_parts(codes, list(range(9000, 60_000, 9000)), tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    queries = random_codes(rng, 900, 128)
    truth = flat.search(queries, 15)
    index = ShardedIndex.from_codes(tmp_path / "codes", client)
    found: list[Any] = []
    failures: list[BaseException] = []
    killed = threading.Event()

    def search() -> None:
        try:
            while not killed.is_set():
                found.append(index.search(queries, 15))
            found.append(index.search(queries, 15))
        except BaseException as failure:  # noqa: BLE001  # told by the assertion below
            failures.append(failure)

    searching = [threading.Thread(target=search) for _ in range(2)]
    for thread in searching:
        thread.start()
    while len(found) < 3 and not failures:
        killed.wait(0.01)
    kill_one(client)
    killed.set()
    for thread in searching:
        thread.join()
    assert not failures
    assert len(found) >= 5
    for one in found:
        assert_same(one, truth)


def test_an_index_stays_open_while_what_a_dead_worker_held_is_loaded_again(
    mortals: tuple[LocalCluster, Client], tmp_path: Path
) -> None:
    _, client = mortals
    save_parts(random_codes(np.random.default_rng(4), 700, 64), [100, 350], tmp_path / "codes")
    index = ShardedIndex.from_codes(tmp_path / "codes", client)
    futures = [shard.future for shard in index._shards]
    kill_one(client)
    was_lost = False
    for _ in range(3_000_000):  # as fast as can be: it lasts for some milliseconds
        lost = any(future.status == "lost" for future in futures)
        assert len(index) == 700
        if was_lost and not lost:
            break
        was_lost |= lost
    assert was_lost


def test_a_file_that_was_gone_and_is_back_is_read_again(
    mortals: tuple[LocalCluster, Client], tmp_path: Path
) -> None:
    cluster, client = mortals
    rng = np.random.default_rng(3)
    codes = random_codes(rng, 90, 64)
    save_parts(codes, [40], tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    index = ShardedIndex.from_codes(tmp_path / "codes", client)
    (tmp_path / "codes").rename(tmp_path / "away")
    kill_one(client)
    with pytest.raises(
        OSError, match=r"cannot be read.* That was on worker tcp://.* all workers can"
    ):
        index.search(codes[:3], 4)
    (tmp_path / "away").rename(tmp_path / "codes")
    assert_same(index.search(codes[:3], 4), flat.search(codes[:3], 4))
    client.restart()
    with pytest.raises(ClusterError, match=r"were let go of, .* Open them again"):
        index.search(codes[:3], 4)
    assert cluster.workers


def test_collections_of_a_lost_worker_are_opened_again(
    mortals: tuple[LocalCluster, Client], tmp_path: Path
) -> None:
    _, client = mortals
    X = np.random.default_rng(4).standard_normal((200, 8)).astype(np.float32)
    hasher = bitkin.ProjectionHash(8, rotation="random").fit(X)
    names = [f"row {i}" for i in range(200)]
    one = bitkin.Collection.create(None, hasher, ids="str")
    one.add(X, ids=names)
    for i in range(4):
        rows = slice(50 * i, 50 * i + 50)
        with bitkin.Collection.create(tmp_path / f"{i}", hasher, ids="str") as part:
            part.add(X[rows], ids=names[rows])
    many = ShardedIndex.from_collections([tmp_path / f"{i}" for i in range(4)], client)
    truth = one.search(X[:20], 5, oversample=200)
    for _ in range(2):
        found = many.search(X[:20], 5, oversample=200)
        np.testing.assert_array_equal(found.ids, truth.ids)
        kill_one(client)
    many.close()


def test_searches_see_all_of_the_shards_that_are_added_or_none(
    two_workers: Client, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    codes = random_codes(rng, 400, 64)
    queries = codes[:6]
    truths = []
    flat = FlatIndex(codes.spec)
    for i in range(4):
        (tmp_path / f"{i}").mkdir()
        some = codes[100 * i : 100 * i + 100]
        some[:30].save(tmp_path / f"{i}" / "a.bitkin")
        some[30:].save(tmp_path / f"{i}" / "b.bitkin")
        flat.add(some)
        truths.append(flat.search(queries, 50))
    index = ShardedIndex.from_codes(tmp_path / "0", two_workers)
    found: list[Any] = []
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            found.append(index.search(queries, 50))

    searching = threading.Thread(target=search)
    searching.start()
    try:
        for i in range(1, 4):
            index.add_shards(tmp_path / f"{i}")
    finally:
        done.set()
        searching.join()
    found.append(index.search(queries, 50))
    which = [
        next(i for i, truth in enumerate(truths) if np.array_equal(one.ids, truth.ids))
        for one in found
    ]
    assert which == sorted(which)
    assert which[-1] == 3
