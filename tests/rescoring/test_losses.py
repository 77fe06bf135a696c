"""Winner-take-all codes scored by what the query loses are ranked as plain NumPy ranks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes, FlatIndex, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.index import scan_parts
from bitkin.kernels.search.losses import MOST_PLANES
from bitkin.rescoring.estimate import NO_CORRECTIONS, CodedRows
from bitkin.rescoring.estimate_scan import EstimateRows
from bitkin.rescoring.losses import N_TERMS, LossQueries, LossScorer

Floats = npt.NDArray[np.float64]
# hashes, alphabet, bits of a level: few, for each is compiled
SHAPES = [(7, 2, 3), (130, 4, 3), (65, 5, 8), (70, 16, 3), (9, 20, 3)]
WINDOW = 20


def levels_of(losses: npt.NDArray[np.float32], n_bits: int) -> Floats:
    """Losses as a scan counts them: rounded, and in large alphabets those of all but the best few
    symbols of a place equal.
    """
    highest = 2**n_bits - 1
    levels: Floats = np.floor(losses.astype(np.float64) * highest + 0.5)
    if losses.shape[2] <= 2**MOST_PLANES:
        return levels
    order = np.argsort(losses, axis=2, kind="stable")
    rest = np.take_along_axis(losses, order[:, :, N_TERMS:], 2).astype(np.float64).mean(axis=2)
    out = np.repeat(np.floor(rest * highest + 0.5)[:, :, None], losses.shape[2], axis=2)
    best = order[:, :, :N_TERMS]
    np.put_along_axis(out, best, np.take_along_axis(levels, best, 2), 2)
    return out


def truth_of(levels: Floats, symbols: npt.NDArray[Any]) -> Floats:
    """All distances as they are reported."""
    places = np.arange(symbols.shape[1])
    scores = np.array([[table[places, row].sum() for row in symbols] for table in levels])
    totals = levels.mean(axis=2).sum(axis=1)[:, None]
    return np.asarray(
        scores.reshape(len(levels), len(symbols)) * np.where(totals > 0, 1 / totals, 0)
    )


def best_of(scores: Floats, ids: npt.NDArray[Any], k: int) -> tuple[list[Any], Floats]:
    """The best k of every query and their scores, ties by lower id, padded."""
    rest = max(0, k - len(ids))
    order = [np.lexsort((ids, row.round(9)))[:k] for row in scores]
    found = [row[o].tolist() + [np.inf] * rest for row, o in zip(scores, order, strict=True)]
    return [ids[o].tolist() + [-1] * rest for o in order], np.array(found).reshape(-1, k)


def all_rows(index: FlatIndex) -> EstimateRows:
    return EstimateRows.without_corrections(index.snapshot.whole)


def fitted(shape: tuple[int, int, int]) -> tuple[WTAHash, npt.NDArray[np.float64]]:
    """A hasher of that shape, and rows like those it was fitted on."""
    X = np.random.default_rng(shape[0]).standard_normal((200, 50))
    return WTAHash(shape[0], WINDOW, alphabet_size=shape[1]).fit(X), X


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_best_rows_are_those_of_numpy(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    hasher, X = fitted(shape)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n = data.draw(st.sampled_from([0, 1, 63, 65, 513, 1100]))
    n_kinds = data.draw(st.sampled_from([1, 5, 200]))  # few kinds of rows: many ties
    symbols = hasher.transform(X)[rng.integers(0, n_kinds, n)]
    ids = rng.choice(5 * n + 1, n, replace=False)
    index = FlatIndex(hasher.spec_)
    at = 0
    while at < n:  # several segments, whose ids interleave
        stop = at + int(rng.integers(1, n + 1))
        index.add(Codes.from_symbols(symbols[at:stop], hasher.spec_.bits_per_symbol), ids[at:stop])
        at = stop
    there = np.ones(n, dtype=bool)
    if data.draw(st.booleans()):
        there = rng.random(n) < 0.7
        index.remove(ids[~there])
    snapshot = index.snapshot
    rows = snapshot.whole
    n_queries = data.draw(st.integers(0, 3))
    if data.draw(st.booleans()):
        allow = ids[rng.random(n) < data.draw(st.sampled_from([0.01, 0.6]))]
        there &= np.isin(ids, allow)
        rows = snapshot.allowed(allow, n_queries)

    scorer = LossScorer(hasher, shape[2])
    queries = X[rng.integers(0, len(X), n_queries)]
    prepared = scorer.prepare_queries(queries)
    k = data.draw(st.sampled_from([1, 10, 600]))
    found = scorer.scan(EstimateRows.without_corrections(rows), prepared, k)
    truth = truth_of(levels_of(hasher.losses(queries), shape[2]), symbols[there])
    expected_ids, expected = best_of(truth, ids[there], k)
    assert found.ids.tolist() == expected_ids
    np.testing.assert_allclose(found.distances, expected, rtol=1e-9)

    # a shortlist of some of the rows, in any order, is ranked alike
    some = [rng.permutation(there.sum())[:70] for _ in range(n_queries)]
    listed = np.full((n_queries, 71), -1)
    for short, chosen in zip(listed, some, strict=True):
        short[: len(chosen)] = ids[there][chosen]
    words = snapshot.words(ids[there])
    places = np.full(listed.shape, -1)
    for place, chosen in zip(places, some, strict=True):
        place[: len(chosen)] = chosen
    coded = CodedRows(words[:, :, :, None], NO_CORRECTIONS, places, places)
    short_found = scorer.nearest(prepared, coded, listed, k)
    for q, chosen in enumerate(some):
        short_ids, short_scores = best_of(truth[q : q + 1, chosen], ids[there][chosen], k)
        assert short_found.ids[q].tolist() == short_ids[0]
        np.testing.assert_allclose(short_found.distances[q], short_scores[0], rtol=1e-9)


@pytest.mark.parametrize("n_queries", [1, 7])
def test_any_number_of_threads_finds_the_same(
    n_queries: int, few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    hasher, X = fitted(SHAPES[1])
    codes = hasher.encode(np.repeat(X[:40], 75, axis=0))
    index = FlatIndex(hasher.spec_)
    index.add(codes)
    scorer = LossScorer(hasher)
    found = []
    for n_threads in (1, 2, 5):
        bitkin.set_threads(n_threads)
        prepared = scorer.prepare_queries(X[:n_queries])
        found.append(scorer.scan(all_rows(index), prepared, 50))
    for one in found[1:]:
        assert one.ids.tolist() == found[0].ids.tolist()
        assert one.distances.tolist() == found[0].distances.tolist()
    # its own code costs nothing
    assert found[0].distances[:, 0].tolist() == [0.0] * n_queries


def test_a_query_with_nothing_to_hash_finds_nothing() -> None:
    X = np.random.default_rng(0).integers(0, 3, (50, 30)).astype(np.float64)
    X[7] = 0
    hasher = WTAHash(9, 4, center=False).fit(X)
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(X))
    scorer = LossScorer(hasher)
    prepared: LossQueries = scorer.prepare_queries(X[6:9])
    found = scorer.scan(all_rows(index), prepared, 60)
    assert (found.ids[1] == -1).all()
    assert np.isinf(found.distances[1]).all()
    assert (found.ids[0] >= 0).sum() == 49
    assert 7 not in found.ids
    assert found.ids[0, 0] == 6


def test_rows_are_ranked_better_than_by_counting() -> None:
    rows = np.random.default_rng(1).standard_normal((3050, 100))
    X, queries = rows[50:], rows[:50]
    truth = bitkin.evaluate.nearest(X, queries, 10).ids
    hasher = WTAHash(60, WINDOW, alphabet_size=16).fit(X)
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(X))
    scorer = LossScorer(hasher)
    by_loss = scorer.scan(all_rows(index), scorer.prepare_queries(queries), 50).ids
    by_count = index.search(hasher.encode(queries), 50).ids
    # 0.26 against 0.16: random rows have no near neighbours, and gain most
    assert bitkin.evaluate.recall(by_loss, truth) > 1.3 * bitkin.evaluate.recall(by_count, truth)


def test_an_alphabet_that_is_too_large_is_refused() -> None:
    X = np.random.default_rng(0).standard_normal((20, 30))
    hasher = WTAHash(8, 4, alphabet_size=5000).fit(X)
    with pytest.raises(InvalidInputError, match=r"at most 4,096 symbols .* alphabet_size_ = 5,000"):
        LossScorer(hasher)
