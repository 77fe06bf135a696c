"""Truths on disk: what an exact search found, under the digest of the rows and queries it was
found for.

A file is written aside and put in place at once, and believed only where its checksums fit and it
names the digests that are asked for: two processes may write it at once, and one that is damaged or
of somebody else is computed again. A folder keeps at most 1 GB; what was not used for longest goes
first. Where nothing can be written there is no cache, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from bitkin.checks import are_offsets, shown
from bitkin.errors import BitkinError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.evaluate.exact.digests import digest_rows
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.index.results import Neighbors, no_neighbors
from bitkin.io.layout import damaged
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.vectors import VectorSource
from bitkin.io.writer import write_file
from bitkin.notices import warn_caller

VARIABLE = "BITKIN_CACHE"

_CLASS_NAME = "Truth"
_VERSION = 1  # of what files hold and how searches rank: files of others are never looked at
_MOST_BYTES = 2**30  # in one folder
_LEFTOVER_SECONDS = 3600  # after which nobody is still writing a file
_NAMES = re.compile(r"(nearest|radius)-[0-9a-f]{32}\.bitkin")
_LEFTOVERS = re.compile(r"\.(nearest|radius)-[0-9a-f]{32}\.bitkin\.\d+-[0-9a-f]{8}\.tmp")

_Truth = TypeVar("_Truth")
Rows: TypeAlias = ComparedRows | VectorSource


class TruthCache:
    """A folder of truths.

    `says_why`: what keeps it from being written is a notice, since somebody named the folder.
    """

    def __init__(self, folder: Path, *, says_why: bool) -> None:
        self.folder = folder
        self._says_why = says_why

    @classmethod
    def from_argument(cls, cache: Any) -> TruthCache | None:
        """Return what an argument `cache` means: None or False is none, True the user's folder, and
        a path that folder.
        """
        if cache is None or cache is False:
            return None
        if cache is True:
            folder = default_folder()
            return None if folder is None else cls(folder, says_why=False)
        if isinstance(cache, (str, os.PathLike)) and os.fspath(cache):
            return cls(Path(cache), says_why=True)
        raise InvalidInputError(f"cache must be True, None or a folder, got {shown(cache)}.")

    def neighbors(
        self, rows: Rows, queries: ComparedRows, k: int, metric: str, find: Callable[[], Neighbors]
    ) -> Neighbors:
        """Return the k nearest rows as kept, where at least so many are; else what `find` finds,
        and keep it.
        """
        n_rows = rows.n_rows if isinstance(rows, ComparedRows) else len(rows)
        path = self._path_of("nearest", digest_rows(rows), digest_rows(queries), metric)
        n_found = min(k, n_rows)

        def understand(stored: StoredFile) -> Neighbors | None:
            ids = stored.tensor("ids", "int64", (queries.n_rows, None))
            distances = stored.tensor("distances", "float64", ids.shape)
            stored.require_no_more_tensors()
            if ids.size and not (ids.min() >= 0 and ids.max() < n_rows):
                raise _unfit(stored)
            return Neighbors(ids, distances) if ids.shape[1] >= n_found else None

        kept = self._load(path, understand)
        if kept is None:
            found = find()
            # without padding, which any other k has too
            parts = {"ids": found.ids[:, :n_found], "distances": found.distances[:, :n_found]}
            self._save(path, parts)
            return found
        result = no_neighbors(queries.n_rows, k)
        result.ids[:, :n_found] = kept.ids[:, :n_found]
        result.distances[:, :n_found] = kept.distances[:, :n_found]
        return result

    def within_radius(
        self,
        rows: ComparedRows,
        queries: ComparedRows,
        n_neighbors: int,
        find: Callable[[], csr_matrix],
    ) -> csr_matrix:
        """Return the neighbours within a radius as kept; else what `find` finds, and keep it."""
        shape = (queries.n_rows, rows.n_rows)
        path = self._path_of("radius", digest_rows(rows), digest_rows(queries), n_neighbors)

        def understand(stored: StoredFile) -> csr_matrix:
            offsets = stored.tensor("offsets", "int64", (shape[0] + 1,))
            ids = stored.tensor("ids", "int64", (None,))
            stored.require_no_more_tensors()
            if not are_offsets(offsets, len(ids)) or (
                ids.size and not (ids.min() >= 0 and ids.max() < shape[1])
            ):
                raise _unfit(stored)
            # copies, in the index type that SciPy would choose
            flags = np.ones(len(ids), dtype=bool)
            return csr_matrix((flags, ids, offsets), shape=shape, copy=True)

        kept = self._load(path, understand)
        if kept is None:
            kept = find()
            parts = {"offsets": kept.indptr, "ids": kept.indices}
            self._save(path, {name: part.astype(np.int64) for name, part in parts.items()})
        return kept

    def _path_of(self, kind: str, *parts: object) -> Path:
        """Return the file of a truth that is known by its kind and all that it depends on."""
        key = hashlib.blake2b(repr((_VERSION, kind, *parts)).encode(), digest_size=16)
        return self.folder / f"{kind}-{key.hexdigest()}.bitkin"

    def _load(self, path: Path, understand: Callable[[StoredFile], _Truth | None]) -> _Truth | None:
        """Return what `understand` makes of a file; None where there is none, or where it cannot be
        trusted, which is a notice.
        """
        try:
            stored = read_file(path)
            if stored.class_name != _CLASS_NAME or stored.fingerprint != path.stem:
                raise _unfit(stored)
            truth = understand(stored)
        except BitkinError as error:
            if not isinstance(error, FileAccessError):  # there is none, or none for us
                warn_caller(f"a truth in the cache cannot be used and is found again: {error}")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used last
        return truth

    def _save(self, path: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep a truth, if the disk lets us and it is not half of all that may be kept."""
        if sum(tensor.nbytes for tensor in tensors.values()) > _MOST_BYTES // 2:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, _CLASS_NAME, {}, path.stem, tensors)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            if self._says_why:
                reason = error if isinstance(error, BitkinError) else f"{path.parent}: {error}."
                warn_caller(f"a truth could not be kept in the cache: {reason}")
            return
        with contextlib.suppress(OSError):
            _make_room(path)


def clear_cache(cache: Any = True) -> int:
    """Delete all truths that `nearest` and `radius_truth` kept, and return how many there were.

    Parameters
    ----------
    cache : True or a folder, default True
        What was given as `cache` there. Other files in that folder stay.

    Examples
    --------
    >>> import tempfile
    >>> from bitkin.evaluate import clear_cache, nearest
    >>> folder = tempfile.mkdtemp()
    >>> truth = nearest([[0.0], [3.0]], [[1.0]], k=1, cache=folder)
    >>> clear_cache(folder)
    1
    """
    if cache is None or cache is False:
        raise InvalidInputError(f"cache must be True or a folder, got {cache}.")
    kept = TruthCache.from_argument(cache)
    if kept is None or not kept.folder.is_dir():
        return 0
    try:
        found = [path for path in kept.folder.iterdir() if _NAMES.fullmatch(path.name)]
        for path in found:
            path.unlink(missing_ok=True)
        _remove_leftovers(kept.folder)
    except OSError as error:
        raise FileAccessError(
            f"{kept.folder} cannot be cleared: {error.strerror or error}."
        ) from error
    return len(found)


def default_folder() -> Path | None:
    """Return where truths are kept: in the folder of BITKIN_CACHE, else where this system keeps
    what programs can make again; None where there is no such place.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted:
        return Path(wanted) / "truth"
    system = platform.system()
    try:
        if system == "Darwin":
            base = Path.home() / "Library" / "Caches"
        elif system == "Windows":
            local = os.environ.get("LOCALAPPDATA")
            base = Path(local) if local else Path.home() / "AppData" / "Local"
        else:
            given = os.environ.get("XDG_CACHE_HOME", "")
            base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # nobody's home is known
        return None
    return base / "bitkin" / "truth"


def _unfit(stored: StoredFile) -> CorruptFileError:
    return damaged(stored.name, "holds no truth about these rows and queries")


def _make_room(newest: Path) -> None:
    """Delete what was not used for longest until the folder is small enough; `newest` stays. Raises
    OSError.
    """
    _remove_leftovers(newest.parent)
    found = []
    for path in newest.parent.iterdir():
        if _NAMES.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):  # another process makes room too
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= _MOST_BYTES:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            total -= size


def _remove_leftovers(folder: Path) -> None:
    """Delete what processes left that were killed while writing. Raises OSError."""
    now = time.time()
    for path in folder.iterdir():
        if _LEFTOVERS.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):
                if now - path.stat().st_mtime > _LEFTOVER_SECONDS:
                    path.unlink()
