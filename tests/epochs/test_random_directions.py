"""The estimate knows whether directions were drawn or learned, wherever a model has been."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import EpochIndex, ProjectionHash
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.given import hasher_from_directions
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.rescoring.estimate import Scorer
from tests.hashers.streams.data import live

_rng = np.random.default_rng(0)


def clustered(n: int) -> npt.NDArray[np.float32]:
    """Rows that have near neighbours, of lengths that differ."""
    centres = np.random.default_rng(1).standard_normal((60, 64))
    rows = centres[_rng.integers(0, 60, n)] + 0.4 * _rng.standard_normal((n, 64))
    return np.asarray(rows * np.exp(0.4 * _rng.standard_normal((n, 1))), dtype=np.float32)


def varied(n: int) -> npt.NDArray[np.float32]:
    """Rows that vary along some directions much more than along others."""
    return np.asarray(_rng.standard_normal((n, 64)) * np.geomspace(8, 0.3, 64), dtype=np.float32)


X, Q = clustered(1500), clustered(40)


def random_hash(n_bits: int = 16, **options: Any) -> ProjectionHash:
    return ProjectionHash(n_bits, projection="random", rotation=None, **options).fit(X)


def started() -> ProjectionHash:
    """Return the first epoch of a stream that no `fit` began: orthonormal, and drawn."""
    hasher = live(16)
    hasher.sketch(X[0])
    return hasher.epoch_


def scored(model: SignModel, rows: Any, queries: Any, *, random: bool) -> float:
    """Return the 10-in-100 recall of estimates of all rows by one of the two factors."""
    scorer = Scorer(SignModel(model.components, model.mean, model.normalize, random=random), "l2")
    codes, numbers = scorer.encode(rows, "rows")
    places = np.tile(np.arange(len(rows)), (len(queries), 1))
    scores = scorer.scores(scorer.prepare_queries(queries), codes.words[:, 0], numbers, places)
    return recall(
        np.argsort(scores, axis=1, kind="stable")[:, :100], nearest(rows, queries, 10).ids
    )


def test_drawn_orthonormal_directions_are_scored_as_drawn_ones_and_better_so() -> None:
    epoch = started()
    wide = epoch.components_.astype(np.float64)
    assert np.allclose(wide.T @ wide, np.eye(16), atol=1e-5)
    assert epoch.model_.random
    assert scored(epoch.model_, X, Q, random=True) > 1.5 * scored(epoch.model_, X, Q, random=False)
    kept = bitkin.corrections(epoch, X)
    y = epoch.project(X).astype(np.float64)
    expected = np.square(X.astype(np.float64)).sum(axis=1) / np.sqrt(
        np.abs(y).sum(axis=1) * np.linalg.norm(y, axis=1)
    )
    assert np.allclose(kept[:, 1], expected, rtol=1e-5)


def test_principal_directions_are_scored_as_such_and_better_so() -> None:
    rows, queries = varied(1500), varied(40)
    hasher = live(16).fit(rows).epoch_
    assert not hasher.model_.random
    right, wrong = (scored(hasher.model_, rows, queries, random=random) for random in (False, True))
    assert right > wrong + 0.01


def test_a_snapshot_of_a_random_projection_is_scored_as_the_hasher_itself() -> None:
    hasher = random_hash()
    snapshot = hasher.snapshot()
    assert repr(snapshot.projection) == "Given(random=True)"
    assert np.array_equal(bitkin.corrections(snapshot, X), bitkin.corrections(hasher, X))
    assert (
        scored(hasher.model_, X, Q, random=True) > scored(hasher.model_, X, Q, random=False) + 0.2
    )
    index, of_hasher = EpochIndex(), EpochIndex()
    index.add(snapshot, X)
    of_hasher.add(hasher, X)
    assert np.array_equal(index.search(Q, 10).ids, of_hasher.search(Q, 10).ids)


@pytest.mark.parametrize(
    "make", [random_hash, lambda: random_hash().snapshot(), started], ids=["own", "given", "start"]
)
def test_files_and_pickles_remember_it(make: Any, tmp_path: Path) -> None:
    hasher = make()
    hasher.save(tmp_path / "model")
    for copy in (bitkin.load(tmp_path / "model"), pickle.loads(pickle.dumps(hasher))):
        assert copy.model_.random
        assert np.array_equal(bitkin.corrections(copy, X[:9]), bitkin.corrections(hasher, X[:9]))
    index = EpochIndex()
    index.add(hasher, X)
    index.save(tmp_path / "index")
    found = index.search(Q, 5)
    assert np.array_equal(
        EpochIndex.load(tmp_path / "index").search(Q, 5).distances, found.distances
    )


def test_a_stream_in_a_file_remembers_which_of_its_models_were_drawn(tmp_path: Path) -> None:
    hasher = live(8, epochs="request")
    kinds = []
    # nothing is learned from five vectors; an epoch of learned directions comes after 256
    for first in (0, 5, 50):
        hasher.partial_fit(X[first : first + 45 if first else 5])
        hasher.save(tmp_path / "model")
        copy = bitkin.load(tmp_path / "model")
        kinds.append((copy.model_.random, copy.epoch_.model_.random))
        assert kinds[-1] == (hasher.model_.random, hasher.epoch_.model_.random)
    assert kinds == [(True, True), (False, True), (False, True)]
    hasher.partial_fit(X[100:400])
    hasher.save(tmp_path / "model")
    assert not bitkin.load(tmp_path / "model").epoch_.model_.random


def test_given_directions_count_as_learned_unless_told_and_must_then_be_orthonormal(
    tmp_path: Path,
) -> None:
    basis = np.linalg.qr(_rng.standard_normal((64, 6)))[0]
    given = hasher_from_directions(basis)
    assert not given.model_.random
    assert bitkin.corrections(given, X[:3]).shape == (3, 2)
    skewed = hasher_from_directions(basis * 2)
    with pytest.raises(InvalidInputError, match="orthonormal directions or a random projection"):
        bitkin.corrections(skewed, X)
    given.save(tmp_path / "model")
    stored = read_file(tmp_path / "model")
    parameters = {
        name: stored.parameter(name)
        for name in ("n_bits", "rotation", "center", "normalize", "random_state")
    }
    parameters |= {"seed": stored.parameter("seed")}
    tensors = {"components": given.components_}
    for kind, known in (({}, True), ({"random": True}, True), ({"random": 1}, False)):
        whole = parameters | {"projection": {"class": "Given", "parameters": kind}}
        write_file(tmp_path / "other", "ProjectionHash", whole, given.fingerprint_, tensors)
        if known:
            assert bitkin.load(tmp_path / "other").model_.random is bool(kind)
        else:
            with pytest.raises(CorruptFileError, match="does not know"):
                bitkin.load(tmp_path / "other")
