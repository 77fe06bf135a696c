"""A search of a stream's codes, and of a saved EpochIndex, from files and from the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin.errors import ArgumentError, InvalidInputError
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

X: npt.NDArray[np.float32] = (
    np.random.default_rng(4).standard_normal((400, 11)) * np.linspace(3, 1, 11)
).astype("f4")
Q = X[:9] + np.float32(0.1)


# streams here begin without a fit, so their first rows are warned of
pytestmark = pytest.mark.filterwarnings("ignore:The first .* rows were coded by random directions")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hasher = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=100)
    with bitkin.StreamRun(hasher, "codes", state="state", corrections="kept") as stream:
        stream.encode(X)
    bitkin.EpochIndex.from_stream("state").save("index")
    np.save("queries.npy", Q)
    np.save("vectors.npy", X)


def lists(found: Any) -> list[Any]:
    return [found.ids.tolist(), found.distances.tolist()]


def test_a_stream_and_a_saved_index_are_searched_without_a_model() -> None:
    right = lists(bitkin.EpochIndex.load("index").search(Q, 5))
    assert lists(bitkin.search_files("index", "queries.npy", k=5)) == right
    assert lists(bitkin.search_files("state", "queries.npy", k=5)) == right
    by_codes = bitkin.search_files("codes", "queries.npy", corrections="kept", k=5)
    assert lists(by_codes) == right
    np.save("lone.npy", Q[3])
    assert bitkin.search_files("state", "lone.npy", k=5).ids.tolist() == [right[0][3]]
    np.save("none.npy", Q[:0])
    assert bitkin.search_files("state", "none.npy", k=5).ids.shape == (0, 5)


@pytest.mark.parametrize("index", ["index", "state"])
def test_vectors_make_distances_exact(index: str) -> None:
    found = bitkin.search_files(index, "queries.npy", k=5, vectors="vectors.npy", oversample=100)
    assert lists(found) == lists(bitkin.evaluate.nearest(X, Q, 5))


@pytest.mark.parametrize("index", ["index", "state"])
def test_an_estimate_stays_one_where_vectors_are_given(index: str) -> None:
    found = bitkin.search_files(index, "queries.npy", k=5, vectors="vectors.npy", stage="estimate")
    right = bitkin.EpochIndex.load("index")
    if index == "state":
        right = bitkin.EpochIndex.from_stream("state", vectors=X)
    assert lists(found) == lists(right.search(Q, 5))


def test_exact_looks_at_as_many_rows_as_the_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    search = bitkin.EpochIndex.search

    def note(index: Any, queries: Any, k: int, *, oversample: int, allow: Any, first: Any) -> Any:
        asked.append((k, k * oversample))
        return search(index, queries, k, oversample=oversample, allow=allow, first=first)

    monkeypatch.setattr(bitkin.EpochIndex, "search", note)
    bitkin.search_files("index", "queries.npy", k=2, vectors="vectors.npy", oversample=3)
    assert set(asked) == {(6, 60)}


def test_a_filter_and_ids_of_vectors_are_kept() -> None:
    np.save("allowed.npy", np.arange(50, 60))
    found = bitkin.search_files("index", "queries.npy", k=3, allow="allowed.npy")
    assert set(found.ids.ravel()) <= set(range(50, 60))
    order = np.random.default_rng(0).permutation(400)
    np.save("shuffled.npy", X[order])
    np.save("ids.npy", order)
    options: dict[str, Any] = {"k": 5, "vectors": "shuffled.npy", "ids": "ids.npy"}
    found = bitkin.search_files("index", "queries.npy", oversample=100, **options)
    assert lists(found) == lists(bitkin.evaluate.nearest(X, Q, 5))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"model": "state"}, ArgumentError, "^model: means nothing here"),
        ({"radius": 3}, ArgumentError, "^radius: means nothing here"),
        ({"stage": "codes"}, ArgumentError, "^stage: must be estimate or exact"),
        ({"stage": "exact"}, ArgumentError, "^stage: exact needs vectors"),
        ({"stage": "x"}, InvalidInputError, "stage must be one of"),
        ({"ids": "queries.npy"}, ArgumentError, "^ids: means nothing without vectors"),
        ({"corrections": "kept"}, ArgumentError, "^corrections: means nothing here: index has"),
        ({"metric": "ip"}, ArgumentError, "^metric: must be l2, which index was made for, got ip"),
        ({"queries": "kept"}, InvalidInputError, "kept must be a file of vectors"),
    ],
)
def test_what_means_nothing_for_several_models_is_named(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    given = {"index": "index", "queries": "queries.npy"} | options
    with pytest.raises(error, match=says):
        bitkin.search_files(**given)


def test_the_command_searches_streams(run: Run) -> None:
    right = bitkin.EpochIndex.load("index").search(Q, 5)
    for index in ("state", "index"):
        lines = run("search", index, "queries.npy", "-k", 5, "--json").objects
        assert [line["ids"] for line in lines] == right.ids.tolist()
    done = run("search", "codes", "queries.npy", "-k", 5, "--corrections", "kept", "--explain")
    assert done.code == 0
    assert "EpochIndex" in done.out
    said = " ".join(done.out.split())
    assert re.search(r"first stage: \w+ \(in \d of \d epochs; in the largest, ", said)
    done = run("search", "state", "queries.npy", "-m", "state")
    assert done.code == 2
    assert "'--model': means nothing here: all models are with their codes." in done.err
    done = run("search", "codes", "queries.npy")
    assert done.code == 1
    assert "codes has no corrections" in done.err


def test_a_state_with_models_beside_it_is_described_as_a_state() -> None:
    Path("codes.epochs").rename("state.epochs")
    assert bitkin.describe_file("state")["kind"] == "state of a stream"
