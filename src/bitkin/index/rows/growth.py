"""How a snapshot becomes the next one: rows added, rows removed, space given back, tables kept up.
Pure functions.

Rows whose ids follow the last segment's go into its room; others get a segment of their own, and
segments of like size whose ids interleave are merged. So ids always ascend within a segment, and
there are few segments.

Rows that no table covers yet are scanned, so a search is right at every moment. Tables are built
again over all rows of their segment once enough rows have come behind them, and segments with
tables are merged once there are many, so that over the life of an index a row is put into tables a
bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bitkin.arrays import Ids
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.index.rows.segment import Segment, SegmentTables, merge_segments, new_segment
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels.blocks import BLOCK

# every one has tables of its own to look into; each is an eighth of the rows before it, or more
MOST_SEGMENTS = 8
FEW_ROWS = 1 << 13  # are scanned in less time than a table takes to look into
_SHARE_OUTSIDE = 16  # at most a sixteenth of a segment stays outside its tables


def with_rows(snapshot: Snapshot, codes: Codes, ids: Ids) -> Snapshot:
    """Return the snapshot with new rows: behind the last segment where their ids allow it, else in
    one of their own.
    """
    fingerprint = snapshot.fingerprint or codes.fingerprint
    if len(ids) == 0:
        return replace(snapshot, fingerprint=fingerprint)
    words, empty = codes.words, codes.empty
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids)
        words, ids, empty = words[order], ids[order], None if empty is None else empty[order]
    next_id = max(snapshot.next_id, int(ids[-1]) + 1)
    segments = list(snapshot.segments)
    taken = 0
    if segments and segments[-1].room and segments[-1].ids[segments[-1].n - 1] < ids[0]:
        taken = min(segments[-1].room, len(ids))
        segments[-1] = segments[-1].append(
            words[:taken], ids[:taken], None if empty is None else empty[:taken]
        )
    if taken < len(ids):
        # Room for an eighth more: rows are never moved to grow, and at rest little is wasted.
        rest = len(ids) - taken
        grown = new_segment(
            snapshot.spec, rest if rest > len(snapshot) else max(rest, len(snapshot) // 8)
        )
        segments.append(
            grown.append(words[taken:], ids[taken:], None if empty is None else empty[taken:])
        )
    segments = _merge_small(segments, snapshot.spec)
    return Snapshot(snapshot.spec, fingerprint, tuple(segments), next_id)


def _merge_small(segments: list[Segment], spec: CodeSpec) -> list[Segment]:
    """Merge segments at the end whose ids interleave while they are of like size: never more than
    log(n) of them.
    """
    while len(segments) > 1:
        before, last = segments[-2:]
        in_order = before.ids[before.n - 1] < last.ids[0]
        if in_order or before.n > 2 * last.n:
            break
        segments = [*segments[:-2], merge_segments([before, last], spec)]
    return segments


def without_ids(snapshot: Snapshot, ids: Ids) -> Snapshot:
    """Return the snapshot without those of these rows that are there; a segment with none left is
    dropped.
    """
    segments = []
    for segment in snapshot.segments:
        rows = segment.find(ids)
        rows = rows[rows >= 0]
        segments.append(segment.without(rows) if len(rows) else segment)
    return replace(snapshot, segments=tuple(segment for segment in segments if segment.n_alive))


def in_one_segment(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with all live rows in one segment, or none."""
    segments = (merge_segments(snapshot.segments, snapshot.spec),) if len(snapshot) else ()
    return replace(snapshot, segments=segments)


def compact_if_sparse(snapshot: Snapshot) -> Snapshot:
    """Compact when more rows are dead than alive; a mapped file stays mapped."""
    dead = sum(segment.n - segment.n_alive for segment in snapshot.segments)
    mapped = any(segment.source is not None for segment in snapshot.segments)
    return snapshot if mapped or dead <= max(BLOCK, len(snapshot)) else in_one_segment(snapshot)


def with_tables(
    snapshot: Snapshot,
    build: Callable[[Segment], SegmentTables],
    few: int = FEW_ROWS,
    *,
    share_outside: int = _SHARE_OUTSIDE,
    whole: bool = False,
) -> Snapshot:
    """Return the snapshot with tables over nearly all rows; `build` makes those of a segment of
    more than `few`.

    Up to `few` rows of a segment, or one in `share_outside`, may be outside its tables; with
    `whole`, none of one that takes no more rows.
    """
    segments = snapshot.segments
    # mapped ones stay where they are
    in_memory = [segment for segment in segments if segment.source is None]
    if len(in_memory) > MOST_SEGMENTS:
        mapped = [segment for segment in segments if segment.source is not None]
        segments = (*mapped, merge_segments(in_memory, snapshot.spec))
    tabled = []
    for number, segment in enumerate(segments):
        outside = max(few, segment.n // share_outside)
        takes_more = number == len(segments) - 1 and segment.room
        if whole and not takes_more and segment.n > few:
            outside = 0
        tabled.append(_tabled(segment, build, outside))
    return replace(snapshot, segments=tuple(tabled))


def _tabled(segment: Segment, build: Callable[[Segment], SegmentTables], outside: int) -> Segment:
    """Return the segment with up to so many rows outside its tables."""
    covered = 0 if segment.tables is None else segment.tables.n
    return segment if segment.n - covered <= outside else replace(segment, tables=build(segment))
