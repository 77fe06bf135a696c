from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import theory


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.integers(1, 4))
def test_conjunctions_are_sets_of_tuples(a: set[int], b: set[int], p: int) -> None:
    tuples_a, tuples_b = (set(itertools.product(members, repeat=p)) for members in (a, b))
    jaccard = len(a & b) / max(len(a | b), 1)
    truth = len(tuples_a & tuples_b) / max(len(tuples_a | tuples_b), 1)
    assert theory.conjunction_jaccard(jaccard, len(a), len(b), p) == pytest.approx(truth, abs=1e-14)


def test_conjunctions_of_large_sets_and_many_pairs() -> None:
    found = theory.conjunction_jaccard(np.array([0.0, 0.5, 1.0]), 10**9, 10**9, 40)
    assert found == pytest.approx(np.array([0, (2 / 3) ** 40 / (2 - (2 / 3) ** 40), 1]))
    assert type(theory.conjunction_jaccard(0.5, 3, 3, 1)) is float
    assert theory.conjunction_jaccard(0.5, 3, 3, 1) == pytest.approx(0.5)


def test_a_jaccard_estimated_too_high_for_the_sizes_counts_as_the_highest_possible() -> None:
    assert theory.conjunction_jaccard(0.9, 10, 5, 2) == pytest.approx(25 / 100)


@given(st.floats(0, 1), st.integers(1, 200), st.integers(1, 20))
def test_bands_meet_as_the_formula_says(similarity: float, bands: int, rows: int) -> None:
    found = theory.band_probability(similarity, bands, rows)
    assert type(found) is float
    assert found == pytest.approx(1 - (1 - similarity**rows) ** bands, abs=1e-12)


@pytest.mark.parametrize(("rows", "alphabet_size"), [(1, 2), (4, 2), (2, 3), (3, 4)])
def test_probes_add_the_chances_of_the_keys_they_look_up(rows: int, alphabet_size: int) -> None:
    # A symbol is equal with chance s, or one of the others with the same chance each: sum over the
    # keys looked up.
    s, others = 0.7, alphabet_size - 1
    chances = [
        math.prod((1 - s) / others if change else s for change in key)
        for key in sorted(
            itertools.product(range(alphabet_size), repeat=rows),
            key=lambda key: sum(map(bool, key)),
        )
    ]
    assert sum(chances) == pytest.approx(1)
    for probes in range(alphabet_size**rows):
        found = theory.band_probability(s, 5, rows, probes=probes, alphabet_size=alphabet_size)
        assert found == pytest.approx(1 - (1 - sum(chances[: probes + 1])) ** 5)
    every = theory.band_probability(s, 5, rows, probes=10**9, alphabet_size=alphabet_size)
    assert every == pytest.approx(1)


def test_probes_over_grids_of_widths() -> None:
    widths = np.array([1, 2, 5])
    found = theory.band_probability(0.6, 4, widths, probes=6, alphabet_size=4)
    assert found.tolist() == [
        theory.band_probability(0.6, 4, int(w), probes=6, alphabet_size=4) for w in widths
    ]


def test_bands_at_the_ends_and_over_grids() -> None:
    assert theory.band_probability(0.0, 5, 3) == 0
    assert theory.band_probability(1.0, 5, 3) == 1
    assert theory.band_probability(1e-3, 10, 6) == pytest.approx(1e-17, rel=1e-9)
    curve = theory.band_probability(np.linspace(0, 1, 11), np.array([[1], [7]]), 4)
    assert curve.shape == (2, 11)
    assert (np.diff(curve) > 0).all()
