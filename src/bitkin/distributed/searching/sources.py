"""Where shards come from: files and folders that workers read, and codes that Dask computes.

A shard is described before it is loaded: what cannot be searched together is refused before
anything large is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dask.delayed import Delayed
from distributed import Future

from bitkin.checks import named_path, shown
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import CodeMismatchError, InvalidInputError


@dataclass(frozen=True)
class ShardHeader:
    """What is known of a shard without what it holds."""

    name: str
    n_rows: int
    n_bytes: int
    """That a worker holds once the shard is loaded, about."""
    spec: CodeSpec
    fingerprint: str | None
    low: int = 0
    """The lowest id, where there is any."""
    high: int = -1
    """The highest one."""
    next_id: int = 0
    """The lowest id that comes after all it ever held."""
    own_ids: bool = False
    """Whether ids are its own; else they are the numbers of rows, counted on over the shards."""
    contents: str | None = None
    """By which a file is known to hold the same when it is read again."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What else has to be the same in all shards."""


class CodeFile(NamedTuple):
    """A file of codes, or of an index of codes."""

    path: str
    mmap: bool = False
    vectors: str | None = None
    """A file with the vectors of the codes, row by row."""


def list_paths(paths: Any, what: str, name: str = "paths") -> list[str]:
    """Return one path or several as a list, absolute, since workers run elsewhere."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    listed = [str(named_path(path, name, what).absolute()) for path in paths]
    if not listed:
        raise InvalidInputError(f"{name} must name at least one {what}, got none.")
    return listed


def computed_codes(paths: Any) -> list[Delayed | Future] | None:
    """Return codes that Dask computes, part by part; None for what is no such thing."""
    if isinstance(paths, Delayed | Future):
        return [paths]
    if hasattr(paths, "to_delayed"):
        return list(paths.to_delayed())
    if isinstance(paths, str | os.PathLike):
        return None
    if not isinstance(paths, Iterable):
        raise InvalidInputError(
            "paths must be files, a folder, or parts that Dask computes, got "
            f"{type(paths).__name__}."
        )
    parts = list(paths)
    computed = [part for part in parts if isinstance(part, Delayed | Future)]
    if computed and len(computed) < len(parts):
        other = next(part for part in parts if not isinstance(part, Delayed | Future))
        raise InvalidInputError(
            f"paths must all be files or all parts that Dask computes, got {shown(other)} too."
        )
    return computed or None


def require_codes_of_dask(codes: Any, name: str) -> Codes:
    """Return what Dask computed when it is codes."""
    if not isinstance(codes, Codes):
        raise InvalidInputError(f"{name} must compute Codes, got {type(codes).__name__}.")
    return codes


def require_alike(headers: Iterable[ShardHeader]) -> None:
    """Raise where shards cannot be searched together, with the names of two."""
    first: ShardHeader | None = None
    known: ShardHeader | None = None
    for header in headers:
        first = header if first is None else first
        if header.spec != first.spec:
            raise CodeMismatchError(
                f"shards must hold codes of one spec: {first.name} holds {first.spec}, "
                f"{header.name} {header.spec}. Encode both by the same fitted hasher."
            )
        for setting, value in first.settings.items():
            if header.settings[setting] != value:
                raise CodeMismatchError(
                    f"shards must be alike: {first.name} has {setting} {value!r}, {header.name} "
                    f"{header.settings[setting]!r}."
                )
        if header.fingerprint is None:
            continue
        known = header if known is None else known
        if header.fingerprint != known.fingerprint:
            raise CodeMismatchError(
                f"shards must come from one hasher: that of {known.name} has fingerprint "
                f"{known.fingerprint}, that of {header.name} {header.fingerprint}. Encode both by "
                "the same fitted hasher."
            )
