"""How what shards found becomes one answer: merged in a tree on the workers, so that no process
ever holds what many of them found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed import Client, Future

from bitkin.distributed.cluster import FAN_IN, block, merge_levels
from bitkin.index.results import Neighbors, RaggedNeighbors, merge_neighbors, ragged_neighbors

_BYTES_TO_CLIENT = 1 << 20
"""So little is merged by the client, which saves a lone search one task in a row of two."""


def merge_parts(
    client: Client,
    parts: Sequence[Future],
    merge: Callable[..., Any],
    *arguments: Any,
    part_bytes: float,
) -> list[Future]:
    """Return the few results that are left once workers have merged `FAN_IN` at a time: one, or
    more where all of them together are small.
    """

    def merge_some(some: list[Future]) -> Future:
        return client.submit(merge, some, *arguments, pure=False)

    few = FAN_IN if FAN_IN * part_bytes <= _BYTES_TO_CLIENT else 1
    return merge_levels(parts, merge_some, down_to=few)


@block
def merge_nearest(parts: Sequence[Neighbors], k: int) -> Neighbors:
    """Return the best k of what several shards found."""
    return parts[0] if len(parts) == 1 else merge_neighbors(parts, k)


@block
def merge_ragged(parts: Sequence[RaggedNeighbors]) -> RaggedNeighbors:
    """Return all that several shards found, in order."""
    if len(parts) == 1:
        return parts[0]
    n_queries = len(parts[0].offsets) - 1
    pieces = [
        (np.repeat(np.arange(n_queries), np.diff(part.offsets)), part.ids, part.distances)
        for part in parts
    ]
    return ragged_neighbors(n_queries, pieces)


def pad_nearest(found: Neighbors, k: int, farther: float) -> Neighbors:
    """Return neighbours in k columns."""
    missing = k - found.ids.shape[1]
    if missing <= 0:
        return found
    columns = ((0, 0), (0, missing))
    return Neighbors(
        np.pad(found.ids, columns, constant_values=-1),
        np.pad(found.distances, columns, constant_values=farther),
    )
