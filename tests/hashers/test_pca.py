"""PCA: the right directions, whatever the form, the batches and the threads; and clear errors where
there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import ProjectionHash, memory, threads
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection import registry
from bitkin.hashers.projection.given import hasher_from_directions
from bitkin.hashers.projection.projections import PCA
from bitkin.hashers.projection.rotations import ITQ, IsoHash, Projected, UnifDiag
from bitkin.hashers.projection.statistics import RowSample, spectra
from bitkin.io import open_vectors
from bitkin.io.writer import write_file
from bitkin.randomness import Draws
from tests.hashers.sources import CountingSource, bags, decaying, largest_angle, once, training
from tests.memory import peak_of


def pca(n_bits: int, **parameters: Any) -> ProjectionHash:
    return ProjectionHash(n_bits, **({"projection": "pca", "rotation": None} | parameters))


def principal(X: Any, k: int, center: bool = True) -> npt.NDArray[np.float64]:
    wide = (X.toarray() if scipy.sparse.issparse(X) else X).astype(np.float64)
    wide = wide - wide.mean(axis=0) * center
    with threads.blas_in_one_thread():
        directions: npt.NDArray[np.float64] = np.linalg.eigh(wide.T @ wide)[1][:, ::-1][:, :k]
    return directions


@pytest.mark.parametrize(
    ("n", "d"), [(500, 40), (41, 40), (40, 40), (39, 40), (30, 200), (900, 410)]
)
@pytest.mark.parametrize("center", [True, False])
def test_directions_are_the_principal_ones_on_either_side(n: int, d: int, center: bool) -> None:
    X = decaying(n, d)
    truth = principal(X, 8, center)
    for rows in (X, scipy.sparse.csr_array(X)):
        found = pca(8, center=center).fit(rows)
        assert largest_angle(found.components_, truth) < 1e-5
        agree = np.abs(np.einsum("ij,ij->j", found.components_, truth))
        assert np.allclose(agree, 1.0, atol=1e-5)  # one by one, largest first
        assert np.allclose(found.components_.T @ found.components_, np.eye(8), atol=1e-6)


def test_it_is_scikit_learns_pca() -> None:
    X = decaying(700, 50)
    theirs = sklearn.decomposition.PCA(12).fit(X.astype(np.float64))
    ours = pca(12).fit(X)
    assert largest_angle(ours.components_, theirs.components_.T) < 1e-6
    assert np.allclose(
        np.abs(ours.project(X)), np.abs(theirs.transform(X.astype(np.float64))), atol=1e-5
    )
    assert ours.mean_ is not None
    assert np.allclose(ours.mean_, theirs.mean_, atol=1e-6)


def test_signs_are_settled_by_the_largest_entry() -> None:
    components = pca(8).fit(decaying(300, 20)).components_
    assert (components[np.abs(components).argmax(axis=0), np.arange(8)] > 0).all()
    assert np.array_equal(
        spectra.fix_signs(-components.astype(np.float64)), components.astype(np.float64)
    )


@pytest.mark.parametrize("rotation", [None, "itq", "unifdiag", "isohash", "random"])
@pytest.mark.parametrize("solver", ["exact", "randomized"])
@pytest.mark.parametrize(("n", "d"), [(3000, 30), (60, 90)])
def test_any_batches_give_one_model_to_the_bit(
    rotation: str | None, solver: str, n: int, d: int
) -> None:
    X = decaying(n, d)
    hashers = [pca(8, rotation=rotation, projection=PCA(solver)) for _ in range(3)]
    whole = hashers[0].fit(X)
    for hasher, batch_rows in zip(hashers[1:], (7, 1000), strict=True):
        assert hasher.fit(open_vectors(X, batch_rows=batch_rows)).fingerprint_ == whole.fingerprint_


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, 2500), max_size=5), sparse=st.booleans(), wide=st.booleans())
def test_an_iterator_is_read_once_for_the_same_model(
    cuts: list[int], sparse: bool, wide: bool
) -> None:
    X: Any = decaying(100, 130) if wide else decaying(2500, 20)
    X = scipy.sparse.csr_array(X) if sparse else X
    cuts = sorted(min(cut, X.shape[0]) for cut in cuts)
    stored = ProjectionHash(6).fit(X)
    streamed = ProjectionHash(6).fit(open_vectors(once(X, *cuts)))
    assert streamed.fingerprint_ == stored.fingerprint_


def test_rows_are_read_once_and_the_rotation_s_sample_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS", 500)
    X = decaying(1000, 20)
    source = CountingSource(X)
    few = ITQ(max_rows=500)
    hasher = ProjectionHash(6, rotation=few).fit(source)
    assert source.passes == 1
    assert len(source.gathered) == len(set(source.gathered)) == 500
    assert (
        hasher.fingerprint_
        == ProjectionHash(6, rotation=few).fit(open_vectors(once(X, 17, 500))).fingerprint_
    )
    source = CountingSource(X)
    ProjectionHash(6, rotation="random").fit(source)
    assert (source.passes, source.gathered) == (1, [])


def test_of_dense_rows_a_rotation_sees_no_more_than_memory_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = decaying(1000, 20)
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_BYTES", 500 * 20 * 4)
    source = CountingSource(X)
    of_500 = ProjectionHash(6, rotation="itq").fit(source)
    assert len(source.gathered) == 500
    assert (
        of_500.fingerprint_
        == ProjectionHash(6, rotation="itq").fit(open_vectors(once(X, 17, 500))).fingerprint_
    )
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_BYTES", 0)
    source = CountingSource(X)
    ProjectionHash(6, rotation="itq").fit(source)
    assert len(source.gathered) == 64 * 6


@pytest.mark.parametrize("solver", ["exact", "randomized"])
@pytest.mark.parametrize("density", [0.5, 0.01])
def test_sparse_rows_and_their_dense_copy_give_one_model(solver: str, density: float) -> None:
    rng = np.random.default_rng(0)
    X = (decaying(4000, 60) * (rng.random((4000, 60)) < density)).astype(np.float32)
    dense = ProjectionHash(6, projection=PCA(solver)).fit(X)
    sparse = ProjectionHash(6, projection=PCA(solver)).fit(scipy.sparse.csr_array(X))
    assert dense.fingerprint_ == sparse.fingerprint_


def test_the_number_of_threads_changes_no_bit(few_threads: None) -> None:
    X = decaying(2000, 450)
    fingerprints = set()
    for n_threads in (1, 2, 3):
        bitkin.set_threads(n_threads)
        for solver in ("exact", "randomized"):
            fingerprints.add(
                (solver, ProjectionHash(16, projection=PCA(solver)).fit(X).fingerprint_)
            )
        fingerprints.add(("few rows", ProjectionHash(16).fit(X[:400]).fingerprint_))
    assert len(fingerprints) == 3


def test_randomized_directions_capture_nearly_all_that_exact_ones_do() -> None:
    X = decaying(3000, 300)
    apart = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)

    def captured(hasher: ProjectionHash) -> float:
        return float(np.square(apart @ hasher.components_).sum())

    exact = captured(pca(32).fit(X))
    assert captured(pca(32, projection=PCA("randomized")).fit(X)) > 0.9999 * exact
    in_one_pass = pca(32, projection=PCA("randomized")).fit(open_vectors(once(X, 100)))
    assert captured(in_one_pass) > 0.98 * exact
    everything = pca(20, projection=PCA("randomized")).fit(X[:, :20])
    assert largest_angle(everything.components_, np.eye(20)) < 1e-6


@pytest.mark.parametrize("shape", [(700, 500), (500, 700)])
@pytest.mark.parametrize("center", [True, False])
def test_lanczos_finds_the_same_directions(
    shape: tuple[int, int], center: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = bags(*shape)
    dense = pca(10, center=center).fit(X)
    monkeypatch.setattr("bitkin.hashers.projection.statistics.spectra.DENSE_SIDE", 100)
    monkeypatch.setattr("bitkin.hashers.projection.projections.pca.MOST_SPARSE_FEATURES", 100)
    by_lanczos = pca(10, center=center).fit(X)
    assert np.allclose(np.abs(by_lanczos.components_), np.abs(dense.components_), atol=1e-5)
    assert (
        pca(10, center=center).fit(open_vectors(once(X, 30, 400))).fingerprint_
        == by_lanczos.fingerprint_
    )
    same = scipy.sparse.csr_array(np.ones((300, 200)))
    with pytest.raises(InvalidInputError, match="vary along 0 directions"):
        pca(10).fit(same)


@pytest.mark.parametrize("solver", ["exact", "randomized"])
def test_a_hundred_thousand_sparse_features_take_little_memory(solver: str) -> None:
    X = bags(600, 100_000)
    hasher = ProjectionHash(16, projection=PCA(solver))
    # what dense rows alone would take; a covariance, 80 GB
    assert peak_of(lambda: hasher.fit(X)) < 240e6
    seen = X @ hasher.components_.astype(np.float64)
    seen -= seen.mean(axis=0)
    gram = (X.astype(np.float64) @ X.T.astype(np.float64)).toarray()
    # of the centred rows
    gram += gram.mean() - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True)
    best = np.linalg.eigvalsh(gram)[-16:].sum()
    assert np.square(seen).sum() > (0.9999 if solver == "exact" else 0.97) * best


def test_constant_and_repeated_columns_cost_nothing() -> None:
    X = decaying(500, 12)
    padded = np.hstack([np.full((500, 3), 0.1, dtype=np.float32), X])
    for rows in (padded, scipy.sparse.csr_array(padded)):
        hasher = pca(12).fit(rows)
        assert np.abs(hasher.components_[:3]).max() < 1e-6
        with pytest.warns(UserWarning, match="n_bits=13 is more than the 12 directions along"):
            assert np.abs(pca(13).fit(rows).components_[:3]).max() < 1e-6
    with pytest.warns(UserWarning, match=r"more than the 12 .*Ask for n_bits=12"):
        pca(13).fit(np.hstack([X, X]))


@pytest.mark.parametrize("solver", ["exact", "randomized"])
def test_data_that_gives_too_few_directions_is_told(solver: str) -> None:
    X = decaying(100, 12)
    few = pca(10, projection=PCA(solver))
    for found, hasher, rows in (
        (12, pca(13, projection=PCA(solver)), X),
        (9, few, X[:10]),
        (9, few, open_vectors(once(X[:10], 3))),
        (3, few, np.repeat(X[:4], 30, axis=0)),
    ):
        with pytest.warns(UserWarning, match=f"more than the {found} directions") as told:
            hasher.fit(rows)
        assert len(told) == 1
        assert told[0].filename == __file__
    with pytest.raises(InvalidInputError, match="vary along 0 directions"):
        few.fit(np.ones((50, 12)))
    with pytest.raises(InvalidInputError, match="n_samples = 1 rows that vary along 0 directions"):
        few.fit(np.ones((1, 12)))
    with pytest.raises(InvalidInputError, match="a mean far larger than the spread"):
        few.fit((X / np.linalg.norm(X, axis=1, keepdims=True) + 10**9).astype(np.float32))
    pca(10, center=False, projection=PCA(solver)).fit(X[:10])
    ProjectionHash(500, projection="random", rotation=None).fit(X)


@pytest.mark.parametrize("power", [-100, -33, 33, 100])
def test_scale_does_not_matter(power: int) -> None:
    X = decaying(300, 20)
    scaled = np.ldexp(X, power)  # no number is rounded
    assert largest_angle(pca(8).fit(scaled).components_, principal(X, 8)) < 1e-4
    for rotation in (None, "itq", "unifdiag", "isohash"):
        hasher = pca(8, rotation=rotation)
        assert np.array_equal(hasher.fit(X).transform(X), hasher.fit(scaled).transform(scaled))


@pytest.mark.parametrize(
    "rotation", [UnifDiag(), UnifDiag("random"), IsoHash(), IsoHash(tolerance=1e-10)], ids=repr
)
@pytest.mark.parametrize(
    "kind", ["tall", "wide", "sparse", "sparse and wide", "not centred", "far away"]
)
def test_variances_are_equal_over_all_rows_and_no_sample_is_read(
    rotation: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS", 10)
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS_PER_BIT", 1)
    monkeypatch.setattr("bitkin.hashers.projection.projections.pca.MOST_SPARSE_FEATURES", 300)
    made: dict[str, Callable[[], Any]] = {
        "tall": lambda: decaying(5000, 40),
        "wide": lambda: decaying(150, 200),
        "sparse": lambda: bags(1000, 200),
        "sparse and wide": lambda: bags(1000, 400),
        "not centred": lambda: decaying(5000, 40),
        "far away": lambda: decaying(5000, 40) + np.float32(10),
    }
    X = made[kind]()
    source = CountingSource(X)
    hasher = pca(16, rotation=rotation, center=kind != "not centred").fit(source)
    assert (source.passes, source.gathered) == (1, [])
    seen = hasher.project(X).astype(np.float64)
    variances = np.square(seen).mean(axis=0)
    tolerance = getattr(rotation, "tolerance", 0.0)
    assert np.allclose(
        variances, variances.mean(), rtol=tolerance + (1e-4 if kind == "far away" else 2e-6)
    )


def test_a_sample_of_other_projections_still_serves_their_rotations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS", 500)
    source = CountingSource(decaying(2000, 40))
    pca(6, rotation="unifdiag", projection=PCA("randomized")).fit(source)
    assert len(source.gathered) == 500


@pytest.mark.parametrize(
    "solver, rotation, n_kept",
    [
        ("exact", "unifdiag", 0),
        ("exact", "isohash", 0),
        ("exact", "random", 0),
        ("exact", None, 0),
        ("exact", "itq", 2000),
        ("randomized", "unifdiag", 2000),
    ],
)
def test_of_an_iterator_no_row_is_kept_for_a_rotation_that_will_not_look(
    solver: str, rotation: str | None, n_kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, kept = decaying(2000, 40), []
    update = RowSample.update

    def counting(self: RowSample, first: int, rows: Any) -> RowSample:
        kept.append(len(rows))
        return update(self, first, rows)

    monkeypatch.setattr(RowSample, "update", counting)
    hasher = pca(6, rotation=rotation, projection=PCA(solver))
    hasher.fit(open_vectors(once(X, 700, 1400), name="rows"))
    assert sum(kept) == n_kept
    if solver == "exact":
        assert np.array_equal(hasher.components_, hasher.fit(X).components_)


@pytest.mark.parametrize("solver", ["exact", "randomized"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_statistics_of_two_halves_merge_into_the_model_of_all_rows(
    solver: str, center: bool, sparse: bool
) -> None:
    X: Any = decaying(3000, 40)
    X = scipy.sparse.csr_array(X) if sparse else X
    projection = PCA(solver)
    parts = [
        projection.statistics(40, 8, Draws(0, "projection")).update(part)
        for part in (X[:1100], X[1100:])
    ]
    merged = projection.from_statistics(parts[0].merge(parts[1]), 8, center=center)  # type: ignore[arg-type]
    whole = projection.statistics(40, 8, Draws(0, "projection")).update(X)
    assert np.array_equal(
        merged.directions, projection.from_statistics(whole, 8, center=center).directions
    )
    # a single pass, as here
    learned = projection.learn(training(once(X), center), 8, Draws(0, "projection"))
    assert largest_angle(merged.directions, learned.directions) < 1e-6
    for rotation in (None, "unifdiag", "itq"):
        hasher = pca(8, projection=projection, center=center, rotation=rotation).fit(
            open_vectors(once(X))
        )
        directions = merged.directions
        if rotation is not None:
            found = registry.rotation_for(rotation)
            assert found is not None
            data = Projected(merged.project(X), merged.covariance)
            directions = directions @ found.matrix(data, 8, Draws(0, "rotation"))
        assert hasher_from_directions(directions, merged.mean).encode(X).symbols().tolist() == (
            hasher.encode(X).symbols().tolist()
        )


def test_statistics_of_few_rows_or_features_give_as_many_directions_as_there_are() -> None:
    moments = PCA().statistics(12, 8, Draws(0, "projection")).update(decaying(8, 12))
    assert PCA().from_statistics(moments, 8, center=True).directions.shape == (12, 7)
    assert PCA().from_statistics(moments, 8, center=False).directions.shape == (12, 8)
    moments.update(decaying(30, 12, seed=1))
    assert PCA().from_statistics(moments, 13, center=True).directions.shape == (12, 12)
    with pytest.raises(InvalidInputError, match="solver must be"):
        PCA("quick").statistics(12, 8, Draws(0, "projection"))


def test_unit_rows_are_projected_as_unit_rows() -> None:
    X = decaying(300, 20)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    hasher = pca(6, normalize=True).fit(X)
    assert largest_angle(hasher.components_, principal(unit, 6)) < 1e-5
    assert np.allclose(
        hasher.project(X), (unit - unit.mean(axis=0)) @ hasher.components_, atol=1e-5
    )


def test_what_is_beyond_memory_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "physical_memory", lambda: 24 * 40 * 40 - 1)
    X = decaying(50, 40)
    with pytest.raises(
        InvalidInputError, match=r"PCA of 40 features does not fit.*PCA\(solver='randomized'\)"
    ):
        pca(4).fit(X)
    with pytest.raises(InvalidInputError, match=r"PCA of 40 features does not fit"):
        PCA().statistics(40, 4, Draws(0, "projection"))
    pca(4).fit(X[:39])
    pca(4, projection=PCA("randomized")).fit(X)


@pytest.mark.parametrize("rotation", [ITQ(2), UnifDiag(), IsoHash()], ids=repr)
def test_a_rotation_beyond_memory_is_refused_before_a_row_is_read(
    rotation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = CountingSource(decaying(50, 40))
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 * rotation.n_matrices * 39 * 39 - 1)
    with pytest.raises(InvalidInputError, match="A rotation of 39 bits does not fit in memory"):
        pca(39, rotation=rotation).fit(source)
    assert source.passes == 0


def test_wide_sparse_rows_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X = bags(200, 5000)
    monkeypatch.setattr(memory, "physical_memory", lambda: 24 * 200 * 200 - 1)
    with pytest.raises(
        InvalidInputError, match=r"inner products of 200 rows does not fit.*solver='randomized'"
    ):
        pca(4).fit(X)
    # about 24,000 numbers, and their columns
    monkeypatch.setattr(memory, "physical_memory", lambda: 200_000)
    with pytest.raises(
        InvalidInputError, match=r"PCA of so many rows of 5,000 features does not fit"
    ):
        pca(1).fit(open_vectors(bags(800, 5000), batch_rows=50))


def test_parameters_are_checked_by_fit_and_in_files(tmp_path: Path) -> None:
    X = decaying(50, 6)
    with pytest.raises(
        InvalidInputError, match="solver must be one of 'exact', 'randomized', got 'quick'"
    ):
        pca(4, projection=PCA("quick")).fit(X)
    hasher = pca(4, projection=PCA("randomized"), rotation="itq").fit(X)
    hasher.save(tmp_path / "model")
    back = bitkin.load(tmp_path / "model")
    assert back.encode(X) == hasher.encode(X)
    assert back.projection.solver == "randomized"
    assert back.fit(X).fingerprint_ == hasher.fingerprint_
    parameters = {
        "n_bits": 4,
        "projection": {"class": "PCA", "parameters": {"solver": "quick"}},
        "rotation": None,
        "center": True,
        "normalize": False,
        "random_state": 0,
        "seed": 0,
    }
    tensors = {"components": hasher.components_, "mean": hasher.mean_}
    write_file(tmp_path / "bad", "ProjectionHash", parameters, hasher.fingerprint_, tensors)  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError, match="does not know"):
        bitkin.load(tmp_path / "bad")
