"""Partitions: texts hashed on a worker, which stay there, and what is taken out of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import shown
from bitkin.dedup.documents.opening import open_documents
from bitkin.dedup.finder import text_batches
from bitkin.dedup.hashing import TextHashing
from bitkin.distributed.cluster import block
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import Rows
from bitkin.io.line_files import NoDocumentsError
from bitkin.sets.sets import Sets

Words = npt.NDArray[np.uint64]


class SetArrays(NamedTuple):
    """`Sets` with every member once, ascending, as they travel: their own pickling sorts anew."""

    members: Words
    offsets: Rows

    def sets(self) -> Sets:
        """Return them."""
        return Sets.from_parts(self.members, self.offsets, distinct=True)

    @classmethod
    def joined(cls, parts: Sequence[SetArrays]) -> Sets:
        """Put several after one another."""
        return Sets.concatenate([part.sets() for part in parts])


class HashedPartition(NamedTuple):
    """What is kept of a partition's texts: `HashedTexts`, and where they stand in a file."""

    sets: SetArrays
    words: Words
    """Of the codes."""
    digests: Words
    lines: Rows | None
    ids: list[Any] | None


class CodeRows(NamedTuple):
    """Codes of some documents, and how many shingles they have."""

    words: Words
    sizes: Rows


class FileOptions(NamedTuple):
    """How files of documents are read, as `open_documents` takes it."""

    field: str | None = None
    id_field: str | None = None
    format: str = "auto"


@block
def hash_partition(texts: Iterable[Any], partition: int, hashing: TextHashing) -> HashedPartition:
    """Hash the texts of partition number `partition`."""
    return _hash(_strings(texts, partition), hashing)


@block
def hash_file(
    path: str | os.PathLike[str], name: str, options: FileOptions, hashing: TextHashing
) -> HashedPartition:
    """Hash the texts of one file, which messages call `name`."""
    source = open_documents(
        [path], options.field, id_field=options.id_field, format=options.format, names=[name]
    )
    lines: list[int] = []
    ids: list[Any] = []

    def texts() -> Iterator[str]:
        try:
            for document in source.documents():
                lines.append(document.line)
                if options.id_field is not None:
                    ids.append(document.id)
                yield document.text
        except NoDocumentsError:  # other files may have some
            return

    hashed = _hash(texts(), hashing)
    return hashed._replace(
        lines=np.array(lines, dtype=np.int64), ids=None if options.id_field is None else ids
    )


@block
def sizes_of(partition: HashedPartition) -> Rows:
    """Return how many shingles every text has."""
    return np.diff(partition.sets.offsets)


@block
def places_of(partition: HashedPartition) -> tuple[Rows | None, list[Any] | None]:
    """Return lines and ids of the texts."""
    return partition.lines, partition.ids


@block
def select_codes(partition: HashedPartition, first: int, documents: Rows) -> CodeRows:
    """Return what the partition, whose first document is `first`, holds of `documents`, which
    ascend.
    """
    rows = _rows_of(partition, first, documents)
    sizes = np.diff(partition.sets.offsets)
    return CodeRows(partition.words[rows], sizes[rows])


@block
def select_sets(partition: HashedPartition, first: int, documents: Rows) -> SetArrays:
    """Return the sets that the partition, whose first document is `first`, holds of `documents`,
    which ascend.
    """
    chosen = partition.sets.sets()[_rows_of(partition, first, documents)]
    return SetArrays(chosen.members, chosen.offsets)


def _rows_of(partition: HashedPartition, first: int, documents: Rows) -> Rows:
    begin, stop = np.searchsorted(documents, (first, first + len(partition.digests)))
    return documents[begin:stop] - first


def _hash(texts: Iterable[str], hashing: TextHashing) -> HashedPartition:
    batches = [hashing.hash(batch) for batch in text_batches(texts)] or [hashing.hash([])]
    sets = Sets.concatenate([batch.sets for batch in batches])
    return HashedPartition(
        SetArrays(sets.members, sets.offsets),
        np.concatenate([batch.codes.words for batch in batches]),
        np.concatenate([batch.digests for batch in batches]),
        None,
        None,
    )


def _strings(texts: Iterable[Any], partition: int) -> Iterator[str]:
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(
                f"texts must be strings, got {shown(text)} in partition {partition}, row {row}. "
                "Decode bytes first, and drop what is missing or make it an empty text."
            )
        yield text
