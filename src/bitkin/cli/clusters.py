"""`--dask`: the cluster that a command runs on, and what is wrong with an address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bitkin.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

cluster_option = typer.Option(
    "--dask",
    metavar="ADDRESS",
    help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786; the work runs on its workers.",
    show_default=False,
)

_SECONDS = 5  # for a scheduler to answer
_LOGGERS = ("distributed", "distributed.client", "distributed.comm", "distributed.core")


@contextmanager
def open_cluster(address: str) -> Iterator[Client]:
    """Give a client of the scheduler at `address`, whose workers all have this bitkin, and close it
    afterwards; an address where no scheduler answers is a usage error.
    """
    from bitkin.distributed.loading import load_name

    connect, rpc = load_name("distributed", "Client"), load_name("distributed.core", "rpc")
    # Dask would also tell of a scheduler that is lost, by a traceback: errors say what is wrong
    with _dask_without_words():
        # Client waits for ever for what takes connections and never answers
        try:
            kind = asyncio.run(_kind_of(rpc, address))
            if kind != "Scheduler":
                raise ValueError(f"there is a {kind}")
            client: Client = connect(address, timeout=_SECONDS)
        except (OSError, ValueError, ImportError) as error:  # ImportError: an unknown protocol
            reason = f"{error}".partition("\n")[0] or f"no answer within {_SECONDS} s"
            raise typer.BadParameter(
                f"no Dask scheduler answers at {address!r} ({reason}). Give the address that the "
                "scheduler prints when it starts, such as tcp://10.0.0.1:8786.",
                param_hint="'--dask'",
            ) from None
        with client:
            client = _with_workers(client, address)
            try:
                yield client
            # what was asked of a scheduler that is gone is "cancelled", or its connection "closed"
            except (load_name("distributed.comm", "CommClosedError"), CancelledError) as error:
                raise _lost(address) from error
            except load_name("distributed", "KilledWorker") as error:
                raise ClusterError(
                    "Worker after worker died at the same task, as when it does not fit in their "
                    "memory. Their logs say why; give each more memory, or fewer threads."
                ) from error
            except ClusterError as error:
                raise (error if client.status == "running" else _lost(address)) from error


def _with_workers(client: Client, address: str) -> Client:
    """Return the client once there are workers, all of which have this bitkin."""
    from bitkin.distributed.cluster import current_client

    if not client.nthreads():
        raise ClusterError(
            f"The cluster at {address} has no workers. Start some: dask worker {address} "
            "--nworkers -1 --nthreads 1"
        )
    return current_client(client)


def _lost(address: str) -> ClusterError:
    return ClusterError(
        f"The connection to the scheduler at {address} was lost: it has stopped, or cannot be "
        "reached. See that it runs and has workers, and run the same command again."
    )


def as_workers_see(paths: Sequence[Path]) -> list[str]:
    """Return paths that do not depend on where a process was started."""
    return [str(path.absolute()) for path in paths]


async def _kind_of(rpc: Any, address: str) -> str:
    """Return what kind of Dask server answers."""

    async def ask() -> str:
        async with rpc(address, timeout=_SECONDS) as server:
            return str((await server.identity())["type"])

    return await asyncio.wait_for(ask(), _SECONDS)


@contextmanager
def _dask_without_words() -> Iterator[None]:
    """Keep Dask's own lines about connections from stderr: ours says what to do."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
