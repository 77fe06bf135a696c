from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import CellIndex, Codes, CodeSpec, FlatIndex, threads
from bitkin.errors import BitkinError, CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.index.cells import cell_index
from bitkin.index.cells.centres import CellCentres, find_centres, nearest_centres
from bitkin.index.cells.filters import probes_under_filter, scan_pays
from bitkin.index.cells.tables import CellTables
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.kernels.search.cells import TILES_AT_ONCE
from tests import truth
from tests.truth import random_codes

ALL = 10_000  # more probes than there are cells
BITS = 40


def families(n: int, seed: int = 0, n_symbols: int = BITS, bits: int = 1) -> Codes:
    """Codes around some 20 others, as those of real data are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).integers(0, 2**bits, (20, n_symbols))
    symbols = centres[rng.integers(0, 20, n)]
    changed = rng.random(symbols.shape) < 0.15
    symbols[changed] = rng.integers(0, 2**bits, int(changed.sum()))
    return Codes.from_symbols(symbols, bits_per_symbol=bits)


def filled(codes: Codes, n_cells: Any = 16, **options: Any) -> CellIndex:
    index = CellIndex(codes.spec, n_cells, **options)
    index.add(codes)
    return index


def tables_of(index: CellIndex) -> list[CellTables]:
    return [s.tables for s in index.snapshot.segments if isinstance(s.tables, CellTables)]


def centres_of(tables: CellTables) -> CellCentres:
    assert isinstance(tables.centres, CellCentres)
    return tables.centres


def require_same(found: Any, expected: Any) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert np.array_equal(mine, other)


def in_probed_cells(
    index: CellIndex, codes: Codes, queries: Codes, probes: int
) -> list[npt.NDArray[np.int64]]:
    """By NumPy: the rows whose nearest centre is one of the nearest to each query."""
    (tables,) = tables_of(index)
    centres = Codes(centres_of(tables).words, codes.spec)
    own = truth.symbol_distances(codes, centres).argmin(axis=1)
    order = truth.symbol_distances(queries, centres).argsort(axis=1, kind="stable")[:, :probes]
    return [np.flatnonzero(np.isin(own, cells)) for cells in order]


@pytest.mark.parametrize(("n_symbols", "bits"), [(BITS, 1), (33, 3), (130, 2)])
@pytest.mark.parametrize("probes", [1, 3])
def test_a_search_finds_the_nearest_of_the_cells_it_looks_into(
    n_symbols: int, bits: int, probes: int
) -> None:
    codes, queries = families(700, 0, n_symbols, bits), families(9, 1, n_symbols, bits)
    index = filled(codes, 12, probes=probes)
    candidates = in_probed_cells(index, codes, queries, probes)
    assert index.count_candidates(queries).tolist() == [len(rows) for rows in candidates]
    found = index.search(queries, 5)
    near = index.search_radius(queries, n_symbols // 4)
    for q, rows in enumerate(candidates):
        assert 5 <= len(rows) < 700
        expected = truth.nearest(codes[rows], rows, queries[q : q + 1], 5)
        require_same((found.ids[q : q + 1], found.distances[q : q + 1]), expected)
        distances = truth.symbol_distances(queries[q : q + 1], codes[rows])[0]
        within = rows[distances <= n_symbols // 4]
        assert sorted(near.ids[near.offsets[q] : near.offsets[q + 1]]) == within.tolist()


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "upsert", "remove", "compact", "merge", "save"]),
        st.integers(1, 150),
        st.integers(0, 2**32),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(_STEPS, st.sampled_from([1, 5, 40]), st.sampled_from([1, 9, 70]), st.booleans())
def test_with_all_cells_it_finds_what_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int, int]],
    n_cells: int,
    k: int,
    filtered: bool,
) -> None:
    spec = CodeSpec(BITS)
    index, scan = CellIndex(spec, n_cells, probes=ALL), FlatIndex(spec)
    for act, n, seed in steps:
        rng = np.random.default_rng(seed)
        codes = random_codes(rng, n, BITS, empty=seed % 2 == 0, near=True)
        if act == "add":
            for one in (index, scan):
                one.add(codes)
        elif act == "upsert":
            ids = rng.permutation(400)[:n]
            for one in (index, scan):
                one.upsert(codes, ids)
        elif act == "remove":
            gone = rng.permutation(scan.ids)[:n]
            for one in (index, scan):
                one.remove(gone)
        elif act == "compact":
            index.compact()
        elif act == "merge":
            other = FlatIndex(spec)
            other.add(codes, 10_000 * (seed % 1000 + 1) + np.arange(n))
            if not np.isin(other.ids, scan.ids).any():
                for one in (index, scan):
                    one.merge(other)
        else:
            path = tmp_path_factory.mktemp("cells") / "index"
            index.save(path)
            index = CellIndex.load(path, mmap=seed % 2 == 0)
        index.verify()
    queries = random_codes(np.random.default_rng(0), 7, BITS, empty=True)
    allow = scan.ids[::2] if filtered else None
    assert np.array_equal(index.ids, scan.ids)
    require_same(index.search(queries, k, allow=allow), scan.search(queries, k, allow=allow))
    require_same(
        index.search_radius(queries, 15, allow=allow), scan.search_radius(queries, 15, allow=allow)
    )


@pytest.mark.parametrize("k", [1, 12, 32, 33, 150])
def test_rows_beyond_the_tiles_that_are_compared_at_once_are_found_too(k: int) -> None:
    # 90 cells, some with several tiles, and ties everywhere; rows near to the queries are gone
    codes = random_codes(np.random.default_rng(0), 7000, 12, near=True)
    queries, ids = codes[:5], np.arange(7000)
    index = filled(codes, 90, probes=ALL)
    (tables,) = tables_of(index)
    assert len(tables.arrays.runs) > 2 * TILES_AT_ONCE
    require_same(index.search(queries, k), truth.nearest(codes, ids, queries, k))
    by_distance = np.argsort(truth.symbol_distances(queries[:1], codes)[0], kind="stable")
    left = np.sort(by_distance[3000:])
    index.remove(by_distance[:3000])
    assert tables_of(index)[0] is tables
    expected = truth.nearest(codes[left], left, queries, k)
    require_same(index.search(queries, k), expected)
    index.add(codes[:1500], 10_000 + ids[:1500])  # in no cell yet
    both = Codes.concatenate([codes[left], codes[:1500]])
    ids = np.concatenate([left, 10_000 + np.arange(1500)])
    require_same(index.search(queries, k), truth.nearest(both, ids, queries, k))


def test_a_row_lies_beside_its_nearest_centre_and_of_equals_the_first() -> None:
    codes = random_codes(np.random.default_rng(0), 300, BITS)
    centres = CellCentres(codes.words[::7], 300)
    distances = truth.symbol_distances(codes, codes[::7])
    assert np.array_equal(nearest_centres(codes.words, centres), distances.argmin(axis=1))


@pytest.mark.parametrize(("n_symbols", "bits"), [(BITS, 1), (33, 3)])
def test_centres_are_the_most_frequent_symbols_of_their_rows(n_symbols: int, bits: int) -> None:
    codes = families(600, 3, n_symbols, bits)
    centres = find_centres(codes.words, 20, 600, 0)
    cells = nearest_centres(codes.words, centres)
    symbols, found = codes.symbols(), Codes(centres.words, codes.spec).symbols()
    agreeing = 0
    for cell, centre in enumerate(found):
        rows = symbols[cells == cell]
        counts = np.array([(rows == value).sum(axis=0) for value in range(2**bits)])
        if len(rows):
            # the last iteration moved rows: nearly all symbols are still the most frequent ones
            agreeing += int((counts[centre, np.arange(n_symbols)] == counts.max(axis=0)).sum())
    assert agreeing > 0.97 * len(found) * n_symbols
    one = find_centres(codes.words, 1, 600, 0)
    modes = [np.bincount(column).max() for column in symbols.T]
    chosen = Codes(one.words, codes.spec).symbols()[0]
    assert [int((symbols[:, j] == value).sum()) for j, value in enumerate(chosen)] == modes


def test_the_same_seed_gives_the_same_cells_whatever_the_threads(few_threads: None) -> None:
    codes = families(900)
    made = []
    for n_threads, seed in ((1, 0), (3, 0), (1, 1)):
        bitkin.set_threads(n_threads)
        (tables,) = tables_of(filled(codes, random_state=seed))
        made.append((centres_of(tables).words.tobytes(), tables.arrays.rows.tobytes()))
    assert made[0] == made[1] != made[2]


def test_a_lone_query_finds_what_it_finds_among_others(few_threads: None) -> None:
    codes, queries = families(900), families(6, 1)
    first, second = filled(codes, 16, probes=3), filled(codes[:300], 9, probes=2)

    def search_alone(q: int) -> None:
        for index, k in 3 * [(first, 4), (second, 4), (second, 4), (second, 4), (first, 40)]:
            found, alone = index.search(queries, k), index.search(queries[q : q + 1], k)
            require_same(alone, (found.ids[q : q + 1], found.distances[q : q + 1]))

    threads.run(search_alone, range(6))


def test_lone_queries_are_looked_at_like_others_also_after_the_first() -> None:
    codes = families(900)
    index = filled(codes, 16, probes=2)
    query = codes[:1]
    for _ in range(3):
        expected = index.search(codes[:2], 1)
        require_same(index.search(query, 1), (expected.ids[:1], expected.distances[:1]))
    for refused in (True, 1.0, "1", None):
        with pytest.raises(InvalidInputError, match="k must be"):
            index.search(query, refused)  # type: ignore[arg-type]
    for refused in (True, 2.0, 0):
        with pytest.raises(InvalidInputError, match="probes must be"):
            index.search(query, 1, probes=refused)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="queries must be Codes"):
        index.search(query.words, 1)  # type: ignore[arg-type]
    with pytest.raises(CodeMismatchError, match="queries must be"):
        index.search(families(1, n_symbols=BITS - 1), 1)
    empty = Codes(query.words, codes.spec, empty=[True])
    assert index.search(empty, 1).ids.tolist() == [[-1]]
    assert index.search(query, 1, allow=[7]).ids.tolist() == [[7]]
    assert index.search(query, 899).ids.min() >= 0  # its cells hold fewer: a scan
    assert index.search(query, 901).ids[0, -1] == -1
    assert (
        pickle.loads(pickle.dumps(index)).search(query, 1).ids.tolist() == expected.ids[:1].tolist()
    )
    for index.probes in (16, 1, 16):
        some = index.search(codes[:2], 9)
        for _ in range(3):
            require_same(index.search(query, 9), (some.ids[:1], some.distances[:1]))
    # what is written is seen at once, also rows in other segments and under other ids
    for _ in range(3):
        index.search(query, 1)
    index.remove([0])
    for _ in range(3):
        assert index.search(query, 1).ids[0, 0] != 0
    index.upsert(query, [0])
    for _ in range(3):
        assert index.search(query, 1).ids[0, 0] == 0
    named = Codes(codes.words, codes.spec, fingerprint="a" * 16)
    known = filled(named, 16, probes=2)
    other = Codes(query.words, codes.spec, fingerprint="b" * 16)
    assert known.search(query, 1).ids.tolist() == known.search(named[:1], 1).ids.tolist()
    with pytest.raises(CodeMismatchError, match="fingerprint"):
        known.search(other, 1)


def test_narrow_filters_and_short_answers_are_scanned() -> None:
    codes, queries = families(800), families(6, 1)
    index, ids = filled(codes, 32, probes=1), np.arange(800)
    allow = np.arange(0, 800, 17)
    require_same(
        index.search(queries, 4, allow=allow), truth.nearest(codes, ids, queries, 4, allow)
    )
    require_same(index.search(queries, 700), truth.nearest(codes, ids, queries, 700))
    # a filter that leaves most rows is tested in the cells
    some = np.setdiff1d(ids, allow)
    found = index.search(queries, 4, allow=some)
    candidates = in_probed_cells(index, codes, queries, 1)
    for q, rows in enumerate(candidates):
        rows = rows[np.isin(rows, some)]
        if len(rows) >= 4:
            expected = truth.nearest(codes[rows], rows, queries[q : q + 1], 4)
            require_same((found.ids[q : q + 1], found.distances[q : q + 1]), expected)


def test_a_filter_keeps_the_recall_by_more_probes_or_a_scan() -> None:
    codes = random_codes(np.random.default_rng(0), 6000, BITS)
    queries, ids = random_codes(np.random.default_rng(1), 60, BITS), np.arange(6000)
    index = filled(codes, 150, probes=20)

    def recall(allow: npt.NDArray[np.int64]) -> float:
        found = index.search(queries, 5, allow=allow).distances
        expected = truth.nearest(codes, ids, queries, 5, allow)[1]
        return float((found <= expected[:, -1:]).mean())

    everything = recall(ids)
    assert 0.5 < everything < 0.9
    for step in (2, 4, 8, 16):
        assert recall(ids[::step]) > everything - 0.05
    # empty queries take no part, and what others find does not change
    with_empty = Codes(queries.words[:9], codes.spec, empty=np.arange(9) % 3 == 0)
    some = index.search(with_empty, 5, allow=ids[::2]).ids
    assert (some[::3] == -1).all()
    assert np.array_equal(some[1], index.search(queries[1:2], 5, allow=ids[::2]).ids[0])


def test_how_many_cells_a_filter_takes_and_when_its_rows_are_scanned() -> None:
    assert [probes_under_filter(10, n, 1000) for n in (1000, 500, 250, 10, 0, 5000)] == [
        10, 14, 20, 100, 316, 10,
    ]  # fmt: skip
    # many queries share the copy of the rows that a filter leaves, a lone one pays for it
    assert scan_pays(14_000, 1000, 1000)
    assert not scan_pays(15_000, 1000, 1000)
    assert scan_pays(150, 1000, 1)
    assert not scan_pays(170, 1000, 1)
    assert not scan_pays(1, 1000, 0)


def test_few_rows_have_no_cells_and_more_get_them() -> None:
    codes = families(3000)
    index = filled(codes, "auto")
    assert index.n_cells == 0
    require_same(index.search(codes[:3], 4), truth.nearest(codes, np.arange(3000), codes[:3], 4))
    assert filled(codes, 16).n_cells == 16
    assert filled(codes[:63], 16).n_cells == 0


def test_auto_takes_more_cells_for_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_index, "FEWEST_ROWS", 100)
    monkeypatch.setattr(cell_index, "_USUAL_ROWS", 2)
    codes = families(1600)
    index = filled(codes[:100], "auto", probes=ALL)
    assert index.n_cells == 100 // 2
    index.add(codes[100:350])
    assert index.n_cells == 100 // 2
    index.add(codes[350:])  # four times as many: centres are found again
    assert 8 * 35 < index.n_cells <= 8 * 40  # a few came out equal
    require_same(index.search(codes[:5], 9), truth.nearest(codes, np.arange(1600), codes[:5], 9))


def test_of_many_groups_of_centres_the_nearest_are_looked_into() -> None:
    # more groups than are looked into: nearly always the nearest centre is in one of them
    codes = random_codes(np.random.default_rng(0), 3000, 64, near=True)
    centres = CellCentres(codes.words[:2000], 2000)
    assert centres.groups_for(1) < -(-2000 // 64)
    assert sorted(set(centres.grouped.numbers.tolist())) == list(range(2000))
    found = nearest_centres(codes.words[2000:], centres)
    distances = truth.symbol_distances(codes[2000:], codes[:2000])
    chosen = distances[np.arange(1000), found]
    assert np.mean(chosen == distances.min(axis=1)) > 0.8
    assert np.mean(chosen - distances.min(axis=1)) < 1
    assert centres.groups_for(64) == -(-2000 // 64)


def test_rows_that_come_later_are_found_at_once_and_go_into_cells() -> None:
    codes = families(3000)
    index = filled(codes[:400], 16, probes=ALL)
    (first,) = tables_of(index)
    for start in range(400, 1500, 100):
        index.add(codes[start : start + 100])
        so_far = codes[: start + 100], np.arange(start + 100)
        queries = codes[start : start + 5]
        require_same(index.search(queries, 3), truth.nearest(*so_far, queries, 3))
    assert all(tables.centres is first.centres for tables in tables_of(index))
    in_cells = sum(int(tables.arrays.bounds[:, 1].sum()) for tables in tables_of(index))
    assert in_cells > 1200
    index.add(codes[1500:])
    index.compact()
    (after,) = tables_of(index)
    assert after.centres is not first.centres
    assert after.n == 3000


def test_compact_leaves_cells_as_they_are_where_no_row_came_or_went() -> None:
    codes = families(1000)
    index = filled(codes, 16, probes=2)
    (before,) = tables_of(index)
    found = index.search(codes[:30], 5)
    index.compact()
    (after,) = tables_of(index)
    assert after.centres is before.centres
    require_same(index.search(codes[:30], 5), found)
    index.verify()
    index.remove([3])
    index.compact()
    (last,) = tables_of(index)
    assert last.centres is not before.centres
    assert last.n == 999


def test_compact_finds_cells_again_where_as_many_rows_came_as_went(tmp_path: Path) -> None:
    codes, others = families(1000), random_codes(np.random.default_rng(5), 1000, BITS)
    index = filled(codes, 16, probes=2)
    index.remove(np.arange(400))
    index.add(others[:400])
    index.save(tmp_path / "cells.bitkin")
    for copy in (CellIndex.load(tmp_path / "cells.bitkin"), pickle.loads(pickle.dumps(index))):
        before = [tables.centres for tables in tables_of(copy)]
        copy.compact()
        (after,) = tables_of(copy)
        assert all(after.centres is not centres for centres in before)
        fresh = filled(codes[400:], 16, probes=2)
        fresh.add(others[:400])
        fresh.compact()
        require_same(copy.search(others[:30], 5).distances, fresh.search(others[:30], 5).distances)


def test_rows_of_segments_that_are_full_are_all_in_cells() -> None:
    codes = families(2400, seed=4)
    index = filled(codes[:1500], 16)
    for start in range(1500, 2400, 30):
        index.add(codes[start : start + 30])
    *full, last = index.snapshot.segments
    assert len(full) > 1
    for segment in full:
        assert isinstance(segment.tables, CellTables)
        assert segment.tables.n == segment.n
    assert last.room


def test_a_cell_that_grows_is_split_and_equal_rows_are_not() -> None:
    spread = random_codes(np.random.default_rng(0), 1000, BITS)
    index = filled(spread, 16, probes=ALL)
    (before,) = tables_of(index)
    # many rows around one place, which one or two of the cells would get
    rng = np.random.default_rng(1)
    crowd = spread.symbols()[:1] ^ (rng.random((6000, BITS)) < 0.05)
    index.add(Codes.from_symbols(crowd, bits_per_symbol=1))
    largest = max(int(tables.arrays.bounds[:, 1].max()) for tables in tables_of(index))
    assert index.n_cells > len(before.centres)
    assert largest < 3000
    both = Codes.concatenate([spread, Codes.from_symbols(crowd, bits_per_symbol=1)])
    require_same(index.search(both[::999], 9), truth.nearest(both, np.arange(7000), both[::999], 9))
    equal = Codes.from_symbols(np.ones((5000, BITS), dtype=int), bits_per_symbol=1)
    same = filled(equal, 16)
    assert same.n_cells == 1
    assert same.search(equal[:1], 3).ids.tolist() == [[0, 1, 2]]


def test_rows_that_are_removed_are_not_found_in_cells() -> None:
    codes = families(900)
    index = filled(codes, 16, probes=ALL)
    gone = np.arange(0, 900, 3)
    index.remove(gone)
    left = np.setdiff1d(np.arange(900), gone)
    require_same(index.search(codes[:7], 9), truth.nearest(codes[left], left, codes[:7], 9))


@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_index_has_the_same_cells(mmap: bool, tmp_path: Path) -> None:
    codes = families(900)
    index = filled(codes, 16, probes=2, random_state=7)
    index.add(families(60, 5))
    index.remove(np.arange(0, 900, 5))
    index.save(tmp_path / "index")
    loaded = bitkin.load(tmp_path / "index", mmap=mmap)
    assert isinstance(loaded, CellIndex)
    assert repr(loaded) == repr(index)
    assert loaded.n_cells == index.n_cells
    loaded.verify()
    (tables,) = tables_of(loaded)
    own = nearest_centres(loaded.codes(loaded.ids).words, centres_of(tables))
    known, cells = tables.cells_of_rows()
    assert known.all()
    assert np.array_equal(cells, own)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "index").read_bytes()
    few = bitkin.CellIndex(codes.spec)
    few.add(codes[:9])
    few.save(tmp_path / "few")
    assert bitkin.load(tmp_path / "few", mmap=mmap).n_cells == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p, t: t["cells"].__setitem__(5, 999), "cells that are not there"),
        (lambda p, t: t["centres"].__setitem__((0, 0, 0), 2**64 - 1), "centres that are no codes"),
        (lambda p, t: t.update(centres=t["centres"][:0]), "centres that are no codes"),
        (lambda p, t: t.update(cells=t["cells"][:-1]), "cells for"),
        (lambda p, t: t.pop("cells"), "without cells"),
        (lambda p, t: t.pop("centres"), "without centres"),
        (lambda p, t: p.update(trained_rows=0), "centres"),
        (lambda p, t: p.update(trained_rows="many"), "centres"),
        (lambda p, t: p.update(probes=0), "settings of cells"),
        (lambda p, t: p.update(n_cells="some"), "settings of cells"),
        (lambda p, t: p.update(random_state=-1), "settings of cells"),
    ],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_a_damaged_file_is_refused(change: Any, says: str, mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "index"
    filled(families(300), 8).save(path)
    stored = read_file(path)
    parameters = {
        name: stored.parameter(name)
        for name in (
            "n_symbols",
            "bits_per_symbol",
            "next_id",
            "n_cells",
            "probes",
            "random_state",
            "trained_rows",
        )
    }
    tensors = {
        "blocks": stored.tensor("blocks", np.uint64, (1, 1, 1, 512)),
        "ids": stored.tensor("ids", np.int64, (300,)),
        "searchable": stored.tensor("searchable", np.uint64, (8,)),
        "centres": stored.tensor("centres", np.uint64, (8, 1, 1)).copy(),
        "cells": stored.tensor("cells", np.uint32, (300,)).copy(),
    }
    write_file(path, "CellIndex", parameters, None, tensors)
    bitkin.load(path, mmap=mmap).verify()
    change(parameters, tensors)
    write_file(path, "CellIndex", parameters, None, tensors)
    with pytest.raises(CorruptFileError, match=says):
        bitkin.load(path, mmap=mmap)


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    filled(families(300), 8).save(path)
    good = path.read_bytes()
    for at in range(len(good) - 1, 0, -max(1, len(good) // 40)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(BitkinError):
            bitkin.load(path)
        with pytest.raises(BitkinError):
            bitkin.load(path, mmap=True).verify()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n_cells": 0}, "n_cells must be"),
        ({"n_cells": 2**40}, "n_cells must be"),
        ({"n_cells": "many"}, 'n_cells must be a whole number or "auto"'),
        ({"n_cells": 3.5}, "n_cells must be"),
        ({"n_cells": True}, "n_cells must be"),
        ({"probes": 0}, "probes must be"),
        ({"probes": "all"}, "probes must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"spec": 40}, "spec must be a CodeSpec"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        CellIndex(**{"spec": CodeSpec(BITS), **arguments})


def test_impossible_probes_of_a_search_are_refused() -> None:
    codes = families(200)
    index = filled(codes, 8)
    for act in (
        lambda: index.search(codes, 3, probes=0),
        lambda: index.search_radius(codes, 3, probes=-1),
        lambda: index.count_candidates(codes, probes="all"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match="probes must be"):
            act()


def test_tuning_gives_the_probes_that_reach_a_recall() -> None:
    codes = random_codes(np.random.default_rng(0), 2000, BITS)
    low, high = (CellIndex.tune(codes, recall=r, n_cells=60, k=5) for r in (0.6, 0.97))
    assert low.probes < high.probes < 60
    assert low.interval[0] < 0.6 < low.interval[1] + 0.05
    assert high.recall > 0.93
    assert high.interval[0] < high.recall < high.interval[1]
    assert low.candidates < high.candidates < 1
    assert (high.n_rows, high.k) == (1500, 5)
    index = high.build()
    assert (index.probes, len(index)) == (high.probes, 0)
    index.add(codes)
    assert index.n_cells == 60
    assert CellIndex.tune(codes, recall=1.0, n_cells=60, k=5).recall > 0.99
    with pytest.warns(UserWarning, match="rows are scanned"):
        assert CellIndex.tune(codes[:400], k=5).recall == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_tuning_takes_as_many_probes_as_either_half_of_the_queries_needs(seed: int) -> None:
    codes = random_codes(np.random.default_rng(5), 900, BITS)
    tuning = CellIndex.tune(codes, recall=0.8, n_cells=40, k=5, random_state=seed)
    assert tuning.recall >= 0.8
    assert tuning.interval[0] < tuning.recall < tuning.interval[1]
    assert len(repr(tuning)) < 160
    assert repr(tuning).startswith(f"CellTuning(n_cells=40, probes={tuning.probes}: recall@5 0.")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"recall": 0}, "recall must be"),
        ({"recall": "high"}, "recall must be"),
        ({"k": 0}, "k must be"),
        ({"k": 5000}, "k must be at most"),
        ({"codes": families(20)}, "So few need no cells"),
        ({"codes": "codes"}, "codes must be"),
        ({"queries": families(3)}, "queries must be at least"),
        ({"n_cells": "most"}, "n_cells must be"),
    ],
)
def test_impossible_tuning_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(BitkinError, match=says):
        CellIndex.tune(**{"codes": families(300), "n_cells": 8, **arguments})
