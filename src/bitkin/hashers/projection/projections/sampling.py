"""Samples of rows and of features, weighted so that they stand for all of them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.row_sample import row_count
from bitkin.hashers.projection.statistics.sums import column_sums
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.notices import warn_caller
from bitkin.randomness import Draws

# so small a matrix is sampled for form's sake: no word about it
_SMALL_N_ROWS, _SMALL_N_FEATURES = 1000, 100
_MOST_ROWS, _MOST_ROWS_PER_BIT = 8192, 32


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows:
    """The paper's C, transposed: rows, each times its weight once `mean` is subtracted."""

    rows: Batch
    numbers: npt.NDArray[np.int64]
    """Which rows they are."""

    weights: Floats
    mean: Floats
    mean_square: float
    """Mean of ‖x‖² over all rows: known, or as the sample has it."""

    n: int
    """How many rows there were."""

    def centred(self, center: bool) -> CentredRows:
        """Return the sample about its mean, or about zero."""
        return CentredRows(
            self.rows, self.mean if center else np.zeros_like(self.mean), self.weights
        )


_ROUNDING = 1e-14


def most_rows(n_bits: int) -> int:
    """Return how many rows a share stands for at most: more do not make better directions, and
    would take as much memory as there is.
    """
    return max(_MOST_ROWS, _MOST_ROWS_PER_BIT * n_bits)


def uniform_rows(
    rows: Batch,
    numbers: npt.NDArray[np.int64],
    n: int,
    size: int | float,
    n_bits: int,
    *,
    center: bool,
) -> SampledRows:
    """Return rows drawn without replacement, `size` of `n`, as a sample; the mean is theirs."""
    _warn_of_raised_size("samples", size, n, n_bits + center, "rows", _SMALL_N_ROWS)
    c = rows.shape[0]
    mean = column_sums(rows) / c
    # weights √(n/c): then E[C Cᵀ] is the scatter of all n rows
    return SampledRows(
        rows, numbers, np.full(c, np.sqrt(n / c)), mean, CentredRows(rows, mean).mean_square(), n
    )


def rows_by_norms(
    vectors: TrainingVectors, size: int | float, n_bits: int, draws: Draws
) -> SampledRows:
    """Draw rows with replacement, by their squared distances to the mean of all rows. Reads all
    rows twice before.
    """
    n = vectors.n_rows
    if n is None:
        raise InvalidInputError(
            f"{vectors.source.name} is an iterator, and sampling='norms' reads rows more than "
            "once. Use sampling='uniform', or open an array or a file."
        )
    mean = vectors.mean_of_all().mean
    centre = mean if vectors.center else np.zeros_like(mean)
    # parts are merged in the order of their rows
    parts = vectors.fold(list, partial(_add_lengths, centre), operator.add)
    lengths = np.concatenate(parts)
    fewest = n_bits + vectors.center
    _warn_of_raised_size("samples", size, n, fewest, "rows", _SMALL_N_ROWS)
    count = max(fewest, row_count(n, size, at_most=most_rows(n_bits)))
    drawn, weights = draw_by_lengths(lengths, count, fewest, draws)
    # of all rows, not of the long ones drawn
    # E‖x‖² = E‖x − m‖² + ‖m‖²
    mean_square = float(lengths.sum()) / n + float(np.square(centre).sum())
    return SampledRows(vectors.gather(drawn), drawn, weights, mean, mean_square, n)


def _add_lengths(centre: Floats, parts: list[Floats], _: int, batch: Batch) -> list[Floats]:
    parts.append(CentredRows(batch, centre).lengths_squared())
    return parts


def uniform_features(
    rows: CentredRows, size: int | float, n_bits: int, draws: Draws
) -> tuple[CentredRows, npt.NDArray[np.int64]]:
    """Return the paper's W, transposed: features drawn without replacement; and which they are."""
    d = rows.shape[1]
    _warn_of_raised_size("features", size, d, n_bits, "features", _SMALL_N_FEATURES)
    # r of d features, times √(d/r): E[W Wᵀ] = C Cᵀ
    r = max(n_bits, row_count(d, size))
    chosen = np.sort(draws.choice(d, r))
    return _take_features(rows, chosen, np.full(r, np.sqrt(d / r))), chosen


def features_by_norms(
    rows: CentredRows, size: int | float, n_bits: int, draws: Draws
) -> tuple[CentredRows, npt.NDArray[np.int64]]:
    """Return the paper's W, transposed: features drawn with replacement, by their squared lengths;
    and which.
    """
    d = rows.shape[1]
    _warn_of_raised_size("features", size, d, n_bits, "features", _SMALL_N_FEATURES)
    drawn, weights = draw_by_lengths(
        rows.column_lengths_squared(), max(n_bits, row_count(d, size)), n_bits, draws
    )
    return _take_features(rows, drawn, weights), drawn


def draw_by_lengths(
    lengths: Floats, count: int, different: int, draws: Draws
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Draw `count` positions with replacement, chances pᵢ as `lengths`, and return them with
    weights 1/√(count · pᵢ).

    Where fewer than `different` positions have come and more could, the longest of the others are
    added with weight 1. What is no longer than rounding leaves behind counts as nothing.
    """
    total = lengths.sum()
    if not total > 0:
        raise InvalidInputError(
            f"sampling='norms' needs rows that differ, got n_samples = {len(lengths)} rows that "
            "are all the same."
        )
    lengths = np.where(lengths > _ROUNDING * total, lengths, 0.0)
    # Inverse transform: position i is drawn where a uniform number falls between the cumulated
    # chances before and after it. Uniform numbers have 53 bits, as many as float64 holds.
    ends = np.cumsum(lengths / total)
    uniform = (draws.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    drawn = np.searchsorted(ends, uniform * ends[-1], side="right").astype(np.int64)
    # ConstantTimeSVD: pᵢ = ‖xᵢ‖²/‖X‖²_F and weight 1/√(c·pᵢ)
    weights = 1.0 / np.sqrt(count * lengths[drawn] / total)
    # Too few different positions would not span enough directions: add the longest of the others.
    seen = np.unique(drawn)
    left = lengths.copy()
    left[seen] = 0.0
    missing = min(different - len(seen), int(np.count_nonzero(left)))
    if missing <= 0:
        return drawn, weights
    longest = np.sort(np.argsort(-left, kind="stable")[:missing])
    return np.concatenate([drawn, longest]), np.concatenate([weights, np.ones(missing)])


def _take_features(
    rows: CentredRows, columns: npt.NDArray[np.int64], weights: Floats
) -> CentredRows:
    chosen = rows.rows[:, columns]
    # W = C · diag(weights): weights that are all the same are moved to the rows' side, where they
    # need no copy of the numbers.
    if (weights != weights[0]).any():
        small = weights.astype(np.float32)
        chosen = csr_array(chosen * small) if rows.sparse else chosen * small
        return CentredRows(chosen, rows.centre[columns] * small, rows.weights)
    return CentredRows(chosen, rows.centre[columns], rows.weights * weights[0])


def _warn_of_raised_size(
    name: str, size: int | float, of: int, fewest: int, what: str, few: int
) -> None:
    """Warn of a sample too small for the number of bits."""
    count, fewest = row_count(of, size), min(fewest, of)
    if count < fewest and of >= few:
        warn_caller(
            f"{name}={size!r} is {count:,} of {of:,} {what}, fewer than n_bits needs: raised to "
            f"{fewest:,}. More give better directions."
        )
