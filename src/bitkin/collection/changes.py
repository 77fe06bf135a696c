"""How a snapshot of a collection becomes the next one. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.metadata.documents import EncodedMetadata
from bitkin.collection.searching.cells import cell_maker
from bitkin.collection.snapshot import NOTHING_KEPT, CollectionSnapshot, NewRows
from bitkin.hashers.lengths import NO_LENGTHS
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.rows.growth import compact_if_sparse, with_rows, without_ids
from bitkin.index.rows.snapshot import Snapshot
from bitkin.rescoring.estimate import Corrections

ROWS_FOR_CELLS = 50_000  # from which on index="auto" looks into cells
_FEW_DEAD_ROWS = 1024  # are not worth the work of giving their space back


def with_new_rows(now: CollectionSnapshot, rows: NewRows, *, replaces: bool) -> CollectionSnapshot:
    """Return a snapshot with new rows, which replace those of the same row ids if it `replaces`."""
    lengths = (now.lengths if now.n_rows else NO_LENGTHS).plus(rows.lengths)
    if replaces:
        now = _with_coded(now, lambda coded: without_ids(coded, rows.row_ids))
    now = _with_codes(now, rows.codes, rows.row_ids, rows.epoch or now.epoch)
    if replaces:
        now = _with_coded(now, compact_if_sparse)
    return replace(now, kept=now.kept.with_rows(rows, now.segments), lengths=lengths)


def without_rows(now: CollectionSnapshot, row_ids: Ids) -> CollectionSnapshot:
    """Return a snapshot without some rows that are there, each given once."""
    return _with_coded(now, lambda coded: compact_if_sparse(without_ids(coded, row_ids)))


def with_metadata(
    now: CollectionSnapshot, row_ids: Ids, written: EncodedMetadata
) -> CollectionSnapshot:
    """Return a snapshot in which some rows that are there have other metadata."""
    return replace(now, kept=now.kept.with_metadata(row_ids, written, now.segments))


def with_epoch(now: CollectionSnapshot, epoch: CollectionEpoch) -> CollectionSnapshot:
    """Return a snapshot whose new rows will be of another epoch; the rows of the current one stay
    what they are.
    """
    older = (now.alone(), *now.older) if len(now.coded) else now.older
    begun = CollectionSnapshot.of_epoch(epoch, now.ids, now.kept.ready_for(epoch), now.next_id)
    return replace(
        begun, older=older, lengths=now.lengths, version=now.version, reading=now.reading
    )


def with_rows_moved(
    now: CollectionSnapshot, row_ids: Ids, codes: Codes, corrections: Corrections | None
) -> CollectionSnapshot:
    """Return a snapshot in which some rows, each given once, are of the current epoch, by these
    codes and corrections.
    """
    moved = _with_coded(now, lambda coded: compact_if_sparse(without_ids(coded, row_ids)))
    moved = _with_codes(moved, codes, row_ids, now.epoch)
    kept = moved.kept
    if corrections is not None:
        kept = kept.with_corrections(row_ids, corrections)
    by_segment = kept.by_segment.after(moved.segments, kept.slots)
    return replace(moved, kept=replace(kept, by_segment=by_segment))


def _with_coded(
    now: CollectionSnapshot, change: Callable[[Snapshot], Snapshot]
) -> CollectionSnapshot:
    """Return a snapshot with the codes of every epoch changed."""
    older = tuple(replace(part, coded=change(part.coded)) for part in now.older)
    return replace(now, coded=change(now.coded), older=older)


def _with_codes(
    now: CollectionSnapshot, codes: Codes, row_ids: Ids, epoch: CollectionEpoch
) -> CollectionSnapshot:
    """Return a snapshot with new rows of an epoch, whether it has rows or not."""
    if epoch.number == now.epoch.number:
        return replace(now, coded=with_rows(now.coded, codes, row_ids))
    parts = {part.epoch.number: part for part in now.older}
    part = parts.get(epoch.number)
    if part is None:
        part = CollectionSnapshot.of_epoch(epoch, now.ids, NOTHING_KEPT)
    parts[epoch.number] = replace(part, coded=with_rows(part.coded, codes, row_ids))
    return replace(now, older=tuple(parts[number] for number in sorted(parts, reverse=True)))


def prepare_snapshot(new: CollectionSnapshot) -> CollectionSnapshot:
    """Return a snapshot ready to be searched: where more rows are dead than alive, their space is
    given back first.
    """
    if any(len(part.coded) == 0 for part in new.older):
        new = replace(new, older=tuple(part for part in new.older if len(part.coded)))
    held = max(new.kept.n_held, len(new.ids))
    if held - new.n_rows > max(_FEW_DEAD_ROWS, new.n_rows):
        new = without_dead_rows(new)
    if new.later is not None and len(new) >= ROWS_FOR_CELLS:
        new = replace(new, index=new.later, later=None)
    current, *older = (_prepare_part(part) for part in new.parts)
    if older:
        new = replace(new, older=tuple(part.alone() for part in older))
    return new if current.coded is new.coded else replace(new, coded=current.coded)


def _prepare_part(part: CollectionSnapshot) -> CollectionSnapshot:
    """Return the rows of one epoch with the tables that their index looks into."""
    if isinstance(part.index, CellIndex):
        prepared = part.index.prepare_by(part.coded, cell_maker(part, part.index))
    else:
        prepared = part.index.prepare(part.coded)
    return part if prepared is part.coded else replace(part, coded=prepared)


def sealed(now: CollectionSnapshot) -> CollectionSnapshot:
    """Return the same rows, without room for more in arrays that may be shared."""
    return _with_coded(
        now,
        lambda coded: replace(
            coded, segments=tuple(segment.without_room() for segment in coded.segments)
        ),
    )


def compacted(now: CollectionSnapshot) -> CollectionSnapshot:
    """Return the same rows in as little memory as they need, sharing nothing that a writer
    changes.
    """
    return _packed(now, lambda part: part.index.compacted(part.coded))


def packed_for_copy(now: CollectionSnapshot) -> CollectionSnapshot:
    """Return what `compacted` does for a copy, whose rows are in the same cells."""
    return _packed(now, lambda part: part.index.pack(part.coded))


def _packed(
    now: CollectionSnapshot, pack: Callable[[CollectionSnapshot], Snapshot]
) -> CollectionSnapshot:
    current, *older = (replace(part, coded=pack(part)) for part in now.parts)
    alone = tuple(part.alone() for part in older)
    return without_dead_rows(replace(now, coded=current.coded, older=alone))


def without_dead_rows(snapshot: CollectionSnapshot) -> CollectionSnapshot:
    """Return the same rows, without ids, vectors and corrections of removed ones."""
    row_ids = snapshot.row_ids()
    ids, renumbered = snapshot.ids.keep_only(row_ids)
    kept = snapshot.kept.keep_only(row_ids, renumbered)
    # strings are numbered again from 0, so their codes have to move to the new row ids
    if not np.array_equal(renumbered, row_ids):
        snapshot = _with_coded(snapshot, lambda coded: _renumber(coded, row_ids, renumbered))
    return replace(snapshot, ids=ids, kept=kept)


def _renumber(coded: Snapshot, row_ids: Ids, renumbered: Ids) -> Snapshot:
    """Return rows under other ids in the same order: `renumbered` of `row_ids`, all there are."""
    next_id = int(renumbered[-1]) + 1 if len(renumbered) else 0
    if any(segment.n_alive < segment.n for segment in coded.segments):
        own = coded.ids()
        empty = Snapshot(coded.spec, coded.fingerprint)
        again = with_rows(empty, coded.codes(own), renumbered[np.searchsorted(row_ids, own)])
        return replace(again, next_id=next_id)
    segments = tuple(
        replace(segment, ids=renumbered[np.searchsorted(row_ids, segment.row_ids)])
        for segment in coded.segments
    )
    return replace(coded, segments=segments, next_id=next_id)
