"""The defaults of a stream: early epochs, epochs where it drifts, and none where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import EpochIndex, ProjectionHash
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.epoch_codes import EpochCodes
from tests.hashers.streams.data import live, turning

Floats = npt.NDArray[np.float32]


def steady(n: int, d: int = 40, rank: int = 16, seed: int = 0) -> Floats:
    """Rows in a few directions, all alike."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0].T
    rows = rng.standard_normal((n, rank)) * np.geomspace(3, 0.5, rank) @ basis
    return np.asarray(rows + 0.05 * rng.standard_normal((n, d)), dtype=np.float32)


def starts(hasher: ProjectionHash, X: Floats) -> list[int]:
    """The row at which each epoch begins."""
    begins, row = [], 0
    for codes in hasher.sketch_stream(X):
        begins.append(row)
        row += len(codes)
    return begins


def searched(hasher: ProjectionHash, X: Floats) -> EpochIndex:
    """The codes of a stream as they leave it, in an index."""
    index, last = EpochIndex(), None
    for snapshot, codes, rows in EpochCodes(hasher).sketch(X):
        assert snapshot is not None
        if snapshot is not last:
            index.begin(snapshot)
            last = snapshot
        index.add_codes(codes, bitkin.corrections(snapshot, rows))
    return index


def test_a_stream_begins_with_epochs_of_growing_length_and_then_stays() -> None:
    assert starts(live(8), steady(3000)) == [0, 16, 64, 256]
    assert starts(live(8, rotation="random"), steady(3000)) == [0, 16, 64, 256]
    assert starts(live(1), steady(40)) == [0, 8, 32]


def test_early_epochs_do_not_depend_on_how_a_stream_is_cut() -> None:
    X = turning(2500)
    whole, cut = live(), live()
    expected = [
        (codes.fingerprint, row)
        for codes in whole.sketch_stream(X)
        for row in codes.to_bytes().tolist()
    ]
    found = []
    for first, stop in ((0, 2), (2, 11), (11, 160), (160, 161), (161, 1800), (1800, 2500)):
        for codes in cut.sketch_stream(X[first:stop]):
            found += [(codes.fingerprint, row) for row in codes.to_bytes().tolist()]
    assert found == expected


def test_after_a_fit_no_early_epoch_begins_that_its_rows_were_enough_for() -> None:
    X = steady(3000)
    assert live(8).fit(X[:300]).n_epochs_ == 1
    assert starts(live(8).fit(X[:300]), X[300:]) == [0]
    assert starts(live(8).fit(X[:100]), X[100:]) == [0, 156]


def test_frequent_directions_begin_their_first_epoch_with_their_first_chunk() -> None:
    frequent = bitkin.projections.FrequentDirections(chunk_rows=100)
    assert starts(live(8, projection=frequent), steady(900)) == [0, 100, 256]


def test_a_mean_that_moves_begins_epochs() -> None:
    X = steady(6000)
    X[3000:] += 4 * X[:3000].std(axis=0) * np.sign(X[0])
    begins = starts(live(8, rotation="random"), X)
    assert begins[:4] == [0, 16, 64, 256]
    assert 1 <= len(begins) - 4 <= 6
    assert all(start > 3000 for start in begins[4:])
    hasher = live(8, epochs="request").fit(X[:3000])
    assert hasher.drift().mean_shift == pytest.approx(0, abs=0.02)
    hasher.partial_fit(X[3000:])
    recent, earlier = hasher.stream_.tracker, hasher.epoch_.mean_
    assert earlier is not None
    assert hasher.drift().mean_shift == pytest.approx(
        np.sum((recent.mean - earlier) ** 2) / recent.recent_total_variance
    )
    assert hasher.drift().mean_shift > 0.1


@pytest.mark.parametrize("kind", ["turns", "stays"])
def test_the_defaults_find_what_drifts_and_lose_nothing_where_nothing_does(kind: str) -> None:
    parts: list[Any] = [steady(2000, seed=seed if kind == "turns" else 0) for seed in range(3)]
    X, Q = np.concatenate(parts), np.concatenate([part[::50] for part in parts])
    true_ids = nearest(X, Q, 10).ids

    def found(**parameters: Any) -> float:
        return recall(searched(live(8, **parameters), X).search(Q, 100).ids, true_ids)

    never = bitkin.projections.OPAST(forgetting=1.0)
    defaults = found(rotation="auto")
    before = found(projection=never, rotation="unifdiag", epochs="request")
    fixed = EpochIndex()
    fixed.add(ProjectionHash(8, projection="random", rotation=None).fit(X), X)
    assert defaults > recall(fixed.search(Q, 100).ids, true_ids) + 0.1
    assert defaults > before + (0.1 if kind == "turns" else -0.02)


def test_a_stream_is_what_projection_opast_means() -> None:
    hasher = ProjectionHash(8, projection="opast").partial_fit(steady(300))
    assert repr(hasher.recipe_.rotation) == "RandomRotation()"
    assert hasher.n_epochs_ == 4
