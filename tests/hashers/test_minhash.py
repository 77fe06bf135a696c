from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import MinHash, Sets
from bitkin.errors import CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.hashers.encoding import encode_to_file
from bitkin.hashers.minhash.jaccard import rounds_factor
from bitkin.io import open_vectors
from bitkin.io.writer import write_file
from tests.hashers.minhash_golden import FILE, golden
from tests.hashers.minhash_truth import symbols_of_set

METHODS = ["fast-similarity", "one-permutation", "independent"]
ROOT = Path(__file__).parents[2]


def two_sets(shared: int, union: int, first: int = 0) -> list[range]:
    """Two sets of about equal size with a Jaccard similarity of shared / union."""
    left = (union - shared) // 2
    return [range(first, first + left + shared), range(first + left, first + union)]


def distances_of_pairs(codes: bitkin.Codes) -> Any:
    """Symbols that differ between rows 0 and 1, 2 and 3, and so on."""
    words = codes.words
    return np.bitwise_count(np.bitwise_or.reduce(words[0::2] ^ words[1::2], axis=1)).sum(axis=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_hashes", [1, 2, 7, 63, 64, 65, 100, 256])
def test_codes_are_those_of_plain_python(n_hashes: int, method: str) -> None:
    rng = np.random.default_rng(n_hashes)
    for bits in (1, 8, 17, 32):
        hasher = MinHash(n_hashes, bits_per_symbol=bits, method=method, random_state=n_hashes).fit()
        # From sets that fill one bin of many to sets that leave none empty, and around the chunks
        # of the loops.
        sizes = [1, 2, 3, 11, 60] if bits != 8 else [1, 2, 5, 10, 30, 100, 1023, 1024, 1025, 2500]
        sets = [rng.integers(0, 2**64, size, dtype=np.uint64) for size in sizes]
        truth = [symbols_of_set(hasher, one.tolist()) for one in sets]
        assert hasher.transform(sets).tolist() == truth
        assert hasher.encode(sets).symbols().tolist() == truth


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), min_size=1, max_size=80), st.randoms()
)
def test_order_and_repeats_of_members_do_not_matter(members: list[int], random: Any) -> None:
    for method in METHODS:
        hasher = MinHash(40, method=method).fit()
        shuffled = members + random.choices(members, k=5)
        random.shuffle(shuffled)
        assert (
            hasher.encode([members]) == hasher.encode([shuffled]) == hasher.encode([set(members)])
        )


def test_codes_never_change() -> None:
    assert golden() == json.loads(FILE.read_text())


def test_codes_without_a_compiler_and_with_other_threads() -> None:
    for environment in ({"NUMBA_DISABLE_JIT": "1"}, {"BITKIN_NUM_THREADS": "3"}):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.hashers.minhash_golden"],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == golden()


SIMILAR = [(0, 40), (1, 2), (1, 10), (9, 10), (30, 60), (20, 200), (150, 300), (50, 50), (1, 1)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bits", [1, 2, 8, 16])
def test_symbols_are_equal_as_often_as_sets_are_alike(method: str, bits: int) -> None:
    n_hashers, n_hashes = 250, 64
    members = [one for shared, union in SIMILAR for one in two_sets(shared, union, first=7 * union)]
    sets = Sets(np.concatenate(members).astype(np.uint64), np.cumsum([0, *map(len, members)]))
    rates = np.empty((n_hashers, len(SIMILAR)))
    for seed in range(n_hashers):
        hasher = MinHash(n_hashes, bits_per_symbol=bits, method=method, random_state=seed).fit()
        rates[seed] = 1.0 - distances_of_pairs(hasher.encode(sets)) / n_hashes
    jaccard = np.array([shared / union for shared, union in SIMILAR])
    expected = jaccard + (1.0 - jaccard) * 2.0**-bits
    standard_error = rates.std(axis=0, ddof=1) / np.sqrt(n_hashers)
    # With J = 0 and 16 bits not one collision may come up: what is expected then is that of coin
    # tosses.
    tosses = np.sqrt(expected * (1.0 - expected) / (n_hashes * n_hashers))
    standard_error = np.where(standard_error == 0.0, tosses, standard_error)
    assert np.all(np.abs(rates.mean(axis=0) - expected) <= 4.0 * standard_error)
    assert np.all(rates[:, jaccard == 1.0] == 1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize("union", [10, 40, 100, 400])
def test_errors_are_as_large_as_they_say(method: str, bits: int, union: int) -> None:
    shared, n_hashers = union // 2, 500
    a, b = two_sets(shared, union)
    sizes = ([len(a)], [len(b)])
    estimates, errors = [], []
    for seed in range(n_hashers):
        hasher = MinHash(64, bits_per_symbol=bits, method=method, random_state=seed).fit()
        codes = hasher.encode([a, b])
        apart = distances_of_pairs(codes)[0] / 64
        # before clipping, which would hide part of the spread
        estimates.append(1.0 - apart / (1.0 - 2.0**-bits))
        errors.append(hasher.jaccard_error(codes[0], codes[1], sizes=sizes)[0, 0])
    # The spread of 500 draws is itself known to 3 %, and the formula for bins to a few.
    assert 0.88 < np.std(estimates) / np.sqrt(np.mean(np.square(errors))) < 1.12


def test_one_permutation_beats_independent_hashes_where_it_says_so() -> None:
    a, b = two_sets(100, 200)
    spread = {}
    for method in METHODS:
        hashers = [
            MinHash(128, bits_per_symbol=32, method=method, random_state=seed).fit()
            for seed in range(300)
        ]
        spread[method] = np.var(
            [distances_of_pairs(hasher.encode([a, b]))[0] for hasher in hashers]
        )
    assert spread["one-permutation"] < 0.8 * spread["independent"]


def spread_of_estimates(hasher: MinHash, union: int, n_pairs: int = 2000) -> float:
    """Variance of the number of symbols that differ, over pairs that share half of their union,
    divided by that of independent hashes.
    """
    rng = np.random.default_rng(union)
    a, b = two_sets(union // 2, union)
    columns = np.array([*a, *b])
    members = rng.integers(0, 2**64, (n_pairs, union), dtype=np.uint64)[:, columns]
    sizes = np.tile([len(a), len(b)], n_pairs)
    codes = hasher.encode(Sets(members.reshape(-1), np.cumsum([0, *sizes])))
    return float(np.var(distances_of_pairs(codes)) / (0.25 * hasher.n_hashes))


@pytest.mark.parametrize("union", [2, 6, 40, 200, 1600])
def test_fast_similarity_has_the_spread_of_its_formula_and_the_smallest(union: int) -> None:
    spread = {
        method: spread_of_estimates(MinHash(128, bits_per_symbol=32, method=method).fit(), union)
        for method in METHODS
    }
    expected = rounds_factor(np.zeros((1, 1)), np.array([float(union)]), np.zeros(1), 128)[0, 0]
    # a variance of 2,000 draws is known to 3 %
    assert spread["fast-similarity"] == pytest.approx(expected, rel=0.1)
    assert spread["fast-similarity"] < min(spread["independent"], 1.05 * spread["one-permutation"])
    if union <= 40:
        assert spread["fast-similarity"] < 0.6 * min(
            spread["independent"], spread["one-permutation"]
        )


def test_the_factor_of_rounds_is_that_of_orders_drawn_at_random() -> None:
    rng = np.random.default_rng(0)
    n = 24
    for f in (2, 3, 9, 60):
        # Σ w², the squares of how many bins each member fills; see `one_permutation_factor`
        squares = []
        for _ in range(2000):
            orders = np.argsort(rng.random((f, n)), axis=1) + rng.random((f, n))
            squares.append(np.square(np.bincount(orders.argmin(axis=0))).sum())
        expected = (np.mean(squares) - n * n / f) * f / (f - 1) / n
        found = rounds_factor(np.zeros((1, 1)), np.array([float(f)]), np.zeros(1), n)
        assert found[0, 0] == pytest.approx(expected, rel=0.1)


def test_the_factor_of_many_bins_is_read_off_fewer() -> None:
    def factor(n: int, union: float) -> float:
        return float(rounds_factor(np.zeros((1, 1)), np.array([union]), np.zeros(1), n)[0, 0])

    for union in (2.0, 60.0):  # few members beside the bins: their number does not matter
        assert factor(2**20, union) == pytest.approx(factor(1024, union), rel=0.03)
    for share in (0.3, 1.6, 40.0):  # many: their number over that of the bins does
        assert factor(2**20, share * 2**20) == pytest.approx(factor(1024, share * 1024), rel=0.03)


def test_errors_without_sizes_are_those_of_coin_tosses() -> None:
    for method in METHODS:
        hasher = MinHash(100, bits_per_symbol=1, method=method).fit()
        a, b = (
            hasher.encode([range(50), range(10)]),
            hasher.encode([range(25, 75), range(10), range(900, 910)]),
        )
        p = (100 - bitkin.distances(a, b) + 0.5) / 101
        expected = np.sqrt(np.maximum(p, 0.5) * (1.0 - np.maximum(p, 0.5)) / 100) / 0.5
        assert np.allclose(hasher.jaccard_error(a, b), expected)
        assert np.all(hasher.jaccard_error(a, b) > 0)
    sizes = ([50, 10], [50, 10, 10])
    assert np.array_equal(hasher.jaccard_error(a, b), hasher.jaccard_error(a, b, sizes=sizes))


@pytest.mark.parametrize("method", METHODS)
def test_jaccard_is_corrected_for_collisions_and_clipped(method: str) -> None:
    hasher = MinHash(64, bits_per_symbol=1, method=method).fit()
    sets = [range(30), range(15, 45), range(1000, 1030), []]
    codes = hasher.encode(sets)
    found = hasher.jaccard(codes, codes[:3])
    assert found.shape == (4, 3)
    assert found.dtype == np.float64
    p = 1.0 - bitkin.distances(codes, codes[:3]) / 64
    assert np.allclose(found, np.clip((p - 0.5) / 0.5, 0.0, 1.0))
    assert np.all(np.diag(found) == 1.0)
    assert np.all(found[3] == 0.0)
    error = hasher.jaccard_error(codes, codes)
    assert np.all(error[3] == 0.0)
    assert np.all(error[:, 3] == 0.0)
    assert hasher.jaccard(codes[:0], codes).shape == (0, 4)


def test_jaccard_takes_only_codes_of_this_hasher() -> None:
    hasher, other = MinHash(8).fit(), MinHash(8, random_state=1).fit()
    codes = hasher.encode([[1]])
    for method in (hasher.jaccard, hasher.jaccard_error):
        with pytest.raises(CodeMismatchError, match="b must come from the hasher with fingerprint"):
            method(codes, other.encode([[1]]))
        with pytest.raises(CodeMismatchError, match="a must be 8 × 8-bit codes, got 9 × 8-bit"):
            method(MinHash(9).fit().encode([[1]]), codes)
        with pytest.raises(InvalidInputError, match="a must be Codes, got list"):
            method([[1]], codes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (5, "sizes must be a pair"),
        (([1], [1], [1]), "sizes must be a pair"),
        (([1, 2], [1]), "sizes of a must be 1 whole numbers"),
        (([1], [1.5]), "sizes of b must be 1 whole numbers, 0 or more, one a row, got float64"),
        (([1], [-1]), "sizes of b must be 1 whole numbers, 0 or more"),
    ],
)
def test_wrong_sizes_are_one_clear_error(sizes: Any, words: str) -> None:
    for method in METHODS:
        hasher = MinHash(8, method=method).fit()
        codes = hasher.encode([[1]])
        with pytest.raises(InvalidInputError, match=words):
            hasher.jaccard_error(codes, codes, sizes=sizes)


def test_huge_and_tiny_sets() -> None:
    for method in METHODS:
        hasher = MinHash(33, method=method).fit()
        huge = np.arange(300_001, dtype=np.uint64)
        codes = hasher.encode([[], [7], huge, huge[::-1], [2**64 - 1]])
        assert codes.empty_rows().tolist() == [True, False, False, False, False]
        assert not codes.words[0].any()
        assert codes[2] == codes[3]
        assert bitkin.distances(codes[0], codes).tolist() == [[33] * 5]


def test_the_union_has_each_symbol_of_one_of_its_parts_where_no_bin_is_empty() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**64, 500, dtype=np.uint64) for _ in range(3)]
    for method in METHODS:
        hasher = MinHash(16, bits_per_symbol=32, method=method).fit()
        of_parts = hasher.transform(parts)
        of_union = hasher.transform([np.concatenate(parts)])[0]
        assert np.all((of_parts == of_union).any(axis=0))


def test_one_bit_in_a_symbol_is_as_often_one_as_zero() -> None:
    rng = np.random.default_rng(0)
    sets = Sets(rng.integers(0, 2**64, 4000 * 20, dtype=np.uint64), np.arange(0, 80_001, 20))
    for method in METHODS:
        ones = MinHash(64, bits_per_symbol=4, method=method).fit().encode(sets).symbols()
        for bit in range(4):
            share = ((ones >> bit) & 1).mean(axis=0)
            assert np.abs(share - 0.5).max() < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_hashes": 0}, "n_hashes must be between 1 and 1048576, got 0"),
        ({"n_hashes": 2**20 + 1}, "n_hashes must be between 1 and 1048576"),
        ({"n_hashes": 1.5}, "n_hashes must be a whole number, got 1.5"),
        ({"bits_per_symbol": 0}, "bits_per_symbol must be between 1 and 32, got 0"),
        ({"bits_per_symbol": 33}, "bits_per_symbol must be between 1 and 32, got 33"),
        (
            {"method": "rotation"},
            "method must be one of 'fast-similarity', 'one-permutation', 'independent', got 'rot",
        ),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_wrong_parameters_are_one_clear_error(parameters: dict[str, Any], words: str) -> None:
    for X in (None, [[1]], np.ones((2, 2))):
        with pytest.raises(InvalidInputError, match=words):
            MinHash(**parameters).fit(X)


def test_a_failed_fit_without_data_leaves_the_hasher_as_it_was() -> None:
    hasher = MinHash(8).fit(np.ones((2, 3)))
    codes = hasher.encode([[1, 2]])
    with pytest.raises(InvalidInputError, match="method"):
        hasher.set_params(n_hashes=9, method="no").fit()
    assert hasher.n_features_in_ == 3
    assert hasher.encode([[1, 2]]) == codes


def test_files_of_any_kind_are_encoded_with_a_hasher_that_saw_no_matrix(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((50, 30)) < 0.1).astype(np.float32)
    X[7] = 0
    hasher = MinHash(16).fit()
    for source in (open_vectors(X), open_vectors(scipy.sparse.csr_array(X))):
        encode_to_file(hasher, source, tmp_path / "codes")
        codes = bitkin.load(tmp_path / "codes")
        assert codes == hasher.encode(X) == hasher.encode([np.flatnonzero(row) for row in X])
        assert codes.empty_rows()[7]
    fitted = MinHash(16).fit(X)
    with pytest.raises(InvalidInputError, match="has 29 features, but MinHash is expecting 30"):
        encode_to_file(fitted, open_vectors(X[:, :29]), tmp_path / "other")


def test_explicit_zeros_are_no_members() -> None:
    hasher = MinHash(16).fit()
    stored = scipy.sparse.csr_array(
        ([1.0, 0.0, -2.0, 0.0], [3, 4, 5, 1], [0, 3, 4, 4]), shape=(3, 9)
    )
    codes = hasher.encode(stored)
    assert codes == hasher.encode([[3, 5], [], []]) == hasher.encode(stored.toarray())
    assert codes.empty_rows().tolist() == [False, True, True]


def test_impossible_files_are_refused(tmp_path: Path) -> None:
    hasher = MinHash(8, method="one-permutation").fit()
    good = {
        "n_hashes": 8,
        "bits_per_symbol": 8,
        "method": "one-permutation",
        "random_state": 0,
        "seed": 0,
        "n_features": None,
    }
    write_file(tmp_path / "model", "MinHash", good, hasher.fingerprint_, {})
    assert bitkin.load(tmp_path / "model").encode([[1]]) == hasher.encode([[1]])
    for wrong in (
        {"n_hashes": 2**40},
        {"n_hashes": "8"},
        {"bits_per_symbol": 0},
        {"method": ["one-permutation"]},
        {"method": "other"},
        {"method": "fast-similarity"},
        {"random_state": "x"},
        {"seed": -1},
        {"seed": None},
        {"seed": 1},
        {"n_features": 0},
        {"n_features": 2.5},
        {"n_features": 2**31},
    ):
        write_file(tmp_path / "model", "MinHash", good | wrong, hasher.fingerprint_, {})
        with pytest.raises(CorruptFileError) as raised:
            bitkin.load(tmp_path / "model")
        assert ".." not in str(raised.value).removeprefix(str(tmp_path))
    write_file(tmp_path / "model", "MinHash", good, hasher.fingerprint_, {"more": np.zeros(3)})
    with pytest.raises(CorruptFileError):
        bitkin.load(tmp_path / "model")
