"""Sets and bands: the Jaccard similarity of conjunctions, and when at least one band is equal."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy.special import comb

from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.theory._arguments import check_chances, check_whole_numbers

_MAX_WHOLE = 2**53  # float64 holds every whole number up to it


@overload
def conjunction_jaccard(jaccard: float, size_a: int, size_b: int, p: int) -> float: ...
@overload
def conjunction_jaccard(jaccard: npt.NDArray[Any], size_a: Any, size_b: Any, p: int) -> Floats: ...
def conjunction_jaccard(jaccard: Any, size_a: Any, size_b: Any, p: int) -> Any:
    """Return the Jaccard similarity of the sets of all ordered `p`-tuples of two sets; arrays are
    broadcast.

    With a = J · (f₁ + f₂) / (1 + J) shared members that is aᵖ / (f₁ᵖ + f₂ᵖ − aᵖ). An estimated
    `jaccard` may be larger than the sizes allow: a is then the smaller set. Two empty sets share
    nothing, 0.0.

    Examples
    --------
    >>> round(conjunction_jaccard(0.5, 3, 3, p=2), 3)  # two of three shared: 4 of 9 + 9 − 4 pairs
    0.286
    """
    similarity = check_chances(jaccard, "jaccard")
    size_a = check_whole_numbers(size_a, "size_a", low=0)
    size_b = check_whole_numbers(size_b, "size_b", low=0)
    p = min(whole_number(p, "p", low=1), _MAX_WHOLE)  # a larger one changes nothing
    # Relative to the larger set, so that no power overflows.
    larger = np.maximum(np.maximum(size_a, size_b), 1).astype(np.float64)
    a, b = size_a / larger, size_b / larger
    shared = np.minimum(similarity * (a + b) / (1 + similarity), np.minimum(a, b)) ** p
    union = a**p + b**p - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
    return ratio if ratio.ndim else float(ratio)


@overload
def band_probability(
    similarity: float, bands: int, rows: int, *, probes: int = 0, alphabet_size: int = 2
) -> float: ...
@overload
def band_probability(
    similarity: npt.NDArray[Any], bands: Any, rows: Any, *, probes: int = 0, alphabet_size: int = 2
) -> Floats: ...
@overload
def band_probability(
    similarity: Any, bands: npt.NDArray[Any], rows: Any, *, probes: int = 0, alphabet_size: int = 2
) -> Floats: ...
@overload
def band_probability(
    similarity: Any, bands: Any, rows: npt.NDArray[Any], *, probes: int = 0, alphabet_size: int = 2
) -> Floats: ...
def band_probability(
    similarity: Any, bands: Any, rows: Any, *, probes: int = 0, alphabet_size: int = 2
) -> Any:
    """Return the chance that at least one of `bands` bands of `rows` symbols is found: 1 − (1 −
    h)ᵇ.

    Every symbol is equal with chance s = `similarity`, independently of the others, so a band is
    equal with chance h = sʳ. With `probes`, keys that differ in m symbols are looked up too, fewest
    first: each of them adds sʳ⁻ᵐ · ((1 − s) / (K − 1))ᵐ to h, where a symbol that differs is any of
    the K − 1 others of `alphabet_size` K. Arrays are broadcast.

    Examples
    --------
    >>> band_probability([0.8, 0.2], bands=20, rows=5).round(4).tolist()
    [0.9996, 0.0064]
    >>> round(band_probability(0.8, bands=2, rows=16), 3)
    0.056
    >>> round(band_probability(0.8, bands=2, rows=16, probes=16), 3)
    0.262
    """
    similarity = check_chances(similarity, "similarity")
    bands = check_whole_numbers(bands, "bands", low=1)
    rows = check_whole_numbers(rows, "rows", low=1)
    probes = whole_number(probes, "probes", low=0)
    others = whole_number(alphabet_size, "alphabet_size", low=2) - 1
    found = similarity**rows
    left = np.full(np.shape(rows), float(probes))
    changed = 0
    while (left > 0).any() and changed < rows.max():
        changed += 1
        # C(r, m)·(K − 1)ᵐ keys differ in m symbols; as many are looked up as probes are left.
        ways = np.minimum(left, comb(rows, changed) * float(others) ** changed)
        left = np.where(changed < rows, left - ways, 0.0)
        one = similarity ** np.maximum(rows - changed, 0) * ((1 - similarity) / others) ** changed
        found = found + ways * one
    # 1 − (1 − h)ᵇ = −expm1(b · log1p(−h)), which keeps its digits where h is small.
    with np.errstate(divide="ignore", under="ignore"):  # equal vectors: log 0, and the chance is 1
        chance = -np.expm1(bands * np.log1p(-np.minimum(found, 1.0)))
    return chance if chance.ndim else float(chance)
