"""Streaming projections in the slot of any projection: all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections import (
    OPAST,
    FrequentDirections,
    Learned,
    StreamingProjection,
)
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.randomness import Draws
from tests.hashers.trackers.opast_truth import captured, stream

BOTH = pytest.mark.parametrize(
    "projection", [OPAST(), FrequentDirections()], ids=["opast", "frequent"]
)


def learned(
    projection: StreamingProjection, rows: object, c: int = 5, *, center: bool = True
) -> Learned:
    vectors = TrainingVectors(open_vectors(rows), center=center, normalize=False, key=0)
    return projection.learn(vectors, c, Draws(0, "projection"))


@BOTH
@pytest.mark.parametrize("center", [True, False])
def test_what_is_learned_is_what_a_tracker_knows(
    projection: StreamingProjection, center: bool
) -> None:
    rows = stream(700, 30)
    tracker = projection.tracker(30, 5, center=center, draws=Draws(0, "projection"))
    tracker.update(rows)
    tracker.flush()
    found = learned(projection, rows, center=center)
    assert np.array_equal(found.directions, tracker.directions)
    assert found.covariance is not None
    assert np.array_equal(found.covariance, tracker.covariance)
    if center:
        assert found.mean is not None
        assert np.array_equal(found.mean, tracker.mean.astype(np.float32))
        assert captured(found.directions, rows) > 0.99
    else:
        assert found.mean is None


@BOTH
def test_sparse_rows_and_batches_give_the_same(projection: StreamingProjection) -> None:
    rows = stream(400, 30) * (np.random.default_rng(0).random((400, 30)) < 0.3)
    expected = learned(projection, rows)
    for other in (csr_array(rows), iter([rows[:1], rows[1:300], rows[300:]])):
        assert np.array_equal(learned(projection, other).directions, expected.directions)


@BOTH
def test_too_few_rows_or_all_alike_are_named(projection: StreamingProjection) -> None:
    with pytest.raises(
        InvalidInputError, match="n_bits must be at most 4 where n_samples = 5, got 5"
    ):
        learned(projection, stream(5, 30))
    assert learned(projection, stream(6, 30)).directions.shape == (30, 5)


def test_rows_that_are_all_the_same_are_named() -> None:
    with pytest.raises(InvalidInputError, match="X must have rows that differ"):
        learned(OPAST(), np.ones((50, 30), dtype=np.float32))
