"""The best k of every row of a table of distances, nearest first, ties by lower id."""

from __future__ import annotations

from bitkin.kernels._kernel import kernel


@kernel
def _worse(distance, id, other_distance, other_id):
    """Whether the first of two candidates comes after the other."""
    return distance > other_distance or (distance == other_distance and id > other_id)


@kernel
def _sink(distances, ids, size, distance, id):
    """Put a candidate in the place of the worst, the first of a heap of `size`, and let it sink to
    where it belongs.
    """
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(
            distances[child + 1], ids[child + 1], distances[child], ids[child]
        ):
            child += 1
        if not _worse(distances[child], ids[child], distance, id):
            break
        distances[place], ids[place] = distances[child], ids[child]
        place = child
    distances[place], ids[place] = distance, id


@kernel
def nearest_into(distances, ids, best_distances, best_ids):
    """float[Q, M], int64[Q, M] -> float[Q, K], int64[Q, K]; id −1 is nobody, and its distance must
    be infinite.

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
                place = size
                size += 1
                while place > 0 and _worse(
                    distance, id, kept_distances[(place - 1) // 2], kept_ids[(place - 1) // 2]
                ):
                    kept_distances[place] = kept_distances[(place - 1) // 2]
                    kept_ids[place] = kept_ids[(place - 1) // 2]
                    place = (place - 1) // 2
                kept_distances[place], kept_ids[place] = distance, id
            elif _worse(kept_distances[0], kept_ids[0], distance, id):
                _sink(kept_distances, kept_ids, k, distance, id)
        while size > 1:
            size -= 1
            distance, id = kept_distances[size], kept_ids[size]
            kept_distances[size], kept_ids[size] = kept_distances[0], kept_ids[0]
            _sink(kept_distances, kept_ids, size, distance, id)
