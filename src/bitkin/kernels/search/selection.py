"""The best k of every row of a table of distances, nearest first, ties by lower id."""

from __future__ import annotations

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import is_worse, raise_candidate, sink_candidate, sort_candidates


@kernel
def nearest_into(distances, ids, best_distances, best_ids):
    """float[Q, M], int64[Q, M] -> float[Q, K], int64[Q, K]; id −1 is no match, and its distance
    must be infinite.

    `best_distances` comes full of infinity and `best_ids` full of −1: what is left of them stays at
    the end.
    """
    k = best_ids.shape[1]
    for row in range(ids.shape[0]):
        kept_distances, kept_ids = best_distances[row], best_ids[row]
        size = 0
        for j in range(ids.shape[1]):
            distance, id = distances[row, j], ids[row, j]
            if id < 0:
                continue
            if size < k:
                raise_candidate(kept_distances, kept_ids, size, distance, id)
                size += 1
            elif is_worse(kept_distances[0], kept_ids[0], distance, id):
                sink_candidate(kept_distances, kept_ids, k, distance, id)
        sort_candidates(kept_distances, kept_ids, size)
