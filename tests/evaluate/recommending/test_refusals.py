"""What `bitkin.recommend` refuses: each message names the argument and shows the value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import BitkinError, InvalidInputError

X = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"recall": 0}, "recall must be above 0 and up to 1, such as 0.95, got 0"),
        ({"recall": 95}, "recall must be above 0 and up to 1, such as 0.95, got 95"),
        ({"recall": float("nan")}, "recall must be above 0 .* got nan"),
        ({"recall": True}, "recall must be above 0 .* got True"),
        ({"recall": "high"}, "recall must be above 0 .* got 'high'"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"k": 2.5}, "k must be a whole number, got 2.5"),
        ({"max_bytes": 0}, "max_bytes must be a number of bytes per vector above 0, or None"),
        ({"max_bytes": -3}, "got -3"),
        ({"max_bytes": "64"}, "max_bytes must be .* got '64'"),
        ({"max_bytes": float("nan")}, "max_bytes must be .* got nan"),
        ({"metric": "cosin"}, "metric must be one of .* got 'cosin'. Did you mean 'cosine'?"),
        ({"metric": "jaccard"}, "metric must be one of .* got 'jaccard'"),
        ({"streaming": 1}, "streaming must be True or False, got 1"),
        ({"streaming": "no"}, "streaming must be True or False, got 'no'"),
        ({"queries": X[:, :5]}, "queries must have the 6 columns of X, got 5"),
        ({"queries": X[:0]}, "queries must have at least one row"),
        ({"queries": X[:1]}, "queries must be at least 2, .* got 1 queries"),
        ({"queries": X[:9] * np.nan}, "queries"),
        ({"bits": 0}, "bits must be between 1 and"),
        ({"bits": ()}, "bits must be a whole number or several"),
        ({"bits": "64"}, "bits must be a whole number or several, .* got '64'"),
        ({"methods": "pcaa"}, "methods must be names out of .* got 'pcaa'"),
        ({"methods": []}, "methods must name at least one method"),
        ({"n_queries": 0}, "n_queries must be at least 1, got 0"),
        ({"sample_rows": 0}, "sample_rows must be at least 1, got 0"),
        ({"time_limit": 0}, "time_limit must be seconds above 0 or None, got 0"),
        ({"time_limit": "1 min"}, "time_limit must be seconds .* got '1 min'"),
        ({"random_state": "x"}, "random_state"),
        ({"random_state": -1}, "random_state"),
        ({"progress": 3}, "progress must be a function or None, got 3"),
    ],
)
def test_an_argument_is_refused_by_its_name(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        bitkin.recommend(X, **arguments)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (X[:0], "X"),
        (X[:4], "X must have at least 5 rows, .* got 4. Give queries=..."),
        (X[:7], "queries must be at least 2, .* got 1 rows of X that are held out"),
        (X[0, 0], "X"),
        (X * np.nan, "X .*NaN|NaN .*"),
        (iter([X]), "X must be read more than once, got an iterator"),
        (np.array([["a"]]), "X"),
        ("missing.npy", "missing.npy"),
    ],
)
def test_rows_are_refused_with_what_to_do(rows: Any, words: str) -> None:
    with pytest.raises(BitkinError, match=words):
        bitkin.recommend(rows)


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="target"):
        bitkin.recommend(X, target=0.9)  # type: ignore[call-arg]


def test_a_folder_is_built_whole_or_not_at_all(tmp_path: Path) -> None:
    found = bitkin.recommend(X, recall=0.2, k=3, methods="nystrom", bits=8)
    with pytest.raises(BitkinError):
        found.build(X * np.nan, tmp_path / "here")
    assert list(tmp_path.iterdir()) == []
    with found.build(X) as in_memory, found.build(X, tmp_path / "here") as in_folder:
        assert in_folder.search(X[:9], 3).ids.tolist() == in_memory.search(X[:9], 3).ids.tolist()
    with bitkin.Collection.open(tmp_path / "here") as again:
        assert len(again) == len(X)
    names = [f"row {i}" for i in range(len(X))]
    rest = [{"year": i % 7} for i in range(len(X))]
    for path in (None, tmp_path / "named"):
        with found.build(X, path, ids=names, metadata=rest, fields={"year": int}) as named:
            hits = named.search(X[:9], 3, where={"year": 1})
            assert hits.metadata is not None
            assert hits.metadata[0][0] == {"year": 1}
            assert named.ids.tolist() == names
    with pytest.raises(InvalidInputError, match="6"):
        found.build(X[:, :5])


def test_sizes_may_be_an_array_and_numbers_of_numpy() -> None:
    of_numpy: dict[str, Any] = {
        "recall": np.float32(0.5),
        "k": np.int64(3),
        "bits": np.array([8, 16]),
    }
    found = bitkin.recommend(X, methods="nystrom", **of_numpy)
    assert found.command == "bitkin.recommend(X, recall=0.5, k=3, bits=(8, 16), methods='nystrom')"
    unseeded = bitkin.recommend(X, recall=0.2, k=3, methods="nystrom", bits=8, random_state=None)
    assert f"random_state={unseeded.facts['seed']}" in str(unseeded.command)
