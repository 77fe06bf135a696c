"""Comparing sets, as `bitkin.kernels.hashing.sets` lays them out, ascending and every member once:
equal ones, similar ones.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel

_U29, _U32 = np.uint64(29), np.uint64(32)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEPS = 32  # of a comparison, between looks at whether it can still succeed


@kernel
def set_digests_into(members, offsets, digests):
    """Ascending sets as uint64[M], int64[N + 1] -> uint64[N]: equal sets, equal digests."""
    for s in range(len(digests)):
        digest = np.uint64(offsets[s + 1] - offsets[s])
        for i in range(offsets[s], offsets[s + 1]):
            digest = (digest ^ members[i]) * _MIX_1
            digest ^= digest >> _U29
        digest = (digest ^ (digest >> _U32)) * _MIX_2
        digests[s] = digest ^ (digest >> _U32)


@kernel
def equal_sets_into(members, offsets, first_rows, second_rows, equal):
    """Ascending sets; int64[P] twice -> bool[P]: whether set `first_rows[i]` and set
    `second_rows[i]` are the same.
    """
    for pair in range(len(equal)):
        a, end = offsets[first_rows[pair]], offsets[first_rows[pair] + 1]
        b = offsets[second_rows[pair]]
        same = end - a == offsets[second_rows[pair] + 1] - b
        while same and a < end:
            same = members[a] == members[b]
            a += 1
            b += 1
        equal[pair] = same


@kernel
def _shared_needed(both, threshold):
    """Return the least s with s / (both − s) ≥ `threshold` in floating point, where two sets have
    `both` members.
    """
    # J = s/(both − s) ≥ t is s ≥ t·both/(1 + t); rounding may be off by one, so it is checked
    needed = int(threshold * both / (1.0 + threshold))
    while needed > 0 and (needed - 1) / (both - needed + 1) >= threshold:
        needed -= 1
    while needed / (both - needed) < threshold:
        needed += 1
    return needed


@kernel
def similar_pairs_into(members, offsets, first_rows, second_rows, threshold, out):
    """uint64[M], int64[N + 1]; int64[P] twice -> float64[P]: the Jaccard similarity, or 0 where
    below `threshold` > 0.

    A comparison ends once too many members of either set have no partner. At least one set of each
    pair has members.
    """
    for pair in range(len(out)):
        a, end_a = offsets[first_rows[pair]], offsets[first_rows[pair] + 1]
        b, end_b = offsets[second_rows[pair]], offsets[second_rows[pair] + 1]
        both = (end_a - a) + (end_b - b)
        needed = _shared_needed(both, threshold)
        shared = 0
        while a < end_a and b < end_b and shared + min(end_a - a, end_b - b) >= needed:
            # A step moves on by one in either set, or in both: this many need no look at the ends.
            for _ in range(min(_STEPS, end_a - a, end_b - b)):
                left, right = members[a], members[b]
                shared += left == right
                a += left <= right
                b += right <= left
        out[pair] = shared / (both - shared) if shared >= needed else 0.0
