"""Queries on their way into cells around vectors: from a vector to the cells that it looks into,
and to the bits that it is compared by there.

Codes in such cells are those of what is left of a row x once its centre c is taken away, r = x − c,
in the frame of the centres. With s the signs of Pᵀr, f its factor and z = Pᵀq,

    |q − x|² = |q − c|² + |r|² − 2 ⟨r, q − c⟩ ≈ |q − c|² + (|r|² + 2 f ⟨s, Pᵀc⟩) − 2 f ⟨s, z⟩

so that a row keeps the term in brackets and f, and a query is rounded once for all its cells, each
of which only has a constant of its own, known from choosing it. Products are split with the help of
the direction m of the mean, t = ⟨q, m⟩, since queries may be anywhere along it:

    ⟨x, q⟩ = ⟨c, q⟩ + t ⟨r, m⟩ + ⟨r, q − t m⟩ ≈ ⟨c, q⟩ + t ⟨r, m⟩ + f ⟨s, Pᵀ(q − t m)⟩
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel, summing_kernel
from bitkin.kernels._shared import COSINE, IP
from bitkin.kernels.search.estimate import multiply_into
from bitkin.kernels.search.estimate_scan import quantize_queries_into
from bitkin.kernels.vector_cells.centres import FAR, nearest_vector_cells_into


@kernel
def _is_finite(query):
    """float32[D] -> whether all numbers are."""
    total = 0.0
    for j in range(len(query)):
        total += np.float64(query[j]) * 0.0
    return total == 0.0


@kernel
def _length_of(query):
    """float32[D] -> its length, 1 for zeros."""
    square = 0.0
    for j in range(len(query)):
        square += np.float64(query[j]) * np.float64(query[j])
    return math.sqrt(square) if square > 0.0 else 1.0


@kernel
def _place_into(query, mean, spread, metric, placed):
    """float32[D], float64[D] -> the query within the frame of `mean` and `spread`, of length 1
    before under `COSINE`, float32[D]; returns its squared length.
    """
    length = _length_of(query) if metric == COSINE else 1.0
    total = 0.0
    for j in range(len(query)):
        number = np.float64(np.float32(np.float64(query[j]) / length))
        placed[j] = np.float32(min(max((number - mean[j]) / spread, -FAR), FAR))
        total += np.float64(placed[j]) * np.float64(placed[j])
    return total


@kernel
def _direct_into(query, placed):
    """float32[D] -> the query divided by its largest number, float32[D]; returns that number, 1 for
    zeros.
    """
    size = np.float32(0.0)
    for j in range(len(query)):
        size = max(size, abs(query[j]))
    largest = np.float64(size) if size > 0.0 else 1.0
    for j in range(len(query)):
        placed[j] = np.float32(np.float64(query[j]) / largest)
    return largest


@summing_kernel
def _product(query, centre):
    """float32[D] twice -> Σ query · centre in float32."""
    total = np.float32(0.0)
    for j in range(len(query)):
        total += query[j] * centre[j]
    return total


@kernel
def prepare_for_cells_into(
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
    placed,
    seen,
    sizes,
    steps,
    scores,
    places,
    looked,
    kept_scores,
    kept_places,
    distances,
    planes,
    totals,
    terms,
    cells,
    constants,
):
    """Queries float32[Q, D] -> the cells that they look into, and what their rows are scored by, as
    `scan_residuals_into` takes it: planes and totals of `quantize_queries_into`; terms, of which
    the score of a row is first + third · (constant of the cell + second · a + fourth · f · ⟨s, l⟩).

    The frame float64[D] and its spread; components float32[D, C]; the direction of the mean,
    float64[D], and as components see it, float32[C], which only `IP` reads; centres as
    `nearest_vector_cells_into` takes them, or as components see them: then also whole, float32[N,
    D], with halves float32[N], and distances from those that were chosen are made anew. Work
    float32[1, D], float32[1, C], int32[C], float64[1]; that of `nearest_vector_cells_into`,
    float32[1, M] -> uint64[Q, B, W], int64[Q], float64[Q, 4], int64[Q, M], float64[Q, M]. Returns
    how many queries are not finite: nothing counts then.
    """
    n_bad = 0
    by_seen = len(centres) > 0
    for q in range(len(queries)):
        if not _is_finite(queries[q]):
            n_bad += 1
            continue
        if metric == IP:
            terms[q, 2] = spread * _direct_into(queries[q], placed[0])
        else:
            square = _place_into(queries[q], mean, spread, metric, placed[0])
            terms[q, 2] = spread * spread if metric != COSINE else 0.5 * spread * spread
        multiply_into(placed[0], components, seen[0])
        nearest_vector_cells_into(
            tiles, halves, numbers, groups, group_halves, n_cells,
            seen if by_seen else placed, scores, places, looked, kept_scores, kept_places,
            cells[q : q + 1], distances,
        )  # fmt: skip
        if by_seen:
            for m in range(cells.shape[1]):
                product = _product(placed[0], centres[cells[q, m]])
                distances[0, m] = centre_halves[cells[q, m]] - product
        if metric == IP:
            along, of_mean = 0.0, 0.0
            for j in range(len(mean)):
                along += np.float64(placed[0, j]) * direction[j]
                of_mean += np.float64(queries[q, j]) * mean[j]
            for c in range(seen.shape[1]):
                seen[0, c] -= np.float32(along) * seen_direction[c]
            terms[q, 0], terms[q, 1], terms[q, 3] = -of_mean, -along, -1.0
            for m in range(cells.shape[1]):
                constants[q, m] = distances[0, m]
        else:
            terms[q, 0], terms[q, 1], terms[q, 3] = 0.0, 1.0, -2.0
            for m in range(cells.shape[1]):
                constants[q, m] = square + 2.0 * np.float64(distances[0, m])
        quantize_queries_into(seen, sizes, planes[q : q + 1], totals[q : q + 1], steps)
        terms[q, 3] *= steps[0]
    return n_bad
