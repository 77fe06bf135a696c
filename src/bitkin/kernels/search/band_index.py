"""Inverted bands: tables of the rows that share a band, looked into, and the rows found there
scored.

A band is a run of `r` neighbouring symbols, its key the bits of those symbols, plane after plane.
The table of a band lists all rows by slot, and `starts` tells where a slot begins. The slot is the
key itself where there are as many slots as keys; else (`hashed`) it is the first bits of the key
times an odd number, and a few rows with other keys share it: they are measured with the others, and
asked for their keys only when they are near.

Codes of many planes may have sketches, the parity of every symbol, one plane in all: half of the
symbols that differ differ in it too. Of many rows, those with the nearest sketches are measured; a
sketch takes a part of the memory.

The k best of a query are a heap of places, distance · 2³² + row, the worst on top: one number
settles ties by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import is_allowed, popcount, reverse_bytes

_WORD_BITS = 64
_PLACE = np.int64(1) << np.int64(32)
_ONE_PLANE = (0,)
_SIZES = 33  # bit lengths of the number of rows in a bucket


class BandArrays(NamedTuple):
    """The tables of all bands over N rows, M of which are in them; nothing is written to them once
    they are made.
    """

    words: npt.NDArray[np.uint64]
    """[N, P, W]: the codes, row after row, so that a row is in one place of memory."""
    sketches: npt.NDArray[np.uint64]
    """[N, 1, W]: the planes of every row, XORed; [0, 1, W] where there are none."""
    starts: npt.NDArray[np.uint32]
    """[bands, slots + 1]."""
    rows: npt.NDArray[np.uint32]
    """[bands, M]."""
    spread: tuple[np.uint64, np.uint64, np.uint64]
    """The odd number, the bits of a key, and how far the product is shifted for the slot."""
    hashed: bool


class BandWork(NamedTuple):
    """Room for one query at a time, which may look into up to B buckets with up to M rows in
    all.
    """

    plan: npt.NDArray[np.int64]
    """[B, 4]: begin, end, band and mask of the buckets to look into."""
    spare: npt.NDArray[np.int64]
    """[B, 5]."""
    begins: npt.NDArray[np.int64]
    """[34]."""
    rows: npt.NDArray[np.uint32]
    """[M]: what is in the buckets."""
    distances: npt.NDArray[np.int32]
    """[M]."""
    guesses: npt.NDArray[np.uint16]
    """[M]: distances of sketches."""
    histogram: npt.NDArray[np.int32]
    """[64·W + 1]: rows by distance. Sized by words, not symbols: no file content can step outside.
    """
    picked: npt.NDArray[np.uint32]
    """[M + 1]."""
    places: npt.NDArray[np.int64]
    """[M]."""
    seen: npt.NDArray[np.uint32]
    """[N], all zero at first: the last query that a row was offered to, counted from 1."""


def room_for(n_rows: int, n_words: int, n_buckets: int, most: int) -> BandWork:
    """Return work arrays; memory that is not used is not touched."""
    return BandWork(
        plan=np.empty((n_buckets, 4), dtype=np.int64),
        spare=np.empty((n_buckets, 5), dtype=np.int64),
        begins=np.empty(_SIZES + 1, dtype=np.int64),
        rows=np.empty(most, dtype=np.uint32),
        distances=np.empty(most, dtype=np.int32),
        guesses=np.empty(most, dtype=np.uint16),
        histogram=np.empty(64 * n_words + 1, dtype=np.int32),
        picked=np.empty(most + 1, dtype=np.uint32),
        places=np.empty(most, dtype=np.int64),
        seen=np.zeros(n_rows, dtype=np.uint32),
    )


@kernel
def _band_key(row, band, r):
    """uint64[P, W], a band of `r` symbols with at most 64 bits -> uint64."""
    w, skipped = band * r // _WORD_BITS, band * r % _WORD_BITS
    left, right, step = np.uint64(skipped), np.uint64(_WORD_BITS - r), np.uint64(r % _WORD_BITS)
    key = np.uint64(0)
    for p in range(row.shape[0]):
        # as in `multi_index._run`: symbols of a band in the low r bits, the first of them highest
        bits = reverse_bytes(row[p, w]) << left
        if skipped + r > _WORD_BITS:
            bits |= reverse_bytes(row[p, w + 1]) >> np.uint64(_WORD_BITS - skipped)
        # a shift by 64 is undefined; such a band has one plane, and key is 0
        key = (key << step) | (bits >> right)
    return key


@kernel
def keys_into(words, r, keys):
    """uint64[N, P, W] -> uint64[N, bands]: the key of every band of every row."""
    for i in range(len(words)):
        for band in range(keys.shape[1]):
            keys[i, band] = _band_key(words[i], band, r)


@inlined_kernel
def _slot(key, spread):
    factor, key_mask, shift = spread
    return np.int64(((key * factor) & key_mask) >> shift)


@kernel
def fill_band_into(words, members, band, r, spread, slots, starts, rows):
    """Make the table of one band of `members` (uint32[M], ascending): its `starts` and `rows`;
    uint32[M] slots is work.

    Rows of a slot stay in ascending order.
    """
    starts[:] = 0
    for i in range(len(members)):
        slots[i] = _slot(_band_key(words[members[i]], band, r), spread)
        # Counting sort: counts one place up, so that running sums give where each slot begins.
        starts[np.int64(slots[i]) + 1] += 1
    for slot in range(1, len(starts)):
        starts[slot] += starts[slot - 1]
    for i in range(len(members)):
        # filling moves each start to the start of the next slot; the loop below moves them back
        rows[starts[slots[i]]] = members[i]
        starts[slots[i]] += 1
    for slot in range(len(starts) - 1, 0, -1):
        starts[slot] = starts[slot - 1]
    starts[0] = 0


@kernel
def _smallest_first(plan, n, budget, spare, begins):
    """Put buckets in order of the bit length of their sizes, cut where `budget` rows are reached;
    return their number.

    Small buckets say more: of two rows that share a rare key more is equal beside it than of two
    that share a common one. Sorting by bit length takes one pass, and sorting finer finds no more.
    """
    begins[:] = 0
    for c in range(n):
        size, length = plan[c, 1] - plan[c, 0], 0
        while size:
            size >>= 1
            length += 1
        # bit lengths of sizes: 0, 1, 2–3, 4–7, … rows
        spare[c, 4] = length
        begins[length + 1] += 1
    for length in range(1, _SIZES + 1):
        begins[length] += begins[length - 1]
    for c in range(n):
        length = spare[c, 4]
        for j in range(4):
            spare[begins[length], j] = plan[c, j]
        begins[length] += 1
    for c in range(n):
        for j in range(4):
            plan[c, j] = spare[c, j]
        budget -= plan[c, 1] - plan[c, 0]
        if budget <= 0:
            # budget ≤ 0 is by how much this bucket is too large: it is cut short by that
            plan[c, 1] += budget
            return c + 1
    return n


@kernel
def _plan(arrays, keys, masks, levels, budget, work):
    """Choose the buckets that a query looks into: int64[bands · masks, 4] of begin, end, band and
    mask.

    Masks are what is changed in a key, uint64[L], fewest symbols first; those with m symbols are
    `levels[m]` … `levels[m + 1]` (int64). A level is looked into wholly as long as no more than
    `budget` rows come together. Of the first that is too large the smallest buckets are taken.
    Returns the numbers of buckets and of rows in them.
    """
    starts, spread, plan = arrays.starts, arrays.spread, work.plan
    n, total = 0, 0
    for level in range(len(levels) - 1):
        first, size = n, 0
        for m in range(levels[level], levels[level + 1]):
            for band in range(len(keys)):
                # the key with the symbols of this mask changed
                slot = _slot(keys[band] ^ masks[m], spread)
                begin, stop = np.int64(starts[band, slot]), np.int64(starts[band, slot + 1])
                if begin < stop:
                    plan[n, 0], plan[n, 1], plan[n, 2], plan[n, 3] = begin, stop, band, m
                    n += 1
                    size += stop - begin
        if total + size > budget:
            return first + _smallest_first(
                plan[first:n], n - first, budget - total, work.spare, work.begins
            ), budget
        total += size
    return n, total


@inlined_kernel
def _distance(words, row, query, first, ps, ws):
    """Symbols in which a row of uint64[N, P, W] differs from uint64[P, W], in the words `first` …
    `first + len(ws)`.

    `ps` and `ws` fix the lengths of loops at compile time. The row is a number, not a slice: slices
    are counted.
    """
    distance = np.uint64(0)
    for w in range(len(ws)):
        differ = words[row, 0, first + w] ^ query[0, first + w]
        for p in range(1, len(ps)):
            differ |= words[row, p, first + w] ^ query[p, first + w]
        distance += popcount(differ)
    return distance


@kernel
def _sink_place(heap, place):
    """Put a place where the largest of a heap is, and let it sink to where it belongs."""
    at, size = 0, len(heap)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= place:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = place


@kernel
def _is_probed(sorted_masks, difference):
    # a query looks into a row's key exactly when query key ^ row key is one of its masks
    begin, stop = 0, len(sorted_masks)
    while begin < stop:
        middle = (begin + stop) // 2
        if sorted_masks[middle] < difference:
            begin = middle + 1
        else:
            stop = middle
    return begin < len(sorted_masks) and sorted_masks[begin] == difference


@kernel
def _band_hits(row, keys, r, sorted_masks, enough):
    """Count the bands of uint64[P, W] that a query with these keys looks into, up to `enough`."""
    hits = 0
    for band in range(len(keys)):
        if _is_probed(sorted_masks, _band_key(row, band, r) ^ keys[band]):
            hits += 1
            if hits == enough:
                break
    return hits


@kernel
def _list_rows_into(table, mask, plan, n_buckets, rows):
    """Write the rows of some buckets that are allowed, again in every bucket that holds them;
    return how many.
    """
    n = 0
    for c in range(n_buckets):
        band = plan[c, 2]
        for e in range(plan[c, 0], plan[c, 1]):
            row = table[band, e]
            rows[n] = row
            # written always, counted only where allowed: no branch to mispredict
            n += np.int64(is_allowed(mask, np.int64(row)))
    return n


@kernel
def _keep_likely(sketches, sketch, ws, rows, n, wanted, guesses):
    """Keep those `wanted` of n rows whose sketches are nearest, and all that are as near; return
    how many.

    The farthest that is kept is found by halving: going over all guesses to count takes less than a
    histogram.
    """
    for i in range(n):
        guess = _distance(sketches, np.int64(rows[i]), sketch, 0, _ONE_PLANE, ws)
        for first in range(len(ws), sketch.shape[1], len(ws)):
            guess += _distance(sketches, np.int64(rows[i]), sketch, first, _ONE_PLANE, ws)
        guesses[i] = guess
    # fewer than `wanted` rows are within `too_near`, at least as many within `farthest`
    too_near, farthest = -1, _WORD_BITS * sketch.shape[1]
    while farthest - too_near > 1:
        middle = (too_near + farthest) // 2
        limit, count = np.uint16(middle), 0
        for i in range(n):
            count += np.int64(guesses[i] <= limit)
        if count < wanted:
            too_near = middle
        else:
            farthest = middle
    kept, limit = 0, np.uint16(farthest)
    for i in range(n):
        rows[kept] = rows[i]
        kept += np.int64(guesses[i] <= limit)
    return kept


@kernel
def _measure_rows_into(words, rows, n, query, ps, ws, distances, histogram):
    """Write the distances of n rows, and count them; nothing is compared.

    A row that several bands hold is measured every time, which takes less than asking whether it is
    new. Rows were listed before: all they need from memory comes side by side.
    """
    for i in range(n):
        distance = _distance(words, np.int64(rows[i]), query, 0, ps, ws)
        for first in range(len(ws), query.shape[1], len(ws)):
            distance += _distance(words, np.int64(rows[i]), query, first, ps, ws)
        distances[i] = distance
        histogram[np.int64(distance)] += 1


@kernel
def _sort_nearest_into(rows, distances, histogram, n, low, high, picked, places):
    """Write the places of rows with distances from `low` up to `high` to `places` by distance;
    return how many.
    """
    found = 0
    for i in range(n):  # without a branch that could be mispredicted
        picked[found] = i
        found += np.int64((distances[i] >= low) & (distances[i] <= high))
    begin = 0
    for distance in range(low, high + 1):
        count = histogram[distance]
        histogram[distance] = begin
        begin += count
    for j in range(found):
        i = picked[j]
        distance = np.int64(distances[i])
        # one number that sorts by distance first and row second
        places[histogram[distance]] = distance * _PLACE + rows[i]
        histogram[distance] += 1
    return found


@kernel
def _offer_nearest(arrays, keys, r, sorted_masks, work, n, heap, stamp):
    """Offer the rows in `work`, nearest first, to the k best of a query until all others are too
    far.
    """
    rows, distances, histogram, places, seen = (
        work.rows,
        work.distances,
        work.histogram,
        work.places,
        work.seen,
    )
    low = 0
    enough = len(heap) * len(keys)  # so many rows are k different ones
    last = len(histogram) - 1
    while low <= last:
        # Sort only as many distances as may be needed: a row is in one bucket of each band, so
        # k · bands entries hold k different rows.
        high, count = low, np.int64(histogram[low])
        while high < last and count < enough:
            high += 1
            count += histogram[high]
        found = _sort_nearest_into(rows, distances, histogram, n, low, high, work.picked, places)
        for j in range(found):
            place = places[j]
            if place >= heap[0]:
                # entries come by distance, not by row: only a larger distance ends the search
                if place // _PLACE > heap[0] // _PLACE:
                    return
                continue
            row = place % _PLACE
            if seen[row] != stamp:
                # rows of other keys share a slot, and a table of
                # whole keys would not have listed them
                if arrays.hashed and not _band_hits(arrays.words[row], keys, r, sorted_masks, 1):
                    continue
                seen[row] = stamp
                _sink_place(heap, place)
        low = high + 1


@kernel
def nearest_in_tables_into(
    arrays,
    mask,
    queries,
    sketches,
    keys,
    r,
    masks,
    sorted_masks,
    levels,
    budget,
    most,
    finalists,
    ps,
    ws,
    best,
    looked,
    work,
):
    """Offer the rows of the buckets that queries look into to their k best, int64[Q, k], heaps of
    places.

    uint64[Q, P, W] queries, uint64[Q, bands] keys. `looked`, int64[Q]: how many rows were looked
    at. Queries for which that is more than `most` are left out, for the scan. Where there are
    sketches, uint64[Q, 1, W] are those of queries, and of more rows than `finalists` only so many
    are measured.
    """
    for q in range(len(queries)):
        n_buckets, n = _plan(arrays, keys[q], masks, levels, budget, work)
        looked[q] = n
        if 0 < n <= most:
            work.histogram[:] = 0
            n = _list_rows_into(arrays.rows, mask, work.plan, n_buckets, work.rows)
            if len(arrays.sketches) and n > finalists:
                n = _keep_likely(
                    arrays.sketches, sketches[q], ws, work.rows, n, finalists, work.guesses
                )
            _measure_rows_into(
                arrays.words, work.rows, n, queries[q], ps, ws, work.distances, work.histogram
            )
            _offer_nearest(arrays, keys[q], r, sorted_masks, work, n, best[q], q + 1)


@kernel
def nearest_in_rows_into(tiles, first, origin, distances, mask, keys, r, sorted_masks, best):
    """Offer rows from `first` on of uint64[T, P, W, L] to the k best of every query.

    int32[Q, M] are the distances of the rows from `origin` on. A row counts where the query looks
    into one of its bands, as it would in a table; only near ones are asked.
    """
    n_lanes = tiles.shape[3]
    for q in range(len(keys)):
        heap = best[q]
        worst = heap[0]
        for row in range(first, origin + distances.shape[1]):
            place = np.int64(distances[q, row - origin]) * _PLACE + row
            # distance and id in one comparison; only what would
            # enter the heap is asked for its bands
            if place >= worst or not is_allowed(mask, row):
                continue
            if _band_hits(tiles[row // n_lanes, :, :, row % n_lanes], keys[q], r, sorted_masks, 1):
                _sink_place(heap, place)
                worst = heap[0]


@kernel
def hits_in_tables_into(arrays, mask, keys, r, masks, levels, budget, work, hits, rows):
    """Count the bands of one query, uint64[bands], that every row of the tables is found in.

    uint32[N] hits, all zero; the rows that have any are written to int64[N] rows, and their number
    is returned.
    """
    plan = work.plan
    n_buckets, _ = _plan(arrays, keys, masks, levels, budget, work)
    found = 0
    for c in range(n_buckets):
        band = plan[c, 2]
        key = keys[band] ^ masks[plan[c, 3]]
        for e in range(plan[c, 0], plan[c, 1]):
            row = np.int64(arrays.rows[band, e])
            if not is_allowed(mask, row) or (
                arrays.hashed and _band_key(arrays.words[row], band, r) != key
            ):
                continue
            if hits[row] == 0:
                rows[found] = row
                found += 1
            hits[row] += 1
    return found


@kernel
def hits_in_rows_into(tiles, first, last, mask, keys, r, sorted_masks, hits, rows):
    """`hits_in_tables_into` for rows `first` … `last` of uint64[T, P, W, L], which are in no
    table.
    """
    n_lanes = tiles.shape[3]
    found = 0
    for row in range(first, last):
        if is_allowed(mask, row):
            count = _band_hits(
                tiles[row // n_lanes, :, :, row % n_lanes], keys, r, sorted_masks, len(keys)
            )
            if count:
                hits[row] = count
                rows[found] = row
                found += 1
    return found


@kernel
def row_distances_into(words, query, ps, ws, out):
    """uint64[M, P, W] and one query, uint64[P, W] -> int32[M]."""
    for i in range(len(words)):
        out[i] = 0
        for first in range(0, query.shape[1], len(ws)):
            out[i] += _distance(words, i, query, first, ps, ws)
