"""What workers do with shards of codes: several of them at a time, since a task of Dask's takes
milliseconds.
"""

from __future__ import annotations

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.distributed.cluster import block
from bitkin.distributed.searching.code_shard import CodeShard, VectorQueries
from bitkin.distributed.searching.merging import merge_nearest, merge_ragged
from bitkin.index.results import Neighbors, RaggedNeighbors
from bitkin.rescoring.funnel import Funnel


@block
def find_in_shards(
    shards: list[CodeShard],
    first_ids: list[int],
    allowed: list[Ids] | None,
    queries: Codes,
    k: int,
) -> Neighbors:
    """Return the k nearest rows of every query among some shards."""
    reach = min(k, sum(shard.header.n_rows for shard in shards))
    found = [
        shard.nearest(
            queries,
            min(reach, shard.header.n_rows),
            None if allowed is None else allowed[i],
            first_ids[i],
        )
        for i, shard in enumerate(shards)
    ]
    return merge_nearest(found, reach)


@block
def measure_in_shards(
    shards: list[CodeShard],
    first_ids: list[int],
    allowed: list[Ids] | None,
    queries: VectorQueries,
    funnel: Funnel,
    k: int,
) -> Neighbors:
    """Return the k nearest rows of every query among some shards by their vectors."""
    found = [
        shard.nearest_by_vectors(
            queries, funnel, None if allowed is None else allowed[i], first_ids[i]
        )
        for i, shard in enumerate(shards)
    ]
    return merge_nearest(found, k)


@block
def find_within_radius(
    shards: list[CodeShard],
    first_ids: list[int],
    allowed: list[Ids] | None,
    queries: Codes,
    radius: int,
) -> RaggedNeighbors:
    """Return all rows within `radius` of every query among some shards."""
    return merge_ragged(
        [
            shard.within_radius(
                queries, radius, None if allowed is None else allowed[i], first_ids[i]
            )
            for i, shard in enumerate(shards)
        ]
    )
