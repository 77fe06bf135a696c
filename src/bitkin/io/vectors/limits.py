"""What this machine can hold and which readers it has."""

from __future__ import annotations

import importlib
from typing import Any

from bitkin.errors import FileTooLargeError, MissingExtraError
from bitkin.io.memory import physical_memory


def require_fits_memory(n_bytes: int, name: str) -> None:
    """Raise before an allocation that cannot succeed."""
    memory = physical_memory()
    if memory is not None and n_bytes > memory:
        raise too_large(n_bytes, name, f", this machine has {memory}")


def too_large(n_bytes: int, name: str, more: str = "") -> FileTooLargeError:
    """Return the error for a file that memory does not hold."""
    return FileTooLargeError(
        f"{name} needs {n_bytes} bytes in memory{more}. A dense .npy file is read a batch at a time instead."
    )


def load_extra(module: str, suffix: str) -> Any:
    """Import an optional reader, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise MissingExtraError(
            f"Reading {suffix} files needs {library}, which is not installed: pip install 'bitkin[io]'"
        ) from None
