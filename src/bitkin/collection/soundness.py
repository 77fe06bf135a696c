"""Whether what a collection holds fits together."""

from __future__ import annotations

import numpy as np

from bitkin.collection.encoder import Encoder
from bitkin.collection.settings import Settings
from bitkin.collection.state import State
from bitkin.errors import CorruptFileError
from bitkin.index.rows.files import verify_rows
from bitkin.io.vectors.batch import first_not_finite

_ROWS_AT_ONCE = 1 << 14


def require_sound(state: State, settings: Settings, encoder: Encoder) -> None:
    """Raise CorruptFileError unless codes are sound, and all rows have an id, a vector and
    corrections of their own.
    """
    verify_rows(state.rows)
    numbers = state.rows.ids()
    given = state.ids.of(numbers)
    if not np.array_equal(state.ids.numbers(given), numbers):
        raise CorruptFileError(
            "the collection has rows whose ids belong to others. Build it again."
        )
    for first in range(0, len(numbers), _ROWS_AT_ONCE):
        some = numbers[first : first + _ROWS_AT_ONCE]
        if settings.vectors is not None and first_not_finite(state.kept.vectors(some)) is not None:
            raise CorruptFileError(
                "the collection has vectors that are not finite. Build it again."
            )
        if encoder.scorer is not None and not np.isfinite(state.kept.corrections(some)).all():
            raise CorruptFileError(
                "the collection has corrections that are not finite. Build it again."
            )
