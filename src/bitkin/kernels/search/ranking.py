"""Loops behind `bitkin.evaluate`: which pairs to look at, exact sums over them, and the precision
of a ranking.

A sum runs in eight lanes, column j in lane j % 8: fast, because no addition waits for the one
before, and the same to the last bit for a sparse row and its dense copy, because a zero changes no
lane.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel

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


@kernel
def squared_distances_into(rows, row_of, queries, query_of, scaled, lanes, out):
    """float[N, D], int64[M], float[Q, D], int64[M], work float64[8] -> float64[M]: row `row_of[i]`
    against query `query_of[i]`. Numbers are float32 or float64, the sums float64.

    Returns how many sums overflow or underflow; those are NaN, unless numbers are `scaled` already.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        row, query = rows[row_of[i]], queries[query_of[i]]
        _clear(lanes)
        for j in range(row.shape[0]):
            difference = np.float64(row[j]) - np.float64(query[j])
            # Eight sums side by side; see the top of the file for why not one.
            lanes[j & 7] += difference * difference
        out[i] = _total(lanes)
        if not (scaled or _in_range(out[i])) and _differ(row, query):
            out[i] = math.nan
            n_beyond += 1
    return n_beyond


@kernel
def dot_products_into(rows, row_of, queries, query_of, scaled, lanes, out):
    """float[N, D], int64[M], float[Q, D], int64[M], work float64[8] -> float64[M]: row `row_of[i]`
    with query `query_of[i]`. Numbers are float32 or float64, the sums float64.

    Returns how many sums overflow or underflow; those are NaN, unless numbers are `scaled` already.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        row, query = rows[row_of[i]], queries[query_of[i]]
        _clear(lanes)
        for j in range(row.shape[0]):
            lanes[j & 7] += np.float64(row[j]) * np.float64(query[j])
        out[i] = _total(lanes)
        if not (scaled or _in_range(out[i])) and _products_lost(row, query, out[i]):
            out[i] = math.nan
            n_beyond += 1
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
def cosine_distances_into(products, of_rows, of_queries, query_of, scaled, out):
    """float64[M], float64[M], float64[Q], int64[M] -> float64[M]: 1 − cosine, 1 where a squared
    norm is 0.

    Returns how many norms are beyond what can be multiplied; their distances are NaN, unless
    numbers are `scaled`.
    """
    n_beyond = 0
    for i in range(out.shape[0]):
        row, query = of_rows[i], of_queries[query_of[i]]
        if row == 0.0 or query == 0.0:
            out[i] = 1.0
        elif scaled or (
            _can_multiply(row) and _can_multiply(query) and not math.isnan(products[i])
        ):
            # One root of the product, not two roots: a row is then at distance 0 from itself,
            # exactly.
            out[i] = 1.0 - min(max(products[i] / math.sqrt(row * query), -1.0), 1.0)
        else:
            out[i] = math.nan
            n_beyond += 1
    return n_beyond


@kernel
def count_at_most_into(table, limits, out):
    """float[Q, N], float[Q] of one type -> int64[Q]: how many entries of each row are at most its
    limit.
    """
    for row in range(table.shape[0]):
        limit = limits[row]
        count = 0
        for j in range(table.shape[1]):
            count += table[row, j] <= limit
        out[row] = count


@kernel
def find_at_most_into(table, limits, counts, rows, columns, values):
    """float[Q, N], float[Q], int64[Q] as counted -> int64[M], int64[M], float64[M]: row, column and
    value of each.
    """
    place = 0
    for row in range(table.shape[0]):
        limit = limits[row]
        end = place + counts[row]
        j = 0
        # counted before, so the search stops at the last one and not at the end of the row
        while place < end:
            if table[row, j] <= limit:
                rows[place] = row
                columns[place] = j
                values[place] = table[row, j]
                place += 1
            j += 1


@kernel
def average_precision_into(groups, offsets, relevant, counts, hits, out):
    """int32[Q, N] below G, CSR of relevant columns, work int64[G] twice -> float64[Q], NaN where
    nothing is relevant.

    Lower groups rank first; within one the result is the mean over all orders. Of n items with r
    relevant, behind N₀ items with R₀ relevant, the i-th is relevant with chance r / n, and then (i
    − 1)(r − 1)/(n − 1) relevant ones of its own group are expected before it.
    """
    for row in range(groups.shape[0]):
        n_relevant = offsets[row + 1] - offsets[row]
        for group in range(counts.shape[0]):
            counts[group] = 0
            hits[group] = 0
        for j in range(groups.shape[1]):
            counts[groups[row, j]] += 1
        for j in range(offsets[row], offsets[row + 1]):
            hits[groups[row, relevant[j]]] += 1
        before = 0
        relevant_before = 0
        total = 0.0
        for group in range(counts.shape[0]):
            n, r = counts[group], hits[group]
            if r > 0:
                # Σᵢ (r/n) · (R₀ + 1 + (i − 1)(r − 1)/(n − 1)) / (N₀ + i), i from 1; the loop
                # below counts from 0
                step = (r - 1) / (n - 1) if n > 1 else 0.0
                precision = 0.0
                for i in range(n):
                    precision += (relevant_before + 1 + i * step) / (before + i + 1)
                total += precision * r / n
            before += n
            relevant_before += r
            # what ranks behind the last relevant item adds nothing
            if relevant_before == n_relevant:
                break
        out[row] = total / n_relevant if n_relevant > 0 else float("nan")
