from __future__ import annotations

import itertools
import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import bitkin
from bitkin import WTAHash
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.wta.windows import Windows
from bitkin.io import open_vectors
from bitkin.io.writer import write_file
from bitkin.kernels.blocks import read_only
from tests.hashers import wta_truth

FLAGS: st.SearchStrategy[Any] = st.sampled_from(["auto", True, False])
GOLDEN = json.loads((Path(__file__).parent / "wta_golden.json").read_text())


def sparse_rows(n: int, d: int, share: float, seed: int = 0) -> npt.NDArray[np.float64]:
    """Rows of which about `share` is not zero; few values, so that ties abound, some of them
    negative.
    """
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < share, rng.integers(-2, 4, (n, d)), 0).astype(np.float64)


def with_windows(hasher: WTAHash, windows: list[tuple[int, ...]]) -> WTAHash:
    """Put the papers' windows in place of the drawn ones."""
    held = Windows(hasher._windows.plan, False)
    held.__dict__["features"] = read_only(np.array(windows, dtype=np.uint32).reshape(1, -1))
    hasher._windows = held
    return hasher


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_codes_are_the_winners_of_windows(data: st.DataObject) -> None:
    d = data.draw(st.integers(2, 40))
    hasher = WTAHash(
        data.draw(st.sampled_from([1, 7, 8, 9, 63, 64, 65])),
        data.draw(st.sampled_from(["auto", *range(2, d + 1)])),
        degree=data.draw(st.integers(1, 4)),
        coefficients=data.draw(st.booleans()),
        densify=data.draw(st.sampled_from([None, "rotation", "optimal", "auto"])),
        alphabet_size=data.draw(st.sampled_from([None, 2, 5, 16, 300, 70_000])),
        layout=data.draw(st.sampled_from(["partition", "independent"])),
        center=data.draw(FLAGS),
        scale=data.draw(FLAGS),
        random_state=data.draw(st.integers(0, 2**64 - 1)),
    )
    X = sparse_rows(
        data.draw(st.integers(1, 5)), d, data.draw(st.sampled_from([0.02, 0.1, 0.5, 1.0])), d
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        hasher.fit(X)
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        dense, sparse = hasher.encode(rows), hasher.encode(scipy.sparse.csr_array(rows))
        assert dense == sparse
        for row, code, empty in zip(
            rows, dense.symbols().tolist(), dense.empty_rows(), strict=True
        ):
            truth = wta_truth.symbols(row, hasher)
            assert empty == (truth is None)
            assert code == (truth or [0] * len(code))


@pytest.mark.parametrize("layout", ["partition", "independent"])
@pytest.mark.parametrize("window", [2, 3, 50, 99, 100])
def test_windows_hold_different_features_and_never_straddle_permutations(
    layout: str, window: int
) -> None:
    hasher = WTAHash(300, window, layout=layout, degree=2).fit(np.ones((1, 100)))
    for factor in hasher._windows.features.reshape(2, 300, window):
        assert factor.max() < 100
        assert all(len(set(features.tolist())) == window for features in factor)
        if layout == "partition":
            whole = 100 // window
            for start in range(0, 300, whole):
                features = factor[start : start + whole].reshape(-1)
                assert len(set(features.tolist())) == len(features)


def test_figure_1_of_the_wta_paper() -> None:
    rows = np.array(
        [(10, 5, 2, 6, 12, 3), (4, 5, 10, 2, 3, 1), (22, 12, 6, 14, 26, 8), (9, 6, 1, 5, 13, 4)]
    )
    hasher = with_windows(WTAHash(1, 4).fit(rows), [(1, 4, 2, 5)])
    assert hasher.transform(rows).ravel().tolist() == [1, 2, 1, 1]


def test_figure_1_of_the_dwta_paper() -> None:
    rows = np.array([(10, 12, 9, 23), (8, 9, 1, 12), (9, 2, 6, 1), (3, 5, 1, 7)])
    hasher = with_windows(WTAHash(1, 3).fit(rows), [(3, 0, 1)])
    assert (hasher.transform(rows).ravel() + 1).tolist() == [1, 1, 2, 1]


def test_figures_2_and_3_of_the_dwta_paper() -> None:
    rows = np.array([(0, 0, 5, 0, 0, 7, 6, 0, 0), (0, 0, 1, 0, 0, 0, 0, 0, 0)])
    windows = [(2, 1, 8), (5, 3, 9), (6, 2, 4), (8, 9, 1), (1, 7, 3), (2, 4, 5)]
    zero_based = [tuple(feature - 1 for feature in window) for window in windows]
    plain = with_windows(WTAHash(6, 3, densify=None).fit(rows), zero_based).transform(rows) + 1
    assert plain.tolist() == [[1, 2, 1, 1, 2, 1], [1, 2, 1, 1, 3, 1]]
    hasher = with_windows(
        WTAHash(6, 3, densify="rotation", alphabet_size=256).fit(rows), zero_based
    )
    C = int(hasher._donors.offsets[1])
    assert C > 3
    assert C % 2 == 1
    codes = hasher.transform(rows).astype(int) + 1
    assert codes.tolist() == [
        [2 + C, 2, 1, 2 + C, 2, 2 + 2 * C],
        [2 + C, 2, 3 + 2 * C, 3 + C, 3, 2 + 2 * C],
    ]
    assert (codes[0] == codes[1]).sum() == 3


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: json.dumps(case["parameters"]))
def test_golden_codes(case: dict[str, Any]) -> None:
    X = golden_rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        codes = WTAHash(**case["parameters"]).fit(X).encode(X)
    assert [row.tobytes().hex() for row in codes.to_bytes()] == case["codes"]


def golden_rows() -> npt.NDArray[np.float32]:
    """Rows that need no random numbers: from dense to one nonzero."""
    X = (np.arange(8 * 60).reshape(8, 60) * 7919 % 101 - 30).astype(np.float32)
    for r in range(8):
        X[r, np.arange(60) * 37 % 61 >= 60 // (r + 1)] = 0
    return X


def hashers(n: int, *args: Any, **kwargs: Any) -> list[WTAHash]:
    """Independent hashers with the same parameters."""
    return [WTAHash(*args, random_state=seed, **kwargs) for seed in range(n)]


def collision_rates(
    x: npt.ArrayLike, y: npt.ArrayLike, among: list[WTAHash]
) -> npt.NDArray[np.float64]:
    """The share of equal symbols by each hasher."""
    rows = np.array([x, y])
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for hasher in among:
            a, b = hasher.fit(rows).transform(rows)
            rates.append((a == b).mean())
    return np.array(rates)


def assert_mean(rates: npt.NDArray[np.float64], expected: float) -> None:
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    assert abs(rates.mean() - expected) <= 4 * error, (
        f"{rates.mean():.4f} ± {error:.4f}, expected {expected:.4f}"
    )


@pytest.mark.parametrize("layout", ["partition", "independent"])
@pytest.mark.parametrize("window", [2, 4, 9, 20])
def test_collisions_are_as_frequent_as_equation_6_says(window: int, layout: str) -> None:
    rng = np.random.default_rng(window)
    x = rng.permutation(20)
    y = x + rng.normal(0, 4, 20)
    rates = collision_rates(x, y, hashers(200, 60, window, layout=layout, densify=None))
    assert_mean(rates, bitkin.theory.wta_similarity(x, y, window))


@pytest.mark.parametrize("densify", ["rotation", "optimal"])
def test_collisions_of_densified_codes_follow_the_good_kernel(densify: str) -> None:
    x, y = sparse_pair(12)
    many = hashers(400, 200, 3, densify=densify, layout="independent", alphabet_size=2**20)
    assert_mean(collision_rates(x, y, many), bitkin.theory.good_kernel(x, y, 3))


@pytest.mark.parametrize("densify", ["rotation", "optimal"])
def test_both_layouts_of_densified_codes_agree_from_48_features_on(densify: str) -> None:
    x, y = sparse_pair(48)
    partition, independent = (
        collision_rates(
            x, y, hashers(200, 960, 4, densify=densify, layout=layout, alphabet_size=2**20)
        )
        for layout in ("partition", "independent")
    )
    error = np.sqrt((partition.var(ddof=1) + independent.var(ddof=1)) / 200)
    assert abs(partition.mean() - independent.mean()) < 0.005 + 2 * error
    assert error < 0.003


def sparse_pair(d: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Two nonnegative vectors without ties among nonzeros, a quarter filled, half of that
    shared.
    """
    rng = np.random.default_rng(d)
    x, y = np.zeros(d), np.zeros(d)
    filled = d // 4
    x[:filled] = rng.permutation(filled) + 1
    y[filled // 2 : filled // 2 + filled] = rng.permutation(filled) + 1
    return x, y


@pytest.mark.parametrize("method", ["partition", "independent"])
def test_binary_rows_and_whole_windows_collide_like_minhash(method: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 30)) < 0.4
    jaccard = (x & y).sum() / (x | y).sum()
    rates = collision_rates(x.astype(float), y.astype(float), hashers(200, 64, 30, layout=method))
    assert_mean(rates, jaccard)


@pytest.mark.parametrize("coefficients", [False, True])
def test_products_collide_as_often_as_all_their_windows(coefficients: bool) -> None:
    x, y = np.array([3.0, -1.0, 2.0, 0.5]), np.array([2.0, -3.0, 1.0, 2.5])
    tuples = list(itertools.permutations(range(4), 3))
    equal = 0
    for first, second in itertools.product(tuples, tuples):
        weight = np.sqrt(np.where(np.equal(first, second), 1.0, 2.0)) if coefficients else 1.0
        winners = [(v[list(first)] * v[list(second)] * weight).argmax() for v in (x, y)]
        equal += winners[0] == winners[1]
    rates = collision_rates(
        x, y, hashers(200, 60, 3, degree=2, coefficients=coefficients, layout="independent")
    )
    assert_mean(rates, equal / len(tuples) ** 2)


def test_optimal_densification_varies_less_than_rotation_on_very_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = np.zeros((2, 2000))
    both = rng.permutation(2000)
    x[both[:30]] = rng.random(30)
    y[both[10:40]] = x[both[10:40]]
    y[both[30:40]] = rng.random(10)
    spread = {
        scheme: collision_rates(x, y, hashers(300, 256, 7, densify=scheme)).var()
        for scheme in ("rotation", "optimal")
    }
    print(spread)
    assert spread["optimal"] < 0.8 * spread["rotation"]


def test_order_alone_decides() -> None:
    X = np.random.default_rng(0).standard_normal((50, 30))
    hasher = WTAHash(100, center=False).fit(X)
    for same in (5 * X + 3, np.exp(X), X.argsort(axis=1).argsort(axis=1) + 1):
        assert hasher.encode(same) == hasher.encode(X)


def test_special_rows_have_a_defined_code() -> None:
    rows = np.zeros((6, 24))
    rows[1] = 7
    rows[2, 5] = 2
    rows[3] = -np.arange(24.0)
    rows[4] = -1
    rows[4, 3] = 0
    for densify in (None, "rotation", "optimal"):
        hasher = WTAHash(32, 4, densify=densify).fit(rows)
        codes = hasher.encode(rows)
        assert codes.empty_rows().tolist() == [True, False, False, False, False, True]
        assert not codes.symbols()[[0, 5]].any()
        assert not codes.symbols()[1].any()
        assert bitkin.distances(codes, codes)[0, 0] == 32
    for same in (np.float16, np.float32, np.int8, np.int64):
        assert hasher.encode(rows.astype(same)) == codes
    counts = np.abs(rows)
    assert hasher.encode(counts.astype(np.uint8)) == hasher.encode(counts)


def test_negative_numbers_leave_the_first_zero_the_winner_however_far_back() -> None:
    d = 200
    hasher = WTAHash(40, d, densify=None, alphabet_size=d).fit(np.ones((1, d)))
    for n_negative in (1, 2, 63, 64, 65, 130, 199, 200):
        row = np.zeros((1, d))
        order = hasher._windows.features.reshape(40, d)[0]
        row[0, order[:n_negative]] = -np.arange(1.0, n_negative + 1)
        sparse = scipy.sparse.csr_array(row)
        assert hasher.transform(sparse)[0, 0] == (n_negative if n_negative < d else 0)
        assert hasher.encode(sparse) == hasher.encode(row)


def test_explicit_zeros_and_the_order_of_entries_do_not_matter() -> None:
    X = sparse_rows(30, 50, 0.2)
    hasher = WTAHash(64, 5).fit(X)
    stored = scipy.sparse.csr_array(X)
    shuffled = scipy.sparse.csr_array(
        (stored.data[::-1].copy(), stored.indices[::-1].copy(), stored.nnz - stored.indptr[::-1]),
        shape=X.shape,
    )
    everywhere = (
        np.where(X == 0, -0.0, X).reshape(-1),
        np.tile(np.arange(50), 30),
        np.arange(31) * 50,
    )
    zeros = scipy.sparse.csr_array(everywhere, shape=X.shape)
    assert hasher.encode(shuffled) == hasher.encode(X[::-1])
    assert hasher.encode(zeros) == hasher.encode(X)


@pytest.mark.parametrize("degree", [3, 5, 64])
def test_products_beyond_float64_are_the_same_for_sparse_and_dense_rows(degree: int) -> None:
    rng = np.random.default_rng(degree)
    rows = rng.choice([0.0, 1e200, -1e200, 2.0, 1e-150], (30, 12))
    for layout in ("partition", "independent"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            hasher = WTAHash(40, 4, degree=degree, layout=layout, densify="rotation").fit(rows)
        codes = hasher.encode(rows)
        assert hasher.encode(scipy.sparse.csr_array(rows)) == codes
        for row, code, empty in zip(
            rows, codes.symbols().tolist(), codes.empty_rows(), strict=True
        ):
            truth = wta_truth.symbols(row, hasher)
            assert empty == (truth is None)
            assert code == (truth or [0] * 40)


def test_large_integers_are_told_apart() -> None:
    rows = np.array([[2**24, 2**24 + 1, 2**24 + 2, 0], [2**31 - 3, 2**31 - 2, 2**31 - 1, 0]])
    for dtype in (np.int32, np.uint32, np.int64, np.uint64, np.float64):
        hasher = WTAHash(30, 3, densify=None).fit(rows.astype(dtype))
        assert hasher.transform(rows.astype(dtype)).tolist() == [
            wta_truth.symbols(row, hasher) for row in rows
        ]


def test_products_do_not_overflow_in_float32() -> None:
    rows = np.array([[1e30, 1e25, 1e-30, 3e29]], dtype=np.float32)
    hasher = WTAHash(50, 3, degree=3, densify=None).fit(rows)
    assert hasher.transform(rows)[0].tolist() == wta_truth.symbols(rows[0], hasher)


def test_auto_decides_on_densification_by_the_fitted_rows() -> None:
    full, holes = np.ones((3, 20)), np.eye(20)
    assert WTAHash(16).fit(full).densify_ is None
    assert WTAHash(16).fit(full).alphabet_size_ == 4
    fitted = WTAHash(16).fit(holes)
    assert (fitted.densify_, fitted.alphabet_size_, fitted.spec_.bits_per_symbol) == (
        "optimal",
        4,
        2,
    )
    assert WTAHash(16).fit(scipy.sparse.csr_array(holes)).fingerprint_ == fitted.fingerprint_
    assert WTAHash(16).fit(np.vstack([full, 0 * full])).densify_ == "optimal"
    assert WTAHash(16, alphabet_size=5, densify="rotation").fit(full).spec_.bits_per_symbol == 3


def test_without_empty_windows_densified_codes_are_plain_codes() -> None:
    X = np.random.default_rng(0).standard_normal((50, 30))
    plain = WTAHash(70, densify=None).fit(X).transform(X)
    for densify in ("rotation", "optimal"):
        assert np.array_equal(WTAHash(70, densify=densify).fit(X).transform(X), plain)


def test_the_automatic_window_leaves_a_moderate_share_empty() -> None:
    for share in (0.001, 0.01, 0.05, 0.3, 1.0):
        X = np.abs(sparse_rows(100, 10_000, share))
        hasher = WTAHash(50, "auto").fit(X)
        assert 4 <= hasher.window_ <= 200
        assert hasher.empty_share_ < 0.3 or hasher.window_ == 200
        if hasher.window_ > 4 and share > 0.001:
            assert WTAHash(50, hasher.window_ // 2).fit(X).empty_share_ > 0.3
    assert WTAHash(8, "auto").fit(np.eye(3)).window_ == 3


def test_a_window_that_leaves_nearly_all_empty_is_warned_about() -> None:
    X = np.abs(sparse_rows(50, 20_000, 0.005))
    with pytest.warns(
        UserWarning,
        match=r"window=4 leaves 9\d\.\d% of windows empty.* window=\d+ would leave about \d",
    ):
        WTAHash(64, 4).fit(X)
    with pytest.warns(UserWarning, match="No window would do for so many hashes"):
        WTAHash(2000, 4).fit(np.eye(4000)[:5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WTAHash(64, "auto").fit(X)


def test_rows_without_any_filled_window_are_warned_about_too() -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_array(
        (np.ones(2000), rng.integers(0, 10**6, 2000), np.arange(201) * 10), shape=(200, 10**6)
    )
    with pytest.warns(
        UserWarning, match=r"leaves 100.0% of windows empty, 100% of rows get no code at all"
    ):
        hasher = WTAHash(8, 4).fit(X)
    assert hasher.empty_share_ == 1.0
    assert hasher.encode(X).empty_rows().all()
    with pytest.warns(UserWarning, match="All fitted rows are zeros"):
        assert WTAHash(8, 4).fit(np.zeros((3, 10))).encode(np.zeros((3, 10))).empty_rows().all()


def test_onehot_features_train_a_linear_model() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 30))
    X[:, 0] += 6 * y
    X[-1] = 0
    model = make_pipeline(WTAHash(200, output="onehot"), LinearSVC()).fit(X[:200], y[:200])
    assert model.score(X[200:-1], y[200:-1]) > 0.9
    hasher = model[0]
    features = hasher.transform(X)
    assert scipy.sparse.issparse(features)
    assert features.format == "csr"
    assert features.shape == (400, 200 * hasher.alphabet_size_)
    assert len(hasher.get_feature_names_out()) == features.shape[1]
    assert features.sum(axis=1).tolist() == [200.0] * 399 + [0.0]
    columns = features[:399].indices.reshape(399, 200) - np.arange(200) * hasher.alphabet_size_
    assert np.array_equal(columns, WTAHash(200).fit(X[:200]).transform(X)[:399])
    assert hasher.transform(X[:0]).shape == (0, features.shape[1])


def test_an_iterator_fits_where_one_pass_is_enough() -> None:
    X = np.abs(sparse_rows(100, 40, 0.3))
    assert (
        WTAHash(16).fit(open_vectors(iter([X[:33], X[33:]]))).fingerprint_
        == WTAHash(16).fit(X).fingerprint_
    )
    with pytest.raises(InvalidInputError, match="window='auto' reads rows twice"):
        WTAHash(16, "auto").fit(open_vectors(iter([X[:33], X[33:]])))


def test_the_given_parameters_and_what_became_of_them_are_kept_in_files(tmp_path: Path) -> None:
    X = np.abs(sparse_rows(100, 400, 0.1))
    hasher = WTAHash(16, "auto").fit(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.get_params() == hasher.get_params()
    for name in (
        "window_",
        "densify_",
        "alphabet_size_",
        "empty_share_",
        "seed_",
        "n_features_in_",
    ):
        assert getattr(back, name) == getattr(hasher, name)
    assert (tmp_path / "model").stat().st_size < 2000


def test_whatever_changes_codes_changes_the_fingerprint() -> None:
    X = np.abs(sparse_rows(20, 60, 0.2)) + np.eye(20, 60)
    base: dict[str, Any] = {
        "n_hashes": 16,
        "window": 5,
        "degree": 3,
        "densify": "optimal",
        "alphabet_size": 256,
    }
    changes: list[dict[str, Any]] = [
        *(
            {"n_hashes": 17},
            {"window": 6},
            {"degree": 2},
            {"coefficients": True},
            {"densify": "rotation"},
        ),
        *(
            {"densify": None},
            {"alphabet_size": 255},
            {"layout": "independent"},
            {"random_state": 1},
        ),
        *({"center": True}, {"scale": True}, {"center": True, "scale": True}),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        prints = {WTAHash(**{**base, **change}).fit(X).fingerprint_ for change in [{}, *changes]}
    assert len(prints) == len(changes) + 1


def test_threads_share_one_drawing_of_a_loaded_hasher(tmp_path: Path) -> None:
    X = np.abs(sparse_rows(300, 500, 0.05))
    hasher = WTAHash(64, "auto").fit(X)
    codes = hasher.encode(X)
    hasher.save(tmp_path / "model")
    for back in (bitkin.load(tmp_path / "model"), pickle.loads(pickle.dumps(hasher))):
        drawn: list[int] = []
        plan = type(back._windows.plan)
        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
            draw = plan.features
            patch.setattr(
                plan, "features", lambda self, draw=draw, drawn=drawn: drawn.append(1) or draw(self)
            )
            rows = [X, scipy.sparse.csr_array(X)] * 8
            assert all(found == codes for found in pool.map(back.encode, rows))
        assert len(drawn) == 1


def forged(hasher: WTAHash, path: Path, **changes: Any) -> Path:
    """A file that is whole and signed, and says something else."""
    parameters = {
        "given": hasher._given,
        "seed": hasher.seed_,
        "n_features": hasher.n_features_in_,
        "window": hasher.window_,
        "densify": hasher.densify_,
        "filler": hasher._donors.densify,
        "alphabet_size": hasher.alphabet_size_,
        "empty_share": hasher.empty_share_,
        "fewest_nonzeros": hasher._standardizer.fewest_nonzeros,
    }
    tensors = {**hasher._standardizer.arrays(), **changes.pop("tensors", {})}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    write_file(path, "WTAHash", {**parameters, **changes}, hasher.fingerprint_, tensors)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"given": None},
        {"given": {"n_hashes": 8}},
        {"seed": 1},
        {"seed": -1},
        {"seed": 10**400},
        {"n_features": 1},
        {"n_features": 2**40},
        {"n_features": 21},
        {"window": 1},
        {"window": 5},
        {"window": 21},
        {"window": "auto"},
        {"densify": "left"},
        {"densify": "rotation"},
        {"alphabet_size": 1},
        {"alphabet_size": 5},
        {"filler": None},
        {"filler": "rotation"},
        {"filler": ["optimal"]},
        {"tensors": {"centre": np.zeros(20)}},
        {"tensors": {"surplus": np.zeros(20)}},
        {"empty_share": 2},
        {"empty_share": "half"},
    ],
    ids=str,
)
def test_a_file_that_contradicts_itself_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    hasher = WTAHash(8, 4).fit(np.arange(60.0).reshape(3, 20))
    assert bitkin.load(forged(hasher, tmp_path / "good")).fingerprint_ == hasher.fingerprint_
    with pytest.raises(CorruptFileError):
        bitkin.load(forged(hasher, tmp_path / "bad", **changes))


@pytest.mark.parametrize(
    "change",
    [
        {"n_hashes": 0},
        {"n_hashes": 2**40},
        {"window": 2**40},
        {"degree": 10**9},
        {"layout": 3},
        {"output": None},
    ],
    ids=str,
)
def test_given_parameters_of_a_file_are_checked(change: dict[str, Any], tmp_path: Path) -> None:
    hasher = WTAHash(8, 4).fit(np.arange(60.0).reshape(3, 20))
    with pytest.raises(CorruptFileError, match="parameters"):
        bitkin.load(forged(hasher, tmp_path / "bad", given={**hasher._given, **change}))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": 1}, "window must be at least 2, got 1"),
        ({"window": 2.5}, "window must be a whole number, got 2.5"),
        ({"window": "large"}, "window must be a whole number or 'auto', got 'large'"),
        ({"n_hashes": 0}, "n_hashes must be between 1 and"),
        ({"degree": 0}, "degree must be between 1 and 64, got 0"),
        ({"coefficients": 1}, "coefficients must be True or False, got 1"),
        ({"densify": "left"}, "densify must be 'auto', 'rotation', 'optimal' or None, got 'left'"),
        ({"densify": False}, "'optimal' or None, got False"),
        ({"alphabet_size": 1}, "alphabet_size must be between 2 and"),
        ({"center": 1}, "center must be True, False or 'auto', got 1"),
        ({"scale": "yes"}, "scale must be True, False or 'auto', got 'yes'"),
        ({"center": np.ones(2)}, "center must be True, False or 'auto', got array"),
        ({"layout": "rows"}, "layout must be one of 'partition', 'independent', got 'rows'"),
        ({"output": "bits"}, "output must be one of 'symbols', 'onehot', got 'bits'"),
        ({"random_state": "a"}, "random_state must be a whole number"),
        ({"n_hashes": 2**24 + 1}, "n_hashes must be between 1 and 16777216"),
    ],
)
def test_bad_parameters_are_named_with_their_value(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        WTAHash(**parameters).fit(np.ones((3, 10)))


def test_a_window_beyond_the_features_has_all_of_them(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.warns(UserWarning, match="window=4 is more than the 3 features of X") as told:
        hasher = WTAHash(8, 4).fit(X)
    assert len(told) == 1
    assert hasher.window_ == 3
    assert hasher.encode(X) == WTAHash(8, 3).fit(X).encode(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert (back.window, back.window_) == (4, 3)
    assert back.encode(X) == hasher.encode(X)


def test_a_single_feature_cannot_be_compared() -> None:
    with pytest.raises(
        InvalidInputError, match=r"at least 2 features to compare, got 1 feature\(s\)"
    ):
        WTAHash(window=2).fit(np.ones((3, 1)))
