"""The corrections of every row in a scan by the estimate are its own, in every version of a
collection, whichever of them is searched first; and slots are not looked up again for all rows
after every change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import Codes, SignHash
from bitkin.collection.encoding import Encoder
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.memory import MemoryStore
from bitkin.collection.rows import Pieces, RowSlots
from bitkin.collection.settings import CollectionSettings
from bitkin.collection.snapshot import CollectionSnapshot, NewRows
from bitkin.index.rows import bitmap

MOST_IDS = 60
ONE_QUERY = Codes.from_symbols(np.zeros((1, 8), dtype=np.uint8), 1)
ids_of_change = st.lists(st.integers(0, MOST_IDS - 1), min_size=1, max_size=25, unique=True)
changes = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove", "compact"]), ids_of_change, st.booleans()),
    max_size=20,
)


class NumberedRows:
    """A store of which every row has the number of its write as its correction."""

    def __init__(self) -> None:
        encoder = Encoder.from_hasher(SignHash(8).fit(), "l2")
        settings = CollectionSettings(None, "l2", "int", None, 10)
        self.store = MemoryStore.empty(CollectionEpoch.begin(0, encoder, settings, "flat"), "flat")
        self.expected: dict[int, int] = {}
        self._n_written = 0

    def put(self, ids: npt.ArrayLike) -> None:
        row_ids = np.asarray(ids, dtype=np.int64)
        numbers = self._n_written + np.arange(len(row_ids))
        self._n_written += len(row_ids)
        corrections = Pieces()
        corrections.append(np.stack([numbers, numbers], axis=1).astype(np.float32))
        codes = Codes.from_symbols(np.zeros((len(row_ids), 8), dtype=np.uint8), 1)
        self.store.put(NewRows(row_ids, codes, None, corrections), replaces=True)
        self.expected.update(zip(row_ids.tolist(), numbers.tolist(), strict=True))

    def remove(self, ids: list[int]) -> None:
        there = [row_id for row_id in ids if row_id in self.expected]
        self.store.remove(np.array(there, dtype=np.int64))
        for row_id in there:
            del self.expected[row_id]


def joined(snapshot: CollectionSnapshot, allow: Any = None) -> dict[int, int]:
    """Rows by id, with the number that a scan would read as their correction."""
    found = {}
    for part in snapshot.rows_to_estimate(ONE_QUERY, allow).parts:
        mask = bitmap.unpack(part.mask if len(part.mask) else None, 0, part.n)
        for row in np.flatnonzero(mask):
            slot = part.slots[row] if len(part.slots) else row
            found[int(part.ids[row])] = int(part.corrections[slot, 0])
    return found


@pytest.fixture(scope="module", autouse=True)
def _early_compaction() -> Any:
    """Slots are numbered again while segments stay as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bitkin.collection.changes._FEW_DEAD_ROWS", 5)
        yield


@given(changes)
def test_every_version_reads_its_own_corrections(
    history: list[tuple[str, list[int], bool]],
) -> None:
    rows, versions = NumberedRows(), []
    allow = np.arange(0, MOST_IDS, 3)
    for change, ids, is_searched in history:
        if change == "put":
            rows.put(ids)
        elif change == "remove":
            rows.remove(ids)
        else:
            rows.store.compact()
        version, expected = rows.store.snapshot, dict(rows.expected)
        versions.append((version, expected))
        if is_searched:  # or never before a later version was
            assert joined(version) == expected
    for version, expected in versions:
        assert joined(version) == expected
        allowed = {row_id: expected[row_id] for row_id in allow.tolist() if row_id in expected}
        assert joined(version, allow) == allowed


def test_slots_are_looked_up_once_and_then_for_new_rows_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []
    lookup = RowSlots.lookup

    def counted(slots: RowSlots, row_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        looked_up.append(len(row_ids))
        return lookup(slots, row_ids)

    monkeypatch.setattr(RowSlots, "lookup", counted)
    rng = np.random.default_rng(0)
    rows, ids = NumberedRows(), rng.choice(10_000, 2000, replace=False)
    rows.put(ids)
    allow = rng.choice(ids, 100, replace=False)
    joined(rows.store.snapshot, allow)
    assert sum(looked_up) == len(ids)
    looked_up.clear()
    for change in range(20):
        rows.put([ids[change]])  # replaced
        rows.put([10_000 + change])  # appended
        assert joined(rows.store.snapshot) == rows.expected
        assert len(joined(rows.store.snapshot, allow)) == len(allow)
    assert sum(looked_up) < 500  # of 40 versions with 2000 rows each


def test_slots_that_are_kept_count_as_memory() -> None:
    rows = NumberedRows()
    rows.put(np.random.default_rng(0).choice(10_000, 2000, replace=False))
    before = rows.store.snapshot.nbytes
    joined(rows.store.snapshot)
    assert rows.store.snapshot.nbytes == before + 8 * 2000
