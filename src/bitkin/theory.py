"""The papers' formulas as functions: what codes measure, how often windows are empty, when bands meet, what is lost.

Vectors are 1-dimensional arrays of one length n; a window is `window` (the papers' K) of their n features in random
order, drawn without replacement. Nothing here is sampled: results are exact up to rounding, whose relative error is at
most about n · 2**−52. Comparing two vectors costs O(n log n).
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.rows import number_dtype

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_MOST = 2**53


def pairwise_order(x: npt.ArrayLike, y: npt.ArrayLike) -> int:
    """Count the pairs of features that `x` and `y` put in the same order (WTA, Eq. 1); a tie in either is no order.

    Examples
    --------
    >>> pairwise_order([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1])
    6
    """
    return int(rank_agreement(x, y).sum())


def rank_agreement(x: npt.ArrayLike, y: npt.ArrayLike) -> _Integers:
    """Return for every feature i how many features are below it in both vectors: int64 Rᵢ (WTA, Eq. 2 to 4).

    Examples
    --------
    >>> rank_agreement([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1])
    array([2, 1, 0, 1, 2, 0])
    """
    x, y = _pair(x, y)
    return _below_in_both(_ranks(x), _ranks(y))


def wta_similarity(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return S_K = Σᵢ C(Rᵢ, K − 1) / C(n, K) (WTA, Eq. 6): how often two vectors without ties get the same code.

    With ties it is the share of windows that one feature wins in both vectors against all others, a lower bound of
    `wta_collision`. Without ties S₂ is Kendall's τ: τ = 2 · S₂ − 1.

    Examples
    --------
    >>> round(wta_similarity([10, 5, 2, 6, 12, 3], [4, 5, 10, 2, 3, 1], window=2), 3)
    0.4
    """
    x, y = _pair(x, y)
    window = whole_number(window, "window", low=1, high=len(x))
    won = winner_rank_distribution(len(x), window)[::-1]
    return float(won[rank_agreement(x, y)].sum())


def wta_collision(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return the chance that plain winner-take-all gives `x` and `y` the same code, ties included.

    Of equals the first in the window wins, so binary vectors and `window` = n give their Jaccard similarity.

    Notes
    -----
    Let Mᵢ count the features at or below i in both vectors, i included, and Rᵢ those below it in both. Feature i wins
    both sides where the window lies within the Mᵢ and i comes first among its members outside the Rᵢ, which number
    t + 1 with chance C(Mᵢ − Rᵢ − 1, t) · C(Rᵢ, K − 1 − t) / C(n, K). Summed with weights 1 / (t + 1), by Vandermonde:
    (C(Mᵢ, K) − C(Rᵢ, K)) / ((Mᵢ − Rᵢ) · C(n, K)). Where nothing ties, Mᵢ = Rᵢ + 1 and that is Eq. 6.

    Examples
    --------
    >>> round(wta_collision([1, 1, 0, 0], [1, 0, 1, 0], window=4), 3)  # one of three
    0.333
    """
    x, y = _pair(x, y)
    window = whole_number(window, "window", low=1, high=len(x))
    return float(_shared_wins(_ranks(x), _ranks(y), _within(len(x), window)).sum())


def good_kernel(x: npt.ArrayLike, y: npt.ArrayLike, window: int) -> float:
    """Return the kernel of densified codes (DWTA, Theorem 1): P(both filled, same winner) / P(not both empty).

    A window is empty in a vector where all its components are zero; one of zeros and negatives is won by its first
    zero. Two zero vectors never have a filled window: nothing matches them, 0.0.

    Notes
    -----
    Feature i wins both sides as in `wta_collision`. A window it wins is empty in `x` where xᵢ = 0 and every other
    member is zero in `x` and at most yᵢ in `y`: with mᵢ such features, i included, all tie with i, which makes
    C(mᵢ, K) / (mᵢ · C(n, K)). Those are taken off, likewise for `y`, and what is empty in both, taken off twice, is
    added once.

    Examples
    --------
    >>> x = [0, 0, 5, 0, 0, 7, 6, 0, 0]
    >>> y = [0, 0, 1, 0, 0, 0, 0, 0, 0]
    >>> round(good_kernel(x, y, window=3), 4), round(wta_collision(x, y, window=3), 4)
    (0.2344, 0.5595)
    """
    x, y = _pair(x, y)
    n, window = len(x), whole_number(window, "window", low=1, high=len(x))
    x_ranks, y_ranks, within = _ranks(x), _ranks(y), _within(n, window)
    x_zero, y_zero = x == 0, y == 0
    n_zero = int((x_zero & y_zero).sum())
    if n_zero == n:
        return 0.0
    # Feature by feature, so that what cancels does so exactly: zeros are most of a sparse vector.
    wins = _shared_wins(x_ranks, y_ranks, within)
    wins[x_zero] -= _wins_among_equals(y_ranks[x_zero], within)
    empty_in_y = np.zeros(n)
    empty_in_y[y_zero] = _wins_among_equals(x_ranks[y_zero], within)
    empty_in_y[x_zero & y_zero] -= within[n_zero] / max(n_zero, 1)
    filled = 1.0
    if n_zero >= window:  # 1 − within[n_zero], with all its digits where few windows are filled
        filled = -np.expm1(np.log1p(-window / np.arange(n_zero + 1.0, n + 1)).sum())
    return float((wins - empty_in_y).sum() / filled)


def winner_rank_distribution(n: int, window: int) -> _Floats:
    """Return the chance that a window is won by the feature of rank j, for j = 0 (the largest of all) to `n` − 1.

    It is C(n − j − 1, K − 1) / C(n, K), zero from j = n − K + 1 on. Erratum to Eq. 5 of WTA: its factor K / n must be
    K / (n − j), and "> j" in the line before means "≥ j"; as printed the chances for n = 6, K = 4 sum to 0.933.

    Examples
    --------
    >>> winner_rank_distribution(6, 4).round(3).tolist()
    [0.667, 0.267, 0.067, 0.0, 0.0, 0.0]
    """
    n = whole_number(n, "n", low=1)
    window = whole_number(window, "window", low=1, high=n)
    lowest_first = _within(n, window)[1:] * (window / np.arange(1.0, n + 1))
    return np.ascontiguousarray(lowest_first[::-1])


@overload
def empty_share(n_features: int, n_nonzero: int, window: int, degree: int = 1) -> float: ...
@overload
def empty_share(n_features: int, n_nonzero: npt.NDArray[Any], window: int, degree: int = 1) -> _Floats: ...
def empty_share(n_features: int, n_nonzero: Any, window: int, degree: int = 1) -> Any:
    """Return the expected share of empty windows of a row with `n_nonzero` nonzeros; an array of counts gives an array.

    At `degree` p a component is the product of p features, each picked by a permutation of its own (WTA, Algorithm 2),
    and is zero if one of them is. The rule of thumb (1 − (nnz / n)ᵖ)ᴷ picks features with replacement. Cost: O(nnz) at
    degree 1, O(K) for each count at degree 2, O(p · K²) above.

    Examples
    --------
    >>> round(empty_share(1_000_000, 100, window=4), 4)
    0.9996
    """
    n_features = whole_number(n_features, "n_features", low=1)
    counts = _counts(n_nonzero, "n_nonzero", low=0, high=n_features)
    window = whole_number(window, "window", low=1, high=n_features)
    degree = whole_number(degree, "degree", low=1)
    if degree == 1:
        most = int(counts.max(initial=0))
        # Nonzeros placed one after another: each of the last `most` places must be outside the window.
        missed = np.maximum(0.0, 1.0 - window / (n_features - np.arange(float(most))))
        share = np.concatenate(([1.0], np.cumprod(missed)))[counts]
    else:
        distinct, place = np.unique(counts, return_inverse=True)
        shares = [_no_product(n_features, int(count), window, degree) for count in distinct]
        share = np.array(shares, dtype=np.float64)[place].reshape(counts.shape)
    return share if counts.ndim else float(share)


@overload
def conjunction_jaccard(jaccard: float, size_a: int, size_b: int, p: int) -> float: ...
@overload
def conjunction_jaccard(jaccard: npt.NDArray[Any], size_a: Any, size_b: Any, p: int) -> _Floats: ...
def conjunction_jaccard(jaccard: Any, size_a: Any, size_b: Any, p: int) -> Any:
    """Return the Jaccard similarity of the sets of all ordered `p`-tuples of two sets; arrays are broadcast.

    With a = J · (f₁ + f₂) / (1 + J) shared members that is aᵖ / (f₁ᵖ + f₂ᵖ − aᵖ). An estimated `jaccard` may be larger
    than the sizes allow: a is then the smaller set. Two empty sets share nothing, 0.0.

    Examples
    --------
    >>> round(conjunction_jaccard(0.5, 3, 3, p=2), 3)  # two of three shared: 4 of 9 + 9 − 4 pairs
    0.286
    """
    similarity = _chances(jaccard, "jaccard")
    size_a, size_b = _counts(size_a, "size_a", low=0), _counts(size_b, "size_b", low=0)
    p = min(whole_number(p, "p", low=1), _MOST)  # a larger one changes nothing
    # Relative to the larger set, so that no power overflows.
    larger = np.maximum(np.maximum(size_a, size_b), 1).astype(np.float64)
    a, b = size_a / larger, size_b / larger
    shared = np.minimum(similarity * (a + b) / (1 + similarity), np.minimum(a, b)) ** p
    union = a**p + b**p - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
    return ratio if ratio.ndim else float(ratio)


@overload
def band_probability(similarity: float, bands: int, rows: int) -> float: ...
@overload
def band_probability(similarity: npt.NDArray[Any], bands: Any, rows: Any) -> _Floats: ...
@overload
def band_probability(similarity: Any, bands: npt.NDArray[Any], rows: Any) -> _Floats: ...
@overload
def band_probability(similarity: Any, bands: Any, rows: npt.NDArray[Any]) -> _Floats: ...
def band_probability(similarity: Any, bands: Any, rows: Any) -> Any:
    """Return the chance that at least one of `bands` bands of `rows` symbols is equal: 1 − (1 − sʳ)ᵇ.

    Every symbol is equal with chance `similarity`, independently of the others. Arrays are broadcast.

    Examples
    --------
    >>> round(band_probability(0.8, bands=20, rows=5), 4), round(band_probability(0.2, bands=20, rows=5), 4)
    (0.9996, 0.0064)
    """
    similarity = _chances(similarity, "similarity")
    bands, rows = _counts(bands, "bands", low=1), _counts(rows, "rows", low=1)
    with np.errstate(divide="ignore", under="ignore"):  # equal vectors: log 0, and the chance is 1
        chance = -np.expm1(bands * np.log1p(-(similarity**rows)))
    return chance if chance.ndim else float(chance)


def projection_error(X: npt.ArrayLike, directions: npt.ArrayLike) -> float:
    """Return ‖X − X · D · Dᵀ‖_F, what `directions` D (m, k) lose of the rows of `X` (n, m). Centre X first.

    It is the left side of `nystrom_error_bound`, measured. For orthonormal directions of PCA it is ‖X − X_k‖_F.

    Examples
    --------
    >>> projection_error([[3.0, 4.0], [1.0, 0.0]], [[1.0], [0.0]])
    4.0
    """
    rows, axes = _rows(X, "X"), _rows(directions, "directions")
    if len(axes) != rows.shape[1]:
        raise InvalidInputError(f"directions must have {rows.shape[1]} rows, one a feature of X, got {len(axes)}.")
    return float(np.linalg.norm(rows - rows @ axes @ axes.T))


def nystrom_error_bound(
    X: npt.ArrayLike,
    samples: npt.ArrayLike,
    features: npt.ArrayLike,
    k: int,
    *,
    truncate: float,
    delta: float = 0.1,
) -> float:
    """Return Theorem 2 of NYSTROM: with probability 1 − `delta` the `projection_error` is at most this.

    For the modified method with uniform sampling: ‖X − X_k‖_F + √(n·ε₁(1 + η₁)) · maxᵢ‖xᵢ‖ + (m·ε₂(1 + η₂) + E) · ‖X‖₂,
    with the smallest ε that the theorem allows, ε₁ = 2·√(k/c) and ε₂ = 1/(γ·√r). On real data it is 10⁴ to 10⁷ times
    ‖X‖_F: it says how the error falls as samples grow, not how large it is.

    Parameters
    ----------
    X : (n, m)
        All rows (the paper's X, transposed), centred as they are to be hashed.
    samples : whole numbers (c,)
        Which rows were sampled, none twice.
    features : whole numbers (r,)
        Which features of them were sampled, none twice.
    k : int
        Number of directions.
    truncate : float
        The paper's γ.
    delta : float, default 0.1
        Chance that the bound does not hold.

    Examples
    --------
    >>> X = np.diag([4.0, 2.0, 1.0])
    >>> bound = nystrom_error_bound(X, [0, 1, 2], [0, 1, 2], k=1, truncate=0.1)
    >>> round(bound, 1), round(projection_error(X, [[1.0], [0.0], [0.0]]), 3)
    (89.0, 2.236)
    """
    rows = _rows(X, "X")
    n, m = rows.shape
    chosen_rows, chosen_features = _places(samples, "samples", n), _places(features, "features", m)
    c, r = len(chosen_rows), len(chosen_features)
    k = whole_number(k, "k", low=1, high=min(c, r))
    gamma = _above_zero(truncate, "truncate")
    chance = _above_zero(delta, "delta", below=1.0)
    sampled = rows[chosen_rows] * np.sqrt(n / c)
    inner = sampled[:, chosen_features] * np.sqrt(m / r)
    norms = np.abs(sampled).sum(axis=0).max() * np.abs(sampled).sum(axis=1).max()
    all_values, sampled_values, inner_values = (
        np.linalg.svd(part, compute_uv=False) for part in (rows, sampled, inner)
    )
    if norms == 0:
        raise InvalidInputError("samples must name rows that are not all zero: the bound divides by their norm.")
    kept = int(np.count_nonzero(inner_values[:k] ** 2 >= gamma * norms))
    eta_samples = np.sqrt(np.log(4 / chance) * _spread_of_sample(c, n - c) / c)
    eta_features = np.sqrt(2 * np.log(4 / chance) * _spread_of_sample(r, m - r) / r)
    lost = np.sqrt(2.0) * np.linalg.norm(sampled_values[k:]) / (np.sqrt(gamma) * sampled_values[0]) + np.sqrt(k - kept)
    by_samples = np.sqrt(n * 2 * np.sqrt(k / c) * (1 + eta_samples)) * np.linalg.norm(rows, axis=1).max()
    by_features = (m / (gamma * np.sqrt(r)) * (1 + eta_features) + lost) * all_values[0]
    return float(np.linalg.norm(all_values[k:]) + by_samples + by_features)


def _spread_of_sample(u: int, v: int) -> float:
    """Return the paper's α(u, v) for `u` drawn and `v` left."""
    return u * v / (u + v - 0.5) / (1 - 1 / (2 * max(u, v)))


def _within(n: int, window: int) -> _Floats:
    """Return the chance that a window lies within m given features, C(m, K) / C(n, K), for m = 0 … n."""
    size = np.arange(n, 0.0, -1.0)
    out = np.ones(n + 1)
    with np.errstate(under="ignore"):
        out[:-1] = np.cumprod(np.maximum(size - window, 0.0) / size)[::-1]
    return out


def _shared_wins(x_ranks: _Integers, y_ranks: _Integers, within: _Floats) -> _Floats:
    """Return for every feature the chance that it wins a window in both vectors; see `wta_collision`."""
    below = _below_in_both(x_ranks, y_ranks)
    above_in_both = _below_in_both(-x_ranks, -y_ranks)
    at_most = len(below) - _above(x_ranks) - _above(y_ranks) + above_in_both
    wins: _Floats = (within[at_most] - within[below]) / (at_most - below)
    return wins


def _wins_among_equals(ranks: _Integers, within: _Floats) -> _Floats:
    """Return each one's chance to win both sides where one side ties throughout, given the ranks of the other side."""
    at_most = len(ranks) - _above(ranks)
    wins: _Floats = within[at_most] / at_most
    return wins


def _no_product(n_features: int, n_nonzero: int, window: int, degree: int) -> float:
    """Return the chance that no place of a window is nonzero in all of `degree` permutations."""
    nonzero = np.zeros(window + 1)  # chance that so many places are nonzero in all permutations so far
    nonzero[window] = 1.0
    for _ in range(degree - 1):
        left = np.zeros(window + 1)
        for places in np.flatnonzero(nonzero):
            left[: places + 1] += nonzero[places] * _hypergeometric(n_features, n_nonzero, int(places))
        nonzero = left
    place = np.arange(float(window))
    with np.errstate(under="ignore"):
        none_of = np.cumprod(np.maximum(n_features - n_nonzero - place, 0.0) / (n_features - place))
    return float(nonzero[0] + nonzero[1:] @ none_of)


def _hypergeometric(n: int, marked: int, drawn: int) -> _Floats:
    """Return the chances that `drawn` of `n` hold 0 … `drawn` of the `marked` ones."""
    fewest, most = max(0, drawn - (n - marked)), min(drawn, marked)
    count = np.arange(float(fewest), float(most))
    ratios = (marked - count) * (drawn - count) / ((count + 1) * (n - marked - drawn + count + 1))
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    with np.errstate(under="ignore"):
        chances = np.exp(logs - logs.max())
    out = np.zeros(drawn + 1)
    out[fewest : most + 1] = chances / chances.sum()
    return out


def _below_in_both(x_ranks: _Integers, y_ranks: _Integers) -> _Integers:
    """Count for every i the j with x_j < x_i and y_j < y_i, in O(n log n).

    In the order of x only those before i can count, and of equals in x the larger y comes first, so that none before i
    is below it in y. Equal y are told apart the same way. What is left is to count, in a permutation, the smaller
    values before each: values are split by their bits from the highest on, and at the bit where two values part the
    one without it is smaller.
    """
    n = len(x_ranks)
    order = np.lexsort((-y_ranks, x_ranks))
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((-np.arange(n), y_ranks[order]))] = np.arange(n)
    smaller = np.zeros(n, dtype=np.int64)  # by value
    values = rank  # sorted by the bits seen so far, and where those are equal in order of appearance
    for bit in range(n.bit_length() - 1, -1, -1):
        high = (values >> bit & 1).astype(bool)
        start = (values >> (bit + 1)) << (bit + 1)  # of the group, in value and in place alike: no value is missing
        lows_before = np.cumsum(~high) - ~high
        lows = lows_before - lows_before[start]  # of the same group
        smaller[values[high]] += lows[high]
        highs = np.arange(n) - start - lows
        regrouped = np.empty_like(values)
        regrouped[start + np.where(high, (1 << bit) + highs, lows)] = values
        values = regrouped
    out = np.empty(n, dtype=np.int64)
    out[order] = smaller[rank]
    return out


def _above(ranks: _Integers) -> _Integers:
    """Count for every one how many are above it."""
    return len(ranks) - np.searchsorted(np.sort(ranks), ranks, side="right")


def _ranks(vector: npt.NDArray[Any]) -> _Integers:
    """Return the number of different smaller values: the order of `vector`, free of its type and its rounding."""
    return np.unique(vector, return_inverse=True)[1].astype(np.int64, copy=False)


def _pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return two vectors of the same length."""
    a, b = _vector(x, "x"), _vector(y, "y")
    if len(a) != len(b):
        raise InvalidInputError(f"x and y must have the same number of features, got {len(a)} and {len(b)}.")
    return a, b


def _vector(value: Any, name: str) -> npt.NDArray[Any]:
    """Return `value` as a 1-D array of finite numbers, at least one."""
    if issparse(value):
        raise InvalidInputError(f"{name} must be a dense vector, got a sparse one. Pass {name}.toarray().ravel().")
    array = _numbers(value, name)
    if array.ndim != 1 or len(array) == 0:
        raise InvalidInputError(f"{name} must be one vector of at least one number, got shape {array.shape}.")
    array = array.astype(number_dtype(array.dtype, name), copy=False)
    bad = ~np.isfinite(array)
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidInputError(f"{name} must be finite, got {array[at]} at position {at}. Drop or replace it first.")
    return array


def _rows(value: Any, name: str) -> _Floats:
    """Return `value` as a 2-D float64 array of finite numbers, at least one."""
    if issparse(value):
        raise InvalidInputError(f"{name} must be a dense array, got a sparse one. Pass {name}.toarray().")
    array = _numbers(value, name).astype(np.float64)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"{name} must have shape (n, m), one vector a row, got {array.shape}.")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidInputError(f"{name} must be finite, got {array[row, column]} at row {row}, column {column}.")
    return array


def _places(value: Any, name: str, size: int) -> _Integers:
    """Return `value` as different whole numbers from 0 to `size` − 1, at least one."""
    array = _counts(value, name, low=0, high=size - 1)
    if array.ndim != 1 or array.size == 0 or len(np.unique(array)) < array.size:
        raise InvalidInputError(f"{name} must be a list of different whole numbers, at least one, got {value!r}.")
    return array


def _above_zero(value: Any, name: str, below: float = np.inf) -> float:
    """Return `value` as a float above 0 and below `below`."""
    array = _numbers(value, name)
    if array.ndim or not 0 < array < below:
        raise InvalidInputError(f"{name} must be a number above 0 and below {below}, got {value!r}.")
    return float(array)


def _chances(value: Any, name: str) -> _Floats:
    """Return `value` as float64 numbers from 0 to 1."""
    array = _numbers(value, name).astype(np.float64)
    outside = ~((array >= 0) & (array <= 1))  # NaN is outside too
    if outside.any():
        raise InvalidInputError(f"{name} must be from 0 to 1, got {array[outside].flat[0]}.")
    return array


def _counts(value: Any, name: str, *, low: int, high: int | None = None) -> _Integers:
    """Return `value` as whole numbers between `low` and `high`."""
    array = _numbers(value, name)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be whole numbers, got {value!r}.")
    for extreme in (array.min(), array.max()) if array.size else ():
        whole_number(extreme, name, low=low, high=high)
    return array


def _numbers(value: Any, name: str) -> npt.NDArray[Any]:
    """Return `value` as an array of real numbers of any shape."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{name} has masked entries. Fill them first, with .filled(value).")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as failure:
        raise InvalidInputError(f"{name} cannot become an array of numbers. NumPy: {failure}") from failure
    number_dtype(array.dtype, name)
    return array
