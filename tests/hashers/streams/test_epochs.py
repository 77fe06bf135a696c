"""When epochs begin, and what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.streams.epoch_rule import WARM_UP_PER_BIT
from tests.hashers.streams.data import live, turning


def test_a_stream_that_no_fit_began_starts_with_random_directions_and_learns_its_first_epoch() -> (
    None
):
    X = turning(300)
    hasher = live(epochs="request")
    hasher.partial_fit(X[: WARM_UP_PER_BIT * 5 - 1])
    start = hasher.epoch_
    assert hasher.n_epochs_ == 1
    assert start.fingerprint_ == live().partial_fit(-X[5:6]).epoch_.fingerprint_
    assert start.components_.T @ start.components_ == pytest.approx(np.eye(5), abs=1e-5)
    hasher.sketch(X[WARM_UP_PER_BIT * 5 - 1])
    assert hasher.n_epochs_ == 2
    learned = hasher.epoch_
    assert learned.fingerprint_ == live().partial_fit(X[: WARM_UP_PER_BIT * 5]).fingerprint_
    list(hasher.sketch_stream(X[WARM_UP_PER_BIT * 5 :]))
    assert hasher.n_epochs_ == 2


def test_fit_begins_an_epoch_with_all_it_has_learned() -> None:
    X = turning(300)
    for n in (1, 5, 40, 300):
        hasher = live().fit(X[:n])
        assert hasher.n_epochs_ == 1
        assert hasher.epoch_.fingerprint_ == hasher.fingerprint_
        assert hasher.n_seen_ == n


def test_a_requested_epoch_is_the_model_of_now() -> None:
    X = turning(400)
    hasher = live(epochs="request").fit(X[:200])
    old = hasher.epoch_
    hasher.partial_fit(X[200:])
    assert hasher.epoch_.fingerprint_ == old.fingerprint_
    new = hasher.new_epoch()
    assert new.fingerprint_ == hasher.fingerprint_ == hasher.epoch_.fingerprint_ != old.fingerprint_
    assert hasher.sketch(X[0]).fingerprint == new.fingerprint_
    assert hasher.n_epochs_ == 2


def test_an_epoch_begins_every_so_many_vectors() -> None:
    X = turning(1000)
    hasher = live(epochs=70).fit(X[:300])
    begins = [hasher.n_epochs_ for x in X[:300] if hasher.sketch(x)]
    assert [k + 1 for k in range(1, 300) if begins[k] > begins[k - 1]] == [70, 140, 210, 280]


def test_an_epoch_begins_when_the_stream_has_turned_away_from_the_last_one() -> None:
    X = turning(20_000)
    hasher = live(epochs=0.1, projection=bitkin.projections.OPAST(forgetting=0.999)).fit(X[:5_000])
    hasher.partial_fit(X[5_000:10_000])
    assert hasher.n_epochs_ == 1
    assert hasher.drift(hasher.epoch_).variance_kept > 0.9
    hasher.partial_fit(X[10_000:])
    assert hasher.n_epochs_ > 1
    assert hasher.drift(hasher.epoch_).variance_kept > 0.9


def test_without_epochs_there_is_none() -> None:
    hasher = live(epochs=None).fit(turning(50))
    assert hasher.n_epochs_ == 0
    assert not hasattr(hasher, "epoch_")
    with pytest.raises(InvalidInputError, match="epochs=None means that there are none"):
        hasher.new_epoch()


def test_a_snapshot_never_changes_and_cannot_learn() -> None:
    X = turning(400)
    hasher = live(normalize=True).fit(X[:200])
    snapshot = hasher.snapshot()
    assert isinstance(snapshot, ProjectionHash)
    assert snapshot.fingerprint_ == hasher.fingerprint_
    codes = snapshot.encode(X)
    assert codes == hasher.encode(X)
    hasher.partial_fit(X[200:])
    assert snapshot.encode(X) == codes
    assert hasher.fingerprint_ != snapshot.fingerprint_
    for name in (
        "partial_fit",
        "sketch",
        "sketch_stream",
        "drift",
        "new_epoch",
        "epoch_",
        "n_seen_",
    ):
        assert not hasattr(snapshot, name)
    with pytest.raises(InvalidInputError, match="given, not learned"):
        snapshot.fit(X)
    with pytest.raises(ValueError, match="read-only"):
        snapshot.components_[0, 0] = 1


def test_any_fitted_hasher_has_a_snapshot() -> None:
    X = turning(100)
    hasher = ProjectionHash(5, normalize=True).fit(X)
    assert hasher.snapshot().encode(X) == hasher.encode(X)


def test_a_snapshot_keeps_the_names_of_features() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with the extra `dev`")
    frame = pandas.DataFrame(turning(100), columns=[f"f{i}" for i in range(13)])
    hasher = live(epochs="request").partial_fit(frame)
    assert hasher.snapshot().encode(frame) == hasher.encode(frame)
    (codes,) = hasher.new_epoch() and hasher.sketch_stream(frame)
    assert len(codes) == 100


def test_an_epoch_begins_when_its_directions_capture_less_though_none_are_better() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24_000, 40)).astype(np.float32)
    X[:20_000, :5] *= 10
    X[20_000:, 5:10] *= 10
    never_forgets = bitkin.projections.OPAST(forgetting=1.0)
    hasher = live(epochs=0.05, projection=never_forgets).fit(X[:10_000])
    hasher.partial_fit(X[10_000:20_000])
    assert hasher.n_epochs_ == 1
    hasher.partial_fit(X[20_000:])
    assert 1 < hasher.n_epochs_ <= 5


@pytest.mark.parametrize("epochs", ["request", 0.05, 300, 7])
def test_while_directions_are_random_only_the_warm_up_counts(epochs: int | float | str) -> None:
    X = turning(3000, d=40)
    parts = list(live(32, epochs=epochs, refresh=10_000).sketch_stream(X))
    assert len(parts[0]) == WARM_UP_PER_BIT * 32
    if epochs == 300:
        assert [len(part) for part in parts] == [1024, *[300] * 6, 176]


@pytest.mark.parametrize("rotation", ["unifdiag", "isohash", "random", None])
@pytest.mark.parametrize(
    "projection", ["opast", bitkin.projections.FrequentDirections(chunk_rows=50)]
)
@pytest.mark.parametrize("epochs", [100, 0.05, None])
def test_a_mean_that_projects_beyond_float32_ends_no_stream(
    rotation: str | None, projection: object, epochs: object, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X = (3e38 * np.sign(rng.standard_normal((1, 64))) * (1 - 0.01 * rng.random((600, 64)))).astype(
        np.float32
    )
    hasher = live(8, epochs=epochs, rotation=rotation, projection=projection)
    parts = list(hasher.sketch_stream(X))
    assert sum(map(len, parts)) == hasher.n_seen_ == 600
    assert len(hasher.sketch(X[0])) == 1
    assert hasher.drift(hasher.snapshot()).bits_flipped == 0
    hasher.save(tmp_path / "state")
    assert bitkin.load(tmp_path / "state").fingerprint_ == hasher.fingerprint_
    last = np.asarray(parts[-1])
    assert 0.2 < last.mean() < 0.8  # about the mean, not about zero
    with pytest.raises(InvalidInputError, match="X must have smaller numbers"):
        hasher.transform(X)
    with pytest.raises(
        InvalidInputError, match="smaller numbers: their mean projects beyond float32"
    ):
        live(8, epochs=epochs).fit(X)
