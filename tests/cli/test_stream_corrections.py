"""`bitkin stream --corrections`: two numbers a vector, by which codes whose vectors are gone are
searched.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from tests.cli.conftest import Run
from tests.cli.streams import run_killed, stdin_of, stream_in

_rng = np.random.default_rng(3)
X: npt.NDArray[np.float32] = (_rng.standard_normal((1203, 13)) * np.linspace(3, 1, 13)).astype("f4")
UNUSABLE = [0, 300, 301, 1202]
WITH_FLAWS = X.copy()
WITH_FLAWS[UNUSABLE[:3]] = np.nan
WITH_FLAWS[UNUSABLE[3]] = 1e18  # finite, but the square of its length is not
QUERIES = X[:9] + np.float32(0.1)
OPTIONS = ("--dim", 13, "--bits", 7, "--epochs", 401)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def index_of(folder: Path, metric: str) -> bitkin.EpochIndex:
    """Build an index from what a stream has written, as a user would."""
    index = bitkin.EpochIndex(metric)
    codes = np.fromfile(folder / "codes", dtype=np.uint8).reshape(-1, 1)
    numbers = np.fromfile(folder / "corrections", dtype="<f4").reshape(-1, 2)
    lines = [
        json.loads(line) for line in (folder / "codes.epochs/rows.jsonl").read_text().splitlines()
    ]
    starts = [line for line in lines if "model" in line]
    empty = np.zeros(len(codes), dtype=bool)
    empty[[line["row"] for line in lines if "empty" in line]] = True
    for i, start in enumerate(starts):
        first = start["row"] if i else 0
        rows = slice(first, starts[i + 1]["row"] if i + 1 < len(starts) else len(codes))
        fingerprint = index.begin(bitkin.load(folder / "codes.epochs" / start["model"]))
        packed = bitkin.Codes.from_bytes(codes[rows], 7)
        of_epoch = bitkin.Codes(
            packed.words, packed.spec, empty=empty[rows], fingerprint=fingerprint
        )
        index.add_codes(of_epoch, numbers[rows])
    return index


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_codes_and_corrections_are_searched_as_if_the_index_had_followed_the_stream(
    tmp_path: Path, run: Run, metric: str
) -> None:
    hasher = bitkin.ProjectionHash(7, projection="opast", rotation="auto", epochs=401)
    hasher.fit(X[:200]).save("model")
    with stdin_of(WITH_FLAWS.tobytes()):
        done = run(
            "stream",
            "-m",
            "model",
            "-o",
            "codes",
            "--corrections",
            "corrections",
            "--metric",
            metric,
        )
    assert done.code == 0
    assert "not finite in float32, or longer than 1e18" in done.err
    index, followed = index_of(tmp_path, metric), bitkin.EpochIndex(metric)
    rows = WITH_FLAWS.copy()
    rows[UNUSABLE] = np.nan
    with pytest.warns(UserWarning, match="never found"):
        followed.follow(hasher, rows)
    assert [epoch.fingerprint for epoch in index.epochs] == [
        epoch.fingerprint for epoch in followed.epochs
    ]
    assert len(index) == 1203
    mine, theirs = index.search(QUERIES, 20), followed.search(QUERIES, 20)
    assert np.array_equal(mine.ids, theirs.ids)
    assert np.allclose(mine.distances, theirs.distances, rtol=1e-4)
    numbers = np.fromfile("corrections", dtype="<f4").reshape(-1, 2)
    assert not numbers[UNUSABLE].any()
    assert np.isfinite(numbers).all()


def test_a_stream_that_is_killed_and_gone_on_with_has_the_same_corrections(
    tmp_path: Path, run: Run
) -> None:
    whole, apart = tmp_path / "whole", tmp_path / "apart"
    whole.mkdir()
    apart.mkdir()
    data = np.tile(X, (4, 1)).tobytes()
    options = [*OPTIONS, "--save-every", 97]
    files = {
        folder: [
            "-o",
            folder / "codes",
            "--corrections",
            folder / "corrections",
            "--state",
            folder / "state",
        ]
        for folder in (whole, apart)
    }
    with stdin_of(data):
        assert run("stream", *options, *files[whole]).code == 0
    arguments: list[object] = [*options, *files[apart]]
    run_killed(data, apart / "codes", 4 * len(X), arguments, [signal.SIGKILL], Random(1))
    first = int(run("stream", "--state", apart / "state", "--position", "vectors").out)
    assert 0 < first < 4 * len(X)
    assert (apart / "corrections").stat().st_size >= 8 * first
    with stdin_of(data[first * 52 :]):
        assert run("stream", *arguments).code == 0
    assert (whole / "corrections").stat().st_size == 8 * 4 * len(X)
    assert stream_in(apart) == stream_in(whole)


def test_a_state_goes_on_with_the_same_corrections_only(run: Run) -> None:
    arguments: list[Any] = [*OPTIONS, "-o", "codes", "--state", "state"]
    with stdin_of(X[:300].tobytes()):
        assert run("stream", *arguments, "--corrections", "kept").code == 0
    for other in ([], ["--corrections", "else"], ["--corrections", "kept", "--metric", "ip"]):
        with stdin_of(b""):
            done = run("stream", *arguments, *other)
        assert done.code == 1
        assert "the state of another stream: --" in done.err
    with stdin_of(b""):
        assert run("stream", *OPTIONS, "-o", "other", "--corrections", "kept").code == 1
    with stdin_of(X[:10].tobytes()):
        assert run("stream", *arguments, "--corrections", "kept", "--fresh").code == 0
    assert Path("kept").stat().st_size == 80


def test_with_strict_a_vector_that_is_too_long_ends_the_stream(run: Run) -> None:
    with stdin_of(WITH_FLAWS[-3:].tobytes()):
        done = run("stream", *OPTIONS, "-o", "codes", "--corrections", "kept", "--strict")
    assert done.code == 1
    assert "vector 2 of the stream is not finite in float32, or longer than 1e18" in done.err
    assert Path("kept").stat().st_size == 16


@pytest.mark.parametrize(
    "options, message",
    [
        (["--metric", "l2"], "means nothing without --corrections"),
        (["--corrections", "kept", "--metric", "l1"], "l2"),
        (["--corrections", "codes"], "codes is also given to --out"),
        (["--corrections", "kept", "--epochs", "none"], "needs epochs"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Run, options: list[str], message: str
) -> None:
    with stdin_of(b""):
        done = run("stream", "--dim", 13, "--bits", 7, "-o", "codes", *options)
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("with_state", [True, False])
def test_the_end_says_how_to_search_and_that_works(run: Run, with_state: bool) -> None:
    np.save("queries.npy", QUERIES)
    np.save("VECTORS.npy", X)

    def next_command(*options: object) -> list[str]:
        state = ("--state", "state") if with_state else ()
        with stdin_of(X.tobytes()):
            done = run("stream", *OPTIONS, "-o", "codes", *state, "--fresh", *options)
        assert done.code == 0, done
        said = next(line for line in done.err.splitlines() if line.startswith("bitkin: next: "))
        words = said.removeprefix("bitkin: next: bitkin ").partition(",")[0].split()
        return [word.replace("VECTORS", "VECTORS.npy") for word in words]

    command = next_command("--corrections", "kept")
    assert run(*command, "-k", 3, "--json").objects[0]["ids"]
    command = next_command()
    assert "--vectors" in command
    assert run(*command, "-k", 3, "--json").objects[0]["ids"][0] == 0


def test_codes_without_epochs_say_that_they_cannot_be_searched(run: Run) -> None:
    with stdin_of(X.tobytes()):
        done = run("stream", "--dim", 13, "--bits", 7, "-o", "codes", "--epochs", "none")
    assert "codes cannot be searched: with --epochs none" in done.err
