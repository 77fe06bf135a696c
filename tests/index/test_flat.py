from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import bitkin
from bitkin import Codes, CodeSpec, FlatIndex
from bitkin.errors import (
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    InvalidInputError,
    UnknownIdError,
)
from bitkin.index import scan_parts
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests import truth
from tests.truth import random_codes

WIDTHS = [(1, 1), (64, 1), (65, 1), (256, 1), (7, 3), (128, 2), (70, 5)]


def built(codes: Codes, ids: npt.ArrayLike | None = None) -> FlatIndex:
    index = FlatIndex(codes.spec)
    index.add(codes, ids)
    return index


def require_same(
    found: bitkin.Neighbors, want: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
) -> None:
    assert np.array_equal(found.distances, want[1])
    assert np.array_equal(found.ids, want[0])
    assert found.ids.dtype == np.int64
    assert found.distances.dtype == np.int32


@pytest.mark.parametrize(("n_symbols", "bits"), WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 7, 511, 512, 513, 1300])
def test_search_equals_sorting_everything(n: int, n_symbols: int, bits: int) -> None:
    rng = np.random.default_rng(n)
    rows = random_codes(rng, n, n_symbols, bits, empty=True, near=n_symbols > 8)
    queries = random_codes(rng, 5, n_symbols, bits, empty=True)
    ids = np.arange(n)
    index = built(rows)
    for k in (1, 3, 100, n + 5):
        require_same(index.search(queries, k), truth.nearest(rows, ids, queries, k))


@pytest.mark.parametrize("bits", [1, 2])
def test_ties_go_to_the_lower_id_whatever_the_order_of_adding(bits: int) -> None:
    rng = np.random.default_rng(1)
    rows = random_codes(rng, 2000, 20, bits, near=True, empty=True)
    queries = random_codes(rng, 6, 20, bits)
    ids = rng.permutation(10_000)[:2000].astype(np.int64)
    index = FlatIndex(rows.spec)
    for part in np.array_split(np.arange(2000), 37):
        index.add(rows[part], ids[part])
    for k in (1, 10, 1500):
        require_same(index.search(queries, k), truth.nearest(rows, ids, queries, k))


def test_identical_codes_come_in_order_of_id_from_descending_ones() -> None:
    rows = Codes.from_symbols(np.ones((5000, 9), dtype=int), 1)
    index = FlatIndex(rows.spec)
    for start in range(4000, -1, -1000):
        index.add(rows[:1000], np.arange(start, start + 1000)[::-1])
    assert index.search(rows[:1], 50).ids.tolist() == [list(range(50))]
    assert index.search(rows[:1], 4000).ids.tolist() == [list(range(4000))]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 1.0])
def test_only_allowed_ids_come_back_and_all_k_of_them(share: float) -> None:
    rng = np.random.default_rng(5)
    rows, queries = random_codes(rng, 3000, 64, empty=True), random_codes(rng, 4, 64)
    ids = rng.permutation(3000).astype(np.int64)
    index = built(rows, ids)
    allow = np.append(ids[rng.random(3000) < share], [10**12, 3001])
    for k in (1, 20, 3000):
        require_same(
            index.search(queries, k, allow=allow), truth.nearest(rows, ids, queries, k, allow)
        )
    found = index.search_radius(queries, 30, allow=allow)
    require_radius(found, rows, ids, queries, 30, allow)


def require_radius(
    found: bitkin.RaggedNeighbors,
    rows: Codes,
    ids: npt.NDArray[np.int64],
    queries: Codes,
    radius: int,
    allow: npt.NDArray[np.int64] | None = None,
) -> None:
    want_ids, want_distances = truth.nearest(rows, ids, queries, max(1, len(rows)), allow)
    for q in range(len(queries)):
        inside = (want_distances[q] <= radius) & (want_ids[q] >= 0)
        part = slice(found.offsets[q], found.offsets[q + 1])
        assert np.array_equal(found.ids[part], want_ids[q][inside])
        assert np.array_equal(found.distances[part], want_distances[q][inside])
    assert found.offsets[-1] == len(found.ids)


@pytest.mark.parametrize(("n_symbols", "bits"), WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 513, 3000])
def test_radius_search_finds_all_within(n: int, n_symbols: int, bits: int) -> None:
    rng = np.random.default_rng(n)
    rows, queries = (
        random_codes(rng, n, n_symbols, bits, empty=True),
        random_codes(rng, 5, n_symbols, bits, empty=True),
    )
    index = built(rows)
    for radius in (0, n_symbols // 2, n_symbols, n_symbols + 7):
        found = index.search_radius(queries, radius)
        require_radius(found, rows, np.arange(n), queries, radius)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(
    n_threads: int, few_threads: None, always_cut: list[int]
) -> None:
    rng = np.random.default_rng(8)
    rows, queries = random_codes(rng, 5000, 64, near=True), random_codes(rng, 23, 64)
    ids = rng.permutation(5000).astype(np.int64)
    index = FlatIndex(rows.spec)
    for part in np.array_split(np.arange(5000), 5):
        index.add(rows[part], ids[part])
    bitkin.set_threads(n_threads)
    for some in (queries, queries[:1], queries[:3]):
        require_same(index.search(some, 30), truth.nearest(rows, ids, some, 30))
        require_radius(index.search_radius(some, 14), rows, ids, some, 14)
    assert set(always_cut) == {n_threads}


def test_wide_codes_are_searched_in_turns() -> None:
    rng = np.random.default_rng(2)
    rows, queries = random_codes(rng, 600, 37 * 64 + 3), random_codes(rng, 3, 37 * 64 + 3)
    require_same(built(rows).search(queries, 9), truth.nearest(rows, np.arange(600), queries, 9))


class IndexAgainstDictionary(RuleBasedStateMachine):
    """Any sequence of writes leaves the index equal to a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(segment, "ROWS_PER_PIECE", BLOCK)
        self.patches.setattr(scan_parts, "_WORDS_PER_PART", 1)
        self.rng = np.random.default_rng(0)
        self.spec = CodeSpec(11, 2)
        self.index = FlatIndex(self.spec)
        self.rows: dict[int, Codes] = {}

    def teardown(self) -> None:
        self.patches.undo()

    def fresh(self, n: int) -> Codes:
        return random_codes(self.rng, n, 11, 2, empty=True)

    @rule(n=st.integers(0, 600))
    def add(self, n: int) -> None:
        codes = self.fresh(n)
        self.rows.update(zip(self.index.add(codes).tolist(), codes, strict=True))

    @rule(ids=st.lists(st.integers(0, 3000), max_size=20, unique=True))
    def add_with_ids(self, ids: list[int]) -> None:
        codes = self.fresh(len(ids))
        if any(i in self.rows for i in ids):
            with pytest.raises(DuplicateIdError, match="already in the index"):
                self.index.add(codes, ids)
        else:
            self.index.add(codes, ids)
            self.rows.update(zip(ids, codes, strict=True))

    @rule(ids=st.lists(st.integers(0, 3000), max_size=20, unique=True))
    def upsert(self, ids: list[int]) -> None:
        codes = self.fresh(len(ids))
        self.index.upsert(codes, ids)
        self.rows.update(zip(ids, codes, strict=True))

    @rule(share=st.sampled_from([0.01, 0.3, 0.9, 1.0]))
    def remove(self, share: float) -> None:
        ids = [i for i in self.rows if self.rng.random() < share]
        self.index.remove(ids)
        for i in ids:
            del self.rows[i]

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule()
    def copy(self) -> None:
        self.index = copy.deepcopy(self.index)

    @rule(n=st.integers(0, 40))
    def merge(self, n: int) -> None:
        other = FlatIndex(self.spec)
        start = max(self.rows, default=0) + 5000
        codes = self.fresh(n)
        other.add(codes, range(start, start + n))
        self.index.merge(other)
        self.rows.update(zip(range(start, start + n), codes, strict=True))

    @invariant()
    def equal(self) -> None:
        assert self.index.ids.tolist() == sorted(self.rows)
        assert len(self.index) == len(self.rows)
        self.index.verify()
        if self.rows:
            ids = self.index.ids
            codes = Codes.concatenate([self.rows[int(i)] for i in ids])
            assert self.index.codes(ids[::-1]) == codes[::-1]
            queries = self.fresh(2)
            require_same(self.index.search(queries, 7), truth.nearest(codes, ids, queries, 7))


IndexAgainstDictionary.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None
)
test_any_sequence_of_writes_leaves_the_index_equal_to_a_dictionary = IndexAgainstDictionary.TestCase


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 900), max_size=6), seed=st.integers(0))
def test_any_split_of_the_rows_into_adds_gives_the_same_index(sizes: list[int], seed: int) -> None:
    rows = random_codes(np.random.default_rng(seed), sum(sizes), 65, empty=True)
    index = FlatIndex(rows.spec)
    for start, stop in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), strict=False):
        index.add(rows[start:stop])
    assert index.ids.tolist() == list(range(len(rows)))
    assert index.codes(index.ids) == rows


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("n", [0, 1, 512, 1300])
def test_a_saved_index_comes_back_and_takes_more_rows(tmp_path: Path, n: int, mmap: bool) -> None:
    rng = np.random.default_rng(n)
    rows, queries = (
        random_codes(rng, n, 70, 2, empty=True).with_fingerprint("f"),
        random_codes(rng, 5, 70, 2),
    )
    ids = rng.permutation(3 * n + 1)[:n].astype(np.int64)
    index = built(rows, ids)
    index.save(tmp_path / "index")
    back = FlatIndex.load(tmp_path / "index", mmap=mmap)
    back.verify()
    assert (back.spec, back.fingerprint, len(back)) == (index.spec, "f", n)
    require_same(back.search(queries, 9), truth.nearest(rows, ids, queries, 9))
    more = random_codes(rng, 40, 70, 2)
    new_ids = back.add(more)
    assert np.array_equal(new_ids, index.add(more))
    if n:
        back.remove(ids[:1])
    rows, ids = Codes.concatenate([rows[1:], more]), np.append(ids[1:], new_ids)
    require_same(back.search(queries, 9), truth.nearest(rows, ids, queries, 9))
    back.save(tmp_path / "index")
    require_same(
        bitkin.load(tmp_path / "index").search(queries, 9), truth.nearest(rows, ids, queries, 9)
    )


def test_indexes_from_one_pickle_with_shared_buffers_are_apart() -> None:
    rows = random_codes(np.random.default_rng(0), 300, 64)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(built(rows), protocol=5, buffer_callback=buffers.append)
    a, b = pickle.loads(data, buffers=buffers), pickle.loads(data, buffers=buffers)
    a.add(rows[1])
    b.add(rows[2])
    assert a.codes([300]) == rows[1]
    assert b.codes([300]) == rows[2]


def test_many_small_merges_leave_few_segments() -> None:
    rows = random_codes(np.random.default_rng(0), 200, 64)
    index = FlatIndex(rows.spec)
    for i in range(200):
        index.merge(built(rows[i], [i]))
    assert index.codes(range(200)) == rows
    assert len(index.snapshot.segments) < 5


def test_a_large_merge_shares_the_rows() -> None:
    rows = random_codes(np.random.default_rng(0), 10_000, 64)
    index, other = built(rows[:10]), built(rows[10:], range(10, 10_000))
    index.merge(other)
    assert index.codes(range(10_000)) == rows
    assert np.shares_memory(index.snapshot.segments[-1].tiles, other.snapshot.segments[0].tiles)


def test_rows_removed_and_added_across_words_of_marks() -> None:
    rng = np.random.default_rng(0)
    rows = random_codes(rng, 3000, 9, empty=True)
    index = FlatIndex(rows.spec)
    there: set[int] = set()
    for first, last in ((0, 63), (63, 64), (64, 700), (700, 1024), (1024, 3000)):
        index.add(rows[first:last])
        there |= set(range(first, last))
        gone = rng.permutation(sorted(there))[:20]
        index.remove(gone)
        there -= set(gone.tolist())
        assert index.ids.tolist() == sorted(there)
        assert index.codes(sorted(there)) == rows[sorted(there)]


def test_damage_in_a_mapped_file_is_never_given_a_new_checksum(tmp_path: Path) -> None:
    rows = random_codes(np.random.default_rng(0), 100, 70)
    built(rows).save(tmp_path / "index")
    data = bytearray((tmp_path / "index").read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    data[header + 512 * 8 + 7] ^= 1  # a bit beyond the symbols of row 0
    (tmp_path / "index").write_bytes(data)
    mapped = FlatIndex.load(tmp_path / "index")
    with pytest.raises(CorruptFileError, match="checksum of blocks does not fit"):
        mapped.save(tmp_path / "copy")
    with pytest.raises(CorruptFileError, match="checksum of blocks does not fit"):
        pickle.dumps(mapped)
    with pytest.raises(CorruptFileError, match="index has codes with bits set where none may be"):
        mapped.codes([0])
    assert not (tmp_path / "copy").exists()


def test_a_result_larger_than_memory_is_refused() -> None:
    rows = random_codes(np.random.default_rng(0), 200, 9)
    with pytest.raises(
        InvalidInputError, match="k must be smaller: 2147483647 neighbours of 200 queries"
    ):
        built(rows).search(rows, 2**31 - 1)


def test_merging_shares_rows_and_keeps_both_apart() -> None:
    rng = np.random.default_rng(0)
    a, b = random_codes(rng, 100, 64), random_codes(rng, 50, 64).with_fingerprint("b")
    left, right = built(a), built(b, range(1000, 1050))
    left.merge(right)
    right.add(a[:1])
    left.add(b[:1])
    assert len(left) == 151
    assert left.fingerprint == "b"
    assert left.codes([1050]) == b[0]
    assert right.codes([1050]).symbols().tolist() == a[0].symbols().tolist()
    with pytest.raises(
        DuplicateIdError, match=r"ids of its own, both indexes hold 1000, .* and 46 more"
    ):
        left.merge(right)
    with pytest.raises(CodeMismatchError, match="other must be 64 × 1-bit codes"):
        left.merge(FlatIndex(CodeSpec(65)))
    with pytest.raises(
        InvalidInputError, match="other must be an index of codes, such as FlatIndex, got list"
    ):
        left.merge([])  # type: ignore[arg-type]


def test_an_index_adopts_the_first_fingerprint_and_refuses_another() -> None:
    rows = random_codes(np.random.default_rng(0), 3, 8)
    index = built(rows)
    index.add(rows.with_fingerprint("one"))
    assert index.fingerprint == "one"
    with pytest.raises(
        CodeMismatchError, match="codes must come from the hasher with fingerprint one, got two"
    ):
        index.add(rows.with_fingerprint("two"))
    with pytest.raises(CodeMismatchError, match="queries must come from"):
        index.search(rows.with_fingerprint("two"), 1)
    assert len(index.search(rows, 1).ids) == 3


def test_an_index_that_has_rows_adopts_no_others() -> None:
    rows = random_codes(np.random.default_rng(0), 3, 8)
    index = built(rows)
    with pytest.raises(InvalidInputError, match="rows must go to an index without any"):
        index.adopt(built(rows[:1]).snapshot)
    assert len(index) == 3


def test_bad_codes_are_named_and_change_nothing() -> None:
    rows = random_codes(np.random.default_rng(0), 3, 8)
    index = built(rows, [5, 6, 7])
    with pytest.raises(UnknownIdError, match="not there: 1, 2, 3, 4, 8 and 1 more"):
        index.codes([1, 2, 3, 4, 5, 8, 9])
    with pytest.raises(InvalidInputError, match="codes must be Codes, got ndarray"):
        index.add(np.zeros((1, 1), dtype=np.uint8))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="queries must be Codes, got list"):
        index.search([], 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="spec must be a CodeSpec"):
        FlatIndex(64)  # type: ignore[arg-type]
    assert index.ids.tolist() == [5, 6, 7]
    assert index.codes([5, 6, 7]) == rows


def test_radius_search_of_nothing_in_nothing_and_of_what_cannot_be() -> None:
    rows = random_codes(np.random.default_rng(0), 3, 8)
    index = built(rows)
    with pytest.raises(InvalidInputError, match="radius must be at least 0, got -1"):
        index.search_radius(rows, -1)
    assert index.search_radius(rows[:0], 4).offsets.tolist() == [0]
    assert FlatIndex(rows.spec).search_radius(rows, 8).offsets.tolist() == [0, 0, 0, 0]


def test_space_of_removed_rows_is_given_back() -> None:
    rows = random_codes(np.random.default_rng(0), 20_000, 64)
    index = built(rows)
    before = index.nbytes
    index.remove(np.arange(15_000))
    assert index.nbytes < before / 2
    assert index.codes([15_000]) == rows[15_000]
