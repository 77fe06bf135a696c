"""The scan's ways to mark the rows of a block that are near enough mark the same ones, in tiles of
any width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bitkin.kernels.blocks import (
    BLOCK,
    move_rows_into,
    pack_tiles_into,
    read_only,
    tile_rows,
    unpack_rows_into,
    wide_tile_rows,
    zero_tiles,
)
from bitkin.kernels.search import scan

Words = npt.NDArray[np.uint64]


def random_words(rng: np.random.Generator, n: int, n_planes: int, n_words: int) -> Words:
    return rng.integers(0, 2**64, (n, n_planes, n_words), dtype=np.uint64)


def tiles_of(rows: Words) -> Words:
    tiles = zero_tiles(-(-len(rows) // BLOCK), *rows.shape[1:])
    pack_tiles_into(read_only(rows), tiles, 0)
    return read_only(tiles)


def distances_from(rows: Words, query: Words) -> npt.NDArray[np.int64]:
    differ = np.bitwise_or.reduce(rows ^ query, axis=1)
    counts: npt.NDArray[np.int64] = np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
    return counts


@pytest.mark.parametrize(("n_planes", "n_words"), [(1, 1), (2, 2), (1, 5), (3, 2), (1, 17)])
def test_rows_come_out_of_tiles_as_they_went_in(n_planes: int, n_words: int) -> None:
    rng = np.random.default_rng(n_words)
    rows = random_words(rng, BLOCK + 77, n_planes, n_words)
    tiles = zero_tiles(2, n_planes, n_words)
    # in pieces that end within a tile
    for first, last in ((0, 5), (5, 300), (300, len(rows))):
        pack_tiles_into(read_only(rows[first:last]), tiles, first)
    n_lanes = tile_rows(n_planes, n_words)
    assert tiles.shape == (2 * BLOCK // n_lanes, n_planes, n_words, n_lanes)
    for row in (0, 4, 5, 299, BLOCK, BLOCK + 76):
        assert np.array_equal(tiles[row // n_lanes, :, :, row % n_lanes], rows[row])

    wanted = rng.permutation(len(rows))[:100]
    out = np.empty((100, n_planes, n_words), dtype=np.uint64)
    unpack_rows_into(read_only(tiles), read_only(wanted), out)
    assert np.array_equal(out, rows[wanted])

    places, moved = rng.permutation(BLOCK)[:100], zero_tiles(1, n_planes, n_words)
    move_rows_into(read_only(tiles), read_only(wanted), moved, read_only(places))
    unpack_rows_into(read_only(moved), read_only(places), out)
    assert np.array_equal(out, rows[wanted])
    assert np.count_nonzero(moved) == np.count_nonzero(rows[wanted])


@pytest.mark.parametrize("words", [1, 4, 5, 8, 16, 32, 100])
def test_wide_tiles_are_no_larger_than_half_a_small_cache_where_that_is_possible(
    words: int,
) -> None:
    rows = wide_tile_rows(1, words)
    assert BLOCK % rows == 0
    assert rows % 64 == 0
    assert rows * words * 8 <= 16 << 10 or rows == 64
    assert rows == BLOCK or 2 * rows * words * 8 > 16 << 10


@pytest.mark.parametrize("n_words", [2, 6, 40])
@pytest.mark.parametrize("share_allowed", [None, 0.5, 0.02])
@pytest.mark.parametrize("near", [0, 0.2, 2])
def test_rows_of_a_block_are_marked_alike_in_all_ways(
    n_words: int, share_allowed: float | None, near: float
) -> None:
    rng = np.random.default_rng(n_words)
    rows, query = random_words(rng, 2 * BLOCK, 1, n_words), random_words(rng, 1, 1, n_words)[0]
    allowed = rng.random(2 * BLOCK) < (1 if share_allowed is None else share_allowed)
    mask = np.packbits(allowed, bitorder="little").view(np.uint64)

    # the truth, for the second block
    distances = distances_from(rows[BLOCK:], query)
    limit = 64 * n_words + 1 if near == 2 else int(np.quantile(distances, near))
    marked = (distances < limit) & allowed[BLOCK:]

    ps, ws = scan.block_widths(1, n_words)
    tiles, room = tiles_of(rows), scan.tile_room(1, n_words)
    given = read_only(mask if share_allowed is not None else mask[:0])
    source = tiles if tiles.shape[3] == BLOCK else room.wide_view
    place, width = scan._first_tile(tiles, 1, room.wide), source.shape[3]
    ways = {"few"} if share_allowed is not None else set()
    ways |= {"stored", "vectors"} if len(ws) == n_words else {"stored"}
    ways |= {"narrow"} if len(ws) == n_words and width != BLOCK else set()
    for way in ways:
        found, marks = np.full(BLOCK, -1, dtype=np.int32), np.empty(BLOCK // 64, dtype=np.uint64)
        hit = False
        if way == "few":
            hit = scan._few_closer(tiles, query, limit, ps, ws, given, 1, found, marks)
        if way == "narrow":
            hit = scan._narrow_closer(tiles, 1, query, limit, ps, ws, given, found, marks)
        for first in range(0, 0 if way in ("few", "narrow") else BLOCK, width):
            tile, word = source[place + first // width], (BLOCK + first) // 64
            lanes, bits = found[first : first + width], marks[first // 64 :]
            if way == "stored":
                scan._distances_into(tile, query, ps, ws, lanes)
                hit |= scan._stored_closer(lanes, width, limit, given, word, bits)
            else:
                far = np.uint64(limit)
                hit |= scan._any_closer(tile, query, far, ps, ws, given, word, lanes, bits)
        assert bool(hit) == marked.any(), way
        assert np.array_equal(np.unpackbits(marks.view(np.uint8), bitorder="little"), marked), way
        assert np.array_equal(found[marked], distances[marked]), way


@pytest.mark.parametrize(("n_planes", "n_words"), [(1, 1), (1, 4), (2, 3), (1, 16), (1, 32)])
def test_a_lone_query_asks_several_blocks_whether_any_row_is_closer(
    n_planes: int, n_words: int
) -> None:
    rng = np.random.default_rng(n_words)
    bs = scan.blocks_ahead(n_planes, n_words)
    rows = random_words(rng, (1 + len(bs)) * BLOCK, n_planes, n_words)
    query = random_words(rng, 1, n_planes, n_words)[0]
    rows[0] = query  # in the block before: not asked
    nearest = int(distances_from(rows[BLOCK:], query).min())
    tiles, (ps, ws) = tiles_of(rows), scan.block_widths(n_planes, n_words)
    for limit in (0, nearest, nearest + 1, 64 * n_words + 1):
        closer = scan._any_closer_ahead(tiles, 1, query, np.uint64(limit), ps, ws, bs)
        assert closer == (nearest < limit)
