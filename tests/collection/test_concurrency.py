"""Any number of threads beside one writer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import CellIndex, Collection, ProjectionHash
from bitkin.collection import changes
from bitkin.collection.searching.cell_lane import CellLane
from bitkin.index.multi import lookup as multi_lookup
from bitkin.index.multi import multi_index as multi
from bitkin.index.multi import record as multi_record
from bitkin.index.multi import search as multi_search
from bitkin.index.multi import tables as multi_tables
from bitkin.rescoring.exact import nearest_by_vectors
from tests.collection.model import rows_like
from tests.collection.stress import HASHER, stress


@pytest.fixture
def found_by_tables(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a MultiIndex have tables over few rows and use them at any price; returns how many
    queries they answered.
    """
    counts: list[int] = []
    k_nearest = multi_search.k_nearest

    def counted(*arguments: Any) -> Any:
        found, account = k_nearest(*arguments)
        counts.append(0 if account is None else int(np.count_nonzero(account[:, 3] == 0)))
        return found, account

    monkeypatch.setattr(multi_search, "k_nearest", counted)
    monkeypatch.setattr(multi, "_FEW_ROWS", 16)
    monkeypatch.setattr(multi_tables, "_KEYS_OF_ROWS", 1)
    monkeypatch.setattr(multi_lookup, "_SHARES_OF_SCAN", np.full(3, np.inf))
    monkeypatch.setattr(multi_record, "_PAYS_BELOW", np.inf)
    return counts


# which miss nothing
@pytest.mark.parametrize(("kind", "index"), [("int", "multi"), ("str", "flat")])
def test_every_answer_is_that_of_one_state(
    kind: str,
    index: str,
    few_threads: None,
    found_by_tables: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # so that rows move and strings get other numbers all the time
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    bitkin.set_threads(2)
    stress(
        n_answers=300,
        n_writes=20,
        kind=kind,
        index=index,
        enough=lambda: index != "multi" or sum(found_by_tables) > 100,
    )


@pytest.mark.parametrize("kind", ["int", "str"])
def test_every_answer_in_cells_is_that_of_one_state(
    kind: str, few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    bitkin.set_threads(2)
    answers = 0
    nearest = CellLane.nearest

    def counted(self: CellLane, *given: Any) -> Any:
        nonlocal answers
        found = nearest(self, *given)
        answers += found is not None
        return found

    monkeypatch.setattr(CellLane, "nearest", counted)
    # all of few cells, which miss nothing
    index = CellIndex(HASHER.spec_, 5, probes=100)
    stress(n_answers=300, n_writes=20, kind=kind, index=index, enough=lambda: answers > 20)


def test_writers_take_turns_and_no_row_is_lost() -> None:
    X = rows_like(400, 6)
    collection = Collection.create(None, ProjectionHash(5).fit(X), ids="str")

    def write(part: int) -> None:
        for i in range(part, 400, 8):
            collection.add(X[i : i + 1], ids=[str(i)])
            if i % 5 == 0:
                collection.remove([str(i)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    left = [str(i) for i in range(400) if i % 5]
    assert sorted(collection.ids.tolist()) == sorted(left)
    assert np.array_equal(collection.get(left).vectors, X[[int(name) for name in left]])
    collection.verify()


def test_a_search_goes_on_over_the_rows_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows_like(100, 6)
    collection = Collection.create(None, ProjectionHash(5).fit(X))
    collection.add(X)
    truth = collection.search(X[:4], 3)
    began, go_on = threading.Event(), threading.Event()

    def waiting(*arguments: object, **options: object) -> object:
        began.set()
        assert go_on.wait(30)
        return nearest_by_vectors(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("bitkin.rescoring.funnel.nearest_by_vectors", waiting)
    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(collection.search, X[:4], 3)
        assert began.wait(30)
        collection.upsert(-X[:50], ids=np.arange(50))
        collection.remove(np.arange(40, 100))
        collection.compact()
        collection.close()
        go_on.set()
        found = searching.result()
    assert np.array_equal(found.ids, truth.ids)
    assert np.array_equal(found.distances, truth.distances)
