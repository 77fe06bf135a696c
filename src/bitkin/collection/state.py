"""A state: everything a collection is at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.collection.kept import Kept, RowIds
from bitkin.collection.shortlisted import ShortlistedVectors
from bitkin.index.base import RowIndex
from bitkin.index.results import Neighbors
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.vectors import VectorSource
from bitkin.rescoring.estimate import Corrections


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """Everything a collection is at one moment. It never changes, so a search needs no lock."""

    index: RowIndex
    """How rows are searched; it holds none itself."""
    rows: Snapshot
    ids: RowIds
    kept: Kept

    def __len__(self) -> int:
        return len(self.rows)

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes, as the numbers of rows; at least
        `least`, if there are.
        """
        return self.index._k_nearest(self.rows, queries, k, allow, least)

    def codes(self, numbers: Ids) -> Codes:
        """Return the codes of rows that are there, in that order."""
        return self.rows.codes(numbers)

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the corrections of rows that are there, in that order."""
        return self.kept.corrections(numbers)

    def vectors(self, numbers: Ids) -> VectorSource:
        """Return the vectors of rows that are there, in that order, to be read as far as they are
        needed.
        """
        return ShortlistedVectors(self.kept, numbers)
