"""Sets that are equal stand for each other: only the first of them is compared with anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.sets.sets import Sets


def set_digests(sets: Sets) -> npt.NDArray[np.uint64]:
    """Return 64 bits of every set: equal for equal sets, and hardly ever for others."""
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.hashing.set_pairs import set_digests_into

    sets = sets.unique()
    digests = np.empty(len(sets), dtype=np.uint64)
    set_digests_into(read_only(sets.members), read_only(sets.offsets), digests)
    return digests


def first_equals(sets: Sets, digests: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return for every set the first one that is equal to it, itself where none is: int64 (n,).
    Empty sets equal none.

    Of sets that share a digest by chance and differ, those after the first may keep equals of their
    own apart.
    """
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.hashing.set_pairs import equal_sets_into

    # Sorted by digest, equal ones stand in runs; the head of a run is its first set, for the sort
    # is stable. Every other set of a run is compared with the head. Empty sets are left out: they
    # share their digest with the set {1}, and would be its head.
    filled = np.flatnonzero(sets.sizes() > 0)
    order = filled[np.argsort(digests[filled], kind="stable")]
    runs = digests[order]
    begins = np.concatenate(([True], runs[1:] != runs[:-1]))[: len(order)]
    heads = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    first, second = heads[~begins], order[~begins]
    equal = np.empty(len(first), dtype=np.bool_)
    equal_sets_into(
        read_only(sets.members), read_only(sets.offsets), read_only(first), read_only(second), equal
    )
    found = np.arange(len(sets))
    found[second[equal]] = first[equal]
    return found
