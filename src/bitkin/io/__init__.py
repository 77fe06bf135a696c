"""Vector files in, bitkin files in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitkin.io.vectors import VectorSource, open_vectors

__all__ = ["VectorSource", "open_vectors"]


def __getattr__(name: str) -> Any:
    # The file format below must not load SciPy, which vector sources need.
    if name in __all__:
        from bitkin.io import vectors

        return getattr(vectors, name)
    raise AttributeError(f"module 'bitkin.io' has no attribute {name!r}")
