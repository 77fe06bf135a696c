"""The best rows of queries by their vectors: float32, float16, or whole steps of a scale per row.

A query measures its rows twice. Sums in float32 are made at the speed of memory and say how far
from the truth they can be; only rows that may be among the best k are then summed in float64. Rows
are brought to float32 some at a time: that is exact, and lets many misses of the cache overlap.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel, summing_kernel
from bitkin.kernels._shared import (
    IP,
    L2,
    is_worse,
    raise_candidate,
    sink_candidate,
    sort_candidates,
)
from bitkin.kernels.search.ranking import (
    cosine_distance,
    product_sum,
    square_sum,
    widen_half_row_into,
)

ROWS_TOGETHER = 8  # are brought into cache at a time
_ROUNDING = 2.0**-24  # of float32, relative
_NOTHING = 2.0**-140  # what a float32 product may lose to underflow, and more
# Sums of squares that are good to within their rounding, and can be divided by.
_LEAST_SQUARE, _LARGEST_SQUARE = 2.0**-60, 2.0**60


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
        return math.sqrt(square_sum(row, query, False, lanes))
    product = product_sum(row, query, False, lanes)
    if metric == IP:
        return 0.0 - product  # −x would make −0.0 of a product of 0
    return cosine_distance(product, product_sum(row, row, False, lanes), of_query, False)


@kernel
def _begin(query, metric, lanes, best, best_ids):
    """Clear the heap of a query and return Σ query², where the metric needs it."""
    for place in range(len(best)):
        best[place], best_ids[place] = math.inf, -1
    return 0.0 if metric == L2 else product_sum(query, query, False, lanes)


@kernel
def _offer(size, best, best_ids, distance, id):
    """Offer a row to the heap of the best; returns how many it holds."""
    if size < len(best):
        raise_candidate(best, best_ids, size, distance, id)
        return size + 1
    if is_worse(best[0], best_ids[0], distance, id):
        sink_candidate(best, best_ids, size, distance, id)
    return size


@kernel
def _count_rows(slots):
    """How many of int64[M] come before the first −1."""
    count = 0
    while count < len(slots) and slots[count] >= 0:
        count += 1
    return count


@kernel
def _bring_into(rows, halves, scales, slot, out):
    """Row `slot` of float32[N, D], of int8[N, D] times float32[N] scales, or of float16[N, D] as
    uint16, -> float32[D]. There are no rows where there are halves, and scales only of int8.
    """
    if len(halves) > 0:
        widen_half_row_into(halves[slot], out)
    elif len(scales) > 0:
        scale = scales[slot]
        for j in range(len(out)):
            out[j] = np.float32(rows[slot, j]) * scale
    else:
        for j in range(len(out)):
            out[j] = np.float32(rows[slot, j])


@kernel
def nearest_rows_into(
    rows, halves, scales, slots, ids, queries, metric, near, near_view, lanes, lows, best, best_ids
):  # fmt: skip
    """The best k of some rows of every query by their distance, nearest first, ties by lower id.

    Rows as `_bring_into` takes them; of query q the rows `slots[q]`, int64[Q, M], up to the first
    −1, with ids int64[Q, M]; float32[Q, D]; `L2`, `COSINE` or `IP`; work float32[8, D] and a
    read-only view of it, float64[8], float64[M] -> float64[Q, k], int64[Q, k], with infinity and −1
    behind the last one. Returns how many queries have sums that overflow or underflow: unless that
    is 0, nothing that was written counts.
    """
    n_beyond, k = 0, best.shape[1]
    for q in range(len(queries)):
        query, here, here_ids = queries[q], best[q], best_ids[q]
        of_query = _begin(query, metric, lanes, here, here_ids)
        # First what every distance is at least and at most; the k smallest upper bounds are kept.
        size, m = 0, _count_rows(slots[q])
        for first in range(0, m, ROWS_TOGETHER):
            last = min(first + ROWS_TOGETHER, m)
            for i in range(first, last):
                _bring_into(rows, halves, scales, slots[q, i], near[i - first])
            for i in range(first, last):
                lows[i], high = _rough_bounds(near_view[i - first], query, of_query, metric)
                size = _offer(size, here, here_ids, high, ids[q, i])
        # At least k rows are as near as this, unless there are fewer: what is farther is out.
        limit = here[0] if size == k else math.inf
        size = 0
        for i in range(m):
            if lows[i] > limit:
                continue
            _bring_into(rows, halves, scales, slots[q, i], near[0])
            distance = _distance(near_view[0], query, of_query, metric, lanes)
            if math.isnan(distance):
                n_beyond += 1
                break
            size = _offer(size, here, here_ids, distance, ids[q, i])
        for place in range(size, k):
            here[place], here_ids[place] = math.inf, -1
        sort_candidates(here, here_ids, size)
    return n_beyond
