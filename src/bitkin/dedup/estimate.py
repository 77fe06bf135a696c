"""Estimates: candidates whose codes agree far too seldom for the threshold are never compared
exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.hashers.minhash.jaccard import rounds_factor
from bitkin.index.bands.bands import BandPlan, Rows

# for every pair right at the threshold that no band finds, how many more may be given up here
MISSES_ADDED = 0.01

_PAIRS_PER_PIECE = 1 << 14
_CLASSES_PER_DOUBLING, _DOUBLINGS = 4, 5


class Estimate:
    """How many symbols of two codes must be equal for the sets to be worth comparing.

    Of pairs right at `threshold` a share of at most `MISSES_ADDED` times what the bands miss has
    fewer; of pairs above it still less. The number of equal symbols is taken as that of as many
    independent ones as have its variance, which is known from the sizes of the sets
    (`rounds_factor`). Sets with fewer members together than symbols, for which that is too
    coarse, are always worth it: they are quick to compare.

    Attributes
    ----------
    sizes : int64 (classes,)
        Least number of members that both sets have together, for every class; below the first, all
        are compared.
    least : int64 (classes + 1,)
        Equal symbols needed, for sizes below the first and for every class.
    """

    def __init__(self, threshold: float, plan: BandPlan, spec: CodeSpec) -> None:
        n, collide = spec.n_symbols, 1.0 / spec.alphabet_size
        steps = np.arange(_CLASSES_PER_DOUBLING * _DOUBLINGS + 1)
        self.sizes = np.ceil(n * 2.0 ** (steps / _CLASSES_PER_DOUBLING)).astype(np.int64)
        nothing = np.zeros(1)
        factors = rounds_factor(np.array([[threshold]]), self.sizes.astype(np.float64), nothing, n)[
            :, 0
        ]
        # It rises with the size, so that within a class it is no larger than at the upper end.
        factors = np.maximum(factors, np.append(factors[1:], 1.0))
        # At a Jaccard similarity of J hashes are equal with chance J. Of others, one in R (the
        # alphabet) is cut to the same symbol: P(equal) = J + (1 − J)/R.
        equal = threshold + (1.0 - threshold) * collide
        # Variance of the share of equal symbols, times n: that of equal hashes, with the factor f
        # of bins by rounds (1 − 1/R)²·J(1 − J)·f, and that of chance, (1 − J)·(1/R)(1 − 1/R).
        variance = threshold * (1.0 - threshold) * factors * (1.0 - collide) ** 2
        variance += (1.0 - threshold) * collide * (1.0 - collide)
        allowed = MISSES_ADDED * (1.0 - plan.probability(threshold))
        # As many independent symbols as have that variance: m with p(1 − p)/m = variance/n.
        independent = [
            n if one == 0 else max(1, int(n * equal * (1.0 - equal) / one))
            for one in variance.tolist()
        ]
        # The least share of equal symbols that all but `allowed` of the pairs at J reach.
        shares = [_quantile(allowed, many, equal) / many for many in independent]
        self.least = np.concatenate(([0], np.floor(n * np.array(shares)).astype(np.int64)))

    def worth_comparing(
        self, codes: Codes, sizes: Rows, first: Rows, second: Rows
    ) -> npt.NDArray[np.bool_]:
        """Return for every pair of rows of `codes`, whose sets have `sizes`, whether to compare it:
        bool (pairs,).
        """
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.search.bands import equal_symbols_into

        words, n_symbols = read_only(codes.words), codes.spec.n_symbols
        worth = np.empty(len(first), dtype=np.bool_)

        def compare_piece(start: int) -> None:
            which = slice(start, start + _PAIRS_PER_PIECE)
            a, b = first[which], second[which]
            equal = np.empty(len(a), dtype=np.int64)
            equal_symbols_into(words, n_symbols, read_only(a), read_only(b), equal)
            worth[which] = (
                equal >= self.least[np.searchsorted(self.sizes, sizes[a] + sizes[b], side="right")]
            )

        threads.run(compare_piece, range(0, len(first), _PAIRS_PER_PIECE))
        return worth


def _quantile(allowed: float, n: int, chance: float) -> int:
    """Return the largest k for which fewer than k of `n` tosses succeed with a chance of at most
    `allowed`.
    """
    from scipy.special import bdtr

    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if bdtr(middle - 1, n, chance) <= allowed:
            low = middle
        else:
            high = middle - 1
    return low
