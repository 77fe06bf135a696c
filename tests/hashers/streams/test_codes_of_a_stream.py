"""What leaves a stream: the right code, without delay, before the model has seen the vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import bitkin
from bitkin import Codes, ProjectionHash
from bitkin.io import open_vectors
from tests.hashers.streams.data import COMBINATIONS, by_row, fed, live, small_projections, turning

each_combination = pytest.mark.parametrize("hasher", [clone(h) for h in COMBINATIONS], ids=repr)


@each_combination
def test_a_code_is_that_of_the_epoch_or_of_the_model_just_before(hasher: ProjectionHash) -> None:
    X = turning(300)
    hasher.partial_fit(X[:1])
    for x in X[1:]:
        maker = hasher.snapshot() if hasher.epochs is None else hasher.epoch_
        code = hasher.sketch(x)
        assert code.fingerprint == (None if hasher.epochs is None else maker.fingerprint_)
        unclear = small_projections(maker, x[None])
        assert ((np.asarray(code) == maker.transform(x[None])) | unclear).all()


def test_the_next_vector_is_asked_for_only_after_the_code_of_the_last_has_left() -> None:
    X = turning(40)
    asked = 0

    def vectors() -> Iterator[Any]:
        nonlocal asked
        for x in X:
            asked += 1
            yield x

    for received, code in enumerate(live().sketch_stream(vectors()), 1):
        assert asked == received
        assert len(code) == 1
    assert asked == 40


def test_every_form_of_a_stream_gives_the_same_codes() -> None:
    X = turning(500)
    expected = by_row(fed(live(epochs=120), X, [], [2]))
    forms: list[Any] = [
        list(X),
        iter(X),
        [x[None] for x in X],
        [X[:7], X[7:7], X[7], X[8:]],
        X.tolist(),
        X.astype(np.float64),
        np.asfortranarray(X),
        scipy.sparse.csr_matrix(X),
        (scipy.sparse.csr_array(X[i : i + 9]) for i in range(0, 500, 9)),
        open_vectors(X, batch_rows=33),
    ]
    for form in forms:
        assert by_row(list(live(epochs=120).sketch_stream(form))) == expected


def test_all_rows_of_one_codes_belong_to_one_epoch() -> None:
    X = turning(600)
    hasher = live(epochs=100).fit(X[:100])
    first = hasher.epoch_
    parts = list(hasher.sketch_stream(X))
    assert [len(part) for part in parts] == [100] * 6
    assert parts[0].fingerprint == first.fingerprint_
    assert len({part.fingerprint for part in parts}) == 6
    assert hasher.n_epochs_ == 7
    with pytest.raises(bitkin.errors.CodeMismatchError):
        bitkin.distances(parts[0], parts[1])


def test_codes_of_a_moving_model_carry_no_fingerprint() -> None:
    X = turning(300)
    (codes,) = live(refresh=1, epochs=None).sketch_stream(X)
    assert codes.fingerprint is None
    assert codes.symbols().any(axis=0).all()


def test_with_every_vector_refreshed_the_emitted_bits_have_the_same_variance() -> None:
    X = turning(4000)[:2000]
    hasher = live(refresh=1, epochs=None)
    list(hasher.sketch_stream(X))
    R = hasher.stream_.rotation_matrix
    assert R is not None
    variances = np.diag(R.T @ hasher.stream_.tracker.covariance @ R)
    assert np.ptp(variances) < 1e-12 * variances.mean()


def test_learning_happens_as_codes_are_asked_for() -> None:
    X = turning(50)
    hasher = live()
    stream = hasher.sketch_stream(iter(X))
    assert not hasattr(hasher, "spec_")
    for _ in range(3):
        next(stream)
    assert hasher.n_seen_ == 3


def test_a_stream_of_nothing_yields_nothing() -> None:
    hasher = live()
    assert list(hasher.sketch_stream([])) == []
    hasher.fit(turning(50))
    assert list(hasher.sketch_stream(np.empty((0, 13), dtype=np.float32))) == []
    assert hasher.n_seen_ == 50


def test_one_vector_comes_in_any_shape() -> None:
    X = turning(60)
    codes = [
        live().fit(X).sketch(x)
        for x in (X[0], X[:1], X[0].tolist(), scipy.sparse.csr_matrix(X[:1]))
    ]
    assert all(isinstance(code, Codes) and code == codes[0] and len(code) == 1 for code in codes)
    assert np.asarray(codes[0]).shape == (1, 5)


@pytest.mark.parametrize("epochs", [100, 0.05, None])
@pytest.mark.parametrize("power", [-60, 3, 90])
def test_scaling_a_stream_by_a_power_of_two_changes_no_code(
    epochs: int | float | None, power: int
) -> None:
    X = turning(700)
    codes, scaled = (
        list(live(epochs=epochs).sketch_stream(rows)) for rows in (X, np.ldexp(X, power))
    )
    assert [len(part) for part in codes] == [len(part) for part in scaled]
    for part, other in zip(codes, scaled, strict=True):
        assert np.array_equal(part.words, other.words)


@pytest.mark.parametrize("factor", [3.7e-20, 0.3, 255.0, 9.9e20])
def test_scaling_a_stream_by_any_constant_changes_next_to_no_bit(factor: float) -> None:
    X = turning(700)
    codes, scaled = (
        np.concatenate([part.symbols() for part in live(epochs=100).sketch_stream(rows)])
        for rows in (X, factor * X)
    )
    assert (codes != scaled).mean() < 1e-3


def test_an_empty_row_belongs_to_the_epoch_at_its_time_however_the_stream_is_cut() -> None:
    X = turning(600)
    X[[0, 200, 201, 330, 402, 599]] = np.nan

    def rows(cuts: list[int]) -> list[tuple[bytes, str | None]]:
        with pytest.warns(UserWarning, match="skipped"):
            return by_row(fed(live(epochs=39), X, cuts, [2, 1, 3]))

    whole = rows([])
    for cuts in ([1], [200], [201], [202, 330], [160, 161, 162, 163], [402, 403, 599]):
        assert rows(cuts) == whole
    ended = live(epochs=39)
    with pytest.warns(UserWarning, match="skipped"):
        parts = list(
            ended.sketch_stream(
                np.concatenate([X[1:161], np.full((2, 13), np.nan, dtype=np.float32)])
            )
        )
    assert [len(part) for part in parts] == [160, 2]
    assert parts[1].fingerprint == ended.epoch_.fingerprint_ != parts[0].fingerprint
