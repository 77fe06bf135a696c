"""bitkin: short codes that keep relatives close. Hash vectors, search the codes at memory speed, learn from them.

Public names load on first use, so `import bitkin` loads NumPy at most.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitkin._version import __version__

if TYPE_CHECKING:
    from bitkin import errors, evaluate
    from bitkin._load import load
    from bitkin.codes import Codes, CodeSpec, distances
    from bitkin.index.flat import FlatIndex
    from bitkin.index.results import Neighbors, RaggedNeighbors
    from bitkin.threads import get_threads, set_threads

# Public name -> the module it lives in; a name that is itself a module maps to None.
_HOMES: dict[str, str | None] = {
    "CodeSpec": "bitkin.codes",
    "Codes": "bitkin.codes",
    "FlatIndex": "bitkin.index.flat",
    "Neighbors": "bitkin.index.results",
    "RaggedNeighbors": "bitkin.index.results",
    "distances": "bitkin.codes",
    "errors": None,
    "evaluate": None,
    "get_threads": "bitkin.threads",
    "load": "bitkin._load",
    "set_threads": "bitkin.threads",
}

__all__ = [  # noqa: RUF022  # the order of `_HOMES`
    "CodeSpec",
    "Codes",
    "FlatIndex",
    "Neighbors",
    "RaggedNeighbors",
    "distances",
    "errors",
    "evaluate",
    "get_threads",
    "load",
    "set_threads",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bitkin' has no attribute {name!r}")
    home = _HOMES[name]
    value = importlib.import_module(f"bitkin.{name}") if home is None else getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
