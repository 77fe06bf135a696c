"""How large windows should be: with small ones, nearly all windows of a sparse row are empty."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bitkin import theory
from bitkin.notices import warn_caller

MODERATE_SHARE = 0.25
"""Share of empty windows that a chosen window size aims at: retrieval was best from 0.1 to 0.35 on
bags and texts.
"""

WARNED_SHARE = 0.9
"""Share of empty windows above which a given window size is warned about."""

DEFAULT_WINDOW = 4
_RARE_ROWS = 100  # fewer than one in so many is rare
_HOLLOW = 4  # so many times fewer nonzeros than the mean are few


@dataclass(slots=True)
class Sparsity:
    """How many rows have how many components that are not zero; rows of zeros are left out."""

    n_features: int
    rows_with: dict[int, int] = field(default_factory=dict)

    def count(self, nonzeros: npt.NDArray[np.int64]) -> None:
        """Add rows, given by how many nonzeros each has."""
        for number, rows in zip(
            *np.unique(nonzeros[nonzeros > 0], return_counts=True), strict=True
        ):
            self.rows_with[int(number)] = self.rows_with.get(int(number), 0) + int(rows)

    def merge(self, other: Sparsity) -> Sparsity:
        """Return the counts of both sets of rows together."""
        both = Sparsity(self.n_features, dict(self.rows_with))
        for number, rows in other.rows_with.items():
            both.rows_with[number] = both.rows_with.get(number, 0) + rows
        return both

    @property
    def n_rows(self) -> int:
        """Rows with any nonzero."""
        return sum(self.rows_with.values())

    def fewest_usual(self) -> int:
        """Return the number of nonzeros below which a row is not like these: fewer than 99 % of
        them have, or than a quarter of the mean.

        With half of the mean, Fashion-MNIST (mean 388, 1 % below 150) loses 0.01 of recall once
        such rows are hashed by their nonzeros.
        """
        n_rows, below, usual = self.n_rows, 0, 0
        for number in sorted(self.rows_with):
            if below * _RARE_ROWS > n_rows:
                break
            usual = number
            below += self.rows_with[number]
        total = sum(number * rows for number, rows in self.rows_with.items())
        return max(usual, -(-total // (_HOLLOW * max(1, n_rows))))

    def empty_share(self, window: int, degree: int) -> float:
        """Return the expected share of empty windows: exact at degree 1, a rule of thumb above."""
        if not self.rows_with:
            return 0.0
        nonzeros = np.array(list(self.rows_with))
        # A window of K components of f nonzeros out of d features is empty with chance
        # C(d − f, K) / C(d, K); products of p factors are taken as nonzero with chance (f / d)^p.
        if degree == 1:
            shares = theory.empty_share(self.n_features, nonzeros, window)
        else:
            shares = (1.0 - (nonzeros / self.n_features) ** degree) ** window
        return float(np.average(shares, weights=list(self.rows_with.values())))

    def best_window(self, n_hashes: int, degree: int) -> int:
        """Return the smallest window that leaves a moderate share empty.

        It is at least 4, and at most what cuts one permutation of all features into `n_hashes`
        windows.
        """
        # The share of empty windows falls as windows grow: bisect for the first that is moderate.
        low = min(DEFAULT_WINDOW, self.n_features)
        high = max(low, self.n_features // n_hashes)
        while low < high:
            middle = (low + high) // 2
            if self.empty_share(middle, degree) <= MODERATE_SHARE:
                high = middle
            else:
                low = middle + 1
        return low

    def warn(
        self, window: int, measured: float, n_without: int, n_hashes: int, degree: int
    ) -> None:
        """Warn of a window that leaves nearly all windows empty, with one that would not."""
        if measured <= WARNED_SHARE:
            return
        better = self.best_window(n_hashes, degree)
        share = self.empty_share(better, degree)
        advice = f"window={better} would leave about {share:.0%}; window='auto' chooses it."
        if better <= window or share > WARNED_SHARE:
            advice = (
                "No window would do for so many hashes: take fewer, so that windows can be larger."
            )
        without = f", {n_without / self.n_rows:.0%} of rows get no code at all" if n_without else ""
        warn_caller(
            f"window={window} leaves {measured:.1%} of windows empty{without}, and codes tell "
            f"little apart. {advice}"
        )
