"""Bands: keys, candidate pairs against all pairs in Python, components, and the S-curve."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin import Codes
from bitkin.errors import InvalidInputError
from bitkin.index.bands import bands
from bitkin.index.bands.bands import (
    BandPlan,
    Buckets,
    band_keys,
    candidate_pairs,
    choose_bands,
    new_pairs,
    order_of_pairs,
)
from bitkin.kernels.search.bands import comparable_members_into, roots_into, unite_into

SHAPES = [
    (7, 1, BandPlan(7, 1)),
    (13, 1, BandPlan(4, 3)),
    (63, 2, BandPlan(9, 7)),
    (64, 8, BandPlan(21, 3)),
    (65, 3, BandPlan(1, 65)),
    (130, 2, BandPlan(2, 65)),
    (130, 1, BandPlan(2, 64)),
    (200, 16, BandPlan(40, 5)),
    (300, 2, BandPlan(2, 150)),
]


def related_symbols(
    n: int, n_symbols: int, bits: int, rows: int, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Rows that are copies of five, each with a share of symbols drawn anew: some pairs share
    bands, some do not.
    """
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, 2**bits, (5, n_symbols))[rng.integers(0, 5, n)]
    drawn_anew = rng.random((n, n_symbols)) < rng.random((n, 1)) * 2 / (rows + 1)
    return np.where(drawn_anew, rng.integers(0, 2**bits, (n, n_symbols)), copies)


def shared_bands(symbols: npt.NDArray[Any], plan: BandPlan) -> npt.NDArray[np.bool_]:
    cut = symbols[:, : plan.n_symbols].reshape(len(symbols), plan.bands, plan.rows)
    return np.array(np.all(cut[:, None] == cut[None, :], axis=3))


def as_set(chunks: Any) -> list[tuple[int, int]]:
    return [
        (a, b)
        for first, second in chunks
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]


@pytest.mark.parametrize("n_symbols, bits, plan", SHAPES, ids=str)
def test_rows_get_one_key_exactly_when_they_agree_in_the_band(
    n_symbols: int, bits: int, plan: BandPlan
) -> None:
    symbols = related_symbols(31, n_symbols, bits, plan.rows)
    codes = Codes.from_symbols(symbols, bits)
    shared = shared_bands(symbols, plan)
    for band in range(plan.bands):
        keys = band_keys(codes, plan, band)
        assert keys.dtype == np.uint64
        assert np.array_equal(keys[:, None] == keys[None, :], shared[:, :, band])


def test_a_band_of_up_to_64_bits_is_its_own_key() -> None:
    codes = Codes.from_symbols([[1, 2, 3, 0], [1, 2, 0, 3]], bits_per_symbol=2)
    # The low bits of both symbols, then their high bits.
    assert band_keys(codes, BandPlan(2, 2), 0).tolist() == [0b10_01, 0b10_01]
    assert band_keys(codes, BandPlan(2, 2), 1).tolist() == [0b10_10, 0b01_01]


@pytest.mark.parametrize("n", [0, 1, 2, 41])
@pytest.mark.parametrize("n_symbols, bits, plan", SHAPES, ids=str)
def test_candidates_are_the_pairs_that_share_a_band_each_once(
    n: int, n_symbols: int, bits: int, plan: BandPlan
) -> None:
    symbols = related_symbols(n, n_symbols, bits, plan.rows)
    empty = np.random.default_rng(1).random(n) < 0.1
    codes = Codes.from_symbols(symbols, bits, empty=empty)
    shared = np.any(shared_bands(symbols, plan), axis=2)
    expected = [
        (i, j)
        for i, j in combinations(range(n), 2)
        if shared[i, j] and not empty[i] and not empty[j]
    ]
    assert sorted(as_set(candidate_pairs(codes, plan))) == expected
    if n == 41:
        assert 10 < len(expected) < 41 * 20


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), max_size=12), st.integers(1, 7)
)
def test_candidates_of_any_symbols(rows: list[list[int]], band_rows: int) -> None:
    plan = BandPlan(7 // band_rows, band_rows)
    symbols = np.array(rows, dtype=np.int64).reshape(len(rows), 7)
    found = as_set(candidate_pairs(Codes.from_symbols(symbols, 2), plan))
    assert len(found) == len(set(found))
    shared = shared_bands(symbols, plan)
    assert set(found) == {
        (i, j) for i, j in combinations(range(len(rows)), 2) if shared[i, j].any()
    }


def test_chunks_are_no_longer_than_they_may_be_and_miss_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = Codes.from_symbols(np.zeros((97, 4), dtype=np.uint8), 1)
    monkeypatch.setattr(bands, "_PAIRS_AT_ONCE", 100)
    chunks = list(candidate_pairs(codes, BandPlan(2, 2)))
    assert max(len(first) for first, _ in chunks) <= 100
    assert sorted(as_set(chunks)) == list(combinations(range(97), 2))


def linked_by(
    codes: Codes, plan: BandPlan, similar: npt.NDArray[np.bool_]
) -> tuple[list[int], int, list[tuple[int, int]]]:
    """Roots that `similar` pairs among the candidates make when joined on the way, how many were
    looked at, and which joined two.
    """
    parents = np.arange(len(codes))
    n_looked_at = 0
    joining: list[tuple[int, int]] = []
    for band in range(plan.bands):
        for first, second in new_pairs(codes, plan, band, parents=parents):
            n_looked_at += len(first)
            links = similar[first, second]
            first, second = first[links], second[links]
            joined = np.empty(len(first), dtype=np.bool_)
            unite_into(parents, first, second, joined)
            joining += as_set([(first[joined], second[joined])])
    roots = np.empty_like(parents)
    roots_into(parents, roots)
    return roots.tolist(), n_looked_at, joining


def forest_by_order(
    symbols: npt.NDArray[np.int64], plan: BandPlan, similar: npt.NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Pairs that join two components, over all pairs in the order that is promised."""
    shared = shared_bands(symbols, plan)
    ordered = []
    for i, j in combinations(range(len(symbols)), 2):
        if shared[i, j].any() and similar[i, j]:
            band = int(np.argmax(shared[i, j]))
            key = int(band_keys(Codes.from_symbols(symbols, 1), plan, band)[i])
            rank = int(shared[:i, i, band].sum())
            ordered.append(((band, (rank + 1).bit_length(), key, rank, j), (i, j)))
    roots = list(range(len(symbols)))
    forest = []
    for _, (i, j) in sorted(ordered):
        low, high = sorted((roots[i], roots[j]))
        if low != high:
            forest.append((i, j))
            roots = [low if root == high else root for root in roots]
    return forest


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 24), st.floats(0, 1), st.integers(0, 2**32), st.integers(1, 40))
def test_links_are_those_of_all_pairs_in_one_order(
    n: int, share: float, seed: int, pairs_at_once: int
) -> None:
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 2, (n, 6))
    similar = np.triu(rng.random((n, n)) < share, 1)
    codes, plan = Codes.from_symbols(symbols, 1), BandPlan(3, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "_PAIRS_AT_ONCE", pairs_at_once)
        links = linked_by(codes, plan, similar)[2]
    assert links == forest_by_order(symbols, plan, similar)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.integers(0, 2**32), st.integers(1, 40))
def test_pairs_come_in_the_order_that_is_promised(n: int, seed: int, pairs_at_once: int) -> None:
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 2, (n, 6))
    codes, plan = Codes.from_symbols(symbols, 1), BandPlan(3, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "_PAIRS_AT_ONCE", pairs_at_once)
        came = [
            (band, first, second)
            for band in range(plan.bands)
            for first, second in as_set(new_pairs(codes, plan, band))
        ]
    columns = np.array(came, dtype=np.int64).reshape(-1, 3)
    shared = shared_bands(symbols, plan)
    keys = np.array([band_keys(codes, plan, band)[i] for band, i, _ in came], dtype=np.uint64)
    ranks = np.array([shared[:i, i, band].sum() for band, i, _ in came], dtype=np.int64)
    order = order_of_pairs(columns[:, 0], keys, ranks, columns[:, 2])
    assert order.tolist() == list(range(len(came)))


def roots_in_python(n: int, links: list[tuple[int, int]]) -> list[int]:
    roots = list(range(n))
    for a, b in links:
        low, high = sorted((roots[a], roots[b]))
        roots = [low if root == high else root for root in roots]
    return roots


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 24), st.floats(0, 1), st.integers(0, 2**32), st.integers(1, 4))
def test_skipping_joined_pairs_leaves_the_components_as_they_are(
    n: int, share: float, seed: int, pairs_at_once: int
) -> None:
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 2, (n, 6))
    similar = np.triu(rng.random((n, n)) < share, 1)
    codes, plan = Codes.from_symbols(symbols, 1), BandPlan(3, 2)
    shared = np.any(shared_bands(symbols, plan), axis=2)
    links = [(i, j) for i, j in combinations(range(n), 2) if shared[i, j] and similar[i, j]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "_PAIRS_AT_ONCE", pairs_at_once)
        assert linked_by(codes, plan, similar)[0] == roots_in_python(n, links)


def test_rows_that_are_all_alike_take_one_look_each() -> None:
    n = 501
    codes = Codes.from_symbols(np.ones((n, 8), dtype=np.uint8), 1)
    roots, n_looked_at, _ = linked_by(codes, BandPlan(4, 2), np.ones((n, n), dtype=np.bool_))
    assert roots == [0] * n
    assert n_looked_at == n - 1


def test_few_strangers_among_many_alike_take_few_looks() -> None:
    n = 501
    similar = np.ones((n, n), dtype=np.bool_)
    strangers = [3, 100, 500]
    similar[strangers] = similar[:, strangers] = False
    codes = Codes.from_symbols(np.ones((n, 8), dtype=np.uint8), 1)
    roots, n_looked_at, _ = linked_by(codes, BandPlan(4, 2), similar)
    assert roots == [i if i in strangers else 0 for i in range(n)]
    assert n_looked_at < 12 * n  # of 125,250 pairs


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 24), st.integers(0, 2**32), st.integers(0, 2))
def test_members_without_a_pair_worth_comparing_are_told(n: int, seed: int, band: int) -> None:
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 2, (n, 6))
    codes, plan = Codes.from_symbols(symbols, 1), BandPlan(3, 2)
    sizes, roots = rng.integers(1, 9, n), np.sort(rng.integers(0, n, n))
    roots = np.searchsorted(roots, roots)  # of each the first that is equal
    classes, least = np.array([6, 12]), np.array([2, 4, 5])
    buckets = Buckets.of_keys(band_keys(codes, plan, band), np.arange(n))
    comparable = np.zeros(len(buckets.members), dtype=np.bool_)
    comparable_members_into(
        codes.words,
        6,
        band,
        2,
        sizes,
        0.5,
        roots,
        buckets.members,
        buckets.starts,
        buckets.counts,
        classes,
        least,
        comparable,
    )
    shared = shared_bands(symbols, plan)
    expected = set()
    for i, j in combinations(range(n), 2):
        needed = least[np.sum(sizes[i] + sizes[j] >= classes)]
        if (
            shared[i, j, band]
            and not shared[i, j, :band].any()
            and roots[i] != roots[j]
            and min(sizes[i], sizes[j]) >= 0.5 * max(sizes[i], sizes[j])
            and np.sum(symbols[i] == symbols[j]) >= needed
        ):
            expected |= {i, j}
    assert set(buckets.members[comparable].tolist()) == expected


def test_pairs_of_too_different_sizes_are_left_out() -> None:
    codes = Codes.from_symbols(np.ones((4, 4), dtype=np.uint8), 1)
    sizes = np.array([4, 5, 8, 10])
    found = as_set(new_pairs(codes, BandPlan(1, 4), 0, sizes=sizes, ratio=0.8))
    assert sorted(found) == [(0, 1), (2, 3)]


def test_buckets_hold_rows_in_order_and_none_alone() -> None:
    keys = np.array([5, 9, 5, 1, 9, 5, 7], dtype=np.uint64)
    buckets = Buckets.of_keys(keys, np.array([0, 1, 2, 3, 4, 6]))
    assert buckets.members.tolist() == [0, 2, 1, 4]
    assert (buckets.starts.tolist(), buckets.counts.tolist()) == ([0, 2], [2, 2])
    assert len(Buckets.of_keys(keys, np.array([], dtype=np.int64)).starts) == 0


@pytest.mark.parametrize("n_symbols", [1, 7, 64, 128, 255])
@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.5, 0.8, 0.95, 1.0])
def test_the_chosen_plan_misses_least_within_the_budget(n_symbols: int, threshold: float) -> None:
    plan = choose_bands(threshold, n_symbols)
    assert plan.n_symbols <= n_symbols
    others = [BandPlan(n_symbols // rows, rows) for rows in range(1, n_symbols + 1)]
    affordable = [
        other for other in others if other.false_alarm_rate(threshold) <= bands.FALSE_ALARMS
    ]
    if not affordable:
        assert plan.false_alarm_rate(threshold) == min(
            other.false_alarm_rate(threshold) for other in others
        )
        return
    assert plan in affordable
    assert plan.miss_rate(threshold) == min(other.miss_rate(threshold) for other in affordable)


def test_rates_are_those_of_simulated_codes() -> None:
    rng = np.random.default_rng(0)
    plan, threshold, n = BandPlan(10, 4), 0.6, 40_000
    ranges = [
        (threshold, 1.0, 1 - plan.miss_rate(threshold)),
        (0.0, threshold, plan.false_alarm_rate(threshold)),
    ]
    for low, high, rate in ranges:
        similarity = rng.uniform(low, high, n)
        equal = rng.random((n, plan.bands, plan.rows)) < similarity[:, None, None]
        found = np.mean(np.any(np.all(equal, axis=2), axis=1))
        assert abs(found - rate) < 4 * np.sqrt(rate * (1 - rate) / n)


def test_more_hashes_miss_less() -> None:
    rates = [choose_bands(0.8, n).miss_rate(0.8) for n in (16, 64, 256)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("threshold", [0, -0.1, 1.01, float("nan"), "0.8", None, True])
def test_a_threshold_that_cannot_be(threshold: Any) -> None:
    with pytest.raises(
        InvalidInputError, match="threshold must be a number above 0 and up to 1, got"
    ):
        choose_bands(threshold, 128)


def test_plans_that_cannot_be() -> None:
    codes = Codes.from_symbols(np.ones((4, 8), dtype=np.uint8), 1)
    with pytest.raises(
        InvalidInputError,
        match="plan must need at most the 8 symbols of the codes, got 3 bands of 3",
    ):
        band_keys(codes, BandPlan(3, 3), 0)
    with pytest.raises(InvalidInputError, match=r"plan must be a BandPlan, got \(2, 4\)"):
        list(candidate_pairs(codes, (2, 4)))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="codes must be Codes"):
        list(candidate_pairs(codes.words, BandPlan(2, 4)))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="band must be between 0 and 1, got 2"):
        band_keys(codes, BandPlan(2, 4), 2)
    with pytest.raises(InvalidInputError, match="rows must be at least 1, got 0"):
        BandPlan(2, 0)
