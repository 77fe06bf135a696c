"""Nystrom: PCA's directions from a sample, and nothing read beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin import ProjectionHash, memory
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.given import hasher_from_directions
from bitkin.hashers.projection.projections import Nystrom, RandomProjection, sampling
from bitkin.hashers.projection.statistics.row_sample import sample_row_numbers
from bitkin.io import open_vectors
from bitkin.io.vectors.files.mapped import is_whole_map
from bitkin.randomness import Draws
from tests.hashers.sources import CountingSource, bags, decaying, largest_angle, once, training
from tests.memory import peak_of


def nystrom(
    n_bits: int, *arguments: Any, rotation: str | None = None, center: bool = True, **rest: Any
) -> Any:
    return ProjectionHash(
        n_bits, projection=Nystrom(*arguments, **rest), rotation=rotation, center=center
    )


def captured(X: npt.NDArray[Any], components: npt.NDArray[Any]) -> float:
    apart = X - X.mean(axis=0, dtype=np.float64)
    return float(np.square(apart @ components).sum() / np.square(apart).sum())


def chosen_rows(
    n: int, size: int | float, seed: int = 0, at_least: int = 0
) -> npt.NDArray[np.int64]:
    return sample_row_numbers(n, int(Draws(seed, "rows").words(1)[0]), size, at_least)


def paper(
    C: npt.NDArray[np.float64], features: npt.NDArray[np.int64], n: int, k: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Algorithm 1 up to Û and the singular values of W, for C features × samples, centred and not
    yet scaled.
    """
    m, c = C.shape
    C = C * np.sqrt(n / c)
    W = C[features] * np.sqrt(m / len(features))
    values, right = np.linalg.svd(W, full_matrices=False)[1:]
    return C @ right[:k].T / values[:k], values


@pytest.mark.parametrize(("n", "d"), [(500, 40), (50, 120)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("orthonormalize", [True, False])
def test_all_rows_and_features_give_pca(n: int, d: int, center: bool, orthonormalize: bool) -> None:
    X = decaying(n, d)
    truth = ProjectionHash(8, rotation=None, center=center).fit(X).components_
    for rows in (X, scipy.sparse.csr_array(X)):
        found = (
            nystrom(8, 1.0, 1.0, center=center, orthonormalize=orthonormalize).fit(rows).components_
        )
        assert largest_angle(found, truth) < 1e-5
        assert np.allclose(found, truth, atol=1e-5)
        assert np.allclose(nystrom(8, n, d, center=center).fit(rows).components_, truth, atol=1e-5)


@pytest.mark.parametrize("features", [60, 25])
def test_raw_directions_are_those_of_the_paper_s_algorithm(features: int) -> None:
    X = decaying(900, 60)
    hasher = nystrom(8, 40, features, orthonormalize=False).fit(X)
    rows = X[chosen_rows(900, 40)].astype(np.float64)
    picked = np.sort(Draws(0, "projection").choice(60, features))
    raw, _ = paper((rows - rows.mean(axis=0)).T, picked, 900, 8)
    agree = np.abs(np.einsum("ij,ij->j", raw, hasher.components_)) / np.square(raw).sum(axis=0)
    assert np.allclose(agree, 1.0, atol=1e-5)
    assert np.allclose(
        np.linalg.norm(hasher.components_, axis=0), np.linalg.norm(raw, axis=0), rtol=1e-5
    )
    straight = nystrom(8, 40, features).fit(X).components_
    apart = rows - rows.mean(axis=0)
    assert largest_angle(straight, apart.T @ (apart @ raw)) < 1e-5  # one step of subspace iteration
    assert np.allclose(straight.T @ straight, np.eye(8), atol=1e-6)
    assert np.allclose(hasher.mean_, rows.mean(axis=0), atol=1e-6)


def test_only_the_sample_is_read() -> None:
    X = decaying(3000, 40)
    for size, count in ((0.05, 150), (77, 77)):
        source = CountingSource(X)
        nystrom(8, size).fit(source)
        assert source.passes == 0
        assert source.gathered == chosen_rows(3000, size).tolist()
        assert len(source.gathered) == count
        source = CountingSource(X)
        nystrom(8, size, rotation="random").fit(source)
        assert len(source.gathered) == count
        source = CountingSource(X)
        nystrom(8, size, rotation="itq").fit(source)
        # the rotation's own sample: all rows, being few
        assert (source.passes, len(source.gathered)) == (1, count)


def test_a_bad_row_outside_the_sample_is_met_in_memory_only(tmp_path: Path) -> None:
    X = decaying(3000, 40)
    bad = int(np.setdiff1d(np.arange(3000), chosen_rows(3000, 0.05))[100])
    X[bad, 3] = np.nan
    np.save(tmp_path / "x.npy", X)
    hasher = nystrom(8).fit(open_vectors(tmp_path / "x.npy"))
    assert (
        hasher.fit(np.load(tmp_path / "x.npy", mmap_mode="r")).fingerprint_ == hasher.fingerprint_
    )
    with pytest.raises(InvalidInputError, match=f"NaN at row {bad}, column 3"):
        nystrom(8).fit(X)
    X[chosen_rows(3000, 0.05)[7], 5] = np.inf
    with pytest.raises(
        InvalidInputError, match=f"infinity at row {chosen_rows(3000, 0.05)[7]}, column 5"
    ):
        nystrom(8).fit(open_vectors(X))
    wide = X.astype(np.float64)
    wide[chosen_rows(3000, 0.05)[7], 5] = 1e300
    with pytest.raises(
        InvalidInputError, match=rf"1e\+300 at row {chosen_rows(3000, 0.05)[7]}, column 5"
    ):
        nystrom(8).fit(open_vectors(wide))


def test_a_memory_map_is_read_by_plain_reads_and_a_part_of_one_as_an_array(tmp_path: Path) -> None:
    X = decaying(3000, 40)
    np.save(tmp_path / "x.npy", X)
    X.astype(">f8").tofile(tmp_path / "raw")
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    other = np.memmap(tmp_path / "raw", dtype=">f8", mode="r", shape=(2990, 40), offset=10 * 40 * 8)
    for hasher in (nystrom(8, rotation="itq"), ProjectionHash(8)):
        whole = hasher.fit(X).fingerprint_
        assert hasher.fit(mapped).fingerprint_ == whole
        shorter = hasher.fit(X[10:]).fingerprint_
        assert hasher.fit(mapped[10:]).fingerprint_ == shorter
        assert hasher.fit(other).fingerprint_ == shorter
        assert hasher.fit(np.load(tmp_path / "x.npy", mmap_mode="c")).fingerprint_ == whole
        assert hasher.fit(np.asfortranarray(mapped)).fingerprint_ == whole
    assert is_whole_map(mapped)
    assert is_whole_map(other)
    assert not any(
        map(
            is_whole_map,
            (X, mapped[10:], mapped[:, :5], mapped.T, np.load(tmp_path / "x.npy", mmap_mode="c")),
        )
    )
    (tmp_path / "raw").unlink()
    assert not is_whole_map(other)
    assert hasher.fit(other).fingerprint_ == shorter


@pytest.mark.parametrize("size", [0.05, 1.0, 200])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rotation", [None, "itq"])
def test_an_iterator_gives_the_model_of_the_array(
    size: int | float, sparse: bool, rotation: str | None
) -> None:
    X: Any = decaying(3000, 30)
    X = scipy.sparse.csr_array(X) if sparse else X
    stored = nystrom(8, size, 0.5, rotation=rotation).fit(X)
    streamed = nystrom(8, size, 0.5, rotation=rotation).fit(open_vectors(once(X, 1, 40, 2000)))
    assert streamed.fingerprint_ == stored.fingerprint_
    assert nystrom(8, size, 0.5, rotation=rotation).fit(
        open_vectors(X, batch_rows=7)
    ).fingerprint_ == (stored.fingerprint_)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "projection", [Nystrom(0.2, 0.5, sampling="norms"), "random"], ids=["norms", "random"]
)
def test_any_batches_give_one_model_to_the_bit(projection: Any, sparse: bool) -> None:
    X: Any = decaying(3000, 30) * np.float32(1e3) + np.float32(0.1)
    X = scipy.sparse.csr_array(X) if sparse else X
    hashers = [ProjectionHash(8, projection=projection, rotation=None) for _ in range(3)]
    models = [
        hasher.fit(open_vectors(X, batch_rows=n))
        for hasher, n in zip(hashers, (7, 64, 3000), strict=True)
    ]
    assert len({model.fingerprint_ for model in models}) == 1
    assert len({training(X, batch_rows=n).mean_of_all().mean.tobytes() for n in (7, 64, 3000)}) == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [0.1, 200])
@pytest.mark.parametrize("center", [True, False])
def test_samples_of_two_halves_merge_into_the_model_of_all_rows(
    sparse: bool, size: int | float, center: bool
) -> None:
    X: Any = decaying(3000, 30)
    X = scipy.sparse.csr_array(X) if sparse else X
    vectors, projection = training(X, center), Nystrom(size, 0.5)
    late, early = (projection.statistics(8, center=center, key=vectors.key) for _ in range(2))
    merged = late.update(1100, X[1100:]).merge(early.update(0, X[:1100]))
    learned = projection.from_statistics(merged, 8, center=center, draws=Draws(0, "projection"))
    whole = projection.learn(vectors, 8, Draws(0, "projection"))
    assert np.array_equal(learned.directions, whole.directions)
    assert np.array_equal(learned.row_numbers, whole.row_numbers)
    hasher = hasher_from_directions(learned.directions, learned.mean)
    assert np.array_equal(
        hasher.transform(X), nystrom(8, size, 0.5, center=center).fit(X).transform(X)
    )


def test_means_of_two_halves_merge_into_the_random_projection_of_all_rows() -> None:
    X = decaying(3000, 30)
    projection = RandomProjection()
    merged = (
        projection.statistics(30).update(X[:1100]).merge(projection.statistics(30).update(X[1100:]))
    )
    learned = projection.from_statistics(merged, 70, center=True, draws=Draws(0, "projection"))
    whole = ProjectionHash(70, projection=projection, rotation=None).fit(X)
    assert hasher_from_directions(learned.directions, learned.mean).encode(X).words.tolist() == (
        whole.encode(X).words.tolist()
    )
    assert (
        projection.from_statistics(merged, 3, center=False, draws=Draws(0, "projection")).mean
        is None
    )


def test_statistics_of_a_sample_are_checked_as_a_fit_is() -> None:
    X = decaying(30, 12)
    with pytest.raises(
        InvalidInputError,
        match=r"sampling='norms' reads rows more than once\. Use sampling='uniform'",
    ):
        Nystrom(sampling="norms").statistics(4, center=True, key=1)
    sample = Nystrom(20).statistics(4, center=True, key=1).update(0, X)
    draws = Draws(0, "projection")
    found = Nystrom(20).from_statistics(sample, 13, center=True, draws=draws)
    assert found.directions.shape == (12, 12)
    few = Nystrom(20).statistics(4, center=True, key=1).update(0, X[:4])
    found = Nystrom(20).from_statistics(few, 4, center=True, draws=draws)
    assert found.directions.shape == (12, 3)


@pytest.mark.parametrize("sampling", ["uniform", "norms"])
def test_a_share_of_many_rows_is_capped_and_a_count_is_not(
    sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.projections.sampling._MOST_ROWS", 100)
    X, draws = decaying(900, 60), Draws(0, "projection")
    for samples, bits, rows in ((0.5, 2, 100), (0.5, 8, 256), (0.05, 2, 45), (500, 2, 500)):
        found = Nystrom(samples, 25, sampling).learn(training(X), bits, draws)
        assert len(found.row_numbers) == rows
    if sampling == "uniform":
        half = Nystrom(0.5, 25)
        sample = half.statistics(2, center=True, key=training(X).key)
        for first in (400, 0):  # in any order, in pieces
            sample.update(first, X[first : first + (500 if first else 400)])
        again = half.from_statistics(sample, 2, center=True, draws=Draws(0, "projection"))
        learned = half.learn(training(X), 2, Draws(0, "projection"))
        assert np.array_equal(again.row_numbers, learned.row_numbers)
        assert np.array_equal(again.directions, learned.directions)


def test_what_was_sampled_is_told() -> None:
    X = decaying(900, 60)
    learned = Nystrom(40, 25).learn(training(X), 8, Draws(0, "projection"))
    assert np.array_equal(learned.row_numbers, chosen_rows(900, 40))
    assert np.array_equal(learned.features, np.sort(Draws(0, "projection").choice(60, 25)))
    assert learned.mean is not None
    assert np.allclose(learned.mean, X[learned.row_numbers].mean(axis=0), atol=1e-6)
    by_norms = Nystrom(40, 25, sampling="norms").learn(training(X), 8, Draws(0, "projection"))
    assert (len(by_norms.row_numbers), len(by_norms.features)) == (40, 25)
    constant = np.hstack([X[:, :8], np.zeros((900, 52), dtype=np.float32)])
    everything = Nystrom(40, 25).learn(training(constant), 8, Draws(0, "projection"))
    # the sampled ones vary along too few directions
    assert np.array_equal(everything.features, np.arange(60))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("way", ["uniform", "norms"])
def test_a_sample_beyond_memory_is_refused(
    sparse: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X: Any = decaying(500, 120)
    rows = scipy.sparse.csr_array(X) if sparse else X
    words = (
        "inner products of 100 rows does not fit"
        if sparse
        else "sample of 100 rows of 120 features does not fit"
    )
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 * 100 * 120 - 1)
    source = CountingSource(rows)
    with pytest.raises(InvalidInputError, match=words + r".*fewer samples"):
        nystrom(8, 100, 1.0, sampling=way).fit(source)
    assert bool(source.gathered) == sparse  # how large sparse rows are shows when they are read
    nystrom(8, 60, 0.5, sampling=way).fit(rows)


def test_what_counts_as_visible_does_not_depend_on_how_rows_are_sampled() -> None:
    """Rows drawn by norms are long ones: their mean of squares says nothing about all rows."""
    X = decaying(2000, 30)
    X[:3] *= 300
    vectors = training(X)
    sample = sampling.rows_by_norms(vectors, 100, 8, Draws(0, "projection"))
    assert np.isclose(
        sample.mean_square, np.square(X.astype(np.float64)).sum(axis=1).mean(), rtol=1e-9
    )
    drawn = np.square(sample.rows.astype(np.float64)).sum(axis=1).mean()
    assert drawn > 100 * sample.mean_square
    plain = sampling.rows_by_norms(training(X, center=False), 100, 8, Draws(0, "projection"))
    assert np.isclose(plain.mean_square, sample.mean_square, rtol=1e-9)
    # Twenty of 2,000 rows are all there is: their variance along the second axis, ten times what is
    # visible among all rows, would be a tenth of it among rows as long as those drawn.
    few = np.zeros((2000, 2), dtype=np.float32)
    few[:20, 0] = np.where(np.arange(20) % 2, 1e3, -1e3)
    few[:20, 1] = 3e-3 * np.random.default_rng(0).standard_normal(20)
    assert nystrom(2, 200, 1.0, sampling="norms", center=False).fit(few).components_.shape == (2, 2)


@pytest.mark.parametrize("way", ["uniform", "norms"])
def test_threads_and_sparseness_change_nothing(way: str, few_threads: None) -> None:
    X = decaying(2000, 450)
    fingerprints = set()
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        fingerprints.add(nystrom(8, 0.1, 0.3, sampling=way, rotation="itq").fit(X).fingerprint_)
    fingerprints.add(
        nystrom(8, 0.1, 0.3, sampling=way, rotation="itq")
        .fit(scipy.sparse.csr_array(X))
        .fingerprint_
    )
    assert len(fingerprints) == 1


@pytest.mark.parametrize("way", ["uniform", "norms"])
def test_a_sample_captures_nearly_what_pca_does(way: str) -> None:
    X = decaying(8000, 200, power=0.7)
    best = captured(X, ProjectionHash(16, rotation=None).fit(X).components_)
    for seed in range(3):
        hasher = nystrom(16, 0.05, 0.3, sampling=way).set_params(random_state=seed).fit(X)
        assert captured(X, hasher.components_) > 0.9 * best


@pytest.mark.parametrize("way", ["uniform", "norms"])
def test_a_share_that_is_too_small_is_raised_with_a_word(way: str) -> None:
    X = decaying(2000, 120)
    with pytest.warns(UserWarning, match="raised to") as told:
        hasher = nystrom(64, 0.01, 0.1, sampling=way).fit(X)
    assert [str(warning.message).split(": ")[0] for warning in told] == [
        "samples=0.01 is 20 of 2,000 rows, fewer than n_bits needs",
        "features=0.1 is 12 of 120 features, fewer than n_bits needs",
    ]
    assert "raised to 65" in str(told[0].message)
    assert told[0].filename == __file__
    assert np.allclose(hasher.components_.T @ hasher.components_, np.eye(64), atol=1e-5)
    with pytest.warns(UserWarning, match="samples=20 is 20 of 2,000 rows"):
        nystrom(64, 20, 1.0, sampling=way).fit(X)
    # so few that a share of them means little: no word
    nystrom(8, 0.05, 0.3, sampling=way).fit(X[:90, :20])


def test_truncation_keeps_the_length_of_the_code() -> None:
    X = decaying(2000, 60)
    rows = X[chosen_rows(2000, 300)].astype(np.float64)
    C = (rows - rows.mean(axis=0)).T
    raw, values = paper(C, np.sort(Draws(0, "projection").choice(60, 30)), 2000, 12)
    scaled = C * np.sqrt(2000 / 300)
    norms = np.linalg.norm(scaled, 1) * np.linalg.norm(scaled, np.inf)
    gamma = float(values[4] * values[5]) / norms  # between the fifth and the sixth
    whole, cut = (
        nystrom(12, 300, 30, truncate=truncate).fit(X).components_ for truncate in (None, gamma)
    )
    assert cut.shape == (60, 12)
    assert largest_angle(cut[:, :5], C @ (C.T @ raw[:, :5])) < 1e-5
    assert np.allclose(cut.T @ cut, np.eye(12), atol=1e-6)
    assert largest_angle(cut, whole) > 0.5  # the others are random
    plain = nystrom(12, 300, 30, truncate=gamma, orthonormalize=False).fit(X).components_
    assert np.allclose(plain[:, 5:].T @ plain[:, 5:], np.eye(7), atol=1e-6)
    assert np.allclose(plain[:, 5:].T @ plain[:, :5], 0.0, atol=1e-6)
    assert np.allclose(
        np.linalg.norm(plain[:, :5], axis=0), np.linalg.norm(raw[:, :5], axis=0), rtol=1e-5
    )
    nothing_kept = nystrom(12, 300, 30, truncate=1e9).fit(X).components_
    assert np.allclose(nothing_kept.T @ nothing_kept, np.eye(12), atol=1e-6)
    everything_kept = nystrom(12, 300, 30, truncate=1e-12).fit(X).components_
    assert np.array_equal(everything_kept, whole)


def test_rows_come_by_their_squared_lengths() -> None:
    lengths = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 0.0])
    drawn, weights = sampling.draw_by_lengths(lengths, 80_000, 1, Draws(3, "test"))
    counts = np.bincount(drawn, minlength=6)
    expected = 80_000 * lengths / 8
    assert (np.abs(counts - expected) <= 4.5 * np.sqrt(expected)).all()
    assert np.allclose(weights, 1 / np.sqrt(80_000 * lengths[drawn] / 8))
    few, _ = sampling.draw_by_lengths(lengths, 1, 3, Draws(3, "test"))
    assert set(few.tolist()) == {1, 2, 4}  # goes on until three different ones have come
    all_there_are, _ = sampling.draw_by_lengths(lengths, 1, 6, Draws(3, "test"))
    assert set(all_there_are.tolist()) == {1, 2, 4}


def test_weighted_samples_stand_for_all_rows() -> None:
    X = decaying(400, 30)
    X[:10] *= 20
    apart = X - X.mean(axis=0, dtype=np.float64)
    total = np.zeros((30, 30))
    for seed in range(300):
        drawn, weights = sampling.draw_by_lengths(
            np.square(apart).sum(axis=1), 50, 1, Draws(seed, "test")
        )
        weighted = apart[drawn] * weights[:, None]
        total += weighted.T @ weighted / 300
    assert np.linalg.norm(total - apart.T @ apart) < 0.05 * np.linalg.norm(apart.T @ apart)


def test_norms_need_rows_that_can_be_read_again() -> None:
    X = decaying(300, 20)
    with pytest.raises(
        InvalidInputError, match=r"is an iterator, and sampling='norms'.*sampling='uniform'"
    ):
        nystrom(4, sampling="norms").fit(open_vectors(once(X, 100)))
    source = CountingSource(X)
    nystrom(4, sampling="norms").fit(source)
    assert source.passes == 2
    assert len(source.gathered) == 15
    with pytest.raises(InvalidInputError, match="rows that differ"):
        nystrom(4, sampling="norms").fit(np.ones((300, 20)))


@pytest.mark.parametrize("way", ["uniform", "norms"])
def test_a_hundred_thousand_sparse_features_take_little_memory(way: str) -> None:
    X = bags(1500, 100_000)
    hasher = nystrom(16, 0.1, 0.3, sampling=way, rotation="itq")
    assert peak_of(lambda: hasher.fit(X)) < 200e6  # dense rows would take 600 MB
    components = hasher.components_.astype(np.float64)
    seen = X @ components
    seen -= seen.mean(axis=0)
    exact = ProjectionHash(16, rotation=None).fit(X).components_.astype(np.float64)
    best = X @ exact
    best -= best.mean(axis=0)
    assert np.square(seen).sum() > 0.6 * np.square(best).sum()


def test_features_that_do_not_vary_are_no_obstacle() -> None:
    X = np.zeros((1000, 200), dtype=np.float32)
    X[:, :20] = decaying(1000, 20)
    hasher = nystrom(16, 0.2, 0.3).fit(X)  # 60 features, six of which vary
    assert largest_angle(hasher.components_, nystrom(16, 0.2, 1.0).fit(X).components_) < 1e-5
    with pytest.warns(UserWarning, match="n_bits=21 is more than the 20 directions"):
        nystrom(21, 0.2, 1.0).fit(X)
    with pytest.raises(InvalidInputError, match="vary along 0 directions"):
        nystrom(4, 0.2).fit(np.ones((1000, 50)))
    with pytest.warns(UserWarning, match="more than the 20 directions.*repeated columns"):
        nystrom(21).fit(X[:, :20])
    for few in (X[:16], open_vectors(once(X[:16], 3))):
        with pytest.warns(UserWarning, match="n_bits=16 is more than the 15 directions"):
            nystrom(16).fit(few)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"samples": 0.0}, "samples must be a count from 1 up, or a share.*got 0.0"),
        ({"samples": 1.5}, "samples must be a count from 1 up, or a share.*got 1.5"),
        ({"samples": True}, "samples must be a count"),
        ({"samples": "all"}, "samples must be a count"),
        ({"samples": float("nan")}, "samples must be a count"),
        ({"features": -0.1}, "features must be a count"),
        ({"features": -3}, "features must be at least 1, got -3"),
        (
            {"sampling": "nonuniform"},
            "sampling must be one of 'uniform', 'norms', got 'nonuniform'",
        ),
        ({"truncate": 0}, "truncate must be None or a number above 0"),
        ({"truncate": "γ"}, "truncate must be None or a number above 0"),
        ({"truncate": float("inf")}, "truncate must be None or a number above 0"),
        ({"orthonormalize": 1}, "orthonormalize must be True or False, got 1"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        nystrom(4, **parameters).fit(decaying(100, 10))


def test_a_saved_model_comes_back_with_its_parameters(tmp_path: Path) -> None:
    X = decaying(500, 30)
    numbers: dict[str, Any] = {
        "samples": np.float32(0.5),
        "features": np.int64(20),
        "truncate": np.float64(1e-9),
    }
    projection = Nystrom(**numbers, sampling="norms", orthonormalize=False)
    hasher = ProjectionHash(8, projection=projection, rotation="unifdiag").fit(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.encode(X) == hasher.encode(X)
    assert back.projection.get_params() == projection.get_params()
    assert back.fit(X).fingerprint_ == hasher.fingerprint_


def test_sampling_by_norms_ends_where_few_rows_or_features_hold_nearly_all() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10)).astype(np.float32)
    X[:, 0] *= 1e4
    assert ProjectionHash(4, projection=Nystrom(sampling="norms")).fit(X).components_.shape == (
        10,
        4,
    )
    rows = rng.standard_normal((3000, 16)).astype(np.float32)
    rows[0] *= 1e4
    assert ProjectionHash(8, projection=Nystrom(sampling="norms"), center=False).fit(
        rows
    ).components_.shape == (16, 8)


def test_a_map_whose_file_was_replaced_is_read_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.standard_normal((300, 8)))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    np.save(tmp_path / "b.npy", np.asarray(mapped) + 50)
    (tmp_path / "b.npy").replace(tmp_path / "a.npy")
    mean = ProjectionHash(4).fit(mapped).mean_
    assert mean is not None
    assert np.abs(mean).max() < 1
