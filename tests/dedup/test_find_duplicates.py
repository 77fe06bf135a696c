"""Near-duplicates against all pairs compared in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes
from bitkin.code_spec import CodeSpec
from bitkin.dedup import (
    DuplicateFinder,
    Duplicates,
    Pairs,
    equal_sets,
    find_duplicates,
    finder,
    hashing,
)
from bitkin.dedup.estimate import MISSES_ADDED, Estimate, _quantile
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import choose_bands
from bitkin.kernels.search.bands import equal_symbols_into
from bitkin.sets.sets import Sets
from tests.dedup.texts import cluster_of, jaccard, related_texts, similar_pairs


def rows(pairs: Pairs) -> list[tuple[int, int, float]]:
    return list(zip(*(column.tolist() for column in pairs), strict=True))


def fields(found: Duplicates) -> list[Any]:
    arrays = [
        found.cluster_of,
        found.kept,
        found.dropped,
        found.jaccard,
        found.like,
        found.like_jaccard,
        *found.pairs,
    ]
    counts = [found.n_empty, found.n_equal, found.n_compared, found.threshold, found.plan]
    return [array.tolist() for array in arrays] + counts


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7, 151])
def test_clusters_pairs_and_reasons_are_those_of_all_pairs(n: int, threshold: float) -> None:
    texts = related_texts(n)
    truth = similar_pairs(texts, threshold)
    found = find_duplicates(texts, threshold, n_hashes=512, pairs="all")
    roots = cluster_of(n, list(truth))
    assert found.cluster_of.tolist() == roots
    assert found.kept.tolist() == [i for i in range(n) if roots[i] == i]
    assert found.dropped.tolist() == [i for i in range(n) if roots[i] != i]
    assert sorted([*found.kept, *found.dropped]) == list(range(n))
    assert found.jaccard.tolist() == [jaccard(texts[roots[i]], texts[i]) for i in found.dropped]
    reasons = zip(found.dropped, found.like, strict=True)
    assert found.like_jaccard.tolist() == [jaccard(texts[i], texts[j]) for i, j in reasons]
    assert (found.like_jaccard >= threshold).all()
    pairs = {(i, j): similarity for i, j, similarity in rows(found.pairs)}
    assert len(pairs) == len(found.pairs.first)
    assert all(truth[pair] == similarity for pair, similarity in pairs.items())
    # Equal texts are represented by the first of them; every other true pair is there.
    firsts = {i for i in range(n) if not any(truth.get((j, i)) == 1.0 for j in range(i))}
    assert {pair for pair in truth if set(pair) <= firsts} == {
        pair for pair in pairs if set(pair) <= firsts
    }
    assert found.n_empty == sum(not text.strip() for text in texts)
    assert found.n_equal == sum(bool(texts[i]) for i in range(n) if i not in firsts)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8])
def test_links_give_the_clusters_that_all_pairs_give(threshold: float) -> None:
    texts = related_texts(203, seed=1)
    links, every = (find_duplicates(texts, threshold, pairs=pairs) for pairs in ("links", "all"))
    assert links.cluster_of.tolist() == every.cluster_of.tolist()
    assert links.jaccard.tolist() == every.jaccard.tolist()
    assert len(links.pairs.first) == len(links.dropped)  # a forest
    assert cluster_of(203, [(i, j) for i, j, _ in rows(links.pairs)]) == links.cluster_of.tolist()
    assert set(rows(links.pairs)) <= set(rows(every.pairs))
    assert links.n_compared <= every.n_compared


@pytest.mark.parametrize("pairs", ["links", "all"])
def test_batches_and_threads_change_nothing(
    few_threads: None, monkeypatch: pytest.MonkeyPatch, pairs: str
) -> None:
    texts = related_texts(151, seed=2)
    expected = fields(find_duplicates(texts, 0.6, pairs=pairs))
    for batch, n_threads in ((1, 1), (7, 2), (64, 2)):
        bitkin.set_threads(n_threads)
        monkeypatch.setattr(finder, "_BATCH_TEXTS", batch)
        monkeypatch.setattr("bitkin.dedup.linking._PAIRS_PER_PIECE", batch)
        assert fields(find_duplicates(iter(texts), 0.6, pairs=pairs)) == expected


def test_texts_that_are_equal_are_not_compared_with_each_other() -> None:
    found = find_duplicates(["the same few words"] * 3001 + ["others altogether here"])
    assert found.n_compared == 0
    assert found.n_equal == 3000
    assert found.kept.tolist() == [0, 3001]
    assert len(found.pairs.first) == 3000
    assert [len(cluster) for cluster in found.clusters] == [3001]


def test_texts_that_are_all_alike_are_compared_about_once_each() -> None:
    words = [f"w{i}" for i in range(60)]
    texts = [" ".join([*words[:i], f"x{i}", *words[i + 1 :]]) for i in range(60)] * 3
    texts = [f"{text} tail{i // 60}" for i, text in enumerate(texts)]
    found = find_duplicates(texts, 0.7)
    assert found.kept.tolist() == [0]
    assert found.n_compared < 4 * len(texts)  # of 16,110 pairs


def test_a_chain_is_one_cluster_and_says_what_joined_it() -> None:
    words = [f"w{i}" for i in range(40)]
    texts = [" ".join(words[i : i + 32]) for i in (0, 4, 2)]
    assert jaccard(texts[0], texts[1]) < 0.8 <= jaccard(texts[0], texts[2])
    found = find_duplicates(texts, 0.8)
    assert found.cluster_of.tolist() == [0, 0, 0]
    assert found.dropped.tolist() == [1, 2]
    assert found.jaccard[0] < 0.8
    assert found.like.tolist()[0] == 2
    assert (found.like_jaccard >= 0.8).all()
    assert repr(found) == "Duplicates(3 documents, 1 kept, 1 cluster)"


def test_empty_texts_are_similar_to_nothing_and_kept() -> None:
    found = find_duplicates(["", "a b c", "", " \n\t", "a b c"])
    assert found.kept.tolist() == [0, 1, 2, 3]
    assert found.n_empty == 3
    assert find_duplicates([" ", " ", ""], shingle="chars").kept.tolist() == [0, 2]


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["one"]])
def test_few_texts_or_none(texts: list[str]) -> None:
    found = find_duplicates(texts)
    assert len(found) == len(texts)
    assert found.kept.tolist() == list(range(len(texts)))
    assert found.clusters == []
    assert len(found.pairs.first) == len(found.jaccard) == len(found.like) == 0


def test_characters_see_what_words_do_not() -> None:
    texts = ["internationalisation of programs", "internationalization of programs"]
    assert len(find_duplicates(texts, 0.5, shingle="words").kept) == 2
    assert len(find_duplicates(texts, 0.5, shingle="chars", size=3).kept) == 1


def test_any_unicode_is_a_text() -> None:
    texts = ["\ud800 lone", "née ☃ 雪", "\0", "née ☃ 雪", "\ud800 lone", "\0"]
    assert find_duplicates(texts).cluster_of.tolist() == [0, 1, 2, 1, 0, 2]


@pytest.mark.parametrize("n_hashes", [1, 7, 65])
def test_every_number_of_hashes_finds_equal_texts_and_nothing_wrong(n_hashes: int) -> None:
    texts = related_texts(67, seed=3)
    truth = similar_pairs(texts, 0.8)
    found = find_duplicates(texts, 0.8, n_hashes=n_hashes, pairs="all")
    assert {(i, j) for i, j, _ in rows(found.pairs)} <= set(truth)
    for (i, j), similarity in truth.items():
        assert similarity < 1 or found.cluster_of[i] == found.cluster_of[j]


def test_the_same_seed_gives_the_same_result_and_another_may_not() -> None:
    texts = related_texts(151, seed=4)
    one = fields(find_duplicates(texts, 0.6, n_hashes=16, random_state=7))
    assert fields(find_duplicates(texts, 0.6, n_hashes=16, random_state=7)) == one
    assert fields(find_duplicates(texts, 0.6, n_hashes=16, random_state=8)) != one


def test_digests_that_coincide_by_chance_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = related_texts(61, seed=5)
    expected = find_duplicates(texts, 0.6)
    monkeypatch.setattr(hashing, "set_digests", lambda sets: np.zeros(len(sets), dtype=np.uint64))
    found = find_duplicates(texts, 0.6)
    assert found.cluster_of.tolist() == expected.cluster_of.tolist()
    assert found.jaccard.tolist() == expected.jaccard.tolist()


@settings(max_examples=60, deadline=None)
@example([frozenset(), frozenset({1}), frozenset()], 0)  # {1} has the digest of the empty set
@given(
    st.lists(st.frozensets(st.integers(0, 2**64 - 1), max_size=4), max_size=12),
    st.integers(0, 2**32),
)
def test_first_equals_are_those_of_python(sets: list[frozenset[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [sets[i] for i in rng.integers(0, len(sets), 2 * len(sets))] if sets else []
    offsets = np.cumsum([0, *map(len, sets)])
    held = Sets(
        np.array([member for one in sets for member in one], dtype=np.uint64), offsets
    ).unique()
    found = equal_sets.first_equals(held, equal_sets.set_digests(held))
    assert found.tolist() == [sets.index(one) if one else i for i, one in enumerate(sets)]


def test_a_finder_takes_batches_and_answers_once() -> None:
    texts = related_texts(41, seed=6)
    told: list[int] = []
    with DuplicateFinder(0.6) as by_hand:
        by_hand.add(texts[:13])
        by_hand.add([])
        by_hand.add(texts[13:])
        found = by_hand.find(progress=told.append)
        assert fields(found) == fields(find_duplicates(texts, 0.6))
        assert told == list(range(1, by_hand.plan.bands + 1))
        with pytest.raises(
            InvalidInputError, match=r"find\(\) cannot be: find\(\) gives its answer once"
        ):
            by_hand.find()
        with pytest.raises(
            InvalidInputError, match=r"add\(\) cannot be: find\(\) gives its answer once"
        ):
            by_hand.add(["more"])
    for call in (by_hand.find, lambda: by_hand.add(["more"])):
        with pytest.raises(
            InvalidInputError, match=r"cannot be: this one is closed\. Add the texts to a new"
        ):
            call()


def clusters_by_hand(found: Duplicates) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for document, first in enumerate(found.cluster_of.tolist()):
        members.setdefault(first, []).append(document)
    return [cluster for _, cluster in sorted(members.items()) if len(cluster) > 1]


def test_clusters_are_listed_by_their_first_documents() -> None:
    found = find_duplicates(related_texts(151, seed=7), 0.5)
    assert [cluster.tolist() for cluster in found.clusters] == clusters_by_hand(found)
    assert len(found.clusters) > 10


@pytest.mark.parametrize(
    "options, words",
    [
        ({"threshold": 0}, "threshold must be a number above 0 and up to 1, got 0"),
        ({"threshold": "high"}, "threshold must be a number above 0 and up to 1, got 'high'"),
        ({"shingle": "lines"}, "shingle must be one of 'words', 'chars', got 'lines'"),
        ({"size": 0}, "size must be between 1 and .*, got 0"),
        ({"n_hashes": 0}, "n_hashes must be between 1 and 1048576, got 0"),
        ({"n_hashes": 2.5}, "n_hashes must be a whole number, got 2.5"),
        ({"pairs": "some"}, "pairs must be one of 'links', 'all', got 'some'"),
        ({"random_state": -1}, "random_state must be between 0 and"),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        find_duplicates(["a"], **options)


def test_texts_that_are_none_are_named() -> None:
    wrong: Any = "one text"
    with pytest.raises(
        InvalidInputError, match="texts must be a list of texts, got one: 'one text'"
    ):
        find_duplicates(wrong)
    for wrong in (None, 7, np.array("a")):
        with pytest.raises(InvalidInputError, match="texts must be a list of texts, got"):
            find_duplicates(wrong)
        with (
            DuplicateFinder() as one,
            pytest.raises(InvalidInputError, match="texts must be a list of texts, got"),
        ):
            one.add(wrong)
    wrong = ["a", None]
    with pytest.raises(InvalidInputError, match="texts must be strings, got None at position 1"):
        find_duplicates(wrong)


def test_a_full_disk_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, data: Any) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            """Nothing to close."""

    find_duplicates(["a b c"])  # Numba makes a temporary file too, where it loads kernels
    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(
        bitkin.errors.FileAccessError, match=r"No space left on device\. Set TMPDIR"
    ):
        find_duplicates(["a b c"])


def test_after_a_failed_write_nothing_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with DuplicateFinder() as one:
        one.add(["a b c", "d e f"])
        with pytest.raises(InvalidInputError, match="texts must be strings"):
            one.add(["a b c", None])  # type: ignore[list-item]
        one.add(["a b c"])  # nothing of the wrong batch was taken

        def full(sets: Sets) -> None:
            raise bitkin.errors.FileAccessError("full")

        monkeypatch.setattr(one._spool, "append", full)
        with pytest.raises(bitkin.errors.FileAccessError, match="full"):
            one.add(["g h i"])
        monkeypatch.undo()
        for call in (one.find, lambda: one.add(["more"])):
            with pytest.raises(
                InvalidInputError, match=r"an earlier add\(\) failed, and texts are missing"
            ):
                call()


def test_a_temporary_folder_that_cannot_be_used_is_one_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/nowhere']")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(
        bitkin.errors.FileAccessError,
        match=r"no temporary file can be made: No usable .* Set TMPDIR",
    ):
        find_duplicates(["a b c"])


def test_arrays_of_texts_are_lists_of_texts() -> None:
    texts = np.array(["a b c", "d e f", "a b c"])
    assert find_duplicates(texts).kept.tolist() == [0, 1]
    with DuplicateFinder() as one:
        one.add(texts)
        one.add(iter(["d e f"]))
        assert one.find().kept.tolist() == [0, 1]


def test_texts_made_to_collide_under_the_stable_hash_are_told_apart() -> None:
    texts = ["3YB rHA ZuFM7HsX", "GcW REM ST!Iqbm+"]
    sets = bitkin.shingles(texts)
    assert sets[0] == sets[1]
    assert find_duplicates(texts).kept.tolist() == [0, 1]


@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_asking_for_all_pairs_changes_nothing_else(threshold: float) -> None:
    texts = related_texts(203, seed=11)
    links, every = (find_duplicates(texts, threshold, pairs=pairs) for pairs in ("links", "all"))
    for name in ("cluster_of", "jaccard", "like", "like_jaccard"):
        assert getattr(links, name).tolist() == getattr(every, name).tolist()


def pairs_of_sets(n: int, shared: int, apart: int, seed: int = 0) -> tuple[Sets, Sets]:
    """n pairs of sets that share `shared` members, where `apart` members are in one of them
    only.
    """
    members = np.random.default_rng(seed).integers(0, 2**63, (n, shared + apart)).astype(np.uint64)
    first, second = (
        members[:, : shared + apart // 2],
        np.delete(members, np.s_[shared : shared + apart // 2], axis=1),
    )
    a, b = (Sets(x.ravel(), np.arange(n + 1) * x.shape[1]) for x in (first, second))
    return a, b


@pytest.mark.parametrize(
    "shared, apart", [(43, 43), (60, 60), (100, 100), (250, 250), (1200, 1200)]
)
def test_few_pairs_at_the_threshold_are_given_up_on_an_estimate(shared: int, apart: int) -> None:
    n, threshold = 20_000 if shared < 1000 else 4000, 0.5
    plan = choose_bands(threshold, 128)
    hasher = bitkin.MinHash(128).fit()
    estimate = Estimate(threshold, plan, hasher.spec_)
    a, b = (hasher.encode(sets) for sets in pairs_of_sets(n, shared, apart))
    both, row = Codes.concatenate([a, b]), np.arange(n)
    sizes = np.full(2 * n, shared + apart // 2)
    worth = estimate.worth_comparing(both, sizes, row, row + n)
    allowed = MISSES_ADDED * (1 - plan.probability(threshold)) * n
    assert 0 < allowed < 30
    assert np.count_nonzero(~worth) < allowed + 4 * np.sqrt(allowed)
    assert estimate.worth_comparing(both, np.full(2 * n, 63), row, row + n).all()
    assert not estimate.worth_comparing(both, sizes, row, np.roll(row, 1) + n).any()


@pytest.mark.parametrize("n_symbols", [1, 7, 65, 128])
def test_symbols_are_counted_as_in_numpy(n_symbols: int) -> None:
    rng = np.random.default_rng(n_symbols)
    codes = Codes.from_symbols(rng.integers(0, 4, (40, n_symbols)), 2)
    first, second = rng.integers(0, 40, (2, 301))
    equal = np.empty(301, dtype=np.int64)
    equal_symbols_into(codes.words, n_symbols, first, second, equal)
    symbols = codes.symbols()
    assert equal.tolist() == np.sum(symbols[first] == symbols[second], axis=1).tolist()


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.8, 0.99, 1.0])
@pytest.mark.parametrize("n_symbols", [1, 7, 128, 1000, 2**20])
def test_the_symbols_needed_are_fewer_than_the_threshold_has(
    threshold: float, n_symbols: int
) -> None:
    estimate = Estimate(threshold, choose_bands(threshold, n_symbols), CodeSpec(n_symbols, 8))
    assert estimate.least[0] == 0
    assert (np.diff(estimate.sizes) >= 0).all()
    assert len(estimate.least) == len(estimate.sizes) + 1
    assert (estimate.least <= n_symbols * (threshold + (1 - threshold) / 256)).all()
    if threshold == 0.8 and n_symbols == 128:
        assert (estimate.least[1:] > 0.6 * n_symbols).all()


@pytest.mark.parametrize(
    "n, chance, allowed", [(1, 0.5, 0.1), (7, 0.8, 1e-3), (128, 0.8, 1e-6), (300, 0.5, 0.2)]
)
def test_a_quantile_is_that_of_a_binomial_sum(n: int, chance: float, allowed: float) -> None:
    at_most = np.cumsum(
        [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]
    )
    assert _quantile(allowed, n, chance) == np.searchsorted(at_most, allowed, side="right")


def test_texts_that_share_half_are_seldom_compared_and_none_is_lost() -> None:
    frame = [f"f{i}" for i in range(100)]
    texts = [" ".join([*frame, *(f"t{i}x{j}" for j in range(100))]) for i in range(150)]
    texts += [f"{text} more" for text in texts[:50]]
    found = find_duplicates(texts, 0.8)
    assert found.dropped.tolist() == list(range(150, 200))
    assert found.n_compared < 60  # of 19,900 pairs with a similarity of 1 / 3


@pytest.mark.parametrize(
    "n, shared, apart",
    [
        # At 0.8 chance alone misses 4.9 of 100,000.
        (100_000, 4, 1),
        (100_000, 8, 2),
        (100_000, 40, 10),
        (20_000, 300, 75),
        (20_000, 3, 2),
        (20_000, 30, 20),
        (5_000, 300, 200),
    ],
)
def test_the_plan_for_a_threshold_misses_no_more_than_it_says_for_small_and_large_sets(
    n: int, shared: int, apart: int
) -> None:
    plan = choose_bands(0.8, 128)
    hasher = bitkin.MinHash(128).fit()
    a, b = (
        hasher.encode(sets).symbols()[:, : plan.n_symbols]
        for sets in pairs_of_sets(n, shared, apart)
    )
    missed = n - np.count_nonzero(
        np.any(np.all((a == b).reshape(n, plan.bands, plan.rows), axis=2), axis=1)
    )
    expected = n * (1 - plan.probability(shared / (shared + apart)))
    assert missed <= expected + 4 * np.sqrt(expected)
    if apart > 0.3 * shared:
        assert missed >= 0.85 * expected
