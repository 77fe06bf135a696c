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
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection.rotations import (
    ITQ,
    AutoRotation,
    Projected,
    RandomRotation,
)
from bitkin.hashers.projection.rotations.held_out import (
    Gain,
    HeldOutRows,
)
from bitkin.hashers.projection.statistics.row_sample import sample_row_numbers
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.randomness import Draws
from tests.memory import peak_of


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


def held_out_of(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Every fourth row of up to 4,096."""
    return np.arange(len(rows) // 4) * len(rows) // (len(rows) // 4)


def found(
    rotation: npt.NDArray[np.float64], rows: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """The share of the true 10 among the best 100 by codes, of every fourth row and all others;
    ties by their expectation.
    """
    held = held_out_of(rows)
    queries, others = rows[held], np.delete(rows, held, axis=0)
    best, shares = min(100, max(20, len(others) // 20)), []
    for query in queries.astype(float):
        near = np.argsort(np.square(others - query).sum(axis=1), kind="stable")[:10]
        apart = ((others @ rotation >= 0) != (query @ rotation >= 0)).sum(axis=1)
        last = np.sort(apart)[best - 1]
        places = (best - (apart < last).sum()) / (apart == last).sum()
        shares.append(((apart[near] < last) + (apart[near] == last) * places).mean())
    return np.array(shares)


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
def test_a_gain_is_what_a_slow_search_has(rows: npt.NDArray[np.float32]) -> None:
    start = RandomRotation().matrix(Projected(rows), 24, Draws(0, "rotation"))
    held_out = HeldOutRows(Projected(rows), start)
    assert np.array_equal(held_out.learning, np.delete(rows, held_out_of(rows), axis=0))
    learned = ITQ().matrix(Projected(held_out.learning), 24, Draws(0, "rotation"))
    gains = found(learned, rows) - found(start, rows)
    gain = held_out.compare(learned)
    # float32 and float64 projections may differ in a sign here and there
    assert np.isclose(gain.mean, gains.mean(), atol=2e-3)
    assert np.isclose(gain.error, gains.std(ddof=1) / np.sqrt(len(gains)), rtol=0.1)
    assert held_out.compare(start) == (0.0, 0.0)
    chosen = AutoRotation().find(Projected(rows), 24, Draws(0, "rotation"))
    *_, (finished, _) = ITQ(10).improve(rows, learned)  # from all rows, once it is chosen
    assert np.array_equal(chosen.matrix, finished if gain.mean > -gain.error else start)


def test_many_rows_are_held_out_and_searched_evenly_spaced() -> None:
    rows = np.arange(20_000, dtype=np.float32)[:, None] * np.ones(3, dtype=np.float32)
    asked: list[npt.NDArray[np.int64]] = []

    def original(places: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        asked.append(places)
        taken: npt.NDArray[np.float32] = rows[places]
        return taken

    held_out = HeldOutRows(Projected(rows, None, original), np.eye(3))
    assert len(held_out.learning) == 20_000 - 2500
    flipped = np.eye(3)[:, ::-1]  # the same codes but for the order of bits: nothing to choose by
    assert held_out.compare_closely(flipped) == (0.0, 0.0)
    _, queries, searched = asked
    assert (len(queries), len(searched)) == (512, 8192)
    assert np.diff(queries).max() <= 48
    assert np.diff(searched).max() <= 5
    assert not np.isin(rows[queries], held_out.learning).any()
    assert np.isin(rows[searched], held_out.learning).all()


@pytest.mark.parametrize(
    ("n", "gain", "favoured"),
    [
        (1000, Gain(-0.01, 0.011), True),
        (1000, Gain(-0.01, 0.009), False),
        (1024, Gain(-0.01, 0.011), False),
        (1024, Gain(0.001, 0.011), True),
    ],
)
def test_few_queries_favour_what_is_behind_by_less_than_their_error(
    n: int, gain: Gain, favoured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out = HeldOutRows(Projected(corners(n)), np.eye(24))
    monkeypatch.setattr(held_out, "compare_closely", lambda rotation: gain)
    assert held_out.favours(np.eye(24)) is favoured


def test_all_held_out_rows_are_asked_where_the_first_leave_it_open() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((6000, 16)).astype(np.float32)
    start, other = (np.linalg.qr(rng.standard_normal((16, 16)))[0] for _ in range(2))
    held_out = HeldOutRows(Projected(rows), start)
    first, every = held_out.compare(other), held_out.compare_closely(other)
    assert not first.certain
    assert every.error < 0.8 * first.error  # of 1,024 queries, no longer of 512
    better = corners(6000, 16)
    held_out = HeldOutRows(Projected(better), start)
    learned = ITQ().matrix(Projected(held_out.learning), 16, Draws(0, "rotation"))
    assert held_out.compare(learned).certain
    assert held_out.compare_closely(learned) == held_out.compare(learned)


@pytest.mark.parametrize(
    ("gain", "certain", "hopeless"),
    [
        (Gain(0.0, 0.003), True, False),
        (Gain(0.0, 0.004), False, False),
        (Gain(-0.02, 0.008), True, False),
        (Gain(-0.05, 0.008), True, True),
        (Gain(0.05, 0.03), False, False),
    ],
)
def test_a_gain_is_certain_where_choosing_by_it_costs_at_most_a_hundredth(
    gain: Gain, certain: bool, hopeless: bool
) -> None:
    assert (gain.certain, gain.hopeless) == (certain, hopeless)


@pytest.mark.parametrize("numbers", [1 << 22, 900])
def test_neighbours_are_those_before_the_projection(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.rotations.held_out._DATABASE_NUMBERS", numbers)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 30)) * np.geomspace(2, 1, 30)
    X *= rng.random((400, 30)) < 0.4
    rows = X[:, :5].astype(np.float32)
    start, other = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
    full = X.astype(np.float32)
    held = held_out_of(rows)
    others = np.delete(np.arange(400), held)
    size = min(300, max(64, numbers // 5))
    searched = others[np.arange(size) * 300 // size]
    gains = []
    for near in (full, rows):
        apart = np.square(near[held, None].astype(float) - near[searched]).sum(axis=2)
        nearest = np.argsort(apart, axis=1)[:, :10]
        shares = []
        for rotation in (other, start):
            bits = rows @ rotation.astype(np.float32) >= 0
            differ = (bits[held, None] != bits[searched]).sum(axis=2)
            last = np.sort(differ, axis=1)[:, 19:20]
            places = (20 - (differ < last).sum(axis=1)) / (differ == last).sum(axis=1)
            ours = np.take_along_axis(differ, nearest, axis=1)
            shares.append((ours < last).sum(axis=1) + (ours == last).sum(axis=1) * places)
        gains.append(float(np.mean(shares[0] - shares[1])) / 10)
    assert abs(gains[0] - gains[1]) > 1e-3
    for take, wanted in ((full, gains[0]), (csr_array(full), gains[0]), (rows, gains[1])):
        held_out = HeldOutRows(Projected(rows, None, take.__getitem__), start)
        assert np.isclose(held_out.compare_closely(other).mean, wanted)


def test_rows_are_not_chosen_again_for_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.hashers.projection.rotations.held_out._DATABASE_NUMBERS", 900)
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS", 200)
    monkeypatch.setattr("bitkin.hashers.projection.learning._SAMPLE_ROWS_PER_BIT", 1)
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return sample_row_numbers(*arguments)

    monkeypatch.setattr("bitkin.hashers.projection.training.sample_row_numbers", counted)
    X = corners(600)
    for rows in (X, csr_array(X)):
        calls.clear()
        hasher = ProjectionHash(8, rotation=AutoRotation(max_rows=100)).fit(rows)
        assert len(calls) == 1
    stream = open_vectors(iter([X[:350], X[350:]]))
    kept = ProjectionHash(8, rotation=AutoRotation(max_rows=100)).fit(stream)
    assert kept.fingerprint_ == hasher.fingerprint_


@pytest.mark.parametrize("sparse", [False, True])
def test_its_memory_is_reckoned(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reckoned = []
    monkeypatch.setattr(
        "bitkin.hashers.projection.rotations.held_out.require_memory",
        lambda needed, what, instead: reckoned.append(needed),
    )
    rng = np.random.default_rng(0)
    full = rng.standard_normal((9000, 200)).astype(np.float32)
    take: Any = csr_array(full * (rng.random(full.shape) < 0.1)) if sparse else full
    projected = Projected(full[:, :64].copy(), None, take.__getitem__)
    start, other = (np.linalg.qr(rng.standard_normal((64, 64)))[0] for _ in range(2))
    peak = peak_of(lambda: HeldOutRows(projected, start).compare_closely(other))
    assert 0.5 * reckoned[0] < peak <= reckoned[0]


def test_what_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.memory.physical_memory", lambda: 300_000)
    with pytest.raises(InvalidInputError, match="A comparison of rotations of 24 bits does not"):
        AutoRotation().find(Projected(corners(200)), 24, Draws(0, "rotation"))


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
