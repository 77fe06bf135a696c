"""What is measured on a sample of the rows: lengths, the spectrum, and whether the first and the
last part of the file lie in the same directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch, Flags, Floats, Ids
from bitkin.evaluate.diagnosis.survey import DataSurvey
from bitkin.hashers.projection.statistics import RowMean
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.spectra import leading_directions
from bitkin.randomness import Draws

FAR = 100.0
"""A row is far off where its squared distance from the middle is so many times the median."""

_MOST_SIDE = 2048  # features up to which their covariance is made; else that of fewer rows
_MOST_PRODUCTS = 4e10  # multiplications of a covariance: about two seconds
_DIRECTIONS = 16
_FEWEST_PART_ROWS, _MOST_PART_ROWS = 400, 2_000


@dataclass(frozen=True, eq=False)
class DataSample:
    """Rows drawn at random, in the order of the file."""

    rows: Batch
    numbers: Ids
    usual: Flags
    """Which rows are not far off: what they look like is not told by the few that are."""
    far_square: float
    """Squared distance from the middle above which a row is far off."""
    seed: int

    @classmethod
    def from_survey(cls, survey: DataSurvey, seed: int) -> DataSample:
        """Take the rows that a pass has drawn."""
        rows = survey.sample.rows
        squares = survey.squares_from_middle(rows)
        positive = squares[squares > 0]
        far_square = FAR * float(np.median(positive)) if positive.size else np.inf
        return cls(rows, survey.sample.row_numbers, squares <= far_square, far_square, seed)

    @cached_property
    def lengths(self) -> Floats:
        """Of usual rows that are not zero."""
        rows = self.rows[self.usual]
        if issparse(rows):
            rows = rows.astype(np.float64)
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
        else:
            squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return np.asarray(np.sqrt(squares[squares > 0]))

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of usual rows."""
        rows = self.rows[self.usual]
        n, d = rows.shape
        most = _MOST_SIDE if d > _MOST_SIDE else max(2 * d, int(_MOST_PRODUCTS / d**2))
        if n > most:
            rows = rows[np.sort(Draws(self.seed, "spectrum").choice(n, most))]
        return Spectrum.of_rows(rows)

    @cached_property
    def column_variances(self) -> Floats:
        """Of usual rows."""
        rows = self.rows[self.usual]
        centred = CentredRows(rows, RowMean(rows.shape[1]).update(rows).mean)
        return np.asarray(centred.column_lengths_squared() / max(1, rows.shape[0]))

    def variance_lost_at_the_end(self) -> float | None:
        """Return which share of the variance of the last fifth of the file the directions of the
        first fifth miss, beyond what those of the last fifth itself miss, or the other way around,
        whichever is less; None where there are too few rows.
        """
        rows = self.rows[self.usual]
        size = min(rows.shape[0] // 5, _MOST_PART_ROWS)
        if size < _FEWEST_PART_ROWS:
            return None
        k = min(_DIRECTIONS, max(1, rows.shape[1] // 4))
        first, last = rows[:size], rows[rows.shape[0] - size :]
        draws = Draws(self.seed, "stretches")
        # what is chance seldom comes both ways
        lost = min(_variance_lost(*parts, k, draws) for parts in ((first, last), (last, first)))
        return max(0.0, lost)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Shares of the variance, largest first."""

    shares: Floats
    total: float
    """The variance of all columns together."""
    participation: float
    """(Σλ)² / Σλ²: as many equal directions would be as even."""

    @classmethod
    def of_rows(cls, rows: Batch) -> Spectrum:
        """Find the eigenvalues of the covariance, on the smaller side."""
        n, d = rows.shape
        centred = CentredRows(rows, RowMean(d).update(rows).mean)
        matrix = centred.scatter() if d <= n else centred.gram()
        with threads.blas_in_one_thread():
            values = scipy.linalg.eigvalsh(matrix, overwrite_a=True, check_finite=False)[::-1]
        values = np.maximum(values, 0.0) / max(1, n - 1)
        total = float(values.sum())
        if total <= 0:
            return cls(np.zeros(0), 0.0, 0.0)
        shares = values / total
        # The squares of sampled shares are too large by about 1 / n.
        fair = max(float(shares @ shares) - 1 / max(1, n - 1), 1 / min(d, 4 * n))
        return cls(shares, total, max(1.0, 1 / fair))

    def n_directions(self, share: float) -> int:
        """Return how many directions have such a share of the variance."""
        if not self.shares.size:
            return 0
        return 1 + int(np.searchsorted(np.cumsum(self.shares), share * (1 - 1e-12)))


def _variance_lost(first: Batch, last: Batch, k: int, draws: Draws) -> float:
    """Return how much less of the variance of `last` the directions of `first` have than its own:
    those are found on every other row, and both are tried on the rest.
    """
    learned, tried = last[0::2], last[1::2]
    own, other = (_share_kept(_directions(part, k, draws), tried) for part in (learned, first))
    return own - other


def _directions(rows: Batch, k: int, draws: Draws) -> Floats:
    centred = CentredRows(rows, RowMean(rows.shape[1]).update(rows).mean)
    return leading_directions(centred, min(k, rows.shape[0]), draws)[1]


def _share_kept(directions: Floats, rows: Batch) -> float:
    """Return the share of the variance of rows that lies in some directions."""
    centred = CentredRows(rows, RowMean(rows.shape[1]).update(rows).mean)
    total = float(centred.lengths_squared().sum())
    return float(np.square(centred.times(directions)).sum()) / total if total > 0 else 1.0
