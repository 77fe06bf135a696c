"""The fast lanes: the stages of a search in one call.

They are those that `Funnel` goes through with `first="estimate"`, and the same kernels, up to the
slots of the rows that are to be measured: encode a query, scan all rows or choose cells and scan
those, look up where the vectors of the best stand. What is spared is the way between the stages:
views, arrays, look-ups and calls from Python take as long as the stages for some ten thousand rows.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import cut_back
from bitkin.kernels.search.estimate import prepare_query_into
from bitkin.kernels.search.estimate_scan import quantize_queries_into, scan_estimates_into
from bitkin.kernels.vector_cells.queries import prepare_for_cells_into
from bitkin.kernels.vector_cells.residual_scan import scan_residuals_into


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


@kernel
def scan_cells_lane_into(
    queries,
    mean,
    spread,
    metric,
    components,
    direction,
    seen_direction,
    tiles,
    halves,
    numbers,
    groups,
    group_halves,
    n_cells,
    centres,
    centre_halves,
    runs,
    bounds,
    rows,
    beside,
    ids,
    n,
    slots,
    first_slot,
    mask,
    bs,
    ws,
    least,
    placed,
    seen,
    sizes,
    steps,
    centre_scores,
    places,
    looked,
    near_scores,
    near_places,
    cell_distances,
    planes,
    totals,
    terms,
    cells,
    constants,
    planes_view,
    totals_view,
    terms_view,
    weights,
    scores,
    kept_scores,
    kept_ids,
    limits,
    last_ids,
    kept_sizes,
    no_scores,
    undone,
    best_ids,
    best_slots,
):
    """The best M rows of queries float32[Q, D] in their cells by the estimate, in any order, and
    their slots -> int64[Q, M] twice, with −1 behind the last one.

    Queries and centres as `prepare_for_cells_into` takes them, runs of a segment of `n` rows as
    `scan_residuals_into` does, with int64[≥ n] slots, [0] where they begin with `first_slot`; work
    and rooms of both for one query, and views of what one writes and the other one reads,
    read-only, so that kernels are compiled once. Queries that are not finite or find fewer than
    `least` rows are written to `undone`, int64[Q]: nothing else of theirs counts. Returns how many.
    """
    n_undone = 0
    for q in range(len(queries)):
        n_bad = prepare_for_cells_into(
            queries[q : q + 1], mean, spread, metric, components, direction, seen_direction, tiles,
            halves, numbers, groups, group_halves, n_cells, centres, centre_halves, placed, seen,
            sizes, steps, centre_scores, places, looked, near_scores, near_places, cell_distances,
            planes, totals, terms, cells, constants,
        )  # fmt: skip
        found = 0
        if n_bad == 0:
            scan_residuals_into(
                runs, bounds, rows, beside, ids, mask, cells, constants, planes_view, totals_view,
                terms_view, bs, ws, True, False, weights, scores, kept_scores, kept_ids, limits,
                last_ids, kept_sizes, no_scores, best_ids[q : q + 1],
            )  # fmt: skip
            found = min(kept_sizes[0], best_ids.shape[1])
            if kept_sizes[0] > found:
                cut_back(kept_scores[0], kept_ids[0], kept_sizes[0], found)
        if found < least:
            undone[n_undone] = q
            n_undone += 1
        for m in range(found):
            place = _place_of(kept_ids[0, m], ids, n)
            best_ids[q, m] = kept_ids[0, m]
            best_slots[q, m] = slots[place] if len(slots) > 0 else first_slot + place
        for m in range(found, best_ids.shape[1]):
            best_ids[q, m], best_slots[q, m] = -1, -1
    return n_undone
