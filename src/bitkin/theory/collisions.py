"""Winner-take-all: how often two vectors get the same code, plain and densified, and which ranks
win.

A window is `window` (the papers' K) of the n features in random order, drawn without replacement.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.theory._arguments import Integers, check_vector_pair
from bitkin.theory.orders import below_in_both, count_above, rank_agreement, ranks_of


def wta_similarity(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return S_K = Σᵢ C(Rᵢ, K − 1) / C(n, K) (WTA, Eq. 6): how often two vectors without ties get
    the same code.

    With ties it is the share of windows that one feature wins in both vectors against all others, a
    lower bound of `wta_collision`. Without ties S₂ is Kendall's τ: τ = 2 · S₂ − 1.

    Examples
    --------
    >>> round(wta_similarity([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1], window=2), 3)
    0.4
    """
    x, y = check_vector_pair(x, y)
    window = whole_number(window, "window", low=1, high=len(x))
    won = winner_rank_distribution(len(x), window)[::-1]
    return float(won[rank_agreement(x, y)].sum())


def wta_collision(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return the chance that plain winner-take-all gives `x` and `y` the same code, ties included.

    Of equals the first in the window wins, so binary vectors and `window` = n give their Jaccard
    similarity.

    Notes
    -----
    Let Mᵢ count the features at or below i in both vectors, i included, and Rᵢ those below it in
    both. Feature i wins both sides where the window lies within the Mᵢ and i comes first among its
    members outside the Rᵢ, which number t + 1 with chance C(Mᵢ − Rᵢ − 1, t) · C(Rᵢ, K − 1 − t) /
    C(n, K). Summed with weights 1 / (t + 1), by Vandermonde: (C(Mᵢ, K) − C(Rᵢ, K)) / ((Mᵢ − Rᵢ) ·
    C(n, K)). Where nothing ties, Mᵢ = Rᵢ + 1 and that is Eq. 6.

    Examples
    --------
    >>> round(wta_collision([1, 1, 0, 0], [1, 0, 1, 0], window=4), 3)  # one of three
    0.333
    """
    x, y = check_vector_pair(x, y)
    window = whole_number(window, "window", low=1, high=len(x))
    return float(_chances_to_win_both(ranks_of(x), ranks_of(y), _within(len(x), window)).sum())


def good_kernel(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return the kernel of densified codes (DWTA, Theorem 1): P(both filled, same winner) / P(not
    both empty).

    A window is empty in a vector where all its components are zero; one of zeros and negatives is
    won by its first zero. Two zero vectors never have a filled window: nothing matches them, 0.0.

    Notes
    -----
    Feature i wins both sides as in `wta_collision`. A window it wins is empty in `x` where xᵢ = 0
    and every other member is zero in `x` and at most yᵢ in `y`: with mᵢ such features, i included,
    all tie with i, which makes C(mᵢ, K) / (mᵢ · C(n, K)). Those are taken off, likewise for `y`,
    and what is empty in both, taken off twice, is added once.

    Examples
    --------
    >>> x = [0, 0, 5, 0, 0, 7, 6, 0, 0]
    >>> y = [0, 0, 1, 0, 0, 0, 0, 0, 0]
    >>> round(good_kernel(x, y, window=3), 4), round(wta_collision(x, y, window=3), 4)
    (0.2344, 0.5595)
    """
    x, y = check_vector_pair(x, y)
    n, window = len(x), whole_number(window, "window", low=1, high=len(x))
    x_ranks, y_ranks, within = ranks_of(x), ranks_of(y), _within(n, window)
    x_zero, y_zero = x == 0, y == 0
    n_zero = int((x_zero & y_zero).sum())
    if n_zero == n:
        return 0.0
    # Feature by feature, so that what cancels does so exactly: zeros are most of a sparse vector.
    wins = _chances_to_win_both(x_ranks, y_ranks, within)
    wins[x_zero] -= _wins_among_equals(y_ranks[x_zero], within)
    empty_in_y = np.zeros(n)
    empty_in_y[y_zero] = _wins_among_equals(x_ranks[y_zero], within)
    empty_in_y[x_zero & y_zero] -= within[n_zero] / max(n_zero, 1)
    filled = 1.0
    if n_zero >= window:  # 1 − within[n_zero], with all its digits where few windows are filled
        filled = -np.expm1(np.log1p(-window / np.arange(n_zero + 1.0, n + 1)).sum())
    # Where nothing matches, what cancels may leave less than nothing by rounding.
    return max(0.0, float((wins - empty_in_y).sum() / filled))


def winner_rank_distribution(n: int, window: int) -> Floats:
    """Return the chance that a window is won by the feature of rank j, for j = 0 (the largest of
    all) to `n` − 1.

    It is C(n − j − 1, K − 1) / C(n, K), zero from j = n − K + 1 on. Erratum to Eq. 5 of WTA: its
    factor K / n must be K / (n − j), and "> j" in the line before means "≥ j"; as printed the
    chances for n = 6, K = 4 sum to 0.933.

    Examples
    --------
    >>> winner_rank_distribution(6, 4).round(3).tolist()
    [0.667, 0.267, 0.067, 0.0, 0.0, 0.0]
    """
    n = whole_number(n, "n", low=1)
    window = whole_number(window, "window", low=1, high=n)
    # C(m − 1, K − 1) = C(m, K)·K/m: the window lies within the m lowest features, and the highest
    # of these is among its K members.
    lowest_first = _within(n, window)[1:] * (window / np.arange(1.0, n + 1))
    return np.ascontiguousarray(lowest_first[::-1])


def _within(n: int, window: int) -> Floats:
    """Return the chance that a window lies within m given features, C(m, K) / C(n, K), for m = 0 …
    n.
    """
    # C(m − 1, K) / C(m, K) = (m − K) / m, so the chances are running products from m = n down.
    size = np.arange(n, 0.0, -1.0)
    out = np.ones(n + 1)
    with np.errstate(under="ignore"):
        out[:-1] = np.cumprod(np.maximum(size - window, 0.0) / size)[::-1]
    return out


def _chances_to_win_both(x_ranks: Integers, y_ranks: Integers, within: Floats) -> Floats:
    """Return for every feature the chance that it wins a window in both vectors; see
    `wta_collision`.
    """
    below = below_in_both(x_ranks, y_ranks)
    above_in_both = below_in_both(-x_ranks, -y_ranks)
    # Mᵢ: features above i in neither vector, by inclusion and exclusion.
    at_most = len(below) - count_above(x_ranks) - count_above(y_ranks) + above_in_both
    wins: Floats = (within[at_most] - within[below]) / (at_most - below)
    return wins


def _wins_among_equals(ranks: Integers, within: Floats) -> Floats:
    """Return each one's chance to win both sides where one side ties throughout, given the ranks of
    the other side.
    """
    at_most = len(ranks) - count_above(ranks)
    wins: Floats = within[at_most] / at_most
    return wins
