"""`bitkin dedup --dask`: what is printed and written without a cluster, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.cli import conftest as command_line
from tests.cli.conftest import Run
from tests.cli.test_failures import require_failure, require_usage_error
from tests.dedup.texts import related_texts

run = command_line.run


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two files of texts in the folder we are in."""
    monkeypatch.chdir(tmp_path)
    texts = related_texts(97, seed=9)
    for name, part in (("one.jsonl", texts[:40]), ("two.jsonl", texts[40:])):
        lines = [json.dumps({"key": f"k{len(text)}", "body": text}) for text in part]
        Path(name).write_text("\n".join(lines) + "\n")
    return ["one.jsonl", "two.jsonl"]


def address_of(client: Client) -> str:
    assert client.scheduler is not None
    return str(client.scheduler.address)


def figures(line: str) -> dict[str, Any]:
    """What is printed, but for times, how much was compared, and where it was written."""
    found = json.loads(line)
    return {
        name: value
        for name, value in found.items()
        if name not in ("seconds", "compared", "out", "report", "pairs")
    }


def test_the_same_is_written_on_a_cluster(two_workers: Client, files: list[str], run: Run) -> None:
    options = ["--field", "body", "--id", "key", "-t", 0.6, "--json"]
    outputs = ["out", "report", "pairs"]
    printed = []
    for where, more in (("here", []), ("there", ["--dask", address_of(two_workers)])):
        written = [word for name in outputs for word in (f"--{name}", f"{where}-{name}.jsonl")]
        done = run("dedup", *files, *options, *written, *more)
        assert (done.code, done.err) == (0, "")
        printed.append(figures(done.out))
    assert printed[0] == printed[1]
    assert printed[0]["dropped"] > 10
    for name in outputs:
        here, there = (Path(f"{where}-{name}.jsonl").read_bytes() for where in ("here", "there"))
        assert here == there


def test_clusters_are_shown_with_their_lines(
    two_workers: Client, files: list[str], run: Run
) -> None:
    done = run("dedup", *files, "--field", "body", "--dask", address_of(two_workers))
    assert done.code == 0
    assert "two.jsonl, line" in done.out
    assert "field 'body' by shingles of 3 words" in done.out


def test_a_wrong_address_is_wrong_usage(files: list[str], run: Run) -> None:
    done = run("dedup", *files, "--field", "body", "--dask", "nowhere")
    require_usage_error(done, "--dask", "no Dask scheduler answers at 'nowhere'")


def test_standard_input_and_vectors_are_not_for_a_cluster(files: list[str], run: Run) -> None:
    require_usage_error(run("dedup", "-", "--dask", "tcp://a:1"), "cannot read standard input")
    done = run("dedup", "vectors.npy", "--dask", "tcp://a:1")
    require_usage_error(done, "--dask", "does not go with vectors")


def test_a_line_without_the_field_is_named_as_ever(
    two_workers: Client, files: list[str], run: Run
) -> None:
    done = run("dedup", *files, "--dask", address_of(two_workers))
    # of either file: whichever a worker reads first
    require_failure(done, ".jsonl, line 1: no field 'text'", "--field NAME")
