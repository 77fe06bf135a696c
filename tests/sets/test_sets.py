from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Sets
from bitkin.errors import InvalidInputError

ragged = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=60), max_size=9)


def sets_of(lists: list[list[int]]) -> Sets:
    members = np.array([m for one in lists for m in one], dtype=np.uint64)
    return Sets(members, np.cumsum([0, *map(len, lists)]))


def as_lists(sets: Sets) -> list[list[int]]:
    return [one.tolist() for one in sets]


def random_sets(n: int, seed: int = 0, high: int = 300) -> Sets:
    rng = np.random.default_rng(seed)
    return sets_of([rng.integers(0, high, rng.integers(0, 90)).tolist() for _ in range(n)])


@settings(deadline=None)
@given(ragged)
def test_unique_is_sorted_set_of_every_list(lists: list[list[int]]) -> None:
    sets = sets_of(lists)
    assert as_lists(sets) == lists
    assert as_lists(sets.unique()) == [sorted(set(one)) for one in lists]
    assert sets.unique() == sets


@pytest.mark.parametrize("size", [0, 1, 7, 23, 24, 25, 47, 48, 49, 63, 64, 65, 1000, 100_003])
def test_unique_sorts_any_size_in_any_order(size: int) -> None:
    rng = np.random.default_rng(size)
    for members in (
        rng.integers(0, 2**64, size, dtype=np.uint64),
        rng.integers(0, 1 + size // 3, size, dtype=np.uint64),
        np.arange(size, dtype=np.uint64),
        np.arange(size, dtype=np.uint64)[::-1],
    ):
        around = np.concatenate(
            [np.array([3, 1, 2], np.uint64), members, np.array([9, 8], np.uint64)]
        )
        sets = Sets(around, [0, 3, 3 + size, 5 + size]).unique()
        assert np.array_equal(sets[1].members, np.unique(members))
        assert as_lists(sets[[0, 2]]) == [[1, 2, 3], [8, 9]]


@settings(deadline=None)
@given(ragged.filter(len), st.data())
def test_jaccard_of_pairs_is_that_of_python_sets(
    lists: list[list[int]], data: st.DataObject
) -> None:
    row = st.integers(0, len(lists) - 1)
    pairs = data.draw(st.lists(st.tuples(row, row), max_size=20))
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    truth = [
        len(set(lists[a]) & set(lists[b])) / len(set(lists[a]) | set(lists[b]))
        if lists[a] or lists[b]
        else 0.0
        for a, b in pairs
    ]
    found = sets_of(lists).jaccard_of_pairs(first, second)
    assert found.dtype == np.float64
    assert found.tolist() == truth


def test_the_number_of_threads_changes_nothing(
    few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.sets import sets as module

    sets = random_sets(400)
    rows = np.random.default_rng(1).integers(0, 400, (2, 3000))
    answers: list[tuple[Any, Any]] = []
    for n_threads, piece in ((1, 1 << 17), (2, 100), (3, 7)):
        bitkin.set_threads(n_threads)
        monkeypatch.setattr(module, "_MEMBERS_PER_PIECE", piece)
        answers.append((as_lists(sets.unique()), sets.jaccard_of_pairs(*rows).tolist()))
    assert answers[0] == answers[1] == answers[2]


def test_rows_are_chosen_as_in_numpy() -> None:
    sets = random_sets(20)
    lists = as_lists(sets)
    assert as_lists(sets[3]) == [lists[3]]
    assert as_lists(sets[-1]) == [lists[-1]]
    assert as_lists(sets[4:9]) == lists[4:9]
    assert as_lists(sets[9:4]) == []
    assert as_lists(sets[::-2]) == lists[::-2]
    assert as_lists(sets[[5, 5, -2]]) == [lists[5], lists[5], lists[-2]]
    assert as_lists(sets[sets.sizes() > 40]) == [one for one in lists if len(one) > 40]
    assert as_lists(Sets.concatenate([sets[:3], sets[3:3], sets[3:]])) == lists
    assert len(Sets.concatenate([])) == 0
    assert sets.sizes().tolist() == [len(one) for one in lists]
    with pytest.raises(IndexError, match="out of range for 20 sets"):
        sets[20]
    with pytest.raises(InvalidInputError, match="flat list or mask"):
        sets[[[1]]]


def test_sets_are_equal_whatever_the_order_of_members() -> None:
    assert Sets([1, 2, 2], [0, 3]) == Sets([2, 1], [0, 2])
    assert Sets([1, 2], [0, 2]) != Sets([1, 3], [0, 2])
    assert Sets([1, 2], [0, 2]) != Sets([1, 2], [0, 1, 2])
    assert Sets([1], [0, 1]) != [1]


def test_sets_are_immutable_and_pickle() -> None:
    members = np.array([4, 5], dtype=np.uint64)
    sets = Sets(members, [0, 2])
    members[0] = 9
    assert sets.members.tolist() == [4, 5]
    with pytest.raises(ValueError, match="read-only"):
        sets.members[0] = np.uint64(1)
    with pytest.raises(AttributeError, match="immutable"):
        sets.members = members
    with pytest.raises(AttributeError, match="immutable"):
        del sets.offsets
    assert pickle.loads(pickle.dumps(sets)) == sets
    assert sets.nbytes == 32
    assert repr(sets) == "Sets(1 set, 2 members)"


def test_largest_members_keep_every_bit() -> None:
    sets = Sets(
        np.array([2**64 - 1, 2**64 - 2, 2**53, 2**53 + 1], dtype=np.uint64), [0, 4]
    ).unique()
    assert sets.members.tolist() == [2**53, 2**53 + 1, 2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize(
    ("members", "offsets", "words"),
    [
        ([1.5], [0, 1], "members must be a flat array of whole numbers"),
        ([[1]], [0, 1], "members must be a flat array"),
        (["a"], [0, 1], "members must be a flat array of whole numbers"),
        ([[1], [2, 3]], [0, 2], "members must be a flat array of whole numbers"),
        ([1, 2**64], [0, 2], "members must be a flat array of whole numbers from 0 to"),
        ([-1, 2**63], [0, 2], "members must be a flat array of whole numbers from 0 to"),
        (
            np.array(["2020-01-01"], dtype="M8[D]"),
            [0, 1],
            "members must be a flat array of whole numbers",
        ),
        ([3, -1], [0, 2], "members must be 0 or more, got -1 at position 1"),
        ([1, 2], [0, 1], "offsets must rise from 0 to 2"),
        ([1, 2], [1, 2], "offsets must rise from 0 to 2"),
        ([1, 2], [0, 2, 1, 2], "offsets must rise from 0 to 2"),
        ([], [], "offsets must rise from 0 to 0"),
        ([1], [0, 0.5], "offsets must be whole numbers"),
    ],
)
def test_wrong_parts_are_one_clear_error(members: Any, offsets: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Sets(members, offsets)


def test_wrong_pairs_are_one_clear_error() -> None:
    sets = random_sets(5)
    with pytest.raises(
        InvalidInputError, match="first must hold row numbers below 5, the number of sets, got 5"
    ):
        sets.jaccard_of_pairs([5], [0])
    with pytest.raises(InvalidInputError, match="second must be 0 or more, got -1"):
        sets.jaccard_of_pairs([0], [-1])
    with pytest.raises(InvalidInputError, match="equally long, got 1 and 2"):
        sets.jaccard_of_pairs([0], [1, 2])
    with pytest.raises(InvalidInputError, match="parts must hold Sets, got list"):
        Sets.concatenate([[1]])  # type: ignore[list-item]


def test_a_view_that_cannot_be_written_is_copied_since_its_base_can() -> None:
    members: npt.NDArray[np.uint64] = np.arange(5, dtype=np.uint64)
    offsets = np.array([0, 2, 5])
    views = members.view(), offsets.view()
    for view in views:
        view.flags.writeable = False
    sets = Sets(*views)
    members[0], offsets[1] = 9, 10**12
    assert as_lists(sets) == [[0, 1], [2, 3, 4]]
    assert len(bitkin.MinHash().fit().encode(sets)) == 2


def test_lists_on_both_sides_of_2_to_the_63_keep_every_bit() -> None:
    members = [1, 2**63, 2**64 - 1, 2**63 + 1]
    assert Sets(members, [0, 4]).members.tolist() == members
