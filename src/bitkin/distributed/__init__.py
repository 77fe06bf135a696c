"""bitkin on Dask: fit, encode, search, deduplicate and classify beyond one machine.

The functions that run on workers are those that run here; Dask decides where, moves what has to
move, and does again what was lost with a worker.
"""

from __future__ import annotations

from typing import Any

from bitkin.distributed.loading import load_name

_HOMES = {
    "ShardedCodes": "bitkin.distributed.encoding",
    "ShardedCollection": "bitkin.distributed.searching.sharded_collection",
    "ShardedIndex": "bitkin.distributed.searching.sharded_index",
    "dedup": "bitkin.distributed.deduplicating.driver",
    "encode": "bitkin.distributed.encoding",
    "fit": "bitkin.distributed.fitting",
    "predict": "bitkin.distributed.classifying.predicting",
    "read_codes_parquet": "bitkin.distributed.code_files",
}

__all__ = [  # loaded when they are first asked for
    "ShardedCodes",
    "ShardedCollection",
    "ShardedIndex",
    "dedup",
    "encode",
    "fit",
    "predict",
    "read_codes_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bitkin.distributed' has no attribute {name!r}")
    value = load_name(_HOMES[name], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
