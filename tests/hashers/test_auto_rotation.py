"""The rotation that held-out rows choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import CorruptFileError
from bitkin.hashers.projection.rotations import (
    ITQ,
    AutoRotation,
    Projected,
    RandomRotation,
)
from bitkin.hashers.projection.rotations.auto import _hold_out
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.randomness import Draws


def corners(n: int = 2000, c: int = 24) -> npt.NDArray[np.float32]:
    """Rows near the corners of a rotated cube, which ITQ finds."""
    rng = np.random.default_rng(0)
    cube = np.where(rng.random((n, c)) < 0.5, -1.0, 1.0) + 0.3 * rng.standard_normal((n, c))
    rotated: npt.NDArray[np.float64] = cube @ np.linalg.qr(rng.standard_normal((c, c)))[0]
    return rotated.astype(np.float32)


def cone(n: int = 2000, d: int = 40) -> npt.NDArray[np.float32]:
    """Rows of one half space and of very different lengths, which pull ITQ their way."""
    rng = np.random.default_rng(0)
    rows = np.abs(rng.standard_normal((n, d))) * np.geomspace(3, 0.3, d)
    return (rows * rng.uniform(0.2, 5, (n, 1))).astype(np.float32)


def recall(rotation: npt.NDArray[np.float64], rows: npt.NDArray[np.float32]) -> float:
    """The true 10 among the best 100 by codes, of every eighth row and all others; ties by their
    expectation.
    """
    queries, others = rows[::8], np.delete(rows, np.s_[::8], axis=0)
    best, shares = max(20, len(others) // 20), []
    for query in queries.astype(float):
        near = np.argsort(np.square(others - query).sum(axis=1), kind="stable")[:10]
        apart = ((others @ rotation >= 0) != (query @ rotation >= 0)).sum(axis=1)
        last = np.sort(apart)[best - 1]
        places = (best - (apart < last).sum()) / (apart == last).sum()
        shares.append(((apart[near] < last) + (apart[near] == last) * places).mean())
    return float(np.mean(shares))


def test_it_is_the_default_and_takes_what_finds_more_neighbours() -> None:
    assert ProjectionHash().rotation == "auto"
    for rows, kind in ((corners(), ITQ), (cone(), RandomRotation)):
        hasher = ProjectionHash(24).fit(rows)
        assert type(hasher.rotation_) is kind
        assert (len(hasher.rotation_losses_) > 10) == (kind is ITQ)  # or it was given up early
    chance = ProjectionHash(24, rotation="random").fit(cone())
    assert hasher.fingerprint_ == chance.fingerprint_
    assert repr(ProjectionHash(24, rotation="itq").fit(corners()).rotation_) == "ITQ()"


@pytest.mark.parametrize("rows", [corners(800), cone(800, 24)], ids=["corners", "cone"])
def test_recall_is_what_a_slow_search_has(rows: npt.NDArray[np.float32]) -> None:
    learning, trial = _hold_out(Projected(rows))
    assert np.array_equal(learning, np.delete(rows, np.s_[::8], axis=0))
    start = RandomRotation().matrix(Projected(rows), 24, Draws(0, "rotation"))
    learned = ITQ().matrix(Projected(learning), 24, Draws(0, "rotation"))
    shares = [recall(one, rows) for one in (start, learned)]
    # float32 and float64 projections may differ in a sign here and there
    assert np.allclose([trial.recall(one) for one in (start, learned)], shares, atol=2e-3)
    found = AutoRotation().find(Projected(rows), 24, Draws(0, "rotation"))
    assert np.array_equal(found.matrix, (start, learned)[int(np.argmax(shares))])


def test_many_rows_are_held_out_and_searched_evenly_spaced() -> None:
    rows = np.arange(20_000, dtype=np.float32)[:, None] * np.ones(3, dtype=np.float32)
    learning, trial = _hold_out(Projected(rows))
    assert (len(trial.queries), len(trial.database), len(learning)) == (512, 8192, 20_000 - 512)
    assert np.array_equal(np.unique(np.concatenate([learning, trial.queries])), np.unique(rows))
    assert np.diff(trial.queries[:, 0]).max() <= 40
    assert np.diff(trial.database[:, 0]).max() <= 4


def test_neighbours_are_those_before_the_projection() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 30)) * np.geomspace(2, 1, 30)
    X *= rng.random((400, 30)) < 0.4
    rows = X[:, :5].astype(np.float32)
    apart = np.square(X[::8, None] - np.delete(X, np.s_[::8], axis=0)).sum(axis=2)
    wanted = np.sort(np.argsort(apart, axis=1)[:, :10], axis=1)
    for full in (X.astype(np.float32), csr_array(X.astype(np.float32))):
        found = _hold_out(Projected(rows, None, full.__getitem__))[1].nearest
        assert np.array_equal(np.sort(found, axis=1), wanted)
    assert not np.array_equal(np.sort(_hold_out(Projected(rows))[1].nearest, axis=1), wanted)


@pytest.mark.parametrize("sample_rows", [150, 1000])
def test_rows_of_the_sample_are_found_again_by_their_places(sample_rows: int) -> None:
    X = corners(300)
    places = np.array([3, 40, 149])
    for source in (open_vectors(X, batch_rows=70), open_vectors(iter([X[:99], X[99:]]))):
        vectors = TrainingVectors(
            source, center=True, normalize=True, key=5, sample_rows=sample_rows
        )
        for _ in vectors.batches():  # an iterator's are kept while it is read
            pass
        sample = np.concatenate(list(vectors.sample_batches()))
        assert np.array_equal(vectors.sampled(places), sample[places])


def test_so_few_rows_tell_nothing_and_are_rotated_at_random() -> None:
    X = corners(63)
    hasher = ProjectionHash(8).fit(X)
    assert hasher.fingerprint_ == ProjectionHash(8, rotation="random").fit(X).fingerprint_
    assert len(hasher.rotation_losses_) == 0


def test_parameters_are_those_of_itq() -> None:
    hasher = ProjectionHash(24, rotation=AutoRotation(n_iter=3, max_rows=500)).fit(corners())
    assert repr(hasher.rotation_) == "ITQ(max_rows=500, n_iter=3)"
    assert len(hasher.rotation_losses_) == 3


def test_a_fitted_hasher_and_its_file_say_what_was_chosen(tmp_path: Path) -> None:
    for rows, words in ((corners(), "with ITQ()"), (cone(), "with RandomRotation()")):
        hasher = ProjectionHash(24)
        assert repr(hasher) == "ProjectionHash(n_bits=24)"
        assert repr(hasher.fit(rows)) == f"ProjectionHash(n_bits=24), {words}"
        hasher.save(tmp_path / "model")
        back = bitkin.load(tmp_path / "model")
        assert repr(back) == (
            f"ProjectionHash(n_bits=24, projection=PCA(), rotation=AutoRotation()), {words}"
        )
        assert repr(back.rotation_) == repr(hasher.rotation_)
    assert repr(ProjectionHash(24, rotation="itq").fit(cone())) == (
        "ProjectionHash(n_bits=24, rotation='itq')"
    )


@pytest.mark.parametrize(
    ("rotation", "chosen"),
    [("auto", None), ("auto", "isohash"), ("auto", {}), ("itq", "itq"), ("random", "itq")],
)
def test_a_file_that_names_an_impossible_choice_is_refused(
    rotation: str, chosen: Any, tmp_path: Path
) -> None:
    hasher = ProjectionHash(8, rotation=rotation).fit(corners(100))
    hasher.save(tmp_path / "good")
    stored = read_file(tmp_path / "good")
    names = ("n_bits", "projection", "rotation", "center", "normalize", "random_state", "seed")
    parameters = {name: stored.parameter(name) for name in names} | {"chosen_rotation": chosen}
    tensors = {"components": hasher.components_, "mean": hasher.mean_}
    write_file(tmp_path / "bad", "ProjectionHash", parameters, hasher.fingerprint_, tensors)  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError, match="a chosen rotation that cannot be"):
        bitkin.load(tmp_path / "bad")
