"""Whether rows change along the file: means of consecutive stretches against what any order would
give.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Floats

_MOST_STRETCHES = 64
_FIRST_ROWS = 64  # of a stretch, until there are too many
_LONGEST = 2.0  # of the median length of the first rows: longer ones are shortened to that
_MOST_COLUMNS = 1 << 14  # further ones are added onto these
_ROUNDING = 1e-10  # of the squares of a column


class StretchMeans:
    """Sums of rows over at most 64 stretches of one length, whatever the number of rows.

    When there are too many stretches, each two neighbours become one.

    Parameters
    ----------
    n_features : int
        Length of a row. Where it is above 16,384, columns are added up modulo that: means that
        differ still do.
    """

    def __init__(self, n_features: int) -> None:
        self._rows_each = _FIRST_ROWS
        self._fold = _fold_matrix(n_features)
        self._sums = np.zeros((_MOST_STRETCHES, min(n_features, _MOST_COLUMNS)))
        self._squares = np.zeros(min(n_features, _MOST_COLUMNS))
        self._longest: float | None = None
        self._n = 0

    def update(self, rows: Any, squares: Floats) -> None:
        """Take in the next rows, float64, dense or CSR, which are used up, and their squared
        lengths.

        Rows far longer than usual are shortened: a few of them would hide what the others do.
        """
        if self._longest is None:
            positive = squares[squares > 0]
            self._longest = (
                _LONGEST * float(np.sqrt(np.median(positive))) if positive.size else None
            )
        if self._longest is not None:
            factors = self._longest / np.maximum(np.sqrt(squares), self._longest)
            if issparse(rows):
                rows.data *= np.repeat(factors, np.diff(rows.indptr))
            else:
                rows *= factors[:, None]
        if self._fold is not None:
            rows = csr_array(rows) @ self._fold
        if issparse(rows):
            self._squares += np.bincount(
                rows.indices, weights=rows.data**2, minlength=len(self._squares)
            )
        else:
            self._squares += np.einsum("ij,ij->j", rows, rows)
        at = 0
        while at < rows.shape[0]:
            stretch = self._n // self._rows_each
            if stretch == _MOST_STRETCHES:
                self._merge_pairs()
                continue
            stop = min(rows.shape[0], at + (stretch + 1) * self._rows_each - self._n)
            self._sums[stretch] += np.asarray(rows[at:stop].sum(axis=0)).reshape(-1)
            self._n += stop - at
            at = stop

    def share_between(self) -> tuple[float, float, float]:
        """Return the share of the variance that is between the means of stretches; what to expect
        of it where rows are in random order, and the standard deviation of that for rows that vary
        in one direction only, which is the most.
        """
        n_rows = self._row_counts()
        n_stretches = len(n_rows)
        mean = self._sums.sum(axis=0) / max(1, self._n)
        total = float(self._squares.sum()) - self._n * float(mean @ mean)
        if n_stretches < 2 or total <= 0:
            return 0.0, 0.0, 0.0
        means: Floats = self._sums[:n_stretches] / n_rows[:, None] - mean
        between = float(n_rows @ np.square(means).sum(axis=1)) / total
        # Under a random order every row of variance has (stretches − 1) / (n − 1) of it between.
        expected = (n_stretches - 1) / (self._n - 1)
        return min(1.0, between), expected, expected * math.sqrt(2 / (n_stretches - 1))

    def most_sorted_column(self) -> tuple[int, float]:
        """Return the column with the largest share of its own variance between stretches, and that
        share less what a random order would give; column −1 where columns are added up.
        """
        n_rows = self._row_counts()
        # in a short last stretch one row with a rare value would be the whole of it
        n_rows = n_rows[n_rows > self._rows_each // 2]
        n_stretches = len(n_rows)
        if n_stretches < 2:
            return -1, 0.0
        mean = self._sums.sum(axis=0) / self._n
        totals = self._squares - self._n * mean**2
        means: Floats = self._sums[:n_stretches] / n_rows[:, None] - mean
        # what rounding alone leaves of a constant column is no variance
        varies = totals > _ROUNDING * self._squares
        shares = np.where(varies, n_rows @ np.square(means) / np.where(varies, totals, 1.0), 0.0)
        column = int(np.argmax(shares))
        share = min(1.0, float(shares[column])) - (n_stretches - 1) / (self._n - 1)
        return -1 if self._fold is not None else column, max(0.0, share)

    def _row_counts(self) -> Floats:
        starts = np.arange(0, self._n, self._rows_each)
        return np.minimum(self._rows_each, self._n - starts).astype(np.float64)

    def _merge_pairs(self) -> None:
        half = _MOST_STRETCHES // 2
        self._sums[:half] = self._sums[0::2] + self._sums[1::2]
        self._sums[half:] = 0.0
        self._rows_each *= 2


def _fold_matrix(n_features: int) -> Any:
    """Return what adds columns up modulo `_MOST_COLUMNS`, or None where there is no need."""
    if n_features <= _MOST_COLUMNS:
        return None
    columns = np.arange(n_features) % _MOST_COLUMNS
    parts = (np.ones(n_features), columns, np.arange(n_features + 1))
    return csr_array(parts, shape=(n_features, _MOST_COLUMNS))
