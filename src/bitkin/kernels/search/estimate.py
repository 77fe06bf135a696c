"""Scoring sign codes with real-valued queries: a signed sum a row, by one table look-up for every
byte of its code.

A table has 256 entries for every byte of a code: the sum of the eight numbers of the query at that
place, each with the sign that the bits of the entry give it. Bits beyond the code have no number,
and what they are does not matter.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import fused_kernel, kernel
from bitkin.kernels._shared import (
    COSINE,
    L2,
    is_worse,
    raise_candidate,
    sink_candidate,
    sort_candidates,
)

NEAR_ROWS = 64  # gathered at a time: so many misses of the cache overlap
ENTRIES = 8 * 256  # of the tables of a word
# Between these lengths a vector can be divided by its own after it was projected in float32.
SHORT_QUERY, LONG_QUERY = 2.0**-60, 2.0**60
SMALLEST_SQUARE = 2.0**-126  # float32 loses digits below
LONG_ROW = 1 << 12  # features: the error of a longer sum in float32 would show

_U1 = np.uint64(1)
_BYTE = np.uint64(255)
# Where the tables of the second to the eighth byte of a word begin, and how far to shift that byte.
_AT_1, _AT_2, _AT_3, _AT_4 = np.uint64(256), np.uint64(512), np.uint64(768), np.uint64(1024)
_AT_5, _AT_6, _AT_7 = np.uint64(1280), np.uint64(1536), np.uint64(1792)
_U8, _U16, _U24, _U32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
_U40, _U48, _U56 = np.uint64(40), np.uint64(48), np.uint64(56)


@kernel
def _fill_tables(query, tables):
    """float32[C] -> float32[ceil(C / 64), 2048], written to `tables`; number j is of bit 7 − j % 8
    of byte j // 8.
    """
    n_bits = query.shape[0]
    for b in range(8 * tables.shape[0]):
        table = tables[b // 8, 256 * (b % 8) : 256 * (b % 8) + 256]
        lowest = np.float32(0.0)
        for j in range(8 * b, min(8 * b + 8, n_bits)):
            lowest -= query[j]
        table[0] = lowest
        filled = 1
        for bit in range(8):
            j = 8 * b + 7 - bit
            twice = np.float32(2.0) * query[j] if j < n_bits else np.float32(0.0)
            for entry in range(filled):
                table[filled + entry] = table[entry] + twice
            filled *= 2


@fused_kernel
def multiply_into(row, components, out):
    """float32[D], float32[D, C] -> float32[C], feature after feature. BLAS would be as fast, once
    it is told to use one thread.
    """
    n_features, n_bits = components.shape
    for c in range(n_bits):
        out[c] = np.float32(0.0)
    # four features at a time, so that sums are read and written a quarter as often
    whole = n_features - n_features % 4
    for j in range(0, whole, 4):
        x_0, x_1, x_2, x_3 = row[j], row[j + 1], row[j + 2], row[j + 3]
        for c in range(n_bits):
            total = out[c] + x_0 * components[j, c]
            total = total + x_1 * components[j + 1, c]
            total = total + x_2 * components[j + 2, c]
            out[c] = total + x_3 * components[j + 3, c]
    for j in range(whole, n_features):
        for c in range(n_bits):
            out[c] += row[j] * components[j, c]


@fused_kernel
def multiply_rows_into(rows, components, work, out):
    """float32[N, D], float32[D, C], work float32[B, C] -> float32[N, C].

    A row gets the same numbers in whatever batch and place it comes: those of `multiply_into`, with
    which longer rows are added up piece by piece. BLAS rounds by the place of a row in its block.
    B rows at a time stay in the first-level cache with the components that they are multiplied by.
    """
    n_features, n_bits = components.shape
    for first in range(0, rows.shape[0], work.shape[0]):
        last = min(first + work.shape[0], rows.shape[0])
        for r in range(first, last):
            for c in range(n_bits):
                out[r, c] = np.float32(0.0)
        for start in range(0, n_features, LONG_ROW):
            stop = min(start + LONG_ROW, n_features)
            whole = stop - (stop - start) % 4
            for r in range(last - first):
                for c in range(n_bits):
                    work[r, c] = np.float32(0.0)
            for j in range(start, whole, 4):
                for r in range(last - first):
                    x_0, x_1 = rows[first + r, j], rows[first + r, j + 1]
                    x_2, x_3 = rows[first + r, j + 2], rows[first + r, j + 3]
                    for c in range(n_bits):
                        total = work[r, c] + x_0 * components[j, c]
                        total = total + x_1 * components[j + 1, c]
                        total = total + x_2 * components[j + 2, c]
                        work[r, c] = total + x_3 * components[j + 3, c]
            for j in range(whole, stop):
                for r in range(last - first):
                    for c in range(n_bits):
                        work[r, c] += rows[first + r, j] * components[j, c]
            for r in range(last - first):
                for c in range(n_bits):
                    out[first + r, c] += work[r, c]


@kernel
def sum_sizes_into(projected, sizes, squares):
    """float32[N, C] -> ‖y‖₁ and ‖y‖² of every row, float64[N] twice."""
    for r in range(projected.shape[0]):
        size, square = 0.0, 0.0
        for c in range(projected.shape[1]):
            number = abs(np.float64(projected[r, c]))
            size += number
            square += number * number
        sizes[r], squares[r] = size, square


@kernel
def _finish_query(seen, projected, terms, small, words):
    """What `finish_queries_into` does, for one query."""
    total, squares, largest = 0.0, 0.0, 0.0
    for j in range(seen.shape[0]):
        size = abs(seen[j])
        total += size
        squares += size * size
        largest = max(largest, size)
    exponent = math.frexp(largest)[1]
    share = math.sqrt(math.sqrt(squares) / total) if total > 0.0 else 0.0
    terms[3] = math.ldexp(terms[3] * share, exponent)
    for j in range(seen.shape[0]):
        small[j] = math.ldexp(seen[j], -exponent)
        if projected[j] >= 0.0:
            words[j >> 6] |= _U1 << np.uint64((j & 56) + 7 - (j & 7))


@kernel
def finish_queries_into(seen, projected, terms, small, words):
    """Bring queries into the form in which `estimates_into` takes them, and pack their signs.

    float64[Q, C] z, float32[Q, C] whose signs are the codes, float64[Q, 4] -> the factor of every
    query times g = √(‖z‖ / ‖z‖₁), and times the power of two 2^e by which z is divided, so that
    sums over a float32 table neither overflow nor vanish; float32[Q, C] z / 2^e; uint64[Q, 1, W]
    of zeros, in which symbol j sits in byte j // 8, bit 7 − j % 8.
    """
    for i in range(seen.shape[0]):
        _finish_query(seen[i], projected[i], terms[i], small[i], words[i, 0])


@kernel
def prepare_query_into(
    row,
    components,
    offset,
    mean,
    scaled_mean,
    scaled_offset,
    metric,
    normalize,
    projected,
    seen,
    terms,
    small,
    words,
):
    """Make of one query what `finish_queries_into` takes, and do what that does.

    float32[D], float32[D, C], float32[C], float64[D] twice, float64[C], `L2`, `COSINE` or `IP`;
    work float32[C] and float64[C] -> float64[4], float32[C], uint64[W] of zeros. The formulas stand
    in `Scorer.prepare_queries`; `L2` with `normalize` is not among them. Returns whether all
    numbers stayed well within the range of float32.
    """
    n_bits = components.shape[1]
    multiply_into(row, components, projected)
    apart, square, along, of_mean = 0.0, 0.0, 0.0, 0.0
    for j in range(row.shape[0]):
        number = np.float64(row[j])
        apart += (number - mean[j]) * (number - mean[j])
        square += number * number
        along += number * scaled_mean[j]
        of_mean += scaled_mean[j] * scaled_mean[j]
    length = math.sqrt(square)
    if metric == L2:
        for c in range(n_bits):
            projected[c] -= offset[c]
            seen[c] = projected[c]
        terms[0], terms[1], terms[2], terms[3] = apart, 1.0, 0.0, -2.0
    else:
        scale = 1.0
        if metric == COSINE:
            scale = 1.0 / length if length > 0.0 else 0.0
        share = along * scale / of_mean if of_mean > 0.0 else 0.0
        unit = 1.0 / length if normalize and length > 0.0 else 1.0
        for c in range(n_bits):
            seen[c] = projected[c] * scale - share * scaled_offset[c]
            projected[c] = np.float32(projected[c] * unit) - offset[c]
        terms[0] = 1.0 if metric == COSINE else 0.0
        terms[1], terms[2], terms[3] = -share, 0.0, -1.0
    total = 0.0
    for c in range(n_bits):
        total += abs(np.float64(projected[c]))
    _finish_query(seen, projected, terms, small, words)
    within = SHORT_QUERY < length < LONG_QUERY or metric == L2 or length == 0.0
    return within and math.isfinite(total)


@kernel
def estimates_into(
    tiles,
    corrections,
    places,
    slots,
    has_roots,
    queries,
    terms,
    tables,
    near_words,
    near_corrections,
    out,
):
    """Estimate the distance of query i from row `places[i, k]`, whose corrections are in
    `slots[i, k]`; written to `out`, infinity where the place is −1.

    uint64[T, 1, W, L], L a power of two, in which row r is `[r // L, 0, :, r % L]`, float32[N, 2],
    int64[Q, M] twice, float32[Q, C], float64[Q, 4]; work float32[W, 2048], uint64[64, W] and
    float64[64, 2] -> float64[Q, M]: constant + onto · a + root · √a + factor · f · ⟨signs, query⟩,
    where (a, f) are the corrections of the row and (constant, onto, root, factor) are the terms of
    the query. With `has_roots`, corrections below 0 stand for their squares.
    """
    n_words = tiles.shape[2]
    last_lane, shift = tiles.shape[3] - 1, 0
    while (1 << shift) <= last_lane:
        shift += 1
    for i in range(places.shape[0]):
        _fill_tables(queries[i], tables)
        constant, onto, root, factor = terms[i, 0], terms[i, 1], terms[i, 2], terms[i, 3]
        for first in range(0, places.shape[1], NEAR_ROWS):
            count = min(NEAR_ROWS, places.shape[1] - first)
            for k in range(count):
                row = places[i, first + k]
                if row >= 0:
                    tile, lane, slot = row >> shift, row & last_lane, slots[i, first + k]
                    for w in range(n_words):
                        near_words[k, w] = tiles[tile, 0, w, lane]
                    near_corrections[k, 0] = corrections[slot, 0]
                    near_corrections[k, 1] = corrections[slot, 1]
            for k in range(count):
                if places[i, first + k] < 0:
                    out[i, first + k] = math.inf
                    continue
                sum_0, sum_1, sum_2, sum_3 = (
                    np.float32(0.0),
                    np.float32(0.0),
                    np.float32(0.0),
                    np.float32(0.0),
                )
                for w in range(n_words):
                    word, table = near_words[k, w], tables[w]
                    # Four sums, since an addition waits for the one before; unsigned indexes are
                    # not tested for < 0.
                    sum_0 += table[word & _BYTE]
                    sum_1 += table[_AT_1 + ((word >> _U8) & _BYTE)]
                    sum_2 += table[_AT_2 + ((word >> _U16) & _BYTE)]
                    sum_3 += table[_AT_3 + ((word >> _U24) & _BYTE)]
                    sum_0 += table[_AT_4 + ((word >> _U32) & _BYTE)]
                    sum_1 += table[_AT_5 + ((word >> _U40) & _BYTE)]
                    sum_2 += table[_AT_6 + ((word >> _U48) & _BYTE)]
                    sum_3 += table[_AT_7 + (word >> _U56)]
                signed = np.float64((sum_0 + sum_1) + (sum_2 + sum_3))
                a = near_corrections[k, 0]
                if has_roots and a < 0.0:
                    a *= a
                estimate = constant + onto * a
                if root != 0.0:
                    estimate += root * math.sqrt(a)
                out[i, first + k] = estimate + factor * near_corrections[k, 1] * signed


@kernel
def best_estimates_into(
    tiles,
    corrections,
    places,
    slots,
    has_roots,
    queries,
    terms,
    ids,
    tables,
    near_words,
    near_corrections,
    scores,
    best_scores,
    best_ids,
):
    """The best k of every query by `estimates_into`, nearest first, ties by lower id.

    Beside its arguments, int64[Q, M] ids, −1 where nothing stands, and work float64[1, M] ->
    float64[Q, k], int64[Q, k], with infinity and −1 where there is nothing more.
    """
    k = best_ids.shape[1]
    for i in range(places.shape[0]):
        estimates_into(
            tiles,
            corrections,
            places[i : i + 1],
            slots[i : i + 1],
            has_roots,
            queries[i : i + 1],
            terms[i : i + 1],
            tables,
            near_words,
            near_corrections,
            scores,
        )
        kept_scores, kept_ids = best_scores[i], best_ids[i]
        size = 0
        for j in range(ids.shape[1]):
            score, id = scores[0, j], ids[i, j]
            if id < 0:
                continue
            if size < k:
                raise_candidate(kept_scores, kept_ids, size, score, id)
                size += 1
            elif is_worse(kept_scores[0], kept_ids[0], score, id):
                sink_candidate(kept_scores, kept_ids, k, score, id)
        for place in range(size, k):
            kept_scores[place], kept_ids[place] = math.inf, -1
        sort_candidates(kept_scores, kept_ids, size)
