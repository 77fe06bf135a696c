"""Exact comparison with an early end, against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.dedup.linking import jaccard_from
from bitkin.sets.sets import Sets

SMALL_SETS = st.lists(
    st.frozensets(st.integers(0, 12), min_size=1, max_size=9), min_size=1, max_size=8
)


def as_sets(sets: list[frozenset[int]]) -> Sets:
    members = np.array([member for one in sets for member in one], dtype=np.uint64)
    return Sets(members, np.cumsum([0, *map(len, sets)])).unique()


@settings(max_examples=200, deadline=None)
@given(
    SMALL_SETS, st.one_of(st.sampled_from([0.25, 1 / 3, 0.5, 2 / 3, 0.8, 1.0]), st.floats(1e-9, 1))
)
def test_small_sets_at_every_threshold(sets: list[frozenset[int]], threshold: float) -> None:
    first, second = (axis.ravel() for axis in np.indices((len(sets), len(sets))))
    exact = [len(a & b) / len(a | b) for a in sets for b in sets]
    expected = [similarity if similarity >= threshold else 0.0 for similarity in exact]
    assert jaccard_from(threshold, as_sets(sets), first, second).tolist() == expected


@pytest.mark.parametrize("size", [31, 32, 33, 64, 65, 500])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_sets_longer_than_a_run_of_steps(size: int, threshold: float) -> None:
    rng = np.random.default_rng(size)
    base = rng.integers(0, 2**62, size)
    sets = [frozenset(base.tolist())]
    for share in (0.02, 0.1, 0.12, 0.3, 0.9, 1.0):
        changed = np.where(rng.random(size) < share, rng.integers(0, 2**62, size), base)
        sets.append(frozenset(changed[: rng.integers(size // 2, size + 1)].tolist()))
    first, second = np.triu_indices(len(sets))
    exact = [
        len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in zip(first, second, strict=True)
    ]
    found = jaccard_from(threshold, as_sets(sets), first, second)
    assert found.tolist() == [
        similarity if similarity >= threshold else 0.0 for similarity in exact
    ]
    assert as_sets(sets).jaccard_of_pairs(first, second).tolist() == exact
