from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes, CodeSpec, FlatIndex, MultiIndex, Neighbors, RaggedNeighbors
from bitkin.errors import CodeMismatchError, InvalidInputError
from bitkin.index.multi import costs as multi_costs
from bitkin.index.multi import lookup as multi_lookup
from bitkin.index.multi import multi_index as multi
from bitkin.index.multi import record as multi_record
from bitkin.index.multi import search as multi_search
from bitkin.index.multi import tables as multi_tables
from bitkin.index.rows import growth
from bitkin.kernels.blocks import BLOCK
from tests.truth import random_codes

# Planes and words: for each the scan's kernels are compiled, for other tests too.
SHAPES = [(1, 1), (1, 2), (1, 4), (3, 1), (2, 2), (5, 2)]
# Shares of the scan's cost: tables at any price, no tables at all, and what lets some queries give
# up half way.
TABLES, SCAN, HALF_WAY = (np.full(3, share) for share in (np.inf, 0.0, 30.0))


@pytest.fixture
def few_rows() -> Iterator[pytest.MonkeyPatch]:
    """Let a block of rows have tables, looked up at any distance and at any price."""
    with pytest.MonkeyPatch.context() as patch:
        yield patched(patch)


def patched(patch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    patch.setattr(multi, "_FEW_ROWS", BLOCK - 1)
    patch.setattr(multi_tables, "_KEYS_OF_ROWS", 0.001)
    patch.setattr(multi_lookup, "_SHARES_OF_SCAN", TABLES)
    patch.setattr(multi_record, "_PAYS_BELOW", np.inf)
    return patch


@pytest.fixture
def no_time_passes() -> Iterator[pytest.MonkeyPatch]:
    """Let lookups take no time, and scans what they took on a machine of 2021."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (multi_search, multi_lookup):
            patch.setattr(module, "clock", lambda: 0)
        patch.setattr(multi_lookup, "scan_costs", lambda *_: multi_costs.ASSUMED_COSTS)
        yield patch


def clustered(
    rng: np.random.Generator, n: int, n_symbols: int, bits: int, *, empty: bool = False
) -> Codes:
    """Codes around a few centres, each symbol drawn anew with a chance of one in ten."""
    centres = rng.integers(0, 2**bits, (max(1, n // 40), n_symbols), dtype=np.uint64)
    symbols = centres[rng.integers(0, len(centres), n)]
    drawn = rng.random(symbols.shape) < 0.1
    symbols[drawn] = rng.integers(0, 2**bits, int(drawn.sum()), dtype=np.uint64)
    return Codes.from_symbols(symbols, bits, empty=rng.random(n) < 0.1 if empty else None)


def both(codes: Codes, ids: npt.ArrayLike | None = None) -> tuple[MultiIndex, FlatIndex]:
    index, flat = MultiIndex(codes.spec), FlatIndex(codes.spec)
    index.add(codes, ids)
    flat.add(codes, ids)
    return index, flat


def same(found: Neighbors | RaggedNeighbors, want: Neighbors | RaggedNeighbors) -> bool:
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = list(zip(found, want, strict=True))
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def require_same_answers(
    index: MultiIndex, flat: FlatIndex, queries: Codes, allow: Any = None
) -> None:
    n, n_symbols = len(flat), flat.spec.n_symbols
    for k in (1, 10, n + 3):
        assert same(index.search(queries, k, allow=allow), flat.search(queries, k, allow=allow))
    for radius in (0, n_symbols // 5, n_symbols, n_symbols + 9):
        found, want = (each.search_radius(queries, radius, allow=allow) for each in (index, flat))
        assert same(found, want)


@settings(max_examples=60)
@given(
    shape=st.sampled_from(SHAPES),
    spared=st.integers(0, 63),
    n=st.integers(1, 4 * BLOCK),
    kind=st.sampled_from(["clustered", "random", "repeated"]),
    shares=st.sampled_from([TABLES, HALF_WAY, SCAN]),
    seed=st.integers(0, 2**32),
)
def test_answers_are_those_of_the_scan(
    shape: tuple[int, int],
    spared: int,
    n: int,
    kind: str,
    shares: npt.NDArray[np.float64],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    bits, n_symbols = shape[0], 64 * shape[1] - spared
    if kind == "clustered":
        rows = clustered(rng, n, n_symbols, bits, empty=True)
    else:
        rows = random_codes(rng, n, n_symbols, bits, empty=True, near=kind == "repeated")
    queries = Codes.concatenate([random_codes(rng, 3, n_symbols, bits, empty=True), rows[:4]])
    with pytest.MonkeyPatch.context() as patch:
        patched(patch).setattr(multi_lookup, "_SHARES_OF_SCAN", shares)
        index, flat = both(rows, rng.permutation(3 * n)[:n])
        assert (index.snapshot.segments[0].tables is None) == (n < BLOCK)
        require_same_answers(index, flat, queries)


@settings(max_examples=25)
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from(["add", "add behind", "upsert", "remove", "compact", "merge", "copy"]),
            st.integers(0, 2000),
        ),
        min_size=1,
        max_size=7,
    ),
    seed=st.integers(0, 2**32),
)
def test_answers_stay_those_of_the_scan_whatever_is_written(
    writes: list[tuple[str, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patched(patch)
        index, flat = both(
            clustered(rng, 3 * BLOCK, 33, 1, empty=True), rng.permutation(20_000)[: 3 * BLOCK]
        )
        for kind, size in writes:
            index = written(kind, size, rng, index, flat)
            queries = clustered(rng, 3, 33, 1)
            assert same(index.search(queries, 7), flat.search(queries, 7))
            assert same(index.search_radius(queries, 6), flat.search_radius(queries, 6))
        require_same_answers(index, flat, index.codes(index.ids[:3]))


def written(
    kind: str, size: int, rng: np.random.Generator, index: MultiIndex, flat: FlatIndex
) -> MultiIndex:
    """Write the same to both; return the index to go on with."""
    ids = np.unique(rng.integers(0, 20_000, size))
    rows = clustered(rng, len(ids), 33, 1, empty=True)
    there = flat.ids
    new = ~np.isin(ids, there)
    for each in (index, flat):
        if kind == "add":
            each.add(rows[new], ids[new])
        elif kind == "add behind":
            each.add(rows)
        elif kind == "upsert":
            each.upsert(rows, ids)
        elif kind == "remove":
            each.remove(there[::3])
        elif kind == "compact":
            each.compact()
        elif kind == "merge":
            other = type(each)(each.spec)
            other.add(rows[new], ids[new])
            each.merge(other)
    return copy.deepcopy(index) if kind == "copy" else index


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
@pytest.mark.parametrize("shares", [TABLES, SCAN], ids=["tables", "scan"])
def test_only_allowed_ids_come_back_and_all_k_of_them(
    share: float, shares: npt.NDArray[np.float64], few_rows: pytest.MonkeyPatch
) -> None:
    few_rows.setattr(multi_lookup, "_SHARES_OF_SCAN", shares)
    few_rows.setattr(multi_search, "FEW_ALLOWED", 0)
    rng = np.random.default_rng(3)
    rows = clustered(rng, 3 * BLOCK + 70, 64, 1, empty=True)
    index, flat = both(rows, rng.permutation(9000)[: len(rows)])
    allow = np.append(flat.ids[rng.random(len(rows)) < share], [10**12, 9001])
    require_same_answers(index, flat, rows[:5], allow)
    require_same_answers(index, flat, rows[:5], flat.ids[:1])


def test_few_allowed_rows_are_scanned_at_once(few_rows: pytest.MonkeyPatch) -> None:
    rows = clustered(np.random.default_rng(0), 4 * BLOCK, 64, 1)
    index, flat = both(rows)
    few, many = np.arange(20), np.arange(1000)
    assert index.explain(rows[:3], 2, allow=few).fell_back.all()
    assert not index.explain(rows[:3], 2, allow=many).fell_back.any()
    require_same_answers(index, flat, rows[:3], few)
    assert index.search(rows[:3], 2, allow=[]).ids.tolist() == [[-1, -1]] * 3


def test_near_neighbours_come_from_tables_and_far_ones_from_the_scan(
    no_time_passes: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = clustered(rng, 300 * BLOCK, 64, 1)
    index, flat = both(rows)
    lookups = index.explain(rows[:40], 1)
    assert not lookups.fell_back.any()
    assert (lookups.probes >= 1).all()
    assert (lookups.candidates >= lookups.compared).all()
    assert (lookups.compared >= 1).all()
    assert lookups.candidates.max() < len(rows) / 10
    far = random_codes(rng, 40, 64)
    assert index.explain(far, 10).fell_back.all()
    mixed = Codes.concatenate([rows[:20], far])
    assert index.explain(mixed, 1).fell_back[:20].sum() == 0
    for k in (1, 10):
        assert same(index.search(mixed, k), flat.search(mixed, k))


def test_small_indexes_have_no_tables_and_scan() -> None:
    rows = random_codes(np.random.default_rng(0), 5000, 64)
    index, flat = both(rows)
    assert index.nbytes == flat.nbytes
    assert index.explain(rows[:2], 1).fell_back.tolist() == [True, True]
    require_same_answers(index, flat, rows[:2])


def test_an_empty_query_is_neither_looked_up_nor_scanned(few_rows: pytest.MonkeyPatch) -> None:
    rows = clustered(np.random.default_rng(0), 2 * BLOCK, 64, 1)
    index, _ = both(rows)
    queries = Codes.from_symbols(rows[:2].symbols(), 1, empty=[True, False])
    lookups = index.explain(queries, 1)
    assert lookups.fell_back.tolist() == [False, False]
    assert lookups.probes[0] == 0 < lookups.probes[1]
    assert index.search(queries, 1).ids.tolist() == [[-1], [1]]


def test_more_neighbours_within_a_radius_than_there_is_room_for(
    few_rows: pytest.MonkeyPatch,
) -> None:
    few_rows.setattr(multi_search, "_ROOMS", (2, 30))
    rng = np.random.default_rng(0)
    rows = Codes.concatenate(
        [clustered(rng, 3 * BLOCK, 40, 1), random_codes(rng, BLOCK, 40, near=True)]
    )
    index, flat = both(rows)
    queries = Codes.concatenate([rows[:: BLOCK // 8], random_codes(rng, 9, 40)])
    counts = np.diff(flat.search_radius(queries, 4).offsets)
    assert counts.min() <= 2
    assert ((counts > 2) & (counts < 30)).any()
    assert counts.max() > 30
    assert same(index.search_radius(queries, 4), flat.search_radius(queries, 4))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_answers_do_not_depend_on_the_number_of_threads(
    n_threads: int, few_threads: None, few_rows: pytest.MonkeyPatch
) -> None:
    bitkin.set_threads(n_threads)
    rng = np.random.default_rng(1)
    rows = clustered(rng, 2000, 70, 2, empty=True)
    index, flat = both(rows)
    queries = Codes.concatenate([rows[:150], clustered(rng, 5, 70, 2)])
    for some in (queries, queries[:1], queries[:3], queries[:0]):
        assert same(index.search(some, 10), flat.search(some, 10))
        assert same(index.search_radius(some, 9), flat.search_radius(some, 9))


def test_rows_come_into_tables_as_they_grow_and_few_stay_outside(
    few_rows: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    rows = clustered(rng, 20_000, 64, 1)
    index, flat = MultiIndex(rows.spec), FlatIndex(rows.spec)
    for part in np.array_split(np.arange(len(rows)), 61):
        index.add(rows[part])
        flat.add(rows[part])
        segments = index.snapshot.segments
        outside = [each.n - (each.tables.n if each.tables else 0) for each in segments]
        assert len(segments) <= growth.MOST_SEGMENTS
        assert sum(outside) <= sum(max(BLOCK, each.n // 16) for each in segments)
    assert index.nbytes > flat.nbytes
    require_same_answers(index, flat, rows[::5000])


@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_index_comes_back_with_tables_and_takes_more_rows(
    tmp_path: Path, mmap: bool, few_rows: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = clustered(rng, 1300, 70, 2, empty=True).with_fingerprint("f")
    index, flat = both(rows, rng.permutation(4000)[:1300])
    index.save(tmp_path / "index")
    for back in (
        MultiIndex.load(tmp_path / "index", mmap=mmap),
        bitkin.load(tmp_path / "index", mmap=mmap),
    ):
        back.verify()
        assert type(back) is MultiIndex
        assert (back.spec, back.fingerprint, len(back)) == (index.spec, "f", 1300)
        assert back.snapshot.segments[0].tables is not None
        require_same_answers(back, flat, rows[:4])
    more = clustered(rng, 1000, 70, 2)
    assert np.array_equal(back.add(more), flat.add(more))
    require_same_answers(back, flat, more[:4])
    with pytest.raises(InvalidInputError, match=r"holds a MultiIndex|holds MultiIndex"):
        FlatIndex.load(tmp_path / "index")


def test_a_pickled_index_has_tables_of_its_own(few_rows: pytest.MonkeyPatch) -> None:
    rows = clustered(np.random.default_rng(0), 1000, 64, 1)
    index, flat = both(rows)
    data = pickle.dumps(index)
    assert len(data) < index.nbytes
    twin = pickle.loads(data)
    index.remove(range(500))
    require_same_answers(twin, flat, rows[:4])
    assert not twin.explain(rows[:1], 1).fell_back.any()


def test_a_search_answers_from_the_snapshot_it_took(few_rows: pytest.MonkeyPatch) -> None:
    rows = clustered(np.random.default_rng(0), 3 * BLOCK, 64, 1)
    index, flat = both(rows)
    before = index.snapshot
    index.remove(range(100))
    index.add(rows[:700])
    assert same(index.nearest_in(before, rows[:5], 9, None, least=9), flat.search(rows[:5], 9))


def test_bad_input_is_refused() -> None:
    rows = random_codes(np.random.default_rng(0), 10, 20)
    index = MultiIndex(rows.spec)
    index.add(rows)
    with pytest.raises(InvalidInputError, match="k must be between 1"):
        index.explain(rows, 0)
    with pytest.raises(InvalidInputError, match="allow must be"):
        index.explain(rows, 1, allow=[-1])
    with pytest.raises(CodeMismatchError, match="20 × 1-bit"):
        index.explain(random_codes(np.random.default_rng(0), 1, 21), 1)
    with pytest.raises(InvalidInputError, match="radius must be at least 0, got -1"):
        index.search_radius(rows, -1)
    with pytest.raises(InvalidInputError, match="spec must be a CodeSpec, got 64"):
        MultiIndex(64)  # type: ignore[arg-type]


def test_one_query_alone_may_spend_more_than_one_of_many(few_threads: None) -> None:
    bitkin.set_threads(1)
    alone, among_many = (
        multi_lookup.lookup_budgets(10**8, 1),
        multi_lookup.lookup_budgets(10**8, 1000),
    )
    assert (alone > 2 * among_many).all()
    bitkin.set_threads(4)
    # four threads scan it, one looks it up
    assert np.allclose(multi_lookup.lookup_budgets(10**8, 1), alone / 4)
    assert np.allclose(multi_lookup.lookup_budgets(10**8, 1000), among_many)


def test_codes_of_one_symbol_and_of_no_rows(few_rows: pytest.MonkeyPatch) -> None:
    index = MultiIndex(CodeSpec(1, 32))
    assert index.search(Codes.from_symbols([[5]], 32), 2).ids.tolist() == [[-1, -1]]
    rows = Codes.from_symbols(np.arange(BLOCK)[:, None] % 7, 32)
    index.add(rows)
    assert index.search(rows[3:4], 2).ids.tolist() == [[3, 10]]
    assert np.diff(index.search_radius(rows[3:4], 0).offsets).tolist() == [len(range(3, BLOCK, 7))]


def test_costs_are_measured_once_per_width_and_change_no_answer(
    few_rows: pytest.MonkeyPatch,
) -> None:
    few_rows.setattr(multi_costs, "_measured", {})
    few_rows.setattr(multi_lookup, "_SHARES_OF_SCAN", np.array([0.03, 0.7, 1.0]))
    rows = clustered(np.random.default_rng(5), 4 * BLOCK, 64, 1)
    index, flat = both(rows)
    snapshot = index.snapshot
    costs = multi_costs.scan_costs(snapshot.segments[0], snapshot)
    assert costs is multi_costs.scan_costs(snapshot.segments[0], snapshot)
    assert costs.compare > 0
    assert costs.read >= 0
    # whatever was measured: a scan for nothing is preferred, one at any price never, and both agree
    for compare, scanned in ((0.0, True), (1e9, False)):
        dear = multi_costs.ScanCosts(compare, 0.0)
        few_rows.setattr(multi_lookup, "scan_costs", lambda *_, dear=dear: dear)
        assert bool(index.explain(rows[:9], 3).fell_back.all()) == scanned
        assert same(index.search(rows[:9], 3), flat.search(rows[:9], 3))


def test_the_pace_of_lookups_is_learned_from_those_that_were_timed() -> None:
    pace = multi_costs.LookupPace()
    for _ in range(40):
        pace.note(1e6, 5e5)
    assert pace.factor == pytest.approx(0.5, rel=1e-3)
    before = pace.factor
    pace.note(200.0, 10**9)  # too little to say anything
    pace.note(1e6, 10**9)  # a kernel was compiled meanwhile
    assert pace.factor == before


def test_a_row_of_more_words_costs_more_to_look_at() -> None:
    short, long = multi_costs.lookup_costs(1), multi_costs.lookup_costs(8)
    assert np.array_equal(short[:2], long[:2])
    assert short[2] < long[2] < 8 * short[2]
