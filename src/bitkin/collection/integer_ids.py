"""Ids that are whole numbers: they are the numbers of the rows themselves."""

from __future__ import annotations

from typing import Any

from bitkin.arrays import Ids
from bitkin.checks import id_array
from bitkin.index.rows.limits import given_ids, is_id


class IntegerIds:
    """Whole numbers from 0 to 2**63 − 1."""

    nbytes = 0

    def __len__(self) -> int:
        return 0  # none is held here

    def is_one(self, value: object) -> bool:
        """Whether a value can be an id."""
        return is_id(value)

    def checked(self, ids: Any, name: str = "ids") -> Ids:
        """Return ids as a 1-D array, in the order given."""
        return id_array(ids, name, any_order=True)

    def given(self, n_rows: int, ids: Any) -> Ids | None:
        """Return the ids that a caller gave for so many rows, all different; None where none were
        given.
        """
        return given_ids(n_rows, ids)

    def numbers(self, ids: Ids) -> Ids:
        """Return the row number of every id."""
        return ids

    def entered(self, ids: Ids) -> Ids:
        """Return the row number of every id, whether it has been here or not. For the writer
        alone.
        """
        return ids

    def of(self, numbers: Ids) -> Ids:
        """Return the id of every row number; −1 is nobody and stays."""
        return numbers

    def only(self, numbers: Ids) -> tuple[IntegerIds, Ids]:
        """Return what is needed for some rows alone, in ascending order, and the numbers that they
        have then.
        """
        return self, numbers
