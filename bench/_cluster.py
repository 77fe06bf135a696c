"""Clusters of this machine for benches: workers of one thread each, and what they cost."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from distributed import Client, LocalCluster, wait

import bitkin
from _tiny import TINY
from bitkin.distributed.cluster import block

_blocks: dict[tuple[int, int], npt.NDArray[np.float32]] = {}  # of this process, made once


@contextmanager
def workers(n: int) -> Iterator[Client]:
    """Give a client of `n` worker processes, which have their kernels."""
    with (
        LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=not TINY,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm)
        yield client


def cpu_seconds(client: Client) -> float:
    """Return the processor time that the workers have taken so far."""
    return float(sum(client.run(time.process_time).values()))


def held_bytes(client: Client) -> int:
    """Return the memory of all workers together."""
    return int(sum(client.run(own_bytes).values()))


def own_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def made_rows(number: int, n: int, d: int) -> npt.NDArray[np.float32]:
    """Return the rows of a block, by its number; variances fall as those of embeddings do."""
    rng = np.random.default_rng(number)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows *= np.geomspace(1.0, 0.05, d, dtype=np.float32)
    return rows


def cheap_rows(number: int, n: int, d: int) -> npt.NDArray[np.float32]:
    """Return rows of a block at hardly any cost: those of one block, with signs of its own."""
    if (n, d) not in _blocks:
        _blocks.clear()
        _blocks[n, d] = made_rows(0, n, d)
    signs = 1 - 2 * np.random.default_rng([1, number]).integers(0, 2, d).astype(np.float32)
    rows: npt.NDArray[np.float32] = _blocks[n, d] * signs
    return rows


def dask_rows(
    n: int, d: int, chunk: int, make: Callable[[int, int, int], Any] = made_rows
) -> da.Array:
    """Return rows that are made where they are needed."""
    sizes = [min(chunk, n - at) for at in range(0, n, chunk)]

    def make_block(block_info: Any = None) -> Any:
        number = block_info[None]["chunk-location"][0]
        return make(number, sizes[number], d)

    meta = np.empty((0, d), dtype=np.float32)
    return da.map_blocks(make_block, chunks=(tuple(sizes), (d,)), dtype=np.float32, meta=meta)


def persisted(client: Client, collection: Any) -> Any:
    """Return what workers hold of a collection once they have made it, spread evenly."""
    held = collection.persist()
    wait(held)
    return held


def timed(client: Client, work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds that some work took, the processor time of workers and this process, and
    its result.
    """
    cpu, own, start = cpu_seconds(client), time.process_time(), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return seconds, cpu_seconds(client) - cpu + time.process_time() - own, result


@block
def _warm() -> int:
    rows = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)
    hasher = bitkin.ProjectionHash(128, projection="random").fit(rows)
    index = bitkin.FlatIndex(hasher.spec_)
    index.add(hasher.encode(rows))
    index.search(hasher.encode(rows[:100]), 10)
    return os.getpid()
