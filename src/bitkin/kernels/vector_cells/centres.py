"""Centres of cells that are vectors: the nearest ones of a query, of many those in the nearest
groups.

Centres lie in tiles of 64, float32[T, D, 64]: component after component of 64 centres, so that the
products of a query with all of them are summed by vectors. A tile is a group of near centres. The
distance of a centre c is half |c|² − ⟨q, c⟩, which ranks as |q − c|² does; where halves are 0 it
ranks by the product alone.
"""

from __future__ import annotations

import math

import numpy as np

from bitkin.kernels._kernel import kernel, summing_kernel
from bitkin.kernels._shared import NO_ID, collect_rows, cut_back

LANES = 64
FAR = 2.0**50  # beyond that a centred number says no more: squares and their sums stay finite
_ALL = np.empty(0, dtype=np.uint64)  # as a mask
_ALL.setflags(write=False)


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
def _nearest_places(
    tiles, halves, n, listed, n_listed, query, scores, places, k, kept_scores, kept_places
):  # fmt: skip
    """Bring the k nearest centres, ties by lower place, to the first k of a pool of `collect_rows`,
    float32[R], int64[R], the nearest quarter before the others, else in any order.

    Only the first `n_listed` tiles of `listed` are looked into, all where it is negative; places
    from `n` on hold nothing; `places` are the numbers from 0 on, int64[64·T]. Distances beyond
    float32 are in no order, but nothing comes twice.
    """
    size, limit, last_place = 0, math.inf, NO_ID
    for m in range(len(tiles) if n_listed < 0 else n_listed):
        t = m if n_listed < 0 else listed[m]
        _scores_into(tiles[t], halves[LANES * t : LANES * t + LANES], query, scores)
        size, limit, last_place = collect_rows(
            scores[: min(LANES, n - LANES * t)], LANES * t, _ALL, places, k, limit, last_place,
            kept_scores, kept_places, size,
        )  # fmt: skip
    if size > k:
        cut_back(kept_scores, kept_places, size, k)
    if k > 4:
        cut_back(kept_scores, kept_places, k, k // 4)


@kernel
def nearest_vector_cells_into(
    tiles, halves, numbers, groups, group_halves, n_cells, queries, scores, places, looked,
    kept_scores, kept_places, cells, distances,
):  # fmt: skip
    """The nearest centres of every query, the nearest quarter before the others -> int64[Q, M], and
    their distances -> float32[Q, M].

    `n_cells` centres float32[T, D, 64] with halves float32[64·T], of which place i is that of cell
    `numbers[i]`, uint32[64·T]; groups float32[G, D, 64] with halves float32[64·G] are the means of
    the tiles; queries float32[Q, D]; work float32[64], the numbers from 0 on, int64[64·T], and
    int64[L], float32[R], int64[R], R ≥ 2 · (max(L, M) + 64). There must be M centres in any L
    groups; with L as large as T all groups are looked into.
    """
    n_chosen = cells.shape[1]
    for q in range(len(queries)):
        n_looked = -1
        if len(looked) < len(tiles):
            n_looked = len(looked)
            _nearest_places(
                groups, group_halves, len(tiles), looked, -1, queries[q], scores, places, n_looked,
                kept_scores, kept_places,
            )  # fmt: skip
            for m in range(n_looked):
                looked[m] = kept_places[m]
        _nearest_places(
            tiles, halves, n_cells, looked, n_looked, queries[q], scores, places, n_chosen,
            kept_scores, kept_places,
        )  # fmt: skip
        for m in range(n_chosen):
            cells[q, m], distances[q, m] = numbers[kept_places[m]], kept_scores[m]


@kernel
def place_rows_into(rows, mean, spread, placed):
    """Rows float32[N, D] within the frame of float64[D] and `spread` -> float32[N, D]."""
    for r in range(len(rows)):
        for j in range(rows.shape[1]):
            inside = (np.float64(rows[r, j]) - mean[j]) / spread
            placed[r, j] = np.float32(min(max(inside, -FAR), FAR))


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
