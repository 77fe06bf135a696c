from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.writer import write_file


def random_hash(n_bits: int, **parameters: Any) -> ProjectionHash:
    """Random projections without a rotation, which take any number of bits."""
    return ProjectionHash(n_bits, **({"projection": "random", "rotation": None} | parameters))


@pytest.mark.parametrize("degrees", [5, 30, 60, 90, 120, 170])
def test_a_bit_collides_with_probability_one_minus_the_angle_over_pi(degrees: float) -> None:
    angle = np.deg2rad(degrees)
    rng = np.random.default_rng(int(degrees))
    a, b = np.linalg.qr(rng.standard_normal((40, 2)))[0].T
    pair = np.stack([a, np.cos(angle) * a + np.sin(angle) * b])
    n_bits = 40_000
    bits = random_hash(n_bits, center=False).fit(pair).transform(pair)
    expected = 1 - angle / np.pi
    error = np.sqrt(expected * (1 - expected) / n_bits)
    assert abs((bits[0] == bits[1]).mean() - expected) < 4 * error


def test_golden_codes() -> None:
    X = (np.arange(60).reshape(5, 12) * 7919 % 101 - 50).astype(np.float32)
    codes = random_hash(n_bits=72, random_state=1).fit(X).encode(X)
    assert [row.tobytes().hex() for row in codes.to_bytes()] == [
        "3ed5bd39ea15be14ba",
        "379a7e80858914146c",
        "c168b27616ff68a155",
        "d168c3d602ff68a147",
        "c0b708add902834bb3",
    ]


def test_codes_are_signs_of_projections_with_zero_as_plus() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6))
    hasher = random_hash(n_bits=70).fit(X)
    assert np.array_equal(hasher.transform(X), hasher.project(X) >= 0)
    assert hasher.project(X).dtype == np.float32
    zero = random_hash(n_bits=70, center=False).fit(X).transform(np.zeros((1, 6)))
    assert zero.all()


def test_projection_is_the_centred_product() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6)) + 3
    hasher = random_hash(n_bits=9).fit(X)
    assert hasher.mean_ is not None
    assert np.allclose(hasher.mean_, X.mean(axis=0))
    assert np.allclose(hasher.project(X), (X - X.mean(axis=0)) @ hasher.components_, atol=1e-4)
    assert np.array_equal(hasher.components_ * 65536, np.rint(hasher.components_ * 65536))


def test_without_centring_scale_does_not_matter_and_with_normalizing_neither() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6))
    plain = random_hash(n_bits=64, center=False).fit(X)
    assert plain.encode(X) == plain.encode(8.0 * X)
    unit = random_hash(n_bits=64, normalize=True).fit(X)
    assert unit.encode(X) == unit.encode(8.0 * X)
    truth = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.allclose(unit.project(X), (truth - truth.mean(axis=0)) @ unit.components_, atol=1e-5)
    assert np.allclose(unit.project(scipy.sparse.csr_matrix(X)), unit.project(X), atol=1e-5)


def test_the_sum_of_features_may_be_far_from_zero_in_a_sparse_matrix() -> None:
    X = scipy.sparse.random(400, 1000, density=0.02, format="csr", random_state=0)
    hasher = random_hash(n_bits=128).fit(X)
    differ = hasher.transform(X) != hasher.transform(X.toarray())
    lengths = np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    small = np.abs(hasher.project(X.toarray())) < 1e-5 * lengths
    assert not (differ & ~small).any()


def test_fingerprints_tell_models_apart() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6))
    models = [
        random_hash(8).fit(X),
        random_hash(9).fit(X),
        random_hash(8, random_state=1).fit(X),
        random_hash(8, center=False).fit(X),
        random_hash(8, center=False, normalize=True).fit(X),
        random_hash(8).fit(X + 1),
    ]
    assert len({model.fingerprint_ for model in models}) == len(models)
    assert random_hash(8, projection=bitkin.projections.RandomProjection()).fit(X).fingerprint_ == (
        models[0].fingerprint_
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_bits": 0}, "n_bits must be between 1"),
        ({"n_bits": 2.5}, "n_bits must be a whole number, got 2.5"),
        (
            {"projection": "rndm"},
            "projection must be 'pca', 'nystrom', 'random', 'opast', 'frequent-directions' or a "
            "Projection object, got 'rndm'",
        ),
        ({"projection": None}, "projection must be"),
        (
            {"rotation": "twist"},
            "rotation must be 'auto', 'itq', 'unifdiag', 'isohash', 'random', None or a Rotation "
            "object, got 'twist'",
        ),
        ({"center": "yes"}, "center must be True or False, got 'yes'"),
        ({"normalize": 1}, "normalize must be True or False, got 1"),
        ({"random_state": 1.5}, "random_state must be"),
    ],
)
def test_bad_parameters_are_named_by_fit(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ProjectionHash(**parameters).fit(np.eye(3))


def test_numbers_too_large_for_float32_are_named() -> None:
    X = np.ones((4, 3))
    hasher = random_hash(8).fit(X)
    X[2, 1] = 1e300
    with pytest.raises(
        InvalidInputError, match=r"must fit float32, got 1e\+300 at row 2, column 1"
    ):
        hasher.encode(X)
    with pytest.raises(InvalidInputError, match="Scale the data down"):
        hasher.encode(np.full((2, 3), 3e38, dtype=np.float32))


def test_impossible_models_are_refused(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((50, 6))
    hasher = random_hash(8).fit(X)
    hasher.save(tmp_path / "model")
    good: dict[str, Any] = {
        "n_bits": 8,
        "projection": {"class": "RandomProjection", "parameters": {}},
        "rotation": None,
        "center": True,
        "normalize": False,
        "random_state": 0,
        "seed": 0,
    }
    tensors = {"components": hasher.components_, "mean": hasher.mean_}

    def refused(words: str, fingerprint: str | None = hasher.fingerprint_, **changes: Any) -> None:
        parts: Any = {name: changes.pop(name, tensor) for name, tensor in tensors.items()}
        parts = {name: tensor for name, tensor in parts.items() if tensor is not None}
        write_file(tmp_path / "bad", "ProjectionHash", good | changes, fingerprint, parts)
        with pytest.raises(CorruptFileError, match=words):
            bitkin.load(tmp_path / "bad")

    refused("does not know", projection={"class": "os.system", "parameters": {}})
    refused("does not know", projection={"class": "RandomProjection", "parameters": {"evil": 1}})
    refused("does not know", projection=7)
    refused("does not know", rotation={"class": "RandomProjection", "parameters": {}})
    refused("has a tensor components", n_bits=9)
    refused("has a tensor components", n_bits="8")
    refused("impossible parameters", normalize="yes")
    refused("impossible parameters", seed=-3)
    refused("impossible parameters", seed=None)
    refused("impossible parameters", random_state=1.5)
    refused("not finite", mean=np.full(6, np.nan))
    refused("not finite", mean=np.full(6, 1e300))
    refused("not finite", components=np.full((6, 8), np.nan, dtype=np.float32))
    refused("do not fit its parameters", center=False)
    refused("do not fit its parameters", mean=None)
    refused("does not fit its fingerprint", fingerprint="0" * 32)
    refused("does not fit its fingerprint", fingerprint=None)
    refused("does not fit its fingerprint", components=hasher.components_ + 1)
    refused("has a tensor mean", mean=np.zeros(5))
    write_file(tmp_path / "bad", "ProjectionHash", good, hasher.fingerprint_, tensors)  # type: ignore[arg-type]
    assert bitkin.load(tmp_path / "bad").encode(X) == hasher.encode(X)


@pytest.mark.parametrize("scale", [1e-42, 1e-25, 1e-10, 1e20, 1e35])
def test_normalizing_works_at_every_scale_dense_and_sparse(scale: float) -> None:
    X = np.random.default_rng(0).standard_normal((300, 6))
    hasher = random_hash(n_bits=64, normalize=True, center=False).fit(X)
    scaled = (X * scale).astype(np.float32)
    truth = scaled.astype(np.float64) / np.linalg.norm(
        scaled.astype(np.float64), axis=1, keepdims=True
    )
    assert np.allclose(hasher.project(scaled), truth @ hasher.components_, atol=1e-5)
    assert np.allclose(
        hasher.project(scipy.sparse.csr_matrix(scaled)), truth @ hasher.components_, atol=1e-5
    )


def test_what_cannot_fit_in_memory_is_refused_before_it_is_drawn() -> None:
    with pytest.raises(
        InvalidInputError,
        match=r"n_bits=2000000000 and 8 features does not fit in memory.*fewer bits",
    ):
        random_hash(2_000_000_000).fit(np.eye(8))
    with pytest.raises(InvalidInputError, match="smaller numbers"):
        random_hash(64).fit(np.full((3, 11), 3e38, dtype=np.float32))


def test_only_our_own_projections_are_saved(tmp_path: Path) -> None:
    class Mine(bitkin.projections.RandomProjection):
        pass

    hasher = random_hash(8, projection=Mine()).fit(np.eye(3))
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        hasher.save(tmp_path / "model")
    random_hash(8, normalize=np.bool_(True)).fit(np.eye(3)).save(tmp_path / "model")
    assert bitkin.load(tmp_path / "model").normalize is True


def test_the_first_bad_row_is_named_whatever_the_threads_do() -> None:
    X = np.zeros((9000, 4))
    hasher = random_hash(256).fit(X)
    X[[1000, 8000], 2] = np.nan
    for _ in range(20):
        with pytest.raises(InvalidInputError, match="NaN at row 1000, column 2"):
            hasher.encode(X)


def test_the_loss_of_itq_falls_turn_by_turn_and_is_kept() -> None:
    X = np.random.default_rng(0).standard_normal((500, 12)) * np.geomspace(5, 0.5, 12)
    hasher = ProjectionHash(n_bits=8, rotation="itq").fit(X)
    assert 1 < len(hasher.rotation_losses_) <= 50
    assert (np.diff(hasher.rotation_losses_) <= 1e-9 * hasher.rotation_losses_[0]).all()
    assert len(ProjectionHash(n_bits=8, rotation=None).fit(X).rotation_losses_) == 0
