"""Symbol distances over tiles of codes: all of them, the k smallest, or all within a radius.

The distance of two codes is popcount(OR over planes of (a ^ b)). `ps`, `ws` and `bs` are tuples
whose lengths, not values, matter: they fix the number of planes, of words and of blocks taken in
one step at compile time, so LLVM unrolls those loops and vectorizes the one over the lanes of a
tile. A block of wide codes, whose tiles are narrow, is copied to wide tiles in the first-level
cache before its distances are computed, for many queries; a lone one takes the narrow ones as they
lie in memory.

The k smallest are kept by counting: distances are small integers, so a histogram of the candidates
taken so far gives the exact k-th distance at every moment, whatever k is. Candidates go to a buffer
of more than k places, which is cut back to the best k when it is full. `by_id` says that ids may
come out of order, so that equal distances must be settled by id; without it the first of equals has
the lowest id and later ones are never candidates.

Where k is large, most candidates would be taken early and fall out later. Then a sample of the
blocks says first how far the k-th is about, and lanes within that are marked by vectors, a bit
each: only what is marked is looked at.

A kernel does everything from the first block to the sorted answer in one call where all rows are in
one segment: to call three, and to hand over what they share, takes longer than to scan a few
thousand codes. Over several segments `first` and `last` say which call begins and which one ends.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import NARROW, is_allowed, popcount, widen_tiles_into
from bitkin.kernels.blocks import BLOCK, read_only, tile_rows, wide_tile_rows

MAX_UNROLLED = 32  # words a turn; more would only make the compiler slow
FEW_LANES = 32  # with fewer candidates in a block, going to each beats going over all 512
_U0, _U1, _U63 = np.uint64(0), np.uint64(1), np.uint64(63)
_NO_ID = np.int64(2**63 - 1)


class TileRoom(NamedTuple):
    """Room to work in on one block."""

    wide: npt.NDArray[np.uint64]
    """[512 / M, P, W, M]: a block of narrow tiles, copied; none where tiles are as wide as a
    block.
    """
    wide_view: npt.NDArray[np.uint64]
    """The same, read-only, as the tiles of an index are: kernels for them are compiled once."""
    lanes: npt.NDArray[np.int32]
    """[512]: distances of the tile at hand."""
    marks: npt.NDArray[np.uint64]
    """[8]: lanes of the tile at hand that are of interest, a bit each."""


class ScanState(NamedTuple):
    """The k best of Q queries during a scan, and room to sort. D = 64·W + 1 distances are
    possible: sized by words, not symbols, so that no file content can step outside.
    """

    numbers: npt.NDArray[np.int64]
    """[Q, 4 + room]: candidates kept; the k-th distance so far (the largest possible while there
    are fewer than k); how many are that close; the largest id still of use at exactly that
    distance. Then the ids of the candidates, in the order they came.
    """
    counts: npt.NDArray[np.int32]
    """[Q, 1 + D + room]: the limit, below which distances are of interest; candidates kept, by
    distance; then the distance of each.
    """
    spare: npt.NDArray[np.int64]
    """[room]: to sort in."""


def room_for(k: int) -> int:
    """Return how many candidates of a query are kept."""
    return 2 * k + 64


def scan_state(n_queries: int, k: int, n_words: int) -> ScanState:
    """Return the state of a scan, which kernels clear before the first block."""
    room = room_for(k)
    return ScanState(
        numbers=np.empty((n_queries, 4 + room), dtype=np.int64),
        counts=np.empty((n_queries, 64 * n_words + 2 + room), dtype=np.int32),
        spare=np.empty(room, dtype=np.int64),
    )


def tile_room(n_planes: int, n_words: int) -> TileRoom:
    """Return room to work in on codes of `n_planes` planes of `n_words` words."""
    copied = tile_rows(n_planes, n_words) < BLOCK
    rows = wide_tile_rows(n_planes, n_words)
    wide = np.empty((BLOCK // rows if copied else 0, n_planes, n_words, rows), dtype=np.uint64)
    return TileRoom(
        wide,
        read_only(wide),
        lanes=np.empty(BLOCK, dtype=np.int32),
        marks=np.empty(BLOCK // 64, dtype=np.uint64),
    )


@kernel
def _clear_state(numbers, counts):
    """Set the state to that before the first block."""
    most = counts.shape[1] - numbers.shape[1] + 2
    for q in range(len(counts)):
        numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3] = 0, most, 0, _NO_ID
        counts[q, 0] = most + 1
        for distance in range(most + 1):
            counts[q, 1 + distance] = 0


@cache
def blocks_ahead(n_planes: int, n_words: int) -> tuple[int, ...]:
    """Return `bs`: blocks that a lone query takes at once.

    They make four streams from memory: one alone stalls at every page, and more than eight, 4 KB
    apart, would not fit into a first-level cache of eight ways. Of codes of up to four words every
    word is a stream.
    """
    words = n_planes * n_words
    if tile_rows(n_planes, n_words) < BLOCK:
        return (0,) * max(1, min(4, MAX_UNROLLED // words))
    return (0,) * max(1, 4 // words)


@cache
def block_widths(n_planes: int, n_words: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return `ps` and `ws` for codes of `n_planes` planes of `n_words` words."""
    most = max(1, MAX_UNROLLED // n_planes)
    turn = max(words for words in range(1, min(most, n_words) + 1) if n_words % words == 0)
    return (0,) * n_planes, (0,) * turn


@inlined_kernel
def _lane_distance(tile, query, first, i, ps, ws):
    """Distance of lane `i` of uint64[P, W, L] over the words `first` … `first + len(ws)`,
    unrolled.
    """
    distance = np.uint64(0)
    for w in range(len(ws)):
        differ = tile[0, first + w, i] ^ query[0, first + w]
        for p in range(1, len(ps)):
            differ |= tile[p, first + w, i] ^ query[p, first + w]
        distance += popcount(differ)
    return distance


@inlined_kernel
def _whole_lanes(tile):
    """The lanes of uint64[P, W, L], in a form that tells the compiler that vectors of 16 leave none
    over, and not how few they may be: it would unroll short loops instead of vectorizing them.
    """
    return (tile.shape[2] >> 4) << 4


@kernel
def _distances_into(tile, query, ps, ws, lanes):
    """uint64[P, W, L], uint64[P, W] -> int32[≥ L], written to `lanes`."""
    for i in range(_whole_lanes(tile)):
        lanes[i] = _lane_distance(tile, query, 0, i, ps, ws)
    for first in range(len(ws), tile.shape[1], len(ws)):
        for i in range(_whole_lanes(tile)):
            lanes[i] += _lane_distance(tile, query, first, i, ps, ws)


@kernel
def _first_tile(tiles, b, wide):
    """Where block `b` of uint64[T, P, W, L] begins in the tiles that are computed with: `tiles` as
    they are, or `wide`, to which it is copied where tiles are narrow.
    """
    if tiles.shape[3] == BLOCK:
        return b
    widen_tiles_into(tiles, b * (BLOCK // tiles.shape[3]), wide)
    return 0


@kernel
def _any_closer_ahead(tiles, b, query, limit, ps, ws, bs):
    """Is any lane of the `len(bs)` blocks from `b` on closer than `limit` (uint64)? Nothing is
    stored: the sign bits of distance − limit are collected.
    """
    n_tiles = BLOCK // tiles.shape[3]
    signs = np.uint64(0)
    for t in range(b * n_tiles, (b + 1) * n_tiles):
        for i in range(_whole_lanes(tiles[t])):
            # distance − limit in unsigned arithmetic: negative differences wrap round and set the
            # top bit, and no distance is so large that it would set it by itself.
            for ahead in range(len(bs)):
                tile = tiles[t + ahead * n_tiles]
                signs |= _lane_distance(tile, query, 0, i, ps, ws) - limit
    return signs >> _U63 != _U0


@kernel
def _any_closer_of_two(tile, query_a, query_b, limit_a, limit_b, ps, ws):
    """`_any_closer_ahead` of one tile for two queries at once: it is read from cache once, a fifth
    faster for wide codes.
    """
    signs_a, signs_b = np.uint64(0), np.uint64(0)
    for i in range(_whole_lanes(tile)):
        signs_a |= _lane_distance(tile, query_a, 0, i, ps, ws) - limit_a
        signs_b |= _lane_distance(tile, query_b, 0, i, ps, ws) - limit_b
    return signs_a >> _U63 != _U0, signs_b >> _U63 != _U0


@kernel
def symbol_distances_into(tiles, queries, ps, ws, out, first, count, wide, wide_view, lanes, marks):
    """uint64[T, P, W, L], uint64[Q, P, W] -> columns `first` … `first + count` of int32[Q, N],
    written to `out`.
    """
    source = tiles if tiles.shape[3] == BLOCK else wide_view
    width = source.shape[3]
    for start in range(0, count, BLOCK):
        place = _first_tile(tiles, start // BLOCK, wide)
        for part in range(BLOCK // width):
            at = start + part * width
            for q in range(len(queries)):
                _distances_into(source[place + part], queries[q], ps, ws, lanes)
                for i in range(min(width, count - at)):
                    out[q, first + at + i] = lanes[i]


@kernel
def _allowed_in_block(mask, b):
    """Count the set bits of block `b` in uint64[8·B]; an empty mask allows all."""
    if len(mask) == 0:
        return BLOCK
    count = np.uint64(0)
    for j in range(8):
        count += popcount(mask[8 * b + j])
    return np.int64(count)


@kernel
def _few_closer(tiles, query, limit, ps, ws, mask, b, lanes, marks):
    """Mark the lanes of block `b` that uint64[8·B] allows and that are closer than `limit`, and
    write their distances to `lanes`; returns whether there is one. Only lanes that are allowed pay
    for a distance.
    """
    n_lanes = tiles.shape[3]
    any_mark = _U0
    for group in range(BLOCK // 64):
        allowed = mask[8 * b + group]
        marks[group] = _U0
        while allowed != _U0:
            lowest = allowed & (~allowed + _U1)
            allowed ^= lowest
            i = 64 * group + np.int64(popcount(lowest - _U1))
            t, lane = divmod(b * BLOCK + i, n_lanes)
            distance = _U0
            for first in range(0, tiles.shape[2], len(ws)):
                distance += _lane_distance(tiles[t], query, first, lane, ps, ws)
            if np.int64(distance) < limit:
                lanes[i] = distance
                marks[group] |= lowest
        any_mark |= marks[group]
    return any_mark != _U0


@kernel
def _stored_closer(lanes, n_lanes, limit, mask, first_word, marks):
    """Mark the lanes of a tile of `n_lanes` that are allowed and whose distance, in `lanes`, is
    below `limit`; returns whether there is one.

    Its first lane is bit 0 of word `first_word` of the mask.
    """
    any_mark = _U0
    for group in range(n_lanes // 64):
        bits = _U0
        for i in range(64):
            bits |= np.uint64(lanes[64 * group + i] < limit) << np.uint64(i)
        if len(mask) > 0:
            bits &= mask[first_word + group]
        marks[group] = bits
        any_mark |= bits
    return any_mark != _U0


@kernel
def _narrow_closer(tiles, b, query, limit, ps, ws, mask, lanes, marks):
    """`_stored_closer` of block `b` of narrow tiles, uint64[T, P, W, 16], as they lie in memory,
    for codes of one turn.
    """
    if tiles.shape[3] != NARROW:  # so that the compiler knows the strides, and makes vectors
        return False
    n_tiles = BLOCK // NARROW
    n_lanes = len(lanes) // n_tiles  # 16, which it must not know, or it would unroll the loop
    for t in range(n_tiles):
        tile, out = tiles[b * n_tiles + t], lanes[NARROW * t : NARROW * t + NARROW]
        for i in range(n_lanes):
            out[i] = _lane_distance(tile, query, 0, i, ps, ws)
    return _stored_closer(lanes, BLOCK, limit, mask, 8 * b, marks)


@kernel
def _any_closer(tile, query, limit, ps, ws, mask, first_word, lanes, marks):
    """Like `_stored_closer`, for codes of one turn whose distances are not stored yet: marks are
    made by vectors, a sign bit each, and only what is marked gets a distance.
    """
    n_groups = tile.shape[2] // 64
    any_mark = _U0
    for group in range(n_groups):
        bits = _U0
        for i in range(64):
            bits |= (
                (_lane_distance(tile, query, 0, 64 * group + i, ps, ws) - limit) >> _U63
            ) << np.uint64(i)
        if len(mask) > 0:
            bits &= mask[first_word + group]
        marks[group] = bits
        any_mark |= bits
    if any_mark == _U0:
        return False
    for group in range(n_groups):
        bits = marks[group]
        while bits != _U0:
            lowest = bits & (~bits + _U1)
            bits ^= lowest
            i = 64 * group + np.int64(popcount(lowest - _U1))
            lanes[i] = _lane_distance(tile, query, 0, i, ps, ws)
    return True


@kernel
def _sort_ids(ids):
    """Sort int64[N] in place by heapsort: Numba's own sort takes seconds to compile, again
    for every width.
    """
    n = len(ids)
    for heap_size in range(n + n // 2, 0, -1):
        # The first n // 2 rounds build the heap from its last parent up; the others take its
        # largest away.
        root = max(0, heap_size - n - 1) if heap_size > n else 0
        end = n
        if heap_size <= n:
            end = heap_size - 1
            ids[0], ids[end] = ids[end], ids[0]
        child = 2 * root + 1
        while child < end:
            if child + 1 < end and ids[child + 1] > ids[child]:
                child += 1
            if ids[child] <= ids[root]:
                break
            ids[root], ids[child] = ids[child], ids[root]
            root, child = child, 2 * child + 1


@kernel
def _cut_back(histogram, distances, kept_ids, spare, n_kept, worst, n_close, k, by_id):
    """Keep the best k candidates of a query; of those at the k-th distance the ones with the lowest
    ids.

    Returns the new `n_kept`, `n_close` and `last_id`; the k-th distance stays what it was.
    """
    # n_close − histogram[worst] candidates are strictly closer than the k-th distance; the rest of
    # the k places go to those at exactly that distance.
    places = k - (n_close - histogram[worst])
    last_id = _NO_ID
    if by_id:
        n_ties = 0
        for c in range(n_kept):
            if distances[c] == worst:
                spare[n_ties] = kept_ids[c]
                n_ties += 1
        _sort_ids(spare[:n_ties])
        # ids above this one are at the k-th distance and out of the k for good
        last_id = spare[places - 1]
    n, taken = 0, 0
    for c in range(n_kept):
        distance, row_id = distances[c], kept_ids[c]
        if distance > worst:
            continue
        if distance == worst:
            if taken == places or row_id > last_id:
                continue
            taken += 1
        distances[n], kept_ids[n] = distance, row_id
        n += 1
    histogram[worst] = places
    return n, np.int64(k), last_id


@kernel
def _offer_marked(numbers, counts, spare, lanes, marks, q, k, by_id, ids, start, stop):
    """Offer those of the rows `start` … `start + stop` that are marked, whose distances are in
    `lanes`, to query `q`.

    A candidate below the limit is kept; as soon as k closer ones are there the limit falls.
    """
    n_distances = counts.shape[1] - numbers.shape[1] + 3
    limit = counts[q, 0]
    histogram, distances = counts[q][1 : 1 + n_distances], counts[q][1 + n_distances :]
    kept_ids = numbers[q][4:]
    n_kept, worst, n_close, last_id = numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3]
    for group in range((stop + 63) // 64):
        bits = marks[group]
        while bits != _U0:
            lowest = bits & (~bits + _U1)
            bits ^= lowest
            i = 64 * group + np.int64(popcount(lowest - _U1))
            distance = np.int64(lanes[i])
            # the limit may have fallen since the lane was marked; lanes from `stop` on hold no rows
            if distance >= limit or i >= stop:
                continue
            if n_kept == len(kept_ids):
                n_kept, n_close, last_id = _cut_back(
                    histogram, distances, kept_ids, spare, n_kept, worst, n_close, k, by_id
                )
            row_id = ids[start + i]
            if by_id and distance == worst and row_id > last_id:
                continue
            distances[n_kept], kept_ids[n_kept] = distance, row_id
            n_kept += 1
            histogram[distance] += 1
            n_close += 1
            # `worst` is the k-th distance and `n_close` counts the candidates up to it: once k of
            # them are below it, it falls to the next distance that has k.
            while n_close - histogram[worst] >= k:
                n_close -= histogram[worst]
                worst -= 1
                last_id = _NO_ID
            if n_close >= k:
                # Of equal distances the lowest ids count: without `by_id` those have come already.
                limit = worst + by_id
    numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3] = n_kept, worst, n_close, last_id
    counts[q, 0] = limit


@kernel
def _sort_best_into(numbers, counts, spare, k, by_id, farther, out_ids, out_distances):
    """Write every query's best k, nearest first, ties by lower id, to int64[Q, ≥ k] and int32[Q, ≥
    k].

    Places beyond the candidates there are get id −1 and distance `farther`. Sorting is by counting;
    the state is used up.
    """
    n_distances = counts.shape[1] - numbers.shape[1] + 3
    for q in range(len(counts)):
        histogram, distances = counts[q][1 : 1 + n_distances], counts[q][1 + n_distances :]
        kept_ids = numbers[q][4:]
        n, worst, n_close = numbers[q, 0], numbers[q, 1], numbers[q, 2]
        if n > k:
            n, _, _ = _cut_back(histogram, distances, kept_ids, spare, n, worst, n_close, k, by_id)
        place = 0
        # counts become the place where each distance begins
        for distance in range(worst + 1):
            count = histogram[distance]
            histogram[distance] = place
            place += count
        for c in range(n):
            place = histogram[distances[c]]
            histogram[distances[c]] += 1
            out_ids[q, place] = kept_ids[c]
            out_distances[q, place] = distances[c]
        for place in range(n, out_ids.shape[1]):
            out_ids[q, place] = -1
            out_distances[q, place] = farther
        start = 0
        # candidates came in the order of rows, not ids: sort each run of equal distances
        while by_id and start < n:
            stop = start + 1
            while stop < n and out_distances[q, stop] == out_distances[q, start]:
                stop += 1
            _sort_ids(out_ids[q, start:stop])
            start = stop


@kernel
def k_smallest_into(
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    queries,
    ps,
    ws,
    bs,
    k,
    by_id,
    first,
    last,
    numbers,
    counts,
    spare,
    wide,
    wide_view,
    lanes,
    marks,
    farther,
    out_ids,
    out_distances,
):
    """Offer blocks `first_block` … `last_block` of a segment of `n` rows to every query's k best.

    The `first` of several calls clears the state, the `last` one writes the answers. uint64[T, P,
    W, L], int64[≥ n], mask uint64[8·B] or [0] for all rows, uint64[Q, P, W], `ScanState`,
    `TileRoom` -> int64[Q, ≥ k], int32[Q, ≥ k], with −1 and `farther` where there is nothing more.

    Once hits are rare, a pass that stores nothing first asks whether there is one at all: for two
    queries at once, or for several blocks at once where there is only one query.
    """
    if first:
        _clear_state(numbers, counts)
    source = tiles if tiles.shape[3] == BLOCK else wide_view
    width = source.shape[3]
    one_turn = len(ws) == queries.shape[2]
    alone = one_turn and len(queries) == 1
    skip_to, asked_to, n_seen = first_block, first_block, 0
    for b in range(first_block, last_block):
        if b < skip_to:
            continue
        # Of rows in random order the i-th that is allowed is among the k best so far with chance
        # k/i, and so is any other row as near: a block has 512·k/i of both, more than one until
        # i = 512·k.
        if alone and n_seen > len(bs) * BLOCK * k and b >= asked_to and b + len(bs) <= last_block:
            asked_to = b + len(bs)
            allowed = 0
            for ahead in range(b, asked_to):
                allowed += _allowed_in_block(mask, ahead)
            if allowed > FEW_LANES * len(bs) and not _any_closer_ahead(
                tiles, b, queries[0], np.uint64(counts[0, 0]), ps, ws, bs
            ):
                skip_to = asked_to
                n_seen += allowed
                continue
        allowed = _allowed_in_block(mask, b)
        if allowed == 0:
            continue
        start = b * BLOCK
        if allowed <= FEW_LANES:
            stop = min(BLOCK, n - start)
            for q in range(len(queries)):
                if _few_closer(tiles, queries[q], counts[q, 0], ps, ws, mask, b, lanes, marks):
                    _offer_marked(
                        numbers, counts, spare, lanes, marks, q, k, by_id, ids, start, stop
                    )
            n_seen += allowed
            continue
        if alone and tiles.shape[3] == NARROW:
            if _narrow_closer(tiles, b, queries[0], counts[0, 0], ps, ws, mask, lanes, marks):
                stop = min(BLOCK, n - start)
                _offer_marked(numbers, counts, spare, lanes, marks, 0, k, by_id, ids, start, stop)
            n_seen += allowed
            continue
        rare = one_turn and n_seen > BLOCK * k
        place = _first_tile(tiles, b, wide)
        for part in range(BLOCK // width):
            tile, at = source[place + part], start + part * width
            stop = min(width, n - at)
            if stop <= 0:
                break
            hit, hit_next = True, True
            for q in range(len(queries)):
                if q & 1 == 0:
                    hit, hit_next = True, True
                    if rare and q + 1 < len(queries):
                        limits = np.uint64(counts[q, 0]), np.uint64(counts[q + 1, 0])
                        hit, hit_next = _any_closer_of_two(
                            tile, queries[q], queries[q + 1], limits[0], limits[1], ps, ws
                        )
                else:
                    hit = hit_next
                if not hit:
                    continue
                limit, word = counts[q, 0], at // 64
                if one_turn and n_seen > 0:
                    hit = _any_closer(
                        tile, queries[q], np.uint64(limit), ps, ws, mask, word, lanes, marks
                    )
                else:  # at first all lanes are of interest, and wide codes take several turns
                    _distances_into(tile, queries[q], ps, ws, lanes)
                    hit = _stored_closer(lanes, width, limit, mask, word, marks)
                if hit:
                    _offer_marked(numbers, counts, spare, lanes, marks, q, k, by_id, ids, at, stop)
        n_seen += allowed
    if last:
        _sort_best_into(numbers, counts, spare, k, by_id, farther, out_ids, out_distances)


@kernel
def _sample_blocks(
    tiles, first_block, last_block, n, mask, queries, ps, ws, step, counts, wide, wide_view, lanes
):
    """Count the distances of the rows of every `step`-th block, for `_guess_limits`."""
    source = tiles if tiles.shape[3] == BLOCK else wide_view
    width = source.shape[3]
    for b in range(first_block, last_block, step):
        place = _first_tile(tiles, b, wide)
        for part in range(BLOCK // width):
            at = b * BLOCK + part * width
            for q in range(len(queries)):
                _distances_into(source[place + part], queries[q], ps, ws, lanes)
                for i in range(min(width, n - at)):
                    if is_allowed(mask, at + i):
                        counts[q, 1 + lanes[i]] += 1


@kernel
def _guess_limits(numbers, counts, rank):
    """Set the limit of every query to take in the `rank`-th nearest of its sample, and forget the
    sample.

    If at least k rows are found below it, they are the right ones; if not, it was set too low.
    """
    n_distances = counts.shape[1] - numbers.shape[1] + 3
    for q in range(len(counts)):
        count, guess = 0, counts[q, 0]
        for distance in range(n_distances):
            # the distance at which the running count reaches
            # `rank`; + 1, for the limit is exclusive
            if count < rank <= count + counts[q, 1 + distance]:
                guess = distance + 1
            count += counts[q, 1 + distance]
            counts[q, 1 + distance] = 0
        counts[q, 0] = guess


@kernel
def many_smallest_into(
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    queries,
    ps,
    ws,
    step,
    rank,
    sample,
    scan,
    k,
    by_id,
    first,
    last,
    numbers,
    counts,
    spare,
    wide,
    wide_view,
    lanes,
    marks,
    farther,
    out_ids,
    out_distances,
):
    """`k_smallest_into` for a large k and codes of one turn, within limits guessed from a sample.

    `sample` takes every `step`-th block into it, and the `last` call of those sets limits that take
    in the `rank`-th nearest. Then `scan` offers all blocks. A query that gets fewer than k out had
    too low a limit, if there are as many rows.
    """
    if sample:
        if first:
            _clear_state(numbers, counts)
        _sample_blocks(
            tiles, first_block, last_block, n, mask, queries, ps, ws, step, counts, wide, wide_view,
            lanes,
        )  # fmt: skip
        if last:
            _guess_limits(numbers, counts, rank)
    if not scan:
        return
    source = tiles if tiles.shape[3] == BLOCK else wide_view
    width = source.shape[3]
    for b in range(first_block, last_block):
        if _allowed_in_block(mask, b) == 0:
            continue
        if len(queries) == 1 and tiles.shape[3] == NARROW:
            if _narrow_closer(tiles, b, queries[0], counts[0, 0], ps, ws, mask, lanes, marks):
                start, stop = b * BLOCK, min(BLOCK, n - b * BLOCK)
                _offer_marked(numbers, counts, spare, lanes, marks, 0, k, by_id, ids, start, stop)
            continue
        place = _first_tile(tiles, b, wide)
        for part in range(BLOCK // width):
            tile, at = source[place + part], b * BLOCK + part * width
            stop = min(width, n - at)
            if stop <= 0:
                break
            for q in range(len(queries)):
                limit = np.uint64(counts[q, 0])
                if _any_closer(tile, queries[q], limit, ps, ws, mask, at // 64, lanes, marks):
                    _offer_marked(numbers, counts, spare, lanes, marks, q, k, by_id, ids, at, stop)
    if last:
        _sort_best_into(numbers, counts, spare, k, by_id, farther, out_ids, out_distances)


@kernel
def within_radius_into(
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    queries,
    ps,
    ws,
    radius,
    out_queries,
    out_ids,
    out_distances,
    wide,
    wide_view,
    lanes,
    marks,
):
    """Collect (query, id, distance) of all rows within `radius`; returns the next block to do and
    how many were found.

    Stops before a block whose hits might not fit the output, int64[M], int64[M], int32[M] with M ≥
    512·Q.
    """
    source = tiles if tiles.shape[3] == BLOCK else wide_view
    found = 0
    for b in range(first_block, last_block):
        if found + BLOCK * len(queries) > len(out_ids):
            return b, found
        allowed = _allowed_in_block(mask, b)
        if allowed == 0:
            continue
        few = allowed <= FEW_LANES
        width = BLOCK if few else source.shape[3]
        place = b if few else _first_tile(tiles, b, wide)
        for part in range(BLOCK // width):
            at = b * BLOCK + part * width
            for q in range(len(queries)):
                if few:
                    _few_closer(tiles, queries[q], radius + 1, ps, ws, mask, b, lanes, marks)
                else:
                    _distances_into(source[place + part], queries[q], ps, ws, lanes)
                    _stored_closer(lanes, width, radius + 1, mask, at // 64, marks)
                for i in range(min(width, n - at)):
                    if marks[i >> 6] >> np.uint64(i & 63) & _U1 != _U0:
                        out_queries[found] = q
                        out_ids[found] = ids[at + i]
                        out_distances[found] = lanes[i]
                        found += 1
    return last_block, found
