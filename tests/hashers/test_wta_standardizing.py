"""Rows centred and scaled before they are compared, windows filled that are empty, and how many
values a symbol has.
"""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin import WTAHash
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.wta.column_moments import ColumnMoments
from bitkin.hashers.wta.standardizer import AUTOMATIC_FEATURES
from bitkin.io import open_vectors
from tests.hashers.test_wta import forged
from tests.saved.test_saved_files import saved


def uneven(n: int = 200, d: int = 24, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows whose features have means much further apart than their values spread."""
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1, (n, d)) + rng.uniform(1, 20, d)).astype(np.float32)


def hard_columns(n: int = 70) -> npt.NDArray[np.float64]:
    """Columns that are all zero, constant, far from zero, tiny, and sparse."""
    rng = np.random.default_rng(1)
    columns = [
        np.zeros(n),
        np.full(n, 0.1),
        1e9 + rng.standard_normal(n),
        1e-9 * rng.standard_normal(n),
        1e8 + 1e-2 * rng.standard_normal(n),
        rng.integers(-3, 4, n) * (rng.random(n) < 0.2),
        -np.abs(rng.standard_normal(n)),
    ]
    return np.stack(columns, axis=1)


def exact_moments(column: npt.NDArray[np.float64]) -> tuple[float, float]:
    numbers = [Fraction(x) for x in column.tolist()]
    mean = sum(numbers) / len(numbers)
    return float(mean), float(sum((x - mean) ** 2 for x in numbers) / len(numbers))


def moments_of(batches: list[Any]) -> ColumnMoments:
    moments = ColumnMoments(batches[0].shape[1])
    for batch in batches:
        moments.update(batch)
    return moments


def test_mean_and_variance_are_exact_up_to_their_last_bits() -> None:
    X = hard_columns()
    moments = moments_of([X])
    means, variances = map(np.array, zip(*map(exact_moments, X.T), strict=True))
    np.testing.assert_allclose(moments.mean, means, rtol=4e-16, atol=0)
    np.testing.assert_allclose(moments.variance, variances, rtol=1e-11, atol=0)
    assert moments.variance[:2].tolist() == [0.0, 0.0]
    assert moments.constant.tolist() == [True, True, False, False, False, False, False]
    assert moments.least.tolist() == X.min(axis=0).tolist()
    assert moments.zero_share == pytest.approx((X == 0).mean())
    between = means.var() / (means.var() + variances.mean())
    assert moments.share_between() == pytest.approx(between)


def test_form_batches_and_threads_do_not_change_a_bit_of_the_moments() -> None:
    X = hard_columns()
    whole = moments_of([X])
    wide = np.tile(X, (1, 90))
    try:
        bitkin.set_threads(3)
        threaded = moments_of([wide[:13], wide[13:]])
    finally:
        bitkin.set_threads(1)
    for same in (
        moments_of([X[:1], X[1:8], X[8:8], X[8:]]),
        moments_of([scipy.sparse.csr_array(X[:33]), scipy.sparse.csr_array(X[33:])]),
    ):
        assert same.mean.tobytes() == whole.mean.tobytes()
        assert same.variance.tobytes() == whole.variance.tobytes()
    assert threaded.variance.tobytes() == np.tile(whole.variance, 90).tobytes()


def test_centring_finds_neighbours_that_means_would_hide() -> None:
    X = uneven(600)
    Q = X[:60] + 0.3 * np.random.default_rng(1).standard_normal((60, 24)).astype(np.float32)
    truth = bitkin.evaluate.nearest(X, Q, k=5).ids
    recall = {}
    for center in (False, "auto"):
        hasher = WTAHash(128, center=center).fit(X)
        index = bitkin.FlatIndex(hasher.spec_)
        index.add(hasher.encode(X))
        recall[center] = bitkin.evaluate.recall(index.search(hasher.encode(Q), 20).ids, truth)
    assert hasher.center_
    assert not hasher.scale_
    assert recall["auto"] > recall[False] + 0.2, recall


def bags(n: int, d: int, share: float) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(2)
    return ((rng.random((n, d)) < share) * rng.integers(1, 5, (n, d))).astype(np.float32)


def images(n: int, d: int, share: float) -> npt.NDArray[np.float32]:
    """As many zeros as bags, but some features are rarely zero and others nearly always."""
    rng = np.random.default_rng(3)
    often = np.clip(share + np.linspace(-0.6, 0.6, d), 0.02, 0.98)
    return ((rng.random((n, d)) < often) * rng.integers(1, 5, (n, d))).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "centred"),
    [
        (uneven(), True),
        (np.random.default_rng(0).standard_normal((100, 9)), True),
        (uneven(9), False),
        (bags(200, 60, 0.9), True),
        (bags(200, 60, 0.5), False),
        (images(200, 60, 0.5), True),
        (images(200, 60, 0.3), True),
        (bags(200, 60, 0.05), False),
        (images(200, 60, 0.5) * (np.arange(60) < 6), False),
        (np.ones((50, 8)), False),
        (np.zeros((50, 8)), False),
        (uneven().astype(np.float64) * 1e300, False),
    ],
    ids=[
        *("uneven", "normal", "few rows", "full bags", "bags", "images", "sparse images"),
        *("sparse bags", "nearly all zeros", "constant", "zeros", "too large"),
    ],
)
def test_auto_decides_by_the_values_and_not_by_the_form(rows: Any, centred: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dense = WTAHash(16).fit(rows)
        sparse = WTAHash(16).fit(scipy.sparse.csr_array(rows))
        pieces = WTAHash(16).fit(open_vectors(rows, batch_rows=7))
        single = WTAHash(16).fit(open_vectors(iter([rows[:9], rows[9:]])))
    assert (dense.center_, dense.scale_) == (centred, False)
    assert dense.fingerprint_ == sparse.fingerprint_ == pieces.fingerprint_ == single.fingerprint_
    assert dense.encode(rows) == sparse.encode(scipy.sparse.csr_array(rows))


def test_wide_rows_are_never_centred_unless_asked() -> None:
    d = AUTOMATIC_FEATURES + 1
    rows = scipy.sparse.csr_array(np.tile(np.arange(1.0, d + 1, dtype=np.float32), (33, 1)))
    assert not WTAHash(4).fit(rows).center_
    assert not WTAHash(4, scale=True).fit(rows).center_
    assert WTAHash(4).fit(rows[:, : d - 1] * np.linspace(1, 2, d - 1)[::-1]).n_features_in_ == d - 1


def test_the_centre_is_the_mean_and_the_factor_one_over_the_deviation() -> None:
    X = uneven().astype(np.float64)
    X[:, 5] = 7
    for center, scale in itertools.product([False, True], repeat=2):
        hasher = WTAHash(64, center=center, scale=scale).fit(X)
        z = (X - X.mean(axis=0) * center) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1) ** scale
        truth = WTAHash(64, center=False).fit(z)
        agreement = (hasher.transform(X) == truth.transform(z)).mean()
        assert agreement > 0.9999
        assert (hasher.center_, hasher.scale_) == (center, scale)


def test_scaling_makes_units_irrelevant() -> None:
    X = uneven()
    units = 2.0 ** np.random.default_rng(0).integers(-30, 30, 24)
    hasher = WTAHash(64, scale=True).fit(X)
    assert WTAHash(64, scale=True).fit(X * units).transform(X * units).tolist() == (
        hasher.transform(X).tolist()
    )
    assert WTAHash(64).fit(X * units).scale_
    assert not WTAHash(64, center=False).fit(X * units).scale_
    assert not WTAHash(64, scale=False).fit(X * units).scale_


def test_sparse_rows_stay_sparse_when_they_are_only_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    X = bags(50, 40, 0.1)
    hasher = WTAHash(32, scale=True, center=False).fit(X)
    sparse = scipy.sparse.csr_array(X)
    monkeypatch.setattr(type(sparse), "toarray", None)
    assert hasher.encode(sparse) == hasher.encode(X)


def test_a_window_of_features_that_never_vary_is_empty_once_centred() -> None:
    X = uneven(100, 40)
    X[:, 4:] = 3
    hasher = WTAHash(60, 4, center=True).fit(X)
    winners = hasher._windows.features[0].reshape(60, 4)
    assert hasher.empty_share_ == (winners >= 4).all(axis=1).mean() > 0.3
    assert hasher.densify_ == "optimal"
    assert not hasher.encode(X).empty_rows().any()
    with pytest.warns(UserWarning, match="center=True leaves nothing of rows that are all the"):
        fitted = WTAHash(8, center=True).fit(np.ones((3, 8)))
    assert fitted.encode(np.ones((1, 8))).empty_rows().all()
    assert not fitted.encode(np.arange(8.0)[None]).empty_rows().any()


def test_a_row_of_zeros_has_nothing_to_hash_wherever_the_centre_is() -> None:
    X = uneven()
    X[[0, 7]] = 0
    hasher = WTAHash(16).fit(X)
    assert hasher.center_
    for rows in (X, scipy.sparse.csr_array(X)):
        assert np.flatnonzero(hasher.encode(rows).empty_rows()).tolist() == [0, 7]


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_products_of_centred_rows_are_of_numbers_that_are_not_negative(degree: int) -> None:
    X = uneven() - 10
    for scale in (False, True):
        hasher = WTAHash(256, degree=degree, scale=scale).fit(X)
        assert hasher.center_
        z = hasher._standardizer.apply_into(X, np.empty(X.shape))
        assert z.min() == pytest.approx(0, abs=1e-5)
        assert z.min() >= -1e-12
        middle = X.mean(axis=0)
        opposite = 2 * middle - X[:40]
        agreement = (hasher.transform(X[:40]) == hasher.transform(opposite)).mean()
        assert agreement < 0.3


def test_an_even_degree_of_negative_numbers_is_warned_about() -> None:
    X = uneven() - 10
    with pytest.warns(UserWarning, match="degree=2 is even, and X has negative numbers"):
        hasher = WTAHash(32, degree=2, center=False).fit(X)
    assert np.array_equal(hasher.transform(X), hasher.transform(-X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WTAHash(32, degree=3, center=False).fit(X)
        WTAHash(32, degree=2, center=False).fit(np.abs(X))
        assert WTAHash(32, degree=2).fit(X[:10]).center_


@pytest.mark.parametrize("flag", ["center", "scale"])
def test_numbers_whose_moments_overflow_are_refused(flag: str) -> None:
    X = uneven().astype(np.float64) * 1e306
    with pytest.raises(InvalidInputError, match=rf"{flag} must be False here.* overflow float64"):
        WTAHash(8).set_params(**{flag: True}).fit(X)


def test_moments_that_do_not_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.memory.physical_memory", lambda: 10**5)
    rows = scipy.sparse.csr_array((5, 10**5))
    with pytest.raises(InvalidInputError, match=r"of 100,000 features does not fit.*center=False"):
        WTAHash(8, center=True).fit(rows)


def test_files_keep_the_centre_and_old_files_have_none(tmp_path: Path) -> None:
    X = uneven()
    for scale in (False, True):
        hasher = WTAHash(16, scale=scale).fit(X)
        hasher.save(tmp_path / "model")
        back = bitkin.load(tmp_path / "model")
        assert (back.center_, back.scale_) == (True, scale)
        assert back.fingerprint_ == hasher.fingerprint_
        assert back.encode(X) == hasher.encode(X)
    old = saved("WTAHash")
    assert (old.center, old.scale, old.center_, old.scale_) == (False, False, False, False)


@pytest.mark.parametrize(
    "tensors",
    [
        {"centre": None},
        {"factors": None},
        {"centre": np.zeros(24)},
        {"centre": np.full(24, np.nan)},
        {"centre": np.zeros(23)},
        {"centre": np.zeros(24, dtype=np.float32)},
        {"factors": np.full(24, -1.0)},
        {"factors": np.full(24, np.inf)},
        {"factors": np.zeros(24)},
    ],
    ids=str,
)
def test_a_file_with_another_centre_is_refused(tensors: dict[str, Any], tmp_path: Path) -> None:
    hasher = WTAHash(8, scale=True).fit(uneven())
    assert bitkin.load(forged(hasher, tmp_path / "good")).fingerprint_ == hasher.fingerprint_
    with pytest.raises(CorruptFileError):
        bitkin.load(forged(hasher, tmp_path / "bad", tensors=tensors))


@pytest.mark.parametrize("fewest", [0, 3, -1, 25, "3", None])
def test_a_file_with_another_number_of_nonzeros_is_refused(fewest: Any, tmp_path: Path) -> None:
    hasher = WTAHash(8).fit(uneven())
    with pytest.raises(CorruptFileError):
        bitkin.load(forged(hasher, tmp_path / "bad", fewest_nonzeros=fewest))


def lone_nonzeros(d: int) -> npt.NDArray[np.float32]:
    return np.eye(d, dtype=np.float32)


@pytest.mark.parametrize("window", [4, 5])
def test_rows_that_share_nothing_do_not_agree_after_a_fit_on_full_rows(window: int) -> None:
    d = 30
    full = np.random.default_rng(0).uniform(1, 2, (50, d)).astype(np.float32)
    for center in (False, "auto"):
        hasher = WTAHash(256, window, center=center).fit(full)
        assert (hasher.densify_, hasher.alphabet_size_) == (None, window)
        symbols = hasher.transform(lone_nonzeros(d))
        agreement = (symbols[:, None] == symbols).mean(axis=2)[~np.eye(d, dtype=bool)]
        assert hasher.center_ is (center == "auto")
        assert agreement.mean() < 1 / window + 0.05
        assert agreement.max() < 0.6
        assert np.array_equal(symbols, hasher.transform(scipy.sparse.csr_array(lone_nonzeros(d))))
    plain = WTAHash(256, window, center=False, densify=None).fit(full)
    symbols = plain.transform(lone_nonzeros(d))
    assert (symbols[0] == symbols[1]).mean() > 0.75
    assert plain.fingerprint_ != WTAHash(256, window, center=False).fit(full).fingerprint_


@pytest.mark.parametrize("degree", [1, 2])
def test_centred_windows_of_zeros_are_empty_in_rows_with_far_fewer_nonzeros(degree: int) -> None:
    X = uneven(300, 40)
    X[:, ::2] *= np.random.default_rng(1).random((300, 20)) < 0.7
    X[0, 3:] = 0
    rows = X.copy()
    rows[:4, 2:] = 0
    hasher = WTAHash(64, degree=degree, center=True).fit(X)
    zeros = WTAHash(64, degree=degree, center=True, densify=None).fit(X)
    nonzeros = np.sort(np.count_nonzero(X, axis=1))
    assert hasher._standardizer.fewest_nonzeros == nonzeros[3]  # 1 % of 300 rows
    assert zeros._standardizer.fewest_nonzeros == 0
    hollow = np.count_nonzero(rows, axis=1) < nonzeros[3]
    assert hollow[:4].all()
    seen = (rows != 0)[:, hasher._windows.features.reshape(degree, 64, 4)].any(axis=(1, 3))
    kept = seen | ~hollow[:, None]
    same = hasher.transform(rows) == zeros.transform(rows)
    assert same[kept].all()
    assert same[~kept].mean() < 0.5
    assert hasher.encode(scipy.sparse.csr_array(rows)) == hasher.encode(rows)


@pytest.mark.parametrize("center", [False, True])
def test_filling_windows_later_survives_files(center: bool, tmp_path: Path) -> None:
    hasher = WTAHash(64, center=center).fit(np.arange(30) + np.arange(1, 4)[:, None])
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.encode(lone_nonzeros(30)) == hasher.encode(lone_nonzeros(30))


@pytest.mark.parametrize(
    ("window", "alphabet"), [(2, 2), (3, 4), (4, 4), (5, 8), (16, 16), (200, 256), (300, 256)]
)
def test_densified_symbols_take_as_many_values_as_a_window_up_to_a_byte(
    window: int, alphabet: int
) -> None:
    holes = bags(20, 400, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert WTAHash(8, window, densify="optimal").fit(holes).alphabet_size_ == alphabet
        onehot = WTAHash(8, window, densify="optimal", output="onehot").fit(holes)
        rotated = WTAHash(8, window, densify="rotation").fit(holes)
        assert onehot.alphabet_size_ == rotated.alphabet_size_ == 256
        assert WTAHash(8, window, alphabet_size=7).fit(holes).alphabet_size_ == 7


@pytest.mark.parametrize(("size", "degree"), [(12, 2), (14, 3), (5, 2), (7, 3)])
def test_whole_windows_of_products_estimate_the_jaccard_of_conjunctions(
    size: int, degree: int
) -> None:
    d = 20
    rows = np.zeros((2, d))
    rows[0, :size], rows[1, d - size - 3 : d - 3] = 1, 1
    rows[1, : size // 2] = 1
    tuples = [set(itertools.product(np.flatnonzero(row), repeat=degree)) for row in rows]
    truth = len(tuples[0] & tuples[1]) / len(tuples[0] | tuples[1])
    rates = []
    for seed in range(40):
        hasher = WTAHash(500, d, degree=degree, alphabet_size=2**16, random_state=seed).fit(rows)
        a, b = hasher.transform(rows)
        rates.append((a == b).mean())
    error = np.std(rates) / len(rates) ** 0.5
    print(f"truth {truth:.4f}, estimated {np.mean(rates):.4f} ± {error:.4f}")
    assert error < 0.004
    # products of one window never share a feature in the same factor, which favours agreement a
    # little: up to 0.01, most where sets are small (0.082 for 0.076)
    assert abs(np.mean(rates) - truth) < 0.01 + 2 * error


def of_lengths(low: float, high: float) -> npt.NDArray[np.float32]:
    """Rows around a common direction, times random lengths."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 24)) + rng.standard_normal(24)
    return np.asarray(rows * rng.uniform(low, high, (400, 1)), dtype=np.float32)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_lengths_that_differ_a_lot_are_warned_of_where_auto_centres(form: Any) -> None:
    X = of_lengths(0.2, 5)
    with pytest.warns(
        UserWarning, match="very different lengths.*center=False.*center=True"
    ) as told:
        centred = WTAHash(64).fit(form(X))
    assert [warning.filename for warning in told] == [__file__]
    assert centred.center_
    plain = WTAHash(64, center=False).fit(X)
    # what it is about: neighbours by cosine are lost, those by l2 are gained
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    shares = [
        bitkin.evaluate.recall(
            np.argsort(bitkin.distances(hasher.encode(X), hasher.encode(X)), axis=1)[:, :40],
            bitkin.evaluate.nearest(rows, rows, 10).ids,
        )
        for rows in (unit, X)
        for hasher in (plain, centred)
    ]
    assert shares[0] > shares[1] + 0.05
    assert shares[2] < shares[3] - 0.05


def test_lengths_are_not_warned_of_where_they_do_no_harm_or_were_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert WTAHash(16).fit(of_lengths(0.7, 1.3)).center_
        assert WTAHash(16, center=True).fit(of_lengths(0.2, 5)).center_
        assert not WTAHash(16, center=False).fit(of_lengths(0.2, 5)).center_
        many_zeros = of_lengths(0.2, 5) * (np.random.default_rng(1).random((400, 24)) < 0.05)
        assert not WTAHash(16).fit(many_zeros).center_


def test_empty_windows_are_not_counted_in_rows_that_will_be_centred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = []
    count = WTAHash.count_empty

    def counting(hasher: WTAHash, batch: Any) -> Any:
        counted.append(batch.shape[0])
        return count(hasher, batch)

    monkeypatch.setattr(WTAHash, "count_empty", counting)
    assert WTAHash(16).fit(uneven()).center_
    assert counted == []
    # The first rows alone would be centred, all together are not: what was left out is counted.
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((600, 24)))
    X[100:] *= rng.random((500, 24)) < 0.05
    in_parts = WTAHash(16).fit(open_vectors(X, batch_rows=100))
    assert not in_parts.center_
    assert sum(counted) == 600
    counted.clear()
    read_once = WTAHash(16).fit(open_vectors(iter([X[:100], X[100:]])))
    assert counted == [100, 500]
    whole = WTAHash(16).fit(X)
    assert in_parts.empty_share_ == whole.empty_share_ == read_once.empty_share_ > 0
    assert in_parts.fingerprint_ == whole.fingerprint_ == read_once.fingerprint_
