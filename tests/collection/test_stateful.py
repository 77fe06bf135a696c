"""Any order of calls, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scipy.sparse import issparse

import bitkin.collection.changes
from bitkin import Collection, ProjectionHash
from bitkin.errors import DuplicateIdError, UnknownIdError
from tests.collection.model import Model, require_same, rows_like

POOL = rows_like(40, 6)
POOL[20:] = POOL[:20]  # vectors that occur twice, for ties
HASHER = ProjectionHash(5).fit(POOL)
few = st.lists(st.integers(0, 25), max_size=6, unique=True)


class Calls(RuleBasedStateMachine):
    """A collection beside a dictionary; with strings, ids are numbered in the order in which they
    first came.
    """

    @initialize(
        kind=st.sampled_from(["int", "str"]), vectors=st.sampled_from(["float32", "csr", None])
    )
    def create(self, kind: str, vectors: str | None) -> None:
        self.kind = kind
        self.collection = Collection.create(None, HASHER, ids=kind, vectors=vectors)
        self.model = Model(HASHER)
        self.stages = ["codes", "estimate", "exact"] if vectors else ["codes", "estimate"]

    def id(self, number: int) -> Any:
        return number if self.kind == "int" else f"id {number}"

    def rows_for(self, data: st.DataObject, numbers: list[int]) -> np.ndarray:
        places = data.draw(
            st.lists(st.integers(0, 39), min_size=len(numbers), max_size=len(numbers))
        )
        return POOL[np.array(places, dtype=np.int64)]

    @rule(data=st.data(), numbers=few)
    def add(self, data: st.DataObject, numbers: list[int]) -> None:
        rows, ids = self.rows_for(data, numbers), [self.id(number) for number in numbers]
        if set(ids) & set(self.model.rows):
            with pytest.raises(DuplicateIdError, match="already in the collection"):
                self.collection.add(rows, ids=ids)
        else:
            assert self.collection.add(rows, ids=ids).tolist() == ids
            self.model.rows.update(zip(ids, rows, strict=True))

    @rule(data=st.data(), numbers=few)
    def upsert(self, data: st.DataObject, numbers: list[int]) -> None:
        rows, ids = self.rows_for(data, numbers), [self.id(number) for number in numbers]
        self.collection.upsert(rows, ids=ids)
        self.model.rows.update(zip(ids, rows, strict=True))

    @rule(numbers=few)
    def remove(self, numbers: list[int]) -> None:
        ids = [self.id(number) for number in numbers]
        if set(ids) <= set(self.model.rows):
            self.collection.remove(ids)
            for one in ids:
                del self.model.rows[one]
        else:
            with pytest.raises(UnknownIdError, match="not there"):
                self.collection.remove(ids)

    @rule()
    def compact(self) -> None:
        self.collection.compact()

    @rule(data=st.data(), k=st.integers(1, 8), oversample=st.sampled_from([1, 2, 100]))
    def search(self, data: st.DataObject, k: int, oversample: int) -> None:
        stage = data.draw(st.sampled_from(self.stages))
        allow = None
        if data.draw(st.booleans()):
            allow = [self.id(number) for number in data.draw(few)]
        hits = self.collection.search(POOL[:3], k, stage=stage, oversample=oversample, allow=allow)
        # of equals the first here comes first, whatever it is called
        order = self.collection.ids.tolist()
        require_same(hits, self.model.search(POOL[:3], k, stage, oversample, allow, order))

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        if not hasattr(self, "collection"):
            return
        ids = list(self.model.rows)
        assert len(self.collection) == len(ids)
        assert set(self.collection.ids.tolist()) == set(ids)
        records = self.collection.get(ids)
        if records.vectors is not None and ids:
            kept = records.vectors.toarray() if issparse(records.vectors) else records.vectors
            assert np.array_equal(kept, np.array([self.model.rows[one] for one in ids]))
        self.collection.verify()


@pytest.mark.parametrize("few_dead", [0, 1024])
def test_any_order_of_calls(few_dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    # with 0, compaction comes by itself all the time
    monkeypatch.setattr(bitkin.collection.changes, "_FEW_DEAD_ROWS", few_dead)
    run_state_machine_as_test(
        Calls, settings=settings(max_examples=15, stateful_step_count=20, deadline=None)
    )
