"""`bitkin search --dask`: what it prints and writes is what it does without."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

import bitkin
from tests.cli.conftest import Run, folder, run  # noqa: F401  # fixtures

pytestmark = pytest.mark.usefixtures("folder")

ASK = ("queries.npy", "-m", "model", "--stage", "codes")


def save_shards() -> None:
    Path("shards").mkdir()
    codes = bitkin.load("codes")
    for i, first in enumerate(range(0, 203, 50)):
        codes[first : first + 50].save(f"shards/part-{i}.bitkin")


@pytest.mark.parametrize("shards", ["index", "codes", "shards"])
def test_a_cluster_answers_as_one_process(run: Run, two_workers: Client, shards: str) -> None:  # noqa: F811
    save_shards()
    np.save("allowed.npy", np.arange(0, 300, 3))
    on = ("--dask", two_workers.scheduler.address)
    for options in (("-k", 4), ("-k", 300), ("--radius", 30), ("--allow", "allowed.npy")):
        here = run("search", "index", *ASK, *options, "--json")
        there = run("search", shards, *ASK, *options, "--json", *on)
        assert there.code == 0, there.err
        assert there.out == here.out
        assert run("search", "index", *ASK, *options, "-o", "here.npz", "--force").code == 0
        assert run("search", shards, *ASK, *options, "-o", "there.npz", "--force", *on).code == 0
        with np.load("here.npz") as mine, np.load("there.npz") as theirs:
            assert list(mine) == list(theirs)
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name])
    here, there = run("search", "index", *ASK), run("search", shards, *ASK, *on)
    seconds = re.compile(r"in [\d.]+ s, [\d,]+ µs")
    assert seconds.sub("", there.out) == seconds.sub("", here.out)
    explained = run("search", shards, *ASK, "--explain", *on)
    assert "first stage: codes" in explained.out
    assert "ShardedIndex, 9 queries" in explained.out


def test_what_workers_cannot_do_with_files_is_refused(run: Run, two_workers: Client) -> None:  # noqa: F811
    on = ("--dask", two_workers.scheduler.address)
    for options, says in (
        (("--vectors", "vectors.npy"), "'--vectors': cannot be given on a cluster"),
        (("--probes", 3), "'--probes': means nothing on a cluster"),
        (("--metric", "l2"), "'--metric': means nothing for --stage codes"),
        (("-k", 3, "--radius", 2), "'--radius': give -k or --radius, not both"),
    ):
        refused = run("search", "index", "queries.npy", "-m", "model", *options, *on)
        assert refused.code == 2
        assert says in " ".join(refused.err.replace("│", " ").split())


def test_a_path_that_workers_cannot_read_is_one_line(run: Run, two_workers: Client) -> None:  # noqa: F811
    missing = run("search", "nowhere", *ASK, "--dask", two_workers.scheduler.address)
    assert missing.code == 1
    assert "nowhere cannot be read: No such file or directory." in missing.err
    assert "give paths that all workers can read" in missing.err
