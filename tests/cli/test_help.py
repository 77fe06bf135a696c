"""What the program says about itself, and how quickly."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import bitkin
from bitkin.cli.app import app
from bitkin.hashers.projection.registry import PROJECTIONS, ROTATIONS, STREAM_ROTATIONS
from tests.cli.conftest import Run

COMMANDS = [
    "demo", "fit", "encode", "index", "search", "diagnose", "compare", "recommend", "evaluate",
    "dedup", "stream", "serve", "papers", "info", "doctor", "warmup", "classify", "collection",
]  # fmt: skip
HEAVY = {"numpy", "numba", "sklearn", "scipy", "matplotlib", "pyarrow", "h5py", "pandas"}


def example_in(text: str) -> str:
    found = re.search(r"Example:\s(.*?)\n\n", text, flags=re.DOTALL)
    assert found is not None
    return " ".join(found.group(1).replace("\\\n", " ").split())


def examples_in(text: str) -> list[str]:
    """All examples of a help text, as they are printed."""
    return re.findall(r"^  Example:\s+(.*?)\n\n", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(run: Run, command: str, option: str) -> None:
    done = run(command, option)
    assert (done.code, done.err) == (0, "")
    assert example_in(done.out).startswith(f"bitkin {command}")


def test_the_help_of_all_lists_every_command_and_has_an_example(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    assert "Example:" in done.out
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", done.out, flags=re.MULTILINE)


def test_the_examples_of_the_help_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("vectors.npy", rng.standard_normal((65, 7)))
    np.save("queries.npy", rng.standard_normal((7, 7)))
    chain = example_in(run("--help").out).split(" && ")
    assert len(chain) == 4
    for example in [
        *chain,
        *(example_in(run(name, "-h").out) for name in ("fit", "encode", "index", "search")),
    ]:
        program, *arguments = shlex.split(example)
        assert program == "bitkin"
        done = run(*arguments, *(["--force"] if "-o" in arguments else []))
        assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_can_be_copied_as_they_are_printed(run: Run, command: str) -> None:
    text = run(command, "--help").out
    assert text.count("Example:") == len(examples_in(text)) > 0
    for example in examples_in(text):
        lines = example.split("\n")
        assert all(len(line) <= 79 for line in lines)
        # a shell reads on after a backslash and after &&, and nowhere else
        assert all(line.endswith((" \\", " &&")) for line in lines[:-1])
        assert not lines[-1].endswith((" \\", " &&"))


def test_summaries_of_commands_are_whole_sentences(run: Run) -> None:
    for group in ([], ["classify"], ["collection"]):
        listed = run(*group, "--help").out.split("Commands:\n")[1]
        sentences = re.sub(r"\n {4,}", " ", listed).splitlines()
        assert len(sentences) >= 3
        assert all(sentence.endswith(".") and "..." not in sentence for sentence in sentences)


def test_the_command_line_names_every_suffix_that_can_be_read(run: Run) -> None:
    from bitkin.io.vectors.formats import _FORMATS

    said = " ".join(run("fit", "--help").out.split())
    for suffix in _FORMATS:
        assert re.search(rf"{re.escape(suffix.removesuffix('.gz'))}\b", said)


def test_the_version(run: Run) -> None:
    done = run("--version")
    assert (done.code, done.out) == (0, f"bitkin {bitkin.__version__}\n")


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_module_runs_as_a_program() -> None:
    done = shell("-m", "bitkin", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")
    assert "Commands:" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["fitt"], *([name, "-h"] for name in COMMANDS)]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['bitkin', *{arguments!r}]\n"
        "from bitkin.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print('loaded', *{name.split('.')[0] for name in sys.modules})"
    )
    loaded = set(shell("-c", code).stdout.splitlines()[-1].split())
    assert {"loaded", "bitkin", "typer"} <= loaded
    assert not loaded & HEAVY


def test_help_takes_half_a_second_of_a_processor_at_most() -> None:
    def seconds() -> float:
        before = os.times()
        shell("-m", "bitkin", "--help")
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])  # of children: what else runs does not count

    assert min(seconds() for _ in range(5)) < 0.5


def test_without_typer_the_install_line_is_printed() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom bitkin.__main__ import main\nmain()"
    done = shell("-c", code)
    assert done.returncode == 1
    assert done.stderr == "bitkin: the command line needs typer: pip install 'bitkin[cli]'\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_completion_script(name: str) -> None:
    program = Path(sys.executable).with_name("bitkin")
    if not program.exists():
        pytest.skip("the program is not installed beside this Python")
    done = shell(str(program), _BITKIN_COMPLETE=f"source_{name}")
    assert done.returncode == 0
    assert "_BITKIN_COMPLETE=complete_" in done.stdout.replace('"', "")


def test_completion_completes_commands_and_options() -> None:
    program = str(Path(sys.executable).with_name("bitkin"))
    if not Path(program).exists():
        pytest.skip("the program is not installed beside this Python")

    def completed(words: str) -> list[str]:
        at = str(len(shlex.split(words)) - 1)
        done = shell(program, _BITKIN_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=at)
        return done.stdout.split()

    assert completed("bitkin e") == ["encode", "evaluate"]
    assert completed("bitkin d") == ["demo", "diagnose", "dedup", "doctor"]
    assert "--projection" in completed("bitkin fit --p")


ARGUMENTS = {
    "fit": ["x.npy", "-o", "z"],
    "index": ["x", "-o", "z"],
    "search": ["x", "y"],
    "diagnose": ["x.npy"],
    "compare": ["x.npy"],
    "recommend": ["x.npy"],
    "evaluate": ["x", "--truth", "y"],
    "dedup": ["x.jsonl"],
    "stream": [],
}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("fit", option) for option in ("--method", "--projection", "--rotation", "--sampling")),
        *(("fit --method wta", option) for option in ("--densify", "--layout")),
        ("index", "--kind"),
        ("search", "--stage"),
        ("search", "--metric"),
        ("diagnose", "--metric"),
        ("compare", "--metric"),
        ("recommend", "--metric"),
        ("evaluate", "--measure"),
        ("evaluate", "--metric"),
        ("dedup", "--format"),
        ("dedup", "--shingle"),
        ("stream", "--format"),
        ("stream", "--rotation"),
    ],
)
def test_an_option_completes_the_words_that_it_takes(run: Run, command: str, option: str) -> None:
    name, *before = command.split()
    program: Any = typer.main.get_command(app)
    known = program.commands[name]
    context = known.make_context(name, [], resilient_parsing=True)
    (parameter,) = (found for found in known.params if option in found.opts)
    offered = {item.value for item in parameter.shell_complete(context, "")}
    refused = " ".join(run(name, *before, option, "nonsense", *ARGUMENTS[name]).err.split())
    assert offered
    assert set(re.findall(r"[\w-]+", refused.split("is not one of ")[1].split(".")[0])) == offered


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        ("fit", "--projection", [*PROJECTIONS]),
        ("fit", "--rotation", [*ROTATIONS, "none"]),
        ("stream", "--rotation", [*STREAM_ROTATIONS, "none"]),
    ],
)
def test_the_help_of_an_option_names_all_that_it_takes(
    run: Run, command: str, option: str, names: list[str]
) -> None:
    text = " ".join(run(command, "--help").out.split())
    help_text = text.split(f" {option} ")[-1].split(" --")[0]
    for name in names:
        assert name in help_text
