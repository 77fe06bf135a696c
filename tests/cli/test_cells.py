"""Cells on the command line: how many a search looks into, and how many find enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import ArgumentError, InvalidInputError
from tests.cli.conftest import Run
from tests.cli.search_folder import folder, made  # noqa: F401  # fixtures
from tests.cli.test_search_stages import require_same, require_wrong_usage

pytestmark = pytest.mark.usefixtures("folder")

ASK = ("queries.npy", "-m", "model")


def built(run: Run, *options: object) -> bitkin.CellIndex:
    """Build `cells`, an index of 20 cells."""
    done = run("index", "codes", "-o", "cells", "--kind", "cells", "--n-cells", 20, *options)
    assert done.code == 0
    index = bitkin.load("cells")
    assert isinstance(index, bitkin.CellIndex)
    return index


@pytest.mark.parametrize("probes", [1, 7, 1000])
def test_a_search_looks_into_as_many_cells_as_it_is_told(run: Run, probes: int) -> None:
    index = built(run, "--probes", 2)
    queries = bitkin.load("model").encode(np.load("queries.npy"))
    asked = ("search", "cells", *ASK, "--probes", probes)
    *found, explained = run(*asked, "-k", 5, "--json", "--explain").objects
    require_same(found, index.search(queries, 5, probes=probes))
    rows_in = explained["explain"]["stages"]["codes"]["rows_in_a_query"]
    assert rows_in == pytest.approx(index.count_candidates(queries, probes=probes).mean(), abs=0.1)
    within = run(*asked, "--radius", 25, "--json").objects
    expected = index.search_radius(queries, 25, probes=probes)
    assert [line["ids"] for line in within] == [
        expected.ids[a:b].tolist()
        for a, b in zip(expected.offsets[:-1], expected.offsets[1:], strict=True)
    ]
    files: Any = {"index": "cells", "queries": "queries.npy", "model": "model", "k": 5}
    again = bitkin.search_files(**files, probes=probes)
    assert [line["ids"] for line in found] == [row[row >= 0].tolist() for row in again.ids]
    exact = bitkin.search_files(**files, probes=1000, vectors="vectors.npy", oversample=50)
    truth = bitkin.evaluate.nearest(np.load("vectors.npy"), np.load("queries.npy"), 5)
    assert np.array_equal(exact.ids, truth.ids)


def test_probes_are_refused_where_there_are_no_cells(run: Run) -> None:
    assert run("index", "codes", "-o", "bands", "--kind", "bands").code == 0
    for index, kind in (("index", "FlatIndex"), ("bands", "BandIndex")):
        refused = run("search", index, *ASK, "--probes", 3)
        require_wrong_usage(refused, "--probes", f"means nothing for a {kind}, which has no cells")
        with pytest.raises(ArgumentError, match=f"probes: means nothing for a {kind}"):
            bitkin.search_files(index, "queries.npy", model="model", probes=3)
    built(run)
    require_wrong_usage(run("search", "cells", *ASK, "--probes", 0), "--probes", "0")
    with pytest.raises(InvalidInputError, match=r"probes must be between 1 and .*, got 0"):
        bitkin.search_files("cells", "queries.npy", model="model", probes=0)


def test_probes_of_an_index_may_be_set() -> None:
    codes = bitkin.load("codes")
    index = bitkin.CellIndex(codes.spec, 20, probes=1)
    index.add(codes)
    expected = index.search(codes[:9], 5, probes=6)
    index.probes = 6
    found = index.search(codes[:9], 5)
    assert np.array_equal(found.ids, expected.ids)
    with pytest.raises(InvalidInputError, match=r"probes must be between 1 and .*, got 0"):
        index.probes = 0
    assert index.probes == 6


def test_a_recall_that_is_wanted_chooses_the_probes(run: Run) -> None:
    done = run("index", "codes", "-o", "cells", "--kind", "cells", "--n-cells", 20, "--recall", 0.9)
    index = bitkin.load("cells")
    tuning = bitkin.CellIndex.tune(bitkin.load("codes"), 0.9, n_cells=20)
    assert (index.probes, len(index), index.n_cells) == (tuning.probes, 203, 20)
    assert f"{tuning.probes} probes: find {tuning.recall:.3f} (" in done.out
    [bands] = run(
        "index", "codes", "-o", "bands", "--kind", "bands", "--recall", 0.5, "--json"
    ).objects
    assert bands["probes"] == bitkin.load("bands").probes
    assert bands.items() >= {"rows": 203, "k": 10}.items()
    assert bands["interval"][0] < bands["recall"] < bands["interval"][1]


def test_a_recall_goes_with_nothing_that_it_chooses(run: Run) -> None:
    for options, option, says in (
        (("--recall", "0.9"), "--recall", "means nothing without --kind bands or cells"),
        (("--kind", "cells", "--recall", "0"), "--recall", "must be above 0"),
        (("--kind", "cells", "--recall", "1.1"), "--recall", "1.1"),
        (("--kind", "cells", "--recall", "0.9", "--probes", 3), "--probes", "chosen by --recall"),
        (("--kind", "bands", "--recall", "0.9", "--budget", 3), "--budget", "chosen by --recall"),
        (("--kind", "cells", "--n-cells", 2**21), "--n-cells", "2097152"),
    ):
        require_wrong_usage(run("index", "codes", "-o", "other", *options), option, says)
    few = run("search", "index", *ASK, "-k", 0)
    require_wrong_usage(few, "-k", "0")


def test_results_fit_a_terminal_of_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = run("search", "index", *ASK, "-k", 12, "--vectors", "vectors.npy", "--metric", "ip").out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    found = bitkin.search_files(
        "index", "queries.npy", model="model", k=12, vectors="vectors.npy", metric="ip"
    )
    starts = [n for n, line in enumerate(lines) if line[:7].strip().isdecimal()]
    assert len(starts) == 9
    first = " ".join(" ".join(lines[starts[0] : starts[1]]).split()).partition(" ")[2]
    pairs = zip(found.ids[0][:10].tolist(), found.distances[0][:10].tolist(), strict=True)
    assert first == " ".join(f"{i}:{d:.4g}" for i, d in pairs) + " and 2 more"


def test_what_comes_next_names_no_model_that_is_not_there(run: Run) -> None:
    said = run("index", "codes", "-o", "other").out
    assert "next: bitkin search other queries.npy --model MODEL -k 10, with the model" in said
