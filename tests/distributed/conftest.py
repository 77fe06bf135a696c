from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from tests.distributed.clusters import ANY_PORT


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Client]:
    """A client of two worker processes of one thread each. Do not kill them: make others for it."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=ANY_PORT,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def here() -> Iterator[Client]:
    """A client whose scheduler and two workers are threads of this process: quickly there."""
    with Client(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=ANY_PORT,
        silence_logs=logging.ERROR,
    ) as client:
        yield client
