"""A flow that writes rows to a file here, as they come."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from bitkin.checks import flag, named_path
from bitkin.client.messages import Flow
from bitkin.client.reading import where_as_json
from bitkin.client.remote import RemoteCollection
from bitkin.errors import FileAccessError, InvalidInputError, ServiceError
from bitkin.io.writer import keep_mode, regular_target, sync_folder

_EXPORTS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_LONGEST_QUERY = 30_000  # characters of a filter within an address
_GZIP_LEVEL = 6


def export(
    remote: RemoteCollection,
    path: Any,
    *,
    where: Any,
    overwrite: bool,
    progress: Callable[[int, int], None] | None,
) -> Flow[int]:
    """Write rows to a file of JSON lines as they come, and return how many they are."""
    overwrite = flag(overwrite, "overwrite")
    target = named_path(path)
    suffix = target.suffix.lower()
    suffix = "".join(target.suffixes[-2:]).lower() if suffix == ".gz" else suffix
    if suffix not in _EXPORTS:
        raise InvalidInputError(
            f"path must end in one of {', '.join(_EXPORTS)}, got {str(target)!r}: a service sends "
            "JSON lines. For .parquet and .npy, import those into a collection here, and export it."
        )
    if os.path.lexists(target) and not overwrite:
        raise FileAccessError(
            f"{target} is there already. Give another path, or overwrite=True to replace it."
        )
    query = "" if where is None else f"?where={quote(where_as_json(where))}"
    if len(query) > _LONGEST_QUERY:
        raise InvalidInputError(
            f"where must take at most {_LONGEST_QUERY:,} characters of an address for an export, "
            f"got {len(query):,}. Export all rows, or take some by get(where=...)."
        )
    with _written_aside(target) as file:
        sink = _LineSink(file, target, suffix.endswith(".gz"), progress)
        yield from remote.ask("GET", f"export{query}", takes_long=True, sink=sink)
        sink.finish()
    return sink.n_lines


class _LineSink:
    """Writes JSON lines to a file, packed or as they are, and counts them."""

    def __init__(
        self,
        file: IO[bytes],
        path: Path,
        packed: bool,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._file = file
        self._path = path
        self._packed = packed
        self._progress = progress
        self._total = -1
        self._out: Any = file
        self._whole = True
        self.n_lines = 0

    def begin(self, headers: Mapping[str, str]) -> None:
        """Forget what an earlier attempt brought."""
        told = headers.get("x-total-rows", "")
        self._total = int(told) if told.isdecimal() else -1
        with _naming_file(self._path):
            self._file.seek(0)
            self._file.truncate()
        if self._packed:  # no time and no name in it: the same rows give the same bytes
            self._out = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0)
        self.n_lines, self._whole = 0, True

    def write(self, piece: bytes) -> None:
        """Write the next piece."""
        with _naming_file(self._path):
            self._out.write(piece)
        self.n_lines += piece.count(b"\n")
        self._whole = piece.endswith(b"\n")
        if self._progress is not None:
            self._progress(self.n_lines, max(self._total, self.n_lines))

    def finish(self) -> None:
        """Write what is held back."""
        if not self._whole or self._total not in (-1, self.n_lines):
            raise ServiceError(
                f"{self._path} would not be whole: the service broke off after {self.n_lines:,} "
                "rows. Export again."
            )
        if self._packed:
            with _naming_file(self._path):
                self._out.close()  # which leaves the file itself open


@contextmanager
def _written_aside(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to fill, which takes the place of `path` when all of it is there."""
    with _naming_file(path):
        target = regular_target(path)
        aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = aside.open("xb")
    try:
        with file:
            yield file
            with _naming_file(path):
                file.flush()
                os.fsync(file.fileno())
                keep_mode(target, file)
        with _naming_file(path):
            aside.replace(target)
            sync_folder(target.parent)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileAccessError(
            f"{path} cannot be written: {error.strerror or error}. What was there is unchanged."
        ) from error
