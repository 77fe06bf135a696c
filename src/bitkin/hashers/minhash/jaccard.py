"""From symbols that differ to Jaccard similarity, and how far off that is likely to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.code_spec import CodeSpec
from bitkin.errors import InvalidInputError

Table = npt.NDArray[np.float64]


def jaccard_from_distances(distances: npt.NDArray[np.int32], spec: CodeSpec) -> Table:
    """Return (p − r) / (1 − r) for every share p of equal symbols, r = 2**−b being the share that
    is equal by chance.

    Chance may leave fewer than that: the result is clipped to 0.
    """
    differ_by_nature = 1.0 - 1.0 / spec.alphabet_size
    return np.maximum(1.0 - distances / (spec.n_symbols * differ_by_nature), 0.0)


def jaccard_standard_error(
    distances: npt.NDArray[np.int32], spec: CodeSpec, union_factor: Table | float = 1.0
) -> Table:
    """Return the standard deviation of the estimate.

    A symbol is equal because the minima are (chance J) or by collision, each symbol apart: with r =
    2**−b the variance is J(1 − J) · union_factor / n + (1 − J) · r / (1 − r) / n. With factor 1
    that is p(1 − p) / n / (1 − r)².

    J is not known, so p is taken as (equal + ½) / (n + 1), the mean after Jeffreys' prior: codes
    that agree in every symbol leave a doubt of about 0.7 / n instead of none.
    """
    n, chance = spec.n_symbols, 1.0 / spec.alphabet_size
    equal = (n - distances + 0.5) / (n + 1.0)
    jaccard = np.maximum((equal - chance) / (1.0 - chance), 0.0)
    variance = jaccard * (1.0 - jaccard) * union_factor + (1.0 - jaccard) * (
        chance / (1.0 - chance)
    )
    error: Table = np.sqrt(variance / n)
    return error


def one_permutation_factor(jaccard: Table, sizes_a: Table, sizes_b: Table, n: int) -> Table:
    """Return n times the variance of the share of equal values, over J(1 − J), for sets of known
    sizes.

    The union of both sets has f = (|A| + |B|) / (1 + J) members. A member that stands in w of the n
    bins adds w to the sum of equal ones when both sets have it, and any members may be those: the
    variance of the sum is J(1 − J) · (Σ w² − n² / f) · f / (f − 1).

    m bins are filled, and each of the e = n − m others copies one of them at random. A filled bin
    with c copies adds 1 + c² to Σ w² where its least and largest member are two, and (1 + c)² where
    they are one, so in the mean Σ w² = n + e(e − 1) / m + 2e · (bins with one member) / m.

    Independent hashes have the factor 1. Here it is 2 for a union of two members, about 1.5 for
    more but still few beside n, 1 at f ≈ 0.37 n, least with 0.59 at f ≈ 1.6 n, and 1 again for f
    far above n.
    """
    union = np.maximum((sizes_a[:, None] + sizes_b[None, :]) / (1.0 + jaccard), 1.0)
    missed_by_others = (1.0 - 1.0 / n) ** (union - 1.0)
    filled = n * (1.0 - (1.0 - 1.0 / n) * missed_by_others)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The mean of 1 / m: f exceeds m by the members that met others in a bin, which then fill
        # m(f − 1) without them.
        inverse = (1.0 + (union - filled) / (n * (1.0 - missed_by_others))) / union
        squares = n + n * (n - 1.0) * inverse - (2.0 * n - 1.0) + filled
        squares += 2.0 * union * missed_by_others * (n * inverse - 1.0)
        factor: Table = (squares - n * n / union) * union / (union - 1.0) / n
    # A union of less than two members is of sets of one: they agree or do not, and J(1 − J) is
    # zero.
    return np.where(union >= 2.0, factor, 1.0)


def require_sizes(sizes: Any, n_a: int, n_b: int) -> tuple[Table, Table]:
    """Return two arrays of set sizes, for codes of `n_a` and `n_b` rows."""
    if not isinstance(sizes, (tuple, list)) or len(sizes) != 2:
        raise InvalidInputError(
            f"sizes must be a pair, the sizes of a's sets and those of b's, got {sizes!r}."
        )
    arrays = [np.asarray(of_one) for of_one in sizes]
    for array, n, name in zip(arrays, (n_a, n_b), "ab", strict=True):
        if array.shape != (n,) or array.dtype.kind not in "iu" or (n and array.min() < 0):
            raise InvalidInputError(
                f"sizes of {name} must be {n} whole numbers, 0 or more, one a row, got "
                f"{array.dtype} {array.shape}."
            )
    return arrays[0].astype(np.float64), arrays[1].astype(np.float64)
