"""The seam between a collection and where its rows are kept: what is written at once, and what a
search reads.

`Collection` checks and encodes; a `Store` keeps rows and hands out states. The one in `memory.py`
lives in memory. A durable one keeps the same rows on disk, and hands out states whose `kept` reads
them there, in one read transaction.
"""

from __future__ import annotations

from typing import Protocol

from bitkin.arrays import Batch, Ids
from bitkin.collection.kept import NewRows
from bitkin.collection.state import State


class Store(Protocol):
    """Keeps rows for one writer at a time; a state that was handed out stays what it is."""

    @property
    def state(self) -> State:
        """All rows as of now."""

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch of vectors in the form in which they are kept; raise where that cannot
        be.
        """

    def put(self, rows: NewRows) -> None:
        """Add rows, and replace those whose numbers are there: all of it or nothing."""

    def remove(self, numbers: Ids) -> None:
        """Remove rows that are there, each given once: all of it or nothing."""

    def compact(self) -> None:
        """Give the space of removed rows back."""

    def packed(self) -> State:
        """Return the rows of now in as little memory as they need, sharing nothing that a writer
        changes.
        """
