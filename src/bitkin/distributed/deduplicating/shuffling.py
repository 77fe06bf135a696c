"""Shuffling: documents with an equal key, of a band or of a whole set, meet in one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.dedup.hashing import TextHashing
from bitkin.distributed.cluster import block
from bitkin.distributed.deduplicating.partitions import HashedPartition
from bitkin.index.bands.bands import Buckets, Rows, band_keys

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed
_32 = np.uint64(32)


class KeyedDocuments(NamedTuple):
    """Keys of documents by one or several bands, each band's documents ascending."""

    bands: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    documents: Rows


class JoinedDocuments(NamedTuple):
    """Documents, ascending, that are known to be of the component of a lower one: its root."""

    documents: Rows
    roots: Rows


class PartBuckets(NamedTuple):
    """The buckets of one part of the keys; members are document numbers."""

    by_band: dict[int, Buckets]
    documents: Rows
    """All members, each once, ascending."""
    roots: Rows
    """Their components, as far as they are known."""


@block
def split_by_set(partition: HashedPartition, first: int, n_parts: int) -> list[KeyedDocuments]:
    """Share out the documents that have shingles by their digests; `first` is the number of the
    first.
    """
    rows = np.flatnonzero(np.diff(partition.sets.offsets) > 0)
    keyed = KeyedDocuments(np.zeros_like(rows), partition.digests[rows], rows + first)
    return _split(keyed, n_parts)


@block
def split_by_band(
    partition: HashedPartition,
    first: int,
    left_out: Rows,
    bands: Sequence[int],
    hashing: TextHashing,
    n_parts: int,
) -> list[KeyedDocuments]:
    """Share out the documents that have shingles, but those `left_out`, by their keys of each of
    `bands`; `first` is the number of the first.
    """
    wanted = np.diff(partition.sets.offsets) > 0
    wanted[left_out - first] = False
    rows = np.flatnonzero(wanted)
    codes = Codes.from_parts(partition.words, hashing.spec)
    keys = [band_keys(codes, hashing.plan, band)[rows] for band in bands]
    keyed = KeyedDocuments(
        np.repeat(np.array(bands, dtype=np.int64), len(rows)),
        np.concatenate(keys),
        np.tile(rows + first, len(bands)),
    )
    return _split(keyed, n_parts)


@block
def take_part(parts: list[KeyedDocuments], part: int) -> KeyedDocuments:
    """Return one part of what was shared out."""
    return parts[part]


@block
def find_buckets(pieces: Sequence[KeyedDocuments], joined: JoinedDocuments) -> PartBuckets:
    """Return the buckets of one part, of the pieces of all partitions in order, but those whose
    members are all of one component.
    """
    bands = np.concatenate([piece.bands for piece in pieces])
    keys = np.concatenate([piece.keys for piece in pieces])
    documents = np.concatenate([piece.documents for piece in pieces])
    by_band = {}
    for band in np.unique(bands).tolist():
        of_band = bands == band
        numbers = documents[of_band]
        buckets = Buckets.of_keys(keys[of_band], np.arange(len(numbers)))
        members = numbers[buckets.members]
        if len(members):
            roots = _roots_of(members, joined)
            several = np.minimum.reduceat(roots, buckets.starts) < np.maximum.reduceat(
                roots, buckets.starts
            )
            by_band[band] = keep_members(buckets, members, np.repeat(several, buckets.counts))
    return part_of(by_band, joined)


@block
def documents_of(part: PartBuckets) -> Rows:
    """Return all members."""
    return part.documents


def part_of(by_band: dict[int, Buckets], joined: JoinedDocuments) -> PartBuckets:
    """Return buckets with their members, and the components that those are known to be of."""
    members = [np.empty(0, dtype=np.int64), *(buckets.members for buckets in by_band.values())]
    documents = np.unique(np.concatenate(members))
    return PartBuckets(by_band, documents, _roots_of(documents, joined))


def keep_members(buckets: Buckets, members: Rows, kept: npt.NDArray[np.bool_]) -> Buckets:
    """Return `buckets` with some of their members alone, by the numbers `members`; the ranks stay,
    and buckets left with one are dropped.
    """
    which = np.repeat(np.arange(len(buckets.starts)), buckets.counts)
    counts = np.bincount(which[kept], minlength=len(buckets.starts))
    kept = kept & (counts > 1)[which]
    left = counts > 1
    counts = counts[left]
    return Buckets(
        members[kept],
        np.cumsum(counts) - counts,
        counts,
        buckets.keys[left],
        buckets.ranks[kept],
    )


def _split(keyed: KeyedDocuments, n_parts: int) -> list[KeyedDocuments]:
    """Share out by key; the same key of the same band goes to the same part."""
    mixed = (keyed.keys ^ keyed.bands.astype(np.uint64)) * _SPREAD
    parts = (mixed >> _32) % np.uint64(n_parts)
    order = np.argsort(parts, kind="stable")
    cuts = np.searchsorted(parts[order], np.arange(1, n_parts, dtype=np.uint64))
    columns = [np.split(column[order], cuts) for column in keyed]
    return [KeyedDocuments(*part) for part in zip(*columns, strict=True)]


def _roots_of(documents: Rows, joined: JoinedDocuments) -> Rows:
    roots = documents.copy()
    if len(joined.documents):
        at = np.searchsorted(joined.documents, documents)
        at[at == len(joined.documents)] = 0
        found = joined.documents[at] == documents
        roots[found] = joined.roots[at[found]]
    return roots
