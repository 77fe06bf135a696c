"""`bitkin classify train --dask`: what a cluster trains is what is trained here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

import bitkin
from bitkin.cli.app import app
from tests.distributed.clusters import ANY_PORT
from tests.learn.heshing_truth import bags

runner = CliRunner()
QUICK = ("--buckets", "256", "--alpha", "1e-4", "--passes", "3")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            dashboard_address=ANY_PORT,
        ) as cluster,
        Client(cluster),
    ):
        yield cluster.scheduler_address


def test_a_folder_of_texts_is_no_file_of_vectors(tmp_path: Path, address: str) -> None:
    options = ("--text", "t", "--label", "l", "-o", "m", "--dask", address)
    done = runner.invoke(app, ["classify", "train", str(tmp_path), *options])
    assert done.exit_code == 2
    assert "is a directory. Give the files in it" in " ".join(done.output.split())


def run(*arguments: object) -> str:
    done = runner.invoke(app, ["classify", "train", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_texts_are_read_by_the_workers(tmp_path: Path, address: str) -> None:
    words = {"rose": "red petals thorns", "moss": "soft green stones", "cat": "fur and paws"}
    files = [tmp_path / f"{name}.jsonl" for name in ("a", "b", "empty")]
    for file, n in zip(files, (40, 25, 0), strict=True):
        lines = [
            json.dumps({"text": f"{words[kind]} {i}", "kind": ["life", kind]})
            for i, kind in enumerate(list(words) * n)
        ]
        file.write_text("\n".join(lines))
    here, there, mixed = (tmp_path / f"{name}.bitkin" for name in ("here", "there", "mixed"))
    given = (*files, "--path", "kind", *QUICK)
    run(*given, "-o", here)
    run(*given, "-o", there, "--dask", address)
    told = json.loads(run(*given, "-o", mixed, "--dask", address, "--shards", 2, "--json"))
    assert (told["rows"], told["classes"], told["passes"]) == (195, 3, 4)
    one, other = bitkin.load(here), bitkin.load(there)
    assert np.array_equal(one.weights_, other.weights_)
    assert one.taxonomy_.classes == other.taxonomy_.classes
    text = bitkin.text_features(["thorns", "paws"])
    assert bitkin.load(mixed).predict(text).tolist() == ["rose", "cat"]


def test_vectors_come_with_their_labels(tmp_path: Path, address: str) -> None:
    X, y = bags(303)
    files = [tmp_path / f"{i}.npy" for i in range(3)]
    for file, part in zip(files, np.array_split(X, 3), strict=True):
        np.save(file, part)
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(y.tolist()))
    here, there = tmp_path / "here.bitkin", tmp_path / "there.bitkin"
    run(*files, "--labels", labels, *QUICK, "-o", here)
    run(*files, "--labels", labels, *QUICK, "-o", there, "--dask", address)
    assert np.array_equal(bitkin.load(here).weights_, bitkin.load(there).weights_)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.jsonl", "--shards", "2"), "--shards means nothing without --dask"),
        (("--example", "icd10", "--dask", "tcp://127.0.0.1:1"), "--dask takes files"),
    ],
)
def test_options_that_mean_nothing_are_usage_errors(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    out = ("-o", str(tmp_path / "model.bitkin"))
    done = runner.invoke(app, ["classify", "train", *arguments, *out])
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
