"""`--dask`: a scheduler is found, or one line says what is wrong with the address."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import dask
import pytest
import typer
from distributed import Client, LocalCluster

from bitkin.cli import clusters
from bitkin.cli.clusters import open_cluster
from bitkin.errors import ClusterError, MissingExtraError
from tests.distributed.clusters import ANY_PORT, without_workers


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nonsense", "missing port number"),
        ("", "missing port number"),
        ("smoke://signals:1", "unknown address scheme 'smoke'"),
        ("tcp://127.0.0.1:1", "Timed out|no answer"),
    ],
)
def test_a_wrong_address_is_wrong_usage(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_SECONDS", 0.3)
    with pytest.raises(typer.BadParameter, match=reason) as refused, open_cluster(address):
        pass
    assert f"no Dask scheduler answers at {address!r}" in refused.value.message
    assert "tcp://10.0.0.1:8786" in refused.value.message


@contextmanager
def _who_never_answers() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        held = []

        def take() -> None:
            try:
                while True:
                    held.append(server.accept())
            except OSError:
                pass  # closed

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def test_what_takes_connections_and_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clusters, "_SECONDS", 0.3)
    with (
        _who_never_answers() as port,
        pytest.raises(typer.BadParameter, match="no Dask scheduler answers"),
        open_cluster(f"tcp://127.0.0.1:{port}"),
    ):
        pass


def test_a_worker_is_no_scheduler(two_workers: Client) -> None:
    address = next(iter(two_workers.scheduler_info()["workers"]))
    with pytest.raises(typer.BadParameter, match="there is a Worker"), open_cluster(address):
        pass


def test_a_scheduler_gives_a_client_that_is_closed_afterwards(two_workers: Client) -> None:
    assert two_workers.scheduler is not None
    with open_cluster(two_workers.scheduler.address) as client:
        assert client.submit(int, "7").result() == 7
    assert client.status == "closed"


def test_a_cluster_without_workers_is_told() -> None:
    with (
        without_workers() as empty,
        pytest.raises(ClusterError, match=r"no workers.* dask worker tcp://.* --nworkers"),
        open_cluster(empty.scheduler_address),
    ):
        pass


def test_without_dask_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[dask\]'"),
        open_cluster("tcp://127.0.0.1:1"),
    ):
        pass


def test_a_scheduler_that_is_lost_is_told_without_words_of_dask(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        LocalCluster(
            n_workers=1, processes=False, protocol="tcp", dashboard_address=ANY_PORT
        ) as cluster,
        pytest.raises(ClusterError, match=r"connection to the scheduler at tcp://.* was lost"),
        open_cluster(cluster.scheduler_address) as client,
    ):
        _lose_scheduler(cluster, client)
    assert "Traceback" not in caplog.text


def _lose_scheduler(cluster: LocalCluster, client: Client) -> None:
    unfinished = client.submit(time.sleep, 2)
    cluster.sync(cluster.scheduler.close)
    unfinished.result()


def test_a_task_that_kills_its_workers_is_told() -> None:
    with (
        LocalCluster(n_workers=1, dashboard_address=ANY_PORT) as cluster,
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(ClusterError, match=r"died at the same task.* memory"),
        open_cluster(cluster.scheduler_address) as client,
    ):
        client.submit(os._exit, 1).result()
