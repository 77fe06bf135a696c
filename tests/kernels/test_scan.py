"""The scan's three ways to mark the rows of a block that are near enough mark the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from bitkin.kernels.blocks import BLOCK, pack_blocks_into, read_only
from bitkin.kernels.search import scan

N_WORDS = 2


@pytest.mark.parametrize("share_allowed", [None, 0.5, 0.02])
@pytest.mark.parametrize("limit", [0, 55, 64 * N_WORDS + 1])
def test_rows_of_a_block_are_marked_alike_in_three_ways(
    share_allowed: float | None, limit: int
) -> None:
    rng = np.random.default_rng(limit)
    rows = rng.integers(0, 2**64, (2 * BLOCK, 1, N_WORDS), dtype=np.uint64)
    query = rng.integers(0, 2**64, (1, N_WORDS), dtype=np.uint64)
    blocks = np.zeros((2, 1, N_WORDS, BLOCK), dtype=np.uint64)
    pack_blocks_into(read_only(rows), blocks, 0)
    allowed = rng.random(2 * BLOCK) < (1 if share_allowed is None else share_allowed)
    mask = np.packbits(allowed, bitorder="little").view(np.uint64)

    # the truth, for the second block
    distances = np.bitwise_count(rows[BLOCK:, 0] ^ query).sum(axis=1)
    near = (distances < limit) & allowed[BLOCK:]

    ps, ws = scan.block_widths(1, N_WORDS)
    block, given = read_only(blocks[1]), read_only(mask if share_allowed is not None else mask[:0])
    ways = []
    for way in ("few", "stored", "vectors"):
        lanes, marks = np.full(BLOCK, -1, dtype=np.int32), np.empty(BLOCK // 64, dtype=np.uint64)
        if way == "few":
            if share_allowed is None:
                continue
            found = scan._few_closer(block, query, limit, ps, ws, given, 1, lanes, marks)
        elif way == "stored":
            scan._block_distances_into(block, query, ps, ws, lanes)
            found = scan._stored_closer(lanes, limit, given, 1, marks)
        else:
            found = scan._any_closer(block, query, np.uint64(limit), ps, ws, given, 1, lanes, marks)
        ways.append(way)
        assert bool(found) == near.any(), way
        assert np.array_equal(np.unpackbits(marks.view(np.uint8), bitorder="little"), near), way
        assert np.array_equal(lanes[near], distances[near]), way
    assert "vectors" in ways
