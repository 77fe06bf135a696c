"""Standardizing: the features of a row, centred and scaled before they are compared, and when that
is worth it.

A window tells little where the same feature nearly always wins, because its numbers are larger in
every row. Subtracting the mean of each feature makes winners those that are large *for them*. In a
sparse row zero means absent: such rows are left as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.wta.column_moments import ColumnMoments
from bitkin.kernels.blocks import read_only

AUTOMATIC_FEATURES = 1 << 16
"""Features up to which "auto" considers to centre: a centred row is dense."""

_FEWEST_ROWS = 10  # with fewer rows "auto" does not trust a mean
_FEW_ZEROS, _MANY_ZEROS = 0.25, 0.9
_SHARE_BETWEEN = 0.05
_UNITS_APART = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Standardizer:
    """z = (x − centre) · factors in float64, each of the two only where it is given.

    `centre` and `factors` are float64 (n_features,), or None. A row with fewer than
    `fewest_nonzeros` of them is hollow: centred, its zeros would say the same in every such row, so
    windows that look at zeros only are empty. In other rows a zero is a number like any other.
    """

    centre: Floats | None = None
    factors: Floats | None = None
    fewest_nonzeros: int = 0

    @property
    def keeps_zeros(self) -> bool:
        """Whether a zero stays one, so that sparse rows stay sparse."""
        return self.centre is None

    @property
    def changes_rows(self) -> bool:
        """Whether there is anything to do."""
        return self.centre is not None or self.factors is not None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what decides codes, by name: for files and fingerprints."""
        parts = {"centre": self.centre, "factors": self.factors}
        return {name: part for name, part in parts.items() if part is not None}

    def of_columns(self, columns: npt.NDArray[np.int64]) -> Standardizer:
        """Return what to do with rows that have these columns alone."""
        centre = None if self.centre is None else self.centre[columns]
        factors = None if self.factors is None else self.factors[columns]
        return Standardizer(centre, factors, self.fewest_nonzeros)

    def apply_into(self, rows: npt.NDArray[Any], out: Floats) -> Floats:
        """Write dense rows, standardized, to the first rows of `out`; return those."""
        numbers, out = rows, out[: len(rows)]
        # one operation at a time, each rounded to float64: the same bits on every machine
        if self.centre is not None:
            numbers = np.subtract(numbers, self.centre, out=out)
        if self.factors is not None:
            np.multiply(numbers, self.factors, out=out)
        return out

    def scale_entries(self, numbers: npt.NDArray[Any], columns: npt.NDArray[Any]) -> Floats:
        """Return the stored numbers of CSR rows, scaled: for a standardizer that keeps zeros."""
        wide: Floats = numbers.astype(np.float64, copy=False)
        return wide if self.factors is None else wide * self.factors[columns]


def choose_standardizer(
    center: bool | str, scale: bool | str, degree: int, moments: ColumnMoments | None
) -> Standardizer:
    """Return what to do with rows like those seen; `moments` is None where none were needed.

    Parameters
    ----------
    center : bool or "auto"
        "auto" centres where few numbers are zero; where more are, if features differ in their means
        by more than bags of words do, or an even degree would lose signs; and never with very many
        zeros.
    scale : bool or "auto"
        "auto" scales what is centred where the spreads of features are orders of magnitude apart.
    degree : int
        Products of negative numbers would be positive: from degree 2 on the centre is moved so far
        down that no fitted number is below it. At degree 1 that would change nothing.
    moments : ColumnMoments or None
        What is known of the rows.
    """
    if moments is None:
        return Standardizer()
    if center == "auto":
        center = _is_centring_worth_it(moments, degree)
    if scale == "auto":
        scale = bool(center) and _are_units_apart(moments)
    factors = _find_factors(moments) if scale else None
    if not center:
        return Standardizer(None, factors)
    centre = moments.mean
    if degree > 1:
        # the deepest that any standardized number goes: every centre is moved down by so many
        # of its feature's units
        units = np.ones(len(centre)) if factors is None else 1.0 / factors
        with np.errstate(all="ignore"):
            centre = centre + ((moments.least - centre) / units).min() * units
    if not np.isfinite(centre).all():
        raise InvalidInputError(
            "center must be False here: the sums of X overflow float64. Divide X by its largest "
            "number first."
        )
    return Standardizer(read_only(centre), factors)


def _is_centring_worth_it(moments: ColumnMoments, degree: int) -> bool:
    if moments.n_features > AUTOMATIC_FEATURES or moments.n_rows < _FEWEST_ROWS:
        return False
    if moments.zero_share > _MANY_ZEROS or moments.constant.all():
        return False
    between = moments.share_between()
    if math.isnan(between):
        return False
    loses_signs = degree % 2 == 0 and bool((moments.least < 0).any())
    return loses_signs or moments.zero_share <= _FEW_ZEROS or between > _SHARE_BETWEEN


def _are_units_apart(moments: ColumnMoments) -> bool:
    """Tell whether a twentieth of the features spreads over ten times as far as the median one."""
    variances = np.sort(moments.variance[~moments.constant])
    if not len(variances) or not np.isfinite(variances[-1]):
        return False
    spreads = np.sqrt(variances)
    return bool(spreads[19 * len(spreads) // 20] > _UNITS_APART * spreads[len(spreads) // 2])


def _find_factors(moments: ColumnMoments) -> Floats:
    variances = moments.variance
    if not np.isfinite(variances).all():
        raise InvalidInputError(
            "scale must be False here: the squares of X overflow float64. Divide X by its largest "
            "number first."
        )
    with np.errstate(divide="ignore"):
        factors = 1.0 / np.sqrt(variances)
    # a feature that never varied has no unit of its own
    return read_only(np.where(np.isfinite(factors), factors, 1.0))
