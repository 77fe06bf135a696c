"""From symbols that differ to Jaccard similarity, and how far off that is likely to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.code_spec import CodeSpec
from bitkin.errors import InvalidInputError

Table = npt.NDArray[np.float64]


def jaccard_from_distances(distances: npt.NDArray[np.int32], spec: CodeSpec) -> Table:
    """Return (p − r) / (1 − r) for every share p of equal symbols, r = 2**−b being the share that is equal by chance.

    Chance may leave fewer than that: the result is clipped to 0.
    """
    differ_by_nature = 1.0 - 1.0 / spec.alphabet_size
    return np.maximum(1.0 - distances / (spec.n_symbols * differ_by_nature), 0.0)


def jaccard_standard_error(
    distances: npt.NDArray[np.int32], spec: CodeSpec, union_factor: Table | float = 1.0
) -> Table:
    """Return the standard deviation of the estimate.

    A symbol is equal because the minima are (chance J) or by collision, each symbol apart: with r = 2**−b the variance
    is J(1 − J) · union_factor / n + (1 − J) · r / (1 − r) / n. With factor 1 that is p(1 − p) / n / (1 − r)².

    J is not known, so p is taken as (equal + ½) / (n + 1), the mean after Jeffreys' prior: codes that agree in every
    symbol leave a doubt of about 0.7 / n instead of none.
    """
    n, chance = spec.n_symbols, 1.0 / spec.alphabet_size
    equal = (n - distances + 0.5) / (n + 1.0)
    jaccard = np.maximum((equal - chance) / (1.0 - chance), 0.0)
    variance = jaccard * (1.0 - jaccard) * union_factor + (1.0 - jaccard) * (chance / (1.0 - chance))
    error: Table = np.sqrt(variance / n)
    return error


def one_permutation_factor(jaccard: Table, sizes_a: Table, sizes_b: Table, n: int) -> Table:
    """Return n times the variance of the share of equal minima, over J(1 − J), for sets of known sizes.

    The union of both sets has f = (|A| + |B|) / (1 + J) members, which fill m(f) = n(1 − (1 − 1/n)^f) of the n bins on
    average. Their minima are m of the f members without repetition, which has the variance J(1 − J) / m · (f − m) /
    (f − 1); each of the n − m other bins repeats one of them at random, which adds J(1 − J) · (n − m) / n². The mean
    of (f − m) / m is taken as (f − m(f)) / m(f − 1): f exceeds m by the members that met the others in a bin.

    Independent hashes have J(1 − J) / n. Here the factor is 2 for a union of two members, falls to 1.5 for more, but
    still few beside n, is 1 at f ≈ 0.86 n, least with 0.78 at f ≈ 2.9 n, and 1 again for f far above n.
    """
    union = (sizes_a[:, None] + sizes_b[None, :]) / (1.0 + jaccard)
    filled, filled_by_others = _filled(union, n), _filled(union - 1.0, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = n * (union - filled) / (filled_by_others * (union - 1.0))
    # A union of less than two members is of sets of one: they agree or do not, and J(1 − J) is zero.
    return np.where(union >= 2.0, drawn, 1.0) + (n - filled) / n


def _filled(n_members: Table, n: int) -> Table:
    """Return how many of `n` bins that many members fill on average."""
    filled: Table = n * (1.0 - (1.0 - 1.0 / n) ** np.maximum(n_members, 0.0))
    return filled


def require_sizes(sizes: Any, n_a: int, n_b: int) -> tuple[Table, Table]:
    """Return two arrays of set sizes, for codes of `n_a` and `n_b` rows."""
    if not isinstance(sizes, (tuple, list)) or len(sizes) != 2:
        raise InvalidInputError(f"sizes must be a pair, the sizes of a's sets and those of b's, got {sizes!r}.")
    arrays = [np.asarray(of_one) for of_one in sizes]
    for array, n, name in zip(arrays, (n_a, n_b), "ab", strict=True):
        if array.shape != (n,) or array.dtype.kind not in "iu" or (n and array.min() < 0):
            raise InvalidInputError(
                f"sizes of {name} must be {n} whole numbers, 0 or more, one a row, got {array.dtype} {array.shape}."
            )
    return arrays[0].astype(np.float64), arrays[1].astype(np.float64)
