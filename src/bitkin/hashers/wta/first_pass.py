"""The first pass over the rows of a `fit`: how they are, and how many of their windows are empty.

Rows may be in several places: whatever is handed to `VectorSource.fold` is picklable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bitkin.hashers.wta.row_survey import RowSurvey

Counts: TypeAlias = npt.NDArray[np.int64]
"""Empty windows of rows with a filled one, those rows, and the others: `WTAHash.count_empty`."""
CountEmpty: TypeAlias = Callable[[Any], Counts]


@dataclass(slots=True)
class FirstPass:
    """What one pass over rows tells."""

    survey: RowSurvey
    counts: Counts | None
    """None once it is known not to matter."""

    @classmethod
    def begin(cls, survey: Callable[[], RowSurvey]) -> FirstPass:
        """Return a pass that has seen no row."""
        return cls(survey(), no_windows())

    @staticmethod
    def look(
        may_skip: bool, count_empty: CountEmpty, seen: FirstPass, _: int, batch: Any
    ) -> FirstPass:
        """Take in more rows.

        Centred rows have no empty windows to count. Where the rows so far are not for centring, all
        are counted on the way; an iterator cannot be read again for it (`may_skip`).
        """
        seen.survey.look(batch)
        if may_skip and seen.counts is not None and seen.survey.will_centre():
            seen.counts = None
        if seen.counts is not None:
            seen.counts += count_empty(batch)
        return seen

    def merge(self, other: FirstPass) -> FirstPass:
        """Return the pass over both sets of rows."""
        survey = self.survey.merge(other.survey)
        if self.counts is None or other.counts is None:
            return FirstPass(survey, None)
        return FirstPass(survey, self.counts + other.counts)


def look_at_rows(survey: RowSurvey, _: int, batch: Any) -> RowSurvey:
    """Take more rows into a survey alone."""
    return survey.look(batch)


def no_windows() -> Counts:
    """Return the counts of no rows."""
    return np.zeros(3, dtype=np.int64)


def count_windows(count_empty: CountEmpty, counts: Counts, _: int, batch: Any) -> Counts:
    """Add the counts of more rows."""
    return counts + count_empty(batch)
