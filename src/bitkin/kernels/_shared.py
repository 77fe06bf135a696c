"""What kernels of several files use: names of metrics, bits of words, marks of rows, heaps of
candidates, and the k best of a scan.

The cache of compiled kernels covers a kernel's own file, this one, and files whose kernels its own
file imports (`bitkin.kernels._cache`): an edit here compiles all of them again.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel

L2, COSINE, IP = 0, 1, 2  # how a kernel is told the metric

NO_ID = np.int64(2**63 - 1)  # above every id
SPARE_CANDIDATES = 64  # that a pool may keep beside the best k
_HALVINGS = 24  # steps to a limit between candidates
_SAMPLE = 32  # candidates, to begin with
_MANY = np.uint64(8)  # rows of 64 that are no worse than the k-th: perhaps all tie with it
NARROW = 16  # rows of a narrow tile, see `bitkin.kernels.blocks`
_0, _1, _2, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_8, _16, _32, _56 = np.uint64(8), np.uint64(16), np.uint64(32), np.uint64(56)
_LCG_FACTOR, _LCG_STEP = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
_EVERY_2ND_BIT = np.uint64(0x5555555555555555)
_EVERY_2ND_PAIR = np.uint64(0x3333333333333333)
_EVERY_2ND_FOUR = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOWEST_OF_BYTES = np.uint64(0x0101010101010101)
_EVERY_2ND_BYTE = np.uint64(0x00FF00FF00FF00FF)
_EVERY_2ND_TWO_BYTES = np.uint64(0x0000FFFF0000FFFF)


@kernel
def popcount(x):
    """uint64 -> uint64; LLVM knows this formula and makes it one instruction where there is one."""
    # sums of 2, then 4, then 8 neighbouring bits; the product adds all bytes up in the highest one
    x = x - ((x >> _1) & _EVERY_2ND_BIT)
    x = (x & _EVERY_2ND_PAIR) + ((x >> _2) & _EVERY_2ND_PAIR)
    x = (x + (x >> _4)) & _EVERY_2ND_FOUR
    return (x * _LOWEST_OF_BYTES) >> _56


@kernel
def reverse_bytes(word):
    """Return `word` with its bytes reversed: symbol j of 64 is then bit 63 − j."""
    word = ((word & _EVERY_2ND_BYTE) << _8) | ((word >> _8) & _EVERY_2ND_BYTE)
    word = ((word & _EVERY_2ND_TWO_BYTES) << _16) | ((word >> _16) & _EVERY_2ND_TWO_BYTES)
    return (word << _32) | (word >> _32)


@kernel
def widen_tiles_into(tiles, first, wide):
    """Copy the rows of narrow tiles, uint64[T, P, W, 16], from tile `first` on to wide ones,
    uint64[V, P, W, M] with M a multiple of 16, until those are full.
    """
    if tiles.shape[3] != NARROW:  # so that the compiler knows the strides, and copies by vectors
        return
    n_wide, n_planes, n_words, n_lanes = wide.shape
    n_narrow = n_lanes // NARROW
    for v in range(n_wide):
        for p in range(n_planes):
            for w in range(n_words):
                for t in range(n_narrow):
                    lanes = tiles[first + v * n_narrow + t, p, w]
                    out = wide[v, p, w, NARROW * t : NARROW * t + NARROW]
                    for i in range(NARROW):
                        out[i] = lanes[i]


@kernel
def is_allowed(mask, row):
    """Whether bit `row` of uint64[8·B] is set; an empty mask allows all rows."""
    return len(mask) == 0 or (mask[row >> 6] >> np.uint64(row & 63)) & _1 != _0


@kernel
def is_worse(distance, id, other_distance, other_id):
    """Whether the first of two candidates comes after the other."""
    return distance > other_distance or (distance == other_distance and id > other_id)


@kernel
def sink_candidate(distances, ids, size, distance, id):
    """Put a candidate in the place of the worst, the first of a heap of `size`, and let it sink to
    where it belongs.
    """
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and is_worse(
            distances[child + 1], ids[child + 1], distances[child], ids[child]
        ):
            child += 1
        if not is_worse(distances[child], ids[child], distance, id):
            break
        distances[place], ids[place] = distances[child], ids[child]
        place = child
    distances[place], ids[place] = distance, id


@kernel
def raise_candidate(distances, ids, size, distance, id):
    """Put a candidate behind a heap of `size`, whose first is the worst, and let it rise to where
    it belongs.
    """
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if not is_worse(distance, id, distances[parent], ids[parent]):
            break
        distances[place], ids[place] = distances[parent], ids[parent]
        place = parent
    distances[place], ids[place] = distance, id


@kernel
def sort_candidates(distances, ids, size):
    """Turn a heap of `size`, whose first is the worst, into a list, nearest first, ties by lower
    id.
    """
    # heapsort in place: the worst goes to the end
    while size > 1:
        size -= 1
        distance, id = distances[size], ids[size]
        distances[size], ids[size] = distances[0], ids[0]
        sink_candidate(distances, ids, size, distance, id)


@kernel
def cut_back(scores, ids, size, k):
    """Bring the best k of the first `size` candidates, more than k, to the first k places, in any
    order, ties by lower id; the last of them is at place k − 1, and its score and id are returned.

    Quickselect: the part that holds place k − 1 is split again and again. Pivots are drawn, so that
    no order of rows makes it slow, by a generator that begins with `size`: always the same ones.
    """
    low, high = 0, size - 1
    drawn = np.uint64(size)
    while low < high:
        drawn = drawn * _LCG_FACTOR + _LCG_STEP
        middle = low + np.int64((drawn >> _32) % np.uint64(high - low + 1))
        score, id = scores[middle], ids[middle]
        scores[middle], ids[middle] = scores[high], ids[high]
        place = low
        for i in range(low, high):
            # swapped always, counted only where it is nearer: no branch to mispredict
            other_score, other_id = scores[i], ids[i]
            scores[i], ids[i] = scores[place], ids[place]
            scores[place], ids[place] = other_score, other_id
            place += np.int64((other_score < score) | ((other_score == score) & (other_id < id)))
        scores[high], ids[high] = scores[place], ids[place]
        scores[place], ids[place] = score, id
        if place == k - 1:
            break
        if place > k - 1:
            high = place - 1
        else:
            low = place + 1
    return scores[k - 1], ids[k - 1]


@kernel
def _count_at_most(numbers, limit):
    """How many numbers are `limit` or less."""
    count = 0
    for i in range(len(numbers)):
        count += numbers[i] <= limit
    return count


@kernel
def thin_out(scores, ids, size, k):
    """Bring some of the first `size` candidates, all that are among the best k and hardly more, to
    the front, in the order in which they are; return how many, what the worst of them scores, and
    its id, where others of that score and a higher id are out, else `NO_ID`.

    A limit between is looked for by halving what a sample spans: to count what is below it takes a
    comparison by vectors, and candidates are moved once. Where many of them share a score, no limit
    is good enough: then ids decide.
    """
    low, high = np.float64(scores[0]), np.float64(scores[0])
    for i in range(0, size, max(1, size // _SAMPLE)):
        low = min(low, np.float64(scores[i]))
        high = max(high, np.float64(scores[i]))
    most = k + min(k, SPARE_CANDIDATES)
    for _ in range(_HALVINGS):
        middle = low + (high - low) * 0.5
        count = _count_at_most(scores[:size], middle)
        if count < k:
            low = middle
        elif count > most:
            high = middle
        else:
            count = 0
            for i in range(size):
                # written always, counted only where it is near enough: no branch to mispredict
                score = scores[i]
                scores[count], ids[count] = score, ids[i]
                count += np.int64(score <= middle)
            limit = scores[0]
            for i in range(1, count):
                limit = max(limit, scores[i])
            return count, limit, NO_ID
    limit, last_id = cut_back(scores, ids, size, k)
    return k, limit, last_id


@kernel
def mark_at_most(numbers, limit):
    """Up to 64 numbers -> a bit for each that is `limit` or less, made by vectors."""
    bits = _0
    for i in range(len(numbers)):
        bits |= np.uint64(numbers[i] <= limit) << np.uint64(i)
    return bits


@kernel
def _mark_better(numbers, ids, limit, last_id):
    """Up to 64 numbers and their ids -> a bit for each that comes before `limit` and `last_id`,
    made by vectors.
    """
    bits = _0
    for i in range(len(numbers)):
        is_better = (numbers[i] < limit) | ((numbers[i] == limit) & (ids[i] < last_id))
        bits |= np.uint64(is_better) << np.uint64(i)
    return bits


@kernel
def collect_rows(scores, start, mask, ids, k, limit, last_id, kept_scores, kept_ids, size):
    """Offer the rows `start` … `start + len(scores)` of a segment to the k best of a query.

    Scores are of any number type, the smaller the nearer; mask is uint64[8·B] or [0] for all rows,
    ids int64[≥ start + len(scores)], `start` a multiple of 64. Candidates go to a pool of 2 · (k +
    `SPARE_CANDIDATES`) places, which is thinned out to little more than the best k when it is full,
    ties by lower id: neither the order in which rows come nor a cut into pieces matters. Rows above
    `limit`, or at it and behind `last_id`, were behind the k-th best then and are no candidates:
    rows that all have one score fill the pool once. 64 rows of which none is near enough take a
    comparison by vectors and nothing else. Returns the new `size`, `limit` and `last_id`, which
    begin as 0, as what no score exceeds and as `NO_ID`. `write_best_into` ends it.
    """
    for first in range(0, len(scores), 64):
        bits = mark_at_most(scores[first : first + 64], limit)
        if len(mask) > 0:
            bits &= mask[(start + first) >> 6]
        if bits == _0:
            continue
        if size + 64 > len(kept_ids):
            size, limit, last_id = thin_out(kept_scores, kept_ids, size, k)
        if last_id != NO_ID and popcount(bits) > _MANY:
            some = scores[first : first + 64]
            at = start + first
            bits &= _mark_better(some, ids[at : at + len(some)], limit, last_id)
        while bits != _0:
            lowest = bits & (~bits + _1)
            bits ^= lowest
            i = first + np.int64(popcount(lowest - _1))
            kept_scores[size], kept_ids[size] = scores[i], ids[start + i]
            size += 1
    return size, limit, last_id


@kernel
def write_best_into(kept_scores, kept_ids, size, farther, best_scores, best_ids):
    """Write the best k of a pool of `collect_rows`, nearest first, ties by lower id, to float[k],
    int64[k], with `farther` and −1 where there is nothing more.
    """
    k = len(best_ids)
    if size > k + SPARE_CANDIDATES:
        size, _, _ = thin_out(kept_scores, kept_ids, size, k)
    if size > k:
        cut_back(kept_scores, kept_ids, size, k)
        size = k
    for place in range(size):
        raise_candidate(best_scores, best_ids, place, kept_scores[place], kept_ids[place])
    sort_candidates(best_scores, best_ids, size)
    for place in range(size, k):
        best_scores[place], best_ids[place] = farther, -1
