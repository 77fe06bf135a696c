"""Promises that every index keeps."""

from __future__ import annotations

import copy
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import CodeMismatchError, DuplicateIdError, InvalidInputError, UnknownIdError
from tests.collection.model import require_same, rows_like, same
from tests.contracts.indexes import KINDS, D, Kind, Rows, exported, kinds_of
from tests.index.searchers import Searchers

each_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)
QUERIES = rows_like(5, D, seed=1)


def repeated(n: int, seed: int = 0) -> Rows:
    """Rows of which about half occur twice, for ties."""
    rows = rows_like(max(1, n), D, seed)
    rows[: n // 2] = rows[n - n // 2 : n]
    return rows[:n]


def numbered(rows: Rows, ids: Any = None) -> dict[int, Any]:
    return dict(zip(range(len(rows)) if ids is None else ids, rows, strict=True))


def require_unchanged(kind: Kind, index: Any, rows: dict[int, Any]) -> None:
    """Fail unless the index holds exactly these rows."""
    assert index.ids.tolist() == sorted(rows)
    assert len(index) == len(rows)
    require_same(kind.search(index, QUERIES, 7), kind.truth(rows, QUERIES, 7))
    index.verify()


def test_every_exported_index_is_tested_here() -> None:
    strange = [name for name in exported() if not kinds_of(name)]
    assert not strange, f"say in tests/contracts/indexes.py how {strange} is made and searched"
    assert {"FlatIndex", "MultiIndex", "BandIndex", "CellIndex", "EpochIndex", "Collection"} <= set(
        exported()
    )


@each_kind
@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65, 203])
def test_a_search_gives_the_nearest_first_and_of_equals_the_lower_id(kind: Kind, n: int) -> None:
    rows = repeated(n)
    ids = np.random.default_rng(n).permutation(3 * n + 1)[:n].astype(np.int64)
    index = kind.filled(rows, ids)
    for k in (1, 3, n + 5):
        found = kind.search(index, QUERIES, k)
        require_same(found, kind.truth(numbered(rows, ids.tolist()), QUERIES, k))
        assert found.ids.dtype == np.int64
        assert found.ids.shape == found.distances.shape == (5, k)
        # what is missing comes last
        assert (found.ids[:, n:] == -1).all()
        assert (found.distances[:, n:] == kind.worst).all()
        assert (found.ids[:, :n] >= 0).all()


@each_kind
def test_equal_rows_come_in_order_of_id_from_descending_ones(kind: Kind) -> None:
    index = kind.make()
    for start in (400, 300, 200, 100, 0):
        kind.add(index, np.tile(QUERIES[:1], (100, 1)), np.arange(start, start + 100)[::-1])
    assert kind.search(index, QUERIES[:1], 450).ids.tolist() == [list(range(450))]


@each_kind
def test_ids_are_those_given_or_the_numbers_after_the_largest_so_far(kind: Kind) -> None:
    rows = rows_like(3, D)
    index = kind.make()
    assert kind.add(index, rows).tolist() == [0, 1, 2]
    assert kind.add(index, rows, [50, 7, 20]).tolist() == [50, 7, 20]
    assert kind.add(index, rows).tolist() == [51, 52, 53]
    index.remove([52, 53])
    added = kind.add(index, rows)
    assert added.dtype == np.int64
    assert added.tolist() == [54, 55, 56]
    assert index.ids.tolist() == [0, 1, 2, 7, 20, 50, 51, 54, 55, 56]
    assert index.ids.dtype == np.int64
    assert kind.add(index, rows[:0]).tolist() == []
    index.remove([])
    assert len(index) == 10


@each_kind
def test_membership_never_raises(kind: Kind) -> None:
    index = kind.filled(rows_like(3, D))
    assert 2 in index
    assert np.int32(1) in index
    for absent in (3, -1, 2**63, 2**70, "1", None, 1.0, True, [1], object()):
        assert absent not in index
    index.remove([2])
    assert 2 not in index


@each_kind
def test_any_order_of_adding_and_removing_leaves_the_rows_there_are(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    index = kind.make()
    there: dict[int, Any] = {}
    for step in range(30):
        ids = [i for i in rng.permutation(200)[:40].tolist() if i not in there]
        rows = repeated(len(ids), seed=step)
        kind.add(index, rows, ids)
        there |= numbered(rows, ids)
        gone = rng.permutation(sorted(there))[: rng.integers(0, 30)].tolist()
        index.remove(gone)
        for one in gone:
            del there[one]
        if kind.replaces:
            changed = [*sorted(there)[:5], 1000 + step]
            rows = repeated(len(changed), seed=100 + step)
            kind.upsert(index, rows, changed)
            there |= numbered(rows, changed)
        if step % 10 == 9:
            index.compact()
            require_unchanged(kind, index, there)
    index.remove(sorted(there))
    require_unchanged(kind, index, {})


@each_kind
def test_only_allowed_rows_come_back_and_all_k_of_them(kind: Kind) -> None:
    rows = repeated(203)
    index = kind.filled(rows)
    for allow in ([5], list(range(0, 203, 3)), [], [7, 9, 999, 2**62]):
        for given in (allow, np.array(allow, dtype=np.int64), set(allow)):
            found = kind.search(index, QUERIES, 11, allow=given)
            require_same(found, kind.truth(numbered(rows), QUERIES, 11, allow))


@each_kind
def test_no_queries_have_results_of_the_same_types(kind: Kind) -> None:
    for index in (kind.make(), kind.filled(repeated(50))):
        some, none = (kind.search(index, queries, 4) for queries in (QUERIES, QUERIES[:0]))
        assert none.ids.shape == none.distances.shape == (0, 4)
        assert (none.ids.dtype, none.distances.dtype) == (some.ids.dtype, some.distances.dtype)


@each_kind
@pytest.mark.parametrize(
    ("k", "words"),
    [
        (0, "k must be between 1 and 2147483647, got 0"),
        (-1, "k must be between 1 and 2147483647, got -1"),
        (2**31, "k must be between 1 and 2147483647, got 2147483648"),
        (1.5, "k must be a whole number, got 1.5"),
        (True, "k must be a whole number, got True"),
        ("3", "k must be a whole number, got '3'"),
        (None, "k must be a whole number, got None"),
        (2**31 - 1, "k must be smaller: 2147483647 neighbours of 200 queries do not fit"),
    ],
    ids=str,
)
def test_a_number_of_neighbours_that_cannot_be_is_named(kind: Kind, k: Any, words: str) -> None:
    index = kind.filled(rows_like(3, D))
    with pytest.raises(InvalidInputError, match=words):
        kind.search(index, rows_like(200, D), k)


@each_kind
@pytest.mark.parametrize(
    ("allow", "words"),
    [
        (["a"], "allow must be whole numbers"),
        ([1.0], "allow must be whole numbers, got float64"),
        ([-3], "allow must be 0 or more, got -3 at position 0"),
        ([[3]], "allow must be 1-dimensional"),
        ([[1], [2, 3]], "allow must be .*ragged"),
        ([2**70], r"allow must be from 0 to 2\*\*63 - 1"),
    ],
    ids=str,
)
def test_ids_that_cannot_be_allowed_are_named(kind: Kind, allow: Any, words: str) -> None:
    index = kind.filled(rows_like(3, D))
    with pytest.raises(InvalidInputError, match=words):
        kind.search(index, QUERIES, 1, allow=allow)


@each_kind
@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([4, 4, 9], DuplicateIdError, "ids must differ, given more than once: 4"),
        ([1, 7, 6], DuplicateIdError, "ids must be new, already in the .*: 7, 6"),
        ([1, -3, 2], InvalidInputError, "ids must be 0 or more, got -3 at position 1"),
        ([1.0, 2.0, 3.0], InvalidInputError, "ids must be whole numbers, got float64"),
        ([True, False, True], InvalidInputError, "ids must be whole numbers, got bool"),
        (["a", "b", "c"], InvalidInputError, "ids must be whole numbers"),
        (np.array([1, 2, 2**63], dtype=np.uint64), InvalidInputError, r"below 2\*\*63"),
        ([1, 2, 2**63], InvalidInputError, r"from 0 to 2\*\*63 - 1, got 9223372036854775808"),
        ([1, 2], InvalidInputError, "ids must be one a row, got 2 for 3 rows"),
        (5, InvalidInputError, "ids must be one a row, got 1 for 3 rows"),
        ([[1, 2, 3]], InvalidInputError, r"ids must be 1-dimensional, got shape \(1, 3\)"),
        ([[1], [2, 3]], InvalidInputError, "ragged"),
        ({1, 2, 3}, InvalidInputError, "ids must .*order"),
    ],
    ids=str,
)
def test_bad_ids_are_named_and_nothing_is_added(
    kind: Kind, ids: Any, error: type[Exception], words: str
) -> None:
    rows = rows_like(3, D)
    index = kind.filled(rows, [5, 6, 7])
    with pytest.raises(error, match=words):
        kind.add(index, rows, ids)
    if kind.replaces and "already" not in words:
        with pytest.raises(error, match=words):
            kind.upsert(index, rows, ids)
    require_unchanged(kind, index, numbered(rows, [5, 6, 7]))
    assert kind.add(index, rows[:1]).tolist() == [8]


@each_kind
@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([5, 8, 99], UnknownIdError, "not there: 8, 99"),
        ([1, 2, 3, 4, 5, 8, 9], UnknownIdError, "not there: 1, 2, 3, 4, 8 and 1 more"),
        ([5, -1], InvalidInputError, "ids must be 0 or more, got -1 at position 1"),
        (["5"], InvalidInputError, "ids must be whole numbers"),
        ([5.0], InvalidInputError, "ids must be whole numbers, got float64"),
        (5.0, InvalidInputError, "ids must be whole numbers, got float64 such as"),
        (-1, InvalidInputError, "ids must be 0 or more, got -1"),
        (8, UnknownIdError, "not there: 8"),
        ([[5]], InvalidInputError, "ids must be 1-dimensional"),
    ],
    ids=str,
)
def test_removing_what_is_not_there_removes_nothing(
    kind: Kind, ids: Any, error: type[Exception], words: str
) -> None:
    rows = rows_like(3, D)
    index = kind.filled(rows, [5, 6, 7])
    with pytest.raises(error, match=words):
        index.remove(ids)
    require_unchanged(kind, index, numbered(rows, [5, 6, 7]))


@each_kind
def test_a_lone_row_and_a_lone_id_are_one(kind: Kind) -> None:
    rows = rows_like(3, D)
    index = kind.filled(rows, [5, 6, 7])
    index.remove(6)
    assert kind.add(index, rows[1:2], np.int64(6)).tolist() == [6]
    if kind.replaces:
        kind.upsert(index, rows[1:2], 6)
    require_unchanged(kind, index, numbered(rows, [5, 6, 7]))


@each_kind
def test_what_another_hasher_made_is_refused_and_changes_nothing(kind: Kind) -> None:
    rows = repeated(20)
    index = kind.filled(rows)
    for call in kind.foreign(index):
        with pytest.raises(
            (CodeMismatchError, InvalidInputError),
            match=r"same fitted hasher|must carry the fingerprint|features|must be 8 × 1-bit",
        ):
            call()
    require_unchanged(kind, index, numbered(rows))


@each_kind
def test_the_largest_id_is_usable_and_then_ids_are_used_up(kind: Kind) -> None:
    rows = rows_like(2, D)
    index = kind.filled(rows, [3, 2**63 - 1])
    assert 2**63 - 1 in index
    index.remove([3])
    index.compact()
    with pytest.raises(InvalidInputError, match="ids are used up"):
        kind.add(index, rows[:1])
    kind.add(index, rows[:1], [3])
    assert index.ids.tolist() == [3, 2**63 - 1]


@each_kind
def test_no_memory_is_shared_with_the_caller(kind: Kind) -> None:
    rows, ids = repeated(100), np.arange(1000, 1100)
    kept = numbered(rows.copy(), ids.tolist())
    index = kind.make()
    added = kind.add(index, rows, ids)
    allow = ids[::2].copy()
    for array in (rows, ids, added):
        array[...] = 0
    require_unchanged(kind, index, kept)
    first = kind.search(index, QUERIES, 5)
    wanted = first.ids.copy(), first.distances.copy()
    second = kind.search(index, QUERIES, 5, allow=allow)
    for result in (first, second):
        for array in (result.ids, result.distances):
            array[...] = 0  # results are the caller's to change
    own = index.ids
    if own.flags.writeable:
        own[...] = 0
    again = kind.search(index, QUERIES, 5)
    assert np.array_equal(again.ids, wanted[0])
    assert np.array_equal(again.distances, wanted[1])
    require_unchanged(kind, index, kept)


@each_kind
def test_pickles_and_copies_are_indexes_of_their_own(kind: Kind) -> None:
    rows = repeated(120)
    index = kind.filled(rows)
    index.remove([119, 3])
    there = numbered(rows)
    del there[119], there[3]
    for twin in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index), copy.copy(index)):
        assert type(twin) is type(index)
        require_unchanged(kind, twin, there)
        # the number of a removed row is not given again
        assert kind.add(twin, rows[:2]).tolist() == [120, 121]
        twin.remove([0])
        require_unchanged(kind, index, there)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.saves], ids=repr)
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("n", [0, 1, 65, 203])
def test_a_saved_index_comes_back_and_takes_more_rows(
    kind: Kind, n: int, mmap: bool, tmp_path: Path
) -> None:
    rows = repeated(n)
    ids = np.random.default_rng(n).permutation(3 * n + 1)[:n].tolist()
    index = kind.filled(rows, ids)
    there = numbered(rows, ids)
    index.save(tmp_path / "index")
    data = (tmp_path / "index").read_bytes()
    for back in (
        kind.load(tmp_path / "index", mmap),
        bitkin.load(tmp_path / "index", mmap=mmap),
    ):
        assert type(back) is type(index)
        require_unchanged(kind, back, there)
        back.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == data
        new = kind.add(back, rows_like(4, D, seed=9))
        assert new.tolist() == list(range(max(ids, default=-1) + 1, max(ids, default=-1) + 5))
        gone = ids[:1]
        back.remove(gone)
        after = there | numbered(rows_like(4, D, seed=9), new.tolist())
        require_unchanged(kind, back, {i: row for i, row in after.items() if i not in gone})
        back.save(tmp_path / "again")
        assert np.array_equal(kind.load(tmp_path / "again", mmap).ids, back.ids)


@each_kind
@pytest.mark.usefixtures("few_threads")
def test_the_number_of_threads_changes_no_answer(kind: Kind) -> None:
    rows, queries = repeated(3000), rows_like(40, D, seed=2)
    index = kind.filled(rows)
    found = []
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        found.append(kind.search(index, queries, 9))
        alone = [kind.search(index, queries[q : q + 1], 9) for q in range(3)]
        assert np.array_equal(np.vstack([one.ids for one in alone]), found[-1].ids[:3])
    for other in found[1:]:
        assert np.array_equal(other.ids, found[0].ids)
        assert np.array_equal(other.distances, found[0].distances)


@each_kind
def test_a_search_beside_a_writer_answers_from_one_state(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    index = kind.make()
    history: list[dict[int, Any]] = [{}]  # history[v] holds the rows after write v
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with Searchers(lambda: kind.search(index, QUERIES, 3), 3, pause=0.0005) as searchers:
            while (len(history) <= 60 or len(searchers.answers) < 100) and not searchers.failures:
                there = dict(history[-1])
                if len(there) > 60:
                    gone = rng.permutation(sorted(there))[:40].tolist()
                    there = {i: row for i, row in there.items() if i not in gone}
                    write = partial(index.remove, gone)
                else:
                    start = max((i for rows in history for i in rows), default=-1) + 1
                    rows = repeated(int(rng.integers(1, 30)), seed=len(history))
                    there |= numbered(rows, range(start, start + len(rows)))
                    write = partial(kind.add, index, rows, np.arange(start, start + len(rows)))
                history.append(there)
                with searchers.write():
                    write()
    finally:
        sys.setswitchinterval(interval)
    truths: dict[int, Any] = {}
    for first, last, found in searchers.answers:
        for version in range(first, last + 1):
            if version not in truths:
                truths[version] = kind.truth(history[version], QUERIES, 3)
        assert any(same(found, truths[version]) for version in range(first, last + 1))
    require_unchanged(kind, index, history[-1])


@each_kind
def test_its_text_says_what_it_is_and_how_many_rows_it_has(kind: Kind) -> None:
    index = kind.filled(rows_like(1234, D))
    assert repr(index).startswith(f"{kind.name}(1,234 ")
    assert index.nbytes > 1234
