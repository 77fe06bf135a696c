"""The client holds little, however many rows there are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

import bitkin
from tests.distributed.few_bytes import BLOCK_ROWS, N_BLOCKS, made_block
from tests.limited import outcome_of


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_a_client_learns_from_and_encodes_three_times_the_rows_it_may_hold(
    tmp_path: Path, two_workers: Client
) -> None:
    path = tmp_path / "codes.bitkin"
    done = outcome_of("tests.distributed.few_bytes", two_workers.scheduler.address, path)
    assert done["bytes_of_rows"] > 3 * done["allowed"]
    codes, hasher = bitkin.load(path), bitkin.load(f"{path}.model")
    assert len(codes) == done["rows"] == N_BLOCKS * BLOCK_ROWS
    some = np.random.default_rng(0).integers(N_BLOCKS)
    rows = codes[int(some) * BLOCK_ROWS : (int(some) + 1) * BLOCK_ROWS]
    assert rows == hasher.encode(made_block(int(some)))
