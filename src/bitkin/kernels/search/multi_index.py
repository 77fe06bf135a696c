"""Multi-index hashing: rows by the key of every chunk of their codes, and the search that looks
keys up by distance.

Chunks are disjoint runs of symbols. A row that differs from a query in d symbols differs in few
symbols of some chunk: once chunk j was looked up at distances 0 … levels[j] − 1 for every j, all
rows within sum(levels) − 1 were seen, whatever the levels are. So a search deepens the chunk that
is cheapest next, until the k-th distance is seen.

In here words are turned: symbol i of a plane is bit 63 − i % 64 of word i // 64. A key is the bits
of a chunk, plane after plane; its bucket is (key · factor) >> shift. The filter of an entry is some
of the row's other bits: as many symbols as fit, of one or more planes, so that most rows are
refused without a look at their codes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    is_allowed,
    is_worse,
    popcount,
    raise_candidate,
    reverse_bytes,
    sink_candidate,
)

AT_ONCE = 128  # keys looked up together: their cache misses overlap
MET = 1024  # rows looked at together, likewise
_WORD_BITS = 64
_ENTRY = np.int64(0xFFFFFFFF)
_U0, _U1 = np.uint64(0), np.uint64(1)


class ChunkTables(NamedTuple):
    """All rows of a segment, once for every one of T chunks."""

    firsts: npt.NDArray[np.int64]
    """[T]: first symbol of a chunk."""
    lengths: npt.NDArray[np.int64]
    """[T]: symbols of a chunk."""
    factors: npt.NDArray[np.uint64]
    """[T]: from a key to its bucket."""
    shifts: npt.NDArray[np.uint64]
    """[T]."""
    starts: npt.NDArray[np.uint32]
    """[T, buckets + 1]: entries of bucket b are `starts[j, b]` … `starts[j, b + 1]`."""
    rows: npt.NDArray[np.uint32]
    """[T, N + 1]: rows in order of their buckets; the last place belongs to no row."""
    filters: npt.NDArray[Any]
    """uint32 or uint64 [T, N + 1]: bits of those rows."""
    filter_symbols: npt.NDArray[np.int64]
    """[T]: symbols of which a filter has bits, those after the chunk, and round to the first
    again.
    """
    filter_planes: npt.NDArray[np.int64]
    """[T]: bits it has of each."""
    flips: npt.NDArray[np.uint64]
    """[M]: what turns a key into those at a distance, for one distance and chunk after another."""
    flip_starts: npt.NDArray[np.int64]
    """[T, L + 1]: flips of chunk j at distance t are `flip_starts[j, t]` … `flip_starts[j, t +
    1]`.
    """


class MultiWork(NamedTuple):
    """Room for one query at a time."""

    query: npt.NDArray[np.uint64]
    """[P, W], turned."""
    code: npt.NDArray[np.uint64]
    """[P, W], turned: the row at hand."""
    keys: npt.NDArray[np.uint64]
    """[T]: of the query."""
    levels: npt.NDArray[np.int64]
    """[T]: how many distances of a chunk were looked up."""
    planned: npt.NDArray[np.int64]
    """[T]: the same, if the search continues."""
    crowding: npt.NDArray[np.float64]
    """[T]: entries expected at a key."""
    probed: npt.NDArray[np.uint64]
    """[AT_ONCE]: keys being looked up."""
    begins: npt.NDArray[np.int64]
    """[AT_ONCE + 1]: their first entries."""
    ends: npt.NDArray[np.int64]
    """[AT_ONCE]: the places after their last entries."""
    met: npt.NDArray[np.int64]
    """[MET]: entries whose filters pass, with 2³² · the place of their key in `probed`; then rows.
    """
    met_keys: npt.NDArray[np.uint64]
    """[MET]: the keys they were found by."""
    met_distances: npt.NDArray[np.int64]
    """[MET]."""
    touched: npt.NDArray[np.uint64]
    """[1]: where a read goes that is only for the cache."""


def multi_work_for(n_planes: int, n_words: int, n_tables: int) -> MultiWork:
    """Return room for queries of this shape."""
    return MultiWork(
        query=np.empty((n_planes, n_words), dtype=np.uint64),
        code=np.empty((n_planes, n_words), dtype=np.uint64),
        keys=np.empty(n_tables, dtype=np.uint64),
        levels=np.empty(n_tables, dtype=np.int64),
        planned=np.empty(n_tables, dtype=np.int64),
        crowding=np.empty(n_tables, dtype=np.float64),
        probed=np.empty(AT_ONCE, dtype=np.uint64),
        begins=np.zeros(AT_ONCE + 1, dtype=np.int64),
        ends=np.empty(AT_ONCE, dtype=np.int64),
        met=np.empty(MET, dtype=np.int64),
        met_keys=np.empty(MET, dtype=np.uint64),
        met_distances=np.empty(MET, dtype=np.int64),
        touched=np.empty(1, dtype=np.uint64),
    )


@kernel
def _run(plane, first, length):
    """Bits of the symbols `first` … `first + length`, at most 64, of a turned plane (uint64[W])."""
    if length == 0:
        return _U0
    w, skipped = first // _WORD_BITS, first % _WORD_BITS
    # Shift away what is before the run, add what continues
    # in the next word, shift out what is after.
    bits = plane[w] << np.uint64(skipped)
    if skipped + length > _WORD_BITS:
        bits |= plane[w + 1] >> np.uint64(_WORD_BITS - skipped)
    return bits >> np.uint64(_WORD_BITS - length)


@kernel
def _key(code, first, length):
    """Key of a chunk of a turned code (uint64[P, W])."""
    key = _run(code[0], first, length)
    for p in range(1, len(code)):
        # planes one after another, the first in the highest bits
        key = (key << np.uint64(length)) | _run(code[p], first, length)
    return key


@kernel
def _filter(code, n_symbols, after, n_filtered, n_planes):
    """Bits of `n_planes` planes of the `n_filtered` symbols from `after` on, of a turned code.

    A shift by 64 is undefined; a whole word is only ever gathered where nothing was before.
    """
    after %= n_symbols
    head = min(n_filtered, n_symbols - after)
    bits = _U0
    for p in range(n_planes):
        bits = (bits << np.uint64(head % _WORD_BITS)) | _run(code[p], after, head)
        bits = (bits << np.uint64(n_filtered - head)) | _run(code[p], 0, n_filtered - head)
    return bits


@kernel
def _turned_row_into(tiles, row, code):
    """Row `row` of uint64[T, P, W, L] -> uint64[P, W], turned."""
    t, i = divmod(row, tiles.shape[3])
    for p in range(code.shape[0]):
        for w in range(code.shape[1]):
            code[p, w] = reverse_bytes(tiles[t, p, w, i])


@kernel
def _gather_into(plane, first, length, bits):
    """Shift the bits of symbols `first` … `first + length` of every lane of uint64[W, L] into
    uint64[L].
    """
    if length == 0:
        return
    w, skipped = first // _WORD_BITS, first % _WORD_BITS
    left, right, moved = (
        np.uint64(skipped),
        np.uint64(_WORD_BITS - length),
        np.uint64(length % _WORD_BITS),
    )
    if skipped + length > _WORD_BITS:
        rest = np.uint64(_WORD_BITS - skipped)
        for i in range(len(bits)):
            run = (reverse_bytes(plane[w, i]) << left) | (reverse_bytes(plane[w + 1, i]) >> rest)
            bits[i] = (bits[i] << moved) | (run >> right)
    else:
        for i in range(len(bits)):
            bits[i] = (bits[i] << moved) | ((reverse_bytes(plane[w, i]) << left) >> right)


@kernel
def fill_table_into(tiles, n, mask, n_symbols, j, tables, buckets, filters, bits):
    """Put rows 0 … n of uint64[T, P, W, L] that uint64[8·B] allows, all if empty, into the table
    of chunk `j`.

    `tables.starts[j]` comes full of zeros. `buckets` (uint32[n]), `filters` (like those of the
    tables, [n]) and `bits` (uint64[L]) are room.
    """
    starts = tables.starts[j]
    first, length = tables.firsts[j], tables.lengths[j]
    factor, shift = tables.factors[j], tables.shifts[j]
    after, n_filtered = (first + length) % n_symbols, tables.filter_symbols[j]
    head = min(n_filtered, n_symbols - after)
    n_lanes = tiles.shape[3]
    for start in range(0, n, n_lanes):
        tile = tiles[start // n_lanes]
        count = min(n_lanes, n - start)
        # keys of the rows of a tile at once: the same words of them lie side by side
        bits[:] = _U0
        for p in range(len(tile)):
            _gather_into(tile[p], first, length, bits)
        for i in range(count):
            buckets[start + i] = (bits[i] * factor) >> shift
        bits[:] = _U0
        for p in range(tables.filter_planes[j]):
            _gather_into(tile[p], after, head, bits)
            _gather_into(tile[p], 0, n_filtered - head, bits)
        for i in range(count):
            filters[start + i] = bits[i]
        for row in range(start, start + count):
            if is_allowed(mask, row):
                # a counting sort by bucket: count first, running sums next, rows last
                starts[buckets[row]] += np.uint32(1)
    total = np.uint32(0)
    for b in range(len(starts)):
        total += starts[b]
        starts[b] = total
    # Now every bucket's start is its end; filled from behind, it comes down to where it belongs.
    sorted_rows, sorted_filters = tables.rows[j], tables.filters[j]
    for row in range(n - 1, -1, -1):
        if is_allowed(mask, row):
            place = starts[buckets[row]] - np.uint32(1)
            starts[buckets[row]] = place
            sorted_rows[place] = row
            sorted_filters[place] = filters[row]


@kernel
def _keep(distances, ids, size, distance, id):
    """Add a candidate to a heap whose first is the worst, in place of that one where it is full;
    return its size.
    """
    if size == len(ids):
        sink_candidate(distances, ids, size, distance, id)
        return size
    raise_candidate(distances, ids, size, distance, id)
    return size + 1


@kernel
def sort_heaps(distances, ids, sizes):
    """Turn heaps whose first is the worst, int32[Q, K] and int64[Q, K], into rows whose first is
    the best.
    """
    for q in range(len(sizes)):
        for last in range(sizes[q] - 1, 0, -1):
            distance, id = distances[q, last], ids[q, last]
            distances[q, last], ids[q, last] = distances[q, 0], ids[q, 0]
            sink_candidate(distances[q], ids[q], last, distance, id)


@kernel
def _chunk_distance(code, query, first, length):
    """Symbols of a chunk in which two turned codes differ."""
    differs = _U0
    for p in range(len(query)):
        # a symbol differs where any of its planes does, so planes are ORed before bits are counted
        differs |= _run(code[p], first, length) ^ _run(query[p], first, length)
    return np.int64(popcount(differs))


@kernel
def _seen_before(tables, levels, j, code, query):
    """Whether a row was found by a chunk other than `j` at the distances already looked up."""
    for c in range(len(levels)):
        if c != j and _chunk_distance(code, query, tables.firsts[c], tables.lengths[c]) < levels[c]:
            return True
    return False


@inlined_kernel
def _sift_into(filters, begin, end, wanted, n_filtered, n_planes, most, tag, met, n_met):
    """Append `tag` + e to `met` for the entries e whose filter differs in at most `most` symbols;
    returns their number.

    Without a branch: which rows pass is anybody's guess, and a wrong guess costs more than a store.
    """
    if n_planes == 1:
        for e in range(begin, end):
            met[n_met] = tag + e
            n_met += np.int64(np.int64(popcount(np.uint64(filters[e]) ^ wanted)) <= most)
        return n_met
    width = np.uint64(n_filtered)
    # The planes of a filter lie side by side, `width` bits each. Folding them by OR onto the
    # lowest leaves one bit per symbol that differs.
    used = (_U1 << width) - _U1
    for e in range(begin, end):
        different = np.uint64(filters[e]) ^ wanted
        folded = different
        for _ in range(1, n_planes):
            different >>= width
            folded |= different
        met[n_met] = tag + e
        n_met += np.int64(np.int64(popcount(folded & used)) <= most)
    return n_met


@kernel
def _offer_met(tiles, ids, mask, tables, j, n_met, radius, work, distances, best_ids, size):
    """Offer the rows of the `n_met` entries in `work.met`; returns the number kept and the limit
    from now on.
    """
    rows = tables.rows[j]
    first, length = tables.firsts[j], tables.lengths[j]
    k = len(best_ids)
    # Loops without branches first, so that the rows come from memory side by side.
    for c in range(n_met):
        # the high half says which key found the entry, the low half which entry it is
        work.met_keys[c] = work.probed[work.met[c] >> 32]
        work.met[c] = rows[work.met[c] & _ENTRY]
    for c in range(n_met):
        t, i = divmod(work.met[c], tiles.shape[3])
        distance = _U0
        for w in range(work.query.shape[1]):
            differs = _U0
            for p in range(work.query.shape[0]):
                differs |= reverse_bytes(tiles[t, p, w, i]) ^ work.query[p, w]
            distance += popcount(differs)
        work.met_distances[c] = distance
    limit = min(radius, distances[0]) if size == k else radius
    for c in range(n_met):
        distance, row = work.met_distances[c], work.met[c]
        # Cheap tests first: most rows end here, and only the others have their keys compared.
        if distance > limit or not is_allowed(mask, row):
            continue
        if size == k and not is_worse(distances[0], best_ids[0], distance, ids[row]):
            continue
        _turned_row_into(tiles, row, work.code)
        # Hashed keys share buckets, and a row must count for one of them only.
        if _key(work.code, first, length) != work.met_keys[c]:
            continue
        if _seen_before(tables, work.levels, j, work.code, work.query):
            continue
        size = _keep(distances, best_ids, size, distance, ids[row])
        if size == k:
            limit = min(radius, distances[0])
    return size, limit


@kernel
def _look_up(
    tiles, ids, mask, tables, n_symbols, j, radius, left, costs, work, distances, best_ids, size
):
    """Offer all rows whose chunk `j` is exactly `work.levels[j]` symbols away from the query's.

    Returns the number kept, keys looked up, entries met, rows looked at, and what it cost; stops
    where that exceeds `left`.
    """
    starts, filters = tables.starts[j], tables.filters[j]
    factor, shift = tables.factors[j], tables.shifts[j]
    t, key = work.levels[j], work.keys[j]
    n_filtered, n_planes = tables.filter_symbols[j], tables.filter_planes[j]
    wanted = _filter(
        work.query, n_symbols, tables.firsts[j] + tables.lengths[j], n_filtered, n_planes
    )
    begin, stop = tables.flip_starts[j, t], tables.flip_starts[j, t + 1]
    # No row beyond the k-th distance is of use. A row found here differs in t symbols of the
    # chunk, so its other symbols, and with them its filter, may differ in at most limit − t.
    limit = min(radius, distances[0]) if size == len(best_ids) else radius
    n_keys, n_entries, n_rows, spent = 0, 0, 0, 0.0
    for first in range(begin, stop, AT_ONCE):
        count = min(AT_ONCE, stop - first)
        for i in range(count):
            work.probed[i] = key ^ tables.flips[first + i]
            bucket = (work.probed[i] * factor) >> shift
            work.begins[i] = starts[bucket]
            work.ends[i] = starts[bucket + _U1]
        touched = _U0
        # the first entries come from memory side by side; below they would come one by one
        for i in range(count):
            touched ^= np.uint64(filters[work.begins[i]])
            n_entries += work.ends[i] - work.begins[i]
        work.touched[0] = touched
        n_keys += count
        # entries are counted before they are read, so a
        # crowded level is left before it is paid for
        spent = n_keys * costs[0] + n_entries * costs[1] + n_rows * costs[2]
        if spent > left:
            break
        i, at = 0, work.begins[0]
        while i < count:
            n_met = 0
            while i < count and n_met < MET:
                # at most as many entries as `met` has room for: all of them may pass
                pause = min(work.ends[i], at + MET - n_met)
                n_met = _sift_into(
                    filters,
                    at,
                    pause,
                    wanted,
                    n_filtered,
                    n_planes,
                    limit - t,
                    i << 32,
                    work.met,
                    n_met,
                )
                at = pause
                if at == work.ends[i]:
                    i += 1
                    at = work.begins[i]
            size, limit = _offer_met(
                tiles, ids, mask, tables, j, n_met, radius, work, distances, best_ids, size
            )
            n_rows += n_met
    return size, n_keys, n_entries, n_rows, spent


@kernel
def _next_cost(tables, levels, crowding, j, costs):
    """What it will cost to look chunk `j` up one symbol further away: as crowded as it was, or as
    it is on average.
    """
    t = levels[j]
    # no flips were made for so large a distance
    if t + 1 >= tables.flip_starts.shape[1]:
        return np.inf
    n_keys = tables.flip_starts[j, t + 1] - tables.flip_starts[j, t]
    if n_keys == 0:
        return np.inf
    return n_keys * (costs[0] + crowding[j] * costs[1])


@kernel
def _cheapest(tables, levels, crowding, costs):
    best, least = -1, np.inf
    for j in range(len(levels)):
        cost = _next_cost(tables, levels, crowding, j, costs)
        if cost < least:
            best, least = j, cost
    return best, least


@kernel
def _cost_ahead(tables, levels, crowding, costs, steps, most, planned):
    """What `steps` more lookups will cost, the cheapest first; `most` and more is not told apart.
    `planned` is room.
    """
    total = 0.0
    for j in range(len(levels)):
        planned[j] = levels[j]
    while steps > 0 and total < most:
        j, cost = _cheapest(tables, planned, crowding, costs)
        total += cost
        if j < 0:
            break
        planned[j] += 1
        steps -= 1
    return total


@kernel
def nearest_by_tables_into(
    tiles,
    ids,
    mask,
    tables,
    n_symbols,
    queries,
    radius,
    costs,
    budgets,
    work,
    distances,
    best_ids,
    sizes,
    account,
):
    """Offer all rows in `tables` to the k best within `radius` of every query, or give up.

    uint64[B, P, W, 512], int64[≥ N], mask uint64[8·B] or [0] for all rows, uint64[Q, P, W]. `costs`
    (float64[3]): a key looked up, an entry met, a row looked at. `budgets` (float64[3]): what may
    be spent before the rest is estimated, the most that rest may cost, and the most that all may.
    The best are heaps, the worst first: int32[Q, K], int64[Q, K], `sizes` int64[Q]. `account`
    int64[Q, 4]: keys looked up, entries met, rows looked at, and whether the search gave up; added
    to.
    """
    n_tables = len(work.levels)
    n_entries = tables.rows.shape[1] - 1
    k = best_ids.shape[1]
    for q in range(len(queries)):
        if account[q, 3] != 0:
            continue
        for p in range(work.query.shape[0]):
            for w in range(work.query.shape[1]):
                work.query[p, w] = reverse_bytes(queries[q, p, w])
        for j in range(n_tables):
            work.keys[j] = _key(work.query, tables.firsts[j], tables.lengths[j])
            work.levels[j] = 0
            # rows per bucket on average, until a lookup tells how crowded it is around this query
            work.crowding[j] = n_entries / (tables.starts.shape[1] - 1)
        # Pigeonhole: a row not met so far differs in at least levels[j] symbols of every chunk j,
        # so in Σ levels[j] = seen + 1 or more. All rows within `seen` have been met.
        seen, spent = -1, 0.0
        while True:
            limit = min(radius, distances[q, 0]) if sizes[q] == k else radius
            if seen >= limit:
                break
            j, cost = _cheapest(tables, work.levels, work.crowding, costs)
            if j < 0 or spent + cost > budgets[0]:
                # Each further level lets `seen` grow by one, so limit − seen of them end the
                # search at the latest.
                ahead = _cost_ahead(
                    tables,
                    work.levels,
                    work.crowding,
                    costs,
                    limit - seen,
                    budgets[1],
                    work.planned,
                )
                if j < 0 or ahead >= budgets[1]:
                    account[q, 3] = 1
                    break
            sizes[q], n_keys, n_met, n_verified, cost = _look_up(
                tiles,
                ids,
                mask,
                tables,
                n_symbols,
                j,
                radius,
                budgets[2] - spent,
                costs,
                work,
                distances[q],
                best_ids[q],
                sizes[q],
            )
            account[q, 0] += n_keys
            account[q, 1] += n_met
            account[q, 2] += n_verified
            spent += cost
            if spent > budgets[2]:
                account[q, 3] = 1
                break
            work.crowding[j] = max(n_entries / (tables.starts.shape[1] - 1), n_met / n_keys)
            work.levels[j] += 1
            seen += 1
            if work.levels[j] > tables.lengths[j]:
                break  # every key of this chunk was looked up, so every row was met
