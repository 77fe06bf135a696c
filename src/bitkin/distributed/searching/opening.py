"""Shards of codes to come: what a caller names, described by the workers that will hold them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from distributed import Client

from bitkin.distributed.cluster import gather, taking_back
from bitkin.distributed.folders import list_code_files, list_vector_files
from bitkin.distributed.searching.code_shard import (
    describe_code_file,
    header_of,
    index_codes,
    lengths_in_file,
    load_code_shard,
)
from bitkin.distributed.searching.shard_set import NewShard
from bitkin.distributed.searching.sources import (
    CodeFile,
    computed_codes,
    list_paths,
)
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.notices import warn_caller
from bitkin.rescoring.row_lengths import ROWS_FOR_LENGTHS, LengthGuard

_FEWEST_OF_FILE = 32  # rows that show how long they are


def look_at_vectors(
    client: Client,
    new: Sequence[NewShard],
    hasher: Hasher | None,
    metric: str | None,
    before: Lengths,
) -> Lengths:
    """Return the lengths of some vectors of all shards, with those of the ones before.

    Raise where vectors are not of the hasher, or where the first of all have lengths that spoil its
    codes under the metric; warn where later ones have.
    """
    if hasher is None or metric is None:
        return before
    width = getattr(hasher, "n_features_in_", None)  # a MinHash may be fitted without columns
    for one in new:
        found = one.header.settings["n_features"]
        if found != (width or found):
            raise InvalidInputError(
                f"vectors must have {width} columns, as the rows that hasher was fitted on, got "
                f"{found} in {one.source.vectors}."
            )
    guard = LengthGuard(hasher, metric)
    if not guard.watches:
        return before
    at_most = max(_FEWEST_OF_FILE, ROWS_FOR_LENGTHS // max(1, len(new)))
    tasks = [client.submit(lengths_in_file, one.source, at_most, pure=False) for one in new]
    lengths = reduce(Lengths.plus, gather(client, tasks), NO_LENGTHS)
    if not before.n:
        guard.require(lengths, "vectors")
    elif (warning := guard.warning(before, lengths, "vectors")) is not None:
        warn_caller(warning)
    return before.plus(lengths)


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
        with taking_back(client, shards):
            headers = gather(client, [client.submit(header_of, one, pure=False) for one in shards])
        return [NewShard(header, future=one) for header, one in zip(headers, shards, strict=True)]
    tasks = [client.submit(list_code_files, list_paths(paths, "file"), pure=False)]
    if vectors is not None:
        listed = list_paths(vectors, "file", "vectors")
        tasks.append(client.submit(list_vector_files, listed, pure=False))
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
