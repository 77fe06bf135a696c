"""The fast lane: the first stages of a search for one query in one call, from its vector to the
slots of the rows that are to be measured.

The stages are those that `Funnel` goes through with `first="estimate"`, and the same kernels:
encode, scan all rows by the estimate, look up where the vectors of the best stand. What is spared
is the way between them: views, arrays, look-ups and calls from Python take as long as the stages
for some ten thousand rows.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel
from bitkin.kernels.search.estimate import prepare_query_into
from bitkin.kernels.search.estimate_scan import quantize_queries_into, scan_estimates_into


@kernel
def _place_of(id, ids, n):
    """The place of an id that is there in the first `n` of ascending ones."""
    if ids[n - 1] - ids[0] == n - 1:
        return id - ids[0]
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < id:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def scan_lane_into(
    row,
    components,
    offset,
    mean,
    scaled_mean,
    scaled_offset,
    metric,
    normalize,
    tiles,
    ids,
    first_block,
    last_block,
    n,
    mask,
    corrections,
    slots,
    has_small,
    bs,
    ws,
    projected,
    seen,
    words,
    sizes,
    steps,
    small,
    planes,
    totals,
    terms,
    small_view,
    planes_view,
    totals_view,
    terms_view,
    wide,
    wide_view,
    weights,
    near,
    scores,
    kept_scores,
    kept_ids,
    limits,
    last_ids,
    kept_sizes,
    best_scores,
    best_ids,
    best_slots,
):
    """The best M of all rows by the estimate for one query, and their slots.

    The query and the model as `prepare_query_into` takes them; rows as `scan_estimates_into` does.
    Then the work of all stages: `projected`, `seen`, `words`; `sizes`, `steps`; what one stage
    writes and another one reads, float32[1, C], uint64[1, B, W], int64[1], float64[1, 4], once as
    it is and once read-only, so that kernels are compiled once; from `wide` on that of the scan.
    -> float64[1, M], int64[1, M], int64[M]. Slots are those of `slots`, or places of rows where
    there are none. Returns how many rows there are, −1 where numbers left the range of float32.
    """
    for w in range(words.shape[0]):
        words[w] = np.uint64(0)
    for p in range(planes.shape[1]):
        for w in range(planes.shape[2]):
            planes[0, p, w] = np.uint64(0)
    within = prepare_query_into(
        row, components, offset, mean, scaled_mean, scaled_offset, metric, normalize, projected,
        seen, terms[0], small[0], words,
    )  # fmt: skip
    if not within:
        return -1
    quantize_queries_into(small_view, sizes, planes, totals, steps)
    terms[0, 3] *= steps[0]
    scan_estimates_into(
        tiles, ids, first_block, last_block, n, mask, corrections, slots, has_small,
        planes_view, totals_view, terms_view, bs, ws, True, True, wide, wide_view, weights, near,
        scores, kept_scores, kept_ids, limits, last_ids, kept_sizes, best_scores, best_ids,
    )  # fmt: skip
    found = 0
    while found < len(best_slots) and best_ids[0, found] >= 0:
        place = _place_of(best_ids[0, found], ids, n)
        best_slots[found] = slots[place] if len(slots) > 0 else place
        found += 1
    return found
