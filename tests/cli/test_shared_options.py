"""--force, --threads and --quiet: the same for every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from tests.cli.conftest import RANDOM, Run
from tests.cli.streams import stdin_of

COMMANDS: dict[str, tuple[Any, ...]] = {
    "fit": ("fit", "vectors.npy", "--bits", 67, *RANDOM, "-o", "model"),
    "encode": ("encode", "model", "vectors.npy", "-o", "codes"),
    "index": ("index", "codes", "-o", "index"),
    "search": ("search", "index", "queries.npy", "-m", "model", "-o", "found.npz"),
    "dedup": ("dedup", "texts.jsonl", "-o", "kept.jsonl"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_replaced_only_with_force(folder: Path, run: Run, name: str) -> None:
    lines = [json.dumps({"text": f"a text of number {i} and some more words"}) for i in range(9)]
    Path("texts.jsonl").write_text("\n".join(lines))
    command = COMMANDS[name]
    out = Path(str(command[-1]))
    out.write_bytes(b"precious")
    if name != "encode":  # whose model was made before
        done = run(*command)
        assert done.code == 2
        assert f"'--out': {out} is there already. Give --force to replace it" in done.err
        assert out.read_bytes() == b"precious"
    if name == "index":
        assert run("encode", "model", "vectors.npy", "-o", "codes", "--force").code == 0
    done = run(*command, "--force")
    assert done.code == 0, done.err
    assert out.read_bytes() != b"precious"


def test_corrections_are_not_replaced_either(folder: Path, run: Run) -> None:
    Path("kept").write_bytes(b"precious")
    command = ("encode", "model", "vectors.npy", "-o", "new", "--corrections", "kept")
    done = run(*command)
    assert done.code == 2
    assert "'--corrections': kept is there already" in done.err
    assert not Path("new").exists()
    assert run(*command, "--force").code == 0
    assert Path("kept").read_bytes() != b"precious"


def test_an_interrupted_encoding_that_replaces_continues_with_the_same_command(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.io.partial import PartialFile

    right = Path("codes").read_bytes()
    monkeypatch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 7 * 17 * 4)
    monkeypatch.setattr("bitkin.hashers.encoding._SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    checkpoint = PartialFile.checkpoint

    def interrupted(self: PartialFile) -> None:
        checkpoint(self)
        if self.rows_done == 70:
            raise KeyboardInterrupt

    command = ("encode", "model", "vectors.npy", "-o", "codes", "--force")
    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "checkpoint", interrupted)
        assert run(*command).code != 0
    assert Path("codes").read_bytes() == right  # until the new ones are whole
    assert run(*command[:-1]).code == 2
    [said] = run(*command, "--json").objects
    assert said["resumed_at"] == 70
    assert Path("codes").read_bytes() == right


def test_quiet_prints_results_and_warnings_alone(folder: Path, run: Run) -> None:
    for name in ("fit", "encode", "index"):
        done = run(*COMMANDS[name], "--force", "--quiet")
        assert (done.code, done.out, done.err) == (0, "", "")
    assert "neighbours" in run("search", "index", "codes", "--quiet").out
    assert len(run(*COMMANDS["index"], "--force", "--quiet", "--json").objects) == 1
    assert "next: " in run(*COMMANDS["index"], "--force").out  # it holds for one command
    rows = np.load("vectors.npy")
    rows[3] = np.nan
    with stdin_of(rows.tobytes()):
        done = run("stream", "--dim", 17, "--bits", 8, "-o", "s", "--state", "t", "--quiet")
    assert done.code == 0
    assert done.err.startswith("bitkin: warning: vector 3 is not finite")
    assert len(done.err.splitlines()) == 1


def test_a_stream_is_begun_again_by_force(folder: Path, run: Run) -> None:
    rows = np.load("vectors.npy")
    for more in ((), ("--force",)):
        with stdin_of(rows.tobytes()):
            done = run("stream", "--dim", 17, "--bits", 8, "-o", "s", "--state", "t", *more)
        assert done.code == 0
        assert Path("s").stat().st_size == len(rows)


def test_threads_hold_for_one_command(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    load = bitkin.load

    def noting(*arguments: Any, **options: Any) -> Any:
        seen.append(bitkin.get_threads())
        return load(*arguments, **options)

    before = bitkin.get_threads()
    monkeypatch.setattr("bitkin._load.load", noting)
    assert run(*COMMANDS["index"], "--force", "--threads", 3).code == 0
    assert run(*COMMANDS["index"], "--force").code == 0
    assert seen == [3, before]
    assert bitkin.get_threads() == before
    done = run(*COMMANDS["index"], "--threads", 0)
    assert done.code == 2
    assert "--threads" in done.err
