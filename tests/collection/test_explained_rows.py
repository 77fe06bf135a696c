"""`explain` counts the rows that were looked at: in cells, under filters, where a search goes over
all rows after all, and in indexes that look rows up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin import BandIndex, CellIndex, Codes, Collection, FlatIndex, MultiIndex, WTAHash
from bitkin.index.cells.tables import CellTables
from tests.collection.test_cells import HASHER, in_cells, made_rows, require_same

STAGES = {"estimate": "estimate of rows in cells", "codes": "codes"}


@pytest.mark.parametrize("first", ["estimate", "codes"])
@pytest.mark.parametrize("filtered", [False, True])
def test_rows_in_cells_are_those_that_can_be_found_there(first: str, filtered: bool) -> None:
    collection = in_cells(100, 2, vectors=None)
    collection.add(made_rows(3000))
    collection.remove(np.arange(0, 3000, 7))
    queries = made_rows(9, 1)
    allow = np.arange(1000, 3000) if filtered else None
    options: Any = {"first": first, "allow": allow, "oversample": 2}
    explained = collection.explain(queries, 5, **options)
    store: Any = collection._open_store
    coded, index = store.snapshot.coded, store.snapshot.index
    [segment] = coded.segments
    assert isinstance(segment.tables, CellTables)
    known, cells = segment.tables.cells_of_rows()
    there = np.isin(segment.ids[: segment.n], collection.ids)
    if filtered:
        there &= segment.ids[: segment.n] >= 1000
    [chosen] = index.choose_cells(
        coded, HASHER.encode(queries), explained.stages["cells"].rows_out // 9
    )
    expected = sum(int((np.isin(cells, some) & known & there).sum()) for some in chosen)
    assert explained.stages["encode"].rows_in == 9  # those asked before the clock are not counted
    assert explained.stages[STAGES[first]].rows_in == expected
    require_same(explained.hits, collection.search(queries, 5, **options))


@pytest.mark.parametrize(
    "vectors, first", [(None, "codes"), (None, "estimate"), ("float32", "estimate")]
)
def test_a_query_that_goes_over_all_rows_counts_them(vectors: str | None, first: str) -> None:
    collection = in_cells(100, 1, vectors=vectors)
    collection.add(made_rows(3000))
    queries = made_rows(9, 1)
    few = collection.explain(queries, 3, first=first).stages[STAGES[first]].rows_in
    many = collection.explain(queries, 2000, first=first).stages[STAGES[first]].rows_in
    assert few < 9 * 3000 / 10
    assert many == few + 9 * 3000  # none of the queries finds 2,000 rows in one cell


def test_a_filter_that_leaves_few_rows_is_the_reason_to_estimate_them() -> None:
    collection = in_cells(100, 2)
    collection.add(made_rows(3000))
    few = collection.explain(made_rows(4, 1), 3, allow=np.arange(30))
    assert few.why == "few rows are allowed, all of which can be estimated"
    assert few.stages["estimate of all rows"].rows_in == 4 * 30
    assert collection.explain(made_rows(4, 1), 3).why.startswith("cells leave few rows")


def test_an_index_in_cells_counts_rows_as_it_searches() -> None:
    codes = HASHER.encode(made_rows(2000))
    index = CellIndex(codes.spec, 50, probes=2)
    index.add(codes)
    asked = codes[:7]

    def count(k: int, allow: Any = None) -> int:
        return index.count_compared(index.snapshot, asked, k, allow, k)

    assert count(3) == index.count_candidates(asked).sum() < 7 * 2000 / 4
    assert count(2000) == count(3) + 7 * 2000
    assert count(3, np.arange(20)) == 7 * 20  # so few that all are compared
    assert count(3, np.arange(4000)) == count(3)  # unknown ones are no rows
    assert index.count_compared(index.snapshot, asked[:0], 3, None, 3) == 0


def test_indexes_that_look_rows_up_count_those() -> None:
    symbols = np.random.default_rng(0).integers(0, 2, (20_000, 64))
    codes = Codes.from_symbols(symbols, 1)
    asked = codes[:9]
    flat, bands, multi = FlatIndex(codes.spec), BandIndex(codes.spec), MultiIndex(codes.spec)
    for index in (flat, bands, multi):
        index.add(codes)

    def count(index: Any, k: int, allow: Any = None) -> int:
        compared: int = index.count_compared(index.snapshot, asked, k, allow, k)
        return compared

    assert count(flat, 1) == 9 * 20_000
    assert count(flat, 1, np.arange(0, 40_000, 2)) == 9 * 10_000
    assert 9 <= count(bands, 1) < 9 * 1000  # each finds itself, in all of its bands
    assert count(bands, 19_000) > 9 * 20_000  # too few share a band
    lookups = multi.explain(asked, 1)
    scanned = int(lookups.fell_back.sum())
    assert scanned * 20_000 <= count(multi, 1) <= 9 * 20_000
    hits = BandIndex(codes.spec, score="hits")
    hits.add(codes)
    assert count(hits, 1) == hits.count_candidates(asked).sum()


def test_a_scan_by_losses_is_the_estimate_already() -> None:
    rows = made_rows(700)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    hasher = WTAHash(33, 8, random_state=0).fit(rows)
    collection = Collection.create(None, hasher, vectors=None)
    collection.add(rows)
    explained = collection.explain(rows[:5], 3)
    assert list(explained.stages) == ["encode", "estimate of all rows"]
    assert explained.hits.distances.dtype == np.float32
    # codes first keep all rows, and the estimate ranks them
    by_codes = collection.search(rows[:5], 3, first="codes")
    require_same(explained.hits, by_codes)
    few = Collection.create(None, hasher, vectors=None)
    few.add(rows[:2])
    assert few.search(rows[:5], 3).ids.shape == (5, 3)


@pytest.mark.parametrize("n_queries", [1, 3])
def test_queries_of_every_form_can_be_explained(n_queries: int) -> None:
    collection = Collection.create(None, HASHER)
    rows = made_rows(300)
    collection.add(rows)
    expected = collection.search(rows[:n_queries], 4)
    forms: list[Any] = [rows[:n_queries], rows[:n_queries].tolist(), iter([rows[:n_queries]])]
    if n_queries == 1:
        forms.append(rows[0])
    for queries in forms:
        require_same(collection.explain(queries, 4).hits, expected)
    by_codes = collection.explain(HASHER.encode(rows[:n_queries]), 4, stage="codes")
    require_same(by_codes.hits, collection.search(rows[:n_queries], 4, stage="codes"))
