"""The estimate of rows in cells by codes of what is left of them; formulas in `queries`.

Scores are made in float32, in the units of the frame and from the constant of the nearest cell on:
numbers that are small where rows are near. What is kept of a row is its score in the units of the
metric, float64, as rows that are in no cell have.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import (
    NO_ID,
    is_allowed,
    mark_at_most,
    popcount,
    thin_out,
    write_best_into,
)
from bitkin.kernels.search.estimate_scan import weights_into

_TILE = 64  # rows of a tile of a run, as in `kernels.search.cells`
_ROUNDING = 2.0**-22  # more than float32 is off by, relative
_0, _1 = np.uint64(0), np.uint64(1)


@kernel
def _scores_into(weights, beside, total, constant, onto, factor, scores):
    """int32[64], float32[2, 64] -> float32[64]: constant + onto · a + factor · f · ⟨s, l⟩."""
    for i in range(_TILE):
        signed = np.float32(total - np.int32(2) * weights[i])
        scores[i] = (constant + onto * beside[0, i]) + (factor * beside[1, i]) * signed


@kernel
def _within(limit, terms, base):
    """A limit in the units of the metric as one for scores: no less, but for what does not matter
    a little more.
    """
    inside = (limit - terms[0]) / terms[2] - base
    return np.float32(inside + abs(inside) * _ROUNDING)


@kernel
def scan_residuals_into(
    runs,
    bounds,
    rows,
    beside,
    ids,
    mask,
    cells,
    constants,
    planes,
    totals,
    terms,
    bs,
    ws,
    first,
    last,
    weights,
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
    place by place the rows uint32[64·S] of a segment with ids and mask, and float32[S, 2, 64]
    beside them; queries as `prepare_for_cells_into` makes them; work int32[64], float32[64]. The
    pool is that of `scan_estimates_into`, and shared with it: of calls of both the `first` clears
    it and the `last` writes the best.
    """
    n_queries, k = best_ids.shape
    for q in range(n_queries):
        size, limit, last_id = sizes[q], limits[q], last_ids[q]
        if first:
            size, limit, last_id = 0, math.inf, NO_ID
        base = constants[q, 0] if cells.shape[1] > 0 else 0.0
        offset, unit = terms[q, 0], terms[q, 2]
        onto, factor = np.float32(terms[q, 1]), np.float32(terms[q, 3])
        total, room = np.int32(totals[q]), kept_ids.shape[1]
        near_enough = _within(limit, terms[q], base)
        for m in range(cells.shape[1]):
            begin, n_rows = bounds[cells[q, m], 0], bounds[cells[q, m], 1]
            constant = np.float32(constants[q, m] - base)
            for t in range(begin, begin + (n_rows + _TILE - 1) // _TILE):
                weights_into(runs[t], planes[q], bs, ws, weights)
                _scores_into(weights, beside[t], total, constant, onto, factor, scores)
                bits = mark_at_most(scores, near_enough)
                behind = _TILE * (t + 1) - (_TILE * begin + n_rows)
                if behind > 0:  # lanes without a row
                    bits &= ~_0 >> np.uint64(behind)
                if bits == _0:
                    continue
                if size + _TILE > room:
                    size, limit, last_id = thin_out(kept_scores[q], kept_ids[q], size, k)
                    near_enough = _within(limit, terms[q], base)
                while bits != _0:
                    lowest = bits & (~bits + _1)
                    bits ^= lowest
                    i = np.int64(popcount(lowest - _1))
                    score = offset + unit * (base + np.float64(scores[i]))
                    row = np.int64(rows[_TILE * t + i])
                    is_better = score < limit or (score == limit and ids[row] < last_id)
                    if is_better and is_allowed(mask, row):
                        kept_scores[q, size], kept_ids[q, size] = score, ids[row]
                        size += 1
        sizes[q], limits[q], last_ids[q] = size, limit, last_id
        if last:
            write_best_into(
                kept_scores[q], kept_ids[q], size, math.inf, best_scores[q], best_ids[q]
            )
