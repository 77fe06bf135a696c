"""Ids of rows: what can be one, which come next, and those that a caller gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import id_array, some_of
from bitkin.errors import DuplicateIdError, InvalidInputError

MAX_ID = 2**63 - 1


def is_id(value: object) -> bool:
    """Whether a value can be the id of a row."""
    return (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and 0 <= int(value) <= MAX_ID
    )


def next_ids(n_rows: int, next_id: int) -> Ids:
    """Return one id for each of so many new rows: the numbers from `next_id` on."""
    if next_id + n_rows - 1 > MAX_ID:
        raise InvalidInputError("ids are used up to 2**63 - 1. Give ids of your own.")
    return np.arange(next_id, next_id + n_rows, dtype=np.int64)


def given_ids(n_rows: int, ids: npt.ArrayLike | None) -> Ids | None:
    """Return a copy of the ids that a caller gave for so many new rows, all different; None where
    none were given.

    Writers call it before they take their lock: a caller's object may run any code when it is read.
    Whether the ids are in the index already is not asked here.
    """
    if ids is None:
        return None
    numbers = id_array(ids).copy()
    if len(numbers) != n_rows:
        raise InvalidInputError(f"ids must be one a row, got {len(numbers)} for {n_rows} rows.")
    if n_rows > 1:
        values, counts = np.unique(numbers, return_counts=True)
        if len(values) < n_rows:
            raise DuplicateIdError(
                f"ids must differ, given more than once: {some_of(values[counts > 1])}."
            )
    return numbers
