"""Public names of this room, loaded when they are first asked for, with Dask where it is there."""

from __future__ import annotations

import importlib
from typing import Any

from bitkin.errors import MissingExtraError


def load_name(module: str, name: str) -> Any:
    """Return a name of a module, or say how to get what the module needs."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
            raise
        raise MissingExtraError(
            f"bitkin.distributed needs {error.name}, which is not installed: pip install "
            "'bitkin[dask]'"
        ) from None
