"""Symbol distances over blocks of 512 codes: all of them, the k smallest, or all within a radius.

The distance of two codes is popcount(OR over planes of (a ^ b)). `ps`, `ws` and `bs` are tuples
whose lengths, not values, matter: they fix the number of planes, of words and of blocks taken in
one step at compile time, so LLVM unrolls those loops and vectorizes the one over the 512 lanes.

The k smallest are kept by counting: distances are small integers, so a histogram of the candidates
taken so far gives the exact k-th distance at every moment, whatever k is. Candidates go to a buffer
of more than k places, which is cut back to the best k when it is full. `by_id` says that ids may
come out of order, so that equal distances must be settled by id; without it the first of equals has
the lowest id and later ones are never candidates.

Where k is large, most candidates would be taken early and fall out later. Then a sample of the
blocks says first how far the k-th is about, and lanes within that are marked by vectors, a bit
each: only what is marked is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import is_allowed, popcount
from bitkin.kernels.blocks import BLOCK

MAX_UNROLLED = 32  # words a turn; more would only make the compiler slow
FEW_LANES = 32  # with fewer candidates in a block, going to each beats going over all 512
_U0, _U1, _U63 = np.uint64(0), np.uint64(1), np.uint64(63)
_NO_ID = np.int64(2**63 - 1)
_FAR = np.int32(2**31 - 1)


class Best(NamedTuple):
    """The k best of Q queries during a scan; every array has a row per query, except the last
    four.
    """

    limits: npt.NDArray[np.int32]
    """[Q]: only distances below this are of interest."""
    progress: npt.NDArray[np.int64]
    """[Q, 4]: candidates kept; the k-th distance so far (the largest possible while there are fewer
    than k); how many are that close; the largest id still of use at exactly that distance.
    """
    histogram: npt.NDArray[np.int32]
    """[Q, 64·W + 1]: candidates kept, by distance. Sized by words, not symbols: no file content can
    step outside.
    """
    distances: npt.NDArray[np.int32]
    """[Q, more than k]: of the candidates, in the order they came."""
    ids: npt.NDArray[np.int64]
    """[Q, more than k]."""
    spare: npt.NDArray[np.int64]
    """[more than k]: room to sort in."""
    lanes: npt.NDArray[np.int32]
    """[512]: distances of the block at hand."""
    hits: npt.NDArray[np.int64]
    """[512]: lanes of the block at hand that are of interest."""
    marks: npt.NDArray[np.uint64]
    """[8]: the same, a bit per lane."""


def room_for(k: int) -> int:
    """Return how many candidates of a query are kept."""
    return 2 * k + 64


def empty_best(n_queries: int, k: int, n_words: int) -> Best:
    """Return the state before the first block."""
    most, room = 64 * n_words, room_for(k)
    progress = np.zeros((n_queries, 4), dtype=np.int64)
    progress[:, 1], progress[:, 3] = most, _NO_ID
    return Best(
        limits=np.full(n_queries, most + 1, dtype=np.int32),
        progress=progress,
        histogram=np.zeros((n_queries, most + 1), dtype=np.int32),
        distances=np.empty((n_queries, room), dtype=np.int32),
        ids=np.empty((n_queries, room), dtype=np.int64),
        spare=np.empty(room, dtype=np.int64),
        lanes=np.empty(BLOCK, dtype=np.int32),
        hits=np.empty(BLOCK, dtype=np.int64),
        marks=np.empty(BLOCK // 64, dtype=np.uint64),
    )


def blocks_ahead(n_planes: int, n_words: int) -> tuple[int, ...]:
    """Return `bs`: blocks that a lone query takes at once, for about 16 streams from memory."""
    return (0,) * max(1, min(8, 16 // (n_planes * n_words)))


def block_widths(n_planes: int, n_words: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return `ps` and `ws` for codes of `n_planes` planes of `n_words` words."""
    most = max(1, MAX_UNROLLED // n_planes)
    turn = max(words for words in range(1, min(most, n_words) + 1) if n_words % words == 0)
    return (0,) * n_planes, (0,) * turn


@inlined_kernel
def _lane_distance(block, query, first, i, ps, ws):
    """Distance of lane `i` over the words `first` … `first + len(ws)`, unrolled."""
    distance = np.uint64(0)
    for w in range(len(ws)):
        differ = block[0, first + w, i] ^ query[0, first + w]
        for p in range(1, len(ps)):
            differ |= block[p, first + w, i] ^ query[p, first + w]
        distance += popcount(differ)
    return distance


@kernel
def _block_distances_into(block, query, ps, ws, lanes):
    """uint64[P, W, 512], uint64[P, W] -> int32[512], written to `lanes`."""
    for i in range(BLOCK):
        lanes[i] = _lane_distance(block, query, 0, i, ps, ws)
    for first in range(len(ws), block.shape[1], len(ws)):
        for i in range(BLOCK):
            lanes[i] += _lane_distance(block, query, first, i, ps, ws)


@kernel
def _any_closer(block, query, limit, ps, ws):
    """Is any lane closer than `limit` (uint64)? Nothing is stored: the sign bits of distance −
    limit are collected.
    """
    signs = np.uint64(0)
    for i in range(BLOCK):
        # distance − limit in unsigned arithmetic: negative differences wrap round and set the top
        # bit, and no distance is so large that it would set it by itself.
        signs |= _lane_distance(block, query, 0, i, ps, ws) - limit
    return signs >> _U63 != _U0


@kernel
def _any_closer_ahead(blocks, b, query, limit, ps, ws, bs):
    """`_any_closer` for the `len(bs)` blocks from `b` on, side by side: as many streams from memory
    as it can feed.

    One stream stalls at every page; alone, a query on 64-bit codes is half as slow again with it.
    """
    signs = np.uint64(0)
    for i in range(BLOCK):
        for ahead in range(len(bs)):
            signs |= _lane_distance(blocks[b + ahead], query, 0, i, ps, ws) - limit
    return signs >> _U63 != _U0


@kernel
def _any_closer_of_two(block, query_a, query_b, limit_a, limit_b, ps, ws):
    """`_any_closer` for two queries at once: the block is read from cache once, a fifth faster for
    wide codes.
    """
    signs_a, signs_b = np.uint64(0), np.uint64(0)
    for i in range(BLOCK):
        signs_a |= _lane_distance(block, query_a, 0, i, ps, ws) - limit_a
        signs_b |= _lane_distance(block, query_b, 0, i, ps, ws) - limit_b
    return signs_a >> _U63 != _U0, signs_b >> _U63 != _U0


@kernel
def _few_distances_into(block, query, ps, ws, mask, b, lanes):
    """Like `_block_distances_into`, for the lanes that uint64[8·B] allows; all others get the
    largest number.
    """
    for i in range(BLOCK):
        lanes[i] = _FAR
    for j in range(8):
        bits = mask[8 * b + j]
        i = 64 * j
        # only lanes whose bit is set pay for a distance
        while bits != _U0:
            if bits & _U1 != _U0:
                distance = np.uint64(0)
                for first in range(0, block.shape[1], len(ws)):
                    distance += _lane_distance(block, query, first, i, ps, ws)
                lanes[i] = distance
            bits >>= _U1
            i += 1


@kernel
def symbol_distances_into(blocks, queries, ps, ws, out, first, count, lanes):
    """uint64[B, P, W, 512], uint64[Q, P, W] -> columns `first` … `first + count` of int32[Q, N],
    written to `out`.
    """
    for b in range(len(blocks)):
        start = b * BLOCK
        stop = min(BLOCK, count - start)
        for q in range(len(queries)):
            _block_distances_into(blocks[b], queries[q], ps, ws, lanes)
            for i in range(stop):
                out[q, first + start + i] = lanes[i]


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
def _masked_distances_into(block, query, ps, ws, mask, b, allowed, lanes):
    if allowed <= FEW_LANES:
        _few_distances_into(block, query, ps, ws, mask, b, lanes)
    else:
        _block_distances_into(block, query, ps, ws, lanes)


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
def _offer_block(best, q, k, by_id, ids, mask, start, stop):
    """Offer the rows `start` … `start + stop`, whose distances are in `best.lanes`, to query `q`.

    A candidate below the limit is kept; as soon as k closer ones are there the limit falls. What is
    done with a candidate stands again in `_offer_marked`: as a function of both, inlined as it is,
    it makes a search for the 1,000 nearest a third slower.
    """
    limit = best.limits[q]
    n_hits = 0
    for group in range(0, BLOCK, 64):
        any_hit = np.int32(0)
        for i in range(64):
            # a sum that LLVM vectorizes; most groups of 64 lanes have no hit and end here
            any_hit += np.int32(best.lanes[group + i] < limit)
        if any_hit > 0:
            for i in range(group, group + 64):  # without a branch that could be mispredicted
                best.hits[n_hits] = i
                n_hits += np.int64(best.lanes[i] < limit)

    histogram, distances, kept_ids = best.histogram[q], best.distances[q], best.ids[q]
    n_kept, worst, n_close, last_id = best.progress[q]
    for h in range(n_hits):
        i = best.hits[h]
        distance = np.int64(best.lanes[i])
        # the limit may have fallen since the lane was noted; lanes from `stop` on hold no rows
        if distance >= limit or i >= stop or not is_allowed(mask, start + i):
            continue
        if n_kept == len(kept_ids):
            n_kept, n_close, last_id = _cut_back(
                histogram, distances, kept_ids, best.spare, n_kept, worst, n_close, k, by_id
            )
        row_id = ids[start + i]
        if by_id and distance == worst and row_id > last_id:
            continue
        distances[n_kept], kept_ids[n_kept] = distance, row_id
        n_kept += 1
        histogram[distance] += 1
        n_close += 1
        # `worst` is the k-th distance and `n_close` counts the candidates up to it: once k of them
        # are below it, it falls to the next distance that has k.
        while n_close - histogram[worst] >= k:
            n_close -= histogram[worst]
            worst -= 1
            last_id = _NO_ID
        if n_close >= k:
            # Of equal distances the lowest ids count: without `by_id` those have come already.
            limit = worst + by_id
    best.progress[q, 0], best.progress[q, 1], best.progress[q, 2], best.progress[q, 3] = (
        n_kept,
        worst,
        n_close,
        last_id,
    )
    best.limits[q] = limit


@kernel
def k_smallest_into(
    blocks, ids, first_block, last_block, n, mask, queries, ps, ws, bs, k, by_id, best
):
    """Offer blocks `first_block` … `last_block` of a segment of `n` rows to every query's k best.

    uint64[B, P, W, 512], int64[≥ n], mask uint64[8·B] or [0] for all rows, uint64[Q, P, W]. While
    hits are likely (the first k·512 rows), among few lanes, and for codes wider than one turn, all
    distances of a block are stored and looked at; otherwise a pass that stores nothing first asks
    whether there is a hit at all: for two queries at once, or for several blocks at once where
    there is only one query.
    """
    narrow = len(ws) == queries.shape[2]
    alone = narrow and len(queries) == 1 and len(mask) == 0
    skip_to, asked_to = first_block, first_block
    for b in range(first_block, last_block):
        if b < skip_to:
            continue
        # Of rows in random order row i is among the k best so far with chance k/i, so a block has
        # 512·k/(512·b) = k/b hits: more than one until block k.
        likely = b - first_block <= k
        if alone and not likely and b >= asked_to and b + len(bs) <= last_block:
            asked_to = b + len(bs)
            if not _any_closer_ahead(blocks, b, queries[0], np.uint64(best.limits[0]), ps, ws, bs):
                skip_to = asked_to
                continue
        allowed = _allowed_in_block(mask, b)
        if allowed == 0:
            continue
        start = b * BLOCK
        stop = min(BLOCK, n - start)
        block = blocks[b]
        ask_first = narrow and allowed > FEW_LANES and not likely
        for q in range(0, len(queries), 2):
            hit_a, hit_b = True, q + 1 < len(queries)
            if ask_first:
                limit_a = np.uint64(best.limits[q])
                if hit_b:
                    limit_b = np.uint64(best.limits[q + 1])
                    hit_a, hit_b = _any_closer_of_two(
                        block, queries[q], queries[q + 1], limit_a, limit_b, ps, ws
                    )
                else:
                    hit_a = _any_closer(block, queries[q], limit_a, ps, ws)
            for side in range(2):
                if hit_a if side == 0 else hit_b:
                    _masked_distances_into(
                        block, queries[q + side], ps, ws, mask, b, allowed, best.lanes
                    )
                    _offer_block(best, q + side, k, by_id, ids, mask, start, stop)


@kernel
def sample_into(blocks, first_block, last_block, n, mask, queries, ps, ws, step, best):
    """Count the distances of the rows of every `step`-th block, for `guess_limits`."""
    for b in range(first_block, last_block, step):
        start = b * BLOCK
        for q in range(len(queries)):
            _block_distances_into(blocks[b], queries[q], ps, ws, best.lanes)
            for i in range(min(BLOCK, n - start)):
                if is_allowed(mask, start + i):
                    best.histogram[q, best.lanes[i]] += 1


@kernel
def guess_limits(best, rank):
    """Set the limit of every query to take in the `rank`-th nearest of its sample, and forget the
    sample.

    If at least k rows are found below it, they are the right ones; if not, it was set too low.
    """
    for q in range(len(best.limits)):
        count, guess = 0, best.limits[q]
        for distance in range(best.histogram.shape[1]):
            # the distance at which the running count reaches
            # `rank`; + 1, for the limit is exclusive
            if count < rank <= count + best.histogram[q, distance]:
                guess = distance + 1
            count += best.histogram[q, distance]
            best.histogram[q, distance] = 0
        best.limits[q] = guess


@kernel
def _any_marked(block, query, limit, ps, ws, marks):
    """Mark the lanes closer than `limit` (uint64) in uint64[8]: a sign bit each, put in its
    place.
    """
    any_mark = np.uint64(0)
    for group in range(BLOCK // 64):
        bits = np.uint64(0)
        for i in range(64):
            bits |= (
                (_lane_distance(block, query, 0, 64 * group + i, ps, ws) - limit) >> _U63
            ) << np.uint64(i)
        marks[group] = bits
        any_mark |= bits
    return any_mark != _U0


@kernel
def _offer_marked(best, q, k, by_id, ids, mask, start, stop, block, query, ps, ws):
    """`_offer_block` for the lanes that are marked; their distances are computed here."""
    limit = best.limits[q]
    histogram, distances, kept_ids = best.histogram[q], best.distances[q], best.ids[q]
    n_kept, worst, n_close, last_id = best.progress[q]
    for group in range(BLOCK // 64):
        bits = best.marks[group]
        while bits != _U0:
            # the lowest bit that is set
            i = 64 * group + np.int64(popcount((bits & (~bits + _U1)) - _U1))
            bits &= bits - _U1
            distance = np.int64(_lane_distance(block, query, 0, i, ps, ws))
            if distance >= limit or i >= stop or not is_allowed(mask, start + i):
                continue
            if n_kept == len(kept_ids):
                n_kept, n_close, last_id = _cut_back(
                    histogram, distances, kept_ids, best.spare, n_kept, worst, n_close, k, by_id
                )
            row_id = ids[start + i]
            if by_id and distance == worst and row_id > last_id:
                continue
            distances[n_kept], kept_ids[n_kept] = distance, row_id
            n_kept += 1
            histogram[distance] += 1
            n_close += 1
            # as in `_offer_block`: the k-th distance falls while k candidates are closer
            while n_close - histogram[worst] >= k:
                n_close -= histogram[worst]
                worst -= 1
                last_id = _NO_ID
            if n_close >= k:
                limit = worst + by_id
    best.progress[q, 0], best.progress[q, 1], best.progress[q, 2], best.progress[q, 3] = (
        n_kept,
        worst,
        n_close,
        last_id,
    )
    best.limits[q] = limit


@kernel
def many_smallest_into(
    blocks, ids, first_block, last_block, n, mask, queries, ps, ws, k, by_id, best
):
    """`k_smallest_into` for a large k and codes of one turn: every block is marked, few lanes have
    to be looked at.
    """
    for b in range(first_block, last_block):
        if _allowed_in_block(mask, b) == 0:
            continue
        start = b * BLOCK
        stop = min(BLOCK, n - start)
        block = blocks[b]
        for q in range(len(queries)):
            if _any_marked(block, queries[q], np.uint64(best.limits[q]), ps, ws, best.marks):
                _offer_marked(best, q, k, by_id, ids, mask, start, stop, block, queries[q], ps, ws)


@kernel
def sort_best_into(best, k, by_id, out_ids, out_distances):
    """Write every query's best k, nearest first, ties by lower id, to int64[Q, k] and int32[Q, k].

    Places beyond the candidates there are stay as they were. Sorting is by counting; `best` is used
    up.
    """
    for q in range(len(best.limits)):
        histogram = best.histogram[q]
        n, worst, n_close, _ = best.progress[q]
        if n > k:
            n, _, _ = _cut_back(
                histogram, best.distances[q], best.ids[q], best.spare, n, worst, n_close, k, by_id
            )
        place = 0
        # counts become the place where each distance begins
        for distance in range(worst + 1):
            count = histogram[distance]
            histogram[distance] = place
            place += count
        for c in range(n):
            distance = best.distances[q, c]
            place = histogram[distance]
            histogram[distance] += 1
            out_ids[q, place] = best.ids[q, c]
            out_distances[q, place] = distance
        start = 0
        # candidates came in the order of rows, not ids: sort each run of equal distances
        while by_id and start < n:
            stop = start + 1
            while stop < n and out_distances[q, stop] == out_distances[q, start]:
                stop += 1
            _sort_ids(out_ids[q, start:stop])
            start = stop


@kernel
def within_radius_into(
    blocks,
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
    lanes,
):
    """Collect (query, id, distance) of all rows within `radius`; returns the next block to do and
    how many were found.

    Stops before a block whose hits might not fit the output, int64[M], int64[M], int32[M] with M ≥
    512·Q.
    """
    found = 0
    for b in range(first_block, last_block):
        if found + BLOCK * len(queries) > len(out_ids):
            return b, found
        allowed = _allowed_in_block(mask, b)
        if allowed == 0:
            continue
        start = b * BLOCK
        stop = min(BLOCK, n - start)
        for q in range(len(queries)):
            _masked_distances_into(blocks[b], queries[q], ps, ws, mask, b, allowed, lanes)
            for i in range(stop):
                if lanes[i] <= radius and is_allowed(mask, start + i):
                    out_queries[found] = q
                    out_ids[found] = ids[start + i]
                    out_distances[found] = lanes[i]
                    found += 1
    return last_block, found
