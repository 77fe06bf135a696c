"""A metric and a hasher that see the lengths of rows differently are refused once it matters."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array

from bitkin import Collection, ProjectionHash, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, recall


def rows_of(spread: float, shift: float = 2.0, n: int = 600) -> npt.NDArray[np.float32]:
    """Unit rows around one direction, times lengths that differ."""
    rng = np.random.default_rng(0)
    X: npt.NDArray[np.float64] = rng.standard_normal((n, 30)) + shift * np.eye(30)[0] * np.sqrt(30)
    X *= rng.uniform(1 - spread, 1 + spread, (n, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32)


def made(X: Any, metric: str, **parameters: Any) -> Collection:
    return Collection.create(None, ProjectionHash(16, **parameters).fit(X), metric=metric)


@pytest.mark.parametrize(
    ("metric", "normalize", "fix"),
    [
        ("cosine", False, "metric='cosine' does not depend on lengths.*Fit it with normalize=True"),
        ("l2", True, "metric='l2' depends on lengths.*Fit it with normalize=False"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_lengths_that_spoil_codes_are_refused_with_the_fix(
    metric: str, normalize: bool, fix: str, form: Any
) -> None:
    X = rows_of(0.6)
    collection = made(X, metric, normalize=normalize)
    with pytest.raises(InvalidInputError, match=rf"vectors must have rows of like length.*{fix}"):
        collection.add(form(X))
    assert len(collection) == 0
    right = made(X, metric, normalize=not normalize)
    right.add(form(X))
    truth = nearest(X, X[:50], 10, metric).ids
    assert recall(right.search(X[:50], k=10).ids, truth) > 0.9


def test_rows_that_come_one_by_one_are_taken_with_one_warning() -> None:
    X = rows_of(0.6)
    collection = made(X, "cosine")
    for row in X[:31]:
        collection.add(row[None])
    with pytest.warns(UserWarning, match="rows of like length.*Fit it with normalize=True") as told:
        collection.add(X[31:33])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collection.add(X[33:40])  # it was said
    assert [warning.filename for warning in told] == [__file__]
    assert len(collection) == 40


def test_rows_that_are_gone_do_not_count() -> None:
    X = rows_of(0.01)
    collection = made(X, "cosine")
    ids = collection.add(X[:300])
    collection.remove(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collection.add(3 * X[300:])
    other = made(X, "cosine")
    with pytest.raises(InvalidInputError, match="ids"):
        other.add(X[:1], ids=[1, 2])
    with pytest.raises(InvalidInputError, match="rows of like length"):
        other.add(rows_of(0.6))


def test_rows_that_were_refused_are_forgotten() -> None:
    X = rows_of(0.6)
    collection = made(X, "cosine")
    with pytest.raises(InvalidInputError, match="rows of like length"):
        collection.add(iter([X[:300], X[300:]]))
    assert len(collection.add(X / np.linalg.norm(X, axis=1, keepdims=True))) == 600


def test_a_wta_hash_that_centres_is_refused_too() -> None:
    X = rows_of(0.6)
    hasher = WTAHash(64, center=True).fit(X)
    with pytest.raises(InvalidInputError, match=r"WTAHash.*length 1.*center=False"):
        Collection.create(None, hasher, metric="cosine").add(X)
    assert len(Collection.create(None, hasher, metric="l2").add(X)) == 600
    plain = WTAHash(64, center=False).fit(X)
    assert plain.mean_ is None
    assert len(Collection.create(None, plain, metric="cosine").add(X)) == 600


def test_lengths_that_do_no_harm_are_taken() -> None:
    equal, around_zero = rows_of(0.01), rows_of(0.6, shift=0.0)
    for X in (equal, around_zero):
        for metric, normalize in (("cosine", False), ("l2", True)):
            assert len(made(X, metric, normalize=normalize).add(X)) == 600
    X = rows_of(0.6)
    X[:5] = 0
    for metric, parameters in (
        ("cosine", {"normalize": True}),
        ("cosine", {"center": False}),
        ("l2", {}),
        ("ip", {}),
        ("ip", {"normalize": True}),
    ):
        assert len(made(X, metric, **parameters).add(X)) == 600
