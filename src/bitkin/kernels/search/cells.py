"""Cells: rows in runs beside their nearest centre, found by asking the nearest centres first.

A run is the rows of one cell, in tiles of 64 rows, uint64[T, P, W, 64]: word after word of 64 rows,
so that a tile is one stretch of memory and its marks are one word. Every run begins with a tile;
lanes behind its last row are never looked at. Centres lie in tiles like rows.

The distance of two codes is popcount(OR over planes of (a ^ b)); `ps` and `ws` are tuples whose
lengths fix the numbers of planes and of words in one step at compile time, as in `scan`.

The best k of a query are a heap, the worst first: once it is full, a tile of which no row is nearer
than the worst costs its distances and one comparison by vectors.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    is_allowed,
    is_worse,
    popcount,
    raise_candidate,
    sink_candidate,
    sort_candidates,
)

TILE = 64  # rows of a tile of a run; not part of any file
_U0, _U1, _U63 = np.uint64(0), np.uint64(1), np.uint64(63)
_ALL = ~np.uint64(0)
_FARTHEST = np.int64(2**31 - 1)
_CELL_BITS = np.uint64(32)
_CELL_MASK = np.uint64(2**32 - 1)


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
def nearest_centres_into(centres, words, ps, ws, lanes, cells):
    """The nearest row of uint64[T, P, W, 64] to each of uint64[N, P, W], the first of equals ->
    uint32[N]. Lanes behind the last centre must repeat one, so that they never come first.
    """
    one_turn = len(ws) == words.shape[2]
    for r in range(len(words)):
        best = _ALL
        for t in range(len(centres)):
            if not one_turn:
                _distances_into(centres[t], words[r], ps, ws, lanes)
            # distance above number: the smallest is the nearest, and of equals the first
            start = np.uint64(TILE * t)
            for i in range(TILE):
                if one_turn:
                    distance = _lane_distance(centres[t], words[r], 0, i, ps, ws)
                else:
                    distance = np.uint64(lanes[i])
                key = (distance << _CELL_BITS) | (start + np.uint64(i))
                best = min(best, key)
        cells[r] = best & _CELL_MASK


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
def _probe_centres(centres, n_cells, query, ps, ws, lanes, cells, distances):
    """The `len(cells)` nearest centres of a query, nearest first, ties by lower number -> int64[M],
    int32[M].
    """
    n_probes, size = len(cells), 0
    for t in range((n_cells + TILE - 1) // TILE):
        # of equals the lower number wins, and it came first
        limit = np.int64(distances[0]) if size == n_probes else _FARTHEST
        bits = _nearer_lanes(centres[t], query, limit, ps, ws, lanes)
        if bits == _U0:
            continue
        bits &= _first_bits(n_cells - TILE * t)
        while bits != _U0:
            i = np.int64(popcount((bits & (~bits + _U1)) - _U1))
            bits &= bits - _U1
            cell, distance = TILE * t + i, lanes[i]
            if size < n_probes:
                raise_candidate(distances, cells, size, distance, cell)
                size += 1
            elif is_worse(distances[0], cells[0], distance, cell):
                sink_candidate(distances, cells, n_probes, distance, cell)
    sort_candidates(distances, cells, n_probes)


@kernel
def probe_into(centres, n_cells, queries, ps, ws, lanes, cells, distances):
    """The nearest centres of every query, uint64[Q, P, W] -> int64[Q, M], int32[Q, M]."""
    for q in range(len(queries)):
        _probe_centres(centres, n_cells, queries[q], ps, ws, lanes, cells[q], distances[q])


@kernel
def _offer_tile(lanes, bits, at, rows, mask, ids, gapless, best_distances, best_ids, size):
    """Offer the rows whose lanes are in `bits` to the best of a query; returns how many it has.

    Lane i is row `rows[at + i]`, or row `at + i` itself where `rows` is empty.
    """
    k = len(best_ids)
    while bits != _U0:
        i = np.int64(popcount((bits & (~bits + _U1)) - _U1))
        bits &= bits - _U1
        distance = lanes[i]
        if size == k and distance > best_distances[0]:
            continue
        row = np.int64(rows[at + i]) if len(rows) else at + i
        if not is_allowed(mask, row):
            continue
        # of ids without a gap none has to be fetched from memory
        row_id = ids[0] + row if gapless else ids[row]
        if size < k:
            raise_candidate(best_distances, best_ids, size, distance, row_id)
            size += 1
        elif is_worse(best_distances[0], best_ids[0], distance, row_id):
            sink_candidate(best_distances, best_ids, k, distance, row_id)
    return size


@kernel
def _offer_run(
    runs, first_tile, count, rows, mask, ids, gapless, query, ps, ws, lanes, best_distances,
    best_ids, size,
):  # fmt: skip
    """Offer `count` rows from tile `first_tile` of the runs on to the best of a query."""
    k = len(best_ids)
    for t in range((count + TILE - 1) // TILE):
        # a row as far as the worst may still have a lower id
        limit = np.int64(best_distances[0]) + 1 if size == k else _FARTHEST
        bits = _nearer_lanes(runs[first_tile + t], query, limit, ps, ws, lanes)
        if bits == _U0:
            continue
        bits &= _first_bits(count - TILE * t)
        size = _offer_tile(
            lanes, bits, TILE * (first_tile + t), rows, mask, ids, gapless, best_distances,
            best_ids, size,
        )  # fmt: skip
    return size


@kernel
def _offer_tail(
    tiles, first, last, no_rows, mask, ids, gapless, query, ps, ws, lanes, best_distances,
    best_ids, size,
):  # fmt: skip
    """Offer rows `first` … `last` of a segment, uint64[T, P, W, L], to the best of a query."""
    k, n_lanes = len(best_ids), min(TILE, tiles.shape[3])
    for at in range(first // n_lanes * n_lanes, last, n_lanes):
        limit = np.int64(best_distances[0]) + 1 if size == k else _FARTHEST
        t, start = divmod(at, tiles.shape[3])
        tile = tiles[t][:, :, start : start + n_lanes]
        bits = _nearer_lanes(tile, query, limit, ps, ws, lanes) & _first_bits(last - at)
        if at < first:
            bits &= ~_first_bits(first - at)
        size = _offer_tile(
            lanes, bits, at, no_rows, mask, ids, gapless, best_distances, best_ids, size
        )
    return size


@kernel
def nearest_in_cells_into(
    centres,
    n_cells,
    find,
    runs,
    starts,
    counts,
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
    lanes,
    cells,
    cell_distances,
    sizes,
    best_ids,
    best_distances,
):
    """Offer the runs of every query's nearest cells, and rows `first` … `last` that are in none, to
    its k best.

    With `find` the nearest cells are found first, else they are those of `cells`. Centres
    uint64[T, P, W, 64]; runs uint64[S, P, W, 64] of which cell c has `counts[c]` rows from tile
    `starts[c]` on, place by place the rows uint32[64·S] of a segment; its tiles uint64[T, P, W, L],
    ids int64[N], mask uint64[8·B] or [0] for all; queries uint64[Q, P, W] -> cells int64[Q, M],
    sizes int64[Q], ids int64[Q, ≥ k], distances int32[Q, ≥ k]. Of calls for several segments the
    first has `begin`; the last has `end` and sorts, with −1 and `farther` where there is nothing.
    """
    no_rows, gapless = rows[:0], ids[last - 1] - ids[0] == last - 1
    for q in range(len(queries)):
        query, size = queries[q], 0 if begin else sizes[q]
        own_ids, own_distances = best_ids[q][:k], best_distances[q][:k]
        if find:
            _probe_centres(centres, n_cells, query, ps, ws, lanes, cells[q], cell_distances[q])
        for probe in range(cells.shape[1]):
            c = cells[q, probe]
            size = _offer_run(
                runs, starts[c], counts[c], rows, mask, ids, gapless, query, ps, ws, lanes,
                own_distances, own_ids, size,
            )  # fmt: skip
        size = _offer_tail(
            tiles, first, last, no_rows, mask, ids, gapless, query, ps, ws, lanes, own_distances,
            own_ids, size,
        )  # fmt: skip
        sizes[q] = size
        if end:
            sort_candidates(own_distances, own_ids, size)
            for place in range(size, best_ids.shape[1]):
                best_ids[q, place], best_distances[q, place] = -1, farther


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
    starts,
    counts,
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
        c = cells[probe]
        for t in range((counts[c] + TILE - 1) // TILE):
            tile = starts[c] + t
            bits = _nearer_lanes(runs[tile], query, limit, ps, ws, lanes)
            bits &= _first_bits(counts[c] - TILE * t)
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
