"""Distances of pairs of vectors, summed in float64.

A sum runs in eight lanes, column j in lane j % 8: fast, because no addition waits for the one
before, and the same to the last bit for a sparse row and its dense copy, because a zero changes no
lane.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel

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


@kernel
def widen_half_row_into(halves, out):
    """Finite float16[D], as uint16, -> float32[D], exactly."""
    for j in range(len(halves)):
        bits = np.uint32(halves[j])
        # Below 2⁻¹⁴ a float16 is m · 2⁻²⁴ without a leading 1. With exponent −14 it becomes
        # (1 + m / 2¹⁰) · 2⁻¹⁴, which is too much by 2⁻¹⁴.
        small = np.uint32((bits & _HALF_EXPONENT) == _HALF_ZERO)
        size = ((bits & _HALF_SIZE) << _HALF_SHIFT) + _HALF_BIAS + small * _NEXT_EXPONENT
        number = np.uint32(size).view(np.float32) - np.float32(small) * _HALF_SMALLEST
        out[j] = -number if (bits & _HALF_SIGN) != _HALF_ZERO else number


@kernel
def widen_halves_into(halves, out):
    """Finite float16[N, D], as uint16, -> float32[N, D], exactly; NumPy converts one by one, in
    twenty times the time.
    """
    for i in range(halves.shape[0]):
        widen_half_row_into(halves[i], out[i])


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
def square_sum(row, query, scaled, lanes):
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
def product_sum(row, query, scaled, lanes):
    """float[D] twice, work float64[8] -> Σ row · query, NaN as for `square_sum`."""
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
        out[i] = square_sum(rows[row_of[i]], queries[query_of[i]], scaled, lanes)
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
        out[i] = product_sum(rows[row_of[i]], queries[query_of[i]], scaled, lanes)
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
def cosine_distance(product, row, query, scaled):
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
        out[i] = cosine_distance(products[i], of_rows[i], of_queries[query_of[i]], scaled)
        n_beyond += math.isnan(out[i])
    return n_beyond
