"""A copy looks into the same cells as what it was made from, and finds the same rows."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin import CellIndex, Collection
from bitkin.codes import Codes
from tests.collection.test_cells import HASHER, in_cells, made_rows, require_same, tables_of

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "upsert", "remove"]), st.integers(1, 150), st.integers(0, 2**32)
    ),
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(
    steps=_STEPS,
    first=st.sampled_from(["codes", "estimate"]),
    ids=st.sampled_from(["int", "str"]),
    vectors=st.sampled_from(["float32", "int8", None]),
)
def test_a_pickled_collection_finds_the_same_rows(
    steps: list[tuple[str, int, int]], first: str, ids: str, vectors: str | None
) -> None:
    collection = in_cells(9, 2, ids=ids, vectors=vectors)
    n_named = 0

    def named(numbers: Any) -> Any:
        return numbers if ids == "int" else [f"row {number}" for number in numbers]

    for act, n, seed in [("add", 200, 0), *steps]:
        rng, there = np.random.default_rng(seed), collection.ids
        if act == "add":
            collection.add(made_rows(n, seed), ids=named(np.arange(n_named, n_named + n)))
            n_named += n
        elif act == "upsert":
            again = rng.choice(n_named, min(n, n_named), replace=False)
            collection.upsert(made_rows(len(again), seed), ids=named(again))
        else:
            collection.remove(rng.choice(there, min(n, len(there) - 20), replace=False))
    copied = pickle.loads(pickle.dumps(collection))
    copied.verify()
    assert tables_of(copied)
    queries = made_rows(7, 1)
    for some in (queries, queries[:1]):
        require_same(copied.search(some, 9, first=first), collection.search(some, 9, first=first))
    require_same(
        copied.search(queries, 30, first=first, allow=collection.ids[::2]),
        collection.search(queries, 30, first=first, allow=collection.ids[::2]),
    )


def test_a_copy_goes_on_as_a_collection_of_its_own() -> None:
    collection = in_cells(9, 2)
    collection.add(made_rows(300))
    copied = copy.deepcopy(collection)
    before = collection.search(made_rows(5, 1), 5)
    copied.add(made_rows(2000, 2))
    copied.remove(np.arange(100))
    require_same(collection.search(made_rows(5, 1), 5), before)
    again = Collection.create(None, HASHER)
    again.add(copied.get(copied.ids).vectors, ids=copied.ids)
    everything: Any = {"probes": 10_000, "oversample": 1000}
    require_same(
        copied.search(made_rows(5, 1), 5, **everything),
        again.search(made_rows(5, 1), 5, oversample=1000),
    )


def test_what_was_removed_is_not_in_a_pickle() -> None:
    collection = in_cells(9, 2)
    rows = made_rows(300)
    collection.add(rows)
    assert rows[17].tobytes() in pickle.dumps(collection)
    collection.remove([17])
    assert rows[17].tobytes() not in pickle.dumps(collection)
    assert rows[18].tobytes() in pickle.dumps(collection)


@pytest.mark.parametrize("removed", [0, 70])
def test_a_pickled_index_has_the_same_cells(removed: int) -> None:
    rng = np.random.default_rng(3)
    symbols = rng.integers(0, 2, (12, 40))[rng.integers(0, 12, 900)] ^ (rng.random((900, 40)) < 0.1)
    codes = Codes.from_symbols(symbols, 1)
    index = CellIndex(codes.spec, 15, probes=1)
    index.add(codes[:600])
    index.add(codes[600:])  # some of them outside of cells
    index.remove(np.arange(removed))
    copied = pickle.loads(pickle.dumps(index))
    copied.verify()
    require_same(copied.search(codes, 7), index.search(codes, 7))
    assert np.array_equal(copied.count_candidates(codes) > 0, index.count_candidates(codes) > 0)
    copied.compact()
    assert copied.n_cells > 0
