"""Clients and workers: who does the work, with which bitkin, and what happens when it fails."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dask.array as da
import dask.bag
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client

import bitkin
from bitkin.distributed import cluster
from bitkin.errors import ClusterError, InvalidInputError
from bitkin.threads import run
from tests.distributed.clusters import ANY_PORT, without_workers

ELSEWHERE = """
import asyncio, sys
from distributed import Worker

async def main():
    async with Worker(sys.argv[1], nthreads=1, dashboard_address=":0") as worker:
        await worker.finished()

asyncio.run(main())
"""


def test_the_client_that_dask_knows_is_taken(two_workers: Client) -> None:
    assert cluster.current_client() is two_workers
    assert cluster.current_client(two_workers) is two_workers


def test_without_a_client_it_says_how_to_make_one() -> None:
    code = (
        "from bitkin.distributed.cluster import current_client\n"
        "try: current_client()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ClusterError There is no Dask client. Make one first")


def test_what_is_no_client_is_refused(two_workers: Client) -> None:
    with pytest.raises(InvalidInputError, match=r"client must be a distributed.Client, got a str"):
        cluster.current_client("tcp://there:8786")


def test_a_closed_client_is_refused() -> None:
    with Client(processes=False, n_workers=1, dashboard_address=ANY_PORT) as client:
        pass
    with pytest.raises(ClusterError, match="client is closed"):
        cluster.current_client(client)


def test_a_cluster_without_workers_is_refused() -> None:
    with (
        without_workers() as empty,
        Client(empty) as client,
        pytest.raises(ClusterError, match="has no workers"),
    ):
        cluster.current_client(client)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("raise ModuleNotFoundError('none here', name='bitkin')", "has no bitkin"),
        ("raise RuntimeError('half installed')", "cannot load bitkin"),
        ("", "has bitkin 0.0.9"),
    ],
)
def test_a_worker_without_this_bitkin_is_named(tmp_path: Path, start: str, found: str) -> None:
    # it stands before the package that is installed
    package = tmp_path / "bitkin"
    package.mkdir()
    (package / "__init__.py").write_text(start)
    (package / "_version.py").write_text("__version__ = '0.0.9'")
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)
    with (
        without_workers() as one,
        Client(one) as client,
    ):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        with subprocess.Popen(
            [sys.executable, str(script), one.scheduler_address],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as worker:
            try:
                client.wait_for_workers(1, timeout=60)
                (address,) = client.scheduler_info()["workers"]
                with pytest.raises(ClusterError) as refused:
                    cluster.current_client(client)
            finally:
                worker.kill()
    assert str(refused.value).startswith(f"Worker {address} {found}")
    assert "Install the same version on the scheduler and on every worker" in str(refused.value)


@pytest.mark.parametrize(
    ("version", "found"), [(None, "has no bitkin"), ("0.0.9", "has bitkin 0.0.9")]
)
def test_a_scheduler_without_this_bitkin_is_named(
    here: Client, monkeypatch: pytest.MonkeyPatch, version: str | None, found: str
) -> None:
    # it unpickles what is to be done, and would fail at that in Dask's own words
    monkeypatch.setattr(here, "run_on_scheduler", lambda *_: version)
    with pytest.raises(ClusterError, match=f"The scheduler at .* {found}.*on the scheduler and"):
        cluster.current_client(here)


@cluster.block
def _pieces_by_thread() -> int:
    import threading

    return len(set(run(lambda piece: threading.get_ident(), range(64))))


def test_a_block_works_in_its_own_thread_alone(two_workers: Client) -> None:
    assert two_workers.submit(_pieces_by_thread, pure=False).result() == 1


def _fail_for(number: int) -> int:
    if number == 3:
        raise InvalidInputError("rows must be finite, got nan at row 7, column 2.")
    return number


def test_results_come_in_order_with_progress(two_workers: Client) -> None:
    seen: list[Any] = []
    futures = [two_workers.submit(_fail_for, number) for number in (5, 4, 2)]
    found = cluster.gather(two_workers, futures, lambda done, of: seen.append((done, of)))
    assert found == [5, 4, 2]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_error_of_a_task_is_raised_as_it_is(two_workers: Client) -> None:
    futures = [two_workers.submit(_fail_for, number) for number in range(5)]
    with pytest.raises(InvalidInputError, match="got nan at row 7, column 2"):
        cluster.gather(two_workers, futures)


def test_a_task_is_sent_with_what_it_needs_alone(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = da.from_array(np.arange(600.0).reshape(60, 10), chunks=(10, -1)).to_delayed().ravel()
    scale = delayed(np.float64(2), pure=False, traverse=False)
    tasks = [delayed(np.multiply, pure=False)(block, scale) for block in blocks]
    sent: list[Any] = []
    compute = here.compute

    def watched(given: Any) -> Any:
        sent.append(given)
        return compute(given)

    monkeypatch.setattr(here, "compute", watched)
    found = np.concatenate(list(cluster.results_in_order(here, tasks, [scale])))
    np.testing.assert_array_equal(found, 2 * np.arange(600.0).reshape(60, 10))
    assert sent[0] == [scale]
    # the task, its block, and the name of what is there already
    assert [len(one.dask) for one in sent[1:]] == [3] * 6


def _slowly(block: Any) -> Any:
    time.sleep(0.1)
    return block


def test_nothing_is_done_after_an_interrupt_while_its_traceback_is_kept(here: Client) -> None:
    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    states = [delayed(_slowly, pure=False)(number) for number in range(200)]
    with pytest.raises(KeyboardInterrupt) as kept:
        cluster.merge_in_tree(here, states, operator.add, interrupt)
    require_idle(here)
    texts = dask.bag.from_sequence(map(str, range(200)), npartitions=200).map(_slowly)
    with pytest.raises(KeyboardInterrupt) as kept_too:
        bitkin.distributed.dedup(texts, progress=interrupt)
    require_idle(here)
    assert kept.traceback
    assert kept_too.traceback


def test_nothing_is_done_after_one_part_of_an_index_is_refused(here: Client) -> None:
    parts = [delayed(_slowly, pure=False)(number) for number in range(200)]
    with pytest.raises(InvalidInputError, match="must compute Codes, got int") as kept:
        bitkin.distributed.ShardedIndex.from_codes(parts, here)
    require_idle(here)
    assert kept.traceback


def require_idle(client: Client) -> None:
    """Raise unless nothing is left to do, or kept, much sooner than all would have been done."""
    tasks = client.cluster.scheduler.tasks
    deadline = time.monotonic() + 10
    while tasks and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not tasks
