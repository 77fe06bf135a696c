"""An interrupt at any line of encoding and of learning from a stream."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.hashers.projection.rotations import UnifDiag
from bitkin.io import open_vectors
from tests.interruptions import (
    in_another_thread,
    interrupted_at,
    moments_of,
    require_nothing_left_behind,
)

pytestmark = pytest.mark.usefixtures("few_threads")

_X = np.random.default_rng(5).standard_normal((400, 16), dtype=np.float32)


@pytest.fixture(autouse=True)
def ordinary_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    bitkin.set_threads(2)
    yield
    signal.signal(signal.SIGINT, before)


def _live(projection: str, rotation: str | None, epochs: Any) -> ProjectionHash:
    hasher = ProjectionHash(4, projection=projection, rotation=rotation, epochs=epochs, refresh=3)
    return hasher.fit(_X[:200])


def _fingerprint(hasher: ProjectionHash) -> str:
    return hasher.snapshot().fingerprint_


@pytest.mark.parametrize(
    ("projection", "rotation", "epochs"),
    [("opast", "unifdiag", 10), ("opast", "isohash", None), ("frequent-directions", None, 7)],
)
def test_an_interrupted_sketch_has_learned_the_vector_or_has_not(
    projection: str, rotation: Any, epochs: Any
) -> None:
    """And the stream continues from there as if there had been no interrupt."""
    truth = [_live(projection, rotation, epochs)]
    for _ in range(12):  # truth[i] has seen i vectors of these, more than an epoch of them
        later = _live(projection, rotation, epochs)
        later.partial_fit(_X[200 : 200 + len(truth)])
        truth.append(later)
    prints = [hasher.snapshot().fingerprint_ for hasher in truth]
    moments = [moment for x in _X[200:203] for moment in moments_of(truth[0].sketch, x)]
    hasher, learned = _live(projection, rotation, epochs), 0
    for moment in dict.fromkeys(moments):
        if learned >= 10:
            hasher, learned = _live(projection, rotation, epochs), 0
        interrupted = interrupted_at(moment, hasher.sketch, _X[200 + learned])
        require_nothing_left_behind()
        assert hasher.n_seen_ in (200 + learned, 201 + learned)
        assert interrupted or hasher.n_seen_ == 201 + learned
        learned = hasher.n_seen_ - 200
        assert in_another_thread(_fingerprint, hasher) == prints[learned]


def test_a_source_that_is_interrupted_is_not_learned_from_at_all() -> None:
    source = bitkin.io.open_vectors(_X[200:])
    hasher = _live("opast", "unifdiag", 50)
    before = hasher.snapshot().fingerprint_, hasher.n_epochs_
    moments = moments_of(hasher.partial_fit, source)
    after = hasher.snapshot().fingerprint_, hasher.n_epochs_
    hasher = _live("opast", "unifdiag", 50)
    for moment in moments:
        interrupted_at(moment, hasher.partial_fit, source)
        require_nothing_left_behind()
        now = hasher.snapshot().fingerprint_, hasher.n_epochs_
        assert now in (before, after)
        if now == after:
            hasher = _live("opast", "unifdiag", 50)


@pytest.mark.parametrize("kind", ["projection", "wta", "minhash"])
def test_an_interrupted_encode_leaves_the_hasher_as_it_was(kind: str) -> None:
    X: Any = _X
    hasher: Any
    if kind == "projection":
        hasher = ProjectionHash(8).fit(_X)
    elif kind == "wta":
        hasher = bitkin.WTAHash(32).fit(_X)
    else:
        hasher, X = bitkin.MinHash(32), [list(range(i, i + 9)) for i in range(300)]
        hasher.fit(X)
    expected = hasher.encode(X)
    for moment in moments_of(hasher.encode, X):
        interrupted_at(moment, hasher.encode, X)
        require_nothing_left_behind()
    assert in_another_thread(hasher.encode, X) == expected


class _Interrupting(UnifDiag):
    """A rotation that sends Ctrl-C when it is found for the third time."""

    found = -1000

    def rotation_of(self, covariance: Any, draws: Any = None) -> Any:
        type(self).found += 1
        if type(self).found == 3:
            signal.raise_signal(signal.SIGINT)
        return super().rotation_of(covariance, draws)


def test_a_long_batch_is_left_after_few_more_vectors() -> None:
    hasher = ProjectionHash(
        4, projection="opast", rotation=_Interrupting(start="random"), epochs=None, refresh=5
    )
    hasher.partial_fit(_X[:30])
    type(hasher.rotation).found = 0
    with pytest.raises(KeyboardInterrupt):
        hasher.partial_fit(_X[30:])
    assert 30 < hasher.n_seen_ < 200
    again = ProjectionHash(
        4, projection="opast", rotation=UnifDiag(start="random"), epochs=None, refresh=5
    )
    again.partial_fit(_X[: hasher.n_seen_])
    assert hasher.snapshot().fingerprint_ == again.snapshot().fingerprint_


def test_what_a_hasher_learns_while_it_reads_is_not_forgotten_silently() -> None:
    hasher = _live("opast", "unifdiag", 50)
    index = bitkin.EpochIndex()

    def learning() -> Iterator[Any]:
        yield _X[200:220]
        hasher.partial_fit(_X[220:230])
        yield _X[230:240]

    for read in (
        lambda: index.follow(hasher, learning()),
        lambda: hasher.partial_fit(open_vectors(learning())),
    ):
        before = hasher.n_seen_
        with pytest.raises(
            bitkin.errors.InvalidInputError,
            match="must not let the hasher learn while they are read",
        ):
            read()
        assert hasher.n_seen_ == before + 10
        assert len(index) == 0
