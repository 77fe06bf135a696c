"""The estimate of all rows, with the query in a few bits: popcounts over bit planes, as fast as
memory can feed.

A query z is rounded to z ≈ step · l, where l = ± (2·m + 1) and the magnitude m has one bit less
than the query (mid-rise: no level is 0, and the sign is a bit like any other). With x the bits in
which a code differs from the signs of z, and m₀, m₁, … the planes of the magnitudes,

    ⟨s, l⟩ = Σ |l| − 2 D,    D = popcount(x) + 2 popcount(x & m₀) + 4 popcount(x & m₁) + …

so that a row takes one popcount per word and bit of the query, and no table. D is a whole number:
the score of a row does not depend on the order in which it was summed, nor on the processor.

Rows come in tiles, tiles[t, 0, w, i] is word w of row L·t + i. They are taken in units of U rows, a
multiple of 64 that divides 512: a tile where L = U, several narrow tiles put side by side first
where L < U, so that the loop over lanes is long enough for vectors. `bs` and `ws` are tuples whose
lengths, not values, matter: bits of the query and words in one step, fixed at compile time.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    NO_ID,
    collect_rows,
    is_allowed,
    popcount,
    thin_out,
    widen_tiles_into,
    write_best_into,
)

_CLIPPINGS = 12  # tried per query
_LEAST_CLIPPING = 0.4  # of the largest number; less than that would cut off what tells most
_LARGEST_SIZE = (1 << 15) - 1
_FRACTION = np.int32(20)  # bits
_SUMMED = 64  # products of a size and a level, up to 2⁸, whose sum has 31 bits at most
_RUN_TILE = 64  # rows of a tile of a run, as in `kernels.search.cells`
_FEW = 16  # with fewer rows to look at in a unit, going to each beats going over all
_U0 = np.uint64(0)
_1, _2 = np.int32(1), np.int32(2)


@inlined_kernel
def _magnitude(size, scale, highest):
    """int32 size · scale, of which the lowest 20 bits are a fraction; no more than the highest."""
    return np.int32(min(np.int32(np.int32(size * scale) >> _FRACTION), highest))


@kernel
def _sums_of_levels(sizes, scale, highest):
    """Up to `_SUMMED` int32 sizes -> Σ size · level and Σ level², int32, made by vectors."""
    product, squares = np.int32(0), np.int32(0)
    for j in range(len(sizes)):
        level = np.int32(np.int32(_2 * _magnitude(sizes[j], scale, highest)) + _1)
        product = np.int32(product + np.int32(sizes[j] * level))
        squares = np.int32(squares + np.int32(level * level))
    return product, squares


@kernel
def _word_of_signs(numbers):
    """Up to 64 numbers -> a bit for each that is not negative, number j in byte j // 8, bit
    7 − j % 8; made by vectors.
    """
    word = _U0
    for j in range(len(numbers)):
        word |= np.uint64(numbers[j] >= 0.0) << np.uint64((j & 56) + 7 - (j & 7))
    return word


@kernel
def _word_of_bits(numbers, bit):
    """Up to 64 int32 -> one bit of each, placed as `_word_of_signs` does."""
    word = _U0
    for j in range(len(numbers)):
        word |= np.uint64((numbers[j] >> bit) & _1) << np.uint64((j & 56) + 7 - (j & 7))
    return word


@kernel
def quantize_queries_into(queries, sizes, planes, totals, steps):
    """float32[Q, C] z -> the planes of l, uint64[Q, B, W], signs first, then the bits of
    the magnitudes, lowest first; int64[Q] Σ |l|; float64[Q] the step, so that z ≈ step · l.

    Levels reach up to a share of the largest number: of some shares the one whose rounding, with
    the step that fits it best, has the smallest squared error. Those are compared in whole numbers,
    int32[C] `sizes` of 15 bits, whose sums come out the same in any order, and so by vectors.
    Symbol j sits in byte j // 8, bit 7 − j % 8 of a code.
    """
    n_planes, n_bits = planes.shape[1], queries.shape[1]
    n_levels = 1 << (n_planes - 1)
    highest = np.int32(n_levels - 1)
    for q in range(queries.shape[0]):
        largest = np.float32(0.0)
        for j in range(n_bits):
            largest = max(largest, abs(queries[q, j]))
        unit = np.float64(_LARGEST_SIZE) / largest if largest > 0.0 else 0.0
        for j in range(n_bits):
            sizes[j] = np.int32(np.float64(abs(queries[q, j])) * unit)
        best_fit, best_scale = -1.0, np.int32(0)
        for c in range(_CLIPPINGS):
            share = 1.0 - (1.0 - _LEAST_CLIPPING) * c / _CLIPPINGS
            # m = size · n_levels / (share · the largest size), in fixed point
            scale = np.int32(n_levels * (1 << _FRACTION) / (share * (_LARGEST_SIZE + 1)))
            product, squares = 0, 0
            for first in range(0, n_bits, _SUMMED):
                some = _sums_of_levels(sizes[first : min(first + _SUMMED, n_bits)], scale, highest)
                product += np.int64(some[0])
                squares += np.int64(some[1])
            # The best step is ⟨z, l⟩ / ⟨l, l⟩, and leaves ⟨z, z⟩ − ⟨z, l⟩² / ⟨l, l⟩.
            fit = np.float64(product) * np.float64(product) / np.float64(squares)
            if fit > best_fit:
                best_fit, best_scale = fit, scale
        total, product_of_z, squares = 0, 0.0, 0
        for j in range(n_bits):
            sizes[j] = _magnitude(sizes[j], best_scale, highest)
            level = 2 * np.int64(sizes[j]) + 1
            total += level
            squares += level * level
            product_of_z += np.float64(abs(queries[q, j])) * level
        for w in range(planes.shape[2]):
            last = min(64 * w + 64, n_bits)
            planes[q, 0, w] = _word_of_signs(queries[q, 64 * w : last])
            for p in range(1, n_planes):
                planes[q, p, w] = _word_of_bits(sizes[64 * w : last], np.int32(p - 1))
        totals[q] = total
        steps[q] = product_of_z / squares


@inlined_kernel
def _lane_weight(unit, planes, first, i, bs, ws):
    """D of lane `i` over the words `first` … `first + len(ws)`, unrolled: planes are weighed by
    doubling, highest first.
    """
    weight = _U0
    for b in range(len(bs) - 1, -1, -1):
        count = _U0
        for w in range(len(ws)):
            differ = unit[0, first + w, i] ^ planes[0, first + w]
            if b > 0:
                differ &= planes[b, first + w]
            count += popcount(differ)
        weight += weight
        weight += count
    return weight


@kernel
def weights_into(unit, planes, bs, ws, weights):
    """uint64[1, W, U], uint64[B, W] -> int32[U], written to `weights`: D of every lane."""
    for i in range(unit.shape[2]):
        weights[i] = _lane_weight(unit, planes, 0, i, bs, ws)
    for first in range(len(ws), unit.shape[1], len(ws)):
        for i in range(unit.shape[2]):
            weights[i] += _lane_weight(unit, planes, first, i, bs, ws)


@inlined_kernel
def _score(weight, a, root_of_a, f, total, constant, onto, root, factor):
    """Return constant + onto · a + root · √a + factor · f · ⟨s, l⟩; the step is in the factor."""
    signed = np.float64(total - 2 * np.int64(weight))
    return (constant + onto * a) + root * root_of_a + (factor * f) * signed


@kernel
def _scores_into(weights, near, total, terms, limit, scores):
    """int32[U], float64[3, U], float64[4] -> float64[U], written to `scores`; returns how many are
    `limit` or less.
    """
    constant, onto, root, factor = terms[0], terms[1], terms[2], terms[3]
    count = 0
    if root == 0.0:
        for i in range(len(scores)):
            score = _score(
                weights[i], near[0, i], 0.0, near[1, i], total, constant, onto, 0.0, factor
            )
            scores[i] = score
            count += score <= limit
        return count
    for i in range(len(scores)):
        score = _score(
            weights[i], near[0, i], near[2, i], near[1, i], total, constant, onto, root, factor
        )
        scores[i] = score
        count += score <= limit
    return count


@inlined_kernel
def _square(a, has_small):
    """What a correction stands for: those of small squares are kept as −√."""
    return a * a if has_small and a < 0.0 else a


@kernel
def _corrections_into(corrections, slots, start, stop, has_small, has_roots, near):
    """Write a, f and √a of the rows `start` … `start + stop` to float64[3, U]."""
    if len(slots) > 0:
        for i in range(stop):
            slot = slots[start + i]
            near[0, i] = _square(np.float64(corrections[slot, 0]), has_small)
            near[1, i] = corrections[slot, 1]
    else:
        # one behind the other, which vectors take apart in a third of the time
        numbers = corrections.reshape(corrections.size)[2 * start : 2 * (start + stop)]
        for i in range(stop):
            near[0, i], near[1, i] = numbers[2 * i], numbers[2 * i + 1]
        if has_small:
            for i in range(stop):
                near[0, i] = _square(near[0, i], True)
    if has_roots:
        for i in range(stop):
            near[2, i] = math.sqrt(near[0, i])


@kernel
def _run_corrections_into(corrections, has_small, has_roots, near):
    """Write a, f and √a of the rows of a tile, float32[2, 64], to float64[3, 64]."""
    for i in range(_RUN_TILE):
        near[0, i], near[1, i] = corrections[0, i], corrections[1, i]
    if has_small:
        for i in range(_RUN_TILE):
            near[0, i] = _square(near[0, i], True)
    if has_roots:
        for i in range(_RUN_TILE):
            near[2, i] = math.sqrt(near[0, i])


@kernel
def _count_allowed(mask, start, count):
    """How many of the rows `start` … `start + count` uint64[8·B] allows; an empty mask allows
    all.
    """
    if len(mask) == 0:
        return count
    allowed = _U0
    for group in range(start >> 6, (start + count + 63) >> 6):
        allowed += popcount(mask[group])
    return np.int64(allowed)


@kernel
def _collect_few(
    tiles,
    ids,
    start,
    stop,
    mask,
    corrections,
    slots,
    has_small,
    planes,
    total,
    terms,
    bs,
    ws,
    k,
    limit,
    last_id,
    kept_scores,
    kept_ids,
    size,
):
    """Do as `collect_rows` with those rows of `start` … `start + stop` that the mask allows, going
    to each of them.
    """
    n_lanes, n_words = tiles.shape[3], tiles.shape[2]
    for row in range(start, start + stop):
        if not is_allowed(mask, row):
            continue
        weight = _U0
        for first in range(0, n_words, len(ws)):
            weight += _lane_weight(tiles[row // n_lanes], planes, first, row % n_lanes, bs, ws)
        slot = slots[row] if len(slots) > 0 else row
        a = _square(np.float64(corrections[slot, 0]), has_small)
        root_of_a = math.sqrt(a) if terms[2] != 0.0 else 0.0
        f = np.float64(corrections[slot, 1])
        score = _score(weight, a, root_of_a, f, total, terms[0], terms[1], terms[2], terms[3])
        if score < limit or (score == limit and ids[row] < last_id):
            if size == len(kept_ids):
                size, limit, last_id = thin_out(kept_scores, kept_ids, size, k)
            kept_scores[size], kept_ids[size] = score, ids[row]
            size += 1
    return size, limit, last_id


@kernel
def scan_estimates_into(
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    corrections,
    slots,
    has_small,
    planes,
    totals,
    terms,
    bs,
    ws,
    first,
    last,
    wide,
    wide_view,
    weights,
    near,
    scores,
    kept_scores,
    kept_ids,
    limits,
    last_ids,
    sizes,
    best_scores,
    best_ids,
):
    """Offer blocks `first_block` … `last_block` of a segment of `n` rows to every query's k best by
    the estimate.

    uint64[T, 1, W, L], int64[≥ n], mask uint64[8·B] or [0] for all rows; corrections float32[M, 2]
    of row r at `slots[r]` (int64[≥ n]; [0] where they stand in the order of rows), with
    `has_small` those below 0 stand for their squares; queries as `quantize_queries_into` makes
    them, uint64[Q, B, W], int64[Q], with terms float64[Q, 4], whose last contains the step. Work:
    uint64[1, 1, W, U] and a read-only view of it, as tiles are, so that helpers are compiled once;
    int32[U], float64[3, U], float64[U]; and a pool of `collect_rows`: float64[Q, R], int64[Q, R],
    float64[Q], int64[Q], int64[Q], R ≥ 2 · k + 128. The `first` of several calls clears the pool,
    the `last` one writes the best of it in order: float64[Q, k], int64[Q, k], with infinity and −1
    where there is nothing more.
    """
    n_queries, k = best_ids.shape
    n_lanes = len(weights)
    narrow = tiles.shape[3] < n_lanes
    source = wide_view if narrow else tiles
    has_roots = False
    for q in range(n_queries):
        has_roots |= terms[q, 2] != 0.0
    if first:
        for q in range(n_queries):
            sizes[q], limits[q], last_ids[q] = 0, math.inf, NO_ID
    for start in range(first_block * 512, min(last_block * 512, n), n_lanes):
        stop = min(n_lanes, n - start)
        allowed = _count_allowed(mask, start, stop)
        if allowed == 0:
            continue
        few = allowed <= _FEW
        if not few:
            _corrections_into(corrections, slots, start, stop, has_small, has_roots, near)
        if narrow and not few:
            widen_tiles_into(tiles, start // tiles.shape[3], wide)
        for q in range(n_queries):
            if few:
                sizes[q], limits[q], last_ids[q] = _collect_few(
                    tiles,
                    ids,
                    start,
                    stop,
                    mask,
                    corrections,
                    slots,
                    has_small,
                    planes[q],
                    totals[q],
                    terms[q],
                    bs,
                    ws,
                    k,
                    limits[q],
                    last_ids[q],
                    kept_scores[q],
                    kept_ids[q],
                    sizes[q],
                )
                continue
            weights_into(source[0 if narrow else start // n_lanes], planes[q], bs, ws, weights)
            if _scores_into(weights, near, totals[q], terms[q], limits[q], scores) > 0:
                sizes[q], limits[q], last_ids[q] = collect_rows(
                    scores[:stop],
                    start,
                    mask,
                    ids,
                    k,
                    limits[q],
                    last_ids[q],
                    kept_scores[q],
                    kept_ids[q],
                    sizes[q],
                )
    if last:
        for q in range(n_queries):
            write_best_into(
                kept_scores[q], kept_ids[q], sizes[q], math.inf, best_scores[q], best_ids[q]
            )


@kernel
def _collect_places(
    scores, count, at, rows, mask, ids, k, limit, last_id, kept_scores, kept_ids, size
):
    """Do as `collect_rows` with the rows at places `at` … `at + count` of a run, up to 64."""
    if size + _RUN_TILE > len(kept_ids):
        size, limit, last_id = thin_out(kept_scores, kept_ids, size, k)
    for i in range(count):
        if scores[i] > limit:
            continue
        row = np.int64(rows[at + i])
        if is_allowed(mask, row) and (scores[i] < limit or ids[row] < last_id):
            kept_scores[size], kept_ids[size] = scores[i], ids[row]
            size += 1
    return size, limit, last_id


@kernel
def scan_runs_into(
    runs,
    bounds,
    rows,
    corrections,
    ids,
    mask,
    cells,
    has_small,
    planes,
    totals,
    terms,
    bs,
    ws,
    first,
    last,
    weights,
    near,
    scores,
    kept_scores,
    kept_ids,
    limits,
    last_ids,
    sizes,
    best_scores,
    best_ids,
):
    """Offer the rows of every query's cells, int64[Q, M], to its k best by the estimate.

    Runs uint64[S, 1, W, 64], of which cell c has `bounds[c, 1]` rows from tile `bounds[c, 0]` on,
    place by place the rows uint32[64·S] of a segment, with corrections float32[S, 2, 64]; work
    int32[64], float64[3, 64], float64[64]. The rest is as for `scan_estimates_into`, whose pool it
    shares: of calls of both the `first` clears it and the `last` writes.
    """
    n_queries, k = best_ids.shape
    for q in range(n_queries):
        size, limit, last_id = sizes[q], limits[q], last_ids[q]
        if first:
            size, limit, last_id = 0, math.inf, NO_ID
        has_roots = terms[q, 2] != 0.0
        for m in range(cells.shape[1]):
            begin, n_rows = bounds[cells[q, m], 0], bounds[cells[q, m], 1]
            for t in range(begin, begin + (n_rows + _RUN_TILE - 1) // _RUN_TILE):
                at = _RUN_TILE * t
                weights_into(runs[t], planes[q], bs, ws, weights)
                # lanes behind the last row are zeros: scores that nobody looks at
                _run_corrections_into(corrections[t], has_small, has_roots, near)
                if _scores_into(weights, near, totals[q], terms[q], limit, scores) > 0:
                    count = min(_RUN_TILE, n_rows - (at - _RUN_TILE * begin))
                    size, limit, last_id = _collect_places(
                        scores, count, at, rows, mask, ids, k, limit, last_id, kept_scores[q],
                        kept_ids[q], size,
                    )  # fmt: skip
        sizes[q], limits[q], last_ids[q] = size, limit, last_id
        if last:
            write_best_into(
                kept_scores[q], kept_ids[q], size, math.inf, best_scores[q], best_ids[q]
            )
