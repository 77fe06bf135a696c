"""Shards of codes to come: what a caller names, described by the workers that will hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Client

from bitkin.distributed.cluster import gather
from bitkin.distributed.searching.code_shard import (
    describe_code_file,
    header_of,
    index_codes,
    load_code_shard,
)
from bitkin.distributed.searching.shard_set import NewShard
from bitkin.distributed.searching.sources import (
    CodeFile,
    computed_codes,
    list_files,
    list_paths,
)
from bitkin.errors import InvalidInputError


def describe_codes(client: Client, paths: Any, mmap: bool, vectors: Any) -> Sequence[NewShard]:
    """Return what is to be loaded, each described by a worker."""
    computed = computed_codes(paths)
    if computed is not None:
        if vectors is not None:
            raise InvalidInputError(
                "vectors must be None for codes that Dask computes. Write those to a folder by "
                "their save, and give that folder with the vectors."
            )
        # the codes themselves are let go of as soon as they are indexed
        shards = [
            client.submit(index_codes, part, f"part {i}", pure=False)
            for i, part in enumerate(client.compute(computed))
        ]
        headers = gather(client, [client.submit(header_of, one, pure=False) for one in shards])
        return [NewShard(header, future=one) for header, one in zip(headers, shards, strict=True)]
    tasks = [client.submit(list_files, list_paths(paths, "file"), pure=False)]
    if vectors is not None:
        listed = list_paths(vectors, "file", "vectors")
        tasks.append(client.submit(list_files, listed, of_vectors=True, pure=False))
    files, *beside = gather(client, tasks)
    if beside and len(beside[0]) != len(files):
        raise InvalidInputError(
            f"vectors must be in as many files as codes, got {len(beside[0])} for {len(files)}."
        )
    of_files = beside[0] if beside else [None] * len(files)
    sources = [CodeFile(path, mmap, other) for path, other in zip(files, of_files, strict=True)]
    headers = gather(
        client, [client.submit(describe_code_file, source, pure=False) for source in sources]
    )
    return [
        NewShard(header, load_code_shard, source)
        for header, source in zip(headers, sources, strict=True)
    ]
