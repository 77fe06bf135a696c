"""What cannot be learned from, and what cannot be a stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.streams import rows
from bitkin.io import open_vectors
from tests.hashers.streams.data import by_row, everything, fed, live, turning


def with_bad_rows(n: int = 300) -> tuple[Any, Any]:
    X = turning(n)
    X[[0, 50, 51, n - 1], 3] = [np.nan, np.inf, -np.inf, np.nan]
    return X, np.isfinite(X).all(axis=1)


@pytest.mark.parametrize("epochs", [None, 40, "request"])
def test_vectors_that_are_not_finite_are_skipped_counted_and_have_empty_codes(epochs: Any) -> None:
    X, good = with_bad_rows()
    clean = live(epochs=epochs)
    expected = fed(clean, X[good], [], [2])
    hasher = live(epochs=epochs)
    with pytest.warns(UserWarning, match="not finite in float32 were skipped") as told:
        codes = list(hasher.sketch_stream(X))
    assert len(told) == 1
    assert told[0].filename == __file__
    assert sum(map(len, codes)) == len(X)
    assert np.array_equal(np.concatenate([part.empty_rows() for part in codes]), ~good)
    assert [row for row, keep in zip(by_row(codes), good, strict=True) if keep] == by_row(expected)
    assert hasher.n_skipped_ == 4
    assert hasher.n_seen_ == 296
    assert np.array_equal(hasher.components_, clean.components_)


@pytest.mark.parametrize("epochs", [None, 1, 7, 40, 0.05, "request"])
@pytest.mark.parametrize("rotation", [None, "random", "unifdiag", "isohash"])
@pytest.mark.parametrize("projection", ["opast", "frequent-directions"])
def test_skipped_vectors_cost_no_other_its_code_whatever_learns(
    projection: str, rotation: Any, epochs: Any
) -> None:
    X, good = with_bad_rows(150)

    def fresh() -> ProjectionHash:
        return live(projection=projection, rotation=rotation, epochs=epochs).fit(
            turning(60, seed=5)
        )

    clean, hasher = fresh(), fresh()
    expected = iter(by_row([clean.sketch(x) for x in X[good]]))
    with pytest.warns(UserWarning, match="skipped"):
        codes = list(hasher.sketch_stream(X))
    assert np.array_equal(np.concatenate([part.empty_rows() for part in codes]), ~good)
    assert [row for row, keep in zip(by_row(codes), good, strict=True) if keep] == list(expected)
    assert (hasher.n_seen_, hasher.n_skipped_) == (206, 4)
    assert hasher.n_epochs_ == clean.n_epochs_


@pytest.mark.parametrize("projection", ["opast", "frequent-directions"])
def test_where_the_warning_is_an_error_nothing_of_the_vectors_is_learned(
    projection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = with_bad_rows()
    hasher = live(projection=projection).fit(turning(60, seed=5))
    before = everything(hasher)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="skipped"):
            hasher.partial_fit(X)
        with pytest.raises(UserWarning, match="skipped"):
            hasher.sketch(X[0])
        with pytest.raises(UserWarning, match="skipped"):
            list(hasher.sketch_stream(X))
        assert everything(hasher) == before
        monkeypatch.setattr(rows, "BATCH_BYTES", 4 * 13 * 100)
        with pytest.raises(UserWarning, match="skipped"):
            hasher.partial_fit(X[100:])  # the flaw is in the second block
    assert everything(hasher) == before


def test_one_by_one_and_without_codes_they_are_skipped_too() -> None:
    X, good = with_bad_rows()
    whole = live().partial_fit(X[good])
    one, several = live(), live()
    with pytest.warns(UserWarning, match="skipped"):
        codes = [one.sketch(x) for x in X]
    with pytest.warns(UserWarning, match="skipped"):
        several.partial_fit(scipy.sparse.csr_matrix(X))
    assert np.array_equal(one.components_, whole.components_)
    assert np.array_equal(several.components_, whole.components_)
    assert one.n_skipped_ == several.n_skipped_ == 4
    assert [bool(code.empty_rows()[0]) for code in codes] == (~good).tolist()


def test_strict_makes_them_an_error_and_learns_nothing_of_the_batch() -> None:
    X, _ = with_bad_rows()
    hasher = live().partial_fit(X[1:50])
    before = everything(hasher)
    for bad in (X[10:], scipy.sparse.csr_matrix(X[10:]), X[10:].astype(np.float64)):
        with pytest.raises(
            InvalidInputError, match="infinity at row 40, column 3, vector 89 of the stream"
        ):
            hasher.partial_fit(bad, strict=True)
        with pytest.raises(InvalidInputError, match="infinity at row 40, column 3"):
            list(hasher.sketch_stream(bad, strict=True))
    with pytest.raises(InvalidInputError, match="NaN at row 0, column 3"):
        hasher.sketch(X[0], strict=True)
    assert everything(hasher) == before


def test_a_source_that_fails_half_way_teaches_nothing() -> None:
    X, _ = with_bad_rows()
    hasher = live().partial_fit(X[1:50])
    before = everything(hasher)
    with pytest.raises(InvalidInputError, match="NaN at row 247"):
        hasher.partial_fit(open_vectors(X[52:], batch_rows=100))
    assert everything(hasher) == before
    fresh = live()
    with pytest.raises(InvalidInputError, match="NaN at row 247"):
        fresh.partial_fit(open_vectors(X[52:], batch_rows=100))
    assert not hasattr(fresh, "spec_")
    assert not hasattr(fresh, "n_features_in_")


def test_numbers_beyond_float32_are_not_finite_there() -> None:
    X = turning(60).astype(np.float64)
    X[7, 1] = 1e300
    hasher = live()
    with pytest.warns(UserWarning, match="skipped"):
        hasher.partial_fit(X)
    assert hasher.n_skipped_ == 1
    with pytest.raises(InvalidInputError, match=r"1e\+300 is beyond float32 at row 7, column 1"):
        hasher.partial_fit(X, strict=True)


def test_huge_and_tiny_vectors_break_nothing() -> None:
    X = turning(400)
    X[[100, 150, 200, 250]] *= np.array([[1e18], [1e-18], [0], [1e30]], dtype=np.float32)
    for epochs in (None, 30):
        hasher = live(epochs=epochs)
        codes = list(hasher.sketch_stream(X))
        assert all(part.empty is None for part in codes)
        assert np.isfinite(hasher.components_).all()
        assert hasher.components_.T @ hasher.components_ == pytest.approx(np.eye(5), abs=1e-4)


def test_a_vector_of_another_length_is_named() -> None:
    X = turning(50)
    hasher = live().partial_fit(X)
    before = everything(hasher)
    for wrong in (X[:, :9], X[:, :9].tolist(), scipy.sparse.csr_matrix(X[:, :9])):
        with pytest.raises(
            InvalidInputError, match="has 9 features, but ProjectionHash is expecting 13 features"
        ):
            hasher.partial_fit(wrong)
        with pytest.raises(InvalidInputError, match="expecting 13 features"):
            list(hasher.sketch_stream(wrong))
    with pytest.raises(InvalidInputError, match="expecting 13 features"):
        hasher.sketch(X[0, :9])
    with pytest.raises(InvalidInputError, match="expecting 13 features"):
        hasher.partial_fit(open_vectors(X[:, :9]))
    with pytest.raises(InvalidInputError, match="expecting 13 features"):
        hasher.sketch_stream(open_vectors(X[:, :9]))
    assert everything(hasher) == before


def test_what_is_no_vector_is_named() -> None:
    X = turning(50)
    hasher = live().partial_fit(X)
    with pytest.raises(
        InvalidInputError, match=r"x must be one vector, .*got \(2, 13\)\. Use sketch_stream"
    ):
        hasher.sketch(X[:2])
    with pytest.raises(InvalidInputError, match="x must be vectors"):
        hasher.sketch(X[None])
    with pytest.raises(InvalidInputError, match="x must be vectors"):
        hasher.sketch(3.0)
    with pytest.raises(InvalidInputError, match="all rows of one length"):
        hasher.sketch([[1.0, 2.0], [3.0]])
    for nothing in (7, "vectors.npy", None):
        with pytest.raises(
            InvalidInputError, match=f"vectors must be an array.* got {type(nothing).__name__}"
        ):
            hasher.sketch_stream(nothing)
    masked = np.ma.masked_equal(X, X[0, 0])
    for call in (
        hasher.partial_fit,
        lambda x: hasher.sketch(x[0]),
        lambda x: list(hasher.sketch_stream(x)),
    ):
        with pytest.raises(InvalidInputError, match="masked"):
            call(masked)
    with pytest.raises(InvalidInputError, match="Complex data not supported"):
        hasher.partial_fit(X * 1j)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"refresh": 0}, "refresh must be between 1"),
        ({"refresh": 2.5}, "refresh must be a whole number, got 2.5"),
        ({"refresh": None}, "refresh must be a whole number"),
        ({"epochs": 0}, "epochs must be .auto., .request., a whole number .* got 0"),
        ({"epochs": 1.0}, "epochs must be .* got 1.0"),
        ({"epochs": -3}, "epochs must be"),
        ({"epochs": float("nan")}, "epochs must be"),
        ({"epochs": True}, "epochs must be"),
        ({"epochs": "daily"}, "epochs must be .* got 'daily'"),
        (
            {"n_bits": 13},
            "n_bits must be below n_features = 13 .*projection='pca' or projection='random'",
        ),
        ({"n_bits": 20}, "n_bits must be below n_features = 13"),
        (
            {"projection": bitkin.projections.OPAST(forgetting=0.0)},
            "forgetting must be 'auto', or above 0",
        ),
        (
            {"projection": bitkin.projections.OPAST(forgetting=1.1)},
            "forgetting must be .* at most 1, got 1.1",
        ),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters_are_named_and_leave_the_hasher_unfitted(
    parameters: dict[str, Any], words: str
) -> None:
    X = turning(50)

    def calls(hasher: ProjectionHash) -> Iterator[Any]:
        yield lambda: hasher.fit(X)
        yield lambda: hasher.partial_fit(X)
        yield lambda: hasher.sketch(X[0])
        yield lambda: list(hasher.sketch_stream(iter(X)))

    hasher = live(**parameters)
    before = dict(vars(hasher))
    for call in calls(hasher):
        with pytest.raises(InvalidInputError, match=words):
            call()
        assert vars(hasher) == before


@pytest.mark.parametrize(
    "parameters",
    [
        {"projection": "pca"},
        {"rotation": "itq"},
        {"projection": "random"},
        {"projection": "no such"},
    ],
)
def test_other_combinations_have_no_streaming_methods(parameters: dict[str, Any]) -> None:
    hasher = live(**parameters)
    for name in ("partial_fit", "sketch", "sketch_stream", "drift", "new_epoch"):
        assert not hasattr(hasher, name)
    reason = f"got projection={hasher.projection!r} and rotation={hasher.rotation!r}"
    with pytest.raises(
        AttributeError, match=f"no attribute 'partial_fit': to go on learning takes .*, {reason}"
    ):
        hasher.partial_fit(turning(5))
    with pytest.raises(AttributeError, match="no attribute 'sketch': to go on learning takes"):
        type(hasher).sketch(hasher, turning(1))


def test_a_hasher_fitted_otherwise_does_not_turn_into_a_stream() -> None:
    hasher = live(rotation="itq").fit(turning(300))
    assert hasher.encode(turning(5)).spec.n_bits == 5
    hasher.set_params(rotation="unifdiag")
    assert not hasattr(hasher, "partial_fit")
    with pytest.raises(
        AttributeError, match="no attribute 'partial_fit': it is a snapshot, or was fitted without"
    ):
        hasher.partial_fit(turning(5))
    assert not hasattr(hasher, "n_seen_")
    assert hasattr(hasher.fit(turning(300)), "partial_fit")
    assert not hasattr(hasher.set_params(projection="pca").fit(turning(300)), "partial_fit")


def test_what_an_index_cannot_project_is_named_as_its_own_argument() -> None:
    X = turning(300)
    hasher, index = live().fit(X), bitkin.EpochIndex()
    index.add(hasher.epoch_, X)
    for huge in (np.full((1, 13), 3e38), scipy.sparse.csr_matrix(np.full((1, 13), 3e38))):
        with pytest.raises(
            InvalidInputError,
            match=r"^vectors must have smaller numbers: a projection of rows 0 to 0",
        ):
            index.add(hasher.epoch_, huge)
        with pytest.raises(
            InvalidInputError,
            match=r"^queries must have smaller numbers: a projection of rows 0 to 0",
        ):
            index.search(huge, 2)
