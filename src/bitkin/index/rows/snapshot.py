"""A snapshot: everything an index is at one moment. It never changes, so a search needs no lock."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bitkin.arrays import Flags, Ids, Words
from bitkin.checks import some_of
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError, UnknownIdError
from bitkin.index.rows import bitmap
from bitkin.index.rows.bitmap import Bitmap
from bitkin.index.rows.segment import Segment, merged_ids
from bitkin.index.rows.stretches import (
    Stretches,
    allowed_rows,
    allowed_stretches,
    whole_stretches,
)
from bitkin.io.layout import damaged


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """Segments whose live ids are disjoint; the origin of the codes; the id that comes next."""

    spec: CodeSpec
    fingerprint: str | None = None
    segments: tuple[Segment, ...] = ()
    next_id: int = 0
    _whole: list[Stretches] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return sum(segment.n_alive for segment in self.segments)

    @property
    def whole(self) -> Stretches:
        """All rows as a scan takes them; made once, since a snapshot never changes."""
        if not self._whole:
            self._whole.append(whole_stretches(self.segments))
        return self._whole[0]

    def allowed(self, allow: Ids, n_queries: int) -> Stretches:
        """Return the rows with these ids as a scan of so many queries takes them."""
        return allowed_stretches(self.segments, allow, n_queries)

    def count_allowed(self, allow: Ids) -> int:
        """Return how many rows that can be found have one of these ids, each counted once."""
        masks = (allowed_rows(segment, allow) for segment in self.segments if segment.n)
        return sum(int(np.bitwise_count(mask).sum()) for mask in masks)

    def ids(self) -> Ids:
        """Return all ids, ascending."""
        return merged_ids(self.segments)

    def present(self, ids: Ids) -> Flags:
        """Return for every id whether it is there."""
        found = np.zeros(len(ids), dtype=bool)
        for segment in self.segments:
            # live ids of segments are disjoint, so an id is in one of them at most
            found |= segment.find(ids) >= 0
        return found

    def require_present(self, ids: Ids) -> None:
        """Raise when any of `ids` is not there."""
        _require_found(ids, self.present(ids))

    def words(self, ids: Ids) -> Words:
        """Return the words of rows that are there, in the order of `ids`: uint64 (n, planes, words
        per plane).
        """
        if len(self.segments) == 1:
            return self.segments[0].words(self.segments[0].rows_of(ids))
        words = np.empty(
            (len(ids), self.spec.bits_per_symbol, self.spec.plane_words), dtype=np.uint64
        )
        for segment in self.segments:
            rows = segment.find(ids)
            here = rows >= 0
            words[here] = segment.words(rows[here])
        return words

    def codes(self, ids: Ids) -> Codes:
        """Return the codes of `ids`, in that order."""
        words = np.empty(
            (len(ids), self.spec.bits_per_symbol, self.spec.plane_words), dtype=np.uint64
        )
        empty, found = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=bool)
        for segment in self.segments:
            rows = segment.find(ids)
            here = rows >= 0
            words[here] = segment.words(rows[here])
            empty[here] = ~bitmap.flags_at(segment.searchable, rows[here])
            found |= here
        _require_found(ids, found)
        words.flags.writeable = False
        try:
            return Codes(words, self.spec, empty=empty, fingerprint=self.fingerprint)
        except InvalidInputError:
            names = ", ".join(
                segment.source.name for segment in self.segments if segment.source is not None
            )
            raise damaged(
                names or "the index", "has codes with bits set where none may be"
            ) from None

    def masks(self, allow: Ids | None) -> list[Bitmap | None]:
        """Return, a segment each, the rows a search may return; None is all of them."""
        if allow is None:
            return [segment.searchable for segment in self.segments]
        return [allowed_rows(segment, allow) for segment in self.segments]


def _require_found(ids: Ids, found: Flags) -> None:
    if not found.all():
        raise UnknownIdError(f"ids must be in the index; not there: {some_of(ids[~found])}.")
