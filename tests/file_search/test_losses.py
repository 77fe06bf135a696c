"""Files of winner-take-all codes are searched by what the query loses: a collection with the same
rows is the truth.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import Collection, FlatIndex, MultiIndex
from bitkin.errors import ArgumentError, InvalidInputError
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.collection.test_losses import HASHER, Q, X

IDS = np.random.default_rng(5).permutation(2000)[:700]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    np.save(folder / "vectors.npy", X)
    np.save(folder / "queries.npy", Q)
    np.save(folder / "ids.npy", IDS)
    np.save(folder / "allow.npy", np.sort(IDS)[100:400])
    HASHER.save(folder / "model")
    for name, index in (
        ("index", FlatIndex(HASHER.spec_)),
        ("multi", MultiIndex(HASHER.spec_)),
    ):
        index.add(HASHER.encode(X), IDS)
        index.remove(IDS[:70])
        index.save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def truth(k: int, index: str = "flat", **options: Any) -> Any:
    collection = Collection.create(None, HASHER, index=index)
    collection.add(X, ids=IDS)
    collection.remove(IDS[:70])
    return collection.search(Q, k, **options)


def search(k: int, index: str = "index", **options: Any) -> Any:
    return bitkin.search_files(index, "queries.npy", model="model", k=k, **options)


def require_same(found: Any, hits: Any) -> None:
    assert found.ids.tolist() == hits.ids.tolist()
    assert found.distances.dtype == hits.distances.dtype
    np.testing.assert_allclose(found.distances, hits.distances, rtol=1e-12)


@pytest.mark.parametrize("first", [None, "estimate", "codes"])
def test_every_stage_finds_what_a_collection_finds(first: str | None) -> None:
    allow = np.load("allow.npy")
    for k, oversample in ((1, 1), (7, 1), (7, 10), (700, 1)):
        over: dict[str, Any] = {"oversample": oversample, "first": first}
        require_same(search(k, **over), truth(k, stage="estimate", **over))
        require_same(
            search(k, stage="estimate", allow="allow.npy", **over),
            truth(k, stage="estimate", allow=allow, **over),
        )
        require_same(search(k, vectors="vectors.npy", ids="ids.npy", **over), truth(k, **over))


def test_codes_are_counted_where_that_is_asked_for() -> None:
    require_same(search(5, stage="codes"), truth(5, stage="codes"))
    HASHER.encode(Q).save("asked")
    require_same(bitkin.search_files("index", "asked", k=5), truth(5, stage="codes"))


def test_an_index_that_looks_rows_up_is_rescored_by_losses() -> None:
    require_same(search(6, index="multi"), truth(6, index="multi", stage="estimate"))
    with pytest.raises(ArgumentError, match=r"^first: must not be estimate for a MultiIndex"):
        search(6, index="multi", first="estimate")


def test_the_command_finds_the_same_and_says_what_its_distances_are(run: Run) -> None:
    ask = ("search", "index", "queries.npy", "-m", "model", "-k", 4)
    *found, last = run(*ask, "--explain", "--json").objects
    hits = truth(4, stage="estimate")
    assert [line["ids"] for line in found] == hits.ids.tolist()
    assert np.allclose([line["distances"] for line in found], hits.distances, rtol=1e-6)
    explained = last["explain"]
    assert explained["first"] == "estimate"
    assert explained["why"] == "what the query loses ranks rows better than counting"
    assert "distance: loss of the query, as a share of a random code's\n" in run(*ask).out


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"corrections": "c"}, "^corrections: means nothing for a WTAHash: its codes are scored"),
        ({"metric": "ip"}, "^metric: means nothing for stage='estimate' of a WTAHash, whose codes"),
        ({"ids": "ids.npy"}, "^ids: means nothing for stage='estimate' of a WTAHash"),
        (
            {"stage": "estimate", "vectors": "vectors.npy"},
            "^vectors: means nothing for stage='estimate' of a WTAHash",
        ),
        ({"stage": "codes", "first": "estimate"}, "^first: means nothing for stage='codes'"),
        ({"stage": "codes", "oversample": 3}, "^oversample: means nothing for stage='codes'"),
    ],
)
def test_arguments_that_mean_nothing_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        search(3, **arguments)


def test_codes_that_cannot_be_scored_are_counted_unless_an_estimate_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bitkin.rescoring.losses.MOST_SYMBOLS", 3)
    require_same(search(3), truth(3, stage="codes"))
    for options in ({"stage": "estimate"}, {"first": "estimate"}):
        with pytest.raises(InvalidInputError, match=r"an alphabet of at most 3 symbols"):
            search(3, **options)
