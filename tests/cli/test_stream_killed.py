"""A stream that is stopped or killed, and gone on with, ends in the same bytes as one that ran in
peace.
"""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.cli.streams import run_killed, stdin_of, stream_in

KILL, TERM, INT = signal.SIGKILL, signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize("form, signals", [("jsonl", [KILL, TERM, KILL, INT]), ("raw", [KILL])])
def test_a_stream_that_is_stopped_at_random_moments_ends_in_the_same_bytes(
    tmp_path: Path, run: Run, form: str, signals: list[signal.Signals]
) -> None:
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((6007, 13)) * np.linspace(3, 1, 13)).astype(np.float32)
    X[rng.integers(0, 6007, 9)] = np.nan
    data = X.tobytes()
    options = [
        "--bits",
        7,
        "--epochs",
        701,
        "--output-format",
        form,
        "--save-every",
        211,
        "--dim",
        13,
    ]
    whole, apart = tmp_path / "whole", tmp_path / "apart"
    whole.mkdir()
    apart.mkdir()
    with stdin_of(data):
        assert run("stream", *options, "-o", whole / "codes", "--state", whole / "state").code == 0
    arguments: list[object] = [*options, "-o", apart / "codes", "--state", apart / "state"]
    said = run_killed(
        data, apart / "codes", (whole / "codes").stat().st_size, arguments, signals, Random(0)
    )
    for number, words in zip(signals, said, strict=True):
        assert ("feed again from vector" in words) == (number != KILL)
    first = int(run("stream", "--state", apart / "state", "--position", "bytes").out)
    assert 0 < first < len(data)
    with stdin_of(data[first:]):
        assert run("stream", *arguments).code == 0
    assert stream_in(apart) == stream_in(whole)


@pytest.mark.parametrize("form", ["jsonl", "npy"])
def test_a_killed_stream_of_any_input_goes_on_by_its_position_or_from_its_start(
    tmp_path: Path, run: Run, form: str
) -> None:
    X = (np.random.default_rng(6).standard_normal((3001, 13)) * np.linspace(3, 1, 13)).astype(
        np.float64
    )
    file = io.BytesIO()
    np.save(file, X)
    lines = b"".join(
        json.dumps({"id": i, "vector": row.tolist()}).encode() + b"\n" for i, row in enumerate(X)
    )
    data = file.getvalue() if form == "npy" else lines
    whole, apart = tmp_path / "whole", tmp_path / "apart"
    arguments: dict[Path, list[object]] = {}
    for folder in (whole, apart):
        folder.mkdir()
        places = ["-o", folder / "codes", "--state", folder / "state"]
        arguments[folder] = ["--bits", 7, "--epochs", 701, "--save-every", 211, *places]
    with stdin_of(data):
        assert run("stream", *arguments[whole]).code == 0
    run_killed(data, apart / "codes", len(X), arguments[apart], [KILL], Random(1))
    taken = int(run("stream", "--state", apart / "state", "--position", "vectors").out)
    assert 0 < taken < len(X)
    if form == "jsonl":
        first, more = int(run("stream", "--state", apart / "state", "--position", "bytes").out), []
        assert json.loads(data[first:].splitlines()[0])["id"] == taken
    else:
        first, more = 0, ["--from-start"]
    with stdin_of(data[first:]):
        assert run("stream", *arguments[apart], *more).code == 0
    assert stream_in(apart) == stream_in(whole)
