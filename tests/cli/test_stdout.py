"""`-o -` is stdout where text comes out, else one clear line; no command makes a file called `-`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_classify import FAST, records, write_lines
from tests.cli.test_failures import require_usage_error


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "vectors.npy", "-o", "-"),
        ("encode", "model", "vectors.npy", "-o", "-"),
        ("index", "codes", "-o", "-"),
        ("search", "index", "queries.npy", "-m", "model", "-o", "-"),
        ("classify", "train", "t.jsonl", "--label", "kind", "-o", "-"),
        ("demo", "-o", "-"),
        ("dedup", "t.jsonl", "-o", "-"),
        ("dedup", "t.jsonl", "--report", "-"),
        ("dedup", "t.jsonl", "--pairs", "-"),
        ("stream", "--state", "-"),
        ("stream", "--corrections", "-"),
    ],
    ids=" ".join,
)
def test_what_cannot_go_to_stdout_says_so(folder: Path, run: Run, command: tuple[str, ...]) -> None:
    write_lines("t.jsonl", records(9, 0))
    done = run(*command)
    require_usage_error(done, f"Invalid value for '{'--out' if command[-2] == '-o' else command[-2]}'")
    assert ("cannot write to stdout. Give a file." in done.err) == (command[0] != "search")
    assert done.out == ""
    assert not Path("-").exists()


def test_predictions_go_to_stdout_unless_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("t.jsonl", records(103, 0))
    text = ("--text", "about")
    assert run("classify", "train", "t.jsonl", *text, "--path", "all", "-o", "m", *FAST).code == 0
    assert run("classify", "predict", "m", "t.jsonl", *text, "-o", "p").code == 0
    want = [json.loads(line) for line in Path("p").read_text().splitlines()]
    assert len(want) == 103
    for out in ((), ("-o", "-"), ("--json",)):
        done = run("classify", "predict", "m", "t.jsonl", *text, *out)
        assert (done.code, done.err, done.objects) == (0, "", want)
    assert not Path("-").exists()
    assert done.out == Path("p").read_text()


def test_a_bar_is_not_drawn_into_predictions_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("t.jsonl", records(33, 0))
    assert run("classify", "train", "t.jsonl", "--text", "about", "--path", "all", "-o", "m", *FAST).code == 0
    bars: list[Any] = []
    monkeypatch.setattr("bitkin.cli.classify.progress_bar", lambda *what: bars.append(what))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert len(run("classify", "predict", "m", "t.jsonl", "--text", "about").objects) == 33
    assert bars == []
