"""What `fit` learns of rows in one pass, whatever is made of it: how sparse they are, whether any
number is negative, and the moments of features where they are needed.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.hashers.lengths import NO_LENGTHS
from bitkin.hashers.wta.column_moments import ColumnMoments
from bitkin.hashers.wta.standardizer import AUTOMATIC_FEATURES, Standardizer, choose_standardizer
from bitkin.hashers.wta.window_size import Sparsity
from bitkin.notices import warn_caller

# Of lengths: standard deviation / mean. Sets as they come have 0.00 to 0.31, and centring gains on
# them; with 0.54 to 0.65 (times U(0.2, 5)) it loses 0.06 to 0.29 of the neighbours by cosine.
_MOST_SPREAD = 0.45
_LENGTHS_PER_BATCH = 1024  # of evenly spaced rows, which tell a spread well enough


class RowSurvey:
    """Looks at every fitted row once.

    Parameters
    ----------
    n_features : int
        Length of a row.
    center, scale, degree
        The hasher's parameters, which decide what has to be known.
    """

    def __init__(self, n_features: int, center: bool | str, scale: bool | str, degree: int) -> None:
        self.n_rows = 0
        self.sparsity = Sparsity(n_features)
        self._center = center
        self._scale = scale
        self._degree = degree
        undecided = center == "auto" and n_features <= AUTOMATIC_FEATURES
        needed = undecided or any(flag != "auto" and flag for flag in (center, scale))
        self._moments = ColumnMoments(n_features) if needed else None
        self._has_negative = False
        self._lengths = NO_LENGTHS
        self._watches_lengths = undecided

    def look(self, batch: Any) -> Self:
        """Take in more rows."""
        self.n_rows += batch.shape[0]
        self.sparsity.count(count_nonzeros(batch))
        if self._moments is not None:
            self._moments.update(batch)
        if self._watches_lengths:
            some = batch[:: -(-batch.shape[0] // _LENGTHS_PER_BATCH) or 1]
            with np.errstate(over="ignore"):
                self._lengths = self._lengths.with_rows(some)
        if self._degree % 2 == 0 and not self._has_negative:
            numbers = batch.data if issparse(batch) else batch
            self._has_negative = bool(numbers.size and numbers.min() < 0)
        return self

    def merge(self, other: RowSurvey) -> RowSurvey:
        """Return the survey of both sets of rows together, by the same parameters."""
        both = RowSurvey(self.sparsity.n_features, self._center, self._scale, self._degree)
        both.n_rows = self.n_rows + other.n_rows
        both.sparsity = self.sparsity.merge(other.sparsity)
        if self._moments is not None and other._moments is not None:
            both._moments = self._moments.merge(other._moments)
        both._lengths = self._lengths.plus(other._lengths)
        both._has_negative = self._has_negative or other._has_negative
        return both

    def standardizer(self) -> Standardizer:
        """Choose what to do with rows before they are hashed, and warn where that cannot be
        good.
        """
        chosen = choose_standardizer(self._center, self._scale, self._degree, self._moments)
        if not chosen.keeps_zeros and self._moments is not None and self._moments.constant.all():
            warn_caller(
                "center=True leaves nothing of rows that are all the same: no feature varies. "
                "Fit on more rows, or take center=False."
            )
        if self._has_negative and chosen.keeps_zeros:
            warn_caller(
                f"degree={self._degree} is even, and X has negative numbers: their products are "
                "positive, so that a row and its opposite get the same code. Take center=True, "
                "an odd degree, or features that are not negative."
            )
        if not chosen.keeps_zeros and self._watches_lengths and self._lengths.n:
            self._warn_of_lengths()
        return chosen

    def will_centre(self) -> bool:
        """Tell whether rows like those seen so far are centred; more rows may change that."""
        chosen = choose_standardizer(self._center, self._scale, self._degree, self._moments)
        return not chosen.keeps_zeros

    def _warn_of_lengths(self) -> None:
        """Warn where centred codes depend on lengths so much that cosine neighbours are lost."""
        with np.errstate(all="ignore"):
            spread = self._lengths.spread
        if spread > _MOST_SPREAD:
            warn_caller(
                f"X has rows of very different lengths (a standard deviation of {spread:.0%} of "
                "their mean), and center='auto' centres them: the codes are for l2, and by cosine "
                "many neighbours would be missed. For cosine give center=False, or scale rows to "
                "length 1 first; for l2 give center=True, which says nothing."
            )

    def constant_share(self, features: npt.NDArray[np.uint32]) -> float:
        """Return the share of windows whose features never vary, given those of every window: what
        centring leaves empty.
        """
        if self._moments is None or self._degree > 1:  # whose centre is below all numbers
            return 0.0
        return float(self._moments.constant[features].all(axis=1).mean())


def count_nonzeros(batch: Any) -> npt.NDArray[np.int64]:
    """Count the components of every row that are not zero."""
    counts: npt.NDArray[np.int64]
    if issparse(batch):
        # Nonzeros before every stored entry: CSR may store zeros, too.
        stored = np.concatenate([[0], np.cumsum(batch.data != 0)])
        counts = np.diff(stored[batch.indptr])
        return counts
    counts = np.count_nonzero(batch, axis=1).astype(np.int64, copy=False)
    return counts
