"""Where corrections of rows stand is looked up once, and then for new rows alone; every version of
an index reads its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin import EpochIndex, ProjectionHash
from bitkin.epochs.epoch import Epoch, EpochCorrections
from bitkin.index.rows import bitmap
from bitkin.rescoring.corrections import scorer_for
from tests.epochs.epochs import turned

X, Q = turned(900, 12, 0), turned(3, 12, 5)
HASHER = ProjectionHash(8).fit(X)
SCORER, CODES = scorer_for(HASHER, "l2"), HASHER.encode(X[:25])
MOST_IDS = 60
ids_of_change = st.lists(st.integers(0, MOST_IDS - 1), min_size=1, max_size=25, unique=True)
changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "append", "remove", "compact"]), ids_of_change, st.booleans()
    ),
    max_size=12,
)


def with_numbers(epoch: Epoch, ids: list[int], first: int) -> Epoch:
    """The epoch with rows whose corrections are numbers from `first` on."""
    numbers = first + np.arange(len(ids))
    corrections = np.stack([numbers, numbers], axis=1).astype(np.float32)
    return epoch.with_codes(CODES[: len(ids)], corrections, np.array(ids, dtype=np.int64))


def joined(epoch: Epoch, allow: Any = None) -> dict[int, int]:
    """Rows by id, with the number that a scan would read as their correction."""
    found = {}
    for part in epoch.rows_to_estimate(1, allow).parts:
        mask = bitmap.unpack(part.mask if len(part.mask) else None, 0, part.n)
        for row in np.flatnonzero(mask):
            slot = part.slots[row] if len(part.slots) else row
            found[int(part.ids[row])] = int(part.corrections[slot, 0])
    return found


@given(changes)
@settings(max_examples=40)
def test_every_version_reads_its_own_corrections(
    history: list[tuple[str, list[int], bool]],
) -> None:
    epoch, expected, n_written = Epoch.without_rows(SCORER), dict[int, int](), 0
    versions: list[tuple[Epoch, dict[int, int]]] = []
    allow = np.arange(0, 10**6, 3)
    for change, ids, is_searched in history:
        if change == "append":  # behind all others, which stay where they are
            ids = [1000 * (len(versions) + 1) + i for i in ids]
        new = [i for i in ids if i not in expected]
        if change == "remove":
            epoch = epoch.without(np.array(ids))
            expected = {i: number for i, number in expected.items() if i not in ids}
        elif change == "compact":
            epoch = epoch.compact()
        elif new:  # or, between others, moves those
            epoch = with_numbers(epoch, new, n_written)
            expected = expected | {i: n_written + at for at, i in enumerate(new)}
            n_written += len(new)
        versions.append((epoch, expected))
        if is_searched:  # or never before a later version was
            assert joined(epoch) == expected
    for version, numbers in versions:
        assert joined(version) == numbers
        allowed = {i: number for i, number in numbers.items() if i % 3 == 0}
        assert joined(version, allow) == allowed


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows every lookup was for."""
    counts: list[int] = []
    slots_in_order = EpochCorrections.slots_in_order

    def counted(kept: EpochCorrections, ids: npt.NDArray[np.int64]) -> Any:
        counts.append(len(ids))
        return slots_in_order(kept, ids)

    monkeypatch.setattr(EpochCorrections, "slots_in_order", counted)
    return counts


def test_places_are_looked_up_once_and_count_as_memory(looked_up: list[int]) -> None:
    index = EpochIndex()
    ids = np.arange(800) * 3 + np.arange(800) % 2
    index.add(HASHER, X[:800], ids=ids)
    before = index.nbytes
    for allow in (None, ids[:700], None):
        index.search(Q, 5, allow=allow, first="estimate")
    assert looked_up == [800]
    assert index.nbytes == before + 8 * 800
    looked_up.clear()
    for extra in range(10):  # appended
        index.add(HASHER, X[800 + extra], ids=[5000 + 2 * extra])
        index.search(Q, 5, first="estimate")
    index.remove(ids[:50])
    index.search(Q, 5, first="estimate")
    assert sum(looked_up) <= 100


def test_ids_without_gaps_need_no_places(looked_up: list[int]) -> None:
    index = EpochIndex()
    index.add(HASHER, X)
    before = index.nbytes
    index.search(Q, 5, first="estimate")
    assert (looked_up, index.nbytes) == ([], before)
