"""Cells: rows in runs beside their nearest centre, found by asking the nearest centres first.

A run is the rows of one cell, in tiles of 64 rows, uint64[T, P, W, 64]: word after word of 64 rows,
so that a tile is one stretch of memory and its marks are one word. Every run begins with a tile;
lanes behind its last row are never looked at. Centres lie in tiles like rows, each tile a group of
near ones: of many groups a query looks into the nearest only.

The distance of two codes is popcount(OR over planes of (a ^ b)); `ps` and `ws` are tuples whose
lengths fix the numbers of planes and of words in one step at compile time, as in `scan`.

Candidates of a query go to a pool, which is cut back to the best k when it is full. From then on a
tile of which no row is as near as the worst of those costs its distances and one comparison by
vectors.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    cut_back,
    is_allowed,
    is_worse,
    popcount,
    raise_candidate,
    sink_candidate,
    sort_candidates,
    write_best_into,
)

TILE = 64  # rows of a tile of a run; not part of any file
_U0, _U1, _U63 = np.uint64(0), np.uint64(1), np.uint64(63)
_ALL = ~np.uint64(0)
_FARTHEST = np.int64(2**31 - 2)  # that plus 1 is an int32
_FEW_KEPT = 32  # nearest rows of a query are held in order: a row is put among them in no time
_FEW_CHOSEN = 64  # cells, among as many of whose tiles the nearest are put in order


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
def _distances_into(tile, query, ps, ws, lanes):
    """uint64[P, W, L], L at most 64, uint64[P, W] -> int32[64]."""
    n_lanes = (tile.shape[2] >> 4) << 4  # whole vectors, and the compiler knows it
    for i in range(n_lanes):
        lanes[i] = _lane_distance(tile, query, 0, i, ps, ws)
    for first in range(len(ws), tile.shape[1], len(ws)):
        for i in range(n_lanes):
            lanes[i] += _lane_distance(tile, query, first, i, ps, ws)


@kernel
def _nearer_lanes(tile, query, limit, ps, ws, lanes):
    """Return the lanes of uint64[P, W, L], L at most 64, that are nearer than `limit`, a bit each;
    where there is one, all distances are in int32[64].
    """
    n_lanes = (tile.shape[2] >> 4) << 4
    if len(ws) == tile.shape[1]:
        # Most tiles have none: a pass that stores nothing asks first. Negative differences wrap
        # round and set the top bit, which no distance sets by itself.
        signs, bound = _U0, np.uint64(limit)
        for i in range(n_lanes):
            signs |= _lane_distance(tile, query, 0, i, ps, ws) - bound
        if signs >> _U63 == _U0:
            return _U0
    _distances_into(tile, query, ps, ws, lanes)
    bits = _U0
    for i in range(n_lanes):
        bits |= np.uint64(lanes[i] < limit) << np.uint64(i)
    return bits


@kernel
def _first_bits(n):
    """A word whose lowest `n` bits are set."""
    return _ALL if n >= TILE else (_U1 << np.uint64(n)) - _U1


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
def _nth_smallest(numbers, n, smallest):
    """The n-th smallest of int32[T], T at least n; int32[n] is room for the smallest in order."""
    size = 0
    for t in range(len(numbers)):
        number = numbers[t]
        if size == n and number >= smallest[n - 1]:
            continue
        place = size if size < n else n - 1
        size = min(size + 1, n)
        while place > 0 and smallest[place - 1] > number:
            smallest[place] = smallest[place - 1]
            place -= 1
        smallest[place] = number
    return smallest[n - 1]


@kernel
def _least_distance(tile, query, ps, ws, lanes):
    """The least distance of all 64 lanes of uint64[P, W, 64]."""
    if len(ws) == tile.shape[1]:  # nothing has to be stored
        least = _ALL
        for i in range(TILE):
            least = min(least, _lane_distance(tile, query, 0, i, ps, ws))
        return np.int32(least)
    _distances_into(tile, query, ps, ws, lanes)
    least_of_lanes = lanes[0]
    for i in range(TILE):
        least_of_lanes = min(least_of_lanes, lanes[i])
    return least_of_lanes


@kernel
def _nearest_places(tiles, listed, n_listed, n, query, ps, ws, room, places, distances, in_order):
    """The `len(places)` nearest rows of uint64[T, P, W, 64] to a query, `in_order` nearest first,
    ties by lower place -> int64[M], int32[M].

    Only the first `n_listed` tiles of `listed` are looked into, all where it is negative; places
    from `n` on hold nothing. Room is int32[64 + T].
    """
    n_looked, n_chosen = len(tiles) if n_listed < 0 else n_listed, len(places)
    lanes, minima = room[:TILE], room[TILE : TILE + n_looked]
    for m in range(n_looked):
        t = m if n_listed < 0 else listed[m]
        minima[m] = _least_distance(tiles[t], query, ps, ws, lanes)
    # as many tiles as there are rows to choose have one this near, so that none is farther
    limit = _FARTHEST
    if n_chosen <= min(n_looked, _FEW_CHOSEN):
        limit = np.int64(_nth_smallest(minima, n_chosen, distances))
    size = 0
    for m in range(n_looked):
        if minima[m] > limit:
            continue
        t = m if n_listed < 0 else listed[m]
        bits = _nearer_lanes(tiles[t], query, limit + 1, ps, ws, lanes) & _first_bits(n - TILE * t)
        while bits != _U0:
            i = np.int64(popcount((bits & (~bits + _U1)) - _U1))
            bits &= bits - _U1
            place, distance = TILE * t + i, lanes[i]
            if size < n_chosen:
                raise_candidate(distances, places, size, distance, place)
                size += 1
            elif is_worse(distances[0], places[0], distance, place):
                sink_candidate(distances, places, n_chosen, distance, place)
    if in_order:
        sort_candidates(distances, places, n_chosen)


@kernel
def _choose_cells(tiles, numbers, groups, n_cells, query, ps, ws, room, looked, cells):
    """The nearest centres of a query, nearest first, of the groups that are nearest.

    Centres uint64[T, P, W, 64], each tile a group, of which place i is that of cell `numbers[i]`,
    uint32[64·T]; groups uint64[G, P, W, 64] hold what is most frequent in every tile. With
    `looked`, int64[L], as long as there are tiles all of them are looked into. Room is
    int32[64 + T + max(L, M)] -> int64[M].
    """
    distances, n_looked = room[TILE + len(tiles) :], -1
    if len(looked) < len(tiles):
        n_looked = len(looked)
        _nearest_places(
            groups, looked, -1, len(tiles), query, ps, ws, room, looked, distances, False
        )
    _nearest_places(tiles, looked, n_looked, n_cells, query, ps, ws, room, cells, distances, True)
    for m in range(len(cells)):
        cells[m] = numbers[cells[m]]


@kernel
def choose_cells_into(tiles, numbers, groups, n_cells, queries, ps, ws, room, looked, cells):
    """The nearest centres of every query, uint64[Q, P, W] -> int64[Q, M]; the rest is as for
    `_choose_cells`.
    """
    for q in range(len(queries)):
        _choose_cells(tiles, numbers, groups, n_cells, queries[q], ps, ws, room, looked, cells[q])


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
def _keep_lanes(
    lanes, bits, at, rows, mask, ids, gapless, k, limit, kept_distances, kept_ids, size
):
    """Put the rows whose lanes are in `bits` into the pool of a query; returns its size and limit.

    Lane i is row `rows[at + i]`, or row `at + i` itself where `rows` is empty. Few candidates are
    held in order. Of many a full pool is cut back to its best k first. The distance of the k-th is
    the limit.
    """
    if k > _FEW_KEPT and size + TILE > len(kept_ids):
        limit, size = np.int64(cut_back(kept_distances, kept_ids, size, k)[0]), k
    while bits != _U0:
        i = np.int64(popcount((bits & (~bits + _U1)) - _U1))
        bits &= bits - _U1
        if lanes[i] > limit:
            continue
        row = np.int64(rows[at + i]) if len(rows) else at + i
        if not is_allowed(mask, row):
            continue
        # of ids without a gap none has to be fetched from memory
        row_id = ids[0] + row if gapless else ids[row]
        if k <= _FEW_KEPT:
            size = _insert(lanes[i], row_id, k, kept_distances, kept_ids, size)
            if size == k:
                limit = np.int64(kept_distances[k - 1])
        else:
            kept_distances[size], kept_ids[size] = lanes[i], row_id
            size += 1
    return size, limit


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
    queries,
    ps,
    ws,
    k,
    begin,
    end,
    farther,
    room,
    looked,
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
    cells int64[Q, M]. The pool is int32[Q, R], int64[Q, R], R ≥ k + 64, and sizes
    and limits int64[Q, 2]. Of calls for several segments the first has `begin`; the last has `end`
    and writes ids int64[Q, ≥ k] and distances int32[Q, ≥ k], −1 and `farther` where there is
    nothing. Returns the fewest rows found for a query.
    """
    no_rows, gapless = rows[:0], ids[last - 1] - ids[0] == last - 1
    lanes, fewest = room[:TILE], k
    for q in range(len(queries)):
        query = queries[q]
        size, limit = (0, _FARTHEST) if begin else (sizes[q, 0], sizes[q, 1])
        own_distances, own_ids = kept_distances[q], kept_ids[q]
        if find:
            _choose_cells(centres, numbers, groups, n_cells, query, ps, ws, room, looked, cells[q])
        for probe in range(cells.shape[1]):
            at, count = bounds[cells[q, probe], 0], bounds[cells[q, probe], 1]
            for t in range(at, at + (count + TILE - 1) // TILE):
                # a row as far as the limit may still have a lower id
                bits = _nearer_lanes(runs[t], query, limit + 1, ps, ws, lanes)
                if bits != _U0:
                    size, limit = _keep_lanes(
                        lanes, bits & _first_bits(count - TILE * (t - at)), TILE * t, rows, mask,
                        ids, gapless, k, limit, own_distances, own_ids, size,
                    )  # fmt: skip
        # rows in no cell, as far as they are in the tile of one that is
        n_lanes = min(TILE, tiles.shape[3])
        for at in range(first // n_lanes * n_lanes, last, n_lanes):
            t, start = divmod(at, tiles.shape[3])
            tile = tiles[t][:, :, start : start + n_lanes]
            bits = _nearer_lanes(tile, query, limit + 1, ps, ws, lanes) & _first_bits(last - at)
            if at < first:
                bits &= ~_first_bits(first - at)
            if bits != _U0:
                size, limit = _keep_lanes(
                    lanes, bits, at, no_rows, mask, ids, gapless, k, limit, own_distances, own_ids,
                    size,
                )  # fmt: skip
        sizes[q, 0], sizes[q, 1] = size, limit
        if end:
            fewest = min(fewest, size)
            _write_kept(own_distances, own_ids, size, k, farther, best_distances[q], best_ids[q])
    return fewest


@kernel
def _collect(lanes, bits, at, rows, mask, ids, found, out_ids, out_distances):
    """Write ids and distances of the rows whose lanes are in `bits`, from place `found` on; returns
    the next place.
    """
    while bits != _U0:
        i = np.int64(popcount((bits & (~bits + _U1)) - _U1))
        bits &= bits - _U1
        row = np.int64(rows[at + i]) if len(rows) else at + i
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
    found, limit = 0, np.int64(radius) + 1
    for probe in range(len(cells)):
        at, count = bounds[cells[probe], 0], bounds[cells[probe], 1]
        for tile in range(at, at + (count + TILE - 1) // TILE):
            bits = _nearer_lanes(runs[tile], query, limit, ps, ws, lanes)
            bits &= _first_bits(count - TILE * (tile - at))
            found = _collect(
                lanes, bits, TILE * tile, rows, mask, ids, found, out_ids, out_distances
            )
    n_lanes = min(TILE, tiles.shape[3])
    for at in range(first // n_lanes * n_lanes, last, n_lanes):
        t, start = divmod(at, tiles.shape[3])
        tile = tiles[t][:, :, start : start + n_lanes]
        bits = _nearer_lanes(tile, query, limit, ps, ws, lanes) & _first_bits(last - at)
        if at < first:
            bits &= ~_first_bits(first - at)
        found = _collect(lanes, bits, at, rows[:0], mask, ids, found, out_ids, out_distances)
    return found
