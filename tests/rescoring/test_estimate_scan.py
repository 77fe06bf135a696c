"""The estimate of all rows by bit planes is that of plain NumPy, whatever the cut, and its query is
the one that was given, rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes, FlatIndex
from bitkin.index import scan_parts
from bitkin.kernels._shared import NO_ID, SPARE_CANDIDATES, collect_rows, thin_out
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.estimate_scan import scan_estimates_into
from bitkin.rescoring.estimate import PreparedQueries
from bitkin.rescoring.estimate_scan import (
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)
from bitkin.rescoring.scan_parts import candidate_pool

Floats = npt.NDArray[np.float64]
WIDTHS = [(7, 4), (130, 4), (65, 1)]  # bits of codes, of queries: few, for each is compiled


def codes_of(signs: npt.NDArray[Any]) -> Codes:
    """Codes of rows of ± 1."""
    return Codes.from_symbols((signs > 0).astype(np.uint8), 1)


def prepared(z: npt.NDArray[Any], terms: Floats) -> PreparedQueries:
    return PreparedQueries(codes_of(z), np.asarray(z, dtype=np.float32), terms)


def levels_of(queries: QuantizedQueries, n_bits: int) -> npt.NDArray[np.int64]:
    """l of every query, from its planes."""
    planes = queries.planes
    n_bytes = 8 * planes.shape[2]
    bits = np.unpackbits(planes.view(np.uint8).reshape(*planes.shape[:2], n_bytes), axis=2)
    bits = bits[:, :, :n_bits].astype(np.int64)
    magnitudes = sum((bits[:, 1 + p] << p for p in range(planes.shape[1] - 1)), 0 * bits[:, 0])
    return np.asarray((2 * bits[:, 0] - 1) * (2 * magnitudes + 1))


def truth_of(
    queries: QuantizedQueries,
    signs: npt.NDArray[Any],
    corrections: npt.NDArray[np.float32],
    *,
    has_small: bool = True,
) -> Floats:
    """All scores, by the formula."""
    a, f = corrections.astype(np.float64).T
    if has_small:
        a = np.where(a < 0, a * a, a)
    constant, onto, root, factor = (term[:, None] for term in queries.terms.T)
    products = levels_of(queries, signs.shape[1]) @ signs.astype(np.int64).T
    of_root = root * np.sqrt(a) if has_small else 0.0  # which l2 alone has
    return np.asarray((constant + onto * a) + of_root + (factor * f) * products)


def best_of(scores: Floats, ids: npt.NDArray[Any], k: int) -> tuple[list[Any], list[Any]]:
    """The best k of every query and their scores, ties by lower id, padded."""
    order = [np.lexsort((ids, row))[:k] for row in scores]
    rest = max(0, k - len(ids))
    return (
        [[*ids[o].tolist(), *[-1] * rest] for o in order],
        [[*row[o].tolist(), *[np.inf] * rest] for row, o in zip(scores, order, strict=True)],
    )


@given(st.data())
@settings(max_examples=60)
def test_the_best_rows_are_those_of_numpy(data: st.DataObject) -> None:
    n_bits, query_bits = data.draw(st.sampled_from(WIDTHS))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, n_queries = (
        data.draw(st.sampled_from([0, 1, 63, 65, 513, 1100])),
        data.draw(st.integers(0, 3)),
    )
    n_kinds = data.draw(st.sampled_from([1, 5, 2000]))  # few kinds of rows: many ties
    kinds = rng.choice([-1, 1], (n_kinds, n_bits)).astype(np.int8)
    numbers = rng.random((n_kinds, 2)).astype(np.float32)
    numbers[::7, 0] *= -(2.0**-70)  # roots of small squares
    kind = rng.integers(0, n_kinds, n)
    signs, corrections = kinds[kind], numbers[kind]
    ids = rng.choice(5 * n + 1, n, replace=False)
    index = FlatIndex(codes_of(signs).spec)
    at = 0
    while at < n:  # several segments, whose ids interleave
        stop = at + int(rng.integers(1, n + 1))
        index.add(codes_of(signs[at:stop]), ids[at:stop])
        at = stop
    there = np.ones(n, dtype=bool)
    if data.draw(st.booleans()):
        there = rng.random(n) < 0.7
        index.remove(ids[~there])
    allow = None
    if data.draw(st.booleans()):
        allow = ids[rng.random(n) < data.draw(st.sampled_from([0.01, 0.6]))]
        there &= np.isin(ids, allow)

    terms = rng.standard_normal((n_queries, 4))
    terms[:, 2] *= data.draw(st.sampled_from([0.0, 1.0]))
    queries = QuantizedQueries.from_prepared(
        prepared(rng.standard_normal((n_queries, n_bits)), terms), query_bits
    )
    order = np.argsort(ids)  # corrections stand in the order of rows as they came
    rows = EstimateRows.from_stretches(
        index.snapshot.whole if allow is None else index.snapshot.allowed(allow, n_queries),
        corrections,
        lambda wanted: order[np.minimum(np.searchsorted(ids[order], wanted), max(0, n - 1))],
    )
    k = data.draw(st.sampled_from([1, 10, 600]))
    found = scan_estimates(rows, queries, k, has_small=True)
    expected = best_of(truth_of(queries, signs[there], corrections[there]), ids[there], k)
    assert found.ids.tolist() == expected[0]
    assert found.distances.tolist() == expected[1]


@given(
    st.integers(0, 2**32),
    st.sampled_from(["normal", "few values", "one value", "far apart", "infinite"]),
    st.sampled_from([1, 9, 70, 199]),
)
@settings(max_examples=40)
def test_a_pool_that_is_thinned_out_keeps_the_best(seed: int, kind: str, k: int) -> None:
    rng = np.random.default_rng(seed)
    kinds: dict[str, npt.NDArray[Any]] = {
        "normal": rng.standard_normal(200),
        "few values": rng.integers(0, 12, 200).astype(np.int32),
        "one value": np.full(200, -3.0),
        "far apart": np.exp(rng.uniform(-600, 600, 200)),
        "infinite": np.where(rng.random(200) < 0.7, np.inf, rng.random(200)),
    }
    scores, ids = kinds[kind], rng.permutation(200)
    kept_scores, kept_ids = scores.copy(), ids.copy()
    size, limit, last_id = thin_out(kept_scores, kept_ids, 200, k)
    best = np.lexsort((ids, scores))[:k]
    assert k <= size <= k + SPARE_CANDIDATES
    assert set(ids[best]) <= set(kept_ids[:size])
    assert limit == kept_scores[:size].max() >= scores[best[-1]]
    # nothing that is passed over from now on is among the best
    assert last_id == NO_ID or (limit, last_id) == (scores[best[-1]], ids[best[-1]])


@pytest.mark.parametrize("falling", [False, True])
def test_rows_that_all_tie_fill_the_pool_once(falling: bool) -> None:
    k, n = 10, 1000
    ids = np.arange(n)[::-1].copy() if falling else np.arange(n)
    kept_scores, kept_ids, _, _, _ = (part[0] for part in candidate_pool(1, k))
    none = read_only(np.empty(0, dtype=np.uint64))
    room, scores = len(kept_ids), np.full(n, 2.5)
    state: Any = (0, np.inf, NO_ID)
    largest = 0
    for start in range(0, n, 64):
        size, limit, last_id = state
        state = collect_rows(
            scores[start : start + 64], start, none, read_only(ids), k, limit, last_id,
            kept_scores, kept_ids, size,
        )  # fmt: skip
        largest = max(largest, state[0])
    assert state[1] == 2.5
    assert k < largest <= room
    # what comes later has a higher id and is passed over, or a lower one and may not be
    assert (state[0] == k) != falling
    assert set(range(k)) <= set(kept_ids[: state[0]].tolist())


@pytest.mark.parametrize("n_queries", [1, 7])
def test_any_number_of_threads_finds_the_same(
    n_queries: int, few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    rng = np.random.default_rng(n_queries)
    signs = rng.choice([-1, 1], (40, 7))[rng.integers(0, 40, 3000)]
    corrections = np.repeat(rng.random((3, 2)), 1000, axis=0).astype(np.float32)
    index = FlatIndex(codes_of(signs).spec)
    index.add(codes_of(signs))
    z, terms = rng.standard_normal((n_queries, 7)), rng.standard_normal((n_queries, 4))
    queries = QuantizedQueries.from_prepared(prepared(z, terms), 4)
    rows = EstimateRows.from_stretches(index.snapshot.whole, corrections, lambda ids: 0)
    found = []
    for n_threads in (1, 2, 5):
        bitkin.set_threads(n_threads)
        assert (len(scan_parts.cut_scan(rows.parts, n_queries, 4, 50)) > 1) == (n_threads > 1)
        found.append(scan_estimates(rows, queries, 50, has_small=True))
    expected = best_of(truth_of(queries, signs, corrections), np.arange(3000), 50)
    for one in found:
        assert (one.ids.tolist(), one.distances.tolist()) == expected


@pytest.mark.parametrize("allowed", [1.0, 0.05])
def test_narrow_tiles_are_put_side_by_side(allowed: float) -> None:
    rng = np.random.default_rng(3)
    n, n_words, n_lanes, unit_rows = 330, 3, 16, 64
    signs = rng.choice([-1, 1], (n, 64 * n_words))
    words = codes_of(signs).words[:, 0]
    tiles = np.zeros((512 // n_lanes, 1, n_words, n_lanes), dtype=np.uint64)
    for row in range(n):
        tiles[row // n_lanes, 0, :, row % n_lanes] = words[row]
    there = rng.random(n) < allowed
    mask = np.zeros(512, dtype=np.uint8)
    mask[:n] = there
    corrections = rng.random((n, 2)).astype(np.float32)
    z, terms = rng.standard_normal((2, 64 * n_words)), rng.standard_normal((2, 4))
    terms[:, 2] = 0
    queries = QuantizedQueries.from_prepared(prepared(z, terms), 4)
    scores, ids = np.empty((2, 20)), np.empty((2, 20), dtype=np.int64)
    wide = np.empty((1, 1, n_words, unit_rows), dtype=np.uint64)
    scan_estimates_into(
        read_only(tiles), read_only(np.arange(n)), 0, 1, n,
        read_only(np.packbits(mask, bitorder="little").view(np.uint64)),
        read_only(corrections), read_only(np.empty(0, dtype=np.int64)), False,
        *queries, (0,) * 4, (0,) * n_words, True, True,
        wide, read_only(wide), np.empty(unit_rows, dtype=np.int32),
        np.empty((3, unit_rows)), np.empty(unit_rows), *candidate_pool(2, 20), scores, ids,
    )  # fmt: skip
    expected = best_of(
        truth_of(queries, signs[there], corrections[there]), np.flatnonzero(there), 20
    )
    assert (ids.tolist(), scores.tolist()) == expected


@pytest.mark.parametrize(
    ("query_bits", "most"), [(1, 0.37), (2, 0.125), (3, 0.04), (4, 0.0125), (8, 1e-4)]
)
def test_a_rounded_query_is_near_the_one_given(query_bits: int, most: float) -> None:
    # the best that levels at equal distances can do for normal numbers: 0.363, 0.119, 0.0374,
    # 0.0115, 0.00006 of the squares
    z = np.random.default_rng(0).standard_normal((20, 300)).astype(np.float32)
    queries = QuantizedQueries.from_prepared(prepared(z, np.ones((20, 4))), query_bits)
    levels = levels_of(queries, 300)
    assert np.array_equal(np.abs(levels).sum(axis=1), queries.totals)
    assert np.abs(levels).max() < 2**query_bits
    assert np.array_equal(levels > 0, z > 0)
    error = np.square(z - queries.terms[:, 3:] * levels).sum() / np.square(z).sum()
    assert error < most


def test_a_query_of_zeros_and_one_number_keep_their_length() -> None:
    z = np.zeros((2, 7), dtype=np.float32)
    z[1, 3] = 2.0**-140
    queries = QuantizedQueries.from_prepared(prepared(z, np.ones((2, 4))), 4)
    assert queries.terms[0, 3] == 0.0
    assert queries.terms[1, 3] * levels_of(queries, 7)[1, 3] == pytest.approx(2.0**-140, rel=0.1)
