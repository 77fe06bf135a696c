"""Whether a MultiIndex looks up or scans, by costs that are given here: nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bitkin import Codes, FlatIndex, MultiIndex
from bitkin.index.multi import lookup as multi_lookup
from bitkin.index.multi import multi_index as multi
from bitkin.index.multi import search as multi_search
from bitkin.index.multi import tables as multi_tables
from bitkin.index.multi.record import BatchKind, LookupChoice, LookupRecord, ScanPace
from bitkin.kernels.blocks import BLOCK
from tests.truth import random_codes

KIND = BatchKind(1, 100_000, 10, within_radius=False, filtered=False)


def spent(lookup: Callable[[int], float], n_batches: int, n_queries: int = 1) -> float:
    """Return what batches took, in scans of a batch, where looking batch i up takes `lookup(i)`."""
    choice, total = LookupChoice(), 0.0
    for i in range(n_batches):
        first, last = 0, choice.n_to_look_up(n_queries)
        while first < last:
            choice.note(lookup(i))
            total += lookup(i) * (last - first) / n_queries
            first, last = last, n_queries if choice.pays else last
        total += (n_queries - last) / n_queries  # scanned
    return total


@pytest.mark.parametrize("n_queries", [1, 2, 16, 200])
@pytest.mark.parametrize("lookup", [1.05, 1.3, 2.0, 3.0])
def test_lookups_that_lose_cost_little_in_all(lookup: float, n_queries: int) -> None:
    # each loss is a whole batch of one query, of many an eighth
    per_trial = (lookup - 1) * max(1, n_queries // 8) / n_queries
    in_all = spent(lambda _: lookup, 1000, n_queries) - 1000
    assert 0 < in_all <= 25 * per_trial + 1e-9
    assert spent(lambda _: lookup, 4000, n_queries) < 4000 * 1.04


@pytest.mark.parametrize("n_queries", [1, 2, 16, 200])
def test_lookups_that_win_are_used_nearly_always(n_queries: int) -> None:
    assert spent(lambda _: 0.2, 1000, n_queries) < 1.01 * 200
    # less clear ones are left out once in 33 batches, to time the scan again
    assert spent(lambda _: 0.8, 1000, n_queries) < 1.02 * 800


def test_the_first_lookups_may_have_compiled_kernels_and_are_forgotten() -> None:
    assert spent(lambda i: 1000.0 if i == 0 else 0.2, 1000) < 1000 + 3 + 0.21 * 1000


def test_one_noisy_batch_changes_no_choice() -> None:
    assert spent(lambda i: 50.0 if i == 500 else 0.3, 1000) < 50 + 0.31 * 1000


def test_lookups_are_found_to_pay_again_when_queries_change() -> None:
    assert spent(lambda i: 2.0 if i < 200 else 0.1, 3000) < 200 + 15 + 0.6 * 2800
    # and to lose again
    assert spent(lambda i: 0.1 if i < 200 else 2.0, 3000) < 2800 * 1.05 + 20


def test_a_mixture_is_judged_by_all_it_takes_together() -> None:
    def mixed(cheap: int) -> float:
        return spent(lambda i: 0.1 if i * 7 % 10 < cheap else 1.4, 4000)

    assert mixed(cheap=2) < 4000 * 1.05  # 1.14 each where all are looked up
    assert mixed(cheap=8) < 4000 * 0.5  # 0.36 each


def test_a_long_scan_is_believed_slowly_and_a_short_one_soon() -> None:
    pace = ScanPace()
    pace.note(1.0)
    pace.note(1000.0)
    assert pace.factor == pytest.approx(1.1)
    for _ in range(5):
        pace.note(0.4)
    assert pace.factor == pytest.approx(0.4, rel=0.1)
    first = ScanPace()
    first.note(1e6)
    assert first.factor == 8.0


def test_batches_are_known_by_their_kind() -> None:
    record = LookupRecord()
    assert record.choice(KIND) is record.choice(KIND._replace(n_rows=120_000, depth=15))
    for other in (
        KIND._replace(n_queries=2),
        KIND._replace(n_rows=10**6),
        KIND._replace(depth=100),
        KIND._replace(within_radius=True),
        KIND._replace(filtered=True),
    ):
        assert record.choice(other) is not record.choice(KIND)
    record.note_scan(KIND, 300.0, 100.0)
    assert record.scan_factor(KIND) == 3.0
    many = KIND._replace(n_queries=64)
    assert record.scan_factor(many) == 1.0
    assert record.scan_factor(many, like=KIND) == 3.0


class Clock:
    """Time that passes by as much as is said at every look."""

    def __init__(self, step: int) -> None:
        self.now, self.step = 0, step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multi, "_FEW_ROWS", BLOCK - 1)
        patch.setattr(multi_tables, "_KEYS_OF_ROWS", 0.001)
        patch.setattr(multi_lookup, "_SHARES_OF_SCAN", np.full(3, np.inf))
        yield patch


def indexes(rows: Codes) -> tuple[MultiIndex, FlatIndex]:
    index, flat = MultiIndex(rows.spec), FlatIndex(rows.spec)
    for each in (index, flat):
        each.add(rows)
    return index, flat


@pytest.mark.parametrize(("step", "looked_up"), [(10**9, 2), (0, 16)], ids=["slow", "fast"])
def test_some_queries_are_tried_first_and_the_others_where_that_was_fast(
    step: int, looked_up: int, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(multi_search, "clock", Clock(step))
    rows = random_codes(np.random.default_rng(0), 2 * BLOCK, 64, near=True)
    index, _ = indexes(rows)
    lookups = index.explain(rows[:16], 3)
    assert np.count_nonzero(~lookups.fell_back) == looked_up
    assert np.array_equal(lookups.probes > 0, ~lookups.fell_back)
    # slow: the next batch is scanned at once
    assert index.explain(rows[:16], 3).fell_back.all() == (step > 0)


@pytest.mark.parametrize("step", [0, 1, 30_000, 10**9])
def test_no_answer_depends_on_what_was_timed(step: int, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(multi_search, "clock", Clock(step))
    rng = np.random.default_rng(1)
    rows = random_codes(rng, 2 * BLOCK + 9, 64, near=True, empty=True)
    index, flat = indexes(rows)
    queries = random_codes(rng, 19, 64, near=True, empty=True)
    allow = np.arange(0, len(rows), 2)
    for n in (1, 2, 19, 19, 19, 1, 1, 1):
        for allowed in (None, allow):
            found, want = (each.search(queries[:n], 5, allow=allowed) for each in (index, flat))
            assert np.array_equal(found.ids, want.ids)
            assert np.array_equal(found.distances, want.distances)
            near, truth = (
                each.search_radius(queries[:n], 9, allow=allowed) for each in (index, flat)
            )
            assert np.array_equal(near.ids, truth.ids)
            assert np.array_equal(near.offsets, truth.offsets)
            assert np.array_equal(near.distances, truth.distances)
