"""A stream that fails before its first vector leaves nothing behind, and one that never began is in
nobody's way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import BitkinError, FileAccessError, InvalidInputError
from bitkin.io.growing import GrowingFile
from bitkin.io.writer import lock
from bitkin.stream_files import StreamRun
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.cli.streams import files_in, stdin_of

X = np.random.default_rng(7).standard_normal((60, 13)).astype("f4")
FILES: dict[str, Any] = {"out": "codes", "state": "state", "corrections": "kept"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new_hasher(n_bits: int = 7) -> bitkin.ProjectionHash:
    return bitkin.ProjectionHash(n_bits, projection="opast", rotation="random")


@pytest.mark.parametrize(
    "options, stdin, words",
    [
        (["--dim", 13, "--bits", 20], X.tobytes(), "Ask for at most 12 bits."),
        (["--dim", 13], X.tobytes()[:50], "stdin ends in the middle of a vector"),
        ([], X.tobytes(), "--dim is missing"),
        (["--dim", 13, "--corrections", "no/kept"], X.tobytes(), "no/kept cannot be written"),
    ],
)
def test_a_command_that_fails_at_once_leaves_no_files_and_can_be_tried_again(
    run: Run, options: list[object], stdin: bytes, words: str
) -> None:
    with stdin_of(stdin):
        failed = run("stream", "--corrections", "kept", "-o", "codes", "--state", "state", *options)
    assert failed.code == 1
    assert words in failed.err
    assert not list(Path().iterdir())
    with stdin_of(X.tobytes()):
        assert run("stream", "--dim", 13, "--bits", 9, "-o", "codes", "--state", "state").code == 0


def test_advice_for_too_many_bits_names_nothing_that_a_stream_cannot_have(run: Run) -> None:
    with stdin_of(X.tobytes()):
        failed = run("stream", "--dim", 13, "--bits", 13, "-o", "codes")
    assert "Ask for at most 12 bits. Only models that do not follow a stream can" in failed.err
    assert "fit" not in failed.err


def test_what_was_there_before_a_failure_stays() -> None:
    Path("codes").touch()
    Path("codes.epochs").mkdir()
    Path("codes.epochs/notes.txt").write_text("mine")
    before = files_in(Path())
    with StreamRun(new_hasher(20), **FILES) as run, pytest.raises(InvalidInputError):
        run.encode(X)
    assert files_in(Path()) == before


def test_a_run_that_fails_after_its_first_vector_keeps_what_it_has() -> None:
    words = "vector 3 of the stream is not finite"
    with (
        StreamRun(new_hasher(), strict=True, **FILES) as run,
        pytest.raises(InvalidInputError, match=words),
    ):
        run.encode(np.where(np.arange(60)[:, None] == 3, np.nan, X))
    assert run.position.n_vectors == 3
    with StreamRun(new_hasher(), **FILES) as again:
        assert (again.resumed, again.encode(X, from_start=True)) == (True, 57)


def test_a_second_try_in_the_same_run_keeps_what_it_wrote() -> None:
    with StreamRun(new_hasher(), **FILES) as run:
        with pytest.raises(BitkinError):
            run.encode_file("no such file", dim=13)
        assert run.encode(X) == 60
    assert Path("codes").stat().st_size == 60


@pytest.mark.parametrize("others", [{}, {"out": "other"}, {"corrections": None}])
def test_a_stream_that_took_nothing_may_begin_with_other_settings(others: dict[str, Any]) -> None:
    with StreamRun(new_hasher(), **FILES):
        pass
    with StreamRun(new_hasher(9), **(FILES | others)) as run:
        assert (run.resumed, run.encode(X)) == (False, 60)
    with StreamRun(new_hasher(9), **(FILES | others)) as again:
        assert (again.resumed, again.position.n_vectors) == (True, 60)


def test_a_killed_start_whose_output_is_elsewhere_is_not_forgotten() -> None:
    with StreamRun(new_hasher(), **FILES):
        pass
    Path("codes").write_bytes(b"codes that a killed run wrote after its start was saved")
    before = files_in(Path())
    with pytest.raises(InvalidInputError, match="out was codes, now it is other"):
        StreamRun(new_hasher(), "other", state="state")
    assert files_in(Path()) == before
    with StreamRun(new_hasher(9), **FILES) as run:  # into the same files: cut back, as ever
        assert run.encode(X) == 60
    assert Path("codes").stat().st_size == 120


def test_the_start_of_a_running_stream_is_not_taken_by_another() -> None:
    with StreamRun(new_hasher(), **FILES) as run:
        before = files_in(Path())
        with pytest.raises(FileAccessError, match="codes is being written by another process"):
            StreamRun(new_hasher(9), "other", state="state")
        assert files_in(Path()) == before
        assert run.encode(X) == 60


def test_a_file_that_was_removed_by_whoever_had_it_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = GrowingFile("codes")

    def lock_late(file: Any, path: Any) -> None:  # the other one ends between opening and locking
        monkeypatch.setattr("bitkin.io.growing.lock", lock)
        first.remove_if_new()
        first.close()
        lock(file, path)

    monkeypatch.setattr("bitkin.io.growing.lock", lock_late)
    with GrowingFile("codes") as second:
        second.append(b"kept")
    assert Path("codes").read_bytes() == b"kept"
