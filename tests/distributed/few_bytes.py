"""A process that learns from, and encodes, more rows than it may hold.

python -m tests.distributed.few_bytes tcp://scheduler:port codes.bitkin
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from distributed import Client

import bitkin
from bitkin.distributed.cluster import current_client

N_BLOCKS, BLOCK_ROWS, D = 16, 1 << 16, 64
MORE_BYTES = 80 << 20
"""That the process may take beyond what libraries and connections have taken."""


def made_block(number: int) -> npt.NDArray[np.float32]:
    """Return the rows of one block, 16 MB of them."""
    rng = np.random.default_rng(number)
    rows = rng.random((BLOCK_ROWS, D), dtype=np.float32)
    rows *= np.linspace(1.0, 0.1, D, dtype=np.float32)
    return rows


def made_rows() -> da.Array:
    """Return all rows, 256 MB, which are made where they are needed."""
    chunks = ((BLOCK_ROWS,) * N_BLOCKS, (D,))

    def make(block_info: Any = None) -> npt.NDArray[np.float32]:
        return made_block(block_info[None]["chunk-location"][0])

    return da.map_blocks(make, chunks=chunks, dtype=np.float32, meta=np.empty((0, D), np.float32))


def data_bytes() -> int:
    """Return the memory of its own that this process has."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if "VmData" in line).split()[1])


def main() -> None:
    address, path = sys.argv[1:]
    with Client(address) as client:
        current_client(client)
        # what comes with the first use: kernels, threads, connections
        few = made_rows()[:1000].rechunk((500, -1))
        bitkin.distributed.encode(
            bitkin.distributed.fit(bitkin.ProjectionHash(32, rotation="random"), few), few
        ).compute()
        most = data_bytes() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        X = made_rows()
        hasher = bitkin.distributed.fit(bitkin.ProjectionHash(32, rotation="random"), X)
        bitkin.distributed.encode(hasher, X).save_joined(path)
    hasher.save(f"{path}.model")
    print(json.dumps({"rows": X.shape[0], "bytes_of_rows": X.nbytes, "allowed": MORE_BYTES}))


if __name__ == "__main__":
    main()
