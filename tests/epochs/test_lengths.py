"""A metric and models that see the lengths of rows differently: first rows are refused, later ones
and queries warned of.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array

import bitkin
from bitkin import EpochIndex, ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, recall
from tests.collection.test_row_lengths import rows_of
from tests.hashers.streams.data import everything, live

FIXES = [
    ("cosine", False, "metric='cosine' does not depend on lengths.*Fit it with normalize=True"),
    ("l2", True, "metric='l2' depends on lengths.*Fit it with normalize=False"),
]


def hasher_for(X: npt.NDArray[np.float32], **parameters: Any) -> ProjectionHash:
    return ProjectionHash(16, rotation="random", **parameters).fit(X)


@pytest.mark.parametrize(("metric", "normalize", "fix"), FIXES)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_first_rows_are_refused_with_the_fix(
    metric: str, normalize: bool, fix: str, form: Any
) -> None:
    X = rows_of(0.6)
    index = EpochIndex(metric)
    with pytest.raises(InvalidInputError, match=rf"vectors must have rows of like length.*{fix}"):
        index.add(hasher_for(X, normalize=normalize), form(X))
    assert len(index) == 0
    assert index.epochs == []
    index.add(hasher_for(X, normalize=not normalize), form(X))
    wrong, hasher = EpochIndex(metric), hasher_for(X, normalize=normalize)
    wrong.begin(hasher)
    wrong.add_codes(hasher.encode(X), bitkin.corrections(hasher, X, metric))
    truth = nearest(X, X[:31], 10, metric).ids
    right_share, wrong_share = (recall(one.search(X[:31], 20).ids, truth) for one in (index, wrong))
    assert right_share > wrong_share + 0.02


def test_later_rows_are_taken_with_one_warning() -> None:
    X, equal = rows_of(0.6), rows_of(0.01)
    index, hasher = EpochIndex("cosine"), hasher_for(X)
    index.add(hasher, equal[:5])  # too few to say
    with pytest.warns(UserWarning, match="rows of like length.*Fit it with normalize=True") as told:
        index.add(hasher, X[:100])
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.add(hasher, X[100:200])  # it was said
        index.search(X[:100], 3)
        index.retire(
            hasher.fingerprint_, into=hasher_for(equal), vectors=np.vstack([equal[:5], X[:200]])
        )
    assert len(index) == 205


def test_a_stream_that_is_refused_has_learned_nothing() -> None:
    X = rows_of(0.6)
    hasher = live(epochs=90).fit(X[:100])
    other = live(epochs=90).fit(X[:100])
    index = EpochIndex("cosine")
    with pytest.raises(InvalidInputError, match="vectors must have rows of like length"):
        index.follow(hasher, X[100:])
    assert everything(hasher) == everything(other)
    assert len(index) == 0
    index.follow(hasher, X[100:110])  # too few to say
    with pytest.warns(UserWarning, match="rows of like length"):
        index.follow(hasher, X[110:])
    assert len(index) == 500


def test_queries_show_the_lengths_of_rows_that_came_as_codes(tmp_path: Path) -> None:
    X = rows_of(0.6)
    hasher = hasher_for(X)
    index = EpochIndex("cosine")
    index.begin(hasher)
    index.add_codes(hasher.encode(X), bitkin.corrections(hasher, X, "cosine"))
    index.save(tmp_path / "index")
    for one in (index, bitkin.load(tmp_path / "index")):
        one.search(X[:20], 3)  # too few to say
        with pytest.warns(UserWarning, match="queries must have rows of like length") as told:
            one.search(X[20:60], 3)
        assert [warning.filename for warning in told] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.search(X[:100], 3)  # it was said


def test_lengths_that_do_no_harm_are_taken() -> None:
    equal, around_zero, X = rows_of(0.01), rows_of(0.6, shift=0.0), rows_of(0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows, metric, parameters in (
            (equal, "cosine", {}),
            (around_zero, "cosine", {}),
            (X, "cosine", {"center": False}),
            (X, "cosine", {"normalize": True}),
            (X, "l2", {}),
            (X, "ip", {}),
        ):
            index = EpochIndex(metric)
            index.add(hasher_for(rows, **parameters), rows)
            index.search(rows[:100], 3)
