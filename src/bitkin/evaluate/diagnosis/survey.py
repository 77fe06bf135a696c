"""The one pass over all rows: what is cheap enough to be known of every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import interrupts
from bitkin.arrays import Batch, Floats, Ids
from bitkin.errors import InvalidInputError
from bitkin.evaluate.diagnosis.copies import CopyCounter, hash_rows
from bitkin.evaluate.diagnosis.stretches import StretchMeans
from bitkin.hashers.projection.statistics import RowSample
from bitkin.hashers.wta.column_moments import ColumnMoments
from bitkin.hashers.wta.row_survey import count_nonzeros
from bitkin.hashers.wta.window_size import Sparsity
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import regroup
from bitkin.randomness import Draws

_NUMBERS_AT_ONCE = 1 << 20  # 8 MB in float64
_SPARSE_ROWS_AT_ONCE = 2048
_ORIGIN_ROWS = 63
_LARGEST = 1e140  # so that sums of 10²⁸ squares are finite
_SMALLEST = 1e-140  # of the largest number: squares of a 10¹⁴-th of it are not 0
MOST_FAR_ROWS = 16  # that are remembered


class DataSurvey:
    """Looks at every row of a source once.

    Attributes
    ----------
    n_rows, n_zero_rows : int
        Rows, and those of zeros alone.
    columns : ColumnMoments
        Mean, variance and range of every column.
    sample : RowSample
        Some rows, drawn at random.
    sparsity : Sparsity
        How many rows have how many numbers that are not 0.
    copies : CopyCounter
        Of rows that are not zero.
    stretches : StretchMeans
        Means along the file.
    whole : bool
        Whether all numbers are whole.
    least, greatest : float
        Of all numbers.
    """

    def __init__(self, source: VectorSource, sample_rows: int, seed: int) -> None:
        n_features = source.shape[1]
        self.n_rows = self.n_zero_rows = 0
        self.n_features = n_features
        self.sparse = source.sparse
        self.columns = ColumnMoments(n_features)
        self.sample = RowSample(int(Draws(seed, "diagnose").words(1)[0]), sample_rows)
        self.sparsity = Sparsity(n_features)
        self.copies = CopyCounter()
        self.stretches = StretchMeans(n_features)
        self.whole = True
        self.least, self.greatest = np.inf, -np.inf
        self._origin: Floats | None = None
        self._far_rows = np.empty(0, dtype=np.int64)
        self._far_squares = np.empty(0)
        self._squares = 0.0
        # always the same rows at once, however the source cuts them: so sums round alike
        rows = _SPARSE_ROWS_AT_ONCE if source.sparse else max(1, _NUMBERS_AT_ONCE // n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in regroup((batch for _, batch in source.batches(rows)), rows):
                interrupts.check()
                self._look(self.n_rows, batch)
        self._require_enough(source.name)

    @property
    def zero_share(self) -> float:
        """Share of the numbers that are 0."""
        return self.columns.zero_share

    def far_rows(self, square: float) -> tuple[Ids, float]:
        """Return the rows whose squared distance from the middle is above `square`, farthest first,
        at most 16, and their share of all squared distances.
        """
        far = self._far_squares > square
        total = self._squares or 1.0
        return self._far_rows[far], float(self._far_squares[far].sum() / total)

    def squares_from_middle(self, rows: Batch) -> Floats:
        """Return the squared distance of rows from the middle, as the pass measured it: from the
        median of some early rows, or from zero where rows are sparse.
        """
        return _squared_lengths(self._about_origin(rows))

    def _look(self, first: int, batch: Batch) -> None:
        self.n_rows += batch.shape[0]
        self.columns.update(batch)
        self.sample.update(first, batch)
        nonzeros = count_nonzeros(batch)
        self.sparsity.count(nonzeros)
        self.n_zero_rows += int((nonzeros == 0).sum())
        self.copies.count(hash_rows(batch)[nonzeros > 0])
        self._look_at_numbers(batch.data if issparse(batch) else batch)
        if self._origin is None:
            self._origin = _find_origin(batch)
        centred = self._about_origin(batch)
        squares = _squared_lengths(centred)
        self._remember_far(first, squares)
        self.stretches.update(centred, squares)

    def _look_at_numbers(self, numbers: npt.NDArray[Any]) -> None:
        if numbers.size:
            self.least = min(self.least, float(numbers.min()))
            self.greatest = max(self.greatest, float(numbers.max()))
        if self.whole and numbers.dtype.kind == "f":
            self.whole = bool((np.rint(numbers) == numbers).all())

    def _remember_far(self, first: int, squares: Floats) -> None:
        self._squares += float(squares.sum())
        every = np.concatenate([self._far_squares, squares])
        rows = np.concatenate([self._far_rows, np.arange(first, first + len(squares))])
        order = np.lexsort((rows, -every))[:MOST_FAR_ROWS]
        self._far_squares, self._far_rows = every[order], rows[order]

    def _about_origin(self, rows: Batch) -> Any:
        wide = rows.astype(np.float64)
        if issparse(wide):
            return wide
        wide -= self._origin
        return wide

    def _require_enough(self, name: str) -> None:
        if self.n_rows < 2:
            raise InvalidInputError(f"{name} must have at least 2 rows, got {self.n_rows}.")
        largest = max(-self.least, self.greatest)
        if largest > _LARGEST:
            raise InvalidInputError(
                f"{name} has numbers up to {largest:.3g}, and sums of their squares are beyond the "
                "range of float64. Divide all of them by the same large number."
            )
        if 0 < largest < _SMALLEST:
            raise InvalidInputError(
                f"{name} has no number beyond {largest:.3g}, and their squares are 0 in float64. "
                "Multiply all of them by the same large number."
            )


def _find_origin(batch: Batch) -> Floats:
    """Return the lower median of every column over up to 63 rows of a dense batch: rows far from
    all others do not move it, and it is exact where a column is constant.
    """
    if issparse(batch):
        return np.zeros(0)
    count = min(batch.shape[0], _ORIGIN_ROWS)
    some = batch[np.arange(count) * batch.shape[0] // count].astype(np.float64)
    middle = (count - 1) // 2
    median: Floats = np.partition(some, middle, axis=0)[middle]
    return median


def _squared_lengths(rows: Any) -> Floats:
    if issparse(rows):
        squares: Floats = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
        return squares
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
