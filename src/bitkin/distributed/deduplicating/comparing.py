"""Comparing: what meets in a part, by codes and then exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.dedup.equal_sets import first_equals
from bitkin.dedup.estimate import Estimate
from bitkin.dedup.hashing import TextHashing
from bitkin.dedup.linking import ComparedDocuments, Linker, Pairs
from bitkin.distributed.cluster import block
from bitkin.distributed.deduplicating.partitions import CodeRows, SetArrays
from bitkin.distributed.deduplicating.shuffling import (
    JoinedDocuments,
    PartBuckets,
    keep_members,
    part_of,
)
from bitkin.index.bands.bands import Buckets, Rows, order_of_pairs


class CodedBuckets(NamedTuple):
    """Buckets of a part, and the codes of their members."""

    part: PartBuckets
    codes: CodeRows


class FoundPairs(NamedTuple):
    """Pairs that a part found, with what they are ordered by (`order_of_pairs`)."""

    pairs: Pairs
    bands: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    ranks: Rows
    n_compared: int


@block
def first_of_equals(part: PartBuckets, pieces: Sequence[SetArrays]) -> JoinedDocuments:
    """Return the documents of a part, shared out by their sets, that are equal to an earlier one,
    and the first that each is equal to.
    """
    digests = np.empty(len(part.documents), dtype=np.uint64)
    for buckets in part.by_band.values():
        rows = np.searchsorted(part.documents, buckets.members)
        digests[rows] = np.repeat(buckets.keys, buckets.counts)
    first = first_equals(SetArrays.joined(pieces), digests)
    copies = np.flatnonzero(first != np.arange(len(first)))
    return JoinedDocuments(part.documents[copies], part.documents[first[copies]])


@block
def leave_out_unlike(
    part: PartBuckets, pieces: Sequence[CodeRows], hashing: TextHashing
) -> CodedBuckets:
    """Return the buckets without the members that are not worth comparing with any other, as far as
    their codes show: their sets need not travel.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.search.bands import comparable_members_into

    words = np.concatenate([piece.words for piece in pieces])
    sizes = np.concatenate([piece.sizes for piece in pieces])
    estimate = Estimate(hashing.threshold, hashing.plan, hashing.spec)
    parents = _forest(part.roots)
    by_band = {}
    for band, buckets in part.by_band.items():
        comparable = np.zeros(len(buckets.members), dtype=np.bool_)
        comparable_members_into(
            read_only(words),
            hashing.spec.n_symbols,
            band,
            hashing.plan.rows,
            read_only(sizes),
            hashing.threshold,
            read_only(parents),
            read_only(np.searchsorted(part.documents, buckets.members)),
            read_only(buckets.starts),
            read_only(buckets.counts),
            read_only(estimate.sizes),
            read_only(estimate.least),
            comparable,
        )
        by_band[band] = keep_members(buckets, buckets.members, comparable)
    left = part_of(by_band, JoinedDocuments(part.documents, part.roots))
    rows = np.searchsorted(part.documents, left.documents)
    return CodedBuckets(left, CodeRows(words[rows], sizes[rows]))


@block
def documents_to_compare(coded: CodedBuckets) -> Rows:
    """Return all members."""
    return coded.part.documents


@block
def compare(
    coded: CodedBuckets, pieces: Sequence[SetArrays], hashing: TextHashing, *, every_pair: bool
) -> FoundPairs:
    """Return the pairs of a part at or above the threshold: with `every_pair` all, else those in
    the spanning forest of the part.
    """
    part = coded.part
    documents = ComparedDocuments(
        np.arange(len(part.documents)),
        Codes.from_parts(coded.codes.words, hashing.spec),
        SetArrays.joined(pieces),
    )
    linker = Linker(
        documents,
        hashing.plan,
        hashing.threshold,
        every_pair=every_pair,
        parents=_forest(part.roots),
    )
    found: list[FoundPairs] = []
    key_of = np.empty(len(part.documents), dtype=np.uint64)
    rank_of = np.empty(len(part.documents), dtype=np.int64)
    # bands ascend, so that links of one may leave out pairs of the next
    for band, buckets in sorted(part.by_band.items()):
        if not len(buckets.starts):
            continue
        members = np.searchsorted(part.documents, buckets.members)
        key_of[members] = np.repeat(buckets.keys, buckets.counts)
        rank_of[members] = buckets.ranks
        here = Buckets(members, buckets.starts, buckets.counts, buckets.keys, buckets.ranks)
        for first, second, jaccard in linker.link_band(band, here):
            pairs = Pairs(part.documents[first], part.documents[second], jaccard)
            bands = np.full(len(first), band, dtype=np.int64)
            found.append(FoundPairs(pairs, bands, key_of[first], rank_of[first], 0))
    return join_found(found)._replace(n_compared=linker.n_compared)


@block
def jaccard_of(
    documents: Rows, pieces: Sequence[SetArrays], first: Rows, second: Rows
) -> npt.NDArray[np.float64]:
    """Return the exact similarity of pairs among `documents`, which ascend."""
    rows = np.searchsorted(documents, first), np.searchsorted(documents, second)
    return SetArrays.joined(pieces).jaccard_of_pairs(*rows)


def join_found(parts: Sequence[FoundPairs]) -> FoundPairs:
    """Put what several parts found after one another."""
    none = np.empty(0, dtype=np.int64)
    return FoundPairs(
        Pairs.concatenate([part.pairs for part in parts]),
        np.concatenate([none, *(part.bands for part in parts)]),
        np.concatenate([none.astype(np.uint64), *(part.keys for part in parts)]),
        np.concatenate([none, *(part.ranks for part in parts)]),
        sum(part.n_compared for part in parts),
    )


def in_order(found: FoundPairs) -> Pairs:
    """Return the pairs in the order in which one machine meets them."""
    order = order_of_pairs(found.bands, found.keys, found.ranks, found.pairs.second)
    return found.pairs.chosen(order)


def _forest(roots: Rows) -> Rows:
    """Return a forest of rows in which those of equal roots are joined."""
    _, first, which = np.unique(roots, return_index=True, return_inverse=True)
    return np.asarray(first[which])
