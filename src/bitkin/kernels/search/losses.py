"""Codes of several planes scored by a table per query: what every symbol at every place loses.

A query has a level, a whole number of B bits, for every place j and symbol s; the score of a row is
the sum of the levels of its symbols. Rows stand in bit planes, 64 places to a word, so no symbol is
ever looked up. Two forms, by the number of planes P:

- Up to `MOST_PLANES`, polynomials. Bit b of the level is a function of the P bits of a symbol, and
  every such function is a polynomial modulo 2, c₀ ⊕ c₁x₀ ⊕ c₂x₁ ⊕ c₃x₀x₁ for P = 2, with
  coefficients of its own at every place: word c[v] has those of 64 places. Score: Σ_b 2ᵇ popcount.
- Beyond, terms: the best T symbols of every place have levels of their own, and all others that of
  their mean. Score: the sum of the means, minus what each of the T symbols is better than it,
  wherever a row has it.

Rows come in tiles, tiles[t, p, w, i] is word w of plane p of row L·t + i. They are taken in units
of U rows, a multiple of 64: a tile where L = U, several narrow ones copied to one where L < U.
`ps`, `ws`, `bs` and `ts` are tuples whose lengths, not values, matter: planes, words and bits of a
level in one step, and terms (none for polynomials), fixed at compile time.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel
from bitkin.kernels._shared import (
    NO_ID,
    collect_rows,
    is_allowed,
    is_worse,
    mark_at_most,
    popcount,
    raise_candidate,
    sink_candidate,
    sort_candidates,
    thin_out,
    widen_tiles_into,
    write_best_into,
)

MOST_PLANES = 4  # of polynomials, which take 2**P − 1 steps per word and bit
NEAR_ROWS = 64  # of a shortlist, gathered at a time
_RUN_TILE = 64  # rows of a tile of a run, as in `kernels.search.cells`
_U0, _U1 = np.uint64(0), np.uint64(1)


@inlined_kernel
def _level(loss, highest):
    """float32 from 0 to 1 -> int64 from 0 to `highest`."""
    return np.int64(np.float64(loss) * highest + 0.5)


@inlined_kernel
def _bit_place(j):
    """Where in its word the bit of symbol j stands."""
    return np.uint64((j & 56) + 7 - (j & 7))


@kernel
def polynomials_into(losses, levels, polynomials, totals):
    """float32[Q, M, R] -> coefficients uint64[Q, W, B, 2**P] of zeros; work int64[2**P].

    float64[Q] `totals` gets Σ over places of the mean level: what symbols drawn at random score.
    """
    n_bits, n_values = polynomials.shape[2], polynomials.shape[3]
    highest = (1 << n_bits) - 1
    for q in range(losses.shape[0]):
        total = 0
        for j in range(losses.shape[1]):
            for s in range(losses.shape[2]):
                levels[s] = _level(losses[q, j, s], highest)
                total += levels[s]
            # symbols beyond the alphabet, which no row has
            levels[losses.shape[2] :] = 0
            # The coefficient of v is the sum modulo 2 of all values whose bits are among those of
            # v (the Möbius transform), here of all bits of the levels at once.
            bit = 1
            while bit < n_values:
                for v in range(n_values):
                    if v & bit:
                        levels[v] ^= levels[v ^ bit]
                bit += bit
            place = _bit_place(j)
            for b in range(n_bits):
                for v in range(n_values):
                    polynomials[q, j >> 6, b, v] |= np.uint64((levels[v] >> b) & 1) << place
        totals[q] = total / losses.shape[2]


@kernel
def terms_into(losses, best, symbols, gains, bases, totals):
    """float32[Q, M, R] -> the T best symbols of every place, uint64[Q, W, T, P] of zeros; what each
    is better than the mean of the others, uint64[Q, W, T, B] of zeros; int64[Q], Σ of those means.

    The first of equal losses are the best. Work int64[T]; `totals` as in `polynomials_into`.
    """
    n_terms, n_bits, n_planes = gains.shape[2], gains.shape[3], symbols.shape[3]
    n_symbols = losses.shape[2]
    highest = (1 << n_bits) - 1
    for q in range(losses.shape[0]):
        bases[q] = 0
        total = 0.0
        for j in range(losses.shape[1]):
            here = losses[q, j]
            n_best, rest = 0, 0.0
            for s in range(n_symbols):
                rest += here[s]
                at = n_best
                # insertion from the end: at most T comparisons, nearly always one
                while at > 0 and here[s] < here[best[at - 1]]:
                    if at < n_terms:
                        best[at] = best[at - 1]
                    at -= 1
                if at < n_terms:
                    best[at] = s
                    n_best = min(n_best + 1, n_terms)
            for t in range(n_terms):
                rest -= here[best[t]]
            worst = here[best[n_terms - 1]]
            # not below the last of the best, whatever rounding did to the sum
            base = _level(max(rest / (n_symbols - n_terms), worst), highest)
            bases[q] += base
            total += base * (n_symbols - n_terms)
            word, place = j >> 6, _bit_place(j)
            for t in range(n_terms):
                level = _level(here[best[t]], highest)
                total += level
                for p in range(n_planes):
                    symbols[q, word, t, p] |= np.uint64((best[t] >> p) & 1) << place
                for b in range(n_bits):
                    gains[q, word, t, b] |= np.uint64(((base - level) >> b) & 1) << place
        totals[q] = total / n_symbols


@inlined_kernel
def _of_two(x_0, x_1, c, v):
    """The polynomial in two planes with the coefficients c[v] … c[v + 3]."""
    return c[v] ^ (x_0 & c[v + 1]) ^ (x_1 & (c[v + 2] ^ (x_0 & c[v + 3])))


@inlined_kernel
def _of_three(x_0, x_1, x_2, c, v):
    return _of_two(x_0, x_1, c, v) ^ (x_2 & _of_two(x_0, x_1, c, v + 4))


@inlined_kernel
def _value(unit, c, w, i, ps):
    """The polynomial with the coefficients `c`, uint64[2**P], of lane `i` of word `w`."""
    if len(ps) == 1:
        return c[0] ^ (unit[0, w, i] & c[1])
    if len(ps) == 2:
        return _of_two(unit[0, w, i], unit[1, w, i], c, 0)
    if len(ps) == 3:
        return _of_three(unit[0, w, i], unit[1, w, i], unit[2, w, i], c, 0)
    low = _of_three(unit[0, w, i], unit[1, w, i], unit[2, w, i], c, 0)
    return low ^ (unit[3, w, i] & _of_three(unit[0, w, i], unit[1, w, i], unit[2, w, i], c, 8))


@inlined_kernel
def _gained(unit, symbols, gains, b, w, i, ps, ts):
    """Bit `b` of what lane `i` gains at the places of word `w`: its symbol is one of the terms, at
    most.
    """
    gained = _U0
    for t in range(len(ts)):
        differ = unit[0, w, i] ^ symbols[w, t, 0]
        for p in range(1, len(ps)):
            differ |= unit[p, w, i] ^ symbols[w, t, p]
        gained |= gains[w, t, b] & ~differ
    return gained


@inlined_kernel
def _lane_sum(unit, query, low, first, i, ps, ws, bs, ts):
    """The sum of levels of lane `i` over the words `first` … `first + len(ws)`, or with terms of
    what it gains, counting the bits `low` … `low + len(bs)`; planes are weighed by doubling.
    """
    total = _U0
    for b in range(len(bs) - 1, -1, -1):
        count = _U0
        for w in range(len(ws)):
            if len(ts) > 0:
                bits = _gained(unit, query[0], query[1], low + b, first + w, i, ps, ts)
            else:
                bits = _value(unit, query[0][first + w, low + b], first + w, i, ps)
            count += popcount(bits)
        total += total
        total += count
    return total


@kernel
def _scores_into(unit, query, base, n_bits, ps, ws, bs, ts, scores):
    """uint64[P, W, U] -> int32[U], written to `scores`."""
    for i in range(unit.shape[2]):
        scores[i] = 0
    # from the highest bits down: those before weigh so much more than the next
    for low in range(n_bits - len(bs), -1, -len(bs)):
        if low + len(bs) < n_bits:
            for i in range(unit.shape[2]):
                scores[i] <<= np.int32(len(bs))
        for first in range(0, unit.shape[1], len(ws)):
            for i in range(unit.shape[2]):
                scores[i] += _lane_sum(unit, query, low, first, i, ps, ws, bs, ts)
    if len(ts) > 0:
        for i in range(unit.shape[2]):
            scores[i] = base - scores[i]


@kernel
def _any_allowed(mask, start, count):
    """Whether uint64[8·B] allows any of the rows `start` … `start + count`; an empty one allows
    all.
    """
    bits = _U0
    for group in range(start >> 6, min((start + count + 63) >> 6, len(mask))):
        bits |= mask[group]
    return len(mask) == 0 or bits != _U0


@kernel
def scan_losses_into(
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    tables,
    bases,
    n_bits,
    ps,
    ws,
    bs,
    ts,
    first,
    last,
    farther,
    wide,
    wide_view,
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
    the sum of levels.

    uint64[T, P, W, L], int64[≥ n], mask uint64[8·B] or [0] for all rows; `tables` is a pair: the
    polynomials uint64[Q, W, B, 2**P] and anything, or the terms uint64[Q, W, T, P] and their gains
    uint64[Q, W, T, B]; bases int64[Q]; `n_bits` is B, a multiple of the bits of one step. Work:
    uint64[1, P, W, U] and a read-only view of it, as tiles are, so that helpers are compiled once;
    int32[U]; and pools of `collect_rows`: int32[Q, R], int64[Q, R], int32[Q], int64[Q], int64[Q].
    The `first` of several calls clears what is kept, the `last` one puts it in order: int32[Q, k],
    int64[Q, k], with `farther`, above every score, and −1 where there is nothing more.
    """
    (n_queries, k), n_lanes = best_ids.shape, len(scores)
    narrow = tiles.shape[3] < n_lanes
    source = wide_view if narrow else tiles
    if first:
        for q in range(n_queries):
            sizes[q], limits[q], last_ids[q] = 0, farther, NO_ID
    for start in range(first_block * 512, min(last_block * 512, n), n_lanes):
        stop = min(n_lanes, n - start)
        if not _any_allowed(mask, start, stop):
            continue
        if narrow:
            widen_tiles_into(tiles, start // tiles.shape[3], wide)
        for q in range(n_queries):
            query = tables[0][q], tables[1][q]
            tile = source[0 if narrow else start // n_lanes]
            _scores_into(tile, query, bases[q], n_bits, ps, ws, bs, ts, scores)
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
                kept_scores[q], kept_ids[q], sizes[q], farther, best_scores[q], best_ids[q]
            )


@kernel
def scan_loss_runs_into(
    runs,
    bounds,
    rows,
    ids,
    mask,
    cells,
    tables,
    bases,
    n_bits,
    ps,
    ws,
    bs,
    ts,
    first,
    last,
    farther,
    scores,
    kept_scores,
    kept_ids,
    limits,
    last_ids,
    sizes,
    best_scores,
    best_ids,
):
    """Offer the rows of every query's cells, int64[Q, M], to its k best by the sum of levels.

    Runs uint64[S, P, W, 64], of which cell c has `bounds[c, 1]` rows from tile `bounds[c, 0]` on,
    place by place the rows uint32[64·S] of a segment; work int32[64]. The rest is as for
    `scan_losses_into`, whose pool it shares: of calls of both the `first` clears it and the `last`
    writes.
    """
    (n_queries, k), room = best_ids.shape, kept_ids.shape[1]
    for q in range(n_queries):
        size, limit, last_id = sizes[q], limits[q], last_ids[q]
        if first:
            size, limit, last_id = 0, farther, NO_ID
        query = tables[0][q], tables[1][q]
        for m in range(cells.shape[1]):
            begin, n_rows = bounds[cells[q, m], 0], bounds[cells[q, m], 1]
            for t in range(begin, begin + (n_rows + _RUN_TILE - 1) // _RUN_TILE):
                _scores_into(runs[t], query, bases[q], n_bits, ps, ws, bs, ts, scores)
                # lanes behind the last row are zeros: scores that nobody looks at
                count = min(_RUN_TILE, n_rows - _RUN_TILE * (t - begin))
                bits = mark_at_most(scores[:count], limit)
                if bits == _U0:
                    continue
                if size + _RUN_TILE > room:
                    size, limit, last_id = thin_out(kept_scores[q], kept_ids[q], size, k)
                while bits != _U0:
                    lowest = bits & (~bits + _U1)
                    bits ^= lowest
                    i = np.int64(popcount(lowest - _U1))
                    score, row = scores[i], np.int64(rows[_RUN_TILE * t + i])
                    is_better = score < limit or (score == limit and ids[row] < last_id)
                    if is_better and is_allowed(mask, row):
                        kept_scores[q, size], kept_ids[q, size] = score, ids[row]
                        size += 1
        sizes[q], limits[q], last_ids[q] = size, limit, last_id
        if last:
            write_best_into(kept_scores[q], kept_ids[q], size, farther, best_scores[q], best_ids[q])


@kernel
def best_losses_into(
    tiles,
    places,
    ids,
    tables,
    bases,
    n_bits,
    ps,
    ws,
    bs,
    ts,
    farther,
    unit,
    unit_view,
    scores,
    best_scores,
    best_ids,
):
    """The best k of every query among the rows `places[q]` (int64[Q, M], −1 is no row), whose ids
    are `ids[q]`; the rest as in `scan_losses_into`, with units of `NEAR_ROWS`.
    """
    last_lane, shift = tiles.shape[3] - 1, 0
    while (1 << shift) <= last_lane:
        shift += 1
    k = best_ids.shape[1]
    for q in range(len(places)):
        kept_scores, kept_ids, size = best_scores[q], best_ids[q], 0
        for begin in range(0, places.shape[1], NEAR_ROWS):
            count = min(NEAR_ROWS, places.shape[1] - begin)
            for i in range(count):
                row = places[q, begin + i]
                if row < 0:
                    continue
                tile, lane = tiles[row >> shift], row & last_lane
                for p in range(unit.shape[0]):
                    for w in range(unit.shape[1]):
                        unit[p, w, i] = tile[p, w, lane]
            query = tables[0][q], tables[1][q]
            _scores_into(unit_view, query, bases[q], n_bits, ps, ws, bs, ts, scores)
            for i in range(count):
                if places[q, begin + i] < 0:
                    continue
                score, id = scores[i], ids[q, begin + i]
                if size < k:
                    raise_candidate(kept_scores, kept_ids, size, score, id)
                    size += 1
                elif is_worse(kept_scores[0], kept_ids[0], score, id):
                    sink_candidate(kept_scores, kept_ids, k, score, id)
        sort_candidates(kept_scores, kept_ids, size)
        for place in range(size, k):
            kept_scores[place], kept_ids[place] = farther, -1
