"""Centres of cells that are vectors: the nearest ones of a query, of many those in the nearest
groups.

Centres lie in tiles of 64, float32[T, D, 64]: component after component of 64 centres, so that the
products of a query with all of them are summed by vectors. A tile is a group of near centres. The
distance of a centre c is half |c|² − ⟨q, c⟩, which ranks as |q − c|² does; where halves are 0 it
ranks by the product alone.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel, summing_kernel
from bitkin.kernels._shared import is_worse, raise_candidate, sink_candidate, sort_candidates

LANES = 64


@summing_kernel
def _scores_into(tile, halves, query, scores):
    """float32[D, 64], float32[64], float32[D] -> float32[64]: half |c|² − ⟨q, c⟩ of every lane."""
    n_features = len(query)
    for i in range(LANES):
        scores[i] = 0.0
    whole = n_features // 4 * 4
    for j in range(0, whole, 4):  # four products at a time, so that sums are seldom stored
        a, b, c, d = query[j], query[j + 1], query[j + 2], query[j + 3]
        for i in range(LANES):
            scores[i] += (a * tile[j, i] + b * tile[j + 1, i]) + (
                c * tile[j + 2, i] + d * tile[j + 3, i]
            )
    for j in range(whole, n_features):
        a = query[j]
        for i in range(LANES):
            scores[i] += a * tile[j, i]
    for i in range(LANES):
        scores[i] = halves[i] - scores[i]


@kernel
def _nearest_places(tiles, halves, n, listed, n_listed, query, scores, best, best_scores):
    """The `len(best)` nearest centres, nearest first, ties by lower place -> int64[M], float32[M];
    returns how many there are.

    Only the first `n_listed` tiles of `listed` are looked into, all where it is negative; places
    from `n` on hold nothing. Scores beyond float32 are in no order, but nothing comes twice.
    """
    size, most = 0, len(best)
    for m in range(len(tiles) if n_listed < 0 else n_listed):
        t = m if n_listed < 0 else listed[m]
        _scores_into(tiles[t], halves[LANES * t : LANES * t + LANES], query, scores)
        least = scores[0]
        for i in range(LANES):
            least = min(least, scores[i])
        if size == most and least > best_scores[0]:
            continue
        for i in range(min(LANES, n - LANES * t)):
            if size < most:
                raise_candidate(best_scores, best, size, scores[i], LANES * t + i)
                size += 1
            elif is_worse(best_scores[0], best[0], scores[i], LANES * t + i):
                sink_candidate(best_scores, best, most, scores[i], LANES * t + i)
    sort_candidates(best_scores, best, size)
    return size


@kernel
def nearest_vector_cells_into(
    tiles, halves, numbers, groups, group_halves, n_cells, queries, scores, looked, looked_scores,
    room, cells,
):  # fmt: skip
    """The nearest centres of every query, nearest first -> int64[Q, M].

    `n_cells` centres float32[T, D, 64] with halves float32[64·T], of which place i is that of cell
    `numbers[i]`, uint32[64·T]; groups float32[G, D, 64] with halves float32[64·G] are the means of
    the tiles; queries float32[Q, D]; work float32[64], int64[L], float32[L], float32[M]. There must
    be M centres in any L groups; with L as large as T all groups are looked into.
    """
    for q in range(len(queries)):
        n_looked = -1
        if len(looked) < len(tiles):
            n_looked = _nearest_places(
                groups, group_halves, len(tiles), looked, -1, queries[q], scores, looked,
                looked_scores,
            )  # fmt: skip
        _nearest_places(
            tiles, halves, n_cells, looked, n_looked, queries[q], scores, cells[q], room
        )
        for m in range(cells.shape[1]):
            cells[q, m] = numbers[cells[q, m]]


@kernel
def add_rows_into(rows, cells, sums, counts):
    """Add every row, float32[N, D], to the sum of its cell, float64[C, D], and count it,
    int64[C].
    """
    for r in range(len(rows)):
        total = sums[cells[r]]
        for j in range(rows.shape[1]):
            total[j] += np.float64(rows[r, j])
        counts[cells[r]] += 1
