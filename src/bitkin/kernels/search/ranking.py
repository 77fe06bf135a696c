"""Distances of vectors, summed in float64: for pairs, and the best rows of one query.

A sum runs in eight lanes, column j in lane j % 8: fast, because no addition waits for the one
before, and the same to the last bit for a sparse row and its dense copy, because a zero changes no
lane.

One query measures its rows twice. Sums in float32 are made at the speed of memory and say how far
from the truth they can be; only rows that may be among the best k are then summed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel, summing_kernel
from bitkin.kernels._shared import (
    IP,
    L2,
    is_worse,
    raise_candidate,
    sink_candidate,
    sort_candidates,
)

# Squares and products below _LOST may have lost digits to underflow. A sum above _SHORT does not
# care: what it lost is less than 2⁻⁶⁰ of it.
_SHORT = 2.0**-900
_LOST = 2.0**-960
# Squared norms between these can be multiplied by one another.
_SHORT_NORM, _LONG_NORM = 2.0**-500, 2.0**500
# Bits of a float16 (sign, all others, exponent), and how its exponent becomes that of a float32.
_HALF_SIGN, _HALF_SIZE, _HALF_EXPONENT = np.uint32(0x8000), np.uint32(0x7FFF), np.uint32(0x7C00)
_HALF_SHIFT, _HALF_BIAS, _NEXT_EXPONENT = np.uint32(13), np.uint32(112 << 23), np.uint32(1 << 23)
_HALF_SMALLEST = np.float32(2.0**-14)  # that has all its digits
_HALF_ZERO = np.uint32(0)
# Rows of one query that are brought into cache together, and numbers in a line of the cache.
_ROWS_TOGETHER, _LINE = 16, 16
_ROUNDING = 2.0**-24  # of float32, relative
_NOTHING = 2.0**-140  # what a float32 product may lose to underflow, and more
# Sums of squares that are good to within their rounding, and can be divided by.
_LEAST_SQUARE, _LARGEST_SQUARE = 2.0**-60, 2.0**60


@kernel
def widen_halves_into(halves, out):
    """Finite float16[N, D], as uint16, -> float32[N, D], exactly; NumPy converts one by one, in
    twenty times the time.
    """
    for i in range(halves.shape[0]):
        for j in range(halves.shape[1]):
            bits = np.uint32(halves[i, j])
            # Below 2⁻¹⁴ a float16 is m · 2⁻²⁴ without a leading 1. With exponent −14 it becomes
            # (1 + m / 2¹⁰) · 2⁻¹⁴, which is too much by 2⁻¹⁴.
            small = np.uint32((bits & _HALF_EXPONENT) == _HALF_ZERO)
            size = ((bits & _HALF_SIZE) << _HALF_SHIFT) + _HALF_BIAS + small * _NEXT_EXPONENT
            number = np.uint32(size).view(np.float32) - np.float32(small) * _HALF_SMALLEST
            out[i, j] = -number if (bits & _HALF_SIGN) != _HALF_ZERO else number


@kernel
def _clear(lanes):
    """float64[8], set to zero."""
    for lane in range(8):
        lanes[lane] = 0.0


@kernel
def _total(lanes):
    """float64[8] -> float64, always added in the same order."""
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + (
        (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
    )


@kernel
def _in_range(total):
    """Whether neither overflow nor underflow can have touched a sum; a NaN is out of range."""
    return _SHORT < abs(total) < math.inf


@kernel
def _differ(row, query):
    """float[D] twice -> whether any number does."""
    for j in range(row.shape[0]):  # noqa: SIM110  # a kernel
        if row[j] != query[j]:
            return True
    return False


@kernel
def _lossy(a, b):
    """Whether the product of two numbers may have lost digits; that of a zero has none."""
    return a != 0.0 and b != 0.0 and abs(a * b) < _LOST


@kernel
def _products_lost(row, query, total):
    """float[D] twice and the sum of their products -> whether it overflows, or any lost digits.

    Where none has, a sum that is next to nothing is right: rows with no column in common, mostly.
    """
    if not math.isfinite(total):
        return True
    lost = 0
    for j in range(row.shape[0]):  # to the end and without a branch, which is quicker
        a, b = np.float64(row[j]), np.float64(query[j])
        lost += (a != 0.0) & (b != 0.0) & (abs(a * b) < _LOST)
    return lost > 0


@inlined_kernel
def _square_of(row, query, j):
    difference = np.float64(row[j]) - np.float64(query[j])
    return difference * difference


@inlined_kernel
def _product_of(row, query, j):
    return np.float64(row[j]) * np.float64(query[j])


@kernel
def _square(row, query, scaled, lanes):
    """float[D] twice, work float64[8] -> Σ (row − query)², NaN where it overflows or underflows
    unless numbers are `scaled` already.
    """
    # Eight sums side by side, see the top of the file for why not one, in variables: the compiler
    # keeps those in vectors, and must not do so with an array that others might share.
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    sum_4, sum_5, sum_6, sum_7 = 0.0, 0.0, 0.0, 0.0
    whole = row.shape[0] & ~7
    for j in range(0, whole, 8):
        sum_0 += _square_of(row, query, j)
        sum_1 += _square_of(row, query, j + 1)
        sum_2 += _square_of(row, query, j + 2)
        sum_3 += _square_of(row, query, j + 3)
        sum_4 += _square_of(row, query, j + 4)
        sum_5 += _square_of(row, query, j + 5)
        sum_6 += _square_of(row, query, j + 6)
        sum_7 += _square_of(row, query, j + 7)
    lanes[0], lanes[1], lanes[2], lanes[3] = sum_0, sum_1, sum_2, sum_3
    lanes[4], lanes[5], lanes[6], lanes[7] = sum_4, sum_5, sum_6, sum_7
    for j in range(whole, row.shape[0]):
        lanes[j & 7] += _square_of(row, query, j)
    total = _total(lanes)
    if not (scaled or _in_range(total)) and _differ(row, query):
        return math.nan
    return total


@kernel
def _product(row, query, scaled, lanes):
    """float[D] twice, work float64[8] -> Σ row · query, NaN as for `_square`."""
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    sum_4, sum_5, sum_6, sum_7 = 0.0, 0.0, 0.0, 0.0
    whole = row.shape[0] & ~7
    for j in range(0, whole, 8):
        sum_0 += _product_of(row, query, j)
        sum_1 += _product_of(row, query, j + 1)
        sum_2 += _product_of(row, query, j + 2)
        sum_3 += _product_of(row, query, j + 3)
        sum_4 += _product_of(row, query, j + 4)
        sum_5 += _product_of(row, query, j + 5)
        sum_6 += _product_of(row, query, j + 6)
        sum_7 += _product_of(row, query, j + 7)
    lanes[0], lanes[1], lanes[2], lanes[3] = sum_0, sum_1, sum_2, sum_3
    lanes[4], lanes[5], lanes[6], lanes[7] = sum_4, sum_5, sum_6, sum_7
    for j in range(whole, row.shape[0]):
        lanes[j & 7] += _product_of(row, query, j)
    total = _total(lanes)
    if not (scaled or _in_range(total)) and _products_lost(row, query, total):
        return math.nan
    return total


@kernel
def squared_distances_into(rows, row_of, queries, query_of, scaled, lanes, out):
    """float[N, D], int64[M], float[Q, D], int64[M], work float64[8] -> float64[M]: row `row_of[i]`
    against query `query_of[i]`. Numbers are float32 or float64, the sums float64.

    Returns how many sums overflow or underflow; those are NaN, unless numbers are `scaled` already.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        out[i] = _square(rows[row_of[i]], queries[query_of[i]], scaled, lanes)
        n_beyond += math.isnan(out[i])
    return n_beyond


@kernel
def dot_products_into(rows, row_of, queries, query_of, scaled, lanes, out):
    """float[N, D], int64[M], float[Q, D], int64[M], work float64[8] -> float64[M]: row `row_of[i]`
    with query `query_of[i]`. Numbers are float32 or float64, the sums float64.

    Returns how many sums overflow or underflow; those are NaN, unless numbers are `scaled` already.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        out[i] = _product(rows[row_of[i]], queries[query_of[i]], scaled, lanes)
        n_beyond += math.isnan(out[i])
    return n_beyond


@kernel
def sparse_squared_distances_into(
    row_offsets, row_columns, row_values, offsets, columns, values, query_of, scaled, lanes, out
):
    """CSR of M rows, CSR of Q queries (columns ascending), int64[M], work float64[8] -> float64[M].

    Returns what `squared_distances_into` does.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        a, end_a = row_offsets[i], row_offsets[i + 1]
        b, end_b = offsets[query_of[i]], offsets[query_of[i] + 1]
        differ = False
        _clear(lanes)
        while a < end_a or b < end_b:
            # Merge of two ascending lists of columns; a column in
            # one list only has a zero in the other.
            if b == end_b or (a < end_a and row_columns[a] < columns[b]):
                j, difference = row_columns[a], row_values[a]
                a += 1
            elif a == end_a or columns[b] < row_columns[a]:
                j, difference = columns[b], values[b]
                b += 1
            else:
                j, difference = columns[b], row_values[a] - values[b]
                a += 1
                b += 1
            differ |= difference != 0.0
            lanes[j & 7] += difference * difference
        out[i] = _total(lanes)
        if not (scaled or _in_range(out[i])) and differ:
            out[i] = math.nan
            n_beyond += 1
    return n_beyond


@kernel
def sparse_dot_products_into(
    row_offsets, row_columns, row_values, offsets, columns, values, query_of, scaled, lanes, out
):
    """CSR of M rows, CSR of Q queries (columns ascending), int64[M], work float64[8] -> float64[M].

    Returns what `dot_products_into` does.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        a, end_a = row_offsets[i], row_offsets[i + 1]
        b, end_b = offsets[query_of[i]], offsets[query_of[i] + 1]
        lossy = False
        _clear(lanes)
        # only columns that both rows have contribute to a product
        while a < end_a and b < end_b:
            if row_columns[a] < columns[b]:
                a += 1
            elif columns[b] < row_columns[a]:
                b += 1
            else:
                lossy |= _lossy(row_values[a], values[b])
                lanes[columns[b] & 7] += row_values[a] * values[b]
                a += 1
                b += 1
        out[i] = _total(lanes)
        if not (scaled or _in_range(out[i])) and (lossy or not math.isfinite(out[i])):
            out[i] = math.nan
            n_beyond += 1
    return n_beyond


@kernel
def _can_multiply(square):
    """Whether a squared norm can be multiplied by another one; a NaN cannot."""
    return _SHORT_NORM < square < _LONG_NORM


@kernel
def _cosine_distance(product, row, query, scaled):
    """The product of two vectors and their squared norms -> 1 − cosine, 1 where a norm is 0; NaN
    where norms are beyond what can be multiplied, unless numbers are `scaled`.
    """
    if row == 0.0 or query == 0.0:
        return 1.0
    if scaled or (_can_multiply(row) and _can_multiply(query) and not math.isnan(product)):
        # One root of the product, not two roots: a row is then at distance 0 from itself, exactly.
        return 1.0 - min(max(product / math.sqrt(row * query), -1.0), 1.0)
    return math.nan


@kernel
def cosine_distances_into(products, of_rows, of_queries, query_of, scaled, out):
    """float64[M], float64[M], float64[Q], int64[M] -> float64[M]: 1 − cosine, 1 where a squared
    norm is 0.

    Returns how many norms are beyond what can be multiplied; their distances are NaN, unless
    numbers are `scaled`.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        out[i] = _cosine_distance(products[i], of_rows[i], of_queries[query_of[i]], scaled)
        n_beyond += math.isnan(out[i])
    return n_beyond


@summing_kernel
def _rough_square(row, query):
    """float32[D] twice -> Σ (row − query)² in float32."""
    total = np.float32(0.0)
    for j in range(row.shape[0]):
        difference = row[j] - query[j]
        total += difference * difference
    return total


@summing_kernel
def _rough_products(row, query):
    """float32[D] twice -> Σ row · query and Σ row² in float32."""
    product, square = np.float32(0.0), np.float32(0.0)
    for j in range(row.shape[0]):
        product += row[j] * query[j]
        square += row[j] * row[j]
    return product, square


@kernel
def _rough_bounds(row, query, of_query, metric):
    """float32[D] twice and Σ query² -> what the distance is at least and at most; squared for L2.

    A sum of D products in float32, in whatever order, is off by less than γ = (D + 8) · 2⁻²⁴ times
    the sum of their sizes, and for products of two vectors that is at most ‖row‖ ‖query‖.
    """
    gamma = (row.shape[0] + 8) * _ROUNDING
    lost = row.shape[0] * _NOTHING
    if metric == L2:
        square = np.float64(_rough_square(row, query))
        off = 2.0 * gamma * square + lost
        low, high = square - off, square + off
    else:
        rough, of_row = _rough_products(row, query)
        product, square = np.float64(rough), np.float64(of_row)
        if metric == IP:
            off = 2.0 * gamma * math.sqrt((square + lost) * (of_query + lost)) + lost
            low, high = -product - off, -product + off
        elif min(square, of_query) > _LEAST_SQUARE and max(square, of_query) < _LARGEST_SQUARE:
            # of the product γ, of either norm γ at most, and what dividing by wrong norms adds
            distance = 1.0 - product / math.sqrt(square * of_query)
            low, high = distance - 4.0 * gamma, distance + 4.0 * gamma
        else:
            low, high = math.nan, math.nan
    # a sum beyond float32 says nothing: not even that another one is smaller
    return (low, high) if math.isfinite(low) else (-math.inf, math.inf)


@kernel
def _distance(row, query, of_query, metric, lanes):
    """float32[D] twice, Σ query², work float64[8] -> their distance in float64, or NaN."""
    if metric == L2:
        return math.sqrt(_square(row, query, False, lanes))
    product = _product(row, query, False, lanes)
    if metric == IP:
        return 0.0 - product  # −x would make −0.0 of a product of 0
    return _cosine_distance(product, _product(row, row, False, lanes), of_query, False)


@kernel
def nearest_rows_into(rows, row_of, ids, query, metric, lanes, bounds, best, best_ids):
    """The best k of some rows by their distance from one query, nearest first, ties by lower id.

    float32[N, D], int64[M], int64[M], float32[D], `L2`, `COSINE` or `IP`; work float64[8] and
    float64[2, M] -> float64[k], int64[k], with infinity and −1 behind the last one. Returns how
    many sums overflow or underflow: unless that is 0, nothing that was written counts.
    """
    m, k = len(row_of), len(best)
    for place in range(k):
        best[place], best_ids[place] = math.inf, -1
    of_query = 0.0 if metric == L2 else _product(query, query, False, lanes)
    # First what every distance is at least and at most; the k smallest upper bounds are the heap.
    size, touched = 0, np.float32(0.0)
    for first in range(0, m, _ROWS_TOGETHER):
        last = min(first + _ROWS_TOGETHER, m)
        for i in range(first, last):
            # one number of every line, so that many misses of the cache overlap
            row = rows[row_of[i]]
            for j in range(0, row.shape[0], _LINE):
                touched += row[j]
        for i in range(first, last):
            low, high = _rough_bounds(rows[row_of[i]], query, of_query, metric)
            bounds[0, i] = low
            if size < k:
                raise_candidate(best, best_ids, size, high, ids[i])
                size += 1
            elif is_worse(best[0], best_ids[0], high, ids[i]):
                sink_candidate(best, best_ids, k, high, ids[i])
    bounds[1, 0] = touched  # or the loop that touches would not be compiled
    # At least k rows are as near as this, unless there are fewer: what is farther is out.
    limit = best[0] if size == k else math.inf
    size = 0
    for i in range(m):
        if bounds[0, i] > limit:
            continue
        distance = _distance(rows[row_of[i]], query, of_query, metric, lanes)
        if math.isnan(distance):
            return 1
        if size < k:
            raise_candidate(best, best_ids, size, distance, ids[i])
            size += 1
        elif is_worse(best[0], best_ids[0], distance, ids[i]):
            sink_candidate(best, best_ids, k, distance, ids[i])
    sort_candidates(best, best_ids, size)
    return 0
