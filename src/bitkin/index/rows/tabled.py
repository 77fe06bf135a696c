"""Tables over the rows of a snapshot, kept up while rows come and go: few segments, and little
outside their tables.

Rows that no table covers yet are scanned, so a search is right at every moment. A table is built
anew over all rows of its segment once enough have come behind it, and segments are merged once
there are many, so that over the life of an index a row is put into tables a bounded number of
times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bitkin.index.rows.segment import Segment, Tables, compacted
from bitkin.index.rows.snapshot import Snapshot

# every one has tables of its own to look into; each is an eighth of the rows before it, or more
MOST_SEGMENTS = 8
FEW_ROWS = 1 << 13  # are scanned in less time than a table takes to look into
_SHARE_OUTSIDE = 16  # at most a sixteenth of a segment stays outside its tables


def with_tables(
    snapshot: Snapshot, build: Callable[[Segment], Tables], few: int = FEW_ROWS
) -> Snapshot:
    """Return the snapshot with tables over nearly all rows; `build` makes those of a segment of
    more than `few`.
    """
    segments = snapshot.segments
    # mapped ones stay where they are
    in_memory = [segment for segment in segments if segment.source is None]
    if len(in_memory) > MOST_SEGMENTS:
        mapped = [segment for segment in segments if segment.source is not None]
        segments = (*mapped, compacted(in_memory, snapshot.spec))
    return replace(snapshot, segments=tuple(_tabled(segment, build, few) for segment in segments))


def _tabled(segment: Segment, build: Callable[[Segment], Tables], few: int) -> Segment:
    outside = segment.n - (0 if segment.tables is None else segment.tables.n)
    if outside <= max(few, segment.n // _SHARE_OUTSIDE):
        return segment
    return replace(segment, tables=build(segment))
