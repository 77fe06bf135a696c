"""Stdout: `-o -` is it where text comes out, else one clear line; and what happens where it cannot
be written.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.__main__ import main
from bitkin.cli.output import checked_stdout
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
    require_usage_error(
        done, f"Invalid value for '{'--out' if command[-2] == '-o' else command[-2]}'"
    )
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
    assert (
        run(
            "classify", "train", "t.jsonl", "--text", "about", "--path", "all", "-o", "m", *FAST
        ).code
        == 0
    )
    bars: list[Any] = []
    monkeypatch.setattr("bitkin.cli.classify.progress_bar", lambda *what: bars.append(what))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert len(run("classify", "predict", "m", "t.jsonl", "--text", "about").objects) == 33
    assert bars == []


FULL = "bitkin: stdout cannot be written: No space left on device.\n"
CLOSED = "bitkin: stdout is closed. Send it to /dev/null where nobody is to read it.\n"
needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full"
)


def commands() -> list[Any]:
    """Every command that prints, in a folder with all that it needs."""
    text = ("--text", "about")
    listed: list[tuple[Any, ...]] = [
        ("--version",),
        ("--help",),
        ("search", "--help"),
        ("fit", "vectors.npy", "-o", "another", "--bits", 8),
        ("encode", "model", "vectors.npy", "-o", "more", "--fresh"),
        ("encode", "model", "vectors.npy", "-o", "more", "--fresh", "--json"),
        ("index", "codes", "-o", "other"),
        ("search", "index", "queries.npy", "-m", "model"),
        ("search", "index", "queries.npy", "-m", "model", "--json"),
        ("search", "index", "queries.npy", "-m", "model", "--vectors", "vectors.npy", "--explain"),
        ("dedup", "t.jsonl", "--field", "about"),
        ("doctor", "--no-speed"),
        ("classify", "train", "t.jsonl", *text, "--path", "all", "-o", "n", *FAST),
        ("classify", "predict", "classes", "t.jsonl", *text),
        ("classify", "predict", "classes", "t.jsonl", *text, "-o", "predictions"),
        ("classify", "evaluate", "classes", "t.jsonl", *text, "--path", "all"),
        ("stream", "--state", "state", "--position", "vectors"),
    ]
    return [pytest.param(command, id=" ".join(map(str, command))) for command in listed]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything, made once."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BITKIN_QUIET", "1")
        np.save("vectors.npy", rng.standard_normal((203, 17)).astype(np.float32))
        np.save("queries.npy", rng.standard_normal((9, 17)).astype(np.float32))
        write_lines("t.jsonl", records(60, 0))
        hasher = bitkin.ProjectionHash(67, projection="random", rotation=None).fit(
            np.load("vectors.npy")
        )
        codes = hasher.encode(np.load("vectors.npy"))
        index = bitkin.FlatIndex(codes.spec)
        index.add(codes)
        for thing, name in ((hasher, "model"), (codes, "codes"), (index, "index")):
            thing.save(name)
        train = [
            "classify",
            "train",
            "t.jsonl",
            "--text",
            "about",
            "--path",
            "all",
            "-o",
            "classes",
            *FAST,
        ]
        stream = [
            "stream",
            "--dim",
            "17",
            "--bits",
            "4",
            "-o",
            "streamed",
            "--state",
            "state",
            "--epochs-to",
            "epochs",
        ]
        for arguments, stdin in ((train, b""), (stream, np.load("vectors.npy").tobytes())):
            done = subprocess.run(
                [sys.executable, "-m", "bitkin", *map(str, arguments)],
                input=stdin,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return folder


Printed = Callable[..., tuple[int, str]]


@pytest.fixture
def printed(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Printed:
    """Run the whole program in this process, in a copy of `made`, with another stdout; return exit
    code and stderr.
    """
    folder = shutil.copytree(made, tmp_path / "made")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BITKIN_QUIET", "1")

    def call(out: Any, *arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["bitkin", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdout", out)
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        code: Any = end.value.code
        return code or 0, capfd.readouterr().err

    return call


@pytest.mark.parametrize("command", commands())
def test_a_stdout_that_is_not_utf8_gets_what_it_can_show(
    printed: Printed, command: tuple[Any, ...]
) -> None:
    # as of PYTHONIOENCODING=ascii, and of LC_ALL=C
    force = ["--force"] if "-o" in command else []
    for number, errors in enumerate(("strict", "surrogateescape")):
        with Path(f"out{number}").open("w", encoding="ascii", errors=errors) as out:
            assert printed(out, *command, *force) == (0, "")
            assert out.errors == errors
        # Typer's own way
        text = Path(f"out{number}").read_text(encoding="utf-8" if "--help" in command else "ascii")
        assert text.strip()
        if command[0] == "search" and "--json" not in command and "--help" not in command:
            assert "?s per query" in text  # µs


@needs_full
@pytest.mark.parametrize("command", commands())
@pytest.mark.parametrize("buffering", ["buffered", "unbuffered"])
def test_a_full_stdout_is_one_clear_line(
    printed: Printed, command: tuple[Any, ...], buffering: str
) -> None:
    raw: Any = Path("/dev/full").open("wb", buffering=0 if buffering == "unbuffered" else -1)  # noqa: SIM115
    with io.TextIOWrapper(raw, encoding="utf-8", write_through=buffering == "unbuffered") as full:
        assert printed(full, *command) == (1, FULL)


@pytest.mark.parametrize("command", commands())
def test_a_reader_that_has_gone_ends_the_program_quietly(
    printed: Printed, command: tuple[Any, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        assert printed(pipe, *command) == (1, "")


@pytest.mark.parametrize("command", commands())
def test_a_closed_stdout_is_one_clear_line(printed: Printed, command: tuple[Any, ...]) -> None:
    before = sorted(Path().iterdir())
    assert printed(None, *command) == (1, CLOSED)
    assert sorted(Path().iterdir()) == before


@needs_full
def test_wrong_usage_stays_wrong_usage_whatever_stdout_is(printed: Printed) -> None:
    with Path("/dev/full").open("w") as full:
        code, err = printed(full, "encoed")
    assert code == 2
    assert "Did you mean 'encode'?" in err


@pytest.mark.parametrize(
    ("redirection", "environment", "code", "err"),
    [
        ("> out", {"PYTHONIOENCODING": "ascii"}, 0, ""),
        ("> out", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, 0, ""),
        pytest.param("> /dev/full", {}, 1, FULL, marks=needs_full),
        pytest.param("> /dev/full", {"PYTHONUNBUFFERED": "1"}, 1, FULL, marks=needs_full),
        (">&-", {}, 1, CLOSED),
        ("| true", {}, 1, ""),
    ],
)
def test_a_shell_sees_the_same(
    made: Path, tmp_path: Path, redirection: str, environment: dict[str, str], code: int, err: str
) -> None:
    command = f'"$PYTHON" -m bitkin index codes -o "$OUT" {redirection}'
    if redirection.startswith("|"):
        command = (
            f'set -o pipefail; (sleep 0.3; "$PYTHON" -m bitkin index codes -o "$OUT") {redirection}'
        )
    known = {
        **os.environ,
        "PYTHON": sys.executable,
        "OUT": str(tmp_path / "index"),
        "BITKIN_QUIET": "1",
    }
    done = subprocess.run(
        ["bash", "-c", command.replace("> out", f"> {tmp_path}/out")],
        cwd=made, env=known | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, err)


@needs_full
@pytest.mark.parametrize("form", ["raw", "jsonl"])
def test_codes_of_a_stream_that_cannot_be_written_are_one_clear_line(made: Path, form: str) -> None:
    vectors = np.load(made / "vectors.npy").tobytes()
    command = [
        sys.executable,
        "-m",
        "bitkin",
        "stream",
        "--dim",
        "17",
        "--bits",
        "4",
        "--output-format",
        form,
    ]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, input=vectors, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode().endswith(FULL)
    assert "Traceback" not in done.stderr.decode()


def test_a_file_name_that_cannot_be_decoded_goes_out_byte_for_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for errors, expected in (
        ("strict", b"a?b ?s\n"),
        ("surrogateescape", b"a\xffb ?s\n"),
        ("backslashreplace", None),
    ):
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding="ascii", errors=errors, newline="\n")
        monkeypatch.setattr(sys, "stdout", out)
        with checked_stdout():
            print("a\udcffb µs")
        assert out.errors == errors
        assert raw.getvalue() == (expected or b"a\\udcffb \\xb5s\n")


@pytest.mark.parametrize("unbuffered", [False, True])
def test_an_error_about_a_file_adds_nothing_to_stdout(
    unbuffered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", write_through=unbuffered, newline="\n")
    monkeypatch.setattr(sys, "stdout", out)

    def fails() -> None:
        print("so far")
        (tmp_path / "missing").read_bytes()

    with pytest.raises(FileNotFoundError), checked_stdout():
        fails()
    assert raw.getvalue() == b"so far\n"
