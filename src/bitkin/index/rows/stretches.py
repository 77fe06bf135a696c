"""Rows as a scan takes them: stretches of blocks, each with a mask of the rows to be found.

A filter becomes such masks. Where it leaves few rows for many queries, those are copied instead:
then a scan reads nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bitkin.arrays import Ids, Words
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment, in_ascending_order
from bitkin.kernels.blocks import count_marked, list_marked_into, mark_rows_into, read_only

# Words that one query scans in the time in which a row is copied (bench/filters.py).
_WORDS_PER_COPY = 256
_ALL_ROWS = read_only(np.empty(0, dtype=np.uint64))


class Stretch(NamedTuple):
    """Blocks `first` … `last` of a segment of `n` rows, with the rows that may be returned: what
    kernels take first.
    """

    tiles: Words
    ids: Ids
    first: int
    last: int
    n: int
    mask: Bitmap


class Stretches(NamedTuple):
    """All stretches of a scan, and what it needs to know of them."""

    parts: list[Stretch]
    n_blocks: int
    n_rows: int
    """At least as many as can be returned."""
    in_order: bool
    """Whether ids ascend from stretch to stretch, so that the first of equals has the lowest id."""


def whole_stretches(segments: Sequence[Segment]) -> Stretches:
    """Return all rows that can be found."""
    masks = [segment.searchable for segment in segments]
    n_rows = sum(segment.n_alive for segment in segments)
    return _stretches(segments, masks, n_rows)


def allowed_stretches(segments: Sequence[Segment], allow: Ids, n_queries: int) -> Stretches:
    """Return the rows with these ids, for a scan of so many queries."""
    masks = [allowed_rows(segment, allow) for segment in segments]
    counts = [count_marked(mask) for mask in masks]
    # a query scans a row's words; a copy is made once for all queries
    spared = sum(s.n * s.words_per_row for s in segments) * n_queries
    if sum(counts) * _WORDS_PER_COPY > spared:
        return _stretches(segments, masks, sum(counts))
    copies = [
        _copied(segment, mask, count)
        for segment, mask, count in zip(segments, masks, counts, strict=True)
    ]
    return whole_stretches(copies)


def allowed_rows(segment: Segment, allow: Ids) -> Bitmap:
    """Return a bitmap of the rows with these ids that can be found; ids that are not here are
    passed over.
    """
    mask = np.zeros(8 * bitmap.n_blocks(segment.n), dtype=np.uint64)
    if segment.consecutive:
        mark_rows_into(read_only(allow), segment.ids[0], segment.n, mask)
    elif segment.n:
        mark_rows_into(read_only(segment.find(allow)), 0, segment.n, mask)
    if segment.searchable is not None:
        mask &= segment.searchable
    return mask


def _stretches(
    segments: Sequence[Segment], masks: Sequence[Bitmap | None], n_rows: int
) -> Stretches:
    parts = [
        Stretch(
            read_only(segment.tiles),
            read_only(segment.ids),
            0,
            bitmap.n_blocks(segment.n),
            segment.n,
            _ALL_ROWS if mask is None else read_only(mask),
        )
        for segment, mask in zip(segments, masks, strict=True)
        if segment.n
    ]
    n_blocks = sum(part.last for part in parts)
    return Stretches(parts, n_blocks, n_rows, in_ascending_order(segments))


def _copied(segment: Segment, mask: Bitmap, count: int) -> Segment:
    """Return a copy of the rows that are marked."""
    rows = np.empty(count, dtype=np.int64)
    list_marked_into(mask, rows)
    return segment.gather(rows)
