"""Collections as vector stores of other frameworks: `BitkinLangChainStore` and
`BitkinLlamaIndexStore`.

Each loads its framework when it is first asked for, and neither is needed for the other.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitkin.vector_stores.langchain import BitkinLangChainStore
    from bitkin.vector_stores.llama_index import BitkinLlamaIndexStore

_HOMES = {
    "BitkinLangChainStore": "bitkin.vector_stores.langchain",
    "BitkinLlamaIndexStore": "bitkin.vector_stores.llama_index",
}

__all__ = ["BitkinLangChainStore", "BitkinLlamaIndexStore"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bitkin.vector_stores' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
