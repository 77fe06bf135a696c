"""Empty windows: how often nothing but zeros stands in a window of a sparse row."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.theory._arguments import check_whole_numbers


@overload
def empty_share(n_features: int, n_nonzero: int, window: int, degree: int = 1) -> float: ...
@overload
def empty_share(
    n_features: int, n_nonzero: npt.NDArray[Any], window: int, degree: int = 1
) -> Floats: ...
def empty_share(n_features: int, n_nonzero: Any, window: int, degree: int = 1) -> Any:
    """Return the expected share of empty windows of a row with `n_nonzero` nonzeros; an array of
    counts gives an array.

    At `degree` p a component is the product of p features, each picked by a permutation of its own
    (WTA, Algorithm 2), and is zero if one of them is. The rule of thumb (1 − (nnz / n)ᵖ)ᴷ picks
    features with replacement. Cost: O(nnz) at degree 1, O(K) for each count at degree 2, O(p · K²)
    above.

    Examples
    --------
    >>> round(empty_share(1_000_000, 100, window=4), 4)
    0.9996
    """
    n_features = whole_number(n_features, "n_features", low=1)
    counts = check_whole_numbers(n_nonzero, "n_nonzero", low=0, high=n_features)
    window = whole_number(window, "window", low=1, high=n_features)
    degree = whole_number(degree, "degree", low=1)
    if degree == 1:
        most = int(counts.max(initial=0))
        # Nonzeros placed one after another: each of the last `most` places must be outside the
        # window.
        missed = np.maximum(0.0, 1.0 - window / (n_features - np.arange(float(most))))
        share = np.concatenate(([1.0], np.cumprod(missed)))[counts]
    else:
        distinct, place = np.unique(counts, return_inverse=True)
        shares = [
            _chance_of_no_product(n_features, int(count), window, degree) for count in distinct
        ]
        share = np.array(shares, dtype=np.float64)[place].reshape(counts.shape)
    return share if counts.ndim else float(share)


def _chance_of_no_product(n_features: int, n_nonzero: int, window: int, degree: int) -> float:
    """Return the chance that no place of a window is nonzero in all of `degree` permutations."""
    # chance that so many places are nonzero in all permutations so far
    nonzero = np.zeros(window + 1)
    nonzero[window] = 1.0
    for _ in range(degree - 1):
        left = np.zeros(window + 1)
        for places in np.flatnonzero(nonzero):
            left[: places + 1] += nonzero[places] * _hypergeometric(
                n_features, n_nonzero, int(places)
            )
        nonzero = left
    # That none of k places holds a nonzero of the last permutation: Π (n − nnz − j) / (n − j) over
    # j < k.
    place = np.arange(float(window))
    with np.errstate(under="ignore"):
        none_of = np.cumprod(np.maximum(n_features - n_nonzero - place, 0.0) / (n_features - place))
    return float(nonzero[0] + nonzero[1:] @ none_of)


def _hypergeometric(n: int, marked: int, drawn: int) -> Floats:
    """Return the chances that `drawn` of `n` hold 0 … `drawn` of the `marked` ones."""
    fewest, most = max(0, drawn - (n - marked)), min(drawn, marked)
    # P(c + 1) / P(c) = (marked − c)(drawn − c) / ((c + 1)(n − marked − drawn + c + 1)); products of
    # ratios in logarithms, divided by their sum, are the chances.
    count = np.arange(float(fewest), float(most))
    ratios = (marked - count) * (drawn - count) / ((count + 1) * (n - marked - drawn + count + 1))
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    with np.errstate(under="ignore"):
        chances = np.exp(logs - logs.max())
    out = np.zeros(drawn + 1)
    out[fewest : most + 1] = chances / chances.sum()
    return out
