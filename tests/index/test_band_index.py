from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import BandIndex, Codes, CodeSpec, FlatIndex
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.index.bands import band_index
from bitkin.index.bands import layout as band_layout
from bitkin.index.bands import search as band_search
from bitkin.index.bands import tables as band_tables
from bitkin.index.bands.search import BandSearch
from bitkin.io.writer import write_file
from tests.index import band_truth
from tests.memory import peak_of
from tests.truth import random_codes, symbol_distances


@pytest.fixture(params=["tables", "rows"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let even small indexes have tables, or leave all rows outside them."""
    if request.param == "tables":
        let_tables(monkeypatch)
    return str(request.param)


def let_tables(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(band_index, "FEW_ROWS", 0)
    patches.setattr(band_search, "SCAN_SHARE", 1)


def related(
    rng: np.random.Generator, n: int, n_symbols: int, bits: int, *, empty: bool = False
) -> Codes:
    """Codes in a few families, so that bands are shared."""
    founders = rng.integers(0, 2**bits, (max(1, n // 30), n_symbols), dtype=np.uint64)
    symbols = founders[rng.integers(0, len(founders), n)]
    changed = rng.random(symbols.shape) < 0.15
    symbols[changed] = rng.integers(0, 2**bits, int(changed.sum()), dtype=np.uint64)
    return Codes.from_symbols(symbols, bits, empty=rng.random(n) < 0.1 if empty else None)


def require_same(
    found: bitkin.Neighbors, want: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
) -> None:
    assert np.array_equal(found.ids, want[0])
    assert np.array_equal(found.distances, want[1])
    assert found.ids.dtype == np.int64
    assert found.distances.dtype == np.int32


# Planes and words of a code are compiled in: few shapes keep the test short.
SPECS = [(1, 1), (65, 1), (61, 3), (40, 8), (140, 2)]


@given(
    st.sampled_from(SPECS),
    st.integers(1, 64),
    st.integers(0, 40),
    st.sampled_from(["distance", "hits"]),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=12)
def test_results_are_the_nearest_of_all_rows_that_share_a_band(
    shape: tuple[int, int], band_bits: int, probes: int, score: str, tables: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_symbols, bits = shape
    spec = CodeSpec(n_symbols, bits)
    band_bits = min(band_bits, spec.n_bits)
    probes = min(probes, 2 ** (max(1, band_bits // bits) * bits) - 1)
    rows, queries = (
        related(rng, 70, n_symbols, bits, empty=True),
        related(rng, 3, n_symbols, bits, empty=True),
    )
    queries = Codes.concatenate([queries, rows[:2]])
    ids = rng.permutation(10_000)[: len(rows)].astype(np.int64)
    with pytest.MonkeyPatch.context() as patches:
        if tables:
            let_tables(patches)
        index = BandIndex(spec, band_bits, probes=probes, score=score)
        for part in np.array_split(np.arange(len(rows)), 3):
            index.add(rows[part], ids[part])
        gone = ids[rng.random(len(ids)) < 0.2]
        index.remove(gone)
        stay = ~np.isin(ids, gone)
        for k in (1, 7, 400):
            require_same(
                index.search(queries, k),
                band_truth.nearest(
                    rows[stay], ids[stay], queries, k, band_bits, probes, score=score
                ),
            )
        allow = np.append(ids[rng.random(len(ids)) < 0.3], 10**12)
        require_same(
            index.search(queries, 9, allow=allow),
            band_truth.nearest(
                rows[stay], ids[stay], queries, 9, band_bits, probes, score=score, allow=allow
            ),
        )
        hits = band_truth.band_hits(rows[stay], queries, band_bits, probes)
        assert index.count_candidates(queries).tolist() == (hits > 0).sum(axis=1).tolist()
        require_radius(
            index, rows[stay], ids[stay], queries, n_symbols // 3, band_bits, probes, score
        )


def require_radius(
    index: BandIndex,
    rows: Codes,
    ids: npt.NDArray[np.int64],
    queries: Codes,
    radius: int,
    band_bits: int,
    probes: int,
    score: str,
) -> None:
    want_ids, want_scores = band_truth.nearest(
        rows, ids, queries, max(1, len(rows)), band_bits, probes, score=score, completed=False
    )
    found = index.search_radius(queries, radius)
    assert found.offsets[-1] == len(found.ids) == len(found.distances)
    for q in range(len(queries)):
        inside = (want_scores[q] <= radius) & (want_ids[q] >= 0)
        part = slice(found.offsets[q], found.offsets[q + 1])
        assert np.array_equal(found.ids[part], want_ids[q][inside])
        assert np.array_equal(found.distances[part], want_scores[q][inside])


@pytest.mark.parametrize("band_bits", [8, 20, 40, 64])
def test_large_tables_of_any_width_give_what_no_tables_give(
    band_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(band_bits)
    rows, queries = related(rng, 9000, 128, 1, empty=True), related(rng, 30, 128, 1)
    queries = Codes.concatenate([queries, rows[:50]])
    index = BandIndex(rows.spec, band_bits, probes=5)
    index.add(rows)
    assert index.snapshot.segments[0].tables is not None
    monkeypatch.setattr(band_index, "FEW_ROWS", 10**6)
    plain = BandIndex(rows.spec, band_bits, probes=5)
    plain.add(rows)
    assert plain.snapshot.segments[0].tables is None
    for k in (1, 20):
        require_same(index.search(queries, k), plain.search(queries, k))
    assert index.count_candidates(queries).tolist() == plain.count_candidates(queries).tolist()


def test_rows_added_behind_the_tables_are_found(where: str) -> None:
    rng = np.random.default_rng(3)
    rows = related(rng, 1200, 64, 3, empty=True)
    index = BandIndex(rows.spec, 12)
    index.add(rows[:1000])
    for start in range(1000, 1200, 10):
        index.add(rows[start : start + 10])
    index.upsert(rows[:50], np.arange(500, 550))
    now = Codes.concatenate([rows[:500], rows[:50], rows[550:]])
    require_same(
        index.search(rows[:20], 30), band_truth.nearest(now, np.arange(1200), rows[:20], 30, 12)
    )
    index.compact()
    require_same(
        index.search(rows[:20], 30), band_truth.nearest(now, np.arange(1200), rows[:20], 30, 12)
    )


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(
    n_threads: int, few_threads: None, where: str
) -> None:
    rng = np.random.default_rng(8)
    rows, queries = related(rng, 600, 64, 1), related(rng, 40, 64, 1)
    index = BandIndex(rows.spec, 8, probes=2)
    index.add(rows)
    bitkin.set_threads(n_threads)
    require_same(
        index.search(queries, 12), band_truth.nearest(rows, np.arange(600), queries, 12, 8, 2)
    )
    require_radius(index, rows, np.arange(600), queries, 20, 8, 2, "distance")


def test_more_probes_find_more_and_all_keys_find_everything(where: str) -> None:
    rng = np.random.default_rng(4)
    rows, queries = related(rng, 800, 48, 1), related(rng, 20, 48, 1)
    flat = FlatIndex(rows.spec)
    flat.add(rows)
    truth = flat.search(queries, 10)
    counts, recalls = [], []
    for probes in (0, 2, 6, 21, 63):
        index = BandIndex(rows.spec, 6, probes=probes)
        index.add(rows)
        counts.append(int(index.count_candidates(queries).sum()))
        recalls.append(
            np.mean(
                [
                    np.isin(a, b).mean()
                    for a, b in zip(truth.ids, index.search(queries, 10).ids, strict=True)
                ]
            )
        )
    assert counts == sorted(counts)
    assert recalls == sorted(recalls)
    assert counts[0] < counts[-1] == 800 * 20
    require_same(index.search(queries, 10), truth)


def test_a_budget_is_kept_and_looks_at_own_keys_and_small_buckets_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_tables(monkeypatch)
    # Band 0 of the query is shared by rows 0 to 9, band 1 by row 10, and band 1 with its last bit
    # flipped by row 11.
    symbols = np.full((12, 8), 1)
    symbols[:10, :4], symbols[10, 4:], symbols[11, 4:] = 0, 0, [0, 0, 0, 1]
    rows = Codes.from_symbols(symbols, 1)
    query = Codes.from_symbols(np.zeros((1, 8), dtype=int), 1)

    def found(budget: int | None, k: int, allow: Any = None) -> list[int]:
        index = BandIndex(rows.spec, 4, probes=1, budget=budget)
        index.add(rows)
        return sorted(index.search(query, k, allow=allow).ids[0].tolist())

    assert found(1, 1) == [10]
    assert found(3, 3) == [0, 1, 10]
    assert found(11, 11) == list(range(11))
    assert found(12, 12) == found(None, 12) == list(range(12))
    # rows that may not be returned use nothing up: twelve are looked at
    assert found(3, 2, allow=[9, 10]) == [9, 10]
    assert found(3, 4) == [0, 1, 2, 3]  # too few for four: all are scanned


def test_as_many_as_asked_for_come_back_whenever_there_are_as_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_tables(monkeypatch)
    rng = np.random.default_rng(0)
    rows = random_codes(rng, 2000, 64)
    index, scan = BandIndex(rows.spec, 32), FlatIndex(rows.spec)
    index.add(rows)
    scan.add(rows)
    allow = rng.permutation(2000)[:10]
    assert index.count_candidates(random_codes(rng, 30, 64), allow=allow).sum() < 10
    queries = random_codes(rng, 30, 64)
    require_same(index.search(queries, 10, allow=allow), scan.search(queries, 10, allow=allow))
    assert (index.search(queries, 12, allow=allow).ids[:, 10:] == -1).all()


@pytest.mark.parametrize("n_symbols", [40, 100])
def test_with_a_budget_the_rows_of_nearest_sketches_are_compared(
    n_symbols: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_tables(monkeypatch)
    monkeypatch.setattr(band_search, "_ROWS_A_FINALIST", 10)
    monkeypatch.setattr(band_search, "_FINALISTS_A_RESULT", 2)
    rng = np.random.default_rng(n_symbols)
    rows, queries = (
        related(rng, 400, n_symbols, 8),
        related(np.random.default_rng(n_symbols), 6, n_symbols, 8),
    )
    queries = Codes.concatenate([queries, rows[:6]])
    index = BandIndex(rows.spec, 8, budget=10**6)
    index.add(rows)
    allow = np.flatnonzero(rng.random(400) < 0.8)
    every = index.search(queries, 4, allow=allow)
    # all are finalists
    require_same(every, band_truth.nearest(rows, np.arange(400), queries, 4, 8, allow=allow))
    few = BandIndex(rows.spec, 8, budget=100)
    few.adopt(index.snapshot)
    # all are looked at: only the finalists are few
    monkeypatch.setattr(BandSearch, "_budget", lambda *_: 10**6)
    found = few.search(queries, 4, allow=allow)
    parities = [
        np.bitwise_xor.reduce(codes.words, axis=1, keepdims=True) for codes in (queries, rows)
    ]
    guesses = symbol_distances(*(Codes(words, CodeSpec(n_symbols)) for words in parities))
    hits = band_truth.band_hits(rows, queries, 8, 0) * np.isin(np.arange(400), allow)
    assert (hits.sum(axis=1) > 10).any()
    for q in range(len(queries)):
        entries = np.sort(np.repeat(guesses[q], hits[q]))
        limit = entries[min(len(entries), 10) - 1] if len(entries) else 0
        finalists = np.flatnonzero((hits[q] > 0) & (guesses[q] <= limit))
        scanned = len(finalists) < 4
        among = np.arange(400) if scanned else finalists
        query = queries[q : q + 1]
        want = band_truth.nearest(rows[among], among, query, 4, 8, allow=allow if scanned else None)
        require_same(bitkin.Neighbors(found.ids[q : q + 1], found.distances[q : q + 1]), want)


def test_saved_loaded_pickled_and_merged_indexes_answer_alike(tmp_path: Path, where: str) -> None:
    rng = np.random.default_rng(5)
    rows = related(rng, 700, 60, 3, empty=True)
    queries = rows[:15]
    index = BandIndex(rows.spec, 9, probes=4, score="hits")
    index.add(rows[:400])
    other = FlatIndex(rows.spec)
    other.add(rows[400:], np.arange(400, 700))
    index.merge(other)
    index.remove([3, 5])
    want = index.search(queries, 20)
    index.save(tmp_path / "bands")
    copies = [
        BandIndex.load(tmp_path / "bands"),
        BandIndex.load(tmp_path / "bands", mmap=False),
        bitkin.load(tmp_path / "bands"),
        pickle.loads(pickle.dumps(index)),
    ]
    for copy in copies:
        assert (copy.band_bits, copy.probes, copy.budget, copy.score) == (9, 4, None, "hits")
        require_same(copy.search(queries, 20), (want.ids, want.distances))
        copy.verify()
        copy.add(rows[:5])
        assert len(copy) == 703
    with_budget = BandIndex(rows.spec, 9, budget=77)
    with_budget.save(tmp_path / "bands")
    assert BandIndex.load(tmp_path / "bands").budget == 77


@pytest.mark.parametrize(
    "wrong",
    [
        {"band_bits": 0},
        {"band_bits": -3},
        {"band_bits": 65},
        {"band_bits": 2**80},
        {"band_bits": "8"},
        {"band_bits": True},
        {"band_bits": 4.0},
        {"band_bits": None},
        {"band_bits": [8]},
        {"probes": -1},
        {"probes": 256},
        {"probes": 2**70},
        {"probes": None},
        {"probes": "3"},
        {"probes": False},
        {"score": "best"},
        {"score": 3},
        {"score": True},
        {"score": None},
        {"score": ["hits"]},
        {"budget": 0},
        {"budget": -5},
        {"budget": 2**31},
        {"budget": 2**80},
        {"budget": "many"},
        {"budget": True},
        {"budget": 1.5},
    ],
    ids=str,
)
def test_files_with_impossible_settings_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    rows = random_codes(np.random.default_rng(0), 3, 64)
    index = BandIndex(rows.spec, 8)
    index.add(rows)
    settings_of_file = {
        "n_symbols": 64,
        "bits_per_symbol": 1,
        "next_id": 3,
        **index._settings(),
        **wrong,
    }
    from bitkin.index.rows.files import tensors_of

    write_file(tmp_path / "bands", "BandIndex", settings_of_file, None, tensors_of(index.snapshot))
    with pytest.raises(CorruptFileError, match="impossible settings of bands"):
        BandIndex.load(tmp_path / "bands")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"band_bits": 0}, "band_bits must be between 1 and 12, got 0"),
        ({"band_bits": -1}, "band_bits must be between 1 and 12, got -1"),
        ({"band_bits": 13}, "band_bits must be between 1 and 12, got 13"),
        ({"band_bits": 2.5}, "band_bits must be a whole number"),
        ({"band_bits": 4, "probes": -1}, "probes must be at least 0"),
        (
            {"band_bits": 4, "probes": 16},
            "probes must be at most 15, the other keys of a band of 4 bits, got 16",
        ),
        ({"band_bits": 4, "budget": 0}, "budget must be between 1 and"),
        ({"band_bits": 4, "score": "near"}, "score must be one of 'distance', 'hits', got 'near'"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        BandIndex(CodeSpec(6, 2), **arguments)


def test_more_rows_than_there_are_numbers_are_refused_and_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(band_tables, "_MOST_ROWS", 50)
    rows = random_codes(np.random.default_rng(0), 60, 64)
    index = BandIndex(rows.spec, 8)
    index.add(rows[:50])
    with pytest.raises(
        InvalidInputError, match="a BandIndex holds at most 50 rows, removed ones included, got 51"
    ):
        index.add(rows[50:51])
    assert len(index) == 50
    require_same(
        index.search(rows[:5], 3), band_truth.nearest(rows[:50], np.arange(50), rows[:5], 3, 8)
    )


def test_a_wide_band_has_a_limit_of_probes() -> None:
    with pytest.raises(
        InvalidInputError, match=r"probes must be at most 65,536, got 65,537\. Narrower bands"
    ):
        BandIndex(CodeSpec(64), 32, probes=65_537)


def test_a_bad_radius_is_refused_and_nothing_is_found_in_nothing() -> None:
    index = BandIndex(CodeSpec(8), 4)
    query = Codes.from_symbols([[0] * 8], 1)
    with pytest.raises(InvalidInputError, match="radius must be at least 0"):
        index.search_radius(query, -1)
    assert index.search_radius(query, 8).offsets.tolist() == [0, 0]
    assert index.count_candidates(query).tolist() == [0]


@pytest.mark.parametrize(
    ("symbols", "bits", "probes"), [(16, 28, 1), (16, 20, 1), (2, 32, 5), (3, 20, 70)]
)
def test_the_values_of_wide_symbols_are_not_listed(symbols: int, bits: int, probes: int) -> None:
    assert peak_of(lambda: BandIndex(CodeSpec(symbols, bits), bits, probes=probes)) < 1_000_000


@pytest.mark.parametrize(("width", "changed"), [(1, 0), (1, 3), (2, 1), (2, 2), (3, 2), (2, 3)])
def test_symbols_are_changed_in_the_order_of_a_product(width: int, changed: int) -> None:
    truth = list(product(range(1, 1 << width), repeat=changed))
    assert list(band_layout._values(width, changed)) == truth
