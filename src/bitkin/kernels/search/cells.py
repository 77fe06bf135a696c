"""Cells: rows in runs beside their nearest centre, found by asking the nearest centres first.

A run is the rows of one cell, in tiles of 64 rows, uint64[T, P, W, 64]: word after word of 64 rows,
so that a tile is one stretch of memory and its marks are one word. Every run begins with a tile;
lanes behind its last row are never looked at. Centres lie in tiles like rows, each tile a group of
near ones: of many groups a query looks into the nearest only.

The distance of two codes is popcount(OR over planes of (a ^ b)); `ps` and `ws` are tuples whose
lengths fix the numbers of planes and of words in one step at compile time, as in `scan`.

The distances of many tiles are found first, without a branch. They tell how far the k-th nearest is
at most, and only rows up to there go to the pool of a query, one by one.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    cut_back,
    is_allowed,
    is_worse,
    popcount,
    write_best_into,
)

TILE = 64  # rows of a tile of a run; not part of any file
TILES_AT_ONCE = 64  # whose distances are known before any row is kept
LEAST_OF_TILE = 8  # distances of a tile: of every eighth lane the least
_U0, _U1, _U32 = np.uint64(0), np.uint64(1), np.uint64(32)
_LOW_32 = np.uint64(2**32 - 1)
_ALL = ~np.uint64(0)
_NOTHING = np.int32(2**31 - 1)  # the distance of a lane that holds no row
_FEW_KEPT = 32  # nearest rows of a query are held in order: a row is put among them in no time


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


@kernel
def _distances_into(tile, n_lanes, query, ps, ws, lanes):
    """uint64[P, W, L], uint64[P, W] -> the first `n_lanes`, at most L and 64, of int32[64]; lanes
    behind them are farther than anything.
    """
    n_read = ((n_lanes + 15) >> 4) << 4  # whole vectors, and the compiler knows it
    for i in range(n_read):
        lanes[i] = _lane_distance(tile, query, 0, i, ps, ws)
    for first in range(len(ws), tile.shape[1], len(ws)):
        for i in range(n_read):
            lanes[i] += _lane_distance(tile, query, first, i, ps, ws)
    behind = lanes[n_lanes:TILE]
    for i in range(len(behind)):
        behind[i] = _NOTHING


@kernel
def _lanes_between(lanes, low, high):
    """Those of int32[64] that are above `low` and no larger than `high`, a bit each."""
    bits = _U0
    for i in range(TILE):
        bits |= np.uint64((lanes[i] > low) & (lanes[i] <= high)) << np.uint64(i)
    return bits


@kernel
def _lowest_bit(bits):
    """The number of the lowest bit that is set."""
    return np.int64(popcount((bits & (~bits + _U1)) - _U1))


@kernel
def _nth_smallest(numbers, n, high):
    """The least number of which at least `n` of int32[T], none negative, are no larger; `high`
    where they are fewer.

    Counting by vectors, once per bit, takes less than putting a few in order.
    """
    low = np.int64(0)
    while low < high:
        middle, count = (low + high) >> 1, np.int32(0)
        most = np.int32(middle)
        for t in range(len(numbers)):
            count = np.int32(count + np.int32(numbers[t] <= most))  # stays one of 32 bits
        if count >= n:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def fill_runs_into(tiles, members, cells, following, runs, rows):
    """Copy the rows int64[N] of uint64[T, P, W, L], one after the other, to the next place of their
    cell, uint32[N], in the runs uint64[S, P, W, 64]; `following` is int64[C], the next place of
    every cell, and rows, uint32[64·S], says which row is where.
    """
    _, n_planes, n_words, n_lanes = tiles.shape
    for r in range(len(members)):
        t, i = divmod(members[r], n_lanes)
        place = following[cells[r]]
        following[cells[r]] += 1
        rows[place] = members[r]
        tile, lane = runs[place // TILE], place % TILE
        for p in range(n_planes):
            for w in range(n_words):
                tile[p, w, lane] = tiles[t, p, w, i]


@kernel
def modes_into(words, order, starts, first, last, n_symbols, counts, centres):
    """The most frequent value of every symbol among the rows `order[starts[c]:starts[c + 1]]` of
    uint64[N, P, W] -> centre c of uint64[C, P, W], for the cells `first` … `last` that have rows.

    Of equal frequencies the value wins that has it first. `counts` is int32[2**b], zeros before and
    after; values of more than b bits share counts, so that there the mode is a good guess.
    """
    n_planes = words.shape[1]
    mask = np.uint64(len(counts) - 1)
    for c in range(first, last):
        if starts[c] == starts[c + 1]:
            continue
        for w in range(words.shape[2]):
            for p in range(n_planes):
                centres[c, p, w] = _U0
        for j in range(n_symbols):
            # symbol j is bit 7 − j % 8 of byte j // 8 of its plane
            w, bit = j >> 6, np.uint64((j & 56) + 7 - (j & 7))
            most, mode = 0, _U0
            for r in range(starts[c], starts[c + 1]):
                value = _U0
                for p in range(n_planes):
                    value |= ((words[order[r], p, w] >> bit) & _U1) << np.uint64(p)
                slot = (value ^ (value >> np.uint64(12))) & mask
                counts[slot] += 1
                if counts[slot] > most:
                    most, mode = counts[slot], value
            for r in range(starts[c], starts[c + 1]):
                value = _U0
                for p in range(n_planes):
                    value |= ((words[order[r], p, w] >> bit) & _U1) << np.uint64(p)
                counts[(value ^ (value >> np.uint64(12))) & mask] = 0
            for p in range(n_planes):
                centres[c, p, w] |= ((mode >> np.uint64(p)) & _U1) << bit


@kernel
def symbols_apart_into(words, other, distances):
    """The symbols in which each of uint64[N, P, W] differs from uint64[P, W] -> int32[N]."""
    for r in range(len(words)):
        distance = _U0
        for w in range(words.shape[2]):
            differ = _U0
            for p in range(words.shape[1]):
                differ |= words[r, p, w] ^ other[p, w]
            distance += popcount(differ)
        distances[r] = distance


@kernel
def _nearest_places(tiles, listed, n_listed, n, query, ps, ws, lanes, places):
    """The `len(places)` nearest rows of uint64[T, P, W, 64] to a query, ties by lower place ->
    int64[M], ascending.

    Only the first `n_listed` tiles of `listed`, ascending, are looked into, all where it is
    negative; places from `n` on hold nothing. Room is int32[64·T].
    """
    n_looked, n_chosen = len(tiles) if n_listed < 0 else n_listed, len(places)
    for m in range(n_looked):
        t = m if n_listed < 0 else listed[m]
        own = lanes[TILE * m : TILE * m + TILE]
        _distances_into(tiles[t], min(TILE, n - TILE * t), query, ps, ws, own)
    known = lanes[: TILE * n_looked]
    limit = _nth_smallest(known, n_chosen, TILE * tiles.shape[2])
    nearer = np.int32(0)
    for i in range(len(known)):
        nearer += np.int32(known[i] < limit)
    size, n_ties = 0, n_chosen - nearer
    for m in range(n_looked):
        t = m if n_listed < 0 else listed[m]
        own = lanes[TILE * m : TILE * m + TILE]
        bits = _lanes_between(own, -1, limit)
        while bits != _U0:
            i = _lowest_bit(bits)
            bits &= bits - _U1
            if own[i] == limit:
                if n_ties == 0:
                    continue
                n_ties -= 1
            places[size] = TILE * t + i
            size += 1


@kernel
def _nearest_place(tiles, listed, n_listed, query, ps, ws, lanes):
    """The nearest row of uint64[T, P, W, 64] to a query, of equals that of the lowest place; the
    rest is as for `_nearest_places`.
    """
    n_looked, best = len(tiles) if n_listed < 0 else n_listed, _ALL
    for m in range(n_looked):
        t = m if n_listed < 0 else listed[m]
        tile, place = tiles[t], np.uint64(TILE * t)
        if len(ws) == tile.shape[1]:
            for i in range(TILE):  # nothing is stored and nothing asked
                distance = _lane_distance(tile, query, 0, i, ps, ws)
                best = min(best, (distance << _U32) | (place + np.uint64(i)))
        else:
            _distances_into(tile, TILE, query, ps, ws, lanes)
            for i in range(TILE):
                best = min(best, (np.uint64(lanes[i]) << _U32) | (place + np.uint64(i)))
    return np.int64(best & _LOW_32)


@kernel
def _choose_cells(tiles, numbers, groups, n_cells, query, ps, ws, lanes, looked, cells):
    """The nearest centres of a query, in no order, of the groups that are nearest.

    Centres uint64[T, P, W, 64], each tile a group, of which place i is that of cell `numbers[i]`,
    uint32[64·T]; groups uint64[G, P, W, 64] hold what is most frequent in every tile. With
    `looked`, int64[L], as long as there are tiles all of them are looked into. Room is
    int32[64·max(G, L)] -> int64[M].
    """
    n_looked = -1
    if len(looked) < len(tiles):
        n_looked = len(looked)
        _nearest_places(groups, looked, -1, len(tiles), query, ps, ws, lanes, looked)
    if len(cells) == 1:
        cells[0] = _nearest_place(tiles, looked, n_looked, query, ps, ws, lanes)
    else:
        _nearest_places(tiles, looked, n_looked, n_cells, query, ps, ws, lanes, cells)
    for m in range(len(cells)):
        cells[m] = numbers[cells[m]]


@kernel
def choose_cells_into(tiles, numbers, groups, n_cells, queries, ps, ws, lanes, looked, cells):
    """The nearest centres of every query, uint64[Q, P, W] -> int64[Q, M]; the rest is as for
    `_choose_cells`.
    """
    for q in range(len(queries)):
        _choose_cells(tiles, numbers, groups, n_cells, queries[q], ps, ws, lanes, looked, cells[q])


@inlined_kernel
def _insert(distance, row_id, k, kept_distances, kept_ids, size):
    """Put a candidate into a list of up to k in order, nearest first; returns its size."""
    place = size
    if size == k:
        place = k - 1
        if not is_worse(kept_distances[place], kept_ids[place], distance, row_id):
            return size
    while place > 0 and is_worse(kept_distances[place - 1], kept_ids[place - 1], distance, row_id):
        kept_distances[place], kept_ids[place] = kept_distances[place - 1], kept_ids[place - 1]
        place -= 1
    kept_distances[place], kept_ids[place] = distance, row_id
    return min(size + 1, k)


@kernel
def _keep_lanes(lanes, bits, at, rows, mask, ids, gapless, k, kept_distances, kept_ids, size):
    """Put the rows whose lanes are in `bits` into the pool of a query; returns its size, and how
    many of them are allowed.

    Lane i is row `rows[at + i]`, or row `~at + i` itself where `at` is negative. Few candidates are
    held in order. Of many a full pool is cut back to its best k first.
    """
    if k > _FEW_KEPT and size + TILE > len(kept_ids):
        cut_back(kept_distances, kept_ids, size, k)
        size = k
    allowed = 0
    while bits != _U0:
        i = _lowest_bit(bits)
        bits &= bits - _U1
        row = np.int64(rows[at + i]) if at >= 0 else ~at + i
        if not is_allowed(mask, row):
            continue
        allowed += 1
        # of ids without a gap none has to be fetched from memory
        row_id = ids[0] + row if gapless else ids[row]
        if k <= _FEW_KEPT:
            size = _insert(lanes[i], row_id, k, kept_distances, kept_ids, size)
        else:
            kept_distances[size], kept_ids[size] = lanes[i], row_id
            size += 1
    return size, allowed


@kernel
def _keep_nearest(
    lanes, starts, n_tiles, least, rows, mask, ids, gapless, k, limit, kept_distances, kept_ids,
    size,
):  # fmt: skip
    """Put those of `n_tiles` tiles, int32[64·N], that may be among the k nearest into the pool of a
    query; returns its size, and a distance that the k-th does not exceed.

    The least distances of every eighth lane, int32[8·N], tell which one k rows do not exceed. Where
    some of those are not allowed, a larger one is tried.
    """
    n_least = LEAST_OF_TILE * n_tiles
    for t in range(n_tiles):
        own = lanes[TILE * t : TILE * t + TILE]
        least_of_own = least[LEAST_OF_TILE * t : LEAST_OF_TILE * t + LEAST_OF_TILE]
        for i in range(LEAST_OF_TILE):
            least_of_own[i] = min(
                min(min(own[i], own[i + 8]), min(own[i + 16], own[i + 24])),
                min(min(own[i + 32], own[i + 40]), min(own[i + 48], own[i + 56])),
            )
    low, rank, found = -1, k, 0
    while True:
        high = limit
        if rank <= n_least:
            high = _nth_smallest(least[:n_least], rank, limit)
        for t in range(n_tiles):
            least_of_own = least[LEAST_OF_TILE * t : LEAST_OF_TILE * t + LEAST_OF_TILE]
            near = least_of_own[0]
            for i in range(LEAST_OF_TILE):
                near = min(near, least_of_own[i])
            if near <= high:
                # a row as far as the limit may still have a lower id
                own = lanes[TILE * t : TILE * t + TILE]
                size, allowed = _keep_lanes(
                    own, _lanes_between(own, low, high), starts[t], rows, mask, ids, gapless, k,
                    kept_distances, kept_ids, size,
                )  # fmt: skip
                found += allowed
        if found >= k:
            limit = high
        if k <= _FEW_KEPT and size == k:
            limit = min(limit, np.int64(kept_distances[k - 1]))
        if high >= limit:
            return size, limit
        low, rank = high, 4 * rank


@kernel
def _write_kept(kept_distances, kept_ids, size, k, farther, distances, ids):
    """Write the best k of a pool in order to int32[≥ k], int64[≥ k], and padding behind them."""
    if k > _FEW_KEPT:
        write_best_into(kept_distances, kept_ids, size, farther, distances[:k], ids[:k])
        size = k
    else:
        for place in range(size):
            distances[place], ids[place] = kept_distances[place], kept_ids[place]
    for place in range(size, len(ids)):
        distances[place], ids[place] = farther, -1


@kernel
def nearest_in_cells_into(
    centres,
    numbers,
    groups,
    n_cells,
    find,
    runs,
    bounds,
    rows,
    tiles,
    ids,
    first,
    last,
    mask,
    ps,
    ws,
    k,
    begin,
    end,
    farther,
    queries,
    room,
    places,
    cells,
    kept_distances,
    kept_ids,
    sizes,
    best_ids,
    best_distances,
):
    """Put the rows of every query's nearest cells, and rows `first` … `last` that are in none, into
    its pool of the k nearest.

    With `find` the nearest cells are found first, as by `_choose_cells`, else they are those of
    `cells`. Runs are uint64[S, P, W, 64] of which cell c has `bounds[c, 1]` rows from tile
    `bounds[c, 0]` on, place by place the rows uint32[64·S] of a segment; its tiles
    uint64[T, P, W, L], ids int64[N], mask uint64[8·B] or [0] for all; queries uint64[Q, P, W] ->
    cells int64[Q, M]. Room is int32[512 + 64·max(64, G, L)] and places int64[64 + L]. The pool is
    int32[Q, R], int64[Q, R], R ≥ k + 64, and sizes and limits int64[Q, 2]. Of calls for several
    segments the first has `begin`; the last has `end` and writes ids int64[Q, ≥ k] and distances
    int32[Q, ≥ k], −1 and `farther` where there is nothing. Returns the fewest rows found for a
    query.
    """
    gapless, fewest = ids[last - 1] - ids[0] == last - 1, k
    least, lanes = room[: LEAST_OF_TILE * TILES_AT_ONCE], room[LEAST_OF_TILE * TILES_AT_ONCE :]
    starts, looked = places[:TILES_AT_ONCE], places[TILES_AT_ONCE:]
    n_lanes = min(TILE, tiles.shape[3])
    for q in range(len(queries)):
        query, own_distances, own_ids = queries[q], kept_distances[q], kept_ids[q]
        size, limit = (0, np.int64(farther)) if begin else (sizes[q, 0], sizes[q, 1])
        if find:
            _choose_cells(centres, numbers, groups, n_cells, query, ps, ws, lanes, looked, cells[q])
        probe, done, at = 0, 0, first // n_lanes * n_lanes
        while True:
            n_tiles = 0
            while probe < cells.shape[1] and n_tiles < TILES_AT_ONCE:
                count = bounds[cells[q, probe], 1]
                if done < count:
                    t = bounds[cells[q, probe], 0] + done // TILE
                    own = lanes[TILE * n_tiles : TILE * n_tiles + TILE]
                    _distances_into(runs[t], min(TILE, count - done), query, ps, ws, own)
                    starts[n_tiles] = TILE * t
                    n_tiles += 1
                    done += TILE
                if done >= count:
                    probe, done = probe + 1, 0
            # then rows in no cell, as far as they are in the tile of one that is
            while at < last and n_tiles < TILES_AT_ONCE:
                t, start = divmod(at, tiles.shape[3])
                own = lanes[TILE * n_tiles : TILE * n_tiles + TILE]
                tile = tiles[t][:, :, start : start + n_lanes]
                _distances_into(tile, min(n_lanes, last - at), query, ps, ws, own)
                for i in range(first - at):
                    own[i] = _NOTHING
                starts[n_tiles] = ~at
                n_tiles += 1
                at += n_lanes
            if n_tiles == 0:
                break
            size, limit = _keep_nearest(
                lanes, starts, n_tiles, least, rows, mask, ids, gapless, k, limit, own_distances,
                own_ids, size,
            )  # fmt: skip
        sizes[q, 0], sizes[q, 1] = size, limit
        if end:
            fewest = min(fewest, size)
            _write_kept(own_distances, own_ids, size, k, farther, best_distances[q], best_ids[q])
    return fewest


@kernel
def _collect(lanes, radius, at, rows, mask, ids, found, out_ids, out_distances):
    """Write ids and distances of the rows within `radius`, from place `found` on; returns the next
    place. Lane i is the row that it is for `_keep_lanes`.
    """
    bits = _lanes_between(lanes, -1, radius)
    while bits != _U0:
        i = _lowest_bit(bits)
        bits &= bits - _U1
        row = np.int64(rows[at + i]) if at >= 0 else ~at + i
        if is_allowed(mask, row):
            out_ids[found], out_distances[found] = ids[row], lanes[i]
            found += 1
    return found


@kernel
def within_radius_in_cells_into(
    runs,
    bounds,
    rows,
    tiles,
    ids,
    first,
    last,
    mask,
    query,
    ps,
    ws,
    lanes,
    cells,
    radius,
    out_ids,
    out_distances,
):
    """All rows within `radius` of a query in the cells int64[M], and of rows `first` … `last` that
    are in none -> int64[N], int32[N] with room for all of them; returns how many.

    The rest is as for `nearest_in_cells_into`.
    """
    found = 0
    for probe in range(len(cells)):
        at, count = bounds[cells[probe], 0], bounds[cells[probe], 1]
        for done in range(0, count, TILE):
            t = at + done // TILE
            _distances_into(runs[t], min(TILE, count - done), query, ps, ws, lanes)
            found = _collect(
                lanes, radius, TILE * t, rows, mask, ids, found, out_ids, out_distances
            )
    n_lanes = min(TILE, tiles.shape[3])
    for at in range(first // n_lanes * n_lanes, last, n_lanes):
        t, start = divmod(at, tiles.shape[3])
        tile = tiles[t][:, :, start : start + n_lanes]
        _distances_into(tile, min(n_lanes, last - at), query, ps, ws, lanes)
        for i in range(first - at):
            lanes[i] = _NOTHING
        found = _collect(lanes, radius, ~at, rows, mask, ids, found, out_ids, out_distances)
    return found
