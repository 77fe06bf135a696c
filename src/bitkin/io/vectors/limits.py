"""What this machine can hold and which readers it has."""

from __future__ import annotations

import importlib
from typing import Any

from bitkin import memory
from bitkin.errors import CorruptFileError, FileTooLargeError, MissingExtraError

MAX_RATIO = 1032
"""The best ratio of deflate: what claims to be packed more tightly is wrong about its size."""

_FEW_BYTES = 1 << 28  # which take little time and memory, whatever a file claims


def require_fits_memory(n_bytes: int, name: str) -> None:
    """Raise before an allocation that cannot succeed."""
    if n_bytes > memory.physical_memory():
        raise too_large(n_bytes, name, f", this machine has {memory.physical_memory()}")


def require_honest_size(n_bytes: int, file_bytes: int, name: str) -> None:
    """Raise where numbers of so many bytes are announced by a file that cannot hold them, however
    well it is packed.

    Formats that repeat a number, or fill in what was never written, need next to nothing for any
    count of them: what is read must be in proportion to what is there.
    """
    if n_bytes > max(_FEW_BYTES, MAX_RATIO * file_bytes):
        raise CorruptFileError(
            f"{name} announces {n_bytes:,} bytes of numbers in a file of {file_bytes:,} bytes: "
            "almost all of them were never written. Write it again with its own number of rows."
        )


def too_large(n_bytes: int, name: str, more: str = "") -> FileTooLargeError:
    """Return the error for a file that memory does not hold."""
    return FileTooLargeError(
        f"{name} needs {n_bytes} bytes in memory{more}. A dense .npy file is read a batch at a "
        "time instead."
    )


def load_extra(module: str, suffix: str) -> Any:
    """Import an optional reader, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise MissingExtraError(
            f"Reading {suffix} files needs {library}, which is not installed: pip install "
            "'bitkin[io]'"
        ) from None
