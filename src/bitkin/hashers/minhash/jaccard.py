"""From the number of symbols that differ to Jaccard similarity, and the error of that estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.code_spec import CodeSpec
from bitkin.errors import InvalidInputError

Table = npt.NDArray[np.float64]

# `rounds_factor` sums over bins for unions of some sizes, and interpolates between them
_SIZES_PER_DOUBLING = 4
_MOST_BINS_SUMMED = 2048


def jaccard_from_distances(distances: npt.NDArray[np.int32], spec: CodeSpec) -> Table:
    """Return (p − r) / (1 − r) for every share p of equal symbols, r = 2**−b being the share that
    is equal by collision.

    Fewer symbols than that may happen to be equal: the result is clipped to 0.
    """
    # With d of n symbols different, p = 1 − d / n, and (p − r) / (1 − r) = 1 − d / (n(1 − r)).
    no_collision = 1.0 - 1.0 / spec.alphabet_size
    return np.maximum(1.0 - distances / (spec.n_symbols * no_collision), 0.0)


def jaccard_standard_error(
    distances: npt.NDArray[np.int32], spec: CodeSpec, union_factor: Table | float = 1.0
) -> Table:
    """Return the standard deviation of the estimate.

    A symbol is equal because the minima are (chance J) or by collision, independently for every
    symbol: with r = 2**−b the variance is J(1 − J) · union_factor / n + (1 − J) · r / (1 − r) / n.
    With factor 1 that is p(1 − p) / n / (1 − r)².

    J is not known, so p is taken as (equal + ½) / (n + 1), the mean after Jeffreys' prior: codes
    that agree in every symbol get an error of about 0.7 / n instead of none.
    """
    n = spec.n_symbols
    chance = 1.0 / spec.alphabet_size  # r
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
    with c copies adds 1 + c² to Σ w² where its least and largest member are two members, and
    (1 + c)² where they are the same one, so in the mean
    Σ w² = n + e(e − 1) / m + 2e · (bins with one member) / m.

    Independent hashes have the factor 1. Here it is 2 for a union of two members, about 1.5 for
    more but still few beside n, 1 at f ≈ 0.37 n, least with 0.59 at f ≈ 1.6 n, and 1 again for f
    far above n.
    """
    # f, the size of the union, and the chance (1 − 1/n)^(f − 1) that no other member of it falls in
    # the bin of a given one. A bin is empty with chance (1 − 1/n)^f: that gives the mean of m.
    union = np.maximum((sizes_a[:, None] + sizes_b[None, :]) / (1.0 + jaccard), 1.0)
    missed_by_others = (1.0 - 1.0 / n) ** (union - 1.0)
    filled = n * (1.0 - (1.0 - 1.0 / n) * missed_by_others)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The mean of 1 / m, from f = m + (f − m): f − m members met others in their bin, and the
        # others alone fill n(1 − (1 − 1/n)^(f − 1)) bins in the mean.
        inverse = (1.0 + (union - filled) / (n * (1.0 - missed_by_others))) / union
        # Σ w² as above, with e = n − m: n + e(e − 1)/m = n + n(n − 1)/m − (2n − 1) + m. Bins with
        # one member are f · (1 − 1/n)^(f − 1) in the mean.
        squares = n + n * (n - 1.0) * inverse - (2.0 * n - 1.0) + filled
        squares += 2.0 * union * missed_by_others * (n * inverse - 1.0)
        factor: Table = (squares - n * n / union) * union / (union - 1.0) / n
    # A union of less than two members is of sets of one: they agree or do not, and J(1 − J) is
    # zero.
    return np.where(union >= 2.0, factor, 1.0)


def rounds_factor(jaccard: Table, sizes_a: Table, sizes_b: Table, n: int) -> Table:
    """Return what `one_permutation_factor` returns, for bins filled by rounds.

    A member comes by every bin once, in an order of its own. That is SuperMinHash, whose factor
    α(n, f) for a union of f members Ertl (2017) gives. Where n is no power of two, some bins are
    come by twice, and the factor is a little larger (n = 100: 0.42 instead of 0.34 for two members,
    0.65 instead of 0.62 for 200).

    It is 0.34 for a union of two members, about 0.5 from there up to f ≈ n / 2, 0.58 at f ≈ 1.6 n,
    and 1 for f far above n.
    """
    union = np.maximum((sizes_a[:, None] + sizes_b[None, :]) / (1.0 + jaccard), 1.0)
    if n == 1 or union.size == 0:
        return np.ones_like(union)
    # α is smooth in log f: it is summed for a few sizes, and read off between them.
    doublings = np.log2(max(4.0, union.max()))
    sizes = 2.0 ** np.linspace(1.0, doublings, 2 + int(_SIZES_PER_DOUBLING * doublings))
    alpha = _super_minhash_alpha(n, sizes)
    factor: Table = np.interp(np.log2(union), np.log2(sizes), alpha)
    return np.where(union >= 2.0, factor, 1.0)  # as in `one_permutation_factor`


def _super_minhash_alpha(m: int, sizes: Table) -> Table:
    """Return Ertl's α(m, u) for m bins and every union size u >= 2: 1 − Σ_l l^u ((l + 1)^u + (l −
    1)^u − 2 l^u) / ((m − 1)^(u − 1) m^u (u − 1)), l from 1 to m − 1.
    """
    if m > _MOST_BINS_SUMMED:
        # α depends on u alone while u is far below m, where it is flat at a half, and on u / m
        # above that: fewer bins say the same, to a percent.
        flat = _MOST_BINS_SUMMED / 16.0
        scaled = np.maximum(sizes * (_MOST_BINS_SUMMED / m), np.minimum(sizes, flat))
        return _super_minhash_alpha(_MOST_BINS_SUMMED, scaled)
    u = sizes[:, None]
    bins = np.arange(1.0, m)
    # in shares of m − 1 and of m, so that no power is above 1
    differences = ((bins + 1.0) / m) ** u + ((bins - 1.0) / m) ** u - 2.0 * (bins / m) ** u
    sums = ((bins / (m - 1.0)) ** u * differences).sum(axis=1)
    alpha: Table = 1.0 - sums * (m - 1.0) / (sizes - 1.0)
    return alpha


# by method, how much smaller or larger the variance is than that of independent hashes
FACTORS = {"fast-similarity": rounds_factor, "one-permutation": one_permutation_factor}


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
