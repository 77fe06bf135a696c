from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitkin import randomness
from bitkin.errors import InvalidInputError
from bitkin.randomness import Draws, resolve_seed

# Golden values. A change here changes every model ever saved with a seed: never edit, only add.
WORDS = [15808233339628859949, 15963797854113561646, 11024343518407888676, 12130734891813923414]


def golden() -> Draws:
    return Draws(2024, "golden")


def test_words_are_frozen() -> None:
    assert golden().words(4).tolist() == WORDS
    assert Draws(2024).words(2).tolist() == [14427344241626385078, 3954584631248838089]
    assert Draws(2**64 - 1, "é").words(2).tolist() == [9325290314015759728, 2795140716243745986]


def test_numbers_below_a_bound_are_frozen() -> None:
    assert golden().below(10, 12).tolist() == [9, 6, 6, 4, 4, 6, 5, 7, 0, 3, 4, 8]
    assert golden().below(2**63, 3).tolist() == [word % 2**63 for word in WORDS[:3]]
    assert golden().below(3 * 2**61, 4).tolist() == [
        4106814490766806820,
        5213205864172841558,
        6829793328230731338,
        6831673408924293051,
    ]


def test_permutations_are_frozen() -> None:
    assert golden().permutation(10).tolist() == [9, 8, 2, 3, 4, 7, 5, 0, 1, 6]


def test_choices_are_frozen() -> None:
    assert golden().choice(10**12, 4).tolist() == [
        339628859949,
        854113561646,
        518407888676,
        891813923414,
    ]
    assert golden().choice(12, 6).tolist() == [9, 10, 8, 2, 6, 4]
    assert golden().choice(6, 4).tolist() == [2, 3, 4, 5]


def test_normals_are_frozen() -> None:
    assert (golden().normals(6) * 2**16).tolist() == [24149, -36471, 6081, -458, 88838, -121431]
    assert (golden().normals((2, 3)) * 2**16).tolist() == [
        [24149, -36471, 6081],
        [-458, 88838, -121431],
    ]


def test_signs_are_frozen() -> None:
    assert golden().signs(12).tolist() == [1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, 1]


def philox_words(key: int, n: int) -> list[int]:
    """Philox4x64-10 in plain integers, after Salmon et al. 2011; NumPy counts from 1."""
    low = 2**64 - 1
    out: list[int] = []
    for counter in range(1, n // 4 + 2):
        c, k0, k1 = [counter, 0, 0, 0], key & low, key >> 64
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [(b >> 64) ^ c[1] ^ k0, b & low, (a >> 64) ^ c[3] ^ k1, a & low]
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & low, (k1 + 0xBB67AE8584CAA73B) & low
        out += c
    return out[:n]


def test_words_are_those_of_a_philox_written_out_in_plain_integers() -> None:
    key = int.from_bytes(hashlib.sha256(b"bitkin:2024:golden").digest()[:16], "little")
    assert golden().words(65).tolist() == philox_words(key, 65)


def test_importing_randomness_does_not_import_numba() -> None:
    code = "import sys, bitkin.randomness; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65])
def test_every_method_gives_the_size_and_type_asked_for(n: int) -> None:
    draws = Draws(1)
    results: list[tuple[np.ndarray[Any, Any], type]] = [
        (draws.words(n), np.uint64),
        (draws.below(5, n), np.int64),
        (draws.permutation(n), np.int64),
        (draws.choice(n, n), np.int64),
        (draws.choice(1000, n), np.int64),
        (draws.normals(n), np.float64),
        (draws.signs(n), np.int8),
    ]
    for values, dtype in results:
        assert values.shape == (n,)
        assert values.dtype == dtype


def test_normals_take_a_shape() -> None:
    assert Draws(1).normals((0, 3)).shape == (0, 3)
    assert Draws(1).normals(()).shape == ()
    np.testing.assert_array_equal(Draws(1).normals((7, 9)).ravel(), Draws(1).normals(63))


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**63), st.integers(0, 70), st.integers(0, 70))
def test_two_calls_give_what_one_call_gives(seed: int, bound: int, first: int, second: int) -> None:
    def methods(draws: Draws) -> list[Any]:
        return [draws.words, lambda n: draws.below(bound, n), draws.normals, draws.signs]

    for which in range(4):
        split, whole = Draws(seed, "law"), Draws(seed, "law")
        parts = [methods(split)[which](first), methods(split)[which](second)]
        np.testing.assert_array_equal(np.concatenate(parts), methods(whole)[which](first + second))
        assert split.words(1) == whole.words(1)  # the stream stands at the same place


@given(st.integers(0, 100), st.integers(1, 2**63), st.integers(0, 40))
def test_below_is_the_first_usable_words_modulo_the_bound(seed: int, bound: int, n: int) -> None:
    draws = Draws(seed)
    limit = 2**64 // bound * bound
    words = Draws(seed).words(10 * n + 40).tolist()
    usable = [i for i, word in enumerate(words) if word < limit][:n]
    assert draws.below(bound, n).tolist() == [words[i] % bound for i in usable]
    assert draws.words(1)[0] == words[usable[-1] + 1 if usable else 0]


@given(st.integers(0, 1000), st.integers(0, 200))
def test_permutations_at_once_are_permutations_one_after_another(seed: int, n: int) -> None:
    one_by_one, at_once = Draws(seed), Draws(seed)
    np.testing.assert_array_equal(
        at_once.permutations(n, 3), [one_by_one.permutation(n) for _ in range(3)]
    )


@given(st.integers(0, 1000), st.integers(0, 200))
def test_a_permutation_holds_every_number_once(seed: int, n: int) -> None:
    np.testing.assert_array_equal(np.sort(Draws(seed).permutation(n)), np.arange(n))


@given(st.integers(0, 1000), st.integers(0, 100), st.integers(0, 100))
def test_a_choice_holds_different_numbers_in_range(seed: int, a: int, b: int) -> None:
    size, n = sorted((a, b))
    chosen = Draws(seed).choice(n, size)
    assert len(set(chosen.tolist())) == size
    assert all(0 <= value < n for value in chosen.tolist())


def test_a_choice_is_the_first_different_values_of_below() -> None:
    for seed in range(20):
        stream = Draws(seed).below(30, 500).tolist()
        assert Draws(seed).choice(30, 15).tolist() == list(dict.fromkeys(stream))[:15]


def test_a_small_choice_from_a_huge_range_is_cheap() -> None:
    assert Draws(3).choice(2**63, 1000).size == 1000


def chi_square(values: np.ndarray[Any, Any], cells: int) -> float:
    """Return the statistic of a uniform law over `cells`, as standard deviations from its mean."""
    counts = np.bincount(values, minlength=cells)
    expected = values.size / cells
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float((statistic - (cells - 1)) / math.sqrt(2 * (cells - 1)))


@pytest.mark.parametrize("bound", [2, 3, 10, 64, 97])
def test_numbers_below_a_bound_are_uniform(bound: int) -> None:
    assert abs(chi_square(Draws(5, "uniform").below(bound, 100_000), bound)) < 5


def test_a_bound_just_above_half_the_range_stays_unbiased() -> None:
    # Without rejection the lower third of the numbers would come twice as often.
    bound = 3 * 2**61
    thirds = Draws(6).below(bound, 30_000) // (bound // 3)
    assert abs(chi_square(thirds, 3)) < 5


def test_all_orders_of_four_are_equally_likely() -> None:
    draws = Draws(7)
    orders = np.array([draws.permutation(4) @ (1, 4, 16, 64) for _ in range(12_000)])
    assert abs(chi_square(np.unique(orders, return_inverse=True)[1], 24)) < 5


@pytest.mark.parametrize("size", [2, 4])
def test_all_ordered_choices_are_equally_likely(size: int) -> None:
    draws = Draws(8)
    picks = np.array([draws.choice(5, size) @ 5 ** np.arange(size) for _ in range(12_000)])
    assert abs(chi_square(np.unique(picks, return_inverse=True)[1], math.perm(5, size))) < 5


def test_normals_are_standard_normal() -> None:
    z = Draws(9).normals(200_000)
    assert abs(z.mean()) < 0.01
    assert abs(z.var() - 1) < 0.02
    assert abs((z**3).mean()) < 0.03
    assert abs((z**4).mean() - 3) < 0.1
    assert abs((np.abs(z) > 1.959964).mean() - 0.05) < 0.003


def test_normals_are_multiples_of_a_power_of_two() -> None:
    steps = Draws(10).normals(10_000) * 2.0**16
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert not np.signbit(steps[steps == 0]).any()


def test_signs_are_fair() -> None:
    signs = Draws(11).signs(100_000)
    assert set(np.unique(signs).tolist()) == {-1, 1}
    assert abs(signs.mean(dtype=np.float64)) < 0.015


def test_streams_of_other_names_and_seeds_are_independent() -> None:
    streams = [
        Draws(0, ""),
        Draws(0, "a"),
        Draws(0, "b"),
        Draws(1, ""),
        Draws(1, "a"),
        Draws(10, ""),
        Draws(1, "0:"),
    ]
    normals = np.array([draws.normals(20_000) for draws in streams])
    correlation = np.corrcoef(normals) - np.eye(len(streams))
    assert np.abs(correlation).max() < 0.035


def test_the_same_seed_and_name_give_the_same_stream() -> None:
    np.testing.assert_array_equal(
        Draws(resolve_seed(np.uint8(3)), "x").words(9), Draws(3, "x").words(9)
    )


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1, np.int32(5), np.uint64(2**64 - 1)])
def test_a_whole_number_is_its_own_seed(seed: Any) -> None:
    assert resolve_seed(seed) == int(seed)
    assert type(resolve_seed(seed)) is int


def test_none_is_a_fresh_seed_every_time() -> None:
    seeds = {resolve_seed(None) for _ in range(20)}
    assert len(seeds) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    "bad", [True, 1.0, "1", np.random.RandomState(0), np.random.default_rng(0), [1], np.True_]
)
def test_a_random_state_that_is_no_whole_number_is_refused(bad: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"random_state must be a whole number, got .*Pass a seed such as 0"
    ):
        resolve_seed(bad)


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_a_random_state_out_of_range_is_refused(bad: int) -> None:
    with pytest.raises(
        InvalidInputError,
        match=f"random_state must be between 0 and 18446744073709551615, got {bad}",
    ):
        resolve_seed(bad)


def test_bad_arguments_are_refused_by_name() -> None:
    draws = Draws(0)
    with pytest.raises(
        InvalidInputError, match="seed must be between 0 and 18446744073709551615, got -1"
    ):
        Draws(-1)
    with pytest.raises(InvalidInputError, match="stream must be a string, got 3"):
        Draws(0, 3)  # type: ignore[arg-type]
    for method in (draws.words, draws.permutation, draws.normals, draws.signs):
        with pytest.raises(InvalidInputError, match="n must be at least 0, got -1"):
            method(-1)
    with pytest.raises(InvalidInputError, match=r"n must be a whole number, got 2\.5"):
        draws.normals((3, 2.5))  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInputError, match="bound must be between 1 and 9223372036854775808, got 0"
    ):
        draws.below(0, 3)
    with pytest.raises(InvalidInputError, match=r"size must be at most n = 4 .*, got 5"):
        draws.choice(4, 5)


@pytest.mark.parametrize(("n", "size"), [(0, 0), (7, 7), (64, 3), (65, 64), (301, 0), (301, 100)])
def test_the_head_of_a_permutation_needs_no_room_for_all_of_it(
    n: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(randomness, "_HEAD_WORDS", 16)
    draws, other = Draws(3, "head"), Draws(3, "head")
    assert draws.permutation_head(n, size).tolist() == other.permutation(n)[:size].tolist()
    assert draws.words(2).tolist() == other.words(2).tolist()
