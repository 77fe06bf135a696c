"""Compiled kernels on disk, in files that can be trusted: Numba's cache, where no file stops a
kernel.

Every file begins with a checksum of what follows and of what it was made from: Numba's version and
the source. One that is damaged, of another version or of another source counts as none, is never
unpickled, and is written again; damaged machine code would crash the process. Code is kept together
with the types it is for: two processes that compile at once may mix up each other's files. Where
nothing can be written, the kernel lives as long as the process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

HELPERS = Path(__file__).with_name("_shared.py")
_DIGEST_BYTES = 32
# What pickle may raise for bytes that another process wrote whole, but with other libraries at
# hand.
_UNREADABLE = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError)
_told = False


class KernelCache(FunctionCache):
    """The cache of one kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._called = sorted(files_called(function))
        self._cache_file = _CheckedFiles(
            cache_path=self._cache_path,
            # Other names than Numba's own files have, which an earlier version would fail to read.
            filename_base=f"{self._impl.filename_base}.checked",
            source_stamp=self.stamp(),
        )

    def stamp(self) -> Any:
        """Return what tells whether the source is the same: of the kernel's own file, of the file
        of helpers that any kernel may call, and of files whose kernels its own file imports.
        """
        others = [_digest_of(path) for path in (HELPERS, *self._called)]
        return self._impl.locator.get_source_stamp(), *others

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if the disk lets us."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _tell_once(f"{error.strerror or error}: {self.cache_path}")


def files_called(function: Callable[..., Any]) -> set[Path]:
    """Return the files, other than its own and `HELPERS`, of kernels that a function can call: of
    those in its file's namespace, and of what these can call in turn.
    """
    found: set[Path] = set()
    waiting = [function.__globals__]
    while waiting:
        for value in list(waiting.pop().values()):
            source = getattr(value, "py_func", None)
            if source is None or not source.__module__.startswith("bitkin.kernels."):
                continue
            path = Path(source.__code__.co_filename)
            if source.__globals__ is not function.__globals__ and path not in (*found, HELPERS):
                found.add(path)
                waiting.append(source.__globals__)
    return found


@functools.cache
def _digest_of(source: Path) -> str:
    try:
        return hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError:  # as Numba itself has no cache where it finds no source
        raise RuntimeError(f"no source of helpers at {source}") from None


class _CheckedFiles(IndexDataCacheFile):
    """The index of a kernel and the code of each of its signatures."""

    def load(self, key: Any) -> Any:
        """Return what was saved under a key, or None."""
        name = self._load_index().get(key)
        found = None if name is None else self._read(self._data_path(name))
        return found[1] if found is not None and found[0] == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save the code for a key, together with the key."""
        super().save(key, (key, data))

    def _load_index(self) -> dict[Any, str]:
        return self._read(self._index_path) or {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, overloads)

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        """Return what a file holds; None where it cannot be read, or is not as it was written."""
        try:
            data = Path(path).read_bytes()
        except OSError:
            return None
        digest, payload = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if digest != self._digest(payload):
            return None
        try:
            return pickle.loads(payload)
        except _UNREADABLE:
            return None

    def _write(self, path: str, value: Any) -> None:
        payload = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(self._digest(payload))
            file.write(payload)

    def _digest(self, payload: bytes) -> bytes:
        made_from = repr((numba.__version__, self._source_stamp)).encode()
        return hashlib.sha256(made_from + b"\n" + payload).digest()


def _tell_once(why: str) -> None:
    """Say on stderr that kernels will be compiled again."""
    global _told
    if not _told and sys.stderr is not None and not os.environ.get("BITKIN_QUIET"):
        _told = True
        said = (
            f"compiled kernels could not be kept on disk ({why}): the next run compiles them again"
        )
        print(f"bitkin: {said}", file=sys.stderr)
