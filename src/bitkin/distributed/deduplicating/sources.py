"""Sources: texts in dask collections, in files, or in memory, hashed partition by partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask
from dask.bag import Bag
from distributed import Client, Future

from bitkin.dedup.documents.opening import open_documents
from bitkin.dedup.hashing import TextHashing
from bitkin.distributed.deduplicating.partitions import (
    FileOptions,
    hash_file,
    hash_partition,
)
from bitkin.distributed.folders import files_named
from bitkin.errors import ArgumentError, InvalidInputError
from bitkin.io.line_files import missing_field
from bitkin.sets.shingles import cut_texts

_PIECE_CHARS, _PIECE_TEXTS = 1 << 22, 1 << 14


class HashedSource(NamedTuple):
    """Texts that are being hashed."""

    partitions: list[Future]
    files: Sequence[Path] = ()
    """Where they are from, as the caller named them."""

    def no_documents(self) -> InvalidInputError:
        """Return the error of files without a document."""
        return InvalidInputError(f"{', '.join(map(str, self.files))}: no documents.")


def hash_texts(
    client: Client, texts: Any, column: str | None, hashing: TextHashing
) -> HashedSource:
    """Let the workers hash texts of any source, one partition after another."""
    if isinstance(texts, os.PathLike):
        files = files_named(Path(texts), lambda _: True, "files of texts")
        return hash_files(client, list(map(Path, files)), FileOptions(column), hashing)
    if _are_paths(texts):
        return hash_files(client, [Path(path) for path in texts], FileOptions(column), hashing)
    if dask.is_dask_collection(texts):
        return HashedSource(_hash_delayed(client, _partitions_of(texts, column), hashing))
    if column is not None:
        raise ArgumentError(
            f"names a column of data frames or a field of files, got {column!r} for texts in "
            "memory. Leave it out.",
            "column",
        )
    return HashedSource(_hash_pieces(client, texts, hashing))


def hash_files(
    client: Client, paths: Sequence[Path], options: FileOptions, hashing: TextHashing
) -> HashedSource:
    """Let the workers read and hash files, one task each. They are looked at here first: whether
    they are there, and have one format.
    """
    open_documents(paths, options.field, id_field=options.id_field, format=options.format)
    partitions = [
        # absolute, since workers may run elsewhere in the same file system
        client.submit(hash_file, str(path.absolute()), str(path), options, hashing, pure=False)
        for path in paths
    ]
    return HashedSource(partitions, paths)


def _are_paths(texts: Any) -> bool:
    """Whether this is a list of paths; strings are texts."""
    return (
        isinstance(texts, (list, tuple))
        and len(texts) > 0
        and all(isinstance(path, os.PathLike) for path in texts)
    )


def _partitions_of(texts: Any, column: str | None) -> list[Any]:
    """Return what makes the partitions of a bag, a series or the column of a data frame."""
    if isinstance(texts, Bag):
        if column is not None:
            raise ArgumentError(
                f"names a column of data frames or a field of files, got {column!r} for a bag. "
                "Take the texts out of its items, such as bag.pluck('text').",
                "column",
            )
        delayed: list[Any] = texts.map_partitions(list).to_delayed()
        return delayed
    if not hasattr(texts, "divisions"):
        raise InvalidInputError(
            "texts must be a dask bag of strings, a dask data frame with a column of them, paths "
            f"of files, or a list of strings, got a {type(texts).__name__}."
        )
    if hasattr(texts, "columns") and texts.ndim == 2:
        columns = list(map(str, texts.columns))
        name = "text" if column is None else column
        if name not in columns:
            absent = missing_field(name, columns, what="column")
            raise ArgumentError(f"{absent} Name one of them.", "column")
        texts = texts[name]
    elif column is not None and column != texts.name:
        raise ArgumentError(
            f"got {column!r} for the series {texts.name!r}. Leave it out.", "column"
        )
    delayed = texts.to_delayed()
    return list(delayed)


def _hash_delayed(client: Client, parts: list[Any], hashing: TextHashing) -> list[Future]:
    hashed = dask.delayed(hash_partition, pure=False)
    futures: list[Future] = client.compute(
        [hashed(part, number, hashing) for number, part in enumerate(parts)]
    )
    return futures


def _hash_pieces(client: Client, texts: Iterable[str], hashing: TextHashing) -> list[Future]:
    """Send texts as they come. The scheduler keeps them, so that what is lost with a worker can be
    hashed again.
    """
    if hasattr(texts, "columns"):
        raise InvalidInputError(
            "texts must be a list of strings, got a data frame. Give one of its columns."
        )
    futures = [
        client.submit(hash_partition, piece, number, hashing, pure=False)
        for number, piece in enumerate(cut_texts(texts, _PIECE_CHARS, _PIECE_TEXTS))
    ]
    return futures or [client.submit(hash_partition, [], 0, hashing, pure=False)]
