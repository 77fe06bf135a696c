"""bitkin: short codes that keep relatives close. Hash vectors, search the codes at memory speed, learn from them.

Public names load on first use, so `import bitkin` loads NumPy at most.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitkin._version import __version__

if TYPE_CHECKING:
    from bitkin import dedup, errors, evaluate, interop, io, theory
    from bitkin._load import load
    from bitkin.code_spec import CodeSpec
    from bitkin.codes import Codes, distances
    from bitkin.hashers import projections, rotations
    from bitkin.hashers.kernel_map import KernelMap
    from bitkin.hashers.minhash import MinHash
    from bitkin.hashers.projection_hash import ProjectionHash
    from bitkin.hashers.sets import Sets
    from bitkin.hashers.shingles import shingles
    from bitkin.hashers.wta import WTAHash
    from bitkin.index.flat import FlatIndex
    from bitkin.index.results import Neighbors, RaggedNeighbors
    from bitkin.threads import get_threads, set_threads

# Public name -> where it lives: a module, or an attribute of one behind the colon.
_HOMES = {
    "CodeSpec": "bitkin.code_spec:CodeSpec",
    "Codes": "bitkin.codes:Codes",
    "FlatIndex": "bitkin.index.flat:FlatIndex",
    "KernelMap": "bitkin.hashers.kernel_map:KernelMap",
    "MinHash": "bitkin.hashers.minhash:MinHash",
    "Neighbors": "bitkin.index.results:Neighbors",
    "ProjectionHash": "bitkin.hashers.projection_hash:ProjectionHash",
    "RaggedNeighbors": "bitkin.index.results:RaggedNeighbors",
    "Sets": "bitkin.hashers.sets:Sets",
    "WTAHash": "bitkin.hashers.wta:WTAHash",
    "dedup": "bitkin.dedup",
    "distances": "bitkin.codes:distances",
    "errors": "bitkin.errors",
    "evaluate": "bitkin.evaluate",
    "get_threads": "bitkin.threads:get_threads",
    "interop": "bitkin.interop",
    "io": "bitkin.io",
    "load": "bitkin._load:load",
    "projections": "bitkin.hashers.projections",
    "rotations": "bitkin.hashers.rotations",
    "set_threads": "bitkin.threads:set_threads",
    "shingles": "bitkin.hashers.shingles:shingles",
    "theory": "bitkin.theory",
}

__all__ = [
    "CodeSpec",
    "Codes",
    "FlatIndex",
    "KernelMap",
    "MinHash",
    "Neighbors",
    "ProjectionHash",
    "RaggedNeighbors",
    "Sets",
    "WTAHash",
    "__version__",
    "dedup",
    "distances",
    "errors",
    "evaluate",
    "get_threads",
    "interop",
    "io",
    "load",
    "projections",
    "rotations",
    "set_threads",
    "shingles",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bitkin' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = importlib.import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
